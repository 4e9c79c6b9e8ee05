//! Cursors: where a reader of a job stands in both streams, as text that only this server can make.
//! Positions are those of the bytes as they were written; beside them stands what an escape sequence that
//! was cut in two had begun.
//!
//! A cursor is bound to its job and sealed with a key that lives as long as the server, so that one which
//! was made up, changed or taken from another job is told apart and refused.

use super::instalment::Place;
use crate::run::Position;
use crate::run::plain::Plain;
use crate::seal::Seal;

/// The beginning of both streams.
const START: &str = "0";
/// What the seal of a cursor is for.
const USAGE: &str = "cursor";

/// The cursors of a server.
#[derive(Debug, Default)]
pub(super) struct Cursors(pub(super) Seal);

impl Cursors {
    /// The cursor of a job at these positions of stdout and stderr.
    pub(super) fn cursor(&self, job: &str, at: [Place; 2]) -> Result<String, String> {
        let [out, err] = at;
        let begun = out.plain.code() << 4 | err.plain.code();
        let (out, err) = (out.at, err.at);
        let place = format!("{:x}.{:x}.{:x}.{:x}.{begun:x}", out.bytes, out.lines, err.bytes, err.lines);
        let tag = self.tag(job, &place)?;
        Ok(format!("{place}.{tag}"))
    }

    /// The positions of a cursor that this server made for this job.
    pub(super) fn positions(&self, job: &str, cursor: &str) -> Result<[Place; 2], String> {
        if cursor == START {
            return Ok([Place::default(); 2]);
        }
        let refused =
            || "cursor is not one that output returned for this job: pass it back as it was".to_owned();
        let (place, tag) = cursor.rsplit_once('.').ok_or_else(refused)?;
        if tag != self.tag(job, place)? {
            return Err(refused());
        }
        let mut numbers = place.split('.').map(|number| u64::from_str_radix(number, 16));
        let mut next = || numbers.next().and_then(Result::ok).ok_or_else(refused);
        let out = Position { bytes: next()?, lines: next()? };
        let err = Position { bytes: next()?, lines: next()? };
        let begun = u8::try_from(next()?).map_err(|_| refused())?;
        let plain = |code| Plain::of_code(code).ok_or_else(refused);
        let (out, err) =
            (Place { at: out, plain: plain(begun >> 4)? }, Place { at: err, plain: plain(begun & 15)? });
        Ok([out, err])
    }

    /// Five bytes are enough against a guess: it wins a reader a place in a job that it may read anyway.
    fn tag(&self, job: &str, place: &str) -> Result<String, String> {
        let tag: [u8; 5] = self.0.over(USAGE, &[job.as_bytes(), place.as_bytes()])?;
        Ok(tag.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_holds_what_was_put_in_and_nothing_else_is_one() {
        let seal = Cursors::default();
        let mut plain = Plain::default();
        plain.push("\r\u{1b}]", &mut String::new());
        let at = [Place { at: Position { bytes: u64::MAX, lines: 7 }, plain }, Place::default()];
        let cursor = seal.cursor("j1-a", at).unwrap();
        assert_eq!(seal.positions("j1-a", &cursor), Ok(at));
        assert_eq!(seal.positions("j1-a", "0"), Ok([Place::default(); 2]));
        assert!(seal.positions("j2-a", &cursor).is_err(), "a cursor of another job");
        assert!(Cursors::default().positions("j1-a", &cursor).is_err(), "a cursor of another server");
        let mut changed = vec![String::new(), "00".to_owned(), format!("{cursor}0"), format!(" {cursor}")];
        changed.extend((0..cursor.len()).map(|at| {
            let other = if cursor.as_bytes()[at] == b'1' { "2" } else { "1" };
            [&cursor[..at], other, &cursor[at + 1..]].concat()
        }));
        for bad in changed {
            assert!(seal.positions("j1-a", &bad).is_err(), "{bad}");
        }
    }
}
