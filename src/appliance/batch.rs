//! The records around a batch of commands, each of which is a call of its own.
//!
//! Purpose: `batch.start` is durable before the first command is judged, `batch.end` before anything of the
//! batch is told. Inputs: who asks, and counts. Called by `mcp/`.

use super::Appliance;
use crate::audit::{AuditError, BatchEnd, BatchStart, Context};

impl Appliance {
    /// Records that a batch begins.
    ///
    /// # Errors
    /// When the record could not be made durable: nothing of the batch may run.
    pub async fn batch_start(&self, context: &Context, batch: &BatchStart) -> Result<(), AuditError> {
        self.audit.batch_start(context, batch).await
    }

    /// Records how it ended.
    ///
    /// # Errors
    /// When the record could not be made durable: what the batch printed is not told then.
    pub async fn batch_end(
        &self,
        context: &Context,
        batch: &BatchStart,
        end: &BatchEnd,
    ) -> Result<(), AuditError> {
        self.audit.batch_end(context, batch, end).await
    }
}
