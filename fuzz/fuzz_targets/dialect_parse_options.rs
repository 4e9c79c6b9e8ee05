//! Arguments read as `parse-options` does.

#![no_main]

cofferdam_fuzz::dialect!("parse-options");
