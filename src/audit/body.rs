//! The members of a record: each value cleaned, cut and escaped on its way in.
//!
//! Purpose: the choke point. There is no way to put text into a record but through [`Body`]; text
//! from outside goes through redaction first. Pure, but for the clock. Called by `record.rs` and
//! `recover.rs`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::checkpoint::Settings;
use super::escape::{bound, cap, push_json, text_of};
use super::facts::{LimitFacts, Origin, SandboxFacts, Stamps, WrapperFacts};
use super::redact::{self, Found, Own};

/// Integers in records stay exact in JavaScript and in doubles.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Severity.
#[derive(Debug, Clone, Copy)]
pub(super) enum Level {
    Info,
    Warning,
    Error,
}

/// What every record of this process says.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) hostname: String,
    pub(super) instance: String,
    pub(super) key: [u8; 32],
    pub(super) origin: Origin,
    /// What this site redacts beside what everybody does.
    pub(super) own: Arc<Own>,
    /// Signed checkpoints, where there is a key.
    pub(super) checkpoints: Option<Arc<Settings>>,
}

impl Site {
    /// Nothing redacted yet.
    pub(super) fn found(&self) -> Found {
        Found::of(&self.own)
    }
}

/// Members of a record, each with a comma before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Body(String);

impl Body {
    /// Starts a record.
    pub(super) fn new(site: &Site, level: Level, event: &str) -> Self {
        // Runs that nobody can see may go on at any time: no record of such a policy is a quiet one.
        let unrecorded = site.origin.audit_continue;
        let level = match level {
            _ if unrecorded => "error",
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        let mut body = Self(String::with_capacity(1_536));
        body.plain("timestamp", &humantime::format_rfc3339_micros(SystemTime::now()).to_string());
        body.plain("level", level);
        body.plain("product", "cofferdam");
        body.plain("hostname", &cap(&site.hostname, 255));
        body.plain("server_version", env!("CARGO_PKG_VERSION"));
        body.plain("instance_id", &site.instance);
        body.plain("event_type", event);
        body.flag_if("audit_continue", unrecorded);
        body
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn name(&mut self, name: &str) {
        self.0.push_str(",\"");
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    /// A string of our own making.
    pub(super) fn plain(&mut self, name: &str, value: &str) {
        self.name(name);
        push_json(&mut self.0, value);
    }

    /// A string from outside: cleaned and cut.
    pub(super) fn text(&mut self, name: &str, value: &str, budget: usize, found: &mut Found) {
        let clean = redact::text(&bound(value), found);
        self.plain(name, &cap(&clean, budget));
    }

    pub(super) fn text_if(&mut self, name: &str, value: Option<&str>, budget: usize, found: &mut Found) {
        if let Some(value) = value {
            self.text(name, value, budget, found);
        }
    }

    pub(super) fn path(&mut self, name: &str, path: &Path, found: &mut Found) {
        self.text(name, &text_of(path.as_os_str().as_encoded_bytes()), 700, found);
    }

    /// A digest, dropped where it does not have the form of one.
    pub(super) fn digest(&mut self, name: &str, value: Option<&str>) {
        let form = |text: &&str| {
            text.strip_prefix("sha256:").is_some_and(|hex| super::chain::hash_of(hex.as_bytes()).is_some())
        };
        if let Some(value) = value.filter(form) {
            self.plain(name, value);
        }
    }

    pub(super) fn integer(&mut self, name: &str, value: u64) {
        self.name(name);
        let _ = write!(self.0, "{}", value.min(MAX_INTEGER));
    }

    pub(super) fn integer_if(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.integer(name, value);
        }
    }

    pub(super) fn millis(&mut self, name: &str, value: Duration) {
        self.integer(name, u64::try_from(value.as_millis()).unwrap_or(MAX_INTEGER));
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        self.name(name);
        self.0.push_str(if value { "true" } else { "false" });
    }

    pub(super) fn flag_if(&mut self, name: &str, value: bool) {
        if value {
            self.flag(name, true);
        }
    }

    pub(super) fn list<T: AsRef<str>>(&mut self, name: &str, items: impl IntoIterator<Item = T>) {
        self.name(name);
        self.0.push('[');
        for (position, item) in items.into_iter().enumerate() {
            if position > 0 {
                self.0.push(',');
            }
            push_json(&mut self.0, item.as_ref());
        }
        self.0.push(']');
    }

    /// As many items as fit, then one that counts the rest.
    pub(super) fn list_within(&mut self, name: &str, items: &[String], budget: usize, each: usize) {
        let mut kept: Vec<String> = Vec::new();
        let mut used = 0;
        for item in items {
            let item = cap(item, each).into_owned();
            used += super::escape::rendered(&item) + 3;
            if used > budget || kept.len() == 63 {
                kept.push(format!("…[+{}]", items.len() - kept.len()));
                break;
            }
            kept.push(item);
        }
        self.list(name, kept);
    }

    pub(super) fn message(&mut self, message: &str) {
        self.plain("message", &cap(message, 256));
    }

    pub(super) fn raw(&mut self, members: &str) {
        self.0.push_str(members);
    }

    /// Further members of a value of another record of ours; only flat ones.
    pub(super) fn copied(&mut self, name: &str, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) => self.plain(name, text),
            serde_json::Value::Bool(flag) => self.flag(name, *flag),
            serde_json::Value::Number(number) => self.integer_if(name, number.as_u64()),
            serde_json::Value::Array(items) => self.list(name, items.iter().filter_map(|item| item.as_str())),
            serde_json::Value::Null | serde_json::Value::Object(_) => {}
        }
    }

    pub(super) fn stamps(&mut self, stamps: Stamps) {
        self.flag_if("argument_rules_off", stamps.argument_rules_off);
        self.flag_if("allow_any", stamps.allow_any);
        self.flag_if("interpreter", stamps.interpreter);
        self.flag_if("timeout_clamped", stamps.timeout_clamped);
    }

    pub(super) fn limits(&mut self, limits: &LimitFacts) {
        self.millis("timeout_ms", limits.timeout);
        self.integer("output_limit_bytes", limits.output_bytes);
        self.integer_if("mem_limit_bytes", limits.memory_bytes);
        if let Some(cpu) = limits.cpu {
            self.millis("cpu_limit_ms", cpu);
        }
        self.integer_if("pids_limit", limits.processes);
    }

    pub(super) fn sandbox(&mut self, facts: &SandboxFacts, found: &mut Found) {
        self.digest("sandbox_digest", facts.digest.as_deref());
        self.integer_if("landlock_abi", facts.landlock_abi.map(u64::from));
        if facts.host_mounts {
            self.plain("sandbox_mounts", "host");
        }
        self.plain("landlock_net", if facts.network_denied { "deny" } else { "restricted" });
        if !facts.switches.is_empty() {
            self.list("sandbox_switches", facts.switches.iter());
        }
        self.plain("seccomp", if facts.seccomp { "filter" } else { "off" });
        self.digest("seccomp_digest", facts.seccomp_digest.as_deref());
        self.flag("no_new_privs", facts.no_new_privs);
        self.plain("caps", &format!("{:016x}", facts.caps));
        self.integer("uid", facts.uid.into());
        self.integer("gid", facts.gid.into());
        if let Some(by) = facts.limits_by {
            self.plain("limits_by", by);
        }
        if let Some(wrapper) = &facts.wrapper {
            self.wrapper(wrapper, found);
        }
    }

    fn wrapper(&mut self, facts: &WrapperFacts, found: &mut Found) {
        match &facts.program {
            None => self.plain("wrapper", "unchanged"),
            Some(program) => self.path("wrapper", program, found),
        }
        if !facts.args.is_empty() {
            let args: Vec<String> = facts.args.iter().map(|arg| redact::text(&bound(arg), found)).collect();
            self.list_within("wrapper_args", &args, 600, 128);
        }
        self.flag_if("wrapper_sandboxed", facts.sandboxed);
    }
}
