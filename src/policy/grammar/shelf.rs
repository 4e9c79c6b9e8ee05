//! Grammars by name: those of the operator first, then the ones that are compiled in.
//!
//! Purpose: one look-up for `judge`. The operator's files are compiled, and their examples judged, when
//! the policy loads. A file of the operator speaks for the names it lists; a shipped file that has other
//! names too keeps those. Pure: the texts come from the configuration.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use super::library::Grammar;
use super::rules::Operator;
use super::shipped;
use crate::config::{GrammarFile, examples};
use crate::policy::PolicyError;

/// Every grammar that a policy knows.
#[derive(Debug, Default)]
pub struct Library {
    own: HashMap<Vec<u8>, Arc<Grammar>>,
}

/// A grammar of either origin.
#[derive(Debug, Clone)]
pub enum Found {
    /// Compiled in.
    Shipped(&'static Grammar),
    /// Written by the operator.
    Own(Arc<Grammar>),
}

impl Deref for Found {
    type Target = Grammar;

    fn deref(&self) -> &Grammar {
        match self {
            Self::Shipped(grammar) => grammar,
            Self::Own(grammar) => grammar,
        }
    }
}

impl Library {
    /// Compiles the operator's files.
    ///
    /// # Errors
    /// The first file that is broken, contradicts its own examples, or names a program that another one
    /// is about: which and why.
    pub fn new(files: &[GrammarFile]) -> Result<Self, PolicyError> {
        let mut own: HashMap<Vec<u8>, Arc<Grammar>> = HashMap::new();
        for file in files {
            let fault = |problem: String| PolicyError::ProgramFile { path: file.path.clone(), problem };
            let grammar = Arc::new(Grammar::parse(&file.text).map_err(fault)?);
            prove(&grammar).map_err(fault)?;
            for name in grammar.names() {
                if own.insert(name.clone().into_bytes(), Arc::clone(&grammar)).is_some() {
                    return Err(fault(format!("'{name}' is named by another file, too; keep one of them")));
                }
            }
        }
        Ok(Self { own })
    }

    /// The grammar of the program with this base name, if there is one.
    ///
    /// # Errors
    /// When a compiled-in file is broken, which a test of the build would have found.
    pub fn find(&self, name: &[u8]) -> Result<Option<Found>, String> {
        match self.own.get(name) {
            Some(grammar) => Ok(Some(Found::Own(Arc::clone(grammar)))),
            None => Ok(shipped::find(name)?.map(Found::Shipped)),
        }
    }

    /// Names of shipped grammars that files of the operator replace.
    #[must_use]
    pub fn replaced(&self) -> BTreeSet<&str> {
        shipped::names().filter(|name| self.own.contains_key(name.as_bytes())).collect()
    }
}

/// Judges the examples of a file by the file itself.
fn prove(grammar: &Grammar) -> Result<(), String> {
    for example in grammar.examples() {
        let line = &example.line;
        let words = examples::split(line).map_err(|what| format!("example `{line}`: {what}"))?;
        let mut args = words.iter().map(Vec::as_slice);
        let name = args.next().unwrap_or(b"");
        if !grammar.names().iter().any(|own| own.as_bytes() == name) {
            return Err(format!("example `{line}` begins with none of the names of the file"));
        }
        let args: Vec<&[u8]> = args.collect();
        match grammar.judge(&args, &Operator::default()) {
            Ok(_) if !example.allowed => {
                return Err(format!("example `{line}` must be refused, but is allowed"));
            }
            Err(finding) if example.allowed => {
                return Err(format!(
                    "example `{line}` must be allowed, but rule '{}' refuses it",
                    finding.rule
                ));
            }
            _ => {}
        }
    }
    Ok(())
}
