//! When the writer makes a checkpoint without a record that asks for it: at rest, and as the last record of a file.
//!
//! Called by `writer.rs` only.

use super::Writer;

impl Writer {
    /// Writes a checkpoint where one is due, or, at the end of a file, where anything is not covered.
    pub(super) fn checkpoint(&mut self, last: bool) {
        let left = self.checkpoints.wait();
        if self.trouble.is_some() || left.is_none_or(|left| !last && !left.is_zero()) {
            return;
        }
        self.closing = last;
        let error = self.attempt(&[], true).error;
        self.closing = false;
        if let Some(error) = error {
            self.note_trouble(&error);
        }
    }
}
