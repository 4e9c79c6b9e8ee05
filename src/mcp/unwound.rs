//! A panic inside of a request is answered: rmcp would leave its caller waiting for ever.
//!
//! Called by `server.rs` around every call of a tool.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use rmcp::model::ErrorData;

/// What `work` comes to, or the error of a call that ended in a panic.
pub(super) async fn answered<T>(
    tool: &str,
    work: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    let mut work = pin!(work);
    poll_fn(|context| {
        // It is not polled again afterwards, so that nobody sees what it left half done.
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))).unwrap_or_else(|_| {
            tracing::error!(tool, "a tool call ended in a panic");
            Poll::Ready(Err(failed()))
        })
    })
    .await
}

/// What the caller of a call that ended in a panic is told.
pub(super) fn failed() -> ErrorData {
    ErrorData::internal_error("the call failed inside of the server; its log says more", None)
}

#[cfg(test)]
mod tests {
    use super::answered;
    use rmcp::model::ErrorCode;

    #[tokio::test]
    async fn fault_10_a_panic_anywhere_in_a_call_is_an_error_of_it() {
        assert_eq!(answered("x", async { Ok(5) }).await.unwrap(), 5);
        let late = async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "on purpose");
            Ok(5)
        };
        assert_eq!(answered("x", late).await.unwrap_err().code, ErrorCode::INTERNAL_ERROR);
    }
}
