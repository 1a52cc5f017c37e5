//! Waiting for request units: a statement for which there are none waits for its turn instead of
//! failing, as long as its command has time.

use std::time::Duration;

use engine::{Error, RequestContext};

use crate::errors::throttled;
use crate::{MongoError, Service};

/// How long to wait for a range that is being split or merged.
const MOVING_PAUSE: Duration = Duration::from_millis(20);

/// The time that one statement has to wait.
pub(crate) struct ThrottleWait<'s> {
    service: &'s Service,
    /// Until when it waits, by the monotonic clock.
    until: Duration,
}

impl<'s> ThrottleWait<'s> {
    /// For a statement of a command with this context.
    pub(crate) fn new(service: &'s Service, ctx: &RequestContext) -> Self {
        let now = service.engine.components().clock.monotonic();
        let until = ctx.deadline.unwrap_or(now + service.settings.throttle_wait);
        Self { service, until }
    }

    /// Waits if that is what an error asks for and there is time for it; else it is the error of
    /// the statement.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<(), MongoError> {
        let clock = &self.service.engine.components().clock;
        let now = clock.monotonic();
        let pause = match error.retry_after() {
            Some(pause) if self.service.settings.throttle_wait.is_zero() => {
                return Err(throttled(pause));
            }
            Some(pause) => pause,
            // The range is served again in a moment.
            None if matches!(error, Error::RangeMoving | Error::RangeGone) => MOVING_PAUSE,
            None => return Err(error.into()),
        };
        if now + pause > self.until {
            return Err(error.into());
        }
        clock.sleep(pause).await;
        Ok(())
    }
}
