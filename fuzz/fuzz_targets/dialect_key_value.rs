//! Arguments read as `key-value` does.

#![no_main]

cofferdam_fuzz::dialect!("key-value");
