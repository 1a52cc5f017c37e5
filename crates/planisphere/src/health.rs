//! The health of the engine, determined at most once a second however often it is requested.
//!
//! Requests for it need no key, and determining it accesses the disk. So it runs on a blocking
//! thread, once for all waiting requests.

use std::time::{Duration, Instant};

use engine::Engine;
use tokio::sync::Mutex;

/// How long a result counts as current.
const FRESH: Duration = Duration::from_secs(1);

/// The engine's health, cached for a short time.
pub(crate) struct Health {
    engine: Engine,
    last: Mutex<Option<(Instant, storage::Health)>>,
}

impl Health {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, last: Mutex::new(None) }
    }

    /// The health, at most a second old.
    pub(crate) async fn get(&self) -> storage::Health {
        self.get_at(Instant::now()).await
    }

    async fn get_at(&self, now: Instant) -> storage::Health {
        let mut last = self.last.lock().await;
        match &*last {
            Some((at, health)) if now.saturating_duration_since(*at) < FRESH => {
                return health.clone();
            }
            _ => {}
        }
        let engine = self.engine.clone();
        let looked = tokio::task::spawn_blocking(move || engine.health()).await;
        // An engine that panics in the check accepts no writes either.
        let health = looked.unwrap_or_default();
        *last = Some((now, health.clone()));
        health
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Components, Settings};
    use storage::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn an_answer_counts_for_a_second() {
        let components = Components::system(tokio::runtime::Handle::current());
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(store, components, Settings::default()).unwrap();
        let health = Health::new(engine.clone());
        let asked = Instant::now();
        assert!(health.get_at(asked).await.writable);
        engine.close().await.unwrap();
        let later = |time: Duration| health.get_at(asked + time);
        assert!(later(FRESH - Duration::from_nanos(1)).await.writable);
        assert!(!later(FRESH).await.writable);
        // A request that started earlier but is answered after another one gets the newer result.
        assert!(!later(Duration::ZERO).await.writable);
    }
}
