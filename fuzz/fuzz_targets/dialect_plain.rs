//! Arguments read as `plain` does.

#![no_main]

cofferdam_fuzz::dialect!("plain");
