//! Operators as elements of an argument vector, as `shell_execute` takes them.
//!
//! Purpose: from `["ls", "|", "wc", "-l", ">", "out"]` to the same tree that a line gives. An element is an
//! operator only if it is nothing else; in a longer one the same characters are data. No element is
//! expanded: `*`, `$HOME` and `~` are text. Inputs: the elements. Called by the tools.

use super::tree::{AndOr, Command, Connector, List, Pipeline, Redirection, Simple, Target, Word};

/// What `;`, `&&` and `||` as elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sequencing {
    /// Operators.
    Accepted,
    /// Errors, as in a server that knows pipes only.
    #[default]
    Refused,
}

/// Why elements make no tree. The words are those of the server whose requests these are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// No element at all.
    #[error("No command provided")]
    Nothing,
    /// Nothing stands before an operator.
    #[error("Empty command before {} operator", .1)]
    EmptyBefore(usize, &'static str),
    /// Nothing stands after an operator.
    #[error("Empty command after {} operator", .1)]
    EmptyAfter(usize, &'static str),
    /// `;`, `&&` or `||` where these are refused.
    #[error("Unexpected shell operator: {1}")]
    Operator(usize, &'static str),
    /// The same in a pipeline.
    #[error("Unexpected shell operator in pipeline: {1}")]
    OperatorInPipeline(usize, &'static str),
    /// `>` and nothing after it.
    #[error("Missing path for output redirection")]
    MissingOutput(usize),
    /// `<` and nothing after it.
    #[error("Missing path for input redirection")]
    MissingInput(usize),
    /// A redirection follows a redirection.
    #[error("Invalid redirection syntax: consecutive operators")]
    Consecutive(usize),
    /// Another operator follows a redirection.
    #[error("Invalid redirection target: operator found")]
    OperatorAsTarget(usize),
    /// More than a line may have.
    #[error("Too many arguments: {0}, {1} at most")]
    TooMany(usize, usize),
}

impl Problem {
    /// The element that it is about.
    #[must_use]
    pub fn element(&self) -> Option<usize> {
        match self {
            Self::Nothing | Self::TooMany(..) => None,
            Self::EmptyBefore(at, _)
            | Self::EmptyAfter(at, _)
            | Self::Operator(at, _)
            | Self::OperatorInPipeline(at, _)
            | Self::MissingOutput(at)
            | Self::MissingInput(at)
            | Self::Consecutive(at)
            | Self::OperatorAsTarget(at) => Some(*at),
        }
    }
}

impl Problem {
    /// What to do instead.
    #[must_use]
    pub fn instead(&self) -> &'static str {
        match self {
            Self::Nothing => "give the name of a command as the first element",
            Self::EmptyBefore(..) | Self::EmptyAfter(..) => {
                "put a command on both sides of the operator; an operator that is meant as text stands inside of a \
                 longer element"
            }
            Self::Operator(..) | Self::OperatorInPipeline(..) => {
                "make one call for each command; as text it stands inside of a longer element, and the policy may \
                 make it an operator ([server] operators = true)"
            }
            Self::MissingOutput(_) | Self::MissingInput(_) => "name a file in the element after it",
            Self::Consecutive(_) | Self::OperatorAsTarget(_) => "put one file between two operators",
            Self::TooMany(..) => "make several calls of it, or use stdin or a file",
        }
    }
}

/// An element that is an operator.
#[derive(Debug, Clone, Copy)]
enum Operator {
    Pipe { stderr: bool },
    Then(Connector, &'static str),
    Semicolon,
    To(u8, fn(Word) -> Target),
    Both(fn(Word) -> Target),
    Same(u8, u8),
}

fn operator(element: &str) -> Option<Operator> {
    Some(match element {
        "|" => Operator::Pipe { stderr: false },
        "|&" => Operator::Pipe { stderr: true },
        "&&" => Operator::Then(Connector::And, "&&"),
        "||" => Operator::Then(Connector::Or, "||"),
        ";" => Operator::Semicolon,
        "<" => Operator::To(0, Target::Read),
        "<<<" => Operator::To(0, Target::Text),
        ">" | "1>" => Operator::To(1, Target::Write),
        ">>" | "1>>" => Operator::To(1, Target::Append),
        "2>" => Operator::To(2, Target::Write),
        "2>>" => Operator::To(2, Target::Append),
        "&>" => Operator::Both(Target::Write),
        "&>>" => Operator::Both(Target::Append),
        "2>&1" => Operator::Same(2, 1),
        "1>&2" | ">&2" => Operator::Same(1, 2),
        _ => return None,
    })
}

/// Elements of a tree that is being made.
#[derive(Default)]
struct Building {
    list: List,
    entry: Option<AndOr>,
    connector: Option<Connector>,
    stages: Vec<Command>,
    simple: Simple,
}

/// Reads elements into the tree that is judged and executed.
///
/// # Errors
/// Operators without a command or a target, and sequencing where it is refused.
pub fn parse<S: AsRef<str>>(elements: &[S], sequencing: Sequencing) -> Result<List, Problem> {
    if elements.is_empty() {
        return Err(Problem::Nothing);
    }
    if elements.len() > super::limits::WORDS {
        return Err(Problem::TooMany(elements.len(), super::limits::WORDS));
    }
    let piped = elements.iter().any(|element| matches!(element.as_ref(), "|" | "|&"));
    let refuse = |at, sign| match sequencing {
        Sequencing::Accepted => Ok(()),
        Sequencing::Refused if piped => Err(Problem::OperatorInPipeline(at, sign)),
        Sequencing::Refused => Err(Problem::Operator(at, sign)),
    };
    let mut building = Building::default();
    // What a command is still missing after, and where that stands.
    let mut open: Option<(usize, &'static str)> = None;
    let mut left = elements.iter().map(AsRef::as_ref).enumerate();
    while let Some((at, element)) = left.next() {
        let Some(operator) = operator(element) else {
            building.simple.words.push(Word::literal(element));
            continue;
        };
        let mut target = || match left.next() {
            None if element.starts_with('<') => Err(Problem::MissingInput(at)),
            None => Err(Problem::MissingOutput(at)),
            Some((next, file)) => match self::operator(file) {
                None => Ok(Word::literal(file)),
                Some(Operator::To(..) | Operator::Both(_) | Operator::Same(..)) => {
                    Err(Problem::Consecutive(next))
                }
                Some(_) => Err(Problem::OperatorAsTarget(next)),
            },
        };
        let redirections = &mut building.simple.redirections;
        match operator {
            Operator::To(descriptor, to) => redirections.push(Redirection { descriptor, to: to(target()?) }),
            Operator::Both(to) => {
                redirections.push(Redirection { descriptor: 1, to: to(target()?) });
                redirections.push(Redirection { descriptor: 2, to: Target::Same(1) });
            }
            Operator::Same(descriptor, same) => {
                redirections.push(Redirection { descriptor, to: Target::Same(same) })
            }
            Operator::Pipe { stderr } => {
                if stderr {
                    redirections.push(Redirection { descriptor: 2, to: Target::Same(1) });
                }
                building.end_stage().ok_or(Problem::EmptyBefore(at, "pipe"))?;
                open = Some((at, "pipe"));
            }
            Operator::Then(connector, sign) => {
                refuse(at, sign)?;
                building.end_pipeline().ok_or(Problem::EmptyBefore(at, sign))?;
                building.connector = Some(connector);
                open = Some((at, sign));
            }
            Operator::Semicolon => {
                refuse(at, ";")?;
                building.end_pipeline().ok_or(Problem::EmptyBefore(at, ";"))?;
                building.list.entries.extend(building.entry.take());
                open = None;
            }
        }
    }
    let nothing_left = building.simple == Simple::default() && building.stages.is_empty();
    if !(nothing_left && open.is_none() && !building.list.entries.is_empty()) {
        let (at, sign) = open.unwrap_or((0, "redirection"));
        building.end_pipeline().ok_or(Problem::EmptyAfter(at, sign))?;
        building.list.entries.extend(building.entry.take());
    }
    Ok(building.list)
}

impl Building {
    fn end_stage(&mut self) -> Option<()> {
        let simple = std::mem::take(&mut self.simple);
        if simple.words.is_empty() {
            return None;
        }
        self.stages.push(Command::Simple(simple));
        Some(())
    }

    fn end_pipeline(&mut self) -> Option<()> {
        self.end_stage()?;
        let pipeline = Pipeline { negated: false, stages: std::mem::take(&mut self.stages) };
        match (&mut self.entry, self.connector.take()) {
            (Some(entry), Some(connector)) => entry.rest.push((connector, pipeline)),
            _ => self.entry = Some(AndOr { first: pipeline, rest: Vec::new() }),
        }
        Some(())
    }
}
