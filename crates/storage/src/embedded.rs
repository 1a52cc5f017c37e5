//! The durable store: log-structured trees of an embedded engine, the same for all partitions.
//!
//! Keys start with the partition id, four bytes big-endian, so creating a partition costs nothing
//! and retiring one is a mark among the store's own records (see `sys`).
//!
//! Two invariants are kept here because the engine does not keep them alone:
//! - A view is a snapshot taken while no batch is under way. The engine lets a background flush
//!   raise the visible sequence number past a batch that is still being applied, so a snapshot
//!   opened at any moment could see half a batch. Ours are opened under the writer's lock and
//!   published; readers share the published one.
//! - At most the last batch in the journal is unsynced, which is what makes cutting a torn journal
//!   tail sound: before a batch is appended behind a buffered one, the journal is synced. A relaxed
//!   store gives this up, and a mark in its directory says so.

mod background;
mod compactor;
mod create;
mod errors;
mod journal;
mod lock;
mod lookup_cache;
mod manifest;
mod reclaim;
mod repair;
mod sys;
#[cfg(test)]
pub(crate) mod tests;
mod tree_files;
mod trees;
mod view;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use fjall::{AbstractTree, Database, OwnedWriteBatch, PersistMode, Slice};
use model::PartitionId;
use tracing::error;

use crate::space::{self, DiskSpace, Room, SystemDiskSpace};
use crate::{
    Durability, Health, KeyTags, LocalStore, Op, ReclaimProgress, StoreError, View, WriteBatch,
};

use background::Background;
use create::{Creation, RelaxedMark};
use errors::{io_failed, is_poisoned_unseen, open_failed, read_failed, write_failed};
use lock::DirectoryLock;
use lookup_cache::CacheUpdate;
use manifest::{Manifest, ManifestWriter};
use reclaim::{Deadline, Reclaimer};
use trees::Trees;
use view::{EmbeddedView, OpenView};

const ENGINE_DIRECTORY: &str = "kv";

/// The engine blocks inside a commit at four sealed memtables and does not notice there when its
/// workers have died. Waiting one memtable earlier keeps that wait in this crate.
const SEALED_MEMTABLES_MAX: usize = 3;
const LEVEL_ZERO_RUNS_MAX: usize = 28;
const STALL_POLL: Duration = Duration::from_millis(2);

/// Longer than a reader normally holds a view. A caller that needs the store open tries again.
const REOPEN_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long readers wait for a store that is being reopened before they get the error that it is
/// closed. A waiting reader blocks other requests of its thread, which may not read at all.
const READERS_PATIENCE: Duration = Duration::from_millis(300);

/// If less space than this is free, a failed flush is attributed to a full disk.
const FLUSH_ROOM_BYTES: u64 = 32 << 20;

/// How an [`EmbeddedStore`] uses memory, disk and threads.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// How the keys are read.
    pub key_tags: KeyTags,
    /// Memory for cached blocks and for the index of the lookup cache.
    pub cache_bytes: u64,
    /// The most bytes on disk for the lookup cache, which makes lookups of items faster; 0 for none.
    /// It takes about as much as the items, however much this allows.
    pub lookup_cache_bytes: u64,
    /// Memory for memtables that are being filled, half of it for each of the two trees; fixed
    /// when the directory is created.
    pub memtable_bytes: u64,
    /// Total size of journals at which memtables are flushed to free them; at least 64 MiB.
    pub journal_bytes_max: u64,
    /// Threads that flush and compact; at least 1. One of them never compacts, and it busy-loops
    /// while there is something to compact and the others are busy. So there should be more other
    /// threads than concurrent compactions.
    pub worker_threads: usize,
    /// A directory in memory where a new database is built before it is copied to its final
    /// location, which saves most of the syncs. If it cannot be used, the database is built in
    /// place.
    pub scratch: Option<PathBuf>,
    /// Lets buffered batches follow each other without a sync. A power failure may then lose all of
    /// them, and damage to the newest journal cannot be told apart from a power failure.
    pub relaxed: bool,
    /// Tells how full the disk is.
    pub space: Arc<dyn DiskSpace>,
}

impl EmbeddedOptions {
    /// The options that were measured to be best, for keys that are read so.
    pub fn new(key_tags: KeyTags) -> Self {
        Self {
            key_tags,
            cache_bytes: 64 << 20,
            lookup_cache_bytes: 512 << 20,
            memtable_bytes: 16 << 20,
            journal_bytes_max: 128 << 20,
            worker_threads: 3,
            scratch: Some("/dev/shm".into()),
            relaxed: false,
            space: Arc::new(SystemDiskSpace),
        }
    }

    /// How much room a store in `directory` has.
    fn room(&self, directory: &Path) -> Option<Room> {
        space::room(&self.space, directory, self.memtable_bytes)
    }
}

/// A [`LocalStore`] in a directory of its own.
pub struct EmbeddedStore {
    /// Dropped first, since the workers hold the engine but not the lock of the directory.
    workers: Mutex<Vec<Background>>,
    dir: PathBuf,
    directory: PathBuf,
    options: EmbeddedOptions,
    manifest_writer: ManifestWriter,
    /// For lock-free reads of the engine's progress; `None` once closed.
    db: ArcSwapOption<Database>,
    shared: Arc<SharedState>,
    /// Why writes are refused until the store is reopened.
    refusal: ArcSwapOption<String>,
    /// Batches written since the store was opened.
    batches: AtomicU64,
    reclaimer: Mutex<Reclaimer>,
}

/// The engine, and the view of it that readers get.
struct SharedState {
    published: ArcSwap<EmbeddedView>,
    writer: Mutex<Writer>,
    reopening: Reopening,
}

/// Whether the engine is being reopened, for the readers that wait for it.
#[derive(Default)]
struct Reopening {
    /// When readers stop waiting; `None` while the engine is not being reopened.
    until: Mutex<Option<Deadline>>,
    ended: Condvar,
}

impl Reopening {
    fn begin(&self) {
        *self.lock() = Some(Deadline::after(READERS_PATIENCE));
    }

    fn end(&self) {
        *self.lock() = None;
        self.ended.notify_all();
    }

    /// Returns when the engine is no longer being reopened, or at the deadline.
    fn wait(&self) {
        let mut until = self.lock();
        while let Some(left) = until.as_ref().and_then(Deadline::left) {
            let waited = self.ended.wait_timeout(until, left);
            until = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Deadline>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State that only the holder of the writer's lock may touch.
struct Writer {
    /// `None` once closed.
    open: Option<OpenEngine>,
    /// The lock of the directory, while the engine is being reopened or after that has failed.
    directory_lock: Option<Arc<DirectoryLock>>,
    /// Whether unsynced batches may pile up.
    relaxed: bool,
    /// Whether the last batch may not have reached the disk.
    unsynced: bool,
    /// Whether the last batch may be on disk in part.
    torn: bool,
}

/// Starts the store's own background threads.
fn start_workers(
    db: &Database,
    trees: &Trees,
    shared: &Arc<SharedState>,
    manifest_writer: &ManifestWriter,
) -> Result<Vec<Background>, StoreError> {
    let compactor =
        compactor::start(db.clone(), trees.clone(), Arc::clone(shared), manifest_writer.clone());
    let of_cache = Arc::clone(&trees.lookup_cache).start().transpose();
    std::iter::once(compactor).chain(of_cache).collect()
}

struct OpenEngine {
    db: Database,
    trees: Trees,
    retired: sys::RetiredPartitions,
    lock: Arc<DirectoryLock>,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creating both when they do not exist.
    ///
    /// Returns `Locked` while another store, in this process or another, has the directory or a
    /// view of it open.
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<Self, StoreError> {
        let lock = Arc::new(DirectoryLock::acquire(dir)?);
        let directory = dir.join(ENGINE_DIRECTORY);
        let (engine, manifest_writer) = open_checked(dir, &directory, &options, lock)?;
        let (db, trees) = (engine.db.clone(), engine.trees.clone());
        let shared = Arc::new(SharedState::new(engine, options.relaxed));
        Ok(Self {
            workers: Mutex::new(start_workers(&db, &trees, &shared, &manifest_writer)?),
            dir: dir.to_owned(),
            directory,
            options,
            manifest_writer,
            db: ArcSwapOption::from_pointee(db),
            shared,
            refusal: ArcSwapOption::empty(),
            batches: AtomicU64::new(0),
            reclaimer: Mutex::new(Reclaimer::default()),
        })
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits the batch of up to `ops_max` ops that `fill` builds; `update` is what the lookup
    /// cache takes from it. The caller publishes the result, since it may have more to change
    /// first.
    fn commit(
        &self,
        writer: &mut Writer,
        durability: Durability,
        ops_max: usize,
        update: CacheUpdate,
        fill: impl FnOnce(&OpenEngine, &mut OwnedWriteBatch),
    ) -> Result<(), StoreError> {
        if let Some(reason) = &*self.refusal.load() {
            return Err(StoreError::Poisoned(reason.to_string()));
        }
        let engine = writer.engine()?;
        let mut batch = OwnedWriteBatch::with_capacity(engine.db.clone(), ops_max);
        fill(engine, &mut batch);
        let sync_first = writer.unsynced && !writer.relaxed;
        let appended = append(engine, batch, durability, sync_first);
        let seqno = engine.db.visible_seqno();
        engine.trees.lookup_cache.note_writes(update, seqno, appended.is_ok());
        writer.torn |= appended.is_err();
        appended.map_err(|failure| self.refuse(failure))?;
        writer.unsynced = durability == Durability::Buffered;
        // ORDERING: a statistic for operators; no decision depends on it.
        self.batches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Stops accepting writes after `failure`, which is returned as the caller should see it.
    fn refuse(&self, failure: fjall::Error) -> StoreError {
        let failure = if is_poisoned_unseen(&failure) && self.is_disk_full() {
            StoreError::Full
        } else {
            write_failed(failure)
        };
        let reason = match &failure {
            StoreError::Poisoned(reason) => reason.clone(),
            StoreError::Full
            | StoreError::Corrupt(_)
            | StoreError::Locked
            | StoreError::TooLarge
            | StoreError::Io(_) => failure.to_string(),
        };
        error!(reason, "the store stops taking writes until it is reopened");
        if self.refusal.load().is_none() {
            self.refusal.store(Some(Arc::new(reason)));
        }
        failure
    }

    fn stop_workers(&self) {
        // Waits for work that is under way.
        drop(std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    /// Opens the engine anew under this lock; on failure the store has none.
    fn open_again(
        &self,
        writer: &mut Writer,
        directory_lock: Arc<DirectoryLock>,
    ) -> Result<(), StoreError> {
        // A remaining reader still holds the engine, and two engines must never run at once.
        if self.manifest_writer.engine_lock(REOPEN_WAIT_MAX)?.is_none() {
            return Err(StoreError::Locked);
        }
        journal::write_again(&self.directory).map_err(io_failed)?;
        let (engine, manifest_writer) =
            open_checked(&self.dir, &self.directory, &self.options, directory_lock)?;
        let (db, trees) = (engine.db.clone(), engine.trees.clone());
        self.shared.publish(&engine);
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) =
            start_workers(&db, &trees, &self.shared, &manifest_writer)?;
        writer.open = Some(engine);
        (writer.unsynced, writer.torn) = (false, false);
        self.db.store(Some(Arc::new(db)));
        self.refusal.store(None);
        Ok(())
    }

    /// When a background flush fails, the engine does not report why; too little disk space for a
    /// flush is the likely reason.
    fn is_disk_full(&self) -> bool {
        let disk = self.options.space.of(&self.directory);
        disk.is_some_and(|disk| disk.free_bytes < FLUSH_ROOM_BYTES)
    }
}

impl SharedState {
    fn new(engine: OpenEngine, relaxed: bool) -> Self {
        let published = ArcSwap::from_pointee(engine.snapshot());
        let writer = Writer {
            open: Some(engine),
            directory_lock: None,
            relaxed,
            unsynced: false,
            torn: false,
        };
        Self { published, writer: Mutex::new(writer), reopening: Reopening::default() }
    }

    fn publish(&self, engine: &OpenEngine) {
        self.published.store(Arc::new(engine.snapshot()));
    }

    /// Publishes a current snapshot when background work has made the last one stale.
    fn refresh(&self) {
        let Ok(writer) = self.writer.try_lock() else { return };
        if let Some(engine) = &writer.open {
            self.publish(engine);
        }
    }

    /// Calls `look` while no batch is under way. Does nothing if it would have to wait, if the last
    /// batch failed, or if more than the last batch may be lost.
    fn between_writes(&self, look: &mut dyn FnMut()) {
        let Ok(writer) = self.writer.try_lock() else { return };
        if writer.open.is_some() && !writer.torn && !writer.relaxed {
            look();
        }
    }

    /// Releases flushed memtables and merged files that no view refers to any more. The engine does
    /// so when the next memtable is full, so an idle store would keep them until the next writes.
    ///
    /// Returns whether it was done: it is not while a write is under way or an older view is held.
    fn release_unreferenced(&self) -> Result<bool, StoreError> {
        let Ok(writer) = self.writer.try_lock() else { return Ok(false) };
        let Some(engine) = &writer.open else { return Ok(false) };
        self.publish(engine);
        let published = self.published.load();
        let (Some(oldest), 1) = (published.seqno(), engine.open_snapshots()) else {
            return Ok(false);
        };
        for tree in engine.trees.each() {
            let mut versions = tree.tree.get_version_history_lock();
            versions.maintenance(tree.path(), oldest).map_err(|e| read_failed(e.into()))?;
        }
        Ok(true)
    }
}

impl Writer {
    fn engine(&self) -> Result<&OpenEngine, StoreError> {
        self.open.as_ref().ok_or_else(StoreError::closed)
    }

    fn engine_mut(&mut self) -> Result<&mut OpenEngine, StoreError> {
        self.open.as_mut().ok_or_else(StoreError::closed)
    }
}

fn append(
    engine: &OpenEngine,
    batch: OwnedWriteBatch,
    durability: Durability,
    sync_first: bool,
) -> fjall::Result<()> {
    engine.wait_for_room()?;
    if sync_first || (batch.is_empty() && durability == Durability::Synced) {
        engine.db.persist(PersistMode::SyncData)?;
    }
    let mode = match durability {
        Durability::Synced => PersistMode::SyncData,
        Durability::Buffered => PersistMode::Buffer,
    };
    batch.durability(Some(mode)).commit()
}

impl OpenEngine {
    fn snapshot(&self) -> EmbeddedView {
        EmbeddedView::new(self.open_view())
    }

    /// Snapshots that are held, the published one included.
    fn open_snapshots(&self) -> usize {
        self.db.supervisor.snapshot_tracker.open_snapshots()
    }

    /// A current view. Only the holder of the writer's lock may call this; see the module.
    fn open_view(&self) -> OpenView {
        OpenView {
            snapshot: self.db.snapshot(),
            trees: self.trees.clone(),
            hidden: self.retired.hidden(),
            _lock: Arc::clone(&self.lock),
        }
    }

    /// Waits until flushing and compaction have caught up.
    fn wait_for_room(&self) -> fjall::Result<()> {
        while self.trees.is_stalled() {
            // Dead workers never free memtables; they leave the database poisoned, which this call
            // reveals.
            self.db.persist(PersistMode::Buffer)?;
            thread::sleep(STALL_POLL);
        }
        Ok(())
    }

    fn fill(&self, batch: &mut OwnedWriteBatch, ops: Vec<Op>) {
        for op in ops {
            if self.retired.is_hidden(op.partition()) {
                continue;
            }
            match op {
                Op::Put { p, k, v } => batch.insert(self.trees.of(&k), owned_key(p, &k), v),
                Op::Del { p, k } => batch.remove(self.trees.of(&k), owned_key(p, &k)),
            }
        }
    }
}

fn owned_key(p: PartitionId, k: &[u8]) -> Slice {
    let mut key = Vec::with_capacity(4 + k.len());
    key.extend_from_slice(&p.0.to_be_bytes());
    key.extend_from_slice(k);
    key.into()
}

/// Opens the engine in `directory` within `dir` after checking that no file is missing; creates a
/// new one where there is none.
fn open_checked(
    dir: &Path,
    directory: &Path,
    options: &EmbeddedOptions,
    lock: Arc<DirectoryLock>,
) -> Result<(OpenEngine, ManifestWriter), StoreError> {
    let manifest = Manifest::load(dir)?;
    let mut manifest_writer = ManifestWriter::new(dir, directory);
    let creation = Creation::begin(dir, directory, manifest.is_some())?;
    match (&creation, &options.scratch) {
        (Some(creation), Some(scratch)) => {
            creation.seed(directory, scratch, |path| open_engine(path, options).map(drop));
        }
        (Some(_), None) => {}
        (None, _) => Manifest::check_files(manifest.as_ref(), directory)?,
    }
    let relaxed_before = RelaxedMark::of(dir);
    let unsynced = relaxed_before.unsynced()?;
    let is_whole = |journal: &_, whole| match &manifest {
        Some(manifest) if creation.is_none() => manifest.check_journal(journal, whole),
        Some(_) | None => Ok(()),
    };
    let checked = repair::check_journals(directory, dir, unsynced, is_whole)?;
    if creation.is_none() {
        checked.trees.keys().try_for_each(|id| tree_files::check_is_there(directory, *id))?;
        manifest_writer.note_opening(manifest.as_ref(), &checked.ends)?;
    }
    let (db, trees) = open_engine(directory, options)?;
    check_all_replayed(&db, &trees, &checked, unsynced)?;
    // All journals are whole and synced by now, so how the store was opened before no longer
    // matters.
    relaxed_before.set(options.relaxed)?;
    if let Some(creation) = creation {
        manifest_writer.note_creation()?;
        creation.finish()?;
    }
    let retired = sys::load_retired(&trees.data)?;
    Ok((OpenEngine { db, trees, retired, lock }, manifest_writer))
}

fn open_engine(
    directory: &Path,
    options: &EmbeddedOptions,
) -> Result<(Database, Trees), StoreError> {
    let db = Database::builder(directory)
        .cache_size(options.cache_bytes - lookup_cache::memory_bytes_max(options))
        .max_journaling_size(options.journal_bytes_max.max(64 << 20))
        .worker_threads(options.worker_threads.max(1))
        .open()
        .map_err(open_failed)?;
    let trees = Trees::open(&db, directory, options)?;
    Ok((db, trees))
}

/// A final check that the engine kept every batch found in the journals, and that the journals held
/// every batch found in tables: the contents of tables went through a journal, and journals are
/// deleted oldest first. After a power failure the last batch, which was not synced, may be in
/// tables alone, and so may any number of batches of a relaxed store. The very first journal has
/// contents before tables do.
fn check_all_replayed(
    db: &Database,
    trees: &Trees,
    checked: &repair::CheckedJournals,
    unsynced: repair::Unsynced,
) -> Result<(), StoreError> {
    let in_tables = trees.each().filter_map(|tree| tree.tree.get_highest_persisted_seqno()).max();
    let Some(last) = checked.last_seqno else {
        let is_first = unsynced == repair::Unsynced::LastBatch && checked.ends.contains_key(&0);
        return match in_tables {
            Some(in_tables) if is_first && checked.cut_seqno.is_none() => {
                Err(StoreError::Corrupt(format!(
                    "the tables have write {in_tables}, but the journals have none: 0.jnl was \
                     emptied; put it back from a copy of the directory"
                )))
            }
            Some(_) | None => Ok(()),
        };
    };
    if db.seqno() <= last {
        return Err(StoreError::Corrupt(format!(
            "the journals reach write {last}, but only {} were recovered",
            db.seqno()
        )));
    }
    let is_proof = |in_tables: &u64| {
        unsynced == repair::Unsynced::LastBatch
            && *in_tables > checked.cut_seqno.unwrap_or_default().max(last + 1)
    };
    match in_tables.filter(is_proof) {
        Some(in_tables) => Err(StoreError::Corrupt(format!(
            "the tables have write {in_tables}, but the newest journal ends with write {last}: it \
             was cut short; put it back from a copy of the directory"
        ))),
        None => Ok(()),
    }
}

impl LocalStore for EmbeddedStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        batch.ops.iter().try_for_each(Op::check_size)?;
        let mut writer = self.lock_writer();
        let ops_max = batch.ops.len();
        let update = writer.engine()?.trees.lookup_cache.prepare_update(&batch.ops);
        let fill = |engine: &OpenEngine, out: &mut _| engine.fill(out, batch.ops);
        self.commit(&mut writer, durability, ops_max, update, fill)?;
        self.shared.publish(writer.engine()?);
        Ok(())
    }

    fn view(&self) -> Arc<dyn View> {
        let published = self.shared.published.load();
        let visible = self.db.load().as_ref().map(|db| db.visible_seqno());
        if visible == published.seqno() && visible.is_some() {
            return Arc::clone(&published) as Arc<dyn View>;
        }
        if published.seqno().is_none() {
            // The store is closed or being reopened.
            self.shared.reopening.wait();
            return self.shared.published.load_full();
        }
        self.shared.refresh();
        self.shared.published.load_full()
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        let mut writer = self.lock_writer();
        if writer.engine()?.retired.is_hidden(p) {
            return Ok(());
        }
        let fill = |engine: &OpenEngine, out: &mut _| {
            sys::mark_retired(&engine.trees.data, out, p);
        };
        self.commit(&mut writer, Durability::Synced, 1, CacheUpdate::default(), fill)?;
        let engine = writer.engine_mut()?;
        engine.retired.hide(p);
        self.shared.publish(engine);
        Ok(())
    }

    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError> {
        let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        reclaimer.run(self, budget)
    }

    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        self.shared.refresh();
        self.shared.published.load_full().approximate_bytes(p)
    }

    /// Does not wait for a write that is blocked.
    fn health(&self) -> Health {
        let refusal = self.refusal.load().as_ref().map(ToString::to_string);
        let Some(db) = self.db.load_full() else {
            return Health { reason: refusal, ..Health::default() };
        };
        self.shared.refresh();
        let published = self.shared.published.load();
        let journal_bytes = journal::occupied_bytes(&self.directory);
        let tree_bytes = published.trees().map_or(0, Trees::disk_bytes);
        let lookup_cache_bytes =
            published.trees().map_or(0, |trees| trees.lookup_cache.disk_bytes());
        Health {
            writable: refusal.is_none() && db.persist(PersistMode::Buffer).is_ok(),
            reason: refusal,
            room: self.room(),
            stalled: published.trees().is_some_and(Trees::is_stalled),
            disk_bytes: journal_bytes + tree_bytes + lookup_cache_bytes,
            journal_bytes,
            lookup_cache_bytes,
            batches: self.batches.load(Ordering::Relaxed),
        }
    }

    fn room(&self) -> Option<Room> {
        self.options.room(&self.directory)
    }

    fn can_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) -> Result<(), StoreError> {
        // The reclaimer takes the writer's lock now and then, and holds the engine.
        let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writer = self.lock_writer();
        let directory_lock = match (writer.open.take(), writer.directory_lock.take()) {
            (Some(OpenEngine { lock, .. }), _) | (None, Some(lock)) => lock,
            (None, None) => return Err(StoreError::closed()),
        };
        self.stop_workers();
        self.db.store(None);
        self.shared.reopening.begin();
        self.shared.published.store(Arc::new(EmbeddedView::closed()));
        *reclaimer = Reclaimer::default();
        let opened = self.open_again(&mut writer, Arc::clone(&directory_lock));
        self.shared.reopening.end();
        if opened.is_err() {
            writer.directory_lock = Some(directory_lock);
        }
        opened
    }

    fn close(&self) -> Result<(), StoreError> {
        let mut writer = self.lock_writer();
        writer.directory_lock = None;
        let Some(engine) = writer.open.take() else { return Ok(()) };
        let has_failed = self.refusal.load().is_some();
        let synced = match has_failed {
            // What a poisoned journal still holds was never acknowledged.
            true => Ok(()),
            false => engine.db.persist(PersistMode::SyncAll).map_err(write_failed),
        };
        self.stop_workers();
        self.db.store(None);
        self.shared.published.store(Arc::new(EmbeddedView::closed()));
        drop(engine.db);
        drop(engine.trees);
        if synced.is_ok() && !has_failed {
            // Runs under the lock of the directory, which is released when this returns.
            self.manifest_writer.note_stop();
        }
        synced
    }
}
