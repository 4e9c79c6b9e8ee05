//! The verdict over a line without an appliance: nothing is started, and no file is looked at.
//!
//! Purpose: `explain --line`. Words are expanded as for a run, but for patterns, which stay as they are
//! written: which files they would match depends on the moment. Pure. Inputs: a policy and a tree. Called by
//! `cli/explain`.

use std::path::PathBuf;
use std::sync::Arc;

use super::LineDenied;
use super::expansion::{self, Seen};
use crate::policy::{Policy, Request};
use crate::syntax::List;

/// One command of a line, as it would be judged.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Its argument vector.
    pub argv: Vec<Vec<u8>>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
    /// Variables that are set for it alone.
    pub env: Vec<(String, String)>,
}

/// The commands of a line, in the order of the text.
///
/// # Errors
/// What refuses the line before a command is judged: a variable that is not passed, the target of a
/// redirection, a directory.
pub fn explain(policy: &Policy, list: &List, toolkit: Option<&str>) -> Result<Vec<Explained>, LineDenied> {
    let request = Request { toolkit: toolkit.map(str::to_owned), ..Request::default() };
    let variables = policy.variables();
    let seen = Seen { config: Arc::clone(policy.config()), opener: None, until: None, variables, request };
    let expanded = expansion::expand(list, &seen).map_err(|refused| {
        let (denial, of) = *refused;
        let stage = of.as_ref().map(|(number, _)| *number);
        let name = of.and_then(|(_, request)| request.argv.into_iter().next()).unwrap_or_default();
        LineDenied { denial, stage, name: String::from_utf8_lossy(&name).into_owned() }
    })?;
    let of = |request: Request| Explained { argv: request.argv, cwd: request.cwd, env: request.env };
    Ok(expanded.stages.into_iter().map(|stage| of(stage.request)).collect())
}
