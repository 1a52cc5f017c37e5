//! The thread that copies, so that nobody who writes or reads waits for a file.
//!
//! It takes what has gathered for a moment rather than each piece by itself: being woken takes
//! longer than copying.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use fjall::SeqNo;

use crate::StoreError;

use super::super::background::{Background, Stop};
use super::{Copies, Gathered};

/// How long copies gather. Tests write and read at once what they look for.
const GATHER_FOR: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 20 });

/// More than this is copied at once,
const PENDING_BYTES_COMMON: usize = 1 << 20;

/// and more than this is not copied at all: whoever writes faster than that has no use for it yet.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// What is to be copied, and from which view on it counts.
#[derive(Default)]
pub(super) struct Pending {
    queue: Mutex<Queue>,
    /// Whether the thread sleeps until it is woken.
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

#[derive(Default)]
struct Queue {
    batches: Vec<(Gathered, SeqNo)>,
    bytes: usize,
    /// Whether there is somebody who copies.
    is_open: bool,
}

impl Pending {
    pub(super) fn push(&self, gathered: Gathered, seqno: SeqNo) {
        if gathered.bytes.is_empty() {
            return;
        }
        let has_much = {
            let mut queue = self.queue();
            let has_room = queue.bytes + gathered.bytes.len() <= PENDING_BYTES_MAX;
            if !queue.is_open || !has_room {
                return;
            }
            let before = queue.bytes;
            queue.bytes += gathered.bytes.len();
            queue.batches.push((gathered, seqno));
            before < PENDING_BYTES_COMMON && queue.bytes >= PENDING_BYTES_COMMON
        };
        // ORDERING: the queue's lock is in between what is said here and what the thread looks at.
        let is_to_wake = self.is_asleep.swap(false, Ordering::AcqRel) || has_much;
        if let Some(thread) = self.thread.get().filter(|_| is_to_wake) {
            thread.unpark();
        }
    }

    pub(super) fn take(&self) -> Vec<(Gathered, SeqNo)> {
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
pub(in super::super) fn start(copies: Arc<Copies>) -> Result<Background, StoreError> {
    let work = Arc::clone(&copies);
    let background = Background::start("copier", move |stop| run(&work, &stop))?;
    if let Some(thread) = background.thread() {
        copies.pending.thread.get_or_init(|| thread);
        copies.pending.open();
    }
    Ok(background)
}

fn run(copies: &Copies, stop: &Stop) {
    while !stop.is_asked_for() {
        if copies.copy_pending() {
            thread::park_timeout(GATHER_FOR);
            continue;
        }
        copies.pending.is_asleep.store(true, Ordering::Release);
        if copies.pending.is_empty() && !stop.is_asked_for() {
            thread::park();
        }
    }
    copies.pending.close();
}
