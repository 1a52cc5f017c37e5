//! Long work that ends when no caller waits for its result any more.

use std::sync::{Arc, Weak};

use crate::{Engine, Error};

/// Steps between two checks whether a caller still waits.
const STEPS: u64 = 1024;

/// Tells work whether a caller still waits for its result.
pub(crate) struct CancellationToken(Weak<()>);

impl CancellationToken {
    /// Called at every step with its number; an error when no caller waits any more.
    pub(crate) fn check(&self, step: u64) -> Result<(), Error> {
        if step.is_multiple_of(STEPS) && self.0.strong_count() == 0 {
            return Err(Error::Unavailable("no caller waits for the result".into()));
        }
        Ok(())
    }
}

impl Engine {
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
    fn work_goes_on_as_long_as_somebody_waits() {
        let waits = Arc::new(());
        let cancellation = CancellationToken(Arc::downgrade(&waits));
        assert!((0..=2 * STEPS).all(|step| cancellation.check(step).is_ok()));
        drop(waits);
        assert_eq!((1..).find(|step| cancellation.check(*step).is_err()), Some(STEPS));
    }
}
