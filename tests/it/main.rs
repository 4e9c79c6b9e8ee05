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

mod activation;
mod audit;
mod breakout;
mod build_profile;
mod check_lints;
mod command_run;
mod connect;
mod consent;
mod dependencies;
mod deploy;
mod differential;
mod doctor;
mod embedding;
mod escapes;
mod everyday;
mod exec;
mod fault_sites;
#[cfg(feature = "fault-injection")]
mod faults;
mod grammar;
mod groups;
mod hidden;
mod hostile;
mod hostile_repository;
mod hosts;
mod house;
mod http;
mod http_client;
mod http_hostile;
mod http_principals;
mod http_tls;
mod http_told;
mod jobs;
mod jobs_load;
mod jobs_pushed;
mod jobs_stdio;
mod kernel;
mod learn;
mod lifetime;
mod limits;
mod lines;
mod listening;
mod mcp_faults;
mod mcp_protocol;
mod mcp_stand_in;
mod mcp_stdio;
mod mounted_git;
mod operator;
mod paths;
mod plain;
mod policy_file;
mod probe_gate;
mod profiles;
mod promises;
mod reload;
mod requirements;
mod rules;
mod scan;
mod scenario;
mod shell_corpus;
mod shell_execute;
mod soak;
mod start;
mod support;
mod syntax;
mod tasks;
mod technique_names;
mod techniques;
mod terminal;
mod told;
mod toolkits;
mod verdict;
mod wrapper;
