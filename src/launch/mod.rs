//! The launch room: launcher process, one stub a run, the code between clone and exec, tree kill.
//! Knows nothing of the policy's rules or of MCP; takes only [`crate::policy::Authorized`].

/// Must be the first call in `main`: when this process was started as the launcher, it serves until
/// its socket closes and exits; otherwise returns at once.
pub fn become_launcher_if_asked() {}
