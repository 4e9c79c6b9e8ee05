//! The flags that name a policy, the same for every subcommand that needs one.

use std::path::PathBuf;

use crate::config::{Config, ConfigError, LoadOptions};

/// Which policy applies, and to which directory.
#[derive(Debug, Default, clap::Args)]
pub struct PolicyArgs {
    /// Policy file [default: the built-in policy, read-only]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Directory that commands work in, in place of the policy's
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

impl PolicyArgs {
    /// Loads what the flags name.
    ///
    /// # Errors
    /// Every fault of the policy.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.load_with(LoadOptions::default())
    }

    /// The same, with further overrides of the command line.
    ///
    /// # Errors
    /// Every fault of the policy.
    pub fn load_with(&self, options: LoadOptions) -> Result<Config, ConfigError> {
        let options = LoadOptions { workspace: self.workspace.clone(), ..options };
        match &self.policy {
            Some(file) => Config::load_with(file, &options),
            None => Config::builtin_with(&options),
        }
    }
}
