//! Arguments read as `long-only` does.

#![no_main]

cofferdam_fuzz::dialect!("long-only");
