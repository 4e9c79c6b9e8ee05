//! The corpora of redaction: what must go in every form, and what must stay.

use super::*;

fn clean(arguments: &[&str]) -> (Vec<String>, Found) {
    let mut found = Found::default();
    let arguments: Vec<Cow<'_, str>> = arguments.iter().map(|text| Cow::Borrowed(*text)).collect();
    (argv(&arguments, &mut found), found)
}

fn one(argument: &str) -> String {
    text(argument, &mut Found::default())
}

/// Splits a line of the corpus as a shell would, as far as the corpus needs it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words
}

#[test]
fn every_pattern_compiles() {
    for format in FORMATS {
        Regex::new(format.pattern).unwrap_or_else(|error| panic!("{}: {error}", format.id));
        assert!(!format.needles.is_empty(), "{}", format.id);
    }
    for pattern in [&HEADERS, &ASSIGNED, &OPTIONS, &USERINFO, &USERTOKEN, &MEMBERS] {
        assert!(pattern.0.is_ok());
    }
}

#[test]
fn benign_commands_are_left_alone() {
    let corpus = include_str!("../../../tests/corpora/benign_commands.txt");
    let mut count = 0;
    for line in corpus.lines() {
        let words = words(line);
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        let (clean, found) = clean(&texts);
        assert_eq!(found.count, 0, "{line}\n{clean:?}");
        assert_eq!(clean, words);
        count += 1;
    }
    assert_eq!(count, 6_000);
}

#[test]
fn more_benign_commands_are_left_alone() {
    for line in [
        "sort --key=2,2n file",
        "git commit -m monkey --author=compass",
        "docker run -p 8080:80 nginx",
        "npm token list",
        "ffmpeg -pass 1 -i in.mp4",
        "docker build --secret id=x,src=/run/x .",
        "kubectl get secret db -o yaml",
        "ssh -i /home/u/.ssh/id_ed25519 git@github.com",
        "git clone ssh://git@github.com/o/r.git",
        "curl http://localhost:8080/a?page=2&sort=key",
        "env PWD=/work KEYBOARD=us",
        "grep -rn token: src",
        "find . -name *.key",
        "vault read --token-file /run/t",
        "mysql --password-file=/run/p",
        "gpg --list-secret-keys",
        "test --no-password x",
        "curl -H Accept:text/plain https://example.org",
        "jq .token file.json",
        "redis-cli get key:17",
        "tar --exclude=secret -cf x.tar .",
        "cp secret-plan.txt token.rs /tmp",
    ] {
        let words = words(line);
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        let (clean, found) = clean(&texts);
        assert_eq!(found.count, 0, "{line}: {clean:?}");
    }
}

/// Forms in which secrets stand in arguments. `@` is the secret; it is put in at run time, so that
/// nothing in this file looks like one.
const FORMS: &[&[&str]] = &[
    &["tool", "--password", "@"],
    &["tool", "--password=@"],
    &["tool", "-password", "@"],
    &["tool", "--api-key", "@"],
    &["tool", "--api_key=@"],
    &["tool", "--auth-token", "@"],
    &["tool", "--clientSecret", "@"],
    &["tool", "--secret-access-key=@"],
    &["tool", "--key", "@"],
    &["tool", "--auth", "@"],
    &["env", "DB_PASSWORD=@", "tool"],
    &["env", "PGPASSWORD=@", "psql"],
    &["env", "api_key=@", "tool"],
    &["env", "NPM_AUTH=@", "npm"],
    &["env", "SITE_KEY=@", "x"],
    &["docker", "run", "-e", "MYSQL_ROOT_PASSWORD=@", "mysql"],
    &["docker", "run", "-eDB_PASSWORD=@", "x"],
    &["docker", "login", "-u", "me", "-p", "@"],
    &["kubectl", "create", "secret", "generic", "x", "--from-literal=password=@"],
    &["mysql", "-uroot", "-p@"],
    &["sshpass", "-p", "@", "ssh", "host"],
    &["sshpass", "-p@", "ssh", "host"],
    &["redis-cli", "-a", "@"],
    &["curl", "-u", "user:@", "https://example.org"],
    &["curl", "--user", "user:@", "https://example.org"],
    &["curl", "-H", "Authorization: Bearer @", "https://example.org"],
    &["curl", "-H", "X-Api-Key: @", "https://example.org"],
    &["curl", "-H", "Cookie: session=@; a=b", "https://example.org"],
    &["curl", "-HPRIVATE-TOKEN: @", "https://example.org"],
    &["curl", "-d", "user=me&password=@", "https://example.org"],
    &["curl", "-d", "{\"user\":\"me\",\"password\":\"@\"}", "https://example.org"],
    &["curl", "-d", "{\"apiKey\": \"@\"}", "https://example.org"],
    &["curl", "https://me:@@example.org/x"],
    &["curl", "https://example.org/x?access_token=@"],
    &["curl", "https://example.org/x?a=1&sig=@"],
    &["curl", "https://example.org/x?X-Amz-Signature=@&b=2"],
    &["psql", "host=db user=me password=@ dbname=x"],
    &["psql", "postgresql://me:@@db:5432/x"],
    &["sh", "-c", "tool --password @ --verbose"],
    &["sh", "-c", "export API_TOKEN=@ && tool"],
    &["sh", "-c", "curl -H 'Authorization: Bearer @' https://example.org"],
    &["ldapsearch", "-D", "cn=x", "-w", "@"],
    &["7z", "a", "-p@", "x.7z"],
    &["openssl", "enc", "-pass", "pass:@"],
    &["helm", "registry", "login", "-p", "@"],
    &["twine", "upload", "-p", "@"],
    &["ssh-keygen", "-t", "ed25519", "-N", "@"],
    &["tool", "password: @"],
    &["terraform", "apply", "-var", "db_password=@"],
    &["terraform", "apply", "-var=db_password=@"],
    &["git", "-c", "http.extraheader=Authorization: Basic @", "fetch"],
];

#[test]
fn made_up_secrets_are_gone_in_every_form() {
    let secrets =
        [["hunt", "er2pass"].concat(), ["Zk9", "qLw8Rt5Yx2"].concat(), ["c2Vj", "cmV0LXZhbHVl9"].concat()];
    for form in FORMS {
        for secret in &secrets {
            // Only the first `@` of a URL is the place; the second is the separator.
            let filled: Vec<String> = form.iter().map(|part| part.replacen('@', secret, 1)).collect();
            let texts: Vec<&str> = filled.iter().map(String::as_str).collect();
            let (clean, found) = clean(&texts);
            assert!(!clean.join(" ").contains(secret.as_str()), "{form:?}: {clean:?}");
            assert!(found.count > 0 && !found.rules.is_empty());
        }
    }
}

#[test]
fn tokens_are_known_by_their_form() {
    let body = |length: usize| "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7".chars().cycle().take(length).collect::<String>();
    let upper = |length: usize| "ABCDEFGHJKLMNPQ234567".chars().cycle().take(length).collect::<String>();
    let hex = |length: usize| "0123456789abcdef".chars().cycle().take(length).collect::<String>();
    let made = [
        ("github", ["gh", "p_", &body(36)].concat()),
        ("github-pat", ["github", "_pat_", &body(60)].concat()),
        ("gitlab", ["gl", "pat-", &body(20)].concat()),
        ("aws-key-id", ["AK", "IA", &upper(16)].concat()),
        ("anthropic", ["sk-", "ant-api03-", &body(60)].concat()),
        ("openai", ["sk-", "proj-", &body(48)].concat()),
        ("slack", ["xox", "b-", &hex(12), "-", &body(24)].concat()),
        ("google-api-key", ["AI", "za", &body(35)].concat()),
        ("stripe", ["sk_", "live_", &body(24)].concat()),
        ("npm", ["npm", "_", &body(36)].concat()),
        ("pypi", ["pypi-", "AgE", &body(60)].concat()),
        ("huggingface", ["hf", "_", &body(34)].concat()),
        ("digitalocean", ["dop", "_v1_", &hex(64)].concat()),
        ("sendgrid", ["S", "G.", &body(22), ".", &body(43)].concat()),
        ("vault", ["hv", "s.", &body(24)].concat()),
        ("databricks", ["da", "pi", &hex(32)].concat()),
        ("shopify", ["shp", "at_", &hex(32)].concat()),
        ("grafana", ["gl", "sa_", &body(32), "_", &hex(8)].concat()),
        ("atlassian", ["ATA", "TT3", &body(60)].concat()),
        ("age", ["AGE-SECRET", "-KEY-1", &upper(58)].concat()),
        ("telegram", ["123456789", ":AA", &body(33)].concat()),
        ("jwt", ["ey", "J", &body(20), ".ey", "J", &body(20), ".", &body(30)].concat()),
        ("pem", ["-----BEGIN ", "PRIVATE KEY-----\n", &body(60), "\n-----END PRIVATE KEY-----"].concat()),
        ("terraform-cloud", [body(14).as_str(), ".atlas", "v1.", &body(60)].concat()),
        ("google-oauth", ["ya", "29.", &body(40)].concat()),
        ("docker-pat", ["dckr", "_pat_", &body(27)].concat()),
        ("crates-io", ["c", "io", &body(32)].concat()),
    ];
    for (id, secret) in made {
        for around in [["", ""], ["deploy ", " now"], ["x:", ""]] {
            let input = format!("{}{secret}{}", around[0], around[1]);
            let (clean, found) = clean(&["echo", &input]);
            assert!(!clean[1].contains(&secret), "{id}: {clean:?}");
            assert_eq!(found.rules.iter().copied().collect::<Vec<_>>(), [id], "{input}");
            assert!(clean[1].contains(&format!("[REDACTED:{id}]")));
        }
    }
}

#[test]
fn what_is_not_secret_stays_readable() {
    assert_eq!(one("--password=hunter2"), "--password=[REDACTED]");
    assert_eq!(one("DB_PASSWORD=hunter2"), "DB_PASSWORD=[REDACTED]");
    assert_eq!(one("https://me:hunter2@example.org/x"), "https://me:[REDACTED:url]@example.org/x");
    let query = one("https://example.org/?a=1&sig=abcdef&b=2");
    assert_eq!(query, "https://example.org/?a=1&sig=[REDACTED:query]&b=2");
    assert_eq!(one("password=$DB_PASSWORD"), "password=$DB_PASSWORD");
}

#[test]
fn behind_an_operator_another_program_begins() {
    for operator in ["|", "&&", ";"] {
        let (words, _) =
            clean(&["cat", "x", operator, "curl", "-u", "me:pass-word", operator, "mysql", "-phidden"]);
        assert_eq!(words.get(5).map(String::as_str), Some("[REDACTED:short-option]"), "{words:?}");
        assert_eq!(words.get(8).map(String::as_str), Some("-p[REDACTED:short-option]"), "{words:?}");
    }
    // An operator that is an argument hides nothing of what the program itself gives away.
    let (words, _) = clean(&["curl", "|", "-u", "me:pass-word"]);
    assert_eq!(words.get(3).map(String::as_str), Some("[REDACTED:short-option]"), "{words:?}");
}

#[test]
fn redacting_twice_changes_nothing() {
    for form in FORMS {
        let (first, _) = clean(form);
        let texts: Vec<&str> = first.iter().map(String::as_str).collect();
        assert_eq!(clean(&texts).0, first);
    }
}
