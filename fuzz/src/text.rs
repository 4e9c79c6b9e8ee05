//! What holds for one language of program text.
//!
//! A text that reaches out stays refused behind a whole line of text that is allowed by itself, before
//! anything, and in each place where the shipped program of this language takes it.

use std::sync::Arc;

use cofferdam::policy::grammar::{Grammar, Operator, program};

use crate::catalogue::{Site, sites};
use crate::input::Choices;
use crate::judged;

/// One language, and what is known of it.
struct Language {
    name: &'static str,
    /// The program whose grammar has texts of it, and what leads to them there.
    program: &'static str,
    places: &'static [&'static [&'static str]],
    /// Texts that reach beyond themselves.
    bad: &'static [&'static str],
    /// Whether the end of a line ends whatever was open in an allowed text.
    by_lines: bool,
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "awk",
        program: "awk",
        places: &[&["BAD", "TEXT"], &["--", "BAD"], &["-v", "TEXT", "BAD"], &["-F", "TEXT", "BAD", "TEXT"]],
        bad: &[
            "BEGIN{system(\"id\")}",
            "BEGIN{print \"x\" > \"f\"}",
            "BEGIN{print \"x\" >> \"f\"}",
            "BEGIN{\"id\" | getline}",
            "BEGIN{print | \"id\"}",
            "BEGIN{getline x < \"f\"}",
            "@load \"x\"",
            "@include \"x\"",
            "BEGIN{f = \"system\"; @f(\"id\")}",
            "BEGIN { print 1 |& \"id\" }",
            "BEGIN{printf(\"x\") > \"f\"}",
            "END { if (1) system(\"id\") }",
            "{ extension(\"l\", \"f\") }",
        ],
        by_lines: true,
    },
    Language {
        name: "sed",
        program: "sed",
        places: &[
            &["BAD", "TEXT"],
            &["-n", "BAD"],
            &["-e", "BAD", "TEXT"],
            &["-e", "TEXT", "-e", "BAD"],
            &["-ne", "BAD"],
        ],
        bad: &[
            "e id",
            "e",
            "w f",
            "W f",
            "r f",
            "R f",
            "s/x/y/e",
            "s/x/y/w f",
            "s,x,y,gw f",
            "1e",
            "$!e id",
            "/x/w f",
            "\\,x,r f",
            "1,2{s/x/y/;e\n}",
            "s/[/]/x/w f",
        ],
        by_lines: true,
    },
    Language {
        name: "sqlite",
        program: "sqlite3",
        places: &[&["db", "BAD"], &["-readonly", "db", "BAD"], &["-cmd", "BAD", "db", "TEXT"]],
        bad: &[
            ".shell id",
            ".system id",
            ".import f t",
            ".output f",
            ".once f",
            ".load f",
            ".read f",
            "  .open f",
            "select writefile('f', 'x');",
            "SELECT readfile('f');",
            "attach 'f' as x;",
            "vacuum into 'f';",
            "select load_extension('f');",
            "select edit('x', 'vi');",
            "select \"load_extension\"('f')",
        ],
        by_lines: false,
    },
    Language {
        name: "psql",
        program: "psql",
        places: &[&["-c", "BAD"], &["-Atc", "BAD"], &["--command", "BAD"], &["--command=BAD"]],
        bad: &[
            "copy t to program 'id'",
            "copy t to '/tmp/f'",
            "select pg_read_file('f')",
            "select lo_import('f')",
            "alter system set x = 1",
            "create extension x",
            "set archive_command = 'id'",
            "select dblink('x')",
        ],
        by_lines: true,
    },
    Language {
        name: "mysql",
        program: "mysql",
        places: &[&["-e", "BAD"], &["-eBAD"], &["--execute", "BAD"], &["--execute=BAD"], &["-Ne", "BAD"]],
        bad: &[
            "\\! id",
            "system id",
            "source f",
            "tee f",
            "pager less",
            "edit",
            "select 1 into outfile 'f'",
            "select load_file('f')",
            "load data infile 'f' into table t",
            "create function f returns int soname 'x'",
            "install plugin x soname 'y'",
            "select 1; system id",
        ],
        by_lines: true,
    },
];
/// Pieces of texts, for inputs to name.
const PIECES: &[&str] = &[
    "BEGIN",
    "END",
    "print",
    "printf",
    "getline",
    "system",
    "extension",
    "@load",
    "@include",
    "if (",
    "while (",
    ") ",
    "||",
    "|&",
    "|",
    ">",
    ">>",
    "<",
    "==",
    "/[/]/",
    "/[[:alpha:]]/",
    "/[]/]/",
    "\"",
    "\\\"",
    "\\\n",
    "\n",
    "#",
    "{",
    "}",
    "(",
    "substr",
    "length",
    "in",
    "1e5",
    "$1",
    "/",
    "=",
    ";",
    "s/",
    "y/",
    "s,",
    "a\\\n",
    "i ",
    "c\\",
    ":a",
    "ba",
    "t",
    "e",
    "w f",
    "r f",
    "[",
    "]",
    "[^",
    "[:",
    ":]",
    "I",
    "M",
    "g",
    "\\/",
    "\\,",
    "1,2",
    "$!",
    "select",
    "copy",
    "stdout",
    "program",
    "load",
    "'",
    "--",
    "/*",
    "*/",
    ".",
    "\n.",
    "vacuum",
    "into",
    "attach",
    "`",
    "0~3",
    "\\",
];

/// A language and the grammars that hold texts of it.
pub struct Reader {
    language: &'static Language,
    /// Reads the first operand as text, and nothing else.
    bare: Arc<Grammar>,
    shipped: &'static Grammar,
    words: Vec<Vec<u8>>,
}

impl Reader {
    /// The reader of a language, by its name in program files.
    ///
    /// # Panics
    /// When there is no such language.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let language = LANGUAGES.iter().find(|language| language.name == name).expect("a language");
        let wanted = format!("text-{name}");
        let bare = sites("plain").into_iter().find(|site: &Site| site.grammar.program() == wanted);
        let shipped = program(language.program.as_bytes()).expect("its file loads").expect("it has a file");
        let words = PIECES.iter().map(|piece| piece.as_bytes().to_vec()).collect();
        Self { language, bare: bare.expect("it has a grammar").grammar, shipped, words }
    }

    /// Runs one input.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn check(&self, data: &[u8]) {
        let mut choices = Choices::new(data);
        let bad = choices.one(self.language.bad).copied().unwrap_or_default().as_bytes();
        let text = choices.text(&self.words);
        let allowed = judged::allowed(&self.bare, std::slice::from_ref(&text));
        self.refused(&self.bare, &[bad]);
        self.refused(&self.bare, &[&[bad, b"\n", &text].concat()]);
        // psql takes a text that begins with a backslash for one command, to its end.
        let one = self.language.name == "psql" && text.trim_ascii_start().starts_with(b"\\");
        if allowed && self.language.by_lines && !one {
            self.refused(&self.bare, &[&[&text[..], b"\n", bad].concat()]);
        }
        if allowed && self.language.name == "awk" {
            needs_cover(&text);
        }
        for place in self.language.places {
            let args: Vec<Vec<u8>> = place.iter().map(|element| filled(element, bad, &text)).collect();
            self.refused(self.shipped, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }

    fn refused(&self, grammar: &Grammar, args: &[&[u8]]) {
        let shown = || args.iter().map(|element| String::from_utf8_lossy(element)).collect::<Vec<_>>();
        let allowed = grammar.judge(args, &Operator::default()).is_ok();
        assert!(!allowed, "{}: allowed: {:?}", grammar.program(), shown());
    }
}

/// An element of a place, with the texts in it.
fn filled(element: &str, bad: &[u8], text: &[u8]) -> Vec<u8> {
    match element.strip_suffix("BAD") {
        Some(head) => [head.as_bytes(), bad].concat(),
        None if element == "TEXT" => text.to_vec(),
        None => element.as_bytes().to_vec(),
    }
}

/// `system` may stand in a string, in a comment or in an expression of an allowed text of awk, but not bare.
fn needs_cover(text: &[u8]) {
    let covered = text.iter().any(|byte| matches!(byte, b'"' | b'/' | b'#'));
    assert!(covered || !is_word(text, b"system"), "allowed: {:?}", String::from_utf8_lossy(text));
}

/// Whether `word` stands in `text` with no letter next to it.
fn is_word(text: &[u8], word: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.windows(word.len()).enumerate().any(|(at, part)| {
        let before = at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(letter);
        part == word && !before && !text.get(at + word.len()).is_some_and(letter)
    })
}
