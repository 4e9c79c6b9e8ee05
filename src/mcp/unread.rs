//! Messages that were thrown away unread: each leaves a record, as every other refusal does.
//!
//! Inputs: one word of the wire for each. Called by `stdio.rs`.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::MAX_LINE_BYTES;
use super::runner::Runner;
use crate::appliance::{Call, Outcome};
use crate::audit::Context;
use crate::policy::{Denial, Reason, RuleKind};

/// Most that wait for their record. Beyond, nothing more is read from the client.
pub(super) const WAITING: usize = 16;

/// Records each until the wire is gone.
pub(super) async fn record<R: Runner>(runner: Arc<R>, context: Context, mut heard: mpsc::Receiver<()>) {
    while heard.recv().await.is_some() {
        let message = format!("a message is longer than {MAX_LINE_BYTES} bytes and was thrown away unread");
        let denial = Denial::new("message.bytes", RuleKind::Limit, Reason::ArgvTooLarge, message);
        let call = Call { context: context.clone(), refused: Some(denial), ..Call::default() };
        // Nothing runs: a refusal is all that can become of it.
        if !matches!(runner.run(call, CancellationToken::new()).await, Outcome::Denied(_)) {
            tracing::error!("a message that was thrown away could not be recorded");
        }
    }
}
