//! Renderings: the shape that their schemas ask for, nothing that hides, no secret, bounded.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::audit::body::Site;
use crate::audit::chain::{Head, MAX_LINE};
use crate::audit::reading::{Colours, Record, line, long};
use crate::audit::{Context, Origin, RunDenied, Stamps, is_risky, record};

/// Field names of ECS 9.4 that a document may have, outside of the object of our own.
const ECS: &[&str] = &[
    "@timestamp",
    "ecs.version",
    "error.code",
    "error.message",
    "event.action",
    "event.category",
    "event.dataset",
    "event.duration",
    "event.hash",
    "event.id",
    "event.kind",
    "event.module",
    "event.outcome",
    "event.reason",
    "event.sequence",
    "event.type",
    "gen_ai.tool.name",
    "host.hostname",
    "log.level",
    "message",
    "process.args",
    "process.args_count",
    "process.command_line",
    "process.entity_id",
    "process.executable",
    "process.exit_code",
    "process.group.id",
    "process.hash.sha256",
    "process.name",
    "process.pid",
    "process.user.id",
    "process.working_directory",
    "rule.category",
    "rule.id",
    "rule.version",
    "service.ephemeral_id",
    "service.name",
    "service.type",
    "service.version",
    "source.ip",
    "source.port",
    "span.id",
    "trace.id",
    "user.name",
    "user_agent.name",
    "user_agent.version",
];

/// Required attributes of the OCSF 1.8.0 classes, with those of the objects that we use.
const OCSF: &[(u64, &[&str])] = &[
    (
        1007,
        &[
            "activity_id",
            "actor",
            "category_uid",
            "class_uid",
            "device.type_id",
            "metadata.product.vendor_name",
            "metadata.version",
            "process",
            "severity_id",
            "time",
            "type_uid",
            "action_id",
        ],
    ),
    (
        6002,
        &[
            "activity_id",
            "app.vendor_name",
            "category_uid",
            "class_uid",
            "metadata.product.vendor_name",
            "metadata.version",
            "severity_id",
            "time",
            "type_uid",
        ],
    ),
];

/// One record of each event type that the schema knows, with every field that it knows.
fn samples() -> Vec<Map<String, Value>> {
    let schema: Value = serde_json::from_str(include_str!("../../../siem/record.schema.json")).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    let events = fields["event_type"]["enum"].as_array().unwrap().clone();
    let sample = |event: &Value| {
        let mut record = Map::new();
        for (name, field) in fields {
            let value = match (name.as_str(), field["type"].as_str().unwrap()) {
                ("event_type", _) => event.clone(),
                ("timestamp", _) => Value::from("2026-12-01T08:00:00.250000Z"),
                (_, "integer") => Value::from(7),
                (_, "boolean") => Value::from(true),
                (_, "array") => serde_json::json!(["/usr/bin/a b", "c"]),
                _ => {
                    field["enum"].as_array().map_or_else(|| Value::from("/text"), |values| values[0].clone())
                }
            };
            record.insert(name.clone(), value);
        }
        record
    };
    events.iter().map(sample).collect()
}

fn rendered(format: Format, record: &Map<String, Value>) -> Value {
    serde_json::from_slice(&format.render(record).unwrap()).unwrap()
}

fn leaves(value: &Value, path: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(value, &format!("{path}{dot}{name}"), out);
            }
        }
        _ => {
            out.insert(path.to_owned());
        }
    }
}

#[test]
fn ecs_documents_have_fields_of_ecs_and_the_native_ones_below_a_name_of_their_own() {
    for record in samples() {
        let document = rendered(Format::Ecs, &record);
        let mut found = BTreeSet::new();
        leaves(&document, "", &mut found);
        let foreign: Vec<&String> = found
            .iter()
            .filter(|name| !name.starts_with("cofferdam.") && !ECS.contains(&name.as_str()))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert_eq!(document["cofferdam"]["event_type"], record["event_type"]);
        assert_eq!(document["event"]["hash"], record["record_hash"]);
        assert_eq!(document["event"]["duration"], 7_000_000);
        assert_eq!(document["process"]["user"]["id"], "7");
        assert_eq!(document["process"]["command_line"], "'/usr/bin/a b' c");
        let allowed = ["access", "change", "end", "info", "start"];
        assert!(allowed.contains(&document["event"]["type"][0].as_str().unwrap()));
    }
}

#[test]
fn ocsf_events_have_what_their_class_requires_and_lose_nothing() {
    for record in samples() {
        let event = rendered(Format::Ocsf, &record);
        let class = event["class_uid"].as_u64().unwrap();
        let (_, required) = OCSF.iter().find(|(known, _)| *known == class).unwrap();
        for path in *required {
            assert!(event.pointer(&format!("/{}", path.replace('.', "/"))).is_some(), "{path}: {event}");
        }
        assert_eq!(event["type_uid"], class * 100 + event["activity_id"].as_u64().unwrap());
        assert_eq!(event["category_uid"], class / 1_000);
        assert_eq!(event["time"], 1_796_112_000_250_u64);
        assert!(event["severity_id"].is_u64() && event["status_id"].is_u64());
        // Every native member is somewhere.
        let (rest, mapping) = (&event["unmapped"], ocsf::mapping().unwrap());
        for name in record.keys() {
            let known = rest.get(name).is_some() || mapping.takes(name, class);
            assert!(known, "{name}");
        }
    }
}

#[test]
fn every_row_is_about_a_field_of_the_schema() {
    let fields: BTreeSet<String> = samples()[0].keys().cloned().collect();
    for mapping in [ecs::mapping().unwrap(), ocsf::mapping().unwrap()] {
        for name in mapping.sources() {
            assert!(fields.contains(name), "{name}");
        }
    }
    assert!(Mapping::parse("schema = \"x\"").is_err());
}

/// A line of the chain about this argument vector.
fn denied(argv: &[&str]) -> Vec<u8> {
    let argv: Vec<Vec<u8>> = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
    let facts = RunDenied {
        argv: &argv,
        cwd: Path::new("/work"),
        env_names: &[],
        stdin_bytes: None,
        rule_id: "allow",
        rule_kind: "allow",
        reason: "command_not_allowed",
        consent: None,
        stamps: Stamps::default(),
    };
    let site = Site {
        hostname: "h".to_owned(),
        instance: "i".to_owned(),
        key: [7; 32],
        origin: Origin::default(),
        own: Arc::default(),
        checkpoints: None,
    };
    let mut out = Vec::new();
    let body = record::run_denied(&site, &Context::default(), &facts);
    Head::new().seal(body.as_str(), &mut out);
    out.pop();
    out
}

/// Forms of a secret in arguments; `@` is the secret.
const FORMS: &[&[&str]] = &[
    &["tool", "--password", "@"],
    &["tool", "--password=@"],
    &["tool", "--api_key=@"],
    &["tool", "--clientSecret", "@"],
    &["env", "DB_PASSWORD=@", "tool"],
    &["env", "PGPASSWORD=@", "psql"],
    &["docker", "run", "-e", "MYSQL_ROOT_PASSWORD=@", "mysql"],
    &["docker", "login", "-u", "me", "-p", "@"],
    &["mysql", "-uroot", "-p@"],
    &["sshpass", "-p", "@", "ssh", "host"],
    &["redis-cli", "-a", "@"],
    &["curl", "-u", "user:@", "https://example.org"],
    &["curl", "-H", "Authorization: Bearer @", "https://example.org"],
    &["curl", "-H", "X-Api-Key: @", "https://example.org"],
    &["curl", "-d", "user=me&password=@", "https://example.org"],
    &["curl", "-d", "{\"apiKey\": \"@\"}", "https://example.org"],
    &["curl", "https://me:@@example.org/x"],
    &["curl", "https://example.org/x?access_token=@"],
    &["curl", "https://example.org/x?X-Amz-Signature=@&b=2"],
    &["psql", "host=db user=me password=@ dbname=x"],
    &["psql", "postgresql://me:@@db:5432/x"],
    &["sh", "-c", "tool --password @ --verbose"],
    &["sh", "-c", "export API_TOKEN=@ && tool"],
    &["ldapsearch", "-D", "cn=x", "-w", "@"],
    &["openssl", "enc", "-pass", "pass:@"],
    &["terraform", "apply", "-var", "db_password=@"],
    &["git", "-c", "http.extraheader=Authorization: Basic @", "fetch"],
];

#[test]
fn no_rendering_and_no_view_has_a_secret_of_the_corpus() {
    let mut count = 0;
    // Made up, and put together at run time, so that nothing in this file looks like one.
    let secrets =
        [["hunt", "er2pass"].concat(), ["Zk9", "qLw8Rt5Yx2"].concat(), ["c2Vj", "cmV0LXZhbHVl9"].concat()];
    let filled = |form: &&[&str], secret: &String| -> Vec<String> {
        form.iter().map(|part| part.replacen('@', secret, 1)).collect()
    };
    let all = FORMS
        .iter()
        .flat_map(|form| secrets.iter().map(move |secret| (filled(form, secret), secret.clone())));
    for (argv, secret) in all {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        let native = denied(&words);
        let mut views = vec![native.clone()];
        for format in [Format::Ecs, Format::Ocsf] {
            views.push(format.render_line(&native).unwrap());
        }
        let record = Record::parse(native).unwrap();
        views.push(line(&record, Colours::Off).into_bytes());
        views.push(long(&record, Colours::On).into_bytes());
        let mut figures = crate::audit::report::Figures::default();
        figures.take(&record);
        figures.finish();
        views.push(crate::audit::report::page(&figures).into_bytes());
        for view in views {
            let text = String::from_utf8(view).unwrap();
            assert!(!text.contains(&secret), "{argv:?}\n{text}");
        }
        count += 1;
    }
    assert_eq!(count, 81);
}

#[test]
fn a_rendering_is_one_bounded_line_without_anything_that_hides() {
    let long = "\u{202e}\"\\é ".repeat(2_000);
    for argv in [vec!["rm", "a\nb\u{1b}[2J\u{202e}\u{85}"], vec![long.as_str(); 200]] {
        let native = denied(&argv);
        assert!(native.len() < MAX_LINE);
        for format in [Format::Native, Format::Ecs, Format::Ocsf] {
            let text = String::from_utf8(format.render_line(&native).unwrap()).unwrap();
            assert!(!text.chars().any(is_risky), "{text:?}");
            assert!(text.len() < 3 * MAX_LINE, "{}", text.len());
        }
    }
    assert!(Format::Ecs.render_line(b"no record").is_err());
    assert_eq!("ocsf".parse(), Ok(Format::Ocsf));
    assert!("xml".parse::<Format>().unwrap_err().contains("none of"));
}
