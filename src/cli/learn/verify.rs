//! Runs the program under the proposal, and under less, to see what it can do without. Called by `learn`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::end::Ending;
use super::proposal::Proposal;
use super::{Failure, Learner, Walls, say};
use crate::config::Command;

/// Most entries that are left out one by one.
const ENTRIES: usize = 24;
/// How long is looked for something to leave out.
const LOOK: Duration = Duration::from_secs(60);

/// What the runs under the proposal say.
#[derive(Debug)]
pub(super) struct Verified {
    /// The last run under the section as it is printed.
    pub(super) ending: Ending,
    /// It ended with the status of the recorded run, and printed the same where it always does.
    pub(super) alike: bool,
    /// It prints the same when it is run again.
    pub(super) stable: bool,
    /// How many runs there were.
    pub(super) runs: usize,
}

/// Runs `proposal`; where it ends as `recorded`, leaves out of it what makes no difference.
pub(super) fn smallest(
    learner: &Learner<'_>,
    proposal: &mut Proposal,
    recorded: &Ending,
) -> Result<Verified, Failure> {
    let (mut runs, start) = (0, Instant::now());
    let mut attempt = |execute: &[PathBuf], read: &[PathBuf]| {
        runs += 1;
        let command = Command { execute: execute.to_vec(), read: read.to_vec(), ..learner.command() };
        let write = !proposal.only_reading && (learner.write || !proposal.written.is_empty());
        let repository_write = write && (learner.repository_write || proposal.repository);
        learner.attempt(command, Walls { write, repository_write, ports: proposal.ports.clone() })
    };
    say("running it under the proposal");
    let mut ending = attempt(&proposal.execute, &proposal.read)?;
    let alike = |ending: &Ending| ending.same_status(recorded) && ending.same_output(recorded);
    let holds = alike(&ending);
    if !holds && ending.same_status(recorded) {
        // Another recorded run tells a program that cannot print the same twice.
        let stable = learner.record()?.0.same_output(recorded);
        return Ok(Verified { ending, alike: !stable, stable, runs });
    }
    let ends = recorded.ran().is_some_and(|ran| !ran.timed_out);
    if holds && ends && !(proposal.execute.is_empty() && proposal.read.is_empty()) {
        say("looking for what it can do without");
        let bare = attempt(&[], &[])?;
        if alike(&bare) {
            ending = bare;
            proposal.spared = proposal.execute.drain(..).chain(proposal.read.drain(..)).collect();
        } else if proposal.execute.len() + proposal.read.len() <= ENTRIES {
            let all: Vec<PathBuf> = proposal.execute.iter().chain(&proposal.read).cloned().collect();
            for path in all {
                if start.elapsed() > LOOK {
                    break; // the rest stays in
                }
                let without =
                    |list: &[PathBuf]| list.iter().filter(|p| **p != path).cloned().collect::<Vec<_>>();
                let (execute, read) = (without(&proposal.execute), without(&proposal.read));
                let less = attempt(&execute, &read)?;
                if alike(&less) {
                    ending = less;
                    (proposal.execute, proposal.read) = (execute, read);
                    proposal.spared.push(path);
                }
            }
        }
    }
    Ok(Verified { ending, alike: holds, stable: true, runs })
}
