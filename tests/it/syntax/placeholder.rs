//! Placeholders: references, and values that never become syntax.

use cofferdam::syntax::List;
use cofferdam::syntax::placeholder::{
    Budget, Field, Given, Reference, Unbound, argument, bind, bind_word, references,
};

use super::{read, read_batch};

fn given() -> Given {
    Given {
        exit_code: 3,
        stdout: br#"{"packages":[{"version":"0.1.0"},{"version":7}],"metadata":{"ok":true,"none":null,"0":"zero"}}"#
            .iter()
            .chain(b"\n\n")
            .copied()
            .collect(),
        stderr: b"a b\n".to_vec(),
    }
}

fn value(inner: &str) -> Result<String, Unbound> {
    let given = given();
    let mut word = argument(&format!("<#@#${{{inner}}}#@#$>"))?;
    bind_word(&mut word, &|id| (id == "meta").then_some(&given), &mut Budget::default())?;
    let text = word.as_literal().unwrap();
    Ok(text.strip_prefix('<').unwrap().strip_suffix('>').unwrap().to_owned())
}

#[test]
fn fields_and_paths_have_the_values_of_the_result() {
    for (inner, text) in [
        ("meta.exit_code", "3"),
        ("meta.stderr", "a b"),
        ("meta.packages.0.version", "0.1.0"),
        ("meta.packages.1.version", "7"),
        ("meta.packages.1", r#"{"version":7}"#),
        ("meta.metadata.ok", "true"),
        ("meta.metadata.none", "null"),
        ("meta.metadata.0", "zero"),
    ] {
        assert_eq!(value(inner).unwrap(), text, "{inner}");
    }
    assert!(value("meta.stdout").unwrap().ends_with("\"zero\"}}"));
}

#[test]
fn references_are_strict() {
    for inner in
        ["meta.packages.2", "meta.packages.-1", "meta.packages.x", "meta.none", "meta.packages.0.version.x"]
    {
        assert!(matches!(value(inner), Err(Unbound::Missing(_))), "{inner}");
    }
    let long = format!("meta.{}", ["a"; 17].join("."));
    for inner in [
        "meta",
        "",
        ".",
        "meta.",
        ".stdout",
        "meta..a",
        "me ta.stdout",
        "meta.a b",
        "meta.stdout.x",
        "meta.$x",
        &long,
    ] {
        assert!(matches!(value(inner), Err(Unbound::Malformed(2))), "{inner}: {:?}", value(inner));
        assert!(read_batch(&format!("echo #@#${{{inner}}}#@#$")).is_err(), "{inner}");
    }
    assert!(matches!(value("other.stdout"), Err(Unbound::Unknown(_))));
    assert_eq!(argument("äé #@#${x"), Err(Unbound::Malformed(4)));
    let reference = Reference::read("a.items.0").unwrap();
    assert_eq!(reference.field, Field::Json(vec!["items".into(), "0".into()]));
    assert_eq!(reference.to_string(), "a.items.0");
}

fn bound(line: &str, stdout: &[u8]) -> Result<List, Unbound> {
    let mut tree = read_batch(line).unwrap();
    let given = Given { stdout: stdout.to_vec(), ..Given::default() };
    bind(&mut tree, &|_| Some(&given), &mut Budget::default())?;
    Ok(tree)
}

#[test]
fn outputs_that_are_no_text_or_no_json_are_refused() {
    assert!(matches!(bound("echo #@#${a.stdout}#@#$", b"\xff"), Err(Unbound::NotText(_))));
    assert!(matches!(bound("echo #@#${a.stdout}#@#$", b"a\0b"), Err(Unbound::NotText(_))));
    assert!(matches!(bound("echo #@#${a.b}#@#$", b"{\"b\":\"\\u0000\"}"), Err(Unbound::NotText(_))));
    for text in [&b""[..], b"{", b"{} {}", b"\xff"] {
        assert!(matches!(bound("echo #@#${a.b}#@#$", text), Err(Unbound::NotJson(..))), "{text:?}");
    }
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    assert!(matches!(bound("echo #@#${a.0}#@#$", &deep), Err(Unbound::NotJson(..))));
}

#[test]
fn values_have_a_budget() {
    let long = vec![b'a'; 128 * 1024];
    assert!(matches!(bound("echo #@#${a.stdout}#@#$", &long), Err(Unbound::Large(..))));
    let most = &long[1..];
    assert!(bound("echo #@#${a.stdout}#@#$", most).is_ok());
    let many = "#@#${a.stdout}#@#$ ".repeat(9);
    assert!(matches!(bound(&format!("echo {many}"), most), Err(Unbound::Large(..))));
}

#[test]
fn a_placeholder_is_one_in_any_quotes_and_only_in_a_batch() {
    let line = "a #@#${x.stdout}#@#$ '#@#${x.a}#@#$' \"b #@#${x.b.0}#@#$\" c#@#${x.c}#@#$ {#@#${x.d}#@#$,e} \
                A=#@#${x.e}#@#$ > '#@#${x.f}#@#$' # #@#${x.no}#@#$\nB=#@#${x.g}#@#$ b <<E\n#@#${x.h}#@#$\nE\n";
    let tree = read_batch(line).unwrap();
    let found: Vec<String> = references(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["x.stdout", "x.a", "x.b.0", "x.c", "x.d", "x.e", "x.f", "x.g", "x.h"]);
    assert_eq!(read_batch(&tree.to_string()).unwrap(), tree);
    // Without a batch it is what it is in a shell: a comment, or a parameter expansion, or text.
    assert_eq!(read("a #@#${x.stdout}#@#$").unwrap(), read("a").unwrap());
    assert!(read("a \"#@#${x.stdout}#@#$\"").is_err());
    let text = read("a '#@#${x.stdout}#@#$'").unwrap();
    assert_eq!(text.programs()[0].words[1].as_literal(), Some("#@#${x.stdout}#@#$"));
    assert_eq!(read_batch(&text.to_string()).unwrap(), text, "text is shown so that it is no placeholder");
    assert!(read_batch("#@#${x.stdout}#@#$ a").is_err(), "not a name");
}

/// How many of everything a tree has.
pub(super) fn shape(tree: &List) -> Vec<(usize, usize, usize)> {
    let programs = tree.programs();
    programs.iter().map(|p| (p.assignments.len(), p.words.len(), p.redirections.len())).collect()
}

#[test]
fn hostile_values_stay_inside_of_their_word() {
    let line = "A=#@#${x.stdout}#@#$ a #@#${x.stdout}#@#$ \"#@#${x.stdout}#@#$\" b#@#${x.stdout}#@#$* > o#@#${x.stdout}#@#$ | c <<E\n#@#${x.stdout}#@#$\nE\n";
    let before = shape(&read_batch(line).unwrap());
    for hostile in [
        "'; rm -rf /; '",
        "\"; x; \"",
        "a\nb\nc",
        "| sh",
        "&& x",
        "> /etc/passwd",
        "$(x)",
        "`x`",
        "* ? [a]",
        "{a,b}",
        "~",
        "#@#${x.stdout}#@#$",
        "E\nrm\n",
        "#",
        "\\",
        "",
        "a b",
        "-rf",
        "!x",
        "(x)",
        "A=1",
    ] {
        let tree = bound(line, hostile.as_bytes()).unwrap();
        assert_eq!(shape(&tree), before, "{hostile:?}");
        assert_eq!(tree.programs()[0].words[1].as_literal(), Some(hostile.trim_end_matches('\n')));
        assert!(references(&tree).is_empty(), "a value is not read again");
        assert_eq!(read_batch(&tree.to_string()).unwrap(), tree, "{hostile:?}");
    }
}
