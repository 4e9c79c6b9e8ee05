//! Program text of psql.

#![no_main]

cofferdam_fuzz::text!("psql");
