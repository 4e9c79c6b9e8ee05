//! cofferdam's MCP server with a wrapper around every command: the launcher seam of the library.
//!
//! ```console
//! $ cargo run --example wrapper -- POLICY WRAPPER-FILE [confined]
//! ```
//!
//! WRAPPER-FILE holds what each command is put into, one argument a line, the program first; it is read again for
//! each command, and nothing runs while it is not there. With `/usr/bin/prlimit` and `--nofile=64` in it and
//! `execute = ["/usr/bin/prlimit"]` in the table of each command, no command has more than 64 open files. With
//! `confined` the server puts walls around itself as well; the wrapper is asked behind them.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use cofferdam::{Appliance, Config, Plan, Wrapper, Wrapping};

/// Reads the wrapping command from a file.
struct FromFile(PathBuf);

impl Wrapper for FromFile {
    fn wrap(&self, plan: &Plan) -> Result<Wrapping, Box<dyn Error + Send + Sync>> {
        let name = plan.name.to_string_lossy();
        let text = std::fs::read_to_string(&self.0).map_err(|e| format!("{}: {e}", self.0.display()))?;
        let mut lines = text.lines();
        let program = lines.next().ok_or_else(|| format!("no wrapper for {name} in {}", self.0.display()))?;
        Ok(lines.fold(Wrapping::new(program), Wrapping::arg).sandboxed(true))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    cofferdam::become_launcher_if_asked();
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (policy, file) =
        arguments.next().zip(arguments.next()).ok_or("usage: wrapper POLICY WRAPPER-FILE [confined]")?;
    let config = Config::load(&policy)?;
    let appliance = match arguments.next() {
        Some(word) if word.as_os_str() == "confined" => Appliance::start_confined(config)?,
        Some(word) => return Err(format!("{}: unknown word; leave it out", word.display()).into()),
        None => Appliance::start(config)?,
    };
    let appliance = Arc::new(appliance.with_wrapper(FromFile(file)));
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        appliance.announce(Some("stdio")).await?;
        cofferdam::mcp::serve_stdio(Arc::clone(&appliance)).await?;
        appliance.stop().await?;
        Ok::<_, Box<dyn Error>>(())
    })?;
    runtime.shutdown_background();
    Ok(())
}
