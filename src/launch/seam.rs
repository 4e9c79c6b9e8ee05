//! The seam: where a program that embeds the library may put another program around what was judged.
//!
//! Purpose: total and closed. [`Launcher::run`](super::Launcher::run) takes nothing but [`Ready`], which only
//! [`Seam::pass`] makes, so that no road to a process leads around the wrapper; one that fails, panics or hangs
//! starts nothing. What a wrapper answers is a program and arguments *before* the judged vector: it has no words
//! for the vector itself, the working directory, the environment, the limits or standard input.
//! Inputs: an [`Authorized`] plan, its profile, the policy's resolver. Called by `appliance.rs`.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{LaunchError, Prepared};
use crate::config::program::{Program, Programs};
use crate::policy::{Authorized, Target};

/// How long a wrapper may think.
const PATIENCE: Duration = Duration::from_secs(10);
/// Characters of its own words that are passed on.
const WORDS: usize = 300;
/// The step of its failures.
const STEP: &str = "wrapper";

/// What a wrapper may say in place of an answer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What is about to run: a copy, to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The name that was asked for: element 0 of the judged vector.
    pub name: OsString,
    /// The program file.
    pub program: PathBuf,
    /// The judged arguments after the name.
    pub args: Vec<OsString>,
    /// The working directory, which stays what it is.
    pub directory: PathBuf,
}

/// Decides what each command is put into.
///
/// It is asked once for each run and each job, after the verdict and before the start is recorded, on a thread
/// where it may block for up to ten seconds. An error, a panic and a late answer are one: nothing is started,
/// and the record says `sandbox_error` with `error_code` `sandbox_wrapper`. In a server that confined itself
/// (`Appliance::start_confined`) it can start no program and write no file.
///
/// The wrapping program runs **inside** of the built-in confinement, with the profile of the command it is put
/// around: it can take more away (`setpriv --landlock-access`, `prlimit`, a filter of its own), and it can give
/// nothing back. What needs a namespace, a mount, a capability or a set-user bit, as `bwrap` and `nsjail` do,
/// fails in there, and the command with it. Its file must be one that the command's profile may execute: list
/// it in `[command.NAME] execute`.
///
/// ```
/// use cofferdam::{Plan, Wrapper, Wrapping};
/// let wrapper = |plan: &Plan| Ok(Wrapping::new("/usr/bin/prlimit").arg("--nofile=64").sandboxed(true));
/// fn takes(_: impl Wrapper) {}
/// takes(wrapper);
/// ```
pub trait Wrapper: Send + Sync + 'static {
    /// What `plan` is put into.
    ///
    /// # Errors
    /// Why it must not run.
    fn wrap(&self, plan: &Plan) -> Result<Wrapping, BoxError>;
}

impl<F: Fn(&Plan) -> Result<Wrapping, BoxError> + Send + Sync + 'static> Wrapper for F {
    fn wrap(&self, plan: &Plan) -> Result<Wrapping, BoxError> {
        self(plan)
    }
}

/// The answer of a [`Wrapper`]: what is executed is this program with these arguments, then the path of the
/// judged program, then its judged arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapping {
    program: Option<OsString>,
    args: Vec<OsString>,
    sandboxed: bool,
}

impl Wrapping {
    /// In `program`: an absolute path, or a bare name that is found through the policy's safe PATH.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: Some(program.into()), args: Vec::new(), sandboxed: false }
    }

    /// In nothing, on purpose: the command runs as it was judged, and the record says `unchanged`.
    #[must_use]
    pub fn unchanged() -> Self {
        Self { program: None, args: Vec::new(), sandboxed: false }
    }

    /// One more argument before the judged program.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Claims that the program confines the command further: `sandbox.wrapper.sandboxed` of the result. Nothing
    /// is decided by it.
    #[must_use]
    pub fn sandboxed(mut self, claim: bool) -> Self {
        self.sandboxed = claim;
        self
    }
}

/// What a run was put into, for its result and its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// The program file; absent where the wrapper left the command as it was.
    pub program: Option<PathBuf>,
    /// Arguments before the judged program.
    pub args: Vec<OsString>,
    /// The wrapper's own claim.
    pub sandboxed: bool,
}

/// The wrapper of an appliance, if it has one.
#[derive(Clone, Default)]
pub struct Seam(Option<Arc<dyn Wrapper>>);

impl std::fmt::Debug for Seam {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_some() { "Seam(wrapper)" } else { "Seam(none)" })
    }
}

/// A plan that has passed the seam: the one thing that the launcher takes.
#[derive(Debug)]
pub struct Ready<'a> {
    plan: &'a Authorized,
    outer: Option<Outer>,
    wrapped: Option<Wrapped>,
}

#[derive(Debug)]
struct Outer {
    program: Arc<Program>,
    argv: Vec<CString>,
}

impl Ready<'_> {
    /// What was judged.
    #[must_use]
    pub fn plan(&self) -> &Authorized {
        self.plan
    }

    /// What it was put into, if there is a wrapper.
    #[must_use]
    pub fn wrapped(&self) -> Option<&Wrapped> {
        self.wrapped.as_ref()
    }

    /// The file that is executed.
    pub(super) fn program(&self) -> Result<&Program, LaunchError> {
        match (&self.outer, self.plan.target()) {
            (Some(outer), _) => Ok(&outer.program),
            (None, Target::Found(program)) => Ok(program),
            (None, Target::Missing) => Err(missing()),
        }
    }

    /// Its argument vector.
    pub(super) fn argv(&self) -> &[CString] {
        self.outer.as_ref().map_or(self.plan.argv(), |outer| &outer.argv)
    }
}

fn missing() -> LaunchError {
    LaunchError::new("resolve", libc::ENOENT, "no such file or directory")
}

fn failed(what: &str) -> LaunchError {
    LaunchError::new(STEP, 0, &format!("wrapper failed: {what}; nothing was started"))
}

impl Seam {
    /// Every command is put into what `wrapper` says.
    #[must_use]
    pub fn new(wrapper: impl Wrapper) -> Self {
        Self(Some(Arc::new(wrapper)))
    }

    /// Asks the wrapper, if there is one.
    ///
    /// # Errors
    /// It has failed, or what it answered cannot be started: nothing may be started then.
    pub async fn pass<'a>(
        &self,
        plan: &'a Authorized,
        prepared: &Prepared,
        programs: &Programs,
    ) -> Result<Ready<'a>, LaunchError> {
        let Some(wrapper) = &self.0 else { return Ok(Ready { plan, outer: None, wrapped: None }) };
        let Target::Found(program) = plan.target() else { return Err(missing()) };
        let wrapping = ask(Arc::clone(wrapper), shown(plan, program), PATIENCE).await?;
        let Wrapping { program: name, args, sandboxed } = wrapping;
        let Some(name) = name else {
            let wrapped = Wrapped { program: None, args: Vec::new(), sandboxed: false };
            return Ok(Ready { plan, outer: None, wrapped: Some(wrapped) });
        };
        let outer = find(&name, prepared, programs)?;
        // The launcher looks at the file that it executes; this one is executed by the wrapper.
        let same = std::fs::metadata(&program.path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (program.dev, program.ino));
        if !same {
            let text = format!(
                "{} was replaced after the policy was loaded: reload the policy",
                program.path.display()
            );
            return Err(LaunchError::new("pin", libc::ESTALE, &text));
        }
        let judged = plan.argv().iter().skip(1).map(|argument| Ok(argument.clone()));
        let own = |text: &[u8]| CString::new(text).map_err(|_| failed("an argument of it holds a NUL byte"));
        let argv = std::iter::once(own(outer.path.as_os_str().as_bytes()))
            .chain(args.iter().map(|argument| own(argument.as_bytes())))
            .chain(std::iter::once(own(program.path.as_os_str().as_bytes())))
            .chain(judged)
            .collect::<Result<Vec<_>, _>>()?;
        let wrapped = Wrapped { program: Some(outer.real.clone()), args, sandboxed };
        Ok(Ready { plan, outer: Some(Outer { program: outer, argv }), wrapped: Some(wrapped) })
    }
}

fn shown(plan: &Authorized, program: &Program) -> Plan {
    let text = |bytes: &CString| OsString::from_vec(bytes.as_bytes().to_vec());
    Plan {
        name: plan.argv().first().map_or_else(OsString::new, text),
        program: program.path.clone(),
        args: plan.argv().iter().skip(1).map(text).collect(),
        directory: plan.cwd().path().to_owned(),
    }
}

async fn ask(wrapper: Arc<dyn Wrapper>, plan: Plan, patience: Duration) -> Result<Wrapping, LaunchError> {
    let answer = tokio::task::spawn_blocking(move || wrapper.wrap(&plan));
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(Ok(wrapping))) => Ok(wrapping),
        Ok(Ok(Err(error))) => Err(failed(&plain(&error.to_string()))),
        Ok(Err(_panic)) => Err(failed("it panicked")),
        Err(_elapsed) => Err(failed(&format!("it did not answer within {patience:?}"))),
    }
}

/// Its words, short and without anything that controls a terminal.
fn plain(text: &str) -> String {
    text.chars().take(WORDS).map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// The wrapping program, which the profile must be able to execute.
fn find(name: &OsString, prepared: &Prepared, programs: &Programs) -> Result<Arc<Program>, LaunchError> {
    let text = name.to_str().ok_or_else(|| failed("the name of its program is not UTF-8"))?;
    let found = programs.lookup(text).map_err(|absent| failed(&plain(&absent.to_string())))?;
    let profile = &prepared.profile;
    let listed = profile.execute.iter().any(|granted| found.real.starts_with(granted));
    if !listed || profile.loaders.contains(&found.real) {
        let file = found.real.display();
        let command = &profile.name;
        return Err(failed(&format!(
            "the profile of {command} does not execute {file}: list it in command.{command}.execute"
        )));
    }
    Ok(found)
}

#[cfg(test)]
#[path = "seam_tests.rs"]
mod tests;
