//! From the bytes of libFuzzer to argument vectors.
//!
//! A head of single bytes makes choices. What is left is hostile elements, parted by NUL, which no
//! argument can hold; `0xff N` in an element stands for word N of a vocabulary, so that names of options
//! are one mutation away, and `0xfe N` at its end for N copies of it.

/// Reads choices from the front of the input.
pub struct Choices<'d> {
    left: &'d [u8],
}

/// Elements and bytes that one vector may have: room enough to see growth, small enough to stay fast.
const ELEMENTS: usize = 2_048;
const BYTES: usize = 1 << 16;

impl<'d> Choices<'d> {
    /// Choices from `data`.
    #[must_use]
    pub fn new(data: &'d [u8]) -> Self {
        Self { left: data }
    }

    /// The next byte; zero when none is left.
    pub fn byte(&mut self) -> u8 {
        match self.left.split_first() {
            Some((byte, left)) => {
                self.left = left;
                *byte
            }
            None => 0,
        }
    }

    /// One of `all`, if there are any.
    pub fn one<'t, T>(&mut self, all: &'t [T]) -> Option<&'t T> {
        let index = usize::from(self.byte()) | (usize::from(self.byte()) << 8);
        all.get(index.checked_rem(all.len())?)
    }

    /// The rest, as elements.
    #[must_use]
    pub fn elements(self, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut elements = Vec::new();
        let mut size = 0;
        for part in self.left.split(|byte| *byte == 0) {
            let (element, copies) = element(part, words);
            for _ in 0..copies {
                size += element.len();
                if elements.len() >= ELEMENTS || size > BYTES {
                    return elements;
                }
                elements.push(element.clone());
            }
        }
        elements
    }

    /// The rest as one text, in which NUL stands for itself.
    #[must_use]
    pub fn text(self, words: &[Vec<u8>]) -> Vec<u8> {
        element(self.left, words).0
    }
}

fn element(part: &[u8], words: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let (part, copies) = match part {
        [part @ .., 0xfe, copies] => (part, usize::from(*copies).max(1)),
        _ => (part, 1),
    };
    let mut element = Vec::with_capacity(part.len());
    let mut left = part.iter();
    while let Some(byte) = left.next() {
        match (byte, words.len()) {
            (0xff, 1..) => {
                let index = left.next().map_or(0, |index| usize::from(*index));
                element.extend_from_slice(&words[index % words.len()]);
            }
            _ => element.push(*byte),
        }
    }
    (element, copies)
}
