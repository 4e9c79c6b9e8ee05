//! Output in batches, read from a tap at a reader's own position: what is not read in time is still in the
//! tap, or counted as lost where the buffer rolled past it. Nothing here can hold up a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::ProgressToken;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::channel::{Channel, Closed};
use super::instalment::Place;
use super::level::Level;
use super::render::{Escapes, PUSHED};
use crate::run::plain::Plain;
use crate::run::{Cut, Stream, Tap};

/// Time between two flushes.
pub(super) const FLUSH: Duration = Duration::from_millis(250);
/// Most bytes of text in one batch.
const BATCH: usize = 32 * 1024;
/// Flushes between two reports of progress.
const PROGRESS: u32 = 4;

/// A reader of both streams.
#[derive(Debug)]
pub(super) struct Reader {
    tap: Arc<Tap>,
    escapes: Escapes,
    at: [Place; 2],
}

const STREAMS: [(Stream, &str); 2] = [(Stream::Stdout, "stdout"), (Stream::Stderr, "stderr")];

impl Reader {
    pub(super) fn new(tap: Arc<Tap>, escapes: Escapes) -> Self {
        Self { tap, escapes, at: [Place::default(); 2] }
    }

    /// Hands on at most `batches` of what came since, of each stream. `last`: no more will come. Whether
    /// that was all.
    pub(super) async fn flush(
        &mut self,
        channel: &Channel,
        level: Level,
        job: Option<&str>,
        (batches, last): (usize, bool),
    ) -> Result<(), Closed> {
        let cut = if last { Cut::Last } else { Cut::Characters };
        for ((stream, name), at) in STREAMS.into_iter().zip(&mut self.at) {
            for _ in 0..batches {
                let Some((text, next)) = batch(&self.tap, stream, *at, cut, self.escapes) else { break };
                if next.at == at.at && text.is_empty() {
                    break;
                }
                *at = next;
                if text.is_empty() {
                    continue;
                }
                let data = match job {
                    Some(job) => json!({"job": job, "stream": name, "text": text, PUSHED: true}),
                    None => json!({"stream": name, "text": text, PUSHED: true}),
                };
                channel.message(level, data).await?;
            }
        }
        Ok(())
    }

    /// Skips what is there: nobody wants to hear it.
    pub(super) fn skip(&mut self) {
        for ((stream, _), at) in STREAMS.into_iter().zip(&mut self.at) {
            *at = Place { at: self.tap.end(stream), plain: Plain::default() };
        }
    }
}

/// The next batch: at most [`BATCH`] bytes, with bytes that are no text replaced by three each, and invisible
/// characters by up to three and a half each of theirs. Nothing where nothing more will come.
fn batch(tap: &Tap, stream: Stream, from: Place, cut: Cut, escapes: Escapes) -> Option<(String, Place)> {
    let read = |most| {
        let piece = tap.piece(stream, from.at, most, cut)?;
        let mut next = Place { at: piece.next, plain: from.plain };
        let last = cut == Cut::Last && piece.end;
        let (text, _) = escapes.piece(&mut next.plain, piece.text().0, last);
        Some((text, next))
    };
    let (text, next) = read(BATCH - 256)?;
    if text.len() <= BATCH { Some((text, next)) } else { read(BATCH / 4 - 256) }
}

/// What a `run` call tells while it runs: its output, if the request opted into it, and how long it has
/// taken, if it named a token. Ends with the last of the output once `over` fires, or when the channel closes.
pub(super) async fn tell(
    tap: Arc<Tap>,
    channel: Channel,
    escapes: Escapes,
    token: Option<ProgressToken>,
    over: CancellationToken,
) {
    let streams = channel.admits(Level::Info);
    if !streams && token.is_none() {
        return;
    }
    let since = Instant::now();
    let mut reader = Reader::new(Arc::clone(&tap), escapes);
    let mut ticks = 0_u32;
    loop {
        let last = tokio::select! {
            biased;
            () = over.cancelled() => true,
            () = channel.closed.cancelled() => return,
            () = tokio::time::sleep(FLUSH) => false,
        };
        if streams && reader.flush(&channel, Level::Info, None, (usize::MAX, last)).await.is_err() {
            return;
        }
        if last {
            return;
        }
        ticks = ticks.wrapping_add(1);
        if let Some(token) = token.as_ref().filter(|_| ticks.is_multiple_of(PROGRESS)) {
            let bytes = tap.total_bytes(Stream::Stdout) + tap.total_bytes(Stream::Stderr);
            let (time, message) = (since.elapsed().as_secs_f64(), format!("{bytes} bytes of output so far"));
            if channel.progress(token, time, message).await.is_err() {
                return;
            }
        }
    }
}
