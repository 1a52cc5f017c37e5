//! Reading request bodies, bounded in size, time and memory.
//!
//! A body that is refused is dropped where it stands. Whoever has the connection reads the rest of
//! it or closes: a client that is still sending would see a reset connection instead of the answer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use engine::components::{Clock, Task};
use hyper::body::Body;
use model::{ErrorKind, limits};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::errors::ApiError;

/// Largest body kept: the largest item with room for white space, escapes and envelope.
const BODY_BYTES_MAX: usize = limits::ITEM_BYTES_MAX + 512 * 1024;
/// Bodies up to this size wait for nobody and do not count: large ones never keep them waiting.
const SMALL_BYTES_MAX: usize = 16 * 1024;

/// The bodies a service holds at one time.
pub(crate) struct Bodies {
    /// How long a whole body may take.
    timeout: Duration,
    /// A permit per byte that larger bodies may take together.
    memory: Semaphore,
}

/// A whole body, and its share of the memory for bodies.
#[derive(Debug)]
pub(crate) struct WholeBody<'s> {
    pub bytes: Bytes,
    _share: Option<SemaphorePermit<'s>>,
}

impl Bodies {
    /// Bodies that each arrive within `timeout` and together take no more than `bytes_max`, which
    /// is at least one of the largest.
    pub(crate) fn new(timeout: Duration, bytes_max: usize) -> Self {
        let permits = bytes_max.clamp(BODY_BYTES_MAX, Semaphore::MAX_PERMITS);
        Self { timeout, memory: Semaphore::new(permits) }
    }

    /// The whole body. One that is larger than most waits for its share of the memory before more
    /// of it is read.
    pub(crate) async fn read<B: Body>(
        &self,
        body: B,
        clock: &dyn Clock,
    ) -> Result<WholeBody<'_>, ApiError> {
        let size = body.size_hint();
        if size.lower() > BODY_BYTES_MAX as u64 {
            return Err(ApiError::too_large());
        }
        let mut share = None;
        if body.is_end_stream() {
            return Ok(WholeBody { bytes: Bytes::new(), _share: share });
        }
        let size_max = size.upper().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let mut deadline = Deadline { timeout: self.timeout, clock, timer: None };
        let mut body = pin!(body);
        let mut whole = Chunks::default();
        while let Some(chunk) = deadline.limit(next_chunk(body.as_mut())).await?? {
            let length = whole.len() + chunk.len();
            if length > BODY_BYTES_MAX {
                return Err(ApiError::too_large());
            }
            if share.is_none() && length > SMALL_BYTES_MAX {
                share = Some(deadline.limit(self.share_of(size_max)).await??);
            }
            whole.push(chunk);
        }
        Ok(WholeBody { bytes: whole.join(), _share: share })
    }

    async fn share_of(&self, size_max: usize) -> Result<SemaphorePermit<'_>, ApiError> {
        let bytes = u32::try_from(size_max.min(BODY_BYTES_MAX)).unwrap_or(u32::MAX);
        self.memory.acquire_many(bytes).await.map_err(|_| ApiError::internal())
    }
}

/// What has arrived. A body of one chunk, as most are, is not copied.
#[derive(Default)]
struct Chunks {
    first: Bytes,
    joined: BytesMut,
}

impl Chunks {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, chunk: Bytes) {
        if self.len() == 0 {
            self.first = chunk;
            return;
        }
        if self.joined.is_empty() {
            self.joined = BytesMut::from(std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&chunk);
    }

    fn join(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

/// The next data of a body; `None` at its end.
async fn next_chunk<B: Body>(mut body: Pin<&mut B>) -> Result<Option<Bytes>, ApiError> {
    loop {
        match poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
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

/// When a body must be there.
struct Deadline<'c> {
    timeout: Duration,
    clock: &'c dyn Clock,
    /// Started only when the body keeps us waiting, since most are there at once.
    timer: Option<Task>,
}

impl Deadline<'_> {
    /// What `future` gives, unless time runs out first.
    async fn limit<F: Future>(&mut self, future: F) -> Result<F::Output, ApiError> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => {
                let timer = self.timer.get_or_insert_with(|| self.clock.sleep(self.timeout));
                timer.as_mut().poll(cx).map(|()| Err(too_slow()))
            }
        })
        .await
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

    /// Chunks of zeros, then perhaps silence.
    struct Zeros {
        chunks: usize,
        chunk_bytes: usize,
        ends: bool,
    }

    impl Body for Zeros {
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
            if self.ends { Poll::Ready(None) } else { Poll::Pending }
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::default()
        }
    }

    fn bodies() -> Bodies {
        Bodies::new(Duration::from_secs(60), 0)
    }

    async fn read<B: Body>(body: B) -> Result<usize, u16> {
        let whole = bodies().read(body, &Impatient).await.map(|whole| whole.bytes.len());
        whole.map_err(|error| error.status())
    }

    fn full(length: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b'x'; length]))
    }

    #[tokio::test]
    async fn bodies_up_to_the_limit_are_kept_whole() {
        assert_eq!(read(full(0)).await, Ok(0));
        assert_eq!(read(full(BODY_BYTES_MAX)).await, Ok(BODY_BYTES_MAX));
        assert_eq!(read(Zeros { chunks: 3, chunk_bytes: 1000, ends: true }).await, Ok(3000));
    }

    #[tokio::test]
    async fn longer_bodies_are_refused() {
        assert_eq!(read(full(BODY_BYTES_MAX + 1)).await, Err(413));
        assert_eq!(read(Zeros { chunks: 400, chunk_bytes: 10_000, ends: true }).await, Err(413));
    }

    #[tokio::test]
    async fn a_body_that_never_ends_times_out() {
        assert_eq!(read(Zeros { chunks: 1, chunk_bytes: 10, ends: false }).await, Err(408));
    }

    #[tokio::test]
    async fn large_bodies_wait_for_memory_and_small_ones_do_not() {
        let bodies = bodies();
        let first = bodies.read(full(BODY_BYTES_MAX), &Impatient).await.unwrap();
        let status = |outcome: Result<WholeBody<'_>, ApiError>| outcome.err().map(|e| e.status());
        let second = bodies.read(full(SMALL_BYTES_MAX + 1), &Impatient).await;
        assert_eq!(status(second), Some(408));
        assert!(bodies.read(full(SMALL_BYTES_MAX), &Impatient).await.is_ok());
        drop(first);
        // Of unknown length, so it takes all there is.
        let unknown = Zeros { chunks: 2, chunk_bytes: 10_000, ends: true };
        let third = bodies.read(unknown, &Impatient).await.unwrap();
        assert_eq!(third.bytes.len(), 20_000);
        assert_eq!(status(bodies.read(full(20_000), &Impatient).await), Some(408));
    }
}
