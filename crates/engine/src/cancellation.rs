//! Long work that ends when nobody waits for it any more.

use std::sync::{Arc, Weak};

use crate::{Engine, Error};

/// Steps between two looks at whether somebody still waits.
const STEPS: u64 = 1024;

/// Tells work whether somebody still waits for its result.
pub(crate) struct CancellationToken(Weak<()>);

impl CancellationToken {
    /// To be called at every step with its number; an error when nobody waits any more.
    pub(crate) fn check(&self, step: u64) -> Result<(), Error> {
        if step.is_multiple_of(STEPS) && self.0.strong_count() == 0 {
            return Err(Error::Unavailable("nobody waits for the result".into()));
        }
        Ok(())
    }
}

impl Engine {
    /// Runs `work` as [`Engine::run_blocking`] does. Whoever drops the future lets it know.
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
