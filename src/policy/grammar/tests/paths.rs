//! Which values the path rule looks at.

use std::path::Path;

use super::*;
use crate::policy::paths::View;

const TEXT: &str = r#"
program = "p"
dialects = ["gnu"]
flags = "a"
long = ["file|f=", "pattern|e=", "script=", "color=?"]
data = { operands = 1, unless = ["-e"], options = ["-e", "--color"] }
[[text]]
kind = "sed"
options = ["--script"]
rules = []
"#;

const TREE: &str = r#"
program = "t"
dialects = ["git"]
values = "C"
[subcommand.run]
data = { operands = "2.." }
dialects = ["posix"]
[subcommand.wrap]
dialects = ["posix"]
command = { operand = 1 }
"#;

fn outside(line: &str) -> String {
    let text = if line.starts_with("t ") { TREE } else { TEXT };
    let view = View { workspace: Path::new("/srv/ws"), granted: [&[], &[], &[]], depth: 0 };
    rule_with(&grammar(text), line, &Operator { view: Some(view), ..Operator::default() })
}

#[test]
fn file_names_outside_are_refused_wherever_they_stand() {
    for line in [
        "p x /o",
        "p x ../o",
        "p -f /o",
        "p -f/o",
        "p -af/o",
        "p --file=/o",
        "p --fi /o",
        "p -- x /o",
        "p -e x /o",
        "p -e x -- /o",
        "p /o -e x",
        "p x -z/o",
        "p x --unknown=/o",
        "p x --unknown /o",
        "p x @/o",
        "p x file:///o",
        "t run /o",
        "t -C / run",
        "t -C .. run",
        "p x /srv/ws/../o",
    ] {
        assert_eq!(outside(line), "path.outside", "{line}");
    }
}

#[test]
fn data_and_names_inside_are_allowed() {
    for line in [
        "p /x/ in",
        "p ../x",
        "p -e /x in",
        "p -e/x",
        "p --pattern=/x y",
        "p --color=/x z",
        "p --script=/x/d y z",
        "t run a /o ..",
        "p x /srv/ws/a",
        "p x /dev/null",
        "t wrap /bin/ls /etc",
        "p x a/../b",
    ] {
        assert_eq!(outside(line), "ok", "{line}");
    }
}

#[test]
fn data_must_name_declared_options_and_operands() {
    for (data, what) in [
        ("data = { options = [\"-q\"] }", "-q"),
        ("data = { operands = \"two\" }", "operands"),
        ("data = { unless = [\"-a\"] }", "needs operands"),
        ("data = { positions = 1 }", "positions"),
    ] {
        let text = format!("program = \"p\"\nflags = \"a\"\n{data}");
        let problem = Grammar::parse(&text).unwrap_err();
        assert!(problem.contains(what), "{problem}");
    }
}

#[test]
fn an_operand_that_is_always_data_hides_no_later_one() {
    let grammar = grammar(
        "program = \"p\"\ndialects = [\"gnu\"]\nvalues = \"f\"\ndata = { operands = 1 }\n\
         [[text]]\nkind = \"awk\"\noperand = 2\nunless = [\"-f\"]\nrules = []",
    );
    let view = View { workspace: Path::new("/srv/ws"), granted: [&[], &[], &[]], depth: 0 };
    let operator = Operator { view: Some(view), ..Operator::default() };
    assert_eq!(rule_with(&grammar, "p /a/b /etc/x", &operator), "ok");
    assert_eq!(rule_with(&grammar, "p /a/b /etc/x -f prog", &operator), "path.outside");
    assert_eq!(rule_with(&grammar, "p ab /etc/x -f prog", &operator), "path.outside");
}
