//! Background threads of the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use tracing::warn;

use crate::StoreError;

/// A thread that is asked to end and joined, at the latest when this is dropped.
pub(super) struct Background {
    stop: StopSignal,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Tells a thread to end.
#[derive(Clone, Default)]
pub(super) struct StopSignal(Arc<AtomicBool>);

impl Background {
    /// Starts `work`, which parks when it is idle and is unparked when it must end.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(StopSignal) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let stop = StopSignal::default();
        let asked = stop.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(asked))?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    /// The thread to unpark; `None` once it was stopped.
    pub(super) fn thread(&self) -> Option<Thread> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().map(|thread| thread.thread().clone())
    }

    /// Waits for work that is under way.
    pub(super) fn stop(&self) {
        // ORDERING: only tells the thread to end; joining it makes its effects visible.
        self.stop.0.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                warn!(name, "a thread of the store had panicked");
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl StopSignal {
    pub(super) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
