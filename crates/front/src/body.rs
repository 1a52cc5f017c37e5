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
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bodies up to this size wait for nobody and do not count: large ones never keep them waiting.
const SMALL_BYTES_MAX: usize = 16 * 1024;

/// What requests may take before they are worked on.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Most bytes of a request's line and headers together.
    pub head_bytes_max: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Most bytes of all bodies together, small ones not counted. Others wait for their turn
    /// within `body_timeout`.
    pub bodies_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: 64 * 1024,
            body_timeout: Duration::from_secs(60),
            bodies_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// The bodies a service holds at one time.
pub struct Bodies {
    /// Most bytes of one.
    largest: usize,
    /// How long a whole body may take.
    timeout: Duration,
    /// A permit per byte that larger bodies may take together.
    memory: Semaphore,
}

/// A whole body, and its share of the memory for bodies.
#[derive(Debug)]
pub struct WholeBody<'s> {
    /// All of it.
    pub bytes: Bytes,
    _share: Option<SemaphorePermit<'s>>,
}

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than a body may have.
    TooLarge,
    /// It did not arrive in time.
    TooSlow,
    /// The connection broke, or what came is not HTTP.
    Broken,
}

impl Bodies {
    /// Bodies of at most `largest` bytes that each arrive within the limit for bodies and together
    /// take no more than theirs, which is at least one of the largest.
    pub fn new(limits: RequestLimits, largest: usize) -> Self {
        let permits = limits.bodies_bytes_max.clamp(largest, Semaphore::MAX_PERMITS);
        Self { largest, timeout: limits.body_timeout, memory: Semaphore::new(permits) }
    }

    /// The whole body. One that is larger than most waits for its share of the memory before more
    /// of it is read.
    pub async fn read<B: Body>(
        &self,
        body: B,
        clock: &dyn Clock,
    ) -> Result<WholeBody<'_>, BodyError> {
        let size = body.size_hint();
        if size.lower() > self.largest as u64 {
            return Err(BodyError::TooLarge);
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
            if length > self.largest {
                return Err(BodyError::TooLarge);
            }
            if share.is_none() && length > SMALL_BYTES_MAX {
                share = Some(deadline.limit(self.share_of(size_max)).await??);
            }
            whole.push(chunk);
        }
        Ok(WholeBody { bytes: whole.join(), _share: share })
    }

    async fn share_of(&self, size_max: usize) -> Result<SemaphorePermit<'_>, BodyError> {
        let bytes = u32::try_from(size_max.min(self.largest)).unwrap_or(u32::MAX);
        self.memory.acquire_many(bytes).await.map_err(|_| BodyError::Broken)
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
async fn next_chunk<B: Body>(mut body: Pin<&mut B>) -> Result<Option<Bytes>, BodyError> {
    loop {
        match poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyError::Broken),
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
    async fn limit<F: Future>(&mut self, future: F) -> Result<F::Output, BodyError> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => {
                let timer = self.timer.get_or_insert_with(|| self.clock.sleep(self.timeout));
                timer.as_mut().poll(cx).map(|()| Err(BodyError::TooSlow))
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::Context;

    use http_body_util::Full;
    use hyper::body::{Frame, SizeHint};
    use model::Timestamp;

    use super::*;

    const BODY_BYTES_MAX: usize = 2 << 20;

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
        Bodies::new(
            RequestLimits { bodies_bytes_max: 0, ..RequestLimits::default() },
            BODY_BYTES_MAX,
        )
    }

    async fn read<B: Body>(body: B) -> Result<usize, BodyError> {
        bodies().read(body, &Impatient).await.map(|whole| whole.bytes.len())
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
        assert_eq!(read(full(BODY_BYTES_MAX + 1)).await, Err(BodyError::TooLarge));
        assert_eq!(
            read(Zeros { chunks: 400, chunk_bytes: 10_000, ends: true }).await,
            Err(BodyError::TooLarge)
        );
    }

    #[tokio::test]
    async fn a_body_that_never_ends_times_out() {
        assert_eq!(
            read(Zeros { chunks: 1, chunk_bytes: 10, ends: false }).await,
            Err(BodyError::TooSlow)
        );
    }

    #[tokio::test]
    async fn large_bodies_wait_for_memory_and_small_ones_do_not() {
        let bodies = bodies();
        let first = bodies.read(full(BODY_BYTES_MAX), &Impatient).await.unwrap();
        let refusal = |outcome: Result<WholeBody<'_>, BodyError>| outcome.err();
        let second = bodies.read(full(SMALL_BYTES_MAX + 1), &Impatient).await;
        assert_eq!(refusal(second), Some(BodyError::TooSlow));
        assert!(bodies.read(full(SMALL_BYTES_MAX), &Impatient).await.is_ok());
        drop(first);
        // Of unknown length, so it takes all there is.
        let unknown = Zeros { chunks: 2, chunk_bytes: 10_000, ends: true };
        let third = bodies.read(unknown, &Impatient).await.unwrap();
        assert_eq!(third.bytes.len(), 20_000);
        assert_eq!(refusal(bodies.read(full(20_000), &Impatient).await), Some(BodyError::TooSlow));
    }
}
