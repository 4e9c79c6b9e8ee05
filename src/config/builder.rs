//! A policy that a program puts together, in place of a file.
//!
//! Inputs: keys and values as the policy file has them (`cofferdam check --help-keys`). They become the text of
//! a policy and go through the one loader, so that nothing holds of a file that does not hold here, and a wrong
//! key or value is the same error. Called by programs that embed the library.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{Config, ConfigError, LoadOptions, Source};

/// The policy as errors call it.
pub(super) const LABEL: &str = "policy of the program";

/// Puts a policy together. Everything that is not said has the default of the policy file: nothing is allowed,
/// the workspace is read-only, there is no network, and records go to the user's state directory.
///
/// ```no_run
/// use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = cofferdam::PolicyBuilder::new("/srv/app")
///     .allow(["ls", "cat", "rg"])
///     .command("git", [("subcommands", ["log", "diff", "status"].into())])
///     .prefix("shell")
///     .timeout(Duration::from_secs(10))
///     .audit_file("/var/log/app/commands.jsonl")
///     .build()?;
/// # drop(config); Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct PolicyBuilder {
    /// Dotted keys and values, one a line of the text.
    keys: Vec<(Vec<String>, Value)>,
    allow: Vec<Value>,
    options: LoadOptions,
}

impl PolicyBuilder {
    /// A policy for the tree below `workspace`, read-only.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        let options = LoadOptions { workspace: Some(workspace.into()), ..LoadOptions::default() };
        Self { keys: Vec::new(), allow: Vec::new(), options }
    }

    /// Commands may write in the workspace.
    #[must_use]
    pub fn writable(self) -> Self {
        self.set("workspace.write", true)
    }

    /// Allows these names with no rules of their own.
    #[must_use]
    pub fn allow<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.allow.extend(names.into_iter().map(|name| Value::String(name.into())));
        self
    }

    /// Allows one name, with the keys of its `[command.NAME]` table.
    #[must_use]
    pub fn command<K: Into<String>>(
        mut self,
        name: &str,
        rules: impl IntoIterator<Item = (K, Value)>,
    ) -> Self {
        let before = self.keys.len();
        for (key, value) in rules {
            self.keys.push((vec!["command".to_owned(), name.to_owned(), key.into()], value));
        }
        if self.keys.len() == before {
            self.allow.push(Value::String(name.to_owned()));
        }
        self
    }

    /// Puts the tools under this prefix (`PREFIX_run`, …) in place of `sh`. Called again, there are several sets
    /// of tools, each with all commands; narrow one with the keys of its `[toolkit.PREFIX]` table
    /// (`set("toolkit.PREFIX.commands", …)`).
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.keys
            .push((vec!["toolkit".to_owned(), prefix.to_owned()], Value::Object(serde_json::Map::new())));
        self
    }

    /// Wall clock of a call that asks for none; rounded to milliseconds.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set("limits.timeout", format!("{}ms", timeout.as_millis()))
    }

    /// Appends the audit records to this file, durably, in place of the default one. The directory is made when
    /// it is missing; it may not lie in the workspace.
    #[must_use]
    pub fn audit_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.audit_file = Some(path.into());
        self
    }

    /// Copies each record to standard error as well.
    #[must_use]
    pub fn audit_stderr(mut self) -> Self {
        self.options.audit_stderr = true;
        self
    }

    /// Sets any other key of the policy file, by its dotted name (`limits.jobs`, `sandbox.read`, `server.name`);
    /// a table is a JSON object. A key that is set twice is an error of [`Self::build`].
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.push((key.split('.').map(str::to_owned).collect(), value.into()));
        self
    }

    /// Loads it: every path and program that it names must be there.
    ///
    /// # Errors
    /// Every fault of it, as for a file; a value that TOML does not have (null).
    pub fn build(self) -> Result<Config, ConfigError> {
        let mut text = "version = 1\n".to_owned();
        if !self.allow.is_empty() {
            line(&mut text, &["allow".to_owned()], &Value::Array(self.allow))?;
        }
        for (key, value) in &self.keys {
            match value {
                // Of a prefix that has keys of its own as well, the table is there already.
                Value::Object(fields)
                    if fields.is_empty() && self.keys.iter().any(|(k, _)| below(k, key)) => {}
                _ => line(&mut text, key, value)?,
            }
        }
        Config::from_str(&text, Source::Program, &self.options)
    }
}

/// Whether `key` lies in the table `table`.
fn below(key: &[String], table: &[String]) -> bool {
    key.len() > table.len() && key.starts_with(table)
}

fn line(text: &mut String, key: &[String], value: &Value) -> Result<(), ConfigError> {
    let dotted = key.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".");
    let mut written = String::new();
    if !write_value(&mut written, value) {
        let what = format!("{} is null, which a policy does not have: leave the key out", key.join("."));
        return Err(ConfigError::whole(LABEL.to_owned(), what));
    }
    let _ = writeln!(text, "{dotted} = {written}");
    Ok(())
}

/// A TOML basic string: a JSON string is one, but for DEL.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// False where there is no such value.
fn write_value(out: &mut String, value: &Value) -> bool {
    match value {
        Value::Null => return false,
        Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                if !write_value(out, item) {
                    return false;
                }
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { " " });
                out.push_str(&quoted(name));
                out.push_str(" = ");
                if !write_value(out, field) {
                    return false;
                }
            }
            out.push_str(" }");
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place() -> (tempfile::TempDir, PolicyBuilder) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        let builder =
            PolicyBuilder::new(dir.path().join("ws")).audit_file(dir.path().join("log/audit.jsonl"));
        (dir, builder)
    }

    #[test]
    fn what_is_built_is_what_a_file_with_the_same_keys_says() {
        let (dir, builder) = place();
        let built = builder
            .clone()
            .allow(["ls"])
            .command("cat", [("deny_options", json!(["-A"])), ("max_args", json!(3))])
            .command("head", Vec::<(&str, Value)>::new())
            .prefix("shell")
            .set("toolkit.shell.description", "quotes \" and \\ and \u{e9}")
            .prefix("more")
            .timeout(Duration::from_millis(1500))
            .set("environment.set", json!({"TZ": "UTC"}))
            .writable()
            .build()
            .unwrap();
        let text = "version = 1\nallow = [\"ls\", \"head\"]\n[workspace]\nwrite = true\n[limits]\ntimeout = \"1500ms\"\n\
                    [environment]\nset = { TZ = \"UTC\" }\n[command.cat]\ndeny_options = [\"-A\"]\nmax_args = 3\n\
                    [toolkit.shell]\ndescription = 'quotes \" and \\ and é'\n[toolkit.more]\n";
        let options = LoadOptions {
            workspace: Some(dir.path().join("ws")),
            audit_file: Some(dir.path().join("log/audit.jsonl")),
            audit_stderr: false,
        };
        let same = Config::from_str(text, Source::Program, &options).unwrap();
        assert_eq!(built.digest, same.digest);
        assert_eq!(built.source, Source::Program);
        assert!(built.workspace.write && built.limits.timeout == Duration::from_millis(1500));
        assert_eq!(built.toolkits.keys().collect::<Vec<_>>(), ["more", "shell"]);
    }

    #[test]
    fn faults_are_those_of_a_file() {
        let (_keep, builder) = place();
        let fault = |builder: PolicyBuilder| builder.build().unwrap_err().to_string();
        let unknown = fault(builder.clone().allow(["ls"]).set("limits.timeut", "1s"));
        assert!(
            unknown.contains("policy of the program:") && unknown.contains("did you mean timeout"),
            "{unknown}"
        );
        let null = fault(builder.clone().allow(["ls"]).set("server", json!({"name": null})));
        assert!(null.contains("server is null"), "{null}");
        let twice = fault(builder.clone().allow(["ls"]).set("limits.jobs", 1).set("limits.jobs", 2));
        assert!(twice.contains("not TOML: duplicate key"), "{twice}");
        let injected = fault(builder.allow(["ls\"]\nallow_any = true\nx = [\""]));
        assert!(!injected.contains("not TOML") && injected.contains("allow"), "{injected}");
    }
}
