//! A table of faults: each names its line, its key and the remedy.

use crate::support::House;

/// (text after `version = 1`, line, key, words of the message)
type Row = (&'static str, usize, &'static str, &'static [&'static str]);

/// Line 0 means: the file as a whole. The text starts on line 2.
#[rustfmt::skip]
const BAD: &[Row] = &[
    // Keys.
    ("allow = [\"ls\"]\n[limits]\ntimeut = \"3s\"", 4, "limits.timeut", &["unknown key", "did you mean timeout", "valid:", "max_timeout"]),
    ("alow = [\"ls\"]\nallow_any = true", 2, "alow", &["unknown key", "did you mean allow?"]),
    ("allow = [\"ls\"]\ntimeout = \"3s\"", 3, "timeout", &["unknown key", "did you mean limits.timeout"]),
    ("[command.ls]\nsubcomands = [\"x\"]", 3, "command.ls.subcomands", &["did you mean subcommands"]),
    ("[command.\"/usr/bin/true\"]\nx = 1", 3, "command.\"/usr/bin/true\".x", &["unknown key"]),
    ("[command.ls]\nexamples.alow = []", 3, "command.ls.examples.alow", &["did you mean allow"]),
    ("allow = [\"ls\"]\n[audit]\nsinks = [{ kind = \"stderr\", file = \"/x\" }]", 4, "audit.sinks[0].file", &["unknown key", "kind, path"]),
    ("allow_any = true\n[colour]", 3, "colour", &["unknown key", "valid: version, allow"]),
    // Types.
    ("allow = \"ls\"", 2, "allow", &["wrong type", "an array of strings", "not a string"]),
    ("allow = [\"ls\", 3]", 2, "allow[1]", &["wrong type", "a string, not an integer"]),
    ("allow = [\"ls\"]\nlimits = 3", 3, "limits", &["wrong type", "takes a table"]),
    ("allow = [\"ls\"]\n[limits]\ntimeout = 30", 4, "limits.timeout", &["wrong type", "such as \"30s\""]),
    ("allow = [\"ls\"]\n[workspace]\nwrite = \"yes\"", 4, "workspace.write", &["true or false", "not a string"]),
    ("[command]\nls = true", 3, "command.ls", &["takes a table, not a boolean"]),
    ("allow = [\"ls\"]\n[environment.set]\nTZ = 1", 4, "environment.set.TZ", &["takes a string"]),
    // Values.
    ("allow = [\"ls\"]\n[limits]\ntimeout = \"soon\"", 4, "limits.timeout", &["\"soon\" is not a duration"]),
    ("allow = [\"ls\"]\n[limits]\ntimeout = \"0s\"", 4, "limits.timeout", &["too small"]),
    ("allow = [\"ls\"]\n[limits]\ntimeout = \"6m\"", 4, "limits.timeout", &["timeout (6m) exceeds max_timeout (5m)"]),
    ("allow = [\"ls\"]\n[limits]\njobs = 2\nmax_jobs = 3", 5, "limits.max_jobs", &["max_jobs (3) exceeds jobs (2)"]),
    ("allow = [\"ls\"]\n[limits]\nmemory = \"much\"", 4, "limits.memory", &["\"much\" is not a size"]),
    ("allow = [\"ls\"]\n[limits]\noutput_bytes = 1023", 4, "limits.output_bytes", &["too small", "1KiB"]),
    ("allow = [\"ls\"]\n[limits]\noutput_lines = 9", 4, "limits.output_lines", &["too small", "from 10"]),
    ("allow = [\"ls\"]\n[limits]\njobs = 0", 4, "limits.jobs", &["too small"]),
    ("allow = [\"ls\"]\n[limits]\njobs = -1", 4, "limits.jobs", &["\"-1\" is not an integer from 1"]),
    ("allow = [\"ls\"]\n[limits]\ncpu_time = \"1500ms\"", 4, "limits.cpu_time", &["whole seconds"]),
    ("allow = [\"ls\"]\nargument_rules = \"of\"", 3, "argument_rules", &["\"of\" is not a value", "did you mean off"]),
    // Names and patterns.
    ("allow = [\"ls -l\"]", 2, "allow[0]", &["unsafe command name: \"ls -l\""]),
    ("allow = [\"ls;id\"]", 2, "allow[0]", &["unsafe command name"]),
    ("allow = [\"./ls\"]", 2, "allow[0]", &["relative path", "never resolved"]),
    ("allow = [\"\"]", 2, "allow[0]", &["must not be empty"]),
    ("allow = [\"ls\", \"ls\"]", 2, "allow[1]", &["listed twice"]),
    ("allow = [\"ls\"]\n[command.ls]", 2, "allow[0]", &["also has a [command] table"]),
    ("allow = [\"no-such-program\"]", 2, "allow[0]", &["\"no-such-program\" is in no directory of environment.path"]),
    ("allow = [\"/no/such/program\"]", 2, "allow[0]", &["does not exist"]),
    ("[command.\"/etc/passwd\"]", 2, "command.\"/etc/passwd\"", &["not an executable file"]),
    ("allow_patterns = [\"a|b\"]", 2, "allow_patterns[0]", &["unsafe allowed command pattern"]),
    ("allow_patterns = [\"ls -la\"]", 2, "allow_patterns[0]", &["unsafe allowed command pattern"]),
    ("allow_patterns = [\"(\"]", 2, "allow_patterns[0]", &["bad pattern", "unclosed group"]),
    ("allow_patterns = [\"a)(b\"]", 2, "allow_patterns[0]", &["bad pattern"]),
    ("allow_any = true\nallow = [\"ls\"]", 2, "allow_any", &["allow_any and allow are mutually exclusive"]),
    ("allow_any = true\n[command.ls]", 2, "allow_any", &["mutually exclusive"]),
    ("", 0, "allow", &["requires a non-empty allow-list", "allow_any = true when consent is enforced elsewhere"]),
    ("allow = []\nallow_any = false", 0, "allow", &["requires a non-empty allow-list"]),
    // Commands.
    ("[command.ls]\nsubcommands = []", 3, "command.ls.subcommands", &["admits nothing"]),
    ("[command.ls]\nsubcommands = [\"-x\"]", 3, "command.ls.subcommands[0]", &["not a subcommand"]),
    ("[command.ls]\ndeny_options = [\"output\"]", 3, "command.ls.deny_options[0]", &["write -x or --name"]),
    ("[command.ls]\nexecute = [\"/no/such\"]", 3, "command.ls.execute[0]", &["\"/no/such\" does not exist"]),
    ("[command.ls]\nread = [\"relative\"]", 3, "command.ls.read[0]", &["not an absolute path"]),
    ("[command.ls]\narguments = \"all\"", 3, "command.ls.arguments", &["valid: known"]),
    ("[command.ls]\ninterpreters = \"allow\"", 3, "command.ls.interpreters", &["valid: confine"]),
    ("[command.ls]\nexamples.allow = [\"cat x\"]", 3, "command.ls.examples.allow[0]", &["starts with that name"]),
    ("[command.ls]\nexamples.deny = [\"ls 'x\"]", 3, "command.ls.examples.deny[0]", &["open '"]),
    ("[command.ls.environment]\nLD_PRELOAD = \"/x.so\"", 3, "command.ls.environment.LD_PRELOAD", &["never", "loads code into every program"]),
    ("[command.ls.environment]\nPATH = \"/x\"", 3, "command.ls.environment.PATH", &["environment.path"]),
    // Environment.
    ("allow = [\"ls\"]\n[environment]\npass = [\"LANG\", \"LD_PRELOAD\"]", 4, "environment.pass[1]", &["LD_PRELOAD", "loads code"]),
    ("allow = [\"ls\"]\n[environment]\npass = [\"PAGER\"]", 4, "environment.pass[0]", &["is run to show output"]),
    ("allow = [\"ls\"]\n[environment]\nset = { GIT_SSH_COMMAND = \"x\" }", 4, "environment.set.GIT_SSH_COMMAND", &["is run by git"]),
    ("allow = [\"ls\"]\n[environment]\npass = [\"A=B\"]", 4, "environment.pass[0]", &["not a variable name"]),
    ("allow = [\"ls\"]\n[environment]\nset = { X = \"a\\u0000b\" }", 4, "environment.set.X", &["NUL"]),
    ("allow = [\"ls\"]\n[environment]\npath = \"/bin:\"", 4, "environment.path", &["current directory"]),
    ("allow = [\"ls\"]\n[environment]\npath = \"bin:/bin\"", 4, "environment.path", &["not an absolute path"]),
    // Sandbox.
    ("allow = [\"ls\"]\n[sandbox]\nread = [\"@library\"]", 4, "sandbox.read[0]", &["did you mean @libraries"]),
    ("allow = [\"ls\"]\n[sandbox]\nread = [\"/no/such\"]", 4, "sandbox.read[0]", &["does not exist"]),
    ("allow = [\"ls\"]\n[sandbox]\nread = [\"/usr/../etc\"]", 4, "sandbox.read[0]", &["holds \"..\""]),
    ("allow = [\"ls\"]\n[sandbox]\nnetwork = [\"udp:53\"]", 4, "sandbox.network[0]", &["not a network grant"]),
    ("allow = [\"ls\"]\n[sandbox]\nnetwork = \"all\"", 4, "sandbox.network", &["takes \"none\""]),
    ("allow = [\"ls\"]\n[sandbox]\nrequire = [\"landlok>=6\"]", 4, "sandbox.require[0]", &["did you mean landlock>=N", "caps-empty", "no-network-routes", "policy-protected"]),
    ("allow = [\"ls\"]\n[sandbox]\nuser = \"0:0\"", 4, "sandbox.user", &["as root", "keep"]),
    // Audit (the sinks are checked in their own test) and toolkits.
    ("allow = [\"ls\"]\n[audit]\non_failure = \"ignore\"", 4, "audit.on_failure", &["valid: refuse, kill, exit, continue"]),
    ("allow = [\"ls\"]\n[toolkit.git]\ncommands = [\"lz\"]", 4, "toolkit.git.commands[0]", &["not allowed by this policy", "valid: ls"]),
    ("allow = [\"ls\"]\n[toolkit.git]\ncommands = []", 3, "toolkit.git.commands", &["admits nothing"]),
    ("allow = [\"ls\"]\n[toolkit.git]\ncomands = [\"ls\"]", 4, "toolkit.git.comands", &["unknown key", "did you mean commands?", "valid: commands, cwd, description, consent, limits"]),
    ("allow = [\"ls\"]\n[toolkit.git]\ncwd = \"/\"", 4, "toolkit.git.cwd", &["outside of the workspace", "name a directory of the workspace"]),
    ("allow = [\"ls\"]\n[toolkit.git]\ncwd = \"none\"", 4, "toolkit.git.cwd", &["not an existing directory: none"]),
    ("allow = [\"ls\"]\n[toolkit.git]\ndescription = \"a\\u0007\"", 4, "toolkit.git.description", &["control character"]),
    ("allow = [\"ls\"]\n[toolkit.git]\nlimits = { memory = \"2GiB\" }", 4, "toolkit.git.limits.memory", &["2GiB exceeds memory (1GiB)", "may only be stricter", "limits.memory"]),
    ("allow = [\"ls\"]\n[toolkit.git.limits]\ntimeout = \"6m\"", 4, "toolkit.git.limits.timeout", &["exceeds max_timeout (5m)"]),
    ("allow = [\"ls\"]\n[toolkit.git.limits]\njobs = 9", 4, "toolkit.git.limits.jobs", &["9 exceeds jobs (8)"]),
    ("allow = [\"ls\"]\n[toolkit.git.limits]\njobs = 0", 4, "toolkit.git.limits.jobs", &["too small"]),
    ("allow = [\"ls\"]\n[toolkit.git.limits]\ncpu_time = \"1500ms\"", 4, "toolkit.git.limits.cpu_time", &["whole seconds"]),
    ("allow = [\"ls\"]\n[toolkit.git.limits]\narguments = 5", 4, "toolkit.git.limits.arguments", &["unknown key"]),
    ("allow = [\"ls\"]\n[server]\nname = \"\"", 4, "server.name", &["is empty"]),
    ("allow = [\"ls\"]\n[server]\ninstruction = \"x\"", 4, "server.instruction", &["did you mean instructions?"]),
    ("allow = [\"ls\"]\n[toolkit.\"9x\"]", 3, "toolkit.9x", &["not a tool prefix"]),
];

#[test]
fn each_fault_names_its_line_its_key_and_the_remedy() {
    let house = House::new();
    for (text, line, key, words) in BAD {
        let error = house.load(&format!("version = 1\n{text}")).expect_err(text);
        let problem = error.problems.iter().find(|problem| problem.key == *key);
        let problem =
            problem.unwrap_or_else(|| panic!("no problem with key {key} in:\n{error}\nof:\n{text}"));
        assert_eq!(problem.place.map_or(0, |place| place.line), *line, "{error}");
        for word in *words {
            assert!(problem.to_string().contains(word), "{word:?} is not in {problem}");
        }
        assert_eq!(error.problems.len(), 1, "one fault, one problem:\n{error}\nof:\n{text}");
    }
    assert!(BAD.len() >= 25);
}
