//! The argument vector as a record shows it: readable, redacted, cut to size; and its HMAC.
//!
//! Purpose: an analyst sees what was asked for; equal commands can be matched by `argv_hmac` without
//! the record holding what was cut or redacted. Pure, but for the key. Called by `record.rs`.

use std::borrow::Cow;

use super::escape::{bound, cap, is_risky, rendered, text_of};
use super::hash;
use super::redact::{self, Found};

/// Most rendered bytes of one element: ECS indexes no longer ones.
const ELEMENT: usize = 1_024;
/// Most rendered bytes of all elements.
pub(super) const TOTAL: usize = 4_096;
/// Most elements (`maxItems` of the schema).
const ITEMS: usize = 256;

/// An argument vector on its way into a record.
#[derive(Debug)]
pub(super) struct Argv {
    /// Redacted elements.
    pub(super) clean: Vec<String>,
    /// None was so long that it was cut before.
    whole: bool,
    /// Real number of elements.
    pub(super) count: u64,
    /// Real size, a NUL an element included.
    pub(super) bytes: u64,
    /// HMAC-SHA-256 over the real elements, separated by NUL, as 64 hex digits.
    pub(super) hmac: String,
    /// Control, bidi, zero-width or tag characters, or bytes that are not UTF-8.
    pub(super) risk: bool,
}

impl Argv {
    pub(super) fn new(argv: &[Vec<u8>], key: &[u8; 32], found: &mut Found) -> Self {
        let texts: Vec<Cow<'_, str>> = argv.iter().map(|element| text_of(element)).collect();
        let bounded: Vec<Cow<'_, str>> = texts.iter().map(|text| bound(text)).collect();
        let whole = bounded.iter().zip(&texts).all(|(short, text)| short.len() == text.len());
        let risk = texts.iter().any(|text| matches!(text, Cow::Owned(_)) || text.chars().any(is_risky));
        Self {
            clean: redact::argv(&bounded, found),
            whole,
            count: argv.len() as u64,
            bytes: argv.iter().map(|element| element.len() as u64 + 1).sum(),
            hmac: hash::of_argv(argv, key),
            risk,
        }
    }

    /// The elements that fit `budget` rendered bytes, and whether any was cut. A long element loses
    /// its middle; then the vector loses its middle, and one element says how much.
    pub(super) fn fit(&self, budget: usize) -> (Vec<Cow<'_, str>>, bool) {
        let element = ELEMENT.min(budget / 2);
        let short: Vec<Cow<'_, str>> = self.clean.iter().map(|text| cap(text, element)).collect();
        let cut = !self.whole || short.iter().any(|text| matches!(text, Cow::Owned(_)));
        // Two quotes and a comma an element.
        let cost = |text: &Cow<'_, str>| rendered(text) + 3;
        let all: usize = short.iter().map(cost).sum();
        if all <= budget && short.len() <= ITEMS {
            return (short, cut);
        }
        const MARKER: usize = 40;
        let room = budget.saturating_sub(MARKER);
        let head = taken(short.iter(), room - room / 4, ITEMS - ITEMS / 4 - 1, cost);
        let rest = short.len() - head;
        let tail = taken(short.iter().rev(), room / 4, ITEMS / 4, cost).min(rest);
        let mut kept: Vec<Cow<'_, str>> = short.iter().take(head).cloned().collect();
        kept.push(Cow::Owned(format!("…[+{} arguments]…", rest - tail)));
        kept.extend(short.iter().skip(short.len() - tail).cloned());
        (kept, true)
    }
}

fn taken<'a, 'b: 'a>(
    elements: impl Iterator<Item = &'a Cow<'b, str>>,
    budget: usize,
    most: usize,
    cost: impl Fn(&Cow<'b, str>) -> usize,
) -> usize {
    let mut used = 0;
    elements
        .take(most)
        .take_while(|element| {
            used += cost(element);
            used <= budget
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(elements: &[&str]) -> Argv {
        let bytes: Vec<Vec<u8>> = elements.iter().map(|text| text.as_bytes().to_vec()).collect();
        Argv::new(&bytes, &[7; 32], &mut Found::default())
    }

    #[test]
    fn sizes_are_the_real_ones() {
        let argv = argv(&["rm", "-rf", "/"]);
        assert_eq!((argv.count, argv.bytes, argv.risk), (3, 9, false));
    }

    #[test]
    fn equal_vectors_and_only_those_have_equal_hmacs() {
        assert_eq!(argv(&["a", "b"]).hmac, argv(&["a", "b"]).hmac);
        assert_ne!(argv(&["a", "b"]).hmac, argv(&["ab"]).hmac);
        assert_ne!(argv(&["a", "b"]).hmac, argv(&["a b"]).hmac);
    }

    #[test]
    fn the_middle_goes_first() {
        let many: Vec<String> = (0..2_000).map(|number| format!("argument-{number}")).collect();
        let texts: Vec<&str> = many.iter().map(String::as_str).collect();
        let argv = argv(&texts);
        let (kept, cut) = argv.fit(TOTAL);
        assert!(cut && kept.len() <= ITEMS);
        assert_eq!((kept[0].as_ref(), kept[kept.len() - 1].as_ref()), ("argument-0", "argument-1999"));
        let marker = kept.iter().find(|text| text.contains("arguments]")).unwrap();
        assert_eq!(marker.as_ref(), format!("…[+{} arguments]…", 2_000 - (kept.len() - 1)));
    }

    #[test]
    fn a_long_element_keeps_its_end() {
        let long = format!("{}END", "x".repeat(5_000));
        let argv = argv(&["echo", &long]);
        let (kept, cut) = argv.fit(TOTAL);
        assert!(cut && kept[1].len() <= ELEMENT && kept[1].ends_with("END"));
    }
}
