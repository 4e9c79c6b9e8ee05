//! `cofferdam health`: whether a served appliance is ready, for the health check of a container.
//!
//! Purpose: one request to `/readyz`, without a shell or curl in the image. Exit status 0 ready, 1 not ready (the
//! reasons on standard error), 125 nobody answers. Called by `cli/mod.rs`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use http::Method;

use super::connect::wire::{Endpoint, Wire};

/// Ask a server whether it is ready
///
/// Exit status 0: it is. 1: it is not, and standard error says why. 125: nobody answered in time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cofferdam health --unix /run/cofferdam/mcp.sock     a server on a Unix socket
  cofferdam health --address 127.0.0.1:9464           one on TCP, or its --metrics address")]
pub struct Args {
    /// Unix socket of the server
    #[arg(long, value_name = "PATH", required_unless_present = "address", conflicts_with = "address")]
    unix: Option<PathBuf>,
    /// Address of the server
    #[arg(long, value_name = "ADDR")]
    address: Option<SocketAddr>,
    /// How long to wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    timeout: u64,
}

/// Runs the subcommand.
pub fn run(args: Args) -> ExitCode {
    let Args { unix, address, timeout } = args;
    let endpoint = match (unix, address) {
        (Some(path), _) => Endpoint::Unix(path),
        (None, Some(address)) => Endpoint::Tcp(address),
        (None, None) => return failed("name the server with --unix or --address"),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("start of the async runtime failed: {error}")),
    };
    let asked = async {
        let wire = Wire::new(endpoint.clone());
        let response = wire.send(Method::GET, "/readyz", &[], None).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let body = wire.text(response).await.map_err(|e| e.to_string())?;
        Ok::<_, String>((status, body))
    };
    let asked = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(timeout), asked).await });
    match asked {
        Ok(Ok((status, _))) if status.is_success() => ExitCode::SUCCESS,
        Ok(Ok((status, body))) => {
            eprintln!("cofferdam: {endpoint} is not ready ({status}): {}", body.trim_end());
            ExitCode::from(1)
        }
        Ok(Err(error)) => failed(&error),
        Err(_) => failed(&format!("{endpoint} did not answer in {timeout} s")),
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("cofferdam: {error}");
    ExitCode::from(super::FAILED)
}
