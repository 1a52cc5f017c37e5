//! The thread that writes copies, so that no write or read of the store waits for a cache file.
//!
//! It collects copies for a moment and writes them together: waking it takes longer than copying.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use fjall::SeqNo;

use crate::StoreError;

use super::super::background::{Background, StopSignal};
use super::{CacheUpdate, FileLookupCache};

/// How long copies are collected. Tests write the queue themselves, without waiting.
const BATCH_INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 20 });

/// More than this is copied at once,
const QUEUE_BYTES_COMMON: usize = 1 << 20;

/// and what exceeds this is not copied at all: a load that writes faster has no use for it yet.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Copies to be written, each with the first view in which it is valid.
#[derive(Default)]
pub(super) struct WriteQueue {
    queue: Mutex<Queue>,
    /// Whether the thread sleeps until it is woken.
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Default)]
struct Queue {
    batches: Vec<(CacheUpdate, SeqNo)>,
    bytes: usize,
    /// Whether the writer thread runs.
    is_open: bool,
}

impl WriteQueue {
    pub(super) fn push(&self, update: CacheUpdate, seqno: SeqNo) {
        if update.bytes.is_empty() {
            return;
        }
        let has_much = {
            let mut queue = self.queue();
            let has_room = queue.bytes + update.bytes.len() <= QUEUE_BYTES_MAX;
            if !queue.is_open || !has_room {
                return;
            }
            let before = queue.bytes;
            queue.bytes += update.bytes.len();
            queue.batches.push((update, seqno));
            before < QUEUE_BYTES_COMMON && queue.bytes >= QUEUE_BYTES_COMMON
        };
        // ORDERING: the queue's lock orders what is written here before what the thread reads.
        let is_to_wake = self.is_asleep.swap(false, Ordering::AcqRel) || has_much;
        if let Some(thread) = self.thread.get().filter(|_| is_to_wake) {
            thread.unpark();
        }
    }

    pub(super) fn take(&self) -> Vec<(CacheUpdate, SeqNo)> {
        let mut queue = self.queue();
        queue.bytes = 0;
        mem::take(&mut queue.batches)
    }

    pub(super) fn open(&self) {
        self.queue().is_open = true;
    }

    fn close(&self) {
        *self.queue() = Queue::default();
    }

    fn is_empty(&self) -> bool {
        self.queue().batches.is_empty()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread.
pub(super) fn start(cache: Arc<FileLookupCache>) -> Result<Background, StoreError> {
    let work = Arc::clone(&cache);
    let background = Background::start("copier", move |stop| run(&work, &stop))?;
    if let Some(thread) = background.thread() {
        cache.pending.thread.get_or_init(|| thread);
        cache.pending.open();
    }
    Ok(background)
}

fn run(cache: &FileLookupCache, stop: &StopSignal) {
    while !stop.is_asked_for() {
        if cache.write_pending() {
            thread::park_timeout(BATCH_INTERVAL);
            continue;
        }
        cache.pending.is_asleep.store(true, Ordering::Release);
        if cache.pending.is_empty() && !stop.is_asked_for() {
            thread::park();
        }
    }
    cache.pending.close();
}
