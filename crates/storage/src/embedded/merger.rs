//! Keeps files merged when the engine does not.
//!
//! The engine's workers look for something to merge right after a flush and never again until the
//! next one. What could not be merged then, because its files were being merged with others, stays
//! as it is: a store that was filled fast would be left with twice as many files to look into as
//! it should have, for as long as nobody writes. So here is somebody who looks again.
//!
//! And when nobody has written for a while, there is time to merge the few newest files too, which
//! every read would otherwise look into first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::{AbstractTree, Database, Keyspace};
use tracing::warn;

use crate::StoreError;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks without a write in between after which the store is at rest.
const LOOKS_UNTIL_REST: u32 = 10;
/// How much larger the second level may be than the first while at rest. The first is then a
/// quarter as large as otherwise, since no file is left before it, and the others as ever.
const LEVEL_RATIOS_AT_REST: [f32; 2] = [40.0, 10.0];

/// A thread that merges files as long as there is something to merge; ends when dropped.
pub(super) struct Merger {
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Merger {
    /// `batches` must grow with every write.
    pub(super) fn start(
        db: Database,
        data: Keyspace,
        batches: Arc<AtomicU64>,
    ) -> Result<Self, StoreError> {
        let stop = Arc::new(AtomicBool::new(false));
        let at_rest = Leveled::default()
            .with_l0_threshold(1)
            .with_level_ratio_policy(LEVEL_RATIOS_AT_REST.to_vec());
        let rounds =
            Rounds { db, data, batches, stop: Arc::clone(&stop), at_rest: Arc::new(at_rest) };
        let thread =
            thread::Builder::new().name("merger".to_owned()).spawn(move || rounds.run())?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    /// Waits for a merge under way, as closing the engine would.
    pub(super) fn stop(&self) {
        // ORDERING: says only when to end; what the thread wrote is seen by joining it.
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            if thread.join().is_err() {
                warn!("the thread that merges files had panicked");
            }
        }
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Rounds {
    db: Database,
    data: Keyspace,
    batches: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    at_rest: Arc<Leveled>,
}

impl Rounds {
    fn run(self) {
        let mut settled = None;
        let mut written = self.written();
        let mut quiet_looks = 0;
        while !self.is_stopped() {
            let is_at_rest = quiet_looks >= LOOKS_UNTIL_REST;
            let state = (self.version(), is_at_rest);
            if settled != Some(state) {
                settled = self.merge_one(state).then_some(state);
            }
            if settled.is_some() {
                thread::park_timeout(LOOK_EVERY);
                quiet_looks = if self.written() == written { quiet_looks + 1 } else { 0 };
                written = self.written();
            }
        }
    }

    /// Merges what comes next. Returns whether there was nothing to do, or nothing that can be
    /// done, as long as files are those of `version`.
    fn merge_one(&self, (version, is_at_rest): (u64, bool)) -> bool {
        let tree = &self.data.tree;
        let unseen_before = self.db.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
        let merged = match is_at_rest {
            true => tree.compact(Arc::<Leveled>::clone(&self.at_rest), unseen_before),
            false => tree.compact(self.data.config.compaction_strategy.clone(), unseen_before),
        };
        if let Err(failure) = merged {
            // The engine's workers will meet it too, and then the store takes no more writes.
            warn!(%failure, "files could not be merged");
            return true;
        }
        self.version() == version
    }

    fn written(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Changes with every file that comes or goes.
    fn version(&self) -> u64 {
        self.data.tree.current_version().id()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use fjall::KeyspaceCreateOptions;
    use tempfile::TempDir;

    use super::*;

    /// A database with this many files over each other, and no worker of the engine's own to
    /// merge them.
    fn unmerged(dir: &TempDir, runs: u32) -> (Database, Keyspace) {
        let db = Database::builder(dir.path()).worker_threads_unchecked(0).open().unwrap();
        let data = db.keyspace("data", KeyspaceCreateOptions::default).unwrap();
        for round in 0..runs {
            for key in 0_u32..100 {
                data.insert(key.to_be_bytes(), round.to_be_bytes()).unwrap();
            }
            data.tree.flush_active_memtable(0).unwrap();
        }
        assert_eq!(data.tree.l0_run_count(), runs as usize);
        (db, data)
    }

    fn wait_until_merged(data: &Keyspace) {
        let mut looks = 0..2_000;
        while data.tree.l0_run_count() > 0 && looks.next().is_some() {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(data.tree.l0_run_count(), 0);
    }

    #[test]
    fn files_are_merged_without_a_flush_to_ask_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let (db, data) = unmerged(&dir, 6);
        let merger = Merger::start(db, data.clone(), Arc::default()).unwrap();
        wait_until_merged(&data);
        merger.stop();
        for key in 0_u32..100 {
            assert_eq!(*data.get(key.to_be_bytes()).unwrap().unwrap(), 5_u32.to_be_bytes());
        }
    }

    #[test]
    fn a_few_files_are_merged_once_nobody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let (db, data) = unmerged(&dir, 2);
        let _merger = Merger::start(db, data.clone(), Arc::default()).unwrap();
        wait_until_merged(&data);
    }
}
