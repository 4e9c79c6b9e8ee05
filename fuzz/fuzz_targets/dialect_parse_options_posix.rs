//! Arguments read as `parse-options-posix` does.

#![no_main]

cofferdam_fuzz::dialect!("parse-options-posix");
