//! The flags that name a policy and its toolkits, the same for every subcommand that needs one.

use std::path::PathBuf;

use crate::config::{Config, ConfigError, LoadOptions, Manifest, server_environment};

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

/// Toolkits as JSON, which only narrow the policy.
#[derive(Debug, Default, clap::Args)]
pub struct ToolkitArgs {
    /// Toolkits as a JSON file: {"tools": {"Shell#git": {"allow": ["git"], "prefix": "git"}}}
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One toolkit as inline JSON, such as Shell='{"allow":["git","rg"],"timeout":10}'; may be repeated
    #[arg(long = "tool", value_name = "Shell={…}")]
    pub tools: Vec<String>,
}

impl PolicyArgs {
    /// Loads what the flags name, with the toolkits that others name.
    ///
    /// # Errors
    /// Every fault of the policy, or of the toolkits.
    pub fn load_toolkits(&self, toolkits: &ToolkitArgs) -> Result<Config, ConfigError> {
        match Manifest::of(toolkits.config.as_deref(), &toolkits.tools)? {
            None => self.load(),
            Some(manifest) => {
                let options = LoadOptions { workspace: self.workspace.clone(), ..LoadOptions::default() };
                Config::with_manifest(self.policy.as_deref(), &manifest, &options)
            }
        }
    }

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
            None => Config::from_variables(&server_environment(), &options)
                .unwrap_or_else(|| Config::builtin_with(&options)),
        }
    }
}
