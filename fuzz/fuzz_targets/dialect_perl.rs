//! Arguments read as `perl` does.

#![no_main]

cofferdam_fuzz::dialect!("perl");
