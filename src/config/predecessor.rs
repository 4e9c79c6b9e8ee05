//! The environment variables of the `shell_execute` servers: a policy without a file.
//!
//! Purpose: a client configuration that names commands in `ALLOW_COMMANDS` works with nothing but the
//! command swapped. The variables become the text of a policy, so that there is one reading of policies and
//! one set of rules. A value that cannot be meant is an error at start, blank ones are their defaults: a
//! server must not quietly run with another limit than was written. Inputs: the environment of this process.
//! Called by `cli/policy.rs`, where no policy file is named.

use super::error::ConfigError;
use super::keys::SAFE_PATH;
use super::{Config, LoadOptions, Source};

/// What errors call it.
pub(super) const LABEL: &str = "environment variables";
/// Variables that say what may run: with one of them set, they are the policy.
const ALLOW: [&str; 3] = ["ALLOW_COMMANDS", "ALLOWED_COMMANDS", "ALLOW_PATTERNS"];
/// Characters that no name of a command has, and no pattern of one.
const UNSAFE: &[char] = &[';', '&', '|', '<', '>', '`'];
const DEFAULT_TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 300;
const OUTPUT_LIMIT: u64 = 1 << 20;
/// Limits of output that `limits.output_bytes` takes.
const OUTPUT_LIMITS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 30;

impl Config {
    /// The policy of these variables; `None` where none of them says what may run.
    ///
    /// # Errors
    /// Every fault of their values, and of the policy that they make.
    pub fn from_variables(
        variables: &[(String, String)],
        options: &LoadOptions,
    ) -> Option<Result<Self, ConfigError>> {
        let text = text(variables)?;
        Some(
            text.map_err(|what| ConfigError::whole(LABEL.to_owned(), what))
                .and_then(|text| Self::from_str(&text, Source::Environment, options)),
        )
    }
}

/// The text of the policy.
fn text(variables: &[(String, String)]) -> Option<Result<String, String>> {
    let given =
        |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    ALLOW.iter().any(|name| given(name).is_some()).then(|| policy(&given))
}

fn policy<'v>(given: &dyn Fn(&str) -> Option<&'v str>) -> Result<String, String> {
    let names = items(given, &["ALLOW_COMMANDS", "ALLOWED_COMMANDS"]);
    let patterns = items(given, &["ALLOW_PATTERNS"]);
    if names.is_empty() && patterns.is_empty() {
        return Err("No commands are allowed. Please set ALLOW_COMMANDS environment variable.".to_owned());
    }
    let odd = |text: &&&str| text.contains(UNSAFE) || text.contains(char::is_whitespace);
    if let Some(name) = names.iter().find(odd) {
        return Err(format!(
            "Unsafe command name: {name} (ALLOW_COMMANDS): names have no blanks and no operators"
        ));
    }
    if let Some(pattern) = patterns.iter().find(odd) {
        return Err(format!(
            "Unsafe allowed command pattern: {pattern} (ALLOW_PATTERNS): patterns are for names, without blanks and operators"
        ));
    }
    let pass = items(given, &["MCP_SHELL_CHILD_ENV_ALLOWLIST", "COMMAND_RUN_ENV_ALLOWLIST"]);
    // Who names variables for command_run expects that tool.
    let tools = match given("COMMAND_RUN_ENV_ALLOWLIST") {
        Some(_) => r#"["shell_execute", "command_run"]"#,
        None => r#"["shell_execute"]"#,
    };
    let own = given("PATH").filter(|_| pass.contains(&"PATH"));
    let safe = given("MCP_SHELL_SAFE_PATH").filter(|path| !path.trim().is_empty());
    let path = own.or(safe).unwrap_or(SAFE_PATH);
    let pass: Vec<&str> = pass.into_iter().filter(|name| *name != "PATH").collect();
    let most = number(given, "MCP_SHELL_MAX_TIMEOUT_SECONDS", MAX_TIMEOUT)?;
    let timeout = number(given, "MCP_SHELL_DEFAULT_TIMEOUT_SECONDS", DEFAULT_TIMEOUT)?.min(most);
    let bytes = number(given, "MCP_SHELL_OUTPUT_LIMIT_BYTES", OUTPUT_LIMIT)?;
    if !OUTPUT_LIMITS.contains(&bytes) {
        let (least, most) = (OUTPUT_LIMITS.start(), OUTPUT_LIMITS.end());
        return Err(format!(
            "MCP_SHELL_OUTPUT_LIMIT_BYTES is {bytes}: write a number from {least} to {most}"
        ));
    }
    // With the rights of those servers, but for the walls: redirections write into the directory.
    Ok(format!(
        "version = 1\nallow = {}\nallow_patterns = {}\n[workspace]\nwrite = true\n[environment]\npath = {}\npass = {}\n\
         set = {{ LANG = \"C.UTF-8\" }}\n[limits]\ntimeout = \"{timeout}s\"\nmax_timeout = \"{most}s\"\n\
         output_bytes = {bytes}\n[server]\ntools = {tools}\n",
        list(&names),
        list(&patterns),
        quoted(path),
        list(&pass),
    ))
}

/// The items of comma-separated lists, blanks around them left out, each once.
fn items<'v>(given: &dyn Fn(&str) -> Option<&'v str>, of: &[&str]) -> Vec<&'v str> {
    let mut found: Vec<&str> = Vec::new();
    for item in of.iter().filter_map(|name| given(name)).flat_map(|text| text.split(',')).map(str::trim) {
        if !item.is_empty() && !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

fn number<'v>(given: &dyn Fn(&str) -> Option<&'v str>, name: &str, default: u64) -> Result<u64, String> {
    match given(name).map(str::trim).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            format!("{name} is {:?}: write a positive whole number, or leave it out for {default}", text)
        }),
    }
}

fn list(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// A basic string of TOML, which escapes as JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Result<String, String>> {
        let owned: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        text(&owned)
    }

    fn policy_of(variables: &[(&str, &str)]) -> toml::Table {
        of(variables).unwrap().unwrap().parse().unwrap()
    }

    #[test]
    fn without_a_list_of_commands_there_is_no_policy() {
        assert_eq!(of(&[("MCP_SHELL_SAFE_PATH", "/bin"), ("PATH", "/bin")]), None);
    }

    #[test]
    fn every_way_to_write_the_list_is_read() {
        for text in ["ls,cat,echo", "ls ,echo, cat", " ls,  cat  , echo,,"] {
            let found = policy_of(&[("ALLOW_COMMANDS", text)]);
            let mut names: Vec<&str> =
                found["allow"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
            names.sort_unstable();
            assert_eq!(names, ["cat", "echo", "ls"]);
        }
        let both = policy_of(&[
            ("ALLOW_COMMANDS", "ls"),
            ("ALLOWED_COMMANDS", "cat,ls"),
            ("ALLOW_PATTERNS", "gi.*"),
        ]);
        assert_eq!(both["allow"].as_array().unwrap().len(), 2);
        assert_eq!(both["allow_patterns"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn blank_values_are_defaults_and_odd_ones_are_errors() {
        let limits = |variables: &[(&str, &str)]| {
            policy_of(&[&[("ALLOW_COMMANDS", "ls")], variables].concat())["limits"].clone()
        };
        let plain = limits(&[("MCP_SHELL_MAX_TIMEOUT_SECONDS", " ")]);
        assert_eq!(plain["timeout"].as_str(), Some("30s"));
        assert_eq!(plain["max_timeout"].as_str(), Some("300s"));
        assert_eq!(plain["output_bytes"].as_integer(), Some(1 << 20));
        let tight = limits(&[("MCP_SHELL_MAX_TIMEOUT_SECONDS", "5")]);
        assert_eq!(tight["timeout"].as_str(), Some("5s"), "the default is no more than the most");
        for (name, value) in [
            ("MCP_SHELL_MAX_TIMEOUT_SECONDS", "soon"),
            ("MCP_SHELL_DEFAULT_TIMEOUT_SECONDS", "0"),
            ("MCP_SHELL_OUTPUT_LIMIT_BYTES", "-1"),
            ("ALLOW_PATTERNS", "ls -la"),
            ("ALLOWED_COMMANDS", "ls;rm"),
        ] {
            let problem = of(&[("ALLOW_COMMANDS", "ls"), (name, value)]).unwrap().unwrap_err();
            assert!(problem.contains(name) || problem.contains(value), "{problem}");
        }
    }

    #[test]
    fn the_path_is_safe_unless_it_is_asked_for() {
        let path = |variables: &[(&str, &str)]| {
            let found = policy_of(&[&[("ALLOW_COMMANDS", "ls"), ("PATH", "/own")], variables].concat());
            found["environment"]["path"].as_str().unwrap().to_owned()
        };
        assert_eq!(path(&[]), SAFE_PATH);
        assert_eq!(path(&[("MCP_SHELL_SAFE_PATH", "  ")]), SAFE_PATH);
        assert_eq!(path(&[("MCP_SHELL_SAFE_PATH", "/safe:/bin")]), "/safe:/bin");
        let asked = [("MCP_SHELL_SAFE_PATH", "/safe"), ("MCP_SHELL_CHILD_ENV_ALLOWLIST", "LANG, PATH")];
        assert_eq!(path(&asked), "/own");
    }
}
