//! Arguments read as `tar` does.

#![no_main]

cofferdam_fuzz::dialect!("tar");
