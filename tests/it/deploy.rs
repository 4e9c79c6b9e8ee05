//! What is shipped for the container is what the sources say: the seccomp profile around the server, the policy
//! inside of the image, and the lists that go by the name of one another.
//!
//! No container is started here; `tests/container/run` does that.

use std::fs;

use cofferdam::sandbox::oci;

use crate::scan::root;

const SECCOMP: &str = "deploy/seccomp/cofferdam.json";
const POLICY: &str = "deploy/policy.toml";
const POLICY_HTTP: &str = "deploy/policy-http.toml";
const POLICY_KUBERNETES: &str = "deploy/kubernetes/policy.yaml";
const COMMAND: &str = "COFFERDAM_REWRITE=1 cargo test --test it -- deploy::";

/// Compares, or writes where it is asked to.
#[track_caller]
fn is(file: &str, wanted: &str) {
    let path = root().join(file);
    if std::env::var("COFFERDAM_REWRITE").is_ok_and(|value| value == "1") {
        fs::write(&path, wanted).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}; make it: {COMMAND}"));
    assert!(found == wanted, "{file} is not what the sources say: {COMMAND}");
}

#[test]
fn the_seccomp_profile_of_the_container_is_the_table() {
    is(SECCOMP, &format!("{}\n", serde_json::to_string_pretty(&oci::profile()).unwrap()));
}

/// What the container's policy has in place of lines of the built-in one.
const CHANGES: &[(&str, &str)] = &[
    (
        "# The built-in policy: what runs when no policy file is named. It reads the current directory and\n\
         # writes nothing. Programs and files that this host lacks are reported by `cofferdam check` and are\n\
         # no error here; in a policy of your own they are.\n",
        "# The policy of the image: the built-in one (policy/default.toml) for the directory /workspace, with what\n\
         # must hold of the container around it. Generated: deploy/policy.toml of the sources is held to it by a\n\
         # test. Mount a file of your own over /etc/cofferdam/policy.toml, read-only, owned by root.\n",
    ),
    (
        "# The path is the current directory, or --workspace DIR.\n[workspace]\n",
        "[workspace]\npath = \"/workspace\"\n",
    ),
    (
        "    # Local time, for ls -l, date and git log.\n    \"/etc/localtime\",\n    \"/usr/share/zoneinfo\",\n",
        "",
    ),
    (
        "require = [\"landlock>=6\", \"seccomp\", \"caps-empty\", \"no-new-privs\"]\n",
        "# Each of these is read back at start, and nothing is served where one does not hold: front ends of\n\
         # containers drop settings without a word (docs/container.md).\n\
         require = [\n    \
             # Of every command.\n    \
             \"landlock>=6\", \"seccomp\", \"caps-empty\", \"no-new-privs\", \"workspace-noexec\", \"unprivileged-user\",\n    \
             # Of the container.\n    \
             \"server-caps-empty\", \"server-no-new-privs\", \"server-seccomp\", \"read-only-root\", \"writable-known\",\n    \
             \"writable-noexec\", \"workspace-mount\", \"workspace-read-only\", \"audit-mount\", \"policy-protected\", \"no-setuid\",\n    \
             \"pids-limit<=1024\", \"process-limit<=1024\", \"memory-limit\", \"hidepid\", \"no-network-routes\",\n]\n\n\
         [audit]\n\
         sinks = [\n    \
             { kind = \"file\", path = \"/var/lib/cofferdam/audit.jsonl\" },\n    \
             # As JSON lines in the container's log.\n    \
             { kind = \"stderr\" },\n]\n\
         on_failure = \"refuse\"\n",
    ),
];

#[test]
fn the_policy_of_the_image_is_the_built_in_one_in_its_container() {
    let mut text = fs::read_to_string(root().join("policy/default.toml")).unwrap();
    for (old, new) in CHANGES {
        assert_eq!(text.matches(old).count(), 1, "policy/default.toml has no longer: {old}");
        text = text.replace(old, new);
    }
    is(POLICY, &text);
}

/// The same where clients come over a network: it has routes, and a name that clients know it by.
#[test]
fn the_policy_for_http_is_the_same_but_for_the_network() {
    let mut text = fs::read_to_string(root().join(POLICY)).unwrap();
    let changes = [
        (
            "# The policy of the image: the built-in one",
            "# The policy for compose.http.yaml: the built-in one",
        ),
        ("of the sources is held to it by a\n", "and this file are held to it by a\n"),
        (", \"no-network-routes\",\n", ",\n"),
        ("[audit]\n", "[server.http]\nhosts = [\"cofferdam\", \"cofferdam:8000\"]\n\n[audit]\n"),
    ];
    for (old, new) in changes {
        assert_eq!(text.matches(old).count(), 1, "{POLICY} has no longer: {old}");
        text = text.replace(old, new);
    }
    is(POLICY_HTTP, &text);
}

/// In a pod: its mounts cannot be noexec, and there is no limit of processes, hidepid or network `none` to ask for.
#[test]
fn the_policy_for_kubernetes_asks_for_what_a_pod_can_have() {
    let mut text = fs::read_to_string(root().join(POLICY_HTTP)).unwrap();
    let changes = [
        (
            "    \"writable-noexec\", \"workspace-mount\", \"workspace-read-only\", \"audit-mount\", \"policy-protected\", \"no-setuid\",\n",
            "    \"workspace-read-only\", \"policy-protected\", \"no-setuid\",\n",
        ),
        (" \"read-only-root\", \"writable-known\",\n", " \"read-only-root\",\n"),
        (
            "    \"pids-limit<=1024\", \"process-limit<=1024\", \"memory-limit\", \"hidepid\",\n",
            "    \"memory-limit\",\n",
        ),
        ("# The policy for compose.http.yaml:", "# The policy for deploy/kubernetes:"),
    ];
    for (old, new) in changes {
        assert_eq!(text.matches(old).count(), 1, "{POLICY_HTTP} has no longer: {old}");
        text = text.replace(old, new);
    }
    let indented: String = text
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    let head = "# Generated from deploy/policy-http.toml: a test holds it to that.\napiVersion: v1\nkind: ConfigMap\n\
                metadata:\n  name: cofferdam-policy\ndata:\n  policy.toml: |\n";
    is(POLICY_KUBERNETES, &format!("{head}{indented}"));
}

/// Every program of the policy is in the image, and no other.
#[test]
fn the_image_has_the_programs_of_its_policy() {
    let containerfile = fs::read_to_string(root().join("Containerfile")).unwrap();
    let tools = containerfile.lines().find_map(|line| line.strip_prefix("ARG TOOLS=\"")?.strip_suffix('"'));
    let mut tools: Vec<String> = tools.unwrap().split(' ').map(str::to_owned).collect();
    let policy: toml::Table = fs::read_to_string(root().join(POLICY)).unwrap().parse().unwrap();
    let listed = policy["allow"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    let mut names: Vec<String> =
        listed.chain(policy["command"].as_table().unwrap().keys().cloned()).collect();
    names.sort();
    tools.sort();
    assert_eq!(tools, names);
}

/// The profile stays out of compose.yaml: one front end passes its content where the engine wants its name.
#[test]
fn the_main_compose_file_names_no_seccomp_file() {
    let text = fs::read_to_string(root().join("compose.yaml")).unwrap();
    assert!(!text.lines().any(|line| line.trim_start().starts_with("- seccomp=")));
    let override_file = fs::read_to_string(root().join("compose.seccomp.yaml")).unwrap();
    assert!(override_file.contains(&format!("seccomp=./{SECCOMP}")));
}
