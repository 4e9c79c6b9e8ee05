//! A page under construction: markup of ours, and text of others that cannot become markup.
//!
//! Purpose: the one way into the page. Markup is `&'static str`, so nothing that was read from a log can be it;
//! everything else goes through [`Page::text`], which escapes what HTML gives a meaning and spells out what hides.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::audit::reading::safe;

/// The style sheet; the page's policy names its hash, so that no other style applies.
pub(super) const STYLE: &str = include_str!("report.css");

/// HTML, from the front.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// Markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text, of whatever origin.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in safe(text).chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                plain => self.0.push(plain),
            }
        }
        self
    }

    /// A number.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{number}");
        self
    }

    /// A number for people: `12 345`, with a narrow blank that does not break.
    pub(super) fn count(&mut self, number: u64) -> &mut Self {
        let digits = number.to_string();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                self.0.push('\u{202f}');
            }
            self.0.push(digit);
        }
        self
    }

    /// A coordinate: tenths as a decimal number.
    pub(super) fn tenths(&mut self, tenths: u64) -> &mut Self {
        let _ = write!(self.0, "{}.{}", tenths / 10, tenths % 10);
        self
    }

    /// The directive of the content security policy for [`STYLE`].
    pub(super) fn style_hash(&mut self) -> &mut Self {
        let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let _ = write!(self.0, "'sha256-{hash}'");
        self
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}
