//! The walls: Landlock rules, the system-call filter, capabilities, resource limits, and what this
//! host's kernel offers. Knows nothing of who asks; used by `launch/` and by `cli/`.

pub mod elf;
pub mod filter;
pub mod host;
pub mod identity;
pub mod landlock;
pub mod needs;
pub mod oci;
pub mod own;
pub mod profile;
pub mod rlimits;
pub mod script;
pub mod secrets;
pub mod syscalls;
