//! Program text of sed.

#![no_main]

cofferdam_fuzz::text!("sed");
