//! Program text of awk.
//!
//! Purpose: a lexer that tells data (strings, regular expressions, comments, comparisons) from what
//! reaches beyond the program: commands, files, libraries, calls by name. The readers of the family
//! differ in where a regular expression begins and ends; where that may matter, everything that follows
//! must be harmless as mere bytes, or the text is refused. Pure, linear, allocates nothing. Called
//! through `text`.
//!
//! Findings: `system`, `pipe`, `redirection`, `file-input`, `indirect-call`, `include`, `load-library`,
//! `extension`, `arguments` (the list of files to read is changed), `unclear`.

/// Short id of the first thing in `text` that reaches beyond it.
pub(super) fn scan(text: &[u8]) -> Option<&'static str> {
    let mut lexer = Lexer {
        left: text,
        previous: Token::Operator,
        word: b"",
        substitutes: false,
        depth: 0,
        conditions: 0,
        print: None,
        getline: None,
    };
    lexer.run().err()
}

/// What stands before the next token, as far as it decides what that may mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// A `/` divides after it, and a newline ends the statement.
    Operand,
    /// A `/` begins a regular expression after it.
    Operator,
    /// Readers differ in what a `/` is after it; a newline ends the statement.
    Doubtful,
    /// `if`, `while`, `for` or `switch`.
    Condition,
    /// `print` or `printf`: a `/` begins a regular expression, a newline ends the statement.
    Print,
    /// `extension`, which loads a library when it is called.
    Extension,
}

/// Stops at the first finding.
type Step = Result<(), &'static str>;

struct Lexer<'a> {
    left: &'a [u8],
    previous: Token,
    /// The word before, when nothing but a round bracket stands between.
    word: &'a [u8],
    /// `sub` or `gsub` was read, which change what they are given.
    substitutes: bool,
    /// Open round brackets.
    depth: u32,
    /// A bit for each of them, the innermost lowest: it belongs to a condition.
    conditions: u64,
    /// Depth of the print statement that the lexer is in.
    print: Option<u32>,
    /// Depth of a `getline` that may still be followed by `<`.
    getline: Option<u32>,
}

/// Deeper nesting than this is not followed.
const DEEPEST: u32 = 60;

/// Functions that some readers accept without brackets, so that a `/` after them may divide.
const FUNCTIONS: &[&[u8]] = &[
    b"atan2", b"close", b"cos", b"exp", b"fflush", b"gsub", b"index", b"int", b"length", b"log", b"match",
    b"rand", b"sin", b"split", b"sprintf", b"sqrt", b"srand", b"sub", b"substr", b"systime", b"tolower",
    b"toupper", b"case", b"default",
];

/// Words after which an expression begins.
const BEFORE_EXPRESSION: &[&[u8]] =
    &[b"in", b"return", b"else", b"do", b"exit", b"delete", b"function", b"func"];

impl<'a> Lexer<'a> {
    fn run(&mut self) -> Step {
        while let Some((byte, tail)) = self.left.split_first() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word()?,
                b'0'..=b'9' => self.number()?,
                b'.' if matches!(tail, [b'0'..=b'9', ..]) => self.number()?,
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.left = tail,
                b'\n' => self.newline(tail),
                b'#' => {
                    let end = tail.iter().position(|byte| *byte == b'\n').unwrap_or(tail.len());
                    self.left = tail.split_at_checked(end).map_or(&[][..], |(_, rest)| rest);
                }
                b'"' => self.string(tail)?,
                b'/' => self.slash(tail)?,
                b'@' => return Err(directive(tail)),
                b'\\' => match tail {
                    [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] => self.left = rest,
                    _ => return Err("unclear"),
                },
                _ => self.sign(*byte, tail)?,
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Step {
        let word = run(self.left, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        self.skip(word.len());
        let before = std::mem::replace(&mut self.word, word);
        self.substitutes |= matches!(word, b"sub" | b"gsub");
        self.previous = match word {
            b"SYMTAB" => return Err("arguments"),
            b"ARGV" if self.changes_arguments(before) => return Err("arguments"),
            b"system" => return Err("system"),
            b"extension" => Token::Extension,
            b"print" | b"printf" => {
                self.print = Some(self.depth);
                Token::Print
            }
            b"getline" => {
                self.getline = Some(self.depth);
                Token::Doubtful
            }
            b"if" | b"while" | b"for" | b"switch" => Token::Condition,
            _ if FUNCTIONS.contains(&word) => Token::Doubtful,
            _ if BEFORE_EXPRESSION.contains(&word) => Token::Operator,
            _ => Token::Operand,
        };
        Ok(())
    }

    /// Whether what follows the word `ARGV` may set one of the names of files. Clearing one is harmless.
    fn changes_arguments(&self, before: &[u8]) -> bool {
        let Some(index) = blanks(self.left).strip_prefix(b"[") else {
            return !matches!(before, b"in" | b"delete" | b"length");
        };
        let Some(after) = bracketed(index) else { return true };
        match blanks(after) {
            [b'=', b'=', ..] => false,
            [b'=', value @ ..] => match blanks(value).strip_prefix(b"\"\"") {
                Some(rest) => !matches!(blanks(rest), [] | [b';' | b'}' | b'\n' | b')', ..]),
                None => true,
            },
            [b'+' | b'-' | b'*' | b'/' | b'%' | b'^', b'=', ..] | [b'*', b'*', b'=', ..] => true,
            [b')', ..] => self.substitutes || self.getline.is_some(),
            _ => self.getline.is_some(),
        }
    }

    /// Readers differ in where a number ends (`1e5system`): letters that follow it must be harmless
    /// however they are cut.
    fn number(&mut self) -> Step {
        let number = run(self.left, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        self.skip(number.len());
        let plain = number.iter().all(|byte| !byte.is_ascii_alphabetic());
        self.previous = if plain { Token::Operand } else { Token::Doubtful };
        let words: [&[u8]; 6] = [b"system", b"getline", b"print", b"extension", b"ARGV", b"SYMTAB"];
        if words.iter().any(|word| contains(number, word)) { Err("unclear") } else { Ok(()) }
    }

    fn newline(&mut self, tail: &'a [u8]) {
        self.left = tail;
        if matches!(self.previous, Token::Operand | Token::Doubtful | Token::Print | Token::Extension) {
            self.end_statement();
        }
    }

    fn end_statement(&mut self) {
        (self.print, self.getline, self.previous) = (None, None, Token::Operator);
    }

    /// Reads a string whose opening quote has been read.
    fn string(&mut self, tail: &'a [u8]) -> Step {
        let mut left = tail;
        loop {
            match left {
                [b'\\', _, rest @ ..] => left = rest,
                [b'"', rest @ ..] => {
                    (self.left, self.previous) = (rest, Token::Operand);
                    return Ok(());
                }
                [] | [b'\n', ..] => return Err("unclear"),
                [_, rest @ ..] => left = rest,
            }
        }
    }

    fn slash(&mut self, tail: &'a [u8]) -> Step {
        match self.previous {
            Token::Operand => {
                (self.left, self.previous) = (tail, Token::Operator);
                Ok(())
            }
            Token::Operator | Token::Print => self.regex(tail),
            Token::Doubtful | Token::Condition | Token::Extension => self.whatever_it_means(tail),
        }
    }

    /// Reads a regular expression whose opening slash has been read.
    fn regex(&mut self, tail: &'a [u8]) -> Step {
        let mut left = tail;
        // Inside `[…]`, and whether what was inside leaves doubt about its end.
        let mut boxed = false;
        let mut odd = false;
        loop {
            left = match left {
                [] | [b'\n', ..] => return Err("unclear"),
                [b'\\', escaped, rest @ ..] => {
                    odd |= boxed && matches!(escaped, b'[' | b']');
                    rest
                }
                [b'/', rest @ ..] if boxed || odd => return self.whatever_it_means(rest),
                [b'/', rest @ ..] => {
                    (self.left, self.previous) = (rest, Token::Operand);
                    return Ok(());
                }
                [b'[', b':', rest @ ..] if boxed => {
                    let name = run(rest, |byte| byte.is_ascii_alphabetic());
                    match rest.split_at_checked(name.len()) {
                        Some((_, [b':', b']', rest @ ..])) => rest,
                        _ => {
                            odd = true;
                            rest
                        }
                    }
                }
                [b'[', b'^', b']', rest @ ..] | [b'[', b']', rest @ ..] => {
                    (boxed, odd) = (true, true);
                    rest
                }
                [b'[', b'^', rest @ ..] | [b'[', rest @ ..] => {
                    odd |= boxed;
                    boxed = true;
                    rest
                }
                [b']', rest @ ..] => {
                    boxed = false;
                    rest
                }
                [_, rest @ ..] => rest,
            };
        }
    }

    /// Goes on where readers differ: nothing in `rest` may be a word or a sign that reaches out, be it
    /// in a string or not. Then it need not be read at all.
    fn whatever_it_means(&mut self, rest: &'a [u8]) -> Step {
        let words: [&[u8]; 6] = [b"system", b"getline", b"extension", b"@", b"ARGV", b"SYMTAB"];
        let prints = self.print.is_some() || contains(rest, b"print");
        let files = (prints && rest.contains(&b'>')) || (self.getline.is_some() && rest.contains(&b'<'));
        let mut pipes = rest.split(|byte| *byte == b'|');
        // Two pipes in a row have nothing between them; one has something on both sides.
        let mut single = false;
        pipes.next();
        while let Some(part) = pipes.next() {
            single |= !part.is_empty() || pipes.next().is_none();
        }
        if single || files || words.iter().any(|word| contains(rest, word)) {
            return Err("unclear");
        }
        self.left = &[];
        Ok(())
    }

    fn sign(&mut self, byte: u8, tail: &'a [u8]) -> Step {
        let called = self.previous == Token::Extension;
        let condition = self.previous == Token::Condition;
        if byte != b'(' {
            self.word = b"";
        }
        (self.left, self.previous) = (tail, Token::Operator);
        match (byte, tail) {
            (b'|', [b'|', rest @ ..]) => self.left = rest,
            (b'|', _) => return Err("pipe"),
            (b'>', [b'>', ..]) => return Err("redirection"),
            (b'>' | b'<', [b'=', rest @ ..]) => self.left = rest,
            (b'>', _) if self.print.is_some_and(|depth| self.depth <= depth) => return Err("redirection"),
            (b'<', _) if self.getline.is_some() => return Err("file-input"),
            (b'+', [b'+', rest @ ..]) | (b'-', [b'-', rest @ ..]) => {
                (self.left, self.previous) = (rest, Token::Operand);
            }
            (b'(', _) if called => return Err("extension"),
            (b'(', _) if self.depth >= DEEPEST => return Err("unclear"),
            (b'(', _) => {
                self.depth = self.depth.saturating_add(1);
                self.conditions = (self.conditions << 1) | u64::from(condition);
            }
            (b')', _) => {
                self.previous = if self.conditions & 1 == 1 { Token::Doubtful } else { Token::Operand };
                self.conditions >>= 1;
                self.depth = self.depth.saturating_sub(1);
                if self.getline.is_some_and(|depth| self.depth < depth) {
                    self.getline = None;
                }
            }
            (b']', _) => self.previous = Token::Operand,
            (b';' | b'{' | b'}', _) => self.end_statement(),
            (0x80.., _) => return Err("unclear"),
            _ => {}
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.left = self.left.split_at_checked(bytes).map_or(&[][..], |(_, rest)| rest);
    }
}

/// What an `@` outside of data begins.
fn directive(tail: &[u8]) -> &'static str {
    match run(tail, |byte| byte.is_ascii_alphabetic()) {
        b"include" | b"nsinclude" => "include",
        b"load" => "load-library",
        _ => "indirect-call",
    }
}

/// Leaves blanks and joined lines out.
fn blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', rest @ ..]
    | [b'\\', b'\n', rest @ ..]
    | [b'\\', b'\r', b'\n', rest @ ..] = text
    {
        text = rest;
    }
    text
}

/// What follows the square bracket that ends a short index.
fn bracketed(index: &[u8]) -> Option<&[u8]> {
    const LONGEST: usize = 200;
    let mut open: usize = 0;
    let mut at = 0;
    while at < LONGEST {
        match index.get(at)? {
            b'[' => open = open.saturating_add(1),
            b']' if open == 0 => return index.get(at.saturating_add(1)..),
            b']' => open = open.saturating_sub(1),
            b'"' | b'/' | b'#' | b'\n' => return None,
            _ => {}
        }
        at = at.saturating_add(1);
    }
    None
}

/// The longest beginning of bytes that are `wanted`.
fn run(text: &[u8], wanted: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|byte| !wanted(*byte)).unwrap_or(text.len());
    text.split_at_checked(end).map_or(text, |(run, _)| run)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}
