//! Arguments read as `gnu` does.

#![no_main]

cofferdam_fuzz::dialect!("gnu");
