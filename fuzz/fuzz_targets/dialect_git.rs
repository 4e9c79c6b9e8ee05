//! Arguments read as `git` does.

#![no_main]

cofferdam_fuzz::dialect!("git");
