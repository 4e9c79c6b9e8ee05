//! Arguments read as `bsdtar` does.

#![no_main]

cofferdam_fuzz::dialect!("bsdtar");
