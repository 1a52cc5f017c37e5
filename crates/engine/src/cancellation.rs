//! Long work that ends when no caller waits for its result any more.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::{Engine, Error, RequestContext};

/// Steps between two checks whether a caller still waits.
const STEPS: u64 = 1024;

/// Tells work whether a caller still waits for its result.
pub(crate) struct CancellationToken(Weak<()>);

impl CancellationToken {
    /// Called at every step with its number; an error when no caller waits any more.
    pub(crate) fn check(&self, step: u64) -> Result<(), Error> {
        if step.is_multiple_of(STEPS) && self.0.strong_count() == 0 {
            return Err(no_caller());
        }
        Ok(())
    }
}

fn no_caller() -> Error {
    Error::Unavailable("no caller waits for the result".into())
}

/// Cancels the work for a request when it is dropped with the request's context.
#[derive(Debug, Default)]
pub struct Cancellation(Option<Arc<()>>);

/// Tells work for a request when it must end earlier than by the engine's own time limits.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    deadline: Option<Duration>,
    waits: Option<Weak<()>>,
}

impl StopSignal {
    pub(crate) fn new(deadline: Option<Duration>, cancellation: &mut Cancellation) -> Self {
        let waits = Some(Arc::downgrade(cancellation.0.get_or_insert_default()));
        Self { deadline, waits }
    }

    /// Whether work with the time limit `limit` must end at `now`: the limit or the deadline of the
    /// request has passed, or the client has gone.
    pub(crate) fn is_due(&self, limit: Duration, now: Duration) -> bool {
        now >= limit || self.deadline.is_some_and(|deadline| now >= deadline) || self.is_cancelled()
    }

    /// The earlier of the time limit `limit` and the deadline of the request.
    pub(crate) fn earlier(&self, limit: Duration) -> Duration {
        self.deadline.map_or(limit, |deadline| deadline.min(limit))
    }

    /// When the work must end at the latest, by the engine's monotonic clock.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether the deadline has passed at `now`, or no caller waits any more.
    pub fn is_over(&self, now: Duration) -> bool {
        self.check(now).is_err()
    }

    /// An error if work that can't be continued must end at `now`.
    pub(crate) fn check(&self, now: Duration) -> Result<(), Error> {
        if self.is_cancelled() {
            return Err(no_caller());
        }
        match self.deadline.is_some_and(|deadline| now >= deadline) {
            true => Err(Error::DeadlinePassed),
            false => Ok(()),
        }
    }

    /// Whether no caller waits for the result any more.
    pub fn is_cancelled(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| waits.strong_count() == 0)
    }
}

impl Engine {
    /// An error if the deadline of the request has passed.
    pub(crate) fn check_deadline(&self, ctx: &RequestContext) -> Result<(), Error> {
        let now = || self.inner.components.clock.monotonic();
        match ctx.deadline.is_some_and(|deadline| now() >= deadline) {
            true => Err(Error::DeadlinePassed),
            false => Ok(()),
        }
    }

    /// Waits for `work` until the deadline of the request.
    pub(crate) async fn before_deadline<T>(
        &self,
        ctx: &RequestContext,
        work: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let Some(deadline) = ctx.deadline else { return Ok(work.await) };
        let clock = &self.inner.components.clock;
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = clock.sleep(deadline.saturating_sub(clock.monotonic())) => {
                Err(Error::DeadlinePassed)
            }
        }
    }

    /// Runs `work` as [`Engine::run_blocking`] does. A caller that drops the future cancels it.
    pub(crate) async fn run_cancellable<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancellationToken) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let waits = Arc::new(());
        let cancellation = CancellationToken(Arc::downgrade(&waits));
        let outcome = self.run_blocking(move || work(&cancellation)).await;
        drop(waits);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stops_at_the_earlier_limit_or_without_a_client() {
        let at = Duration::from_secs;
        let mut cancellation = Cancellation::default();
        let stop = StopSignal::new(Some(at(5)), &mut cancellation);
        assert!(!stop.is_due(at(10), at(4)) && stop.is_due(at(10), at(5)));
        assert!(stop.is_due(at(3), at(3)));
        assert!(stop.check(at(4)).is_ok());
        assert!(matches!(stop.check(at(5)), Err(Error::DeadlinePassed)));
        assert_eq!((stop.earlier(at(10)), stop.earlier(at(3))), (at(5), at(3)));
        drop(cancellation);
        assert!(stop.is_due(at(10), at(0)));
        assert!(matches!(stop.check(at(0)), Err(Error::Unavailable(_))));
        assert!(!StopSignal::default().is_due(at(10), at(9)));
    }

    #[test]
    fn work_goes_on_as_long_as_a_caller_waits() {
        let waits = Arc::new(());
        let cancellation = CancellationToken(Arc::downgrade(&waits));
        assert!((0..=2 * STEPS).all(|step| cancellation.check(step).is_ok()));
        drop(waits);
        assert_eq!((1..).find(|step| cancellation.check(*step).is_err()), Some(STEPS));
    }
}
