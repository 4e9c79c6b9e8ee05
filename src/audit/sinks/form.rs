//! The form of a record at a sink: the one place where a rendering is asked for.
//!
//! Purpose: a rendering is made of the sealed native line, after redaction and hashing, on the thread of the
//! sink. Called by `worker.rs` and `stdio.rs`.

use std::borrow::Cow;

use crate::audit::render::Format;
use crate::config::Rendering;

/// The form `rendering` of one native line, both without the newline; or why there is none.
pub(super) fn render(rendering: Rendering, line: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let format = match rendering {
        Rendering::Native => return Ok(Cow::Borrowed(line)),
        Rendering::Ecs => Format::Ecs,
        Rendering::Ocsf => Format::Ocsf,
    };
    format.render_line(line).map(Cow::Owned).map_err(|error| error.to_string())
}
