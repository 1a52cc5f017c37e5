//! Keeps a panic of a handler from affecting other requests.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::Poll;

/// Runs a future to its end; a panic becomes the error, with its message.
///
/// The future stays where it is pinned: as an argument it would be copied, and have room twice in
/// the future of every request.
pub async fn catch_panic<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, String> {
    std::future::poll_fn(|cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(panic_message(payload.as_ref()))),
        }
    })
    .await
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_a_message() {
        let caught = catch_panic(pin!(async { panic!("boom") })).await;
        assert_eq!(caught, Err::<(), _>("boom".to_owned()));
        assert_eq!(catch_panic(pin!(async { 7 })).await, Ok(7));
    }
}
