//! Which Sigma rules hit which records: `cofferdam-sigma RULES LOG…`.
//!
//! Purpose: the shipped rules, correlations included, over logs that the product wrote. Windows go by the time of
//! the records. Prints one JSON object: rule titles (all of them), each with the `seq` of the records that it hit.
//! Called by tests/siem/check.py only.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use rsigma_eval::event::JsonEvent;
use rsigma_eval::{CorrelationConfig, CorrelationEngine};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rules, logs @ ..] = arguments.as_slice() else {
        eprintln!("usage: cofferdam-sigma RULES LOG…");
        return ExitCode::from(2);
    };
    match evaluate(Path::new(rules), logs) {
        Ok(hits) => {
            println!("{}", json!(hits));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("cofferdam-sigma: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn evaluate(rules: &Path, logs: &[String]) -> Result<BTreeMap<String, Vec<u64>>, String> {
    let collection =
        rsigma_parser::parse_sigma_directory(rules).map_err(|error| format!("{}: {error}", rules.display()))?;
    if !collection.errors.is_empty() {
        return Err(format!("{}: {:?}", rules.display(), collection.errors));
    }
    let titles = collection.rules.iter().map(|rule| rule.title.clone());
    let titles = titles.chain(collection.correlations.iter().map(|rule| rule.title.clone()));
    let mut hits: BTreeMap<String, Vec<u64>> = titles.map(|title| (title, Vec::new())).collect();
    let config = CorrelationConfig { timestamp_fields: vec!["timestamp".to_owned()], ..Default::default() };
    let mut engine = CorrelationEngine::new(config);
    engine.add_collection(&collection).map_err(|error| format!("{}: {error}", rules.display()))?;
    for log in logs {
        let text = std::fs::read_to_string(log).map_err(|error| format!("{log}: {error}"))?;
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).map_err(|error| format!("{log}: {error}"))?;
            let seq = record["seq"].as_u64().ok_or_else(|| format!("{log}: a record without seq"))?;
            for result in engine.process_event(&JsonEvent::borrow(&record)) {
                hits.entry(result.header.rule_title.clone()).or_default().push(seq);
            }
        }
    }
    Ok(hits)
}
