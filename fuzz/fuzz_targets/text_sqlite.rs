//! Program text of sqlite.

#![no_main]

cofferdam_fuzz::text!("sqlite");
