//! The digest of a policy: what every audit record is stamped with.
//!
//! Over the effective configuration, not its text: comments, whitespace, the order of keys and of
//! lists without an order change nothing; every value that can change a verdict, a grant or a record
//! does. Examples, and where the text came from, are left out. Called by `load.rs`.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    ArgumentPattern, ArgumentRules, Command, Config, Forward, HttpConfig, Limits, Principal, RunUser, Sink,
    Target,
};

/// `sha256:` and 64 hex digits.
pub(super) fn of(config: &Config) -> String {
    let mut digest = String::from("sha256:");
    for byte in Sha256::digest(canonical(config).to_string()) {
        digest.push_str(&format!("{byte:02x}"));
    }
    digest
}

fn canonical(config: &Config) -> Value {
    let toolkit = |(prefix, toolkit): (&String, &super::Toolkit)| {
        json!({
            "prefix": prefix,
            "commands": toolkit.commands.as_ref().map(sorted),
            "cwd": toolkit.directory.as_ref().map(|path| path.display().to_string()),
            "limits": toolkit.limits.as_ref().map(limits),
            "consent": toolkit.consent,
            "description": toolkit.description,
        })
    };
    let server = &config.server;
    let mut all = json!({
        "version": 1,
        "workspace": [config.workspace.path.display().to_string(), config.workspace.write, config.workspace.repository_write],
        "path": config.environment.path,
        "pass": sorted(&config.environment.pass),
        "set": config.environment.set,
        "limits": limits(&config.limits),
        "cgroup": config.limits.cgroup.to_string(),
        "read": sorted(config.sandbox.read.iter().map(|path| path.display())),
        "libraries": config.sandbox.libraries,
        "network": sorted(&config.sandbox.network),
        "require": sorted(&config.sandbox.require),
        "user": match config.sandbox.user {
            RunUser::Auto => "auto".to_owned(),
            RunUser::Keep => "keep".to_owned(),
            RunUser::Ids { uid, gid } => format!("{uid}:{gid}"),
        },
        "sinks": config.audit.sinks.iter().map(|sink| match sink {
            Sink::File(path) => format!("file:{}", path.display()),
            Sink::Stderr(form) => format!("stderr:{}", form.as_str()),
            Sink::Stdout(form) => format!("stdout:{}", form.as_str()),
            Sink::Forward(one) => forward(one),
        }).collect::<Vec<_>>(),
        "on_failure": config.audit.on_failure.as_str(),
        "sync": format!("{:?}", config.audit.sync),
        "rotation": [config.audit.rotation.max_size, config.audit.rotation.max_age.as_secs(), config.audit.rotation.keep as u64],
        "min_free": config.audit.min_free,
        "redact": config.audit.redact.iter().map(|pattern| pattern.as_str()).collect::<Vec<_>>(),
        "checkpoint": config.audit.checkpoint.as_ref().map(|asked| (
            asked.key.display().to_string(), asked.records, asked.time.as_millis(),
        )),
        "commands": config.commands.values().map(|one| command(one)).collect::<Vec<_>>(),
        "patterns": sorted(config.allow_patterns.iter().map(|pattern| pattern.as_str())),
        "any": config.allow_any,
        "consent": config.consent,
        "argument_rules": config.argument_rules,
        "grammars": config.grammars.iter().map(|file| (
            file.path.file_name().map(|name| name.to_string_lossy()), file.text.as_str(),
        )).collect::<Vec<_>>(),
        "toolkits": config.toolkits.iter().map(toolkit).collect::<Vec<_>>(),
        // What an agent is told can change what it does.
        "server": [&server.name, &server.version, &server.description, &server.instructions],
        "tools": [server.tools.toolkits, server.tools.command_run, server.tools.shell_execute, server.operators, server.batch_summary, server.compat_text, server.nonzero_is_success],
    });
    // Only where there is one, so that a policy without keeps the digest it had.
    if let Some(all) = all.as_object_mut() {
        if !config.principals.is_empty() {
            all.insert("principals".to_owned(), config.principals.iter().map(principal).collect());
        }
        if config.http != HttpConfig::default() {
            all.insert("http".to_owned(), http(&config.http));
        }
    }
    all
}

/// Who is let in and with what: tokens by their digests, which the policy holds.
fn principal((name, one): (&String, &Principal)) -> Value {
    let hex =
        |token: &[u8; super::DIGEST]| token.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut all = json!({
        "name": name,
        "tokens": sorted(one.tokens.iter().map(hex)),
        "token_file": one.token_file.as_ref().map(|path| path.display().to_string()),
        "uids": sorted(&one.uids),
        "toolkits": one.toolkits.as_ref().map(sorted),
        "limits": [one.jobs, one.max_jobs, Some(one.sessions), Some(one.requests)],
        "requests_per_minute": one.requests_per_minute,
    });
    if let Some(all) = all.as_object_mut().filter(|_| !one.certificates.is_empty()) {
        all.insert("certificates".to_owned(), sorted(one.certificates.iter().map(hex)).into());
    }
    all
}

fn http(http: &HttpConfig) -> Value {
    let mut all = json!([
        sorted(&http.hosts),
        sorted(&http.origins),
        http.resource,
        sorted(&http.authorization_servers),
        http.connections,
        nanos(http.session_idle),
        nanos(http.read_timeout),
        nanos(http.drain),
    ]);
    if let Some((all, tls)) = all.as_array_mut().zip(http.tls.as_ref()) {
        let path = |path: &std::path::PathBuf| path.display().to_string();
        all.push(json!([path(&tls.certificate), path(&tls.key), tls.client_ca.as_ref().map(path)]));
    }
    all
}

fn forward(sink: &Forward) -> String {
    let facility = match &sink.to {
        Target::Syslog { facility, .. } => u32::from(*facility),
        Target::Unix(_) | Target::Journald(_) => 0,
    };
    format!("{}:{facility}:{}:{}", sink.to, sink.rendering.as_str(), sink.queue_bytes)
}

fn limits(limits: &Limits) -> Value {
    json!([
        nanos(limits.timeout),
        nanos(limits.max_timeout),
        nanos(limits.cpu_time),
        limits.output_bytes,
        limits.output_lines,
        limits.memory,
        limits.processes,
        limits.file_size,
        limits.open_files,
        limits.arguments,
        limits.argument_bytes,
        limits.stdin_bytes,
        limits.jobs,
        limits.max_jobs,
        limits.max_finished_jobs,
        nanos(limits.job_ttl),
        nanos(limits.max_job_time),
        nanos(limits.consent_time),
    ])
}

fn command(command: &Command) -> Value {
    let program = command.program.as_ref();
    json!({
        "name": command.name,
        // Where it was found, not its inode: an upgrade of the program is not another policy.
        "program": program.map(|program| [program.path.display().to_string(), program.real.display().to_string()]),
        "subcommands": command.subcommands.as_ref().map(sorted),
        "deny_options": sorted(&command.deny_options),
        "argument_rules": argument_rules(&command.argument_rules),
        "execute": sorted(command.execute.iter().map(|path| path.display())),
        "read": sorted(command.read.iter().map(|path| path.display())),
        "kernel": command.kernel,
        "network": command.network.as_ref().map(sorted),
        "known_only": command.known_only,
        "any_path": command.any_path,
        "interpreter": command.interpreter,
        "consent": command.consent,
        "environment": command.environment,
    })
}

fn argument_rules(rules: &ArgumentRules) -> Value {
    let patterns = |list: &[ArgumentPattern]| {
        list.iter().map(|own| json!([format!("{:?}", own.subject), own.pattern.as_str()])).collect::<Vec<_>>()
    };
    json!([
        rules.allow_options.as_ref().map(sorted),
        patterns(&rules.deny),
        patterns(&rules.allow),
        rules.max_args,
    ])
}

fn sorted<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    values.sort();
    values.dedup();
    values
}

fn nanos(time: std::time::Duration) -> String {
    time.as_nanos().to_string()
}
