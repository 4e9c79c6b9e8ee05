//! Option grammars: what the arguments of a program mean, as data.
//!
//! Purpose: one engine reads `policy/programs/*.toml` (`schema` → `compile` → `model`), walks an
//! argument vector the way the program would (`dialect`: `gnu`, `find`, `git`, …), and refuses what a
//! rule of the file names (`rules`), however it is spelled. Pure: no I/O. The kernel profile is the
//! boundary; this is a lint that speaks first, and in words. Called by `judge`.

mod about;
mod awk;
mod compile;
mod dialect;
mod event;
mod find;
mod git;
mod gnu;
mod inspect;
mod keyvalue;
mod library;
mod model;
mod operator;
mod perl;
mod plain;
mod rules;
mod schema;
mod sed;
mod shelf;
mod shipped;
mod sql;
mod tar;
mod text;

pub use event::Finding;
pub use inspect::Standing;
pub use library::{Example, Grammar, OptionText, RuleText, Takes};
pub(in crate::policy) use operator::{Refused, denied, refused};
pub use rules::{Judged, Operator};
pub use shelf::{Found, Library};
pub use shipped::{find as program, names, programs};

#[cfg(test)]
mod tests;
