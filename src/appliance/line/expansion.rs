//! From the tree of a line to text: variables, patterns, `~`, directories, the targets of redirections.
//!
//! Purpose: everything that the words of a line depend on is looked at once, before the verdict. Nothing is
//! made or emptied here. Inputs: the tree, what the policy lets words see, and the files of the workspace.
//! Called by `judge.rs`, off the runtime: it blocks for as long as the file system does.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::files::Files;
use super::plan::{Entry, Expanded, Member, Pipeline, Redirection, Stage, Target};
use crate::config::Config;
use crate::config::workspace::Cwd;
use crate::launch::{OpenFor, Opener};
use crate::policy::{Denial, Reason, Request, RuleKind, cwd_denial};
use crate::syntax::expand::{Budget, Problem, Surroundings, arguments, single};
use crate::syntax::tree::{self, AndOr, Command, List, Word};

/// The one file outside of the workspace that a redirection may name.
const NULL: &str = "/dev/null";

/// What the words of a line see.
pub(super) struct Seen {
    pub(super) config: Arc<Config>,
    /// Finds the files; without one, patterns match nothing.
    pub(super) opener: Option<Opener>,
    /// From then on patterns match nothing, and the line is refused; and how long that is in all.
    pub(super) until: Option<(Instant, Duration)>,
    /// Variables that the policy passes or sets.
    pub(super) variables: BTreeMap<String, String>,
    /// What every request of the line has.
    pub(super) request: Request,
}

/// Why a line was not expanded: the refusal, and the command that it is about.
pub(super) type Refused = Box<(Denial, Option<(usize, Request)>)>;

/// Expands `list`.
pub(super) fn expand(list: &List, seen: &Seen) -> Result<Expanded, Refused> {
    let asked = seen.request.cwd.as_deref();
    let cwd = seen.config.working_directory(seen.request.toolkit.as_deref(), asked);
    let cwd = cwd.map_err(|error| whole(cwd_denial(&error)))?;
    let mut walk = Walk { seen, budget: Budget::default(), stages: Vec::new() };
    let list = walk.list(list, &cwd)?;
    // Words may lack what was not looked at any more.
    match seen.until {
        Some((until, bound)) if Instant::now() >= until => Err(late(bound)),
        _ => Ok(Expanded { list, stages: walk.stages }),
    }
}

/// The refusal of a line whose words were not known in time.
pub(super) fn late(bound: Duration) -> Refused {
    let message = format!(
        "The patterns of the line were not matched against the files within its timeout of {} s.",
        bound.as_secs_f64()
    );
    let denial = Denial::new("line.expansion", RuleKind::Limit, Reason::LimitTooHigh, message);
    whole(denial.instead("narrow the patterns, or let a program search"))
}

struct Walk<'w> {
    seen: &'w Seen,
    budget: Budget,
    stages: Vec<Stage>,
}

impl<'w> Walk<'w> {
    fn list(&mut self, list: &List, cwd: &Cwd) -> Result<Vec<Entry>, Refused> {
        let mut cwd = cwd.clone();
        list.entries.iter().map(|entry| self.entry(entry, &mut cwd)).collect()
    }

    fn entry(&mut self, entry: &AndOr, cwd: &mut Cwd) -> Result<Entry, Refused> {
        let first = self.pipeline(&entry.first, cwd)?;
        let mut rest = Vec::with_capacity(entry.rest.len());
        for (connector, pipeline) in &entry.rest {
            rest.push((*connector, self.pipeline(pipeline, cwd)?));
        }
        Ok(Entry { first, rest })
    }

    fn pipeline(&mut self, pipeline: &tree::Pipeline, cwd: &mut Cwd) -> Result<Pipeline, Refused> {
        let mut members = Vec::with_capacity(pipeline.stages.len());
        for stage in &pipeline.stages {
            members.push(match stage {
                Command::Simple(simple) => self.simple(simple, cwd)?,
                Command::Group { list, redirections } => {
                    let redirections = redirections.iter().map(|one| self.redirection(one, cwd));
                    let redirections = redirections.collect::<Result<_, _>>().map_err(whole)?;
                    Member::Group { redirections, list: self.list(list, cwd)? }
                }
                Command::Directory(word) => {
                    *cwd = self.directory(word, cwd).map_err(whole)?;
                    Member::Directory
                }
            });
        }
        Ok(Pipeline { negated: pipeline.negated, members })
    }

    fn simple(&mut self, simple: &tree::Simple, cwd: &Cwd) -> Result<Member, Refused> {
        let number = self.stages.len();
        let mut request = Request { cwd: Some(cwd.path().to_owned()), ..self.seen.request.clone() };
        // Until it is expanded, it is known by what was written.
        request.argv = simple.words.iter().map(|word| word.to_string().into_bytes()).collect();
        let refused = |denial: Denial, request: &Request| Box::new((denial, Some((number, request.clone()))));
        let argv =
            self.words(&simple.words, cwd).map_err(|problem| refused(expansion(&problem), &request))?;
        request.argv = argv;
        for assignment in &simple.assignments {
            let value = self.one(&assignment.value, cwd);
            let value = value.map_err(|problem| refused(expansion(&problem), &request))?;
            // The last one of a name counts, and stands alone.
            request.env.retain(|(name, _)| *name != assignment.name);
            request.env.push((assignment.name.clone(), value));
        }
        let redirections = simple.redirections.iter().map(|one| self.redirection(one, cwd));
        let redirections: Result<Vec<_>, Denial> = redirections.collect();
        let redirections = redirections.map_err(|denial| refused(denial, &request))?;
        self.stages.push(Stage { request, redirections });
        Ok(Member::Stage(number))
    }

    fn redirection(&mut self, redirection: &tree::Redirection, cwd: &Cwd) -> Result<Redirection, Denial> {
        let text = match redirection.to.word() {
            Some(word) => self.one(word, cwd).map_err(|problem| expansion(&problem))?,
            None => String::new(),
        };
        let to = match &redirection.to {
            tree::Target::Same(descriptor) => Target::Same(*descriptor),
            tree::Target::Text(_) => Target::Text([text.as_bytes(), b"\n"].concat()),
            tree::Target::Read(_) => self.target(text, OpenFor::Read, cwd)?,
            tree::Target::Write(_) => self.target(text, OpenFor::Write, cwd)?,
            tree::Target::Append(_) => self.target(text, OpenFor::Append, cwd)?,
        };
        Ok(Redirection { descriptor: redirection.descriptor, to })
    }

    /// A file of the workspace or `/dev/null`; the kernel has the last word about it when it is opened.
    fn target(&self, path: String, purpose: OpenFor, cwd: &Cwd) -> Result<Target, Denial> {
        if path == NULL {
            return Ok(Target::Null);
        }
        let shown: String = path.chars().take(256).flat_map(char::escape_debug).collect();
        let refuse = |rule: &'static str, message: String, instead: &'static str| {
            Denial::new(rule, RuleKind::ArgDeny, Reason::ArgumentDenied, message).instead(instead)
        };
        if path.is_empty() || path.contains('\0') {
            let message = format!("Redirection target '{shown}' is no path.");
            return Err(refuse("redirection.path", message, "name a file"));
        }
        if path.starts_with('/') {
            let message = format!(
                "Redirection target must be relative to the working directory: '{shown}' is absolute."
            );
            return Err(refuse(
                "redirection.absolute",
                message,
                "name a file below the working directory, or /dev/null",
            ));
        }
        if Path::new(&path).components().any(|part| part == Component::ParentDir) {
            let message = format!("Redirection target cannot contain parent traversal: '{shown}'.");
            return Err(refuse(
                "redirection.parent",
                message,
                "name a file below the working directory, or /dev/null",
            ));
        }
        if purpose != OpenFor::Read && !self.seen.config.workspace.write {
            let message =
                format!("Redirection into '{shown}' is refused: the policy makes the workspace read-only.");
            return Err(refuse(
                "redirection.read_only",
                message,
                "read the output of the command, or use /dev/null",
            ));
        }
        Ok(Target::File { cwd: cwd.clone(), path, purpose })
    }

    fn directory(&mut self, word: &Word, cwd: &Cwd) -> Result<Cwd, Denial> {
        let asked = PathBuf::from(self.one(word, cwd).map_err(|problem| expansion(&problem))?);
        let asked =
            if asked.is_absolute() || asked.as_os_str().is_empty() { asked } else { cwd.path().join(asked) };
        self.seen.config.workspace.resolve(Some(&asked)).map_err(|error| cwd_denial(&error))
    }

    fn files<'f>(&self, cwd: &'f Cwd) -> Files<'f>
    where
        'w: 'f,
    {
        let Seen { config, opener, until, .. } = self.seen;
        Files {
            opener: opener.as_ref(),
            until: until.map(|(until, _)| until),
            root: &config.workspace.path,
            cwd: cwd.path(),
        }
    }

    fn words(&mut self, words: &[Word], cwd: &Cwd) -> Result<Vec<Vec<u8>>, Problem> {
        let files = self.files(cwd);
        let surroundings = surroundings(self.seen, &files);
        arguments(words, &surroundings, &mut self.budget)
    }

    fn one(&mut self, word: &Word, cwd: &Cwd) -> Result<String, Problem> {
        let files = self.files(cwd);
        let surroundings = surroundings(self.seen, &files);
        single(word, &surroundings, &mut self.budget)
    }
}

fn surroundings<'s>(seen: &'s Seen, files: &'s Files<'s>) -> Surroundings<'s> {
    let home = seen.variables.get("HOME").map(String::as_str);
    Surroundings { home, variables: &seen.variables, directory: files }
}

fn whole(denial: Denial) -> Refused {
    Box::new((denial, None))
}

fn expansion(problem: &Problem) -> Denial {
    Denial::new("line.expansion", RuleKind::BuiltinDeny, Reason::ArgumentDenied, problem.to_string())
        .instead("write the words out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::config;
    use crate::syntax::{Options, parse};

    #[test]
    fn a_line_whose_time_is_over_is_refused_and_not_run_with_fewer_words() {
        let list = parse("echo *", Options::default()).unwrap();
        let seen = |until| Seen {
            config: Arc::new(config(&["echo"])),
            opener: None,
            until: Some((until, Duration::from_secs(9))),
            variables: BTreeMap::new(),
            request: Request::default(),
        };
        let (denial, stage) = *expand(&list, &seen(Instant::now())).unwrap_err();
        assert_eq!((denial.rule.as_ref(), denial.reason), ("line.expansion", Reason::LimitTooHigh));
        assert!(stage.is_none(), "it is about the whole line");
        let expanded = expand(&list, &seen(Instant::now() + Duration::from_secs(3600))).unwrap();
        assert_eq!(expanded.stages.first().unwrap().request.argv, [b"echo".to_vec(), b"*".to_vec()]);
    }
}
