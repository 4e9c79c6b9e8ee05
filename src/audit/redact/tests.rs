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
    for format in formats::FORMATS {
        Regex::new(format.pattern).unwrap_or_else(|error| panic!("{}: {error}", format.id));
        assert!(!format.needles.is_empty(), "{}", format.id);
    }
    for pattern in [&HEADERS, &ASSIGNED, &OPTIONS, &USERINFO, &USERTOKEN, &MEMBERS, &SQL, &NETRC, &PIPED] {
        assert!(pattern.0.is_ok());
    }
    assert!(encoded::compiles());
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

/// Pseudo-random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn word(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }

    /// A secret as people and generators make them; none that shows by its form, which would be too easy.
    fn secret(&mut self) -> String {
        const LOWER: &str = "abcdefghijkmnpqrstuvwxyz";
        const ALNUM: &str = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        let long = 16 + self.below(24);
        match self.below(6) {
            0 => format!("{}{}", self.word(LOWER, 7), self.word("0123456789", 3)),
            1 => self.word("0123456789abcdef", 32),
            2 => self.word(ALNUM, long),
            3 => format!("{}-{}-{}", self.word(LOWER, 6), self.word(LOWER, 5), self.word("0123456789", 4)),
            4 => format!("{}_{}", self.word(ALNUM, 8), self.word(ALNUM, 14)),
            _ => format!("{}{}", self.word(ALNUM, 10), self.word("!+.~", 1)),
        }
    }
}

/// Fills every form with `each` secrets; gives how many there were and what was missed, by form.
fn corpus(forms: &str, each: usize, seed: u64) -> (usize, Vec<(String, usize)>) {
    let mut dice = Dice(seed);
    let (mut count, mut missed) = (0, Vec::new());
    for form in forms.lines() {
        assert!(form.contains("@S@"), "{form}");
        let mut here = 0;
        for _ in 0..each {
            let secret = dice.secret();
            let filled: Vec<String> = words(form).iter().map(|word| word.replace("@S@", &secret)).collect();
            let texts: Vec<&str> = filled.iter().map(String::as_str).collect();
            let (clean, found) = clean(&texts);
            count += 1;
            if clean.join(" ").contains(&secret) {
                here += 1;
            } else {
                assert!(found.count > 0 && !found.rules.is_empty());
            }
        }
        if here > 0 {
            missed.push((form.to_owned(), here));
        }
    }
    (count, missed)
}

fn rate(count: usize, missed: &[(String, usize)]) -> f64 {
    let missed: usize = missed.iter().map(|(_, here)| here).sum();
    1.0 - missed as f64 / count as f64
}

const FORMS: &str = include_str!("../../../tests/corpora/redaction/forms.txt");
/// Written from the manuals of the programs, before the tables that have to find them.
const HELD_OUT: &str = include_str!("../../../tests/corpora/redaction/held_out.txt");

#[test]
fn ninety_nine_of_a_hundred_generated_secrets_are_gone() {
    assert!(FORMS.lines().count() >= 60);
    let (count, missed) = corpus(FORMS, 30, 7);
    assert!(count >= 1_500, "{count}");
    assert!(rate(count, &missed) >= 0.99, "{:.4} {missed:#?}", rate(count, &missed));
}

#[test]
fn forms_from_manuals_are_found_as_well() {
    let (count, missed) = corpus(HELD_OUT, 10, 11);
    assert!(count >= 2_000, "{count}");
    println!("{:.4} of {count}, missed {missed:#?}", rate(count, &missed));
    assert!(rate(count, &missed) >= 0.99, "{:.4} {missed:#?}", rate(count, &missed));
}

#[test]
fn a_secret_in_base64_is_gone() {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let url = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let mut dice = Dice(3);
    for _ in 0..50 {
        let secret = dice.secret();
        for text in [
            format!("bob:{secret}"),
            format!("{{\"password\":\"{secret}\"}}"),
            format!("DB_PASSWORD={secret}\n"),
            format!("https://bob:{secret}@example.org/"),
        ] {
            for word in [encode(&text), url(&text)] {
                let (clean, found) = clean(&["tool", &format!("x {word} y")]);
                assert!(!clean.join(" ").contains(&word), "{text}: {clean:?}");
                assert!(found.rules.contains("base64"), "{text}: {:?}", found.rules);
            }
        }
    }
    for text in ["hello world, this is plain", "localhost:8080 is the port", "{\"name\":\"value\",\"n\":12}"]
    {
        assert_eq!(one(&encode(text)), encode(text), "{text}");
    }
}

#[test]
fn what_the_site_knows_goes_first_and_what_the_operator_names_last() {
    let mut secrets = Secrets::default();
    secrets.push("plain-looking-value");
    let patterns = [Regex::new("acme-[0-9]{4}").unwrap()];
    let own = Arc::new(Own::new(&secrets, &patterns, [3; 32]).unwrap());
    let mut found = Found::of(&own);
    assert_eq!(
        text("a plain-looking-value b acme-1234", &mut found),
        "a [REDACTED:known] b [REDACTED:operator]"
    );
    let encoded =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "x=plain-looking-value!");
    let shown = text(&encoded, &mut found);
    assert!(shown.contains("[REDACTED:known]"), "{shown}");
    assert_eq!(found.hashes[0], hash::of_value("plain-looking-value", &[3; 32]));
    assert_eq!(found.hashes.len(), 3);
}

#[test]
fn the_hash_is_that_of_the_value_alone() {
    let own = Arc::new(Own::new(&Secrets::default(), &[], [3; 32]).unwrap());
    for line in [
        "mysql -phunter2x",
        "tool --password hunter2x",
        "tool --password=hunter2x",
        "curl -d {\"token\":\"hunter2x\"}",
    ] {
        let mut found = Found::of(&own);
        let texts: Vec<Cow<'_, str>> = line.split(' ').map(Cow::Borrowed).collect();
        argv(&texts, &mut found);
        assert_eq!(found.hashes, [hash::of_value("hunter2x", &[3; 32])], "{line}");
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
    for form in FORMS.lines().chain(HELD_OUT.lines()) {
        let filled: Vec<String> =
            words(form).iter().map(|word| word.replace("@S@", "Zk9qLw8Rt5Yx2")).collect();
        let texts: Vec<&str> = filled.iter().map(String::as_str).collect();
        let (first, _) = clean(&texts);
        let texts: Vec<&str> = first.iter().map(String::as_str).collect();
        assert_eq!(clean(&texts).0, first);
    }
}
