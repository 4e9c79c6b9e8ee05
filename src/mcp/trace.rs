//! W3C trace context of a request, for the records. Called by `server.rs`.

/// Trace id and parent span id of a W3C `traceparent` (version 00); anything else is ignored.
pub(super) fn trace(traceparent: &str) -> Option<(String, String)> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let good = version == "00"
        && hex(trace, 32)
        && hex(span, 16)
        && hex(flags, 2)
        && !zero(trace)
        && !zero(span)
        && parts.next().is_none();
    good.then(|| (trace.to_owned(), span.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::trace;

    #[test]
    fn only_well_formed_trace_parents_are_taken_over() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(
            trace(good),
            Some(("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned()))
        );
        for bad in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(trace(bad), None, "{bad}");
        }
    }
}
