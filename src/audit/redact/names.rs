//! Which names stand for secrets, and which values after such a name are none.
//!
//! Purpose: F93's markers (SECRET, TOKEN, PASSWORD, PASSWD, API_KEY, ACCESS_KEY, PRIVATE_KEY, KEY,
//! CREDENTIAL, AUTH, PASS) without its false positives: a marker counts as a whole word of an
//! identifier that is split at `_`, `-`, `.` and camel humps, so that `monkey`, `author`, `compass`
//! and `bypass` are left alone. Pure.

/// Words that make a name secret wherever they stand in it.
const STRONG: &[&str] = &[
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authkey",
    "pwd",
    "pw",
    "bearer",
    "jwt",
    "cookie",
    "sshpass",
    "requirepass",
    "masterauth",
    "passwort",
];

/// Words that are strong also when something is glued before them, as in `PGPASSWORD`.
const GLUED: &[&str] = &["password", "passwd", "passphrase", "secret", "apikey", "token"];

/// Words before `key` that make it a secret one.
const KEY_OF: &[&str] = &[
    "api",
    "access",
    "private",
    "secret",
    "encryption",
    "encrypt",
    "signing",
    "auth",
    "master",
    "account",
    "storage",
    "service",
    "client",
    "shared",
    "webhook",
    "deploy",
    "admin",
    "app",
    "hmac",
    "session",
    "license",
    "subscription",
    "root",
    "unseal",
    "recovery",
];

/// Last words that say the value is about a secret, not the secret.
const ABOUT: &[&str] = &[
    "file",
    "path",
    "dir",
    "directory",
    "url",
    "uri",
    "name",
    "id",
    "ids",
    "type",
    "length",
    "len",
    "size",
    "count",
    "limit",
    "ttl",
    "expiry",
    "expires",
    "age",
    "policy",
    "mode",
    "format",
    "prefix",
    "store",
    "helper",
    "algorithm",
    "algo",
    "version",
    "field",
    "column",
    "ring",
    "server",
    "method",
    "provider",
    "endpoint",
    "host",
    "port",
    "user",
    "username",
    "hint",
    "prompt",
    "stdin",
    "fd",
    "env",
    "command",
    "jar",
    "timeout",
    "header",
];

/// First words that switch something off.
const NOT: &[&str] =
    &["no", "non", "without", "disable", "skip", "ignore", "show", "list", "has", "is", "with"];

/// How sure a name makes us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No marker.
    Plain,
    /// `key`, `auth` or `pass` alone: the value has a say.
    Weak,
    /// A secret.
    Strong,
}

/// Judges an identifier: an option without its dashes, a variable, a JSON or header name.
pub(super) fn kind(name: &str) -> Kind {
    if matches!(name, "PWD" | "OLDPWD") || name.is_empty() || name.len() > 128 {
        return Kind::Plain;
    }
    let words = words(name);
    let first = words.first().map_or("", String::as_str);
    let last = words.last().map_or("", String::as_str);
    if NOT.contains(&first) || ABOUT.contains(&last) {
        return Kind::Plain;
    }
    let glued = |word: &str| GLUED.iter().any(|marker| word.len() > marker.len() && word.ends_with(marker));
    if words.iter().any(|word| STRONG.contains(&word.as_str()) || glued(word)) {
        return Kind::Strong;
    }
    let mut before = "";
    for word in &words {
        if word == "key" && KEY_OF.contains(&before) {
            return Kind::Strong;
        }
        before = word;
    }
    let variable = name.len() > 3 && !name.bytes().any(|byte| byte.is_ascii_lowercase() || byte == b'-');
    match last {
        // DB_PASS=…, SITE_KEY=…, NPM_AUTH=…: nobody gives a variable such a name for another use.
        "pass" | "key" | "auth" if variable && words.len() > 1 => Kind::Strong,
        "pass" | "key" | "auth" => Kind::Weak,
        _ => Kind::Plain,
    }
}

/// Whether `value`, standing after a name of this kind, is plainly not a secret.
pub(super) fn harmless(kind: Kind, value: &str) -> bool {
    let value = value.trim_matches(|character| matches!(character, '"' | '\''));
    if value.is_empty() || is_reference(value) || is_path(value) || value.starts_with("[REDACTED") {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    const SWITCH: &[&str] = &[
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "none",
        "null",
        "auto",
        "basic",
        "bearer",
        "digest",
        "ntlm",
        "oauth",
        "oauth2",
        "kerberos",
        "negotiate",
        "stdin",
        "prompt",
        "-",
    ];
    if SWITCH.contains(&lower.as_str()) {
        return true;
    }
    match kind {
        Kind::Plain => true,
        Kind::Strong => false,
        // `sort --key=2,2n`, `ffmpeg -pass 1`, `jq --key name`: short, or without a digit.
        Kind::Weak => value.len() < 6 || (value.len() < 12 && !value.contains(|c: char| c.is_ascii_digit())),
    }
}

/// `$VAR`, `${VAR}`, `$(cmd)`, `<token>`, `{{ x }}`, `***`, `%VAR%`: names a secret, is none.
fn is_reference(value: &str) -> bool {
    let variable = value.strip_prefix('$').is_some_and(|rest| {
        let rest = rest.trim_matches(|c| matches!(c, '{' | '}' | '(' | ')'));
        rest.len() < 64
            && rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    variable
        || (value.starts_with('<') && value.ends_with('>'))
        || (value.starts_with("{{") && value.ends_with("}}"))
        || value.bytes().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X'))
}

fn is_path(value: &str) -> bool {
    const ROOTS: &[&str] = &[
        "./",
        "../",
        "~/",
        "/etc/",
        "/home/",
        "/run/",
        "/var/",
        "/tmp/",
        "/work",
        "/usr/",
        "/opt/",
        "/root/",
        "/dev/",
        "/mnt/",
        "/srv/",
        "/proc/",
        "/data/",
        "/app/",
        "/secrets/",
        "file:",
        "env:",
        "id=",
        "type=",
        "@/",
        "@./",
    ];
    ROOTS.iter().any(|root| value.starts_with(root))
}

/// Lower-case words of an identifier, digits at their ends gone.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let next_lower = characters.peek().is_some_and(char::is_ascii_lowercase);
        let hump = character.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && next_lower));
        if hump || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (character.is_alphanumeric(), words.last_mut()) {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words
        .iter()
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_whole_words() {
        for name in [
            "password",
            "DB_PASSWORD",
            "PGPASSWORD",
            "accessToken",
            "client-secret",
            "API_KEY",
            "x-api-key",
            "APIKey",
            "private_key",
            "AWS_SECRET_ACCESS_KEY",
            "MYSQL_PWD",
            "db_passwd",
            "credentials",
            "NPM_AUTH",
            "DB_PASS",
            "SITE_KEY",
            "password2",
            "authToken",
            "Secret",
        ] {
            assert_eq!(kind(name), Kind::Strong, "{name}");
        }
        for name in ["key", "auth", "pass"] {
            assert_eq!(kind(name), Kind::Weak, "{name}");
        }
        for name in [
            "monkey",
            "author",
            "compass",
            "bypass",
            "PWD",
            "tokens",
            "max-tokens",
            "tokenize",
            "keyboard",
            "keys",
            "authority",
            "password-file",
            "TOKEN_URL",
            "no-password",
            "secure-heap",
            "passenger",
            "turkey",
            "AUTHOR",
            "COMPASS",
            "hockey",
            "key_id",
        ] {
            assert_eq!(kind(name), Kind::Plain, "{name}");
        }
    }

    #[test]
    fn values_that_name_a_secret_are_left_alone() {
        for value in ["$TOKEN", "${TOKEN}", "<token>", "/run/secrets/db", "true", "***", ""] {
            assert!(harmless(Kind::Strong, value), "{value}");
        }
        for value in ["hunter2", "$up3r secret", "123456", "/9j4AAQSk", "$ecret!"] {
            assert!(!harmless(Kind::Strong, value), "{value}");
        }
        assert!(harmless(Kind::Weak, "2,2n") && !harmless(Kind::Weak, "c3VwZXJzZWNyZXQ"));
    }
}
