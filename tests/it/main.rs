//! Integration tests: one binary, one file a subject.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start the program under test and the tools that observe it"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation is what a test is for, in helper functions as well"
)]

mod audit;
mod breakout;
mod check_lints;
mod command_run;
mod dependencies;
mod differential;
mod doctor;
mod escapes;
mod everyday;
mod exec;
mod fault_sites;
#[cfg(feature = "fault-injection")]
mod faults;
mod grammar;
mod groups;
mod hidden;
mod hostile_repository;
mod house;
mod jobs;
mod jobs_pushed;
mod jobs_stdio;
mod kernel;
mod learn;
mod lifetime;
mod limits;
mod lines;
mod mcp_protocol;
mod mcp_stand_in;
mod mcp_stdio;
mod operator;
mod paths;
mod policy_file;
mod probe_gate;
mod profiles;
mod requirements;
mod rules;
mod scan;
mod shell_execute;
mod soak;
mod start;
mod support;
mod syntax;
mod technique_names;
mod techniques;
mod told;
mod toolkits;
mod verdict;
