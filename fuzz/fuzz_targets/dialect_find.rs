//! Arguments read as `find` does.

#![no_main]

cofferdam_fuzz::dialect!("find");
