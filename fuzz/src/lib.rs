//! What the targets of `fuzz_targets/dialect_*.rs` and `fuzz_targets/text_*.rs` share.
//!
//! Purpose: one target per dialect of the option grammars and per language of program text, from one
//! source. Each runs hostile arguments through every grammar that uses the dialect: the one of
//! `grammars/` that is written to hold all its shapes, and those of `policy/programs/`. Inputs: the bytes
//! of libFuzzer, read as `input` says; what must hold is in `dialect` and `text`.

pub mod allocations;
pub mod builtin;
pub mod catalogue;
pub mod dialect;
pub mod input;
pub mod judged;
pub mod spelling;
pub mod text;

/// The target of one dialect, by its name in a program file.
#[macro_export]
macro_rules! dialect {
    ($name:literal) => {
        static SITES: std::sync::LazyLock<Vec<$crate::catalogue::Site>> =
            std::sync::LazyLock::new(|| $crate::catalogue::sites($name));
        // Loaded before the first input, whose time counts.
        libfuzzer_sys::fuzz_target!(
            init: {
                std::sync::LazyLock::force(&SITES);
            },
            |data: &[u8]| $crate::dialect::check(&SITES, data)
        );
    };
}

/// The target of one language of program text, by its name in a program file.
#[macro_export]
macro_rules! text {
    ($name:literal) => {
        static READER: std::sync::LazyLock<$crate::text::Reader> =
            std::sync::LazyLock::new(|| $crate::text::Reader::of($name));
        libfuzzer_sys::fuzz_target!(
            init: {
                std::sync::LazyLock::force(&READER);
            },
            |data: &[u8]| READER.check(data)
        );
    };
}
