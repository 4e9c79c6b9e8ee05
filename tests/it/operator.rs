//! The operator's own rules in the policy file: options, operands and values, however they are spelled.

mod grammars;

use std::sync::Arc;

use cofferdam::config::{Config, Source};
use cofferdam::policy::Policy;

use crate::support::House;

impl House {
    /// The policy, or every word of why not.
    fn policy(&self, text: &str) -> Result<Policy, String> {
        let source = Source::File(self.base.join("policy.toml"));
        let config = Config::from_str(&format!("version = 1\n{text}"), source, &self.options())
            .map_err(|error| error.to_string())?;
        Policy::new(Arc::new(config), &[]).map_err(|error| error.to_string())
    }
}

#[track_caller]
fn policy(text: &str) -> Policy {
    House::new().policy(text).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(text: &str) -> String {
    match House::new().policy(text) {
        Ok(_) => panic!("it loads: {text}"),
        Err(error) => error,
    }
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn rule(policy: &Policy, line: &str) -> String {
    policy.judge_argv(&words(line), None).map_or_else(|denial| denial.rule.into_owned(), |_| "ok".to_owned())
}

fn message(policy: &Policy, line: &str) -> String {
    policy.judge_argv(&words(line), None).map_or_else(|denial| denial.message, |_| "ok".to_owned())
}

#[track_caller]
fn all(policy: &Policy, lines: &[&str], expected: &str) {
    for line in lines {
        assert_eq!(rule(policy, line), expected, "{line}: {}", message(policy, line));
    }
}

#[test]
fn only_allowed_options_pass_in_every_spelling() {
    let sort = policy("[command.sort]\nallow_options = [\"--key\", \"-u\", \"-t\"]");
    all(
        &sort,
        &[
            "sort names",
            "sort -u names",
            "sort --unique names",
            "sort --uniq names",
            "sort -k2 names",
            "sort -k 2 names",
            "sort --key=2 names",
            "sort --key 2 names",
            "sort --k=2 names",
            "sort -uk2 names",
            "sort -ut, -k1,1 names",
            "sort -t -r names",
            "sort -k -r names",
            "sort -- -r",
            "sort -",
        ],
        "ok",
    );
    all(
        &sort,
        &[
            "sort -r names",
            "sort --reverse names",
            "sort --rev names",
            "sort -ur names",
            "sort -ru names",
            "sort names -n",
            "sort -uS1M names",
            "sort -S 1M",
            "sort --buffer-size=1M",
            "sort --b 1M",
            "sort --nonesuch",
            "sort -Y",
            "sort -uY",
            "sort --v",
            "sort --nonesuch=x",
            "sort --ke 1 --r",
            "sort -k2 --s",
        ],
        "sort.allow-options",
    );
    assert_eq!(
        message(&sort, "sort --rev x"),
        "Argument '--rev' of 'sort' is refused: -r/--reverse is not an option that the policy file allows; \
         allowed: --key, -u, -t."
    );
    // What the grammar refuses stays refused, by its own rule.
    let output = policy("[command.sort]\nallow_options = [\"-o\"]");
    all(&output, &["sort -o x", "sort --output=x"], "sort.output");
    let none = policy("[command.sort]\nallow_options = []");
    all(&none, &["sort names", "sort -- -r"], "ok");
    all(&none, &["sort -r", "sort --k 1"], "sort.allow-options");
    assert!(message(&none, "sort -r").ends_with("; no option is."), "{}", message(&none, "sort -r"));
}

#[test]
fn allowed_options_hold_for_global_options_and_those_of_a_subcommand_alike() {
    let git = policy(
        "[command.git]\nsubcommands = [\"log\", \"status\", \"grep\"]\n\
         allow_options = [\"--no-pager\", \"--oneline\", \"-n\", \"--short\"]",
    );
    all(
        &git,
        &[
            "git log",
            "git --no-pager log --oneline",
            "git log -n 3",
            "git log -n3",
            "git log --max-count=3",
            "git log --max-c 3",
            "git status --short",
            "git status -s",
            "git log -- --all",
        ],
        "ok",
    );
    all(
        &git,
        &[
            "git -C . log",
            "git --bare log",
            "git log --all",
            "git log -p",
            "git status -sb",
            "git status --no-renames",
        ],
        "git.allow-options",
    );
    let taken = policy("[command.git]\nallow_options = [\"--textconv\"]\ndeny_options = [\"--no-ext-diff\"]");
    all(&taken, &["git grep --no-textconv x"], "ok");
    all(&taken, &["git grep --no-index x", "git grep --no-color x"], "git.allow-options");
}

#[test]
fn an_option_that_is_taken_back_can_be_denied_by_that_name() {
    let git = policy("[command.git]\nsubcommands = [\"grep\"]\ndeny_options = [\"--no-textconv\"]");
    all(&git, &["git grep --no-textconv x", "git grep --no-textc x"], "git.option.no-textconv");
    all(&git, &["git grep --textconv x", "git grep -- --no-textconv"], "ok");
}

#[test]
fn words_of_expressions_and_keys_are_options_too() {
    let find = policy("[command.find]\nallow_options = [\"-name\", \"-newermt\", \"-type\"]");
    all(
        &find,
        &["find . -name x", "find . -newermt 2020-01-01", "find . -name -size", "find . -type f"],
        "ok",
    );
    all(
        &find,
        &["find . -newer x", "find . -neweraa x", "find . -iname x", "find -- . -ls", "find . --maxdepth 1"],
        "find.allow-options",
    );
    let denied = policy("[command.find]\ndeny_options = [\"-newermt\"]");
    all(&denied, &["find . -newermt 2020-01-01"], "find.option.newermt");
    all(&denied, &["find . -newer x"], "ok");
    let dd = policy("[command.dd]\nallow_options = [\"bs=\", \"if=\"]");
    all(&dd, &["dd if=x bs=1"], "ok");
    all(&dd, &["dd if=x count=1", "dd if=x skip=1 bs=1", "dd if=x nonesuch=1"], "dd.allow-options");
    let keys = policy("[command.dd]\ndeny_options = [\"skip=\"]");
    all(&keys, &["dd if=x skip=1"], "dd.option.skip");
}

#[test]
fn without_a_grammar_only_plain_spellings_pass() {
    let env = policy("[command.getconf]\nallow_options = [\"-e\", \"-s\", \"--relative-to\", \"-word\"]");
    all(
        &env,
        &[
            "getconf x",
            "getconf -e x",
            "getconf -es x",
            "getconf -se x",
            "getconf --relative-to=x y",
            "getconf --relative-to x y",
            "getconf -word x",
            "getconf - --",
        ],
        "ok",
    );
    all(
        &env,
        &[
            "getconf -m x",
            "getconf -em x",
            "getconf -e=x",
            "getconf --relative=x",
            "getconf --rel x y",
            "getconf --relative-to-x y",
            "getconf -- -m",
            "getconf x --zero",
            "getconf -words",
            "getconf --e",
            "getconf -wordx=1",
        ],
        "getconf.allow-options",
    );
    let key = policy("[command.getconf]\ndeny_options = [\"size=\"]");
    all(&key, &["getconf size=1", "getconf -- size="], "getconf.option.size");
    all(&key, &["getconf size", "getconf x=size=1"], "ok");
    // To the grammar of echo each element is text; the operator may mean otherwise.
    let echo = policy("[command.echo]\nallow_options = [\"-n\"]");
    all(&echo, &["echo -n x"], "ok");
    all(&echo, &["echo -e x", "echo -ne x"], "echo.allow-options");
    all(&policy("[command.echo]\ndeny_options = [\"-e\"]"), &["echo -e x", "echo -ne x"], "echo.option.e");
}

#[test]
fn operands_are_held_against_patterns_wherever_they_stand() {
    let cat = policy(
        "[command.cat]\ndeny_arguments = [\".*secret.*\", { position = \"2..\", pattern = \"b|bc\" }]",
    );
    all(&cat, &["cat a", "cat b", "cat a c", "cat bc", "cat a bcd", "cat a xb"], "ok");
    all(
        &cat,
        &[
            "cat secret",
            "cat a -n secrets/x",
            "cat -- secret",
            "cat a b",
            "cat -n a bc",
            "cat -- a b",
            "cat secret\n",
        ],
        "cat.deny-arguments",
    );
    assert_eq!(
        message(&cat, "cat a b"),
        "Argument 'b' of 'cat' is refused: it matches the pattern 'b|bc' of deny_arguments."
    );
    all(&cat, &["cat --nonesuch a", "cat -Y a b", "cat --show-"], "cat.unknown-option");
    let narrow =
        policy("[command.cat]\nallow_arguments = [\"[a-z]+[.]txt\", { position = 1, pattern = \"first\" }]");
    all(&narrow, &["cat", "cat first", "cat first a.txt", "cat -n a.txt b.txt", "cat a.txt -n"], "ok");
    all(
        &narrow,
        &[
            "cat x",
            "cat a.txt first",
            "cat first ../a.txt",
            "cat -- -n",
            "cat a.txt\n",
            "cat first\n",
            "cat -n /a.txt",
        ],
        "cat.allow-arguments",
    );
    assert_eq!(
        message(&narrow, "cat x"),
        "Argument 'x' of 'cat' is refused: it does not match any of the patterns '[a-z]+[.]txt', 'first' of \
         allow_arguments."
    );
}

#[test]
fn values_of_options_have_patterns_of_their_own() {
    let sort = policy(
        "[command.sort]\ndeny_arguments = [{ option = \"-S\", pattern = \".*[GTP]\" }]\n\
         allow_arguments = [{ option = \"--key\", pattern = \"[0-9,]+\" }, { position = \"any\", pattern = \"[a-z]+\" }]",
    );
    all(
        &sort,
        &["sort -S 1M x", "sort -k1,2 x", "sort --key 2 x", "sort --key=2 x", "sort -uk2 x", "sort -t : x"],
        "ok",
    );
    all(
        &sort,
        &[
            "sort -S1G x",
            "sort -S 1G x",
            "sort -uS1G x",
            "sort --buffer-size=1G",
            "sort --buffer-size 1G",
            "sort --buf 1G",
            "sort --bu=1G",
            "sort x -S 1G",
        ],
        "sort.deny-arguments",
    );
    all(
        &sort,
        &["sort -k2n x", "sort --key=2n", "sort --k 2n x", "sort -uk 2n", "sort -k", "sort X"],
        "sort.allow-arguments",
    );
    let said = message(&sort, "sort --bu=1G");
    assert!(said.contains("has the value '1G', which matches the pattern '.*[GTP]'"), "{said}");
    let git = policy(
        "[command.git]\nsubcommands = [\"log\", \"show\"]\nallow_arguments = [{ position = 1, pattern = \"HEAD|main\" }]\n\
         deny_arguments = [{ option = \"--format\", pattern = \".*%G.*\" }]",
    );
    all(&git, &["git log", "git log HEAD", "git -C . show main", "git log -n 1 HEAD x"], "ok");
    all(&git, &["git log other", "git log -n 1 other", "git show -- HEAD^"], "git.allow-arguments");
    all(&git, &["git log --format=%G? HEAD", "git log --form=%G? HEAD"], "git.deny-arguments");
}

#[test]
fn without_a_grammar_patterns_leave_no_doubt() {
    let any = policy("[command.getconf]\ndeny_arguments = [\"a?secret\"]\nallow_arguments = [\"[a-z]+\"]");
    all(&any, &["getconf a", "getconf -e a b", "getconf --relative-to=X a"], "ok");
    all(
        &any,
        &[
            "getconf secret",
            "getconf --relative-to=secret a",
            "getconf -rsecret",
            "getconf -esasecret",
            "getconf -- secret",
        ],
        "getconf.deny-arguments",
    );
    all(&any, &["getconf X", "getconf -- -e", "getconf -e X", "getconf -"], "getconf.allow-arguments");
    let second = policy("[command.getconf]\nallow_arguments = [{ position = 2, pattern = \"x\" }]");
    all(&second, &["getconf a", "getconf a x", "getconf - x z"], "ok");
    all(
        &second,
        &["getconf a b", "getconf -e a x", "getconf a x -e", "getconf -- a x"],
        "getconf.allow-arguments",
    );
    let first = policy("[command.getconf]\ndeny_arguments = [{ position = 1, pattern = \"x\" }]");
    all(&first, &["getconf a x"], "ok");
    all(&first, &["getconf x", "getconf -e x", "getconf --relative-to y x"], "getconf.deny-arguments");
}

#[test]
fn the_number_of_arguments_is_limited() {
    let two =
        policy("[command.cat]\nmax_args = 2\n[command.true]\nmax_args = 0\n[command.getconf]\nmax_args = 1");
    all(&two, &["cat", "cat a b", "cat -n a", "true", "getconf x"], "ok");
    for (line, rule_id) in [
        ("cat a b c", "cat.max-args"),
        ("cat -n -- a", "cat.max-args"),
        ("true x", "true.max-args"),
        ("getconf -e x", "getconf.max-args"),
    ] {
        let denial = two.judge_argv(&words(line), None).unwrap_err();
        assert_eq!(denial.rule, rule_id);
        assert_eq!((denial.kind.as_str(), denial.reason.as_str()), ("limit", "argv_too_large"));
    }
    assert_eq!(message(&two, "cat a b c"), "3 arguments of 'cat' exceed the 2 that the policy file allows.");
}

#[test]
fn the_rules_hold_for_the_file_under_any_other_name() {
    let both = policy(
        "allow_patterns = [\"/usr/bin/[a-z]+\"]\n[command.cat]\nallow_options = [\"-n\"]\nmax_args = 2",
    );
    all(&both, &["/usr/bin/cat -n x"], "ok");
    all(&both, &["/usr/bin/cat -b x"], "cat.allow-options");
    all(&both, &["/usr/bin/cat -n x y"], "cat.max-args");
}

#[test]
fn faults_are_named_when_the_policy_loads() {
    for (text, said) in [
        (
            "[command.sort]\nallow_options = [\"reverse\"]",
            "command.sort.allow_options[0]: \"reverse\" is not an option",
        ),
        ("[command.sort]\nallow_options = [\"-r\"]\ndeny_options = [\"-r\"]", "is also in deny_options"),
        (
            "[command.sort]\nallow_options = [\"-r\"]\ndeny_options = [\"--reverse\"]",
            "command.sort: '-r' of allow_options and '--reverse' of deny_options are the same option",
        ),
        ("[command.cat]\ndeny_arguments = [\"(\"]", "command.cat.deny_arguments[0]: bad pattern \"(\""),
        ("[command.cat]\ndeny_arguments = [3]", "takes a string or a table, not an integer"),
        ("[command.cat]\ndeny_arguments = \"x\"", "takes an array of strings or tables"),
        ("[command.cat]\nallow_arguments = []", "max_args = 0 to admit none"),
        (
            "[command.cat]\ndeny_arguments = [{ position = 1 }]",
            "command.cat.deny_arguments[0].pattern: is required",
        ),
        ("[command.cat]\ndeny_arguments = [{ pattern = \"x\", positoin = 1 }]", "did you mean position"),
        ("[command.cat]\ndeny_arguments = [{ position = 0, pattern = \"x\" }]", "\"0\" is not a position"),
        (
            "[command.cat]\ndeny_arguments = [{ position = \"1..3\", pattern = \"x\" }]",
            "\"1..3\" is not a position",
        ),
        (
            "[command.cat]\ndeny_arguments = [{ option = \"-n\", position = 1, pattern = \"x\" }]",
            "keep one of option and position",
        ),
        ("[command.cat]\ndeny_arguments = [{ option = \"n\", pattern = \"x\" }]", "is not an option"),
        (
            "[command.getconf]\ndeny_arguments = [{ option = \"-n\", pattern = \"x\" }]",
            "needs an option grammar",
        ),
        ("[command.cat]\nmax_args = -1", "command.cat.max_args"),
        ("[command.cat]\nmax_args = \"2\"", "wrong type"),
    ] {
        let error = refused(text);
        assert!(error.contains(said), "{text}\n{error}");
    }
    // Two subcommands may use one letter for different things.
    policy(
        "[command.git]\nsubcommands = [\"log\"]\nallow_options = [\"-n\"]\ndeny_options = [\"--no-verify\"]",
    );
}

#[test]
fn every_rule_of_a_command_is_part_of_the_digest() {
    let house = House::new();
    let digest =
        |text: &str| house.policy(&format!("[command.cat]\n{text}")).unwrap().config().digest.clone();
    let mut seen = std::collections::BTreeSet::new();
    for text in [
        "",
        "allow_options = []",
        "allow_options = [\"-n\"]",
        "max_args = 1",
        "deny_arguments = [\"x\"]",
        "allow_arguments = [\"x\"]",
        "deny_arguments = [{ position = 1, pattern = \"x\" }]",
        "deny_arguments = [{ option = \"-n\", pattern = \"x\" }]",
    ] {
        assert!(seen.insert(digest(text)), "{text}");
    }
    assert_eq!(digest("allow_options = [\"-n\", \"-b\"]"), digest("allow_options = [\"-b\", \"-n\"]"));
}
