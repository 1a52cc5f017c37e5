//! Reading request bodies, bounded in size, time and memory.
//!
//! A refused body is dropped unread. The owner of the connection reads the rest of it before it
//! closes: otherwise a client that is still sending would see a reset connection instead of the
//! response.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use engine::components::{Clock, Task};
use hyper::body::Body;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Bodies up to this size are read without waiting for memory and do not count against it, so that
/// large bodies never delay them.
const SMALL_BYTES_MAX: usize = 16 * 1024;
/// A larger body that arrives more slowly than this, its first second not counted, is given up when
/// other bodies wait for its memory.
const SLOW_BYTES_PER_SECOND: u128 = 64 * 1024;
const SLOW_GRACE: Duration = Duration::from_secs(1);
/// How often waiting requests look for slow bodies.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Limits on requests that are still being received.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Most bytes of a request's line and headers together.
    pub head_bytes_max: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Most bytes of all bodies together, small ones not counted. Further bodies wait for memory
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

/// The bodies that a service holds at a time.
pub struct Bodies {
    /// Most bytes of one body.
    largest: usize,
    /// How long a whole body may take.
    timeout: Duration,
    /// One permit per byte that larger bodies may take together.
    memory: Semaphore,
    /// Bodies that have their memory and are not complete.
    incoming: Mutex<IncomingBodies>,
}

#[derive(Default)]
struct IncomingBodies {
    next_id: u64,
    by_id: BTreeMap<u64, Arc<Progress>>,
}

/// How much of a larger body has arrived.
struct Progress {
    since: Duration,
    received: AtomicUsize,
    /// Notified when the body is given up.
    given_up: Notify,
}

/// A whole body, and its share of the memory for bodies.
#[derive(Debug)]
pub struct BufferedBody<'s> {
    /// The whole body.
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
    /// The connection broke, or the data is not valid HTTP.
    Broken,
}

impl Bodies {
    /// Bodies of at most `largest` bytes that each arrive within the limit for bodies and together
    /// take no more than the memory limit, which is at least one body of the largest size.
    pub fn new(limits: RequestLimits, largest: usize) -> Self {
        let permits = limits.bodies_bytes_max.clamp(largest, Semaphore::MAX_PERMITS);
        let memory = Semaphore::new(permits);
        Self { largest, timeout: limits.body_timeout, memory, incoming: Mutex::default() }
    }

    /// Reads the whole body. One that is larger than most waits for its memory before more of it is
    /// read.
    pub async fn read<B: Body>(
        &self,
        body: B,
        clock: &dyn Clock,
    ) -> Result<BufferedBody<'_>, BodyError> {
        let size = body.size_hint();
        if size.lower() > self.largest as u64 {
            return Err(BodyError::TooLarge);
        }
        let mut share = None;
        if body.is_end_stream() {
            return Ok(BufferedBody { bytes: Bytes::new(), _share: share });
        }
        let size_max = size.upper().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let mut deadline = Deadline { timeout: self.timeout, clock, timer: None };
        let mut body = pin!(body);
        let mut whole = Chunks::default();
        while let Some(chunk) = deadline.limit(next_chunk(body.as_mut())).await?? {
            let length = whole.len() + chunk.len();
            whole.push(chunk);
            if length > self.largest {
                return Err(BodyError::TooLarge);
            }
            if length > SMALL_BYTES_MAX {
                share = Some(deadline.limit(self.share_of(size_max, clock)).await??);
                self.read_large(body.as_mut(), (&mut deadline, clock), &mut whole).await?;
                break;
            }
        }
        Ok(BufferedBody { bytes: whole.join(), _share: share })
    }

    /// Reads the rest of a body that has its memory.
    async fn read_large<B: Body>(
        &self,
        mut body: Pin<&mut B>,
        (deadline, clock): (&mut Deadline<'_>, &dyn Clock),
        whole: &mut Chunks,
    ) -> Result<(), BodyError> {
        let incoming = IncomingBody::enter(self, clock.monotonic(), whole.len());
        let size = body.size_hint().exact().and_then(|rest| usize::try_from(rest).ok());
        whole.make_room(size.unwrap_or_default().min(self.largest));
        loop {
            let next = incoming.unless_given_up(next_chunk(body.as_mut()));
            let Some(chunk) = deadline.limit(next).await?? else { return Ok(()) };
            whole.push(chunk);
            if whole.len() > self.largest {
                return Err(BodyError::TooLarge);
            }
            incoming.progress.received.store(whole.len(), Ordering::Relaxed);
        }
    }

    /// Waits for memory. Takes it from bodies that arrive too slowly.
    async fn share_of(
        &self,
        size_max: usize,
        clock: &dyn Clock,
    ) -> Result<SemaphorePermit<'_>, BodyError> {
        let bytes = u32::try_from(size_max.min(self.largest)).unwrap_or(u32::MAX);
        let mut share = pin!(self.memory.acquire_many(bytes));
        let mut timer: Option<Task> = None;
        poll_fn(|cx| {
            if let Poll::Ready(share) = share.as_mut().poll(cx) {
                return Poll::Ready(share.map_err(|_| BodyError::Broken));
            }
            let next_check = timer.get_or_insert_with(|| clock.sleep(CHECK_INTERVAL));
            if next_check.as_mut().poll(cx).is_ready() {
                timer = None;
                self.give_up_slow(clock.monotonic());
                // The next poll waits for the next interval.
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    fn give_up_slow(&self, now: Duration) {
        for progress in self.lock().by_id.values().filter(|progress| progress.is_slow(now)) {
            progress.given_up.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, IncomingBodies> {
        // Nothing that holds the lock can leave the table half changed.
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn is_slow(&self, now: Duration) -> bool {
        let time = now.saturating_sub(self.since).saturating_sub(SLOW_GRACE);
        let due = time.as_millis() * SLOW_BYTES_PER_SECOND / 1000;
        // ORDERING: an estimate is good enough.
        (self.received.load(Ordering::Relaxed) as u128) < due
    }
}

/// An entry in the list of incoming bodies, until dropped.
struct IncomingBody<'b> {
    bodies: &'b Bodies,
    id: u64,
    progress: Arc<Progress>,
}

impl<'b> IncomingBody<'b> {
    fn enter(bodies: &'b Bodies, since: Duration, received: usize) -> Self {
        let received = AtomicUsize::new(received);
        let progress = Arc::new(Progress { since, received, given_up: Notify::new() });
        let mut incoming = bodies.lock();
        let id = incoming.next_id;
        incoming.next_id += 1;
        incoming.by_id.insert(id, Arc::clone(&progress));
        drop(incoming);
        Self { bodies, id, progress }
    }

    /// The output of `next`, unless the body is given up first.
    async fn unless_given_up<T>(
        &self,
        next: impl Future<Output = Result<T, BodyError>>,
    ) -> Result<T, BodyError> {
        let (mut next, mut given_up) = (pin!(next), pin!(self.progress.given_up.notified()));
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => given_up.as_mut().poll(cx).map(|()| Err(BodyError::TooSlow)),
        })
        .await
    }
}

impl Drop for IncomingBody<'_> {
    fn drop(&mut self) {
        self.bodies.lock().by_id.remove(&self.id);
    }
}

/// The received data. A body of one chunk, as most are, is not copied.
#[derive(Default)]
struct Chunks {
    first: Bytes,
    joined: BytesMut,
}

impl Chunks {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    /// Reserves capacity for so many more bytes.
    fn make_room(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.joined.is_empty() {
            self.joined.reserve(self.first.len() + bytes);
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        } else {
            self.joined.reserve(bytes);
        }
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
                // Frames without data are trailers, which have no meaning here.
                if let Ok(mut data) = frame.into_data() {
                    return Ok(Some(data.copy_to_bytes(data.remaining())));
                }
            }
        }
    }
}

/// When a body must be complete.
struct Deadline<'c> {
    timeout: Duration,
    clock: &'c dyn Clock,
    /// Started only when the body is not complete at once, since most are.
    timer: Option<Task>,
}

impl Deadline<'_> {
    /// The output of `future`, unless the time runs out first.
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
    struct InstantClock;

    impl Clock for InstantClock {
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

    /// Chunks of zeros, and then no end if `ends` is false.
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
        bodies().read(body, &InstantClock).await.map(|whole| whole.bytes.len())
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
        let first = bodies.read(full(BODY_BYTES_MAX), &InstantClock).await.unwrap();
        let refusal = |outcome: Result<BufferedBody<'_>, BodyError>| outcome.err();
        let second = bodies.read(full(SMALL_BYTES_MAX + 1), &InstantClock).await;
        assert_eq!(refusal(second), Some(BodyError::TooSlow));
        assert!(bodies.read(full(SMALL_BYTES_MAX), &InstantClock).await.is_ok());
        drop(first);
        // Of unknown length, so it takes all memory.
        let unknown = Zeros { chunks: 2, chunk_bytes: 10_000, ends: true };
        let third = bodies.read(unknown, &InstantClock).await.unwrap();
        assert_eq!(third.bytes.len(), 20_000);
        assert_eq!(
            refusal(bodies.read(full(20_000), &InstantClock).await),
            Some(BodyError::TooSlow)
        );
    }

    /// A clock that a test advances. Its sleeps end once it was advanced.
    struct Stepped(AtomicUsize);

    impl Clock for Stepped {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed) as u64)
        }
        fn sleep(&self, time: Duration) -> Task {
            let is_short = time == CHECK_INTERVAL;
            Box::pin(async move {
                if !is_short {
                    std::future::pending::<()>().await
                }
            })
        }
    }

    #[tokio::test]
    async fn a_body_that_hardly_comes_gives_way_to_those_that_wait() {
        let (bodies, clock) = (bodies(), Stepped(AtomicUsize::new(0)));
        let stalled = Zeros { chunks: 3, chunk_bytes: 10_000, ends: false };
        let mut stalled = pin!(bodies.read(stalled, &clock));
        let mut large = pin!(bodies.read(full(BODY_BYTES_MAX), &clock));
        poll_fn(|cx| {
            assert!(stalled.as_mut().poll(cx).is_pending());
            // It has a second's grace, and the received data corresponds to half a second.
            for seconds in [1, 2] {
                assert!(stalled.as_mut().poll(cx).is_pending(), "{seconds}");
                clock.0.store(seconds, Ordering::Relaxed);
                assert!(large.as_mut().poll(cx).is_pending(), "{seconds}");
            }
            let given_up = stalled.as_mut().poll(cx).map(Result::err);
            assert_eq!(given_up, Poll::Ready(Some(BodyError::TooSlow)));
            large
                .as_mut()
                .poll(cx)
                .map(|whole| assert_eq!(whole.unwrap().bytes.len(), BODY_BYTES_MAX))
        })
        .await;
    }
}
