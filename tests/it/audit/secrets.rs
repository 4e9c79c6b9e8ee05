//! No secret of the corpora stands in any byte of the log, whichever record and field it came through.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cofferdam::audit::{Audit, Context, Ending, Origin, RunEnd, Secrets};
use cofferdam::config::{AuditConfig, Sink};
use proptest::prelude::*;

use super::{argv, assert_valid, context, denied, end, open, origin, place, records, start, wait, whole};

const FORMS: &str = include_str!("../../corpora/redaction/forms.txt");

/// Splits a line of the corpus as a shell would, as far as the corpus needs it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
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

fn holds(bytes: &[u8], secret: &str) -> bool {
    let forms = [secret.to_owned(), STANDARD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn no_secret_of_the_corpus_is_in_any_byte_of_the_log(secret in "[a-z]{5}[A-Z0-9]{8}[a-z0-9]{3}") {
        // Left out: `--auth VALUE` says little, and the rule asks the value for more.
        let forms: Vec<&str> = FORMS.lines().filter(|form| !form.starts_with("tool --auth ")).collect();
        let (_dir, path) = place();
        let audit = open(&path).unwrap();
        wait(async {
            for form in &forms {
                let filled: Vec<String> = words(form).iter().map(|word| word.replace("@S@", &secret)).collect();
                let texts: Vec<&str> = filled.iter().map(String::as_str).collect();
                let command = argv(&texts);
                audit.run_denied(&context(), &denied(&command)).await.unwrap();
                let run = audit.run_start(&context(), &start(&command, &[])).await.unwrap();
                let facts = RunEnd {
                    executions: vec![filled.clone()],
                    executed: 1,
                    argv_fidelity: Some("observed"),
                    error_text: Some(format!("failed: --password {secret}")),
                    ..end(Ending::Exited(1))
                };
                audit.run_end(run, &facts).await.unwrap();
            }
        });
        drop(audit);
        prop_assert_eq!(whole(&path), forms.len() as u64 * 3);
        prop_assert!(!holds(&fs::read(&path).unwrap(), &secret));
    }
}

#[test]
fn a_value_that_the_server_knows_is_gone_wherever_it_stands() {
    let (_dir, path) = place();
    let secret = "correct horse battery";
    let mut secrets = Secrets::default();
    secrets.push(secret);
    let config = AuditConfig {
        redact: vec![regex::Regex::new("ticket-[0-9]+").unwrap()],
        ..AuditConfig::new(vec![Sink::File(path.clone())])
    };
    let audit = Audit::open(&config, Origin { secrets, ..origin() }).unwrap();
    let encoded = STANDARD.encode(format!("x {secret} y"));
    let context = Context {
        client_name: Some(format!("client {secret}")),
        request_id: Some(format!("\"{secret}\"")),
        tool: Some(secret.to_owned()),
        ..context()
    };
    let names = vec![secret.to_owned()];
    let command = argv(&["echo", secret, &encoded, "correct%20horse%20battery", "ticket-4711"]);
    wait(async {
        let run = audit.run_start(&context, &start(&command, &names)).await.unwrap();
        let facts = RunEnd { error_text: Some(format!("{secret} ticket-12")), ..end(Ending::Exited(1)) };
        audit.run_end(run, &facts).await.unwrap();
    });
    drop(audit);
    let bytes = fs::read(&path).unwrap();
    for gone in [secret, "horse", &STANDARD.encode(&secret[..18]), "ticket-4711", "ticket-12"] {
        assert!(!holds(&bytes, gone), "{gone}");
    }
    for record in records(&path) {
        assert_valid(&record);
        let rules: Vec<&str> =
            record["redactions"].as_array().unwrap().iter().filter_map(|rule| rule.as_str()).collect();
        assert!(rules.contains(&"known") && rules.contains(&"operator"), "{rules:?}");
        assert!(!record["redaction_hmacs"].as_array().unwrap().is_empty());
    }
}
