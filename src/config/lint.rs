//! What a valid policy leaves open: said loudly at start-up and by `check`.
//!
//! Pure. Called by `cli/check`, `cli/serve` and `doctor`.

use super::{Config, OnFailure, Sink, hooks};

impl Config {
    /// Settings that take a layer away. Each is said at start-up and stamped into records.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.allow_any {
            found.push(
                "allow_any = true: every name may run; only always-denied names, argument rules and the \
                 kernel decide"
                    .into(),
            );
        }
        if self.audit.on_failure == OnFailure::Continue {
            found.push(
                "audit.on_failure = \"continue\": when the required sink fails, commands run without a record".into(),
            );
        }
        if !self.argument_rules {
            found.push(
                "argument_rules = \"off\": arguments are not looked at; names and the kernel decide".into(),
            );
        }
        for command in self.commands.values().filter(|command| command.interpreter) {
            found.push(format!(
                "command.{}: interpreters = \"confine\": it runs any program text it is given; only the \
                 kernel confines it",
                command.name
            ));
        }
        let own = self.commands.values().flat_map(|command| &command.read);
        for path in self.sandbox.read.iter().chain(own) {
            if path.parent().is_none() {
                found.push("read = [\"/\"]: commands read every file that the server's user can read".into());
            } else if self
                .audit
                .sinks
                .iter()
                .any(|sink| matches!(sink, Sink::File(file) if file.starts_with(path)))
            {
                found.push(format!("commands can read the audit file: it lies below {}", path.display()));
            }
        }
        found
    }

    /// What a reader of the policy should know, though nothing is wrong with it.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut found = Vec::new();
        let secret = |name: &&String| hooks::looks_secret(name);
        let secrets: Vec<&str> = self.environment.pass.iter().filter(secret).map(String::as_str).collect();
        if !secrets.is_empty() {
            found.push(format!(
                "environment.pass hands commands what looks like a secret: {}",
                secrets.join(", ")
            ));
        }
        found
    }
}
