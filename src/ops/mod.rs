//! The operations room: what a served appliance needs while it runs: reload, health, metrics, signals.
//!
//! Inputs: an appliance and the signals of the host. Called by `cli/serve` and the transports. No verdict is
//! taken here: a reload hands a new policy to the appliance, which judges.

pub mod health;
mod histogram;
pub mod live;
pub mod meters;
pub mod metrics;
pub mod notify;
pub mod reload;

pub use histogram::{BOUNDS, Histogram};
pub use live::{Live, ReloadError, Reloaded};
pub use meters::Meters;
