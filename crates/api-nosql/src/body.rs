//! Reading request bodies, bounded in size and time.
//!
//! A body that is too long is read to its end without being kept: a client that is still sending
//! would otherwise see a reset connection instead of the answer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use engine::components::{Clock, Task};
use hyper::body::Body;
use model::{ErrorKind, limits};

use crate::errors::ApiError;

/// Largest body kept: the largest item with room for white space, escapes and envelope.
const BODY_BYTES_MAX: usize = limits::ITEM_BYTES_MAX + 512 * 1024;
/// Most bytes thrown away in order to answer a client politely.
const DISCARDED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a whole body may take.
const BODY_DEADLINE: Duration = Duration::from_secs(60);

/// The whole body.
pub(crate) async fn read<B: Body>(body: B, clock: &dyn Clock) -> Result<Bytes, ApiError> {
    let too_long = body.size_hint().lower() > BODY_BYTES_MAX as u64;
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let mut chunks = Chunks { body: pin!(body), clock, deadline: None };
    if too_long {
        chunks.discard().await;
        return Err(ApiError::too_large());
    }
    let Some(first) = chunks.next().await? else { return Ok(Bytes::new()) };
    let mut whole = BytesMut::new();
    let mut single = Some(first);
    while let Some(chunk) = chunks.next().await? {
        if let Some(first) = single.take() {
            whole = BytesMut::from(first);
        }
        if whole.len() + chunk.len() > BODY_BYTES_MAX {
            drop(whole);
            chunks.discard().await;
            return Err(ApiError::too_large());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(single.unwrap_or_else(|| whole.freeze()))
}

/// Reads a body to its end for the sake of the client's ears only.
pub(crate) async fn discard<B: Body>(body: B, clock: &dyn Clock) {
    if !body.is_end_stream() {
        Chunks { body: pin!(body), clock, deadline: None }.discard().await;
    }
}

struct Chunks<'a, B> {
    body: Pin<&'a mut B>,
    clock: &'a dyn Clock,
    /// Started only when the body keeps us waiting, since most are there at once.
    deadline: Option<Task>,
}

impl<B: Body> Chunks<'_, B> {
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let frame = poll_fn(|cx| match self.body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => {
                    let deadline =
                        self.deadline.get_or_insert_with(|| self.clock.sleep(BODY_DEADLINE));
                    deadline.as_mut().poll(cx).map(|()| Err(too_slow()))
                }
            });
            match frame.await? {
                None => return Ok(None),
                Some(Err(_)) => return Err(broken()),
                Some(Ok(frame)) => {
                    // Frames that are no data are trailers, which mean nothing here.
                    if let Ok(mut data) = frame.into_data() {
                        return Ok(Some(data.copy_to_bytes(data.remaining())));
                    }
                }
            }
        }
    }

    async fn discard(&mut self) {
        let mut discarded = 0;
        while let Ok(Some(chunk)) = self.next().await {
            discarded += chunk.len();
            if discarded > DISCARDED_BYTES_MAX {
                return;
            }
        }
    }
}

fn too_slow() -> ApiError {
    ApiError::new(ErrorKind::Timeout, "The request body did not arrive in time.")
}

fn broken() -> ApiError {
    ApiError::bad_request("The request body could not be read.")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Context;

    use http_body_util::Full;
    use hyper::body::{Frame, SizeHint};
    use model::Timestamp;

    use super::*;

    /// A clock whose sleeps end at once.
    struct Impatient;

    impl Clock for Impatient {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, _: Duration) -> Task {
            Box::pin(std::future::ready(()))
        }
    }

    /// Chunks of zeros, then perhaps silence; notes whether it was read to its end.
    struct Zeros<'a> {
        chunks: usize,
        chunk_bytes: usize,
        ends: bool,
        finished: &'a AtomicBool,
    }

    impl Body for Zeros<'_> {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.chunks > 0 {
                self.chunks -= 1;
                let data = Bytes::from(vec![0; self.chunk_bytes]);
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            if self.ends {
                self.finished.store(true, Ordering::Relaxed);
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::default()
        }
    }

    #[tokio::test]
    async fn bodies_up_to_the_limit_are_kept_whole() {
        let full = |n| Full::new(Bytes::from(vec![b'x'; n]));
        assert_eq!(read(full(0), &Impatient).await.unwrap().len(), 0);
        assert_eq!(read(full(BODY_BYTES_MAX), &Impatient).await.unwrap().len(), BODY_BYTES_MAX);
        let finished = AtomicBool::new(false);
        let zeros = Zeros { chunks: 3, chunk_bytes: 1000, ends: true, finished: &finished };
        assert_eq!(read(zeros, &Impatient).await.unwrap().len(), 3000);
    }

    #[tokio::test]
    async fn longer_bodies_are_read_to_their_end_and_refused() {
        let body = Full::new(Bytes::from(vec![b'x'; BODY_BYTES_MAX + 1]));
        assert_eq!(read(body, &Impatient).await.unwrap_err().status(), 413);
        let finished = AtomicBool::new(false);
        let zeros = Zeros { chunks: 400, chunk_bytes: 10_000, ends: true, finished: &finished };
        assert_eq!(read(zeros, &Impatient).await.unwrap_err().status(), 413);
        assert!(finished.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn a_body_that_never_ends_times_out() {
        let finished = AtomicBool::new(false);
        let zeros = Zeros { chunks: 1, chunk_bytes: 10, ends: false, finished: &finished };
        assert_eq!(read(zeros, &Impatient).await.unwrap_err().status(), 408);
    }
}
