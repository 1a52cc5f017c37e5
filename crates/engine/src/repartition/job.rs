//! A job from start to end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use model::limits::CONTAINER_RANGES_MAX;
use model::{ContainerRid, Epk};
use tokio::sync::{oneshot, watch};

use crate::catalog::{Catalog, Change, Container};
use crate::commit::{CutOver, Mirror, MirrorTarget, NewMirror, PartitionState};
use crate::engine::Inner;
use crate::keys::EpkForm;
use crate::partition::{Partition, PartitionStatus};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Busy, Engine, Error, RangeId, ResourceKind};

use super::copy::{copy_partition, progress_of, upgrade};
use super::plan::ancestors;
use super::volume::{SourceCounters, Volume, volume_of};
use super::{
    Child, JobId, JobInfo, JobKind, JobPhase, JobReason, JobSpec, JobTallies, Progression,
    SplitPoint,
};

/// Finished jobs that are kept for reports.
const OVER_KEPT_MAX: usize = 200;
/// Jobs of one container at a time.
const PER_CONTAINER_MAX: usize = 16;

/// How often a job whose store takes no writes checks whether it takes them again.
const STORE_LOOK_EVERY: Duration = Duration::from_secs(1);

/// What callers want of a job. Only the job's own task acts on it, and only that task changes the
/// phase and the status of partitions, so they always agree.
#[derive(Clone, Copy, Debug, Default)]
struct JobControl {
    /// The step up to which a manually driven job may proceed.
    step: JobStep,
    is_paused: bool,
    is_cancelled: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum JobStep {
    #[default]
    Copy,
    Swap,
    CutOver,
}

/// Why a job's task stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// A caller cancelled it, or its container or ranges are gone.
    Cancelled,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// A job to begin: with `split_at` it splits its one source there, without it merges its sources.
pub(super) struct JobRequest {
    pub(super) container: ContainerRid,
    pub(super) sources: Vec<RangeId>,
    pub(super) split_at: Option<SplitPoint>,
    pub(super) progression: Progression,
    pub(super) reason: JobReason,
}

/// A job in memory.
pub(crate) struct Job {
    pub(crate) spec: Arc<JobSpec>,
    phase: watch::Sender<JobPhase>,
    control: watch::Sender<JobControl>,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// How much there is to copy in all, and how much of it is copied.
    volume: Mutex<Volume>,
    /// How long it had run before this process resumed it.
    earlier: Duration,
    began: Duration,
    took: Mutex<Option<Duration>>,
    held_micros: Arc<AtomicU64>,
}

impl Job {
    fn new(spec: Arc<JobSpec>, earlier: Duration, began: Duration) -> Self {
        let control = JobControl { is_paused: spec.is_paused, ..JobControl::default() };
        Self {
            spec,
            phase: watch::Sender::new(JobPhase::Preparing),
            control: watch::Sender::new(control),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            volume: Mutex::default(),
            earlier,
            began,
            took: Mutex::new(None),
            held_micros: Arc::new(AtomicU64::new(0)),
        }
    }

    pub(super) fn info(&self) -> JobInfo {
        let phase = self.phase.borrow().clone();
        let held = Duration::from_micros(self.held_micros.load(Ordering::Relaxed));
        let Volume { total, done } = *self.volume();
        JobInfo {
            id: self.spec.id,
            container: self.spec.container,
            kind: self.spec.kind,
            reason: self.spec.reason,
            progression: self.spec.progression,
            sources: self.spec.sources.clone(),
            children: self.spec.children.iter().map(|c| c.range).collect(),
            is_paused: self.control.borrow().is_paused,
            rows_copied: self.rows.load(Ordering::Relaxed),
            bytes_copied: self.bytes.load(Ordering::Relaxed),
            bytes_total: total,
            bytes_done: done,
            started: self.spec.started,
            took: *self.took.lock().unwrap_or_else(PoisonError::into_inner),
            held: (phase == JobPhase::Succeeded).then_some(held),
            phase,
        }
    }

    /// Counts a stored chunk; `counted` of its bytes are part of the volume.
    pub(super) fn count(&self, rows: usize, bytes: usize, counted: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut volume = self.volume();
        // The total is an estimate, and more may be written meanwhile.
        let nearly = volume.total - volume.total.div_ceil(100);
        volume.done = (volume.done + counted as u64).min(nearly);
    }

    fn volume(&self) -> MutexGuard<'_, Volume> {
        self.volume.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self, is_paused: bool) {
        self.control.send_modify(|control| control.is_paused = is_paused);
    }

    /// Asks the job to end before it changes over.
    pub(super) fn cancel(&self) {
        self.control.send_modify(|control| control.is_cancelled = true);
    }

    /// Waits as long as the job is paused.
    pub(super) async fn may_go_on(&self) -> Result<(), Stop> {
        self.wait_for_control(|control| !control.is_paused).await
    }

    /// Allows the next step and waits until it is taken.
    pub(super) async fn advance(&self) -> Result<(), Error> {
        if self.spec.progression == Progression::Automatic {
            return Err(Busy::AutomaticJob.into());
        }
        let before = self.phase.borrow().clone();
        let next = match before {
            JobPhase::Preparing => JobStep::Swap,
            JobPhase::Swapping => JobStep::CutOver,
            JobPhase::Succeeded | JobPhase::Failed(_) | JobPhase::Cancelled => return Ok(()),
        };
        self.control.send_modify(|control| control.step = control.step.max(next));
        let mut phase = self.phase.subscribe();
        // The sender lives as long as `self`.
        let _ = phase.wait_for(|now| *now != before).await;
        Ok(())
    }

    pub(super) async fn ended(&self) {
        let _ = self.phase.subscribe().wait_for(JobPhase::is_over).await;
    }

    /// Waits while the job is between the steps of its change-over.
    pub(super) async fn swapped(&self) {
        let is_serving = |phase: &JobPhase| *phase != JobPhase::Swapping;
        let _ = self.phase.subscribe().wait_for(is_serving).await;
    }

    /// Waits until the controls let the job continue.
    async fn wait_for_control(&self, is_granted: impl Fn(&JobControl) -> bool) -> Result<(), Stop> {
        let mut control = self.control.subscribe();
        match control.wait_for(|w| w.is_cancelled || is_granted(w)).await.map(|w| *w) {
            Ok(JobControl { is_cancelled: false, .. }) => Ok(()),
            // The sender lives as long as `self`, so there is no error.
            Ok(_) | Err(_) => Err(Stop::Cancelled),
        }
    }

    fn end(&self, phase: JobPhase, took: Duration) {
        *self.took.lock().unwrap_or_else(PoisonError::into_inner) = Some(took);
        self.phase.send_replace(phase);
    }
}

/// Running jobs and some that are over.
#[derive(Default)]
pub(crate) struct Jobs {
    by_id: Mutex<BTreeMap<JobId, Arc<Job>>>,
    /// Counts of the finished jobs.
    tallies: Mutex<JobTallies>,
}

impl Jobs {
    pub(super) fn get(&self, id: JobId) -> Option<Arc<Job>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Job>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn add(&self, job: Arc<Job>) {
        let mut jobs = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.insert(job.spec.id, job);
        let over: Vec<_> = jobs
            .iter()
            .filter(|(_, job)| job.phase.borrow().is_over())
            .map(|(id, _)| *id)
            .collect();
        for id in over.iter().take(over.len().saturating_sub(OVER_KEPT_MAX)) {
            jobs.remove(id);
        }
    }

    pub(super) fn tallies(&self) -> JobTallies {
        *self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the jobs that the catalog no longer has: their containers are gone.
    pub(crate) fn cancel_orphaned(&self, catalog: impl FnOnce() -> Arc<Catalog>) {
        // Read the jobs first: one that begins meanwhile is in the catalog before it is among them.
        let jobs = self.all();
        let catalog = catalog();
        for job in jobs {
            if !catalog.jobs.contains_key(&job.spec.id) && !job.phase.borrow().is_over() {
                job.cancel();
            }
        }
    }
}

impl Engine {
    /// Begins a job on a task of its own: a caller who drops its future must not leave a job that
    /// is stored but has no task.
    pub(super) async fn begin_job(&self, request: JobRequest) -> Result<JobInfo, Error> {
        // While the split point is searched for, nothing is stored, and a caller may go.
        let at = self.split_point(&request).await?;
        let (reply, answer) = oneshot::channel();
        let engine = self.clone();
        let begin = async move {
            let begun = engine.prepare_job(request, at).await;
            let _ = reply.send(begun.map(|spec| engine.launch(spec, Duration::ZERO)));
        };
        self.inner.components.spawner.spawn("begin-job", Box::pin(begin));
        answer.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Stores a job in the catalog and has the committer mirror the writes to its ranges.
    async fn prepare_job(
        &self,
        request: JobRequest,
        at: Option<Epk>,
    ) -> Result<Arc<JobSpec>, Error> {
        let JobRequest { container, sources, progression, reason, split_at: _ } = request;
        let mut change = self.begin_change().await;
        let missing =
            || Error::NotFound { kind: ResourceKind::Container, id: container.to_string() };
        let owner = change.catalog.container_by_rid(container).cloned().ok_or_else(missing)?;
        let routing = owner.routing();
        check_not_busy(&change, container, &sources)?;
        let ranges = match &at {
            Some(_) if routing.ranges().len() >= CONTAINER_RANGES_MAX as usize => {
                return Err(Error::NotPartitionable(format!(
                    "a container has at most {CONTAINER_RANGES_MAX} ranges"
                )));
            }
            Some(at) => {
                let range = routing.by_id(sources[0]).ok_or(Error::RangeGone)?;
                if !(range.epk.min < *at && *at < range.epk.max) {
                    return Err(Error::RangeGone);
                }
                let (left, right) = (range.epk.clone(), range.epk.clone());
                vec![
                    model::EpkRange { max: at.clone(), ..left },
                    model::EpkRange { min: at.clone(), ..right },
                ]
            }
            None => vec![self.merged_range(&owner, &routing, &sources)?],
        };
        let children = change.name_children(&owner, ranges);
        let spec = Arc::new(JobSpec {
            id: change.next_job(),
            container,
            kind: if at.is_some() { JobKind::Split } else { JobKind::Merge },
            sources,
            children,
            progression,
            reason,
            started: change.ts,
            is_paused: false,
        });
        for source in &spec.sources {
            let source = routing.by_id(*source).ok_or(Error::RangeGone)?.partition.id;
            change.begin.push(NewMirror { source, mirror: spec.mirror(&owner, None) });
        }
        change.put_job(Arc::clone(&spec));
        self.finish_change(change).await?;
        Ok(spec)
    }

    /// Starts a stored job, or resumes one that ran before.
    fn launch(&self, spec: Arc<JobSpec>, earlier: Duration) -> JobInfo {
        let status = match spec.kind {
            JobKind::Split => PartitionStatus::Splitting,
            JobKind::Merge => PartitionStatus::Merging,
        };
        self.set_status(&spec, status);
        let job = Arc::new(Job::new(spec, earlier, self.inner.components.clock.monotonic()));
        self.inner.jobs.add(Arc::clone(&job));
        let info = job.info();
        let task = Box::pin(run(Arc::downgrade(&self.inner), job));
        self.inner.components.spawner.spawn("repartition", task);
        info
    }

    /// Resumes the jobs that the catalog lists.
    pub(crate) fn resume_jobs(&self) {
        let specs: Vec<_> = self.catalog().jobs.values().cloned().collect();
        let now = self.inner.components.clock.now().seconds();
        for spec in specs {
            let earlier = Duration::from_secs(now.saturating_sub(spec.started));
            self.launch(spec, earlier);
        }
    }

    fn set_status(&self, spec: &JobSpec, status: PartitionStatus) {
        let catalog = self.catalog();
        let Some(container) = catalog.container_by_rid(spec.container) else { return };
        let routing = container.routing();
        for range in spec.sources.iter().filter_map(|id| routing.by_id(*id)) {
            range.partition.set_status(status);
        }
    }

    /// Restores the state before the job, and returns the phase it ended with.
    async fn undo(&self, spec: &JobSpec, phase: JobPhase) -> JobPhase {
        let forgotten = self.forget_job(spec).await;
        // Also if it could not be stored: reads continue then.
        self.set_status(spec, PartitionStatus::Online);
        match forgotten {
            Ok(()) => phase,
            Err(error) => JobPhase::Failed(error.to_string()),
        }
    }

    /// Stores whether a job is paused and has it act on that, both under the catalog lock, so that
    /// the job does what was stored last.
    pub(super) async fn set_paused(&self, job: &Job, is_paused: bool) -> Result<(), Error> {
        let mut change = self.begin_change().await;
        job.pause(is_paused);
        let Some(spec) = change.catalog.jobs.get(&job.spec.id) else { return Ok(()) };
        if spec.is_paused == is_paused {
            return Ok(());
        }
        let spec = JobSpec { is_paused, ..JobSpec::clone(spec) };
        change.put_job(Arc::new(spec));
        self.finish_change(change).await
    }

    /// Removes a job from the catalog, if it is still there, and drops what it copied.
    async fn forget_job(&self, spec: &JobSpec) -> Result<(), Error> {
        let mut change = self.begin_change().await;
        if change.catalog.jobs.contains_key(&spec.id) {
            change.drop_job(spec);
            self.finish_change(change).await?;
        }
        Ok(())
    }

    /// How much is to be copied of `sources`, and how much of it was copied before.
    async fn volume_of(&self, job: &Job, sources: &[Arc<Partition>]) -> Result<Volume, Error> {
        let catalog = self.catalog();
        let indexes = catalog.container_by_rid(job.spec.container).map(|c| Arc::clone(&c.indexes));
        let of_source = |source: &Arc<Partition>| {
            let counted =
                SourceCounters { items: source.items(), bytes: source.bytes(), lsn: source.lsn() };
            (source.id, counted)
        };
        let sources: Vec<_> = sources.iter().map(of_source).collect();
        let store = Arc::clone(&self.inner.store);
        let measure = move || {
            let view = store.view();
            let mut sum = Volume::default();
            for (id, counted) in sources {
                let copied = progress_of(view.as_ref(), id)?;
                let indexes = indexes.as_deref();
                let Volume { total, done } =
                    volume_of(view.as_ref(), id, counted, indexes, &copied)?;
                sum = Volume { total: sum.total + total, done: sum.done + done };
            }
            Ok(sum)
        };
        self.run_blocking(measure).await
    }

    /// The commit after which the new partitions serve.
    async fn cut_over(&self, job: &Job) -> Result<(), Stop> {
        let spec = &job.spec;
        let mut change = self.begin_change().await;
        let owner = change.catalog.container_by_rid(spec.container).cloned();
        let (Some(owner), true) = (owner, change.catalog.jobs.contains_key(&spec.id)) else {
            return Err(Stop::Cancelled);
        };
        let before = owner.routing();
        let targets: Vec<_> = spec.children.iter().map(new_partition).collect();
        let routing = routing_after(&before, spec, &targets)?;
        let sources: Vec<_> = spec
            .sources
            .iter()
            .filter_map(|id| before.by_id(*id))
            .map(|range| Arc::clone(&range.partition))
            .collect();
        change.retire.extend(sources.iter().map(|p| p.id));
        change.end_job(spec);
        change.put_container_routed(Arc::clone(&owner), &routing);
        change.cut_over = Some(CutOver {
            sources,
            targets,
            container: owner,
            routing: Arc::new(routing),
            held_micros: Arc::clone(&job.held_micros),
        });
        Ok(self.finish_change(change).await?)
    }
}

impl JobSpec {
    /// What the committer does for one of its sources. `copied` is where a restart continues.
    pub(crate) fn mirror(
        &self,
        container: &Container,
        copied: Option<crate::commit::CopyProgress>,
    ) -> Mirror {
        let targets: Vec<_> = self
            .children
            .iter()
            .map(|c| MirrorTarget { partition: c.partition, epk: c.epk.clone() })
            .collect();
        let form = EpkForm::of(&container.spec.partition_key);
        Mirror::new(self.id, form, &targets, copied.unwrap_or(crate::commit::CopyProgress::NONE))
    }
}

fn new_partition(child: &Child) -> Arc<Partition> {
    Arc::new(Partition::new(child.partition, &PartitionState::default()))
}

fn check_not_busy(
    change: &Change,
    container: ContainerRid,
    sources: &[RangeId],
) -> Result<(), Error> {
    let mut others = change.catalog.jobs.values().filter(|job| job.container == container);
    if others.clone().count() >= PER_CONTAINER_MAX {
        return Err(Busy::Jobs.into());
    }
    if others.any(|job| job.sources.iter().any(|id| sources.contains(id))) {
        return Err(Busy::Range.into());
    }
    Ok(())
}

/// The routing map after the children have replaced their sources.
fn routing_after(
    before: &RoutingMap,
    spec: &JobSpec,
    targets: &[Arc<Partition>],
) -> Result<RoutingMap, Error> {
    if spec.sources.iter().any(|id| before.by_id(*id).is_none()) {
        return Err(Error::RangeGone);
    }
    let parents = ancestors(before, &spec.sources);
    let children = spec.children.iter().zip(targets).map(|(child, partition)| PartitionRange {
        id: child.range,
        epk: child.epk.clone(),
        parents: parents.clone(),
        partition: Arc::clone(partition),
    });
    let others = before.ranges().iter().filter(|range| !spec.sources.contains(&range.id)).cloned();
    let mut ranges: Vec<_> = others.chain(children).collect();
    ranges.sort_by(|a, b| a.epk.min.cmp(&b.epk.min));
    Ok(RoutingMap::new(before.version() + 1, ranges))
}

async fn run(engine: Weak<Inner>, job: Arc<Job>) {
    let outcome = loop {
        let before = reopenings(&engine);
        let outcome = drive(&engine, &job).await;
        // The stored progress is where a restart of the loop continues.
        let goes_on = match &outcome {
            Err(Stop::Failed(Error::DiskAlmostFull { .. })) => rest(&engine).await,
            Err(Stop::Failed(_)) => has_reopened(&engine, before).await,
            Err(Stop::Cancelled) | Ok(()) => false,
        };
        if !goes_on {
            break outcome;
        }
    };
    let Ok(engine) = upgrade(&engine) else { return };
    let phase = match outcome {
        Ok(()) => JobPhase::Succeeded,
        Err(Stop::Cancelled) => engine.undo(&job.spec, JobPhase::Cancelled).await,
        Err(Stop::Failed(error)) => {
            tracing::warn!(job = job.spec.id.0, %error, "a split or merge is given up");
            engine.undo(&job.spec, JobPhase::Failed(error.to_string())).await
        }
    };
    let took = job.earlier + (engine.inner.components.clock.monotonic() - job.began);
    let held = Duration::from_micros(job.held_micros.load(Ordering::Relaxed));
    tracing::info!(job = job.spec.id.0, kind = ?job.spec.kind, ?phase, ?took, ?held, "job ended");
    let mut tallies = engine.inner.jobs.tallies.lock().unwrap_or_else(PoisonError::into_inner);
    tallies.count(job.spec.kind, &phase, took, held);
    drop(tallies);
    job.end(phase, took);
    engine.inner.monitor.notify_one();
}

/// How often the store was opened again, if the engine is still there.
fn reopenings(engine: &Weak<Inner>) -> Option<u64> {
    let engine = upgrade(engine).ok()?;
    let is_open = !engine.inner.commits.is_closed();
    is_open.then(|| engine.inner.reopened.load(Ordering::SeqCst))
}

/// Waits until a store that has failed is opened again. Returns whether it was opened more often
/// than `before`.
async fn has_reopened(engine: &Weak<Inner>, before: Option<u64>) -> bool {
    let has_failed =
        |engine: Engine| engine.inner.failure.load().is_some() && engine.inner.store.can_reopen();
    while upgrade(engine).is_ok_and(has_failed) && rest(engine).await {}
    reopenings(engine).is_some_and(|now| before.is_some_and(|before| now > before))
}

/// Waits a little, without keeping the engine from being dropped. Returns whether it is still open.
async fn rest(engine: &Weak<Inner>) -> bool {
    let Ok(clock) = upgrade(engine).map(|engine| Arc::clone(&engine.inner.components.clock)) else {
        return false;
    };
    clock.sleep(STORE_LOOK_EVERY).await;
    reopenings(engine).is_some()
}

async fn drive(engine: &Weak<Inner>, job: &Job) -> Result<(), Stop> {
    let sources = partitions_of(&upgrade(engine)?, &job.spec)?;
    let volume = upgrade(engine)?.volume_of(job, &sources).await?;
    *job.volume() = volume;
    for source in &sources {
        copy_partition(engine, job, source.id).await?;
    }
    *job.volume() = Volume { done: volume.total, ..volume };
    if job.spec.progression == Progression::Manual {
        job.wait_for_control(|control| control.step >= JobStep::Swap).await?;
        for source in &sources {
            source.set_status(PartitionStatus::Swapping);
        }
        job.phase.send_replace(JobPhase::Swapping);
        job.wait_for_control(|control| control.step >= JobStep::CutOver).await?;
    }
    job.may_go_on().await?;
    upgrade(engine)?.cut_over(job).await
}

fn partitions_of(engine: &Engine, spec: &JobSpec) -> Result<Vec<Arc<Partition>>, Stop> {
    let catalog = engine.catalog();
    let container = catalog.container_by_rid(spec.container).ok_or(Stop::Cancelled)?;
    let routing = container.routing();
    let find = |id: &RangeId| routing.by_id(*id).map(|range| Arc::clone(&range.partition));
    spec.sources.iter().map(|id| find(id).ok_or(Stop::Cancelled)).collect()
}
