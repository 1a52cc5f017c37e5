//! Compacts files when the engine does not.
//!
//! The engine's workers look for files to compact right after a flush, and not again until the next
//! flush. Files that were part of another compaction at that time stay as they are, so a store that
//! was filled fast would keep twice as many files as it should until the next write. This thread
//! therefore checks again, and then releases what was compacted or flushed. It also notices that a
//! journal was begun, which the manifest must record.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fjall::{AbstractTree, Database};
use tracing::warn;

use crate::StoreError;

use super::SharedState;
use super::background::{Background, StopSignal};
use super::manifest::ManifestWriter;
use super::trees::Trees;

const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Starts a thread that compacts files as long as there is something to compact.
pub(super) fn start(
    db: Database,
    trees: Trees,
    shared: Arc<SharedState>,
    manifest_writer: ManifestWriter,
) -> Result<Background, StoreError> {
    Background::start("merger", move |stop| {
        Compactor { db, trees, shared, manifest_writer, stop }.run()
    })
}

struct Compactor {
    db: Database,
    trees: Trees,
    shared: Arc<SharedState>,
    manifest_writer: ManifestWriter,
    stop: StopSignal,
}

impl Compactor {
    fn run(mut self) {
        let mut settled = None;
        let mut released = None;
        while !self.stop.is_asked_for() {
            self.manifest_writer.keep_up(&self.trees, |look| self.shared.between_writes(look));
            self.trees.lookup_cache.make_room();
            let version = Some(self.trees.version());
            if settled != version {
                settled = version.clone().filter(|version| self.compact_once(version));
            }
            if released != version {
                released = version.filter(|_| self.release_unreferenced());
            }
            if settled.is_some() {
                thread::park_timeout(CHECK_INTERVAL);
            }
        }
    }

    /// Runs the compaction that the engine's strategy picks next in each tree. Returns whether
    /// there was nothing to do, or nothing that can be done while the set of files is that of
    /// `version`.
    fn compact_once(&self, version: &[u64]) -> bool {
        for tree in self.trees.each() {
            let strategy = Arc::clone(&tree.config.compaction_strategy);
            let unseen_before = self.db.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
            if let Err(failure) = tree.tree.compact(strategy, unseen_before) {
                // The engine's workers will meet the failure too, and then the store refuses
                // writes.
                warn!(%failure, "files could not be merged");
                return true;
            }
        }
        self.trees.version() == version
    }

    /// Returns whether there is nothing left to release.
    fn release_unreferenced(&self) -> bool {
        self.shared.release_unreferenced().unwrap_or_else(|failure| {
            warn!(%failure, "files that are no longer needed could not be removed");
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lock::DirectoryLock;
    use super::super::{EmbeddedOptions, OpenEngine, sys};
    use super::*;

    /// The engine has no workers here that could compact.
    #[test]
    fn files_are_merged_without_a_flush_to_ask_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder(dir.path()).worker_threads_unchecked(0).open().unwrap();
        let trees = Trees::open(&db, dir.path(), &EmbeddedOptions::default()).unwrap();
        let (data, scanned) = (trees.of(&[0x10]), trees.of(&[0x20]));
        for round in 0_u32..6 {
            for key in 0_u32..100 {
                data.insert(key.to_be_bytes(), round.to_be_bytes()).unwrap();
                scanned.insert(key.to_be_bytes(), round.to_be_bytes()).unwrap();
            }
            data.tree.flush_active_memtable(0).unwrap();
            scanned.tree.flush_active_memtable(0).unwrap();
        }
        let runs = || trees.each().map(|tree| tree.tree.l0_run_count()).collect::<Vec<_>>();
        assert_eq!(runs(), [6, 6]);
        let lock = Arc::new(DirectoryLock::acquire(dir.path()).unwrap());
        let retired = sys::load_retired(data).unwrap();
        let engine = OpenEngine { db: db.clone(), trees: trees.clone(), retired, lock };
        let shared = Arc::new(SharedState::new(engine, false));
        let manifest_writer = ManifestWriter::new(dir.path(), dir.path());
        let compactor = start(db, trees.clone(), shared, manifest_writer).unwrap();
        let mut looks = 0..2_000;
        while runs() != [0, 0] && looks.next().is_some() {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(runs(), [0, 0]);
        compactor.stop();
        for tree in trees.each() {
            for key in 0_u32..100 {
                assert_eq!(*tree.get(key.to_be_bytes()).unwrap().unwrap(), 5_u32.to_be_bytes());
            }
        }
    }
}
