//! Program text of mysql.

#![no_main]

cofferdam_fuzz::text!("mysql");
