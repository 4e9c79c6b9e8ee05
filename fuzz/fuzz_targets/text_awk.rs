//! Program text of awk.

#![no_main]

cofferdam_fuzz::text!("awk");
