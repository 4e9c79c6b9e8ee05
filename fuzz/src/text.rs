//! What holds for one language of program text.
//!
//! A text that reaches out stays refused behind a whole line of text that is allowed by itself, before
//! anything, and in each place where the shipped program of this language takes it.

use std::sync::Arc;

use cofferdam::policy::grammar::{Grammar, Operator, program};

use crate::catalogue::{Site, sites};
use crate::input::Choices;
use crate::judged;

/// Texts that reach beyond themselves.
const AWK: &[&str] = &[
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
];
const SED: &[&str] = &[
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
    "0~3",
    "\\",
];

/// One language and the grammars that hold texts of it.
pub struct Reader {
    /// Reads the first operand as text, and nothing else.
    bare: Arc<Grammar>,
    shipped: &'static Grammar,
    bad: &'static [&'static str],
    awk: bool,
    words: Vec<Vec<u8>>,
}

impl Reader {
    /// The reader of `awk` or `sed`.
    ///
    /// # Panics
    /// When there is no such language.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let wanted = format!("text-{name}");
        let bare = sites("plain").into_iter().find(|site: &Site| site.grammar.program() == wanted);
        let shipped = program(name.as_bytes()).expect("its file loads").expect("it has a file");
        let words = PIECES.iter().map(|piece| piece.as_bytes().to_vec()).collect();
        let awk = name == "awk";
        Self {
            bare: bare.expect("it has a grammar").grammar,
            shipped,
            bad: if awk { AWK } else { SED },
            awk,
            words,
        }
    }

    /// Runs one input.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn check(&self, data: &[u8]) {
        let mut choices = Choices::new(data);
        let bad = choices.one(self.bad).copied().unwrap_or_default().as_bytes();
        let text = choices.text(&self.words);
        let allowed = judged::allowed(&self.bare, std::slice::from_ref(&text));
        assert!(!self.passes(&self.bare, &[bad]), "{bad:?} is allowed");
        if allowed {
            let behind = [text.as_slice(), b"\n", bad].concat();
            assert!(!self.passes(&self.bare, &[&behind]), "allowed: {:?}", String::from_utf8_lossy(&behind));
            self.needs_a_sign(&text);
        }
        let before = [bad, b"\n", &text].concat();
        assert!(!self.passes(&self.bare, &[&before]), "allowed: {:?}", String::from_utf8_lossy(&before));
        let placed: &[&[&[u8]]] = if self.awk {
            &[&[bad, &text], &[b"--", bad], &[b"-v", &text, bad], &[b"-F", &text, bad, &text]]
        } else {
            &[&[bad, &text], &[b"-n", bad], &[b"-e", bad, &text], &[b"-e", &text, b"-e", bad], &[b"-ne", bad]]
        };
        for args in placed {
            assert!(!self.passes(self.shipped, args), "allowed: {args:?}");
        }
    }

    /// Whether a text without any of the signs that reach out is found to reach out.
    fn needs_a_sign(&self, text: &[u8]) {
        let has = |sign: &[u8]| text.windows(sign.len()).any(|part| part == sign);
        if self.awk && has(b"system") {
            // In a string, in a comment or in an expression, but never as a word before a bracket.
            assert!(has(b"\"") || has(b"/") || has(b"#") || !is_word(text, b"system"), "allowed: {text:?}");
        }
    }

    fn passes(&self, grammar: &Grammar, args: &[&[u8]]) -> bool {
        grammar.judge(args, &Operator::default()).is_ok()
    }
}

/// Whether `word` stands in `text` with no letter next to it.
fn is_word(text: &[u8], word: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.windows(word.len()).enumerate().any(|(at, part)| {
        let before = at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(letter);
        part == word && !before && !text.get(at + word.len()).is_some_and(letter)
    })
}
