//! `cofferdam completions` and `cofferdam man`: generated from the same clap definitions that parse
//! the command line, so that they cannot drift from it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, FAILED};

/// Print a completion script for a shell
///
/// The script is written to standard output; put it where the shell looks for completions.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam completions bash > ~/.local/share/bash-completion/completions/cofferdam
  cofferdam completions zsh  > ~/.zfunc/_cofferdam
  cofferdam completions fish > ~/.config/fish/completions/cofferdam.fish")]
pub struct CompletionsArgs {
    /// Shell to write for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write one page for each subcommand
///
/// Without --dir the page of the program itself goes to standard output.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam man | man -l -
  cofferdam man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Existing directory for cofferdam.1, cofferdam-exec.1 and the others.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs `cofferdam completions`.
pub fn completions(args: CompletionsArgs) -> ExitCode {
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cofferdam", &mut script);
    to_stdout(&script)
}

/// Runs `cofferdam man`.
pub fn man(args: ManArgs) -> ExitCode {
    match args.dir {
        Some(dir) => match write_pages(&dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&format!(
                "writing manual pages into {} failed: {error}; name an existing, writable directory",
                dir.display()
            )),
        },
        None => match main_page() {
            Ok(page) => to_stdout(page.as_bytes()),
            Err(error) => failed(&format!("rendering the manual page failed: {error}")),
        },
    }
}

/// The whole command line, without `help`: that one has no page to refer to.
fn built() -> clap::Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

fn main_page() -> io::Result<String> {
    page(&clap_mangen::Man::new(built()))
}

fn page(man: &clap_mangen::Man) -> io::Result<String> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    // Examples are lines: filled like a paragraph they cannot be read.
    Ok(page.replacen(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n", 1).replacen(
        ".SH VERSION\n",
        ".fi\n.SH VERSION\n",
        1,
    ))
}

fn write_pages(dir: &Path) -> io::Result<()> {
    fn write(command: clap::Command, dir: &Path) -> io::Result<()> {
        for subcommand in command.get_subcommands().cloned() {
            write(subcommand, dir)?;
        }
        let source = concat!("cofferdam ", env!("CARGO_PKG_VERSION"));
        let man = clap_mangen::Man::new(command).source(source);
        std::fs::write(dir.join(man.get_filename()), page(&man)?)
    }
    write(built(), dir)
}

fn to_stdout(bytes: &[u8]) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough (`| head`) is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(&format!("writing to standard output failed: {error}")),
    }
}

fn failed(message: &str) -> ExitCode {
    eprintln!("cofferdam: {message}");
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, ValueEnum};

    use super::*;

    fn subcommands() -> BTreeSet<String> {
        let names: BTreeSet<String> =
            Cli::command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        assert!(names.contains("exec") && names.contains("man"), "{names:?}");
        names
    }

    #[test]
    fn completions_of_every_shell_name_every_subcommand() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "cofferdam", &mut script);
            let script = String::from_utf8(script).unwrap();
            for name in subcommands() {
                assert!(script.contains(&name), "{shell}: no {name}");
            }
        }
    }

    #[test]
    fn main_page_names_every_subcommand() {
        let page = main_page().unwrap();
        assert!(!page.contains("cofferdam\\-help"), "{page}");
        for name in subcommands() {
            let spelled = format!("cofferdam\\-{}", name.replace('-', "\\-"));
            assert!(page.contains(&spelled), "no {spelled} in\n{page}");
        }
    }

    #[test]
    fn each_subcommand_has_a_page_with_its_examples() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(dir.path()).unwrap();
        for name in subcommands() {
            let page = std::fs::read_to_string(dir.path().join(format!("cofferdam-{name}.1"))).unwrap();
            assert!(page.contains(&name), "{page}");
        }
        let page = std::fs::read_to_string(dir.path().join("cofferdam-man.1")).unwrap();
        assert!(page.contains(".nf\nExamples:"), "{page}");
    }

    #[test]
    fn pages_need_a_directory_that_exists() {
        assert!(write_pages(Path::new("/nonexistent/cofferdam-man")).is_err());
    }
}
