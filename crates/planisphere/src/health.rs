//! How the engine is doing, looked up at most once a second however often it is asked.
//!
//! Anybody may ask without a key, and finding out takes a look at the disk: it is done on a thread
//! that may wait, by one asker for all.

use std::time::{Duration, Instant};

use engine::Engine;
use tokio::sync::Mutex;

/// How long an answer counts as current.
const FRESH: Duration = Duration::from_secs(1);

/// The engine's health, remembered for a while.
pub(crate) struct Health {
    engine: Engine,
    last: Mutex<Option<(Instant, storage::Health)>>,
}

impl Health {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, last: Mutex::new(None) }
    }

    /// The health of at most a second ago.
    pub(crate) async fn get(&self) -> storage::Health {
        let mut last = self.last.lock().await;
        match &*last {
            Some((at, health)) if at.elapsed() < FRESH => return health.clone(),
            _ => {}
        }
        let engine = self.engine.clone();
        let looked = tokio::task::spawn_blocking(move || engine.health()).await;
        // An engine that panics when it is looked at takes no writes either.
        let health = looked.unwrap_or_default();
        *last = Some((Instant::now(), health.clone()));
        health
    }
}
