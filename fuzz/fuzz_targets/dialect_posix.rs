//! Arguments read as `posix` does.

#![no_main]

cofferdam_fuzz::dialect!("posix");
