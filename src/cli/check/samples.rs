//! Names that a regular expression matches.
//!
//! Purpose: patterns are compared by what they match. Reads the part of the syntax that patterns for names
//! use; whatever else there is makes the samples incomplete, and a caller checks each of them with the
//! expression itself. Called by `patterns` only.

use std::iter::Peekable;
use std::str::Chars;

/// Most samples of one expression.
const MOST: usize = 512;
/// Largest class of characters that is written out.
const CLASS: usize = 16;

/// Samples of an expression.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) names: Vec<String>,
    /// These are all that it matches.
    pub(super) complete: bool,
}

/// Samples of `pattern`.
pub(super) fn of(pattern: &str) -> Samples {
    let mut reader = Reader { rest: pattern.chars().peekable(), complete: true, depth: 0 };
    let names = reader.alternatives();
    let complete = reader.complete && reader.rest.peek().is_none();
    Samples { names, complete }
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    complete: bool,
    depth: usize,
}

impl Reader<'_> {
    fn alternatives(&mut self) -> Vec<String> {
        let mut all = self.sequence();
        while self.rest.next_if_eq(&'|').is_some() {
            all.extend(self.sequence());
        }
        self.capped(all)
    }

    fn sequence(&mut self) -> Vec<String> {
        let mut all = vec![String::new()];
        while let Some(next) = self.rest.next_if(|next| !matches!(next, '|' | ')')) {
            let parts = self.atom(next);
            let parts = self.repeated(parts);
            let joined = all.iter().flat_map(|head| parts.iter().map(move |tail| format!("{head}{tail}")));
            let joined = joined.take(MOST.saturating_add(1)).collect();
            all = self.capped(joined);
        }
        all
    }

    fn atom(&mut self, first: char) -> Vec<String> {
        match first {
            '(' => self.group(),
            '[' => self.class(),
            '.' => self.some_of(&['a', '0', '-']),
            '^' | '$' => vec![String::new()],
            '\\' => self.escape(),
            other => vec![other.to_string()],
        }
    }

    fn group(&mut self) -> Vec<String> {
        self.depth = self.depth.saturating_add(1);
        // Patterns this deep are nobody's.
        if self.depth > 64 {
            self.complete = false;
            return vec![String::new()];
        }
        if self.rest.next_if_eq(&'?').is_some() {
            // Flags and names end at the colon or the bracket.
            let mut head = String::new();
            while let Some(next) = self.rest.next_if(|next| !matches!(next, ':' | '>' | ')')) {
                head.push(next);
            }
            if self.rest.peek() != Some(&')') {
                self.rest.next();
            }
            self.complete &= head.is_empty() || head.contains('<');
        }
        let all = self.alternatives();
        self.rest.next_if_eq(&')');
        self.depth = self.depth.saturating_sub(1);
        all
    }

    fn class(&mut self) -> Vec<String> {
        if self.rest.next_if_eq(&'^').is_some() {
            while self.rest.next_if(|next| *next != ']').is_some() {}
            self.rest.next();
            return self.some_of(&['a', 'Z', '0', '_', '-', '.']);
        }
        let mut all = Vec::new();
        let mut first = true;
        while let Some(next) = self.rest.next_if(|next| first || *next != ']') {
            first = false;
            let from = match next {
                '\\' => match self.rest.next() {
                    Some('d') => return self.rest_of_class(&['0']),
                    Some('w') => return self.rest_of_class(&['a', '0', '_']),
                    Some(other) => other,
                    None => break,
                },
                other => other,
            };
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-')
                && let Some(to) = ahead.next().filter(|to| *to != ']')
            {
                self.rest = ahead;
                all.extend(from..=to);
            } else {
                all.push(from);
            }
        }
        self.rest.next();
        if all.len() > CLASS {
            self.complete = false;
            all.truncate(1);
        }
        all.into_iter().map(String::from).collect()
    }

    fn rest_of_class(&mut self, samples: &[char]) -> Vec<String> {
        while self.rest.next_if(|next| *next != ']').is_some() {}
        self.rest.next();
        self.some_of(samples)
    }

    fn escape(&mut self) -> Vec<String> {
        match self.rest.next() {
            Some('d') => self.some_of(&['0']),
            Some('w') => self.some_of(&['a', '0', '_']),
            Some('A' | 'z' | 'b') => vec![String::new()],
            Some(letter) if letter.is_alphanumeric() => self.some_of(&[letter]),
            Some(other) => vec![other.to_string()],
            None => vec![String::new()],
        }
    }

    fn repeated(&mut self, parts: Vec<String>) -> Vec<String> {
        let mut all = match self.rest.peek() {
            Some('?') => [String::new()].into_iter().chain(parts).collect(),
            Some('*') => {
                self.complete = false;
                [String::new()].into_iter().chain(parts).collect()
            }
            Some('+') => {
                self.complete = false;
                parts
            }
            Some('{') => {
                self.complete = false;
                let mut bounds = String::new();
                while let Some(next) = self.rest.next_if(|next| *next != '}') {
                    bounds.extend(next.is_ascii_digit().then_some(next));
                    if next == ',' {
                        break;
                    }
                }
                while self.rest.next_if(|next| *next != '}').is_some() {}
                let least = bounds.parse::<usize>().unwrap_or(1).min(MOST);
                parts.iter().map(|part| part.repeat(least)).collect()
            }
            _ => return parts,
        };
        self.rest.next();
        // Lazy or not: the same names.
        self.rest.next_if_eq(&'?');
        all.dedup();
        all
    }

    fn some_of(&mut self, samples: &[char]) -> Vec<String> {
        self.complete = false;
        samples.iter().map(char::to_string).collect()
    }

    fn capped(&mut self, mut all: Vec<String>) -> Vec<String> {
        if all.len() > MOST {
            self.complete = false;
            all.truncate(MOST);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(pattern: &str) -> Option<Vec<String>> {
        let samples = of(pattern);
        samples.complete.then_some(samples.names)
    }

    #[test]
    fn finite_patterns_are_written_out() {
        assert_eq!(complete("ls|cat").unwrap(), ["ls", "cat"]);
        assert_eq!(complete("g?(sort|uniq)").unwrap(), ["sort", "uniq", "gsort", "guniq"]);
        assert_eq!(complete(r"a[xy]\.b").unwrap(), ["ax.b", "ay.b"]);
        assert_eq!(complete("(?:a|b)c").unwrap(), ["ac", "bc"]);
    }

    #[test]
    fn infinite_ones_say_so_and_still_give_names_that_match() {
        for pattern in
            [".*", "git-.+", r"python3\.[0-9]+", "[a-z]{3,5}", r"\w+", "(?i)ls", "[^/]+", "x{2}", r"[\w.]+"]
        {
            let samples = of(pattern);
            assert!(!samples.complete, "{pattern}");
            let whole = regex::Regex::new(&format!(r"\A(?:{pattern})\z")).unwrap();
            assert!(samples.names.iter().any(|name| whole.is_match(name)), "{pattern}: {:?}", samples.names);
        }
    }

    #[test]
    fn growth_is_bounded() {
        assert!(of(&"(a|b|c|d)".repeat(40)).names.len() <= MOST);
        assert!(!of(&"(a|b|c|d)".repeat(40)).complete);
    }
}
