//! Program text of sed.
//!
//! Purpose: reads a script command by command and answers the first one that starts a command or names
//! a file. Readers differ in where a label ends and in what brackets protect; what hangs on that is
//! refused. Pure, linear, allocates nothing. Called through `text`.
//!
//! Findings: `execute`, `write`, `read`, `unclear`.

/// Short id of the first thing in `text` that reaches beyond it.
pub(super) fn scan(text: &[u8]) -> Option<&'static str> {
    Script { left: text, label: false }.run().err()
}

type Step = Result<(), &'static str>;

struct Script<'a> {
    left: &'a [u8],
    /// A label stands in this line, which to some readers is all of its rest: nothing after it may
    /// reach into the next line.
    label: bool,
}

impl<'a> Script<'a> {
    fn run(&mut self) -> Step {
        while let Some((byte, tail)) = self.left.split_first() {
            self.left = tail;
            match byte {
                b'\n' => self.label = false,
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c | b';' | b'{' | b'}' => {}
                // Addresses: numbers, the last line, ranges, negation, flags of an expression.
                b'0'..=b'9' | b'$' | b',' | b'~' | b'+' | b'!' | b'I' | b'M' => {}
                b'/' => self.delimited(b'/', true)?,
                b'\\' => {
                    let delimiter = self.delimiter()?;
                    self.delimited(delimiter, true)?;
                }
                b'#' => self.left = self.line_end(),
                b'=' | b'd' | b'D' | b'F' | b'g' | b'G' | b'h' | b'H' | b'l' | b'L' | b'n' | b'N' | b'p'
                | b'P' | b'q' | b'Q' | b'x' | b'z' => {}
                b'a' | b'i' | b'c' => self.text()?,
                b':' | b'b' | b't' | b'T' => self.label()?,
                b's' => self.substitute()?,
                b'y' => {
                    let delimiter = self.delimiter()?;
                    self.delimited(delimiter, false)?;
                    self.delimited(delimiter, false)?;
                }
                b'e' => return Err("execute"),
                b'w' | b'W' => return Err("write"),
                b'r' | b'R' => return Err("read"),
                _ => return Err("unclear"),
            }
        }
        Ok(())
    }

    /// What is left from the end of the line on.
    fn line_end(&self) -> &'a [u8] {
        let end = self.left.iter().position(|byte| *byte == b'\n').unwrap_or(self.left.len());
        self.left.split_at_checked(end).map_or(&[][..], |(_, rest)| rest)
    }

    fn delimiter(&mut self) -> Result<u8, &'static str> {
        match self.left.split_first() {
            Some((delimiter, tail)) if delimiter.is_ascii() && !matches!(delimiter, b'\n' | b'\\') => {
                self.left = tail;
                Ok(*delimiter)
            }
            _ => Err("unclear"),
        }
    }

    /// Reads to the delimiter. In an expression, one behind an open bracket protects it to some readers
    /// only.
    fn delimited(&mut self, delimiter: u8, expression: bool) -> Step {
        let mut boxed = false;
        let mut odd = false;
        loop {
            match self.left {
                [b'\\', b'\n', ..] if self.label => return Err("unclear"),
                [b'\\', escaped, rest @ ..] => {
                    odd |= boxed && matches!(escaped, b'[' | b']' | b'\\');
                    self.left = rest;
                }
                [] | [b'\\' | b'\n', ..] => return Err("unclear"),
                [byte, rest @ ..] if *byte == delimiter => {
                    self.left = rest;
                    return if expression && (boxed || odd) { Err("unclear") } else { Ok(()) };
                }
                [b'[', b'^', b']', rest @ ..] | [b'[', b']', rest @ ..] if !boxed => {
                    (boxed, odd) = (true, true);
                    self.left = rest;
                }
                [b'[', b':', rest @ ..] if boxed => self.left = class(rest).ok_or("unclear")?,
                [byte, rest @ ..] => {
                    odd |= boxed && *byte == b'[';
                    boxed = if *byte == b'[' { true } else { boxed && *byte != b']' };
                    self.left = rest;
                }
            }
        }
    }

    fn substitute(&mut self) -> Step {
        let delimiter = self.delimiter()?;
        self.delimited(delimiter, true)?;
        self.delimited(delimiter, false)?;
        while let Some((flag, tail)) = self.left.split_first() {
            match flag {
                b'g' | b'p' | b'i' | b'I' | b'm' | b'M' | b'0'..=b'9' => self.left = tail,
                b'e' => return Err("execute"),
                b'w' => return Err("write"),
                b';' | b'\n' | b' ' | b'\t' | b'\r' | b'}' | b'#' => return Ok(()),
                _ => return Err("unclear"),
            }
        }
        Ok(())
    }

    /// Reads the text of `a`, `i` or `c`, to the end of a line that no backslash continues.
    fn text(&mut self) -> Step {
        loop {
            match self.left {
                [b'\\', b'\n', ..] if self.label => return Err("unclear"),
                // The next piece of the script would go on with the text.
                [b'\\'] | [b'\\', b'\n'] => return Err("unclear"),
                [b'\\', _, rest @ ..] => self.left = rest,
                [] | [b'\n', ..] => return Ok(()),
                [_, rest @ ..] => self.left = rest,
            }
        }
    }

    fn label(&mut self) -> Step {
        self.label = true;
        while let [b' ' | b'\t', rest @ ..] = self.left {
            self.left = rest;
        }
        while let Some((byte, tail)) = self.left.split_first() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => self.left = tail,
                b';' | b'\n' | b' ' | b'\t' | b'\r' => return Ok(()),
                b'}' if matches!(tail, [] | [b';' | b'\n' | b' ' | b'\t' | b'\r' | b'}', ..]) => {
                    return Ok(());
                }
                _ => return Err("unclear"),
            }
        }
        Ok(())
    }
}

/// What stands after the name of a character class, `alpha:]`.
fn class(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    text.split_at_checked(end)?.1.strip_prefix(b":]")
}
