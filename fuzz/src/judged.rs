//! What holds for any arguments under any grammar.
//!
//! A verdict is the same each time; what it allocates is linear in the arguments; a refusal has a rule
//! and a reason and points at an argument; strict reading and more rules never allow more.

use std::path::Path;

use cofferdam::policy::grammar::{Finding, Grammar, Judged, Operator};
use cofferdam::policy::paths::View;

use crate::allocations;

/// Bytes that a verdict may ask for: some at any rate (the words of a refusal), and per element, for the
/// dialects that keep lists of them.
const ANYWAY: usize = 8 << 10;
const PER_ELEMENT: usize = 512;
const PER_BYTE: usize = 16;

/// A workspace that no input is likely to name, and nothing beside it.
#[must_use]
pub fn view() -> View<'static> {
    View { workspace: Path::new("/srv/ws"), granted: [&[], &[], &[]], depth: 0 }
}

/// Judges `args` in each way and answers whether they are allowed in the ordinary one.
pub fn allowed(grammar: &Grammar, args: &[Vec<u8>]) -> bool {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let plain = Operator::default();
    let verdict = linear(grammar, &args, &plain);
    if let Err(finding) = &verdict {
        assert!(!finding.rule.is_empty() && !finding.reason.is_empty(), "{finding:?} of {args:?}");
        assert!(finding.at < args.len() || finding.at == usize::MAX, "{finding:?} of {args:?}");
        assert!(finding.rule.starts_with(grammar.program()), "{finding:?}");
    }
    let strict = Operator { known_only: true, ..plain };
    let walled = Operator { view: Some(view()), ..plain };
    for (what, allows) in [
        ("known", grammar.judge(&args, &strict).is_ok()),
        ("the path rule", linear(grammar, &args, &walled).is_ok()),
        ("known with the path rule", grammar.judge(&args, &Operator { view: walled.view, ..strict }).is_ok()),
    ] {
        assert!(!allows || verdict.is_ok(), "{}: {what} allows {args:?}: {verdict:?}", grammar.program());
    }
    verdict.is_ok()
}

/// The verdict, the same each time, and within its measure of memory.
fn linear(grammar: &Grammar, args: &[&[u8]], operator: &Operator<'_>) -> Result<Judged, Finding> {
    let (verdict, mut spent) = allocations::during(|| grammar.judge(args, operator));
    let size: usize = args.iter().map(|element| element.len()).sum();
    let most = ANYWAY + PER_ELEMENT * args.len() + PER_BYTE * size;
    // A pattern's first use fills its caches.
    for _ in 0..2 {
        let (again, bytes) = allocations::during(|| grammar.judge(args, operator));
        assert_eq!(again, verdict, "{}: another verdict the second time: {args:?}", grammar.program());
        spent = spent.min(bytes);
    }
    assert!(
        spent <= most,
        "{}: {spent} bytes for {} elements of {size} bytes",
        grammar.program(),
        args.len()
    );
    verdict
}

/// Whether a list of the operator's own refusals, on top, ever lets through what is refused without.
pub fn never_wider(grammar: &Grammar, args: &[Vec<u8>], denied: &[String], allowed: bool) {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let narrow = Operator { deny_options: denied, ..Operator::default() };
    if grammar.judge(&args, &narrow).is_ok() {
        assert!(allowed, "{}: {denied:?} on top allows {args:?}", grammar.program());
    }
}
