//! Creating, changing and deleting databases, containers and throughput.
//!
//! Changes happen one after the other under one lock: build the new snapshot and hand it to the
//! committer, which makes its records durable and publishes it. Readers never wait; they see the
//! old snapshot until the new one is on disk.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use model::limits::RESOURCES_MAX;
use model::rid::{self, OfferRid};
use model::{ContainerRid, DatabaseRid, EpkRange, Lsn, PartitionId, epk, limits};
use storage::Op;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::record::{self, MetaRecord};
use super::{
    Catalog, ChangeSignal, Container, ContainerSpec, Database, NewSubject, Offer, OfferTarget,
    Throughput, resource_etag,
};
use crate::commit::{
    CatalogCommit, Command, CutOver, NUMBERS_LEASED, NewMirror, NewPartition, PartitionState,
};
use crate::index::Indexes;
use crate::keys::catalog as k;
use crate::ops::EtagCondition;
use crate::partition::Partition;
use crate::repartition::{Child, JobId, JobReason, JobSpec};
use crate::routing::{PartitionRange, RangeId, RoutingMap};
use crate::submit::COMMITS_QUEUED_MAX;
use crate::{Busy, Engine, Error, InvalidRequest, RequestContext, ResourceKind};

/// Databases and containers that one commit deletes, unless one database has more containers: the
/// commit is built in memory, and the other changes of the catalog wait for it.
const DELETED_PER_COMMIT: usize = 1_000;

/// How many resources were deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Databases.
    pub databases: usize,
    /// Containers in them.
    pub containers: usize,
}

/// The new state of an offer.
#[derive(Clone, Debug)]
pub struct OfferChange {
    /// How much is provisioned.
    pub throughput: Throughput,
    /// Whether there is an extra budget per minute; `None` keeps the current setting.
    pub has_minute_budget: Option<bool>,
    /// The version the change is made from.
    pub if_match: Option<EtagCondition>,
}

impl From<Throughput> for OfferChange {
    fn from(throughput: Throughput) -> Self {
        Self { throughput, has_minute_budget: None, if_match: None }
    }
}

/// A change under construction.
pub(crate) struct Change {
    pub(super) meta: OwnedMutexGuard<MetaRecord>,
    pub(crate) catalog: Catalog,
    pub(crate) ts: u64,
    ops: Vec<Op>,
    containers: Vec<Arc<Container>>,
    create: Vec<NewPartition>,
    pub(crate) retire: Vec<PartitionId>,
    pub(crate) begin: Vec<NewMirror>,
    cancel: Vec<PartitionId>,
    pub(crate) cut_over: Option<CutOver>,
    /// The offer targets whose shares of throughput change.
    provisioned: Vec<OfferTarget>,
}

impl Engine {
    /// Creates a database, with shared throughput when given.
    pub async fn create_database(
        &self,
        ctx: &RequestContext,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>, Error> {
        check_resource_id(id)?;
        throughput.map(|t| self.check_new(NewSubject::Database, t)).transpose()?;
        let mut change = self.begin_change_for(ctx).await?;
        change.check_room()?;
        if change.catalog.database(id).is_some() {
            return Err(exists(ResourceKind::Database, id));
        }
        let rid = DatabaseRid(change.meta.next_database);
        change.meta.next_database = change.meta.next_database.wrapping_add(1);
        let database = Arc::new(Database { rid, id: id.to_owned(), ts: change.ts, version: 1 });
        change.put(k::database(rid), record::encode_database(&database));
        change.catalog.put_database(Arc::clone(&database));
        if let Some(throughput) = throughput {
            change.add_offer(OfferTarget::Database(rid), throughput, true);
        }
        self.finish_change_for(ctx, change, "create_database", &database.id).await?;
        Ok(database)
    }

    /// Deletes a database and everything in it.
    pub async fn delete_database(
        &self,
        ctx: &RequestContext,
        rid: DatabaseRid,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let Some(database) = change.catalog.database_by_rid(rid).cloned() else {
            return Err(missing(ResourceKind::Database, rid));
        };
        check_etag(if_match.as_ref(), &resource_etag(rid.0, database.version))?;
        change.drop_database(rid);
        self.finish_change_for(ctx, change, "delete_database", &database.id).await?;
        self.inner.monitor.notify_one();
        Ok(())
    }

    /// Deletes every database that exists now, each with everything in it. One commit deletes many.
    /// A failure, or a stop of the server, leaves the remaining databases whole, to be deleted by
    /// the next call; databases that are created meanwhile stay.
    pub async fn delete_all_databases(&self, ctx: &RequestContext) -> Result<Deleted, Error> {
        let mut left: VecDeque<DatabaseRid> = self.catalog().databases.keys().copied().collect();
        let mut deleted = Deleted::default();
        while !left.is_empty() {
            let mut change = self.begin_change_for(ctx).await?;
            let mut of_commit = Deleted::default();
            while of_commit.databases + of_commit.containers < DELETED_PER_COMMIT
                && let Some(rid) = left.pop_front()
            {
                if change.catalog.database_by_rid(rid).is_some() {
                    of_commit.containers += change.drop_database(rid);
                    of_commit.databases += 1;
                }
            }
            self.finish_change_for(ctx, change, "delete_all_databases", &"all").await?;
            deleted.databases += of_commit.databases;
            deleted.containers += of_commit.containers;
        }
        self.inner.monitor.notify_one();
        Ok(deleted)
    }

    /// Creates a container. Without throughput of its own, and if the database shares none, it
    /// gets the default offer.
    pub async fn create_container(
        &self,
        ctx: &RequestContext,
        database: DatabaseRid,
        spec: ContainerSpec,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Container>, Error> {
        check_resource_id(&spec.id)?;
        let mut change = self.begin_change_for(ctx).await?;
        let Some(owner) = change.catalog.database_by_rid(database).cloned() else {
            return Err(Error::OwnerNotFound {
                kind: ResourceKind::Database,
                id: database.to_string(),
            });
        };
        change.check_room()?;
        if change.catalog.container(database, &spec.id).is_some() {
            return Err(exists(ResourceKind::Container, &spec.id));
        }
        let new = match spec.partition_key.is_system {
            true => NewSubject::Keyless,
            false => NewSubject::Keyed,
        };
        let is_shared = change.catalog.offer_of(OfferTarget::Database(database)).is_some();
        let own = throughput.or((!is_shared).then_some(Throughput::Manual(limits::THROUGHPUT_MIN)));
        match own {
            Some(own) => self.check_new(new, own)?,
            None => self.check_sharing(&change.catalog, database, new)?,
        }
        let is_pinned = new == NewSubject::Keyed && self.is_pinned_when_new(own);
        let rid = ContainerRid { database, number: change.meta.next_container & 0x7FFF_FFFF };
        change.meta.next_container = change.meta.next_container.wrapping_add(1);
        let count = if is_pinned { 1 } else { self.range_count(&spec, throughput) };
        let ranges = change.new_ranges(rid, &spec, count);
        let indexes = Arc::new(Indexes::new(1, &spec, &[]));
        let container = Arc::new(Container {
            rid,
            database_id: owner.id.clone(),
            spec,
            ts: change.ts,
            version: 1,
            versions_since: change.ts,
            indexes,
            is_pinned,
            next_range: u32::try_from(ranges.len()).unwrap_or(u32::MAX),
            changes: ChangeSignal::default(),
            routing: Arc::new(ArcSwap::from_pointee(RoutingMap::new(1, ranges))),
        });
        change.put_container(Arc::clone(&container));
        if let Some(own) = own {
            change.add_offer(OfferTarget::Container(rid), own, throughput.is_some());
        }
        self.finish_change_for(ctx, change, "create_container", &container.spec.id).await?;
        Ok(container)
    }

    /// Replaces what may change of a container: ttl and policies. Partition key, id and unique keys
    /// stay as they are; the front end refuses a request to change them.
    pub async fn replace_container(
        &self,
        ctx: &RequestContext,
        rid: ContainerRid,
        spec: ContainerSpec,
        if_match: Option<EtagCondition>,
    ) -> Result<Arc<Container>, Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let Some(old) = change.catalog.container_by_rid(rid).cloned() else {
            return Err(missing(ResourceKind::Container, rid));
        };
        check_etag(if_match.as_ref(), &resource_etag(rid.number, old.version))?;
        let versions_since = versions_since(&old, spec.versions_minutes, change.ts);
        let spec = ContainerSpec {
            default_ttl: spec.default_ttl,
            versions_minutes: spec.versions_minutes,
            indexing: spec.indexing.with_cells_of(&old.spec.indexing),
            policies: spec.policies,
            ..old.spec.clone()
        };
        let indexes = match spec.indexing == old.spec.indexing {
            true => Arc::clone(&old.indexes),
            false => Arc::new(old.indexes.succeeded_by(&spec)),
        };
        let (ts, version) = (change.ts.max(old.ts), old.version + 1);
        let container =
            Arc::new(Container { spec, ts, version, versions_since, indexes, ..old.same() });
        change.put_container(Arc::clone(&container));
        self.finish_change_for(ctx, change, "replace_container", &container.spec.id).await?;
        self.rebuild_indexes();
        Ok(container)
    }

    /// Deletes a container and its items.
    pub async fn delete_container(
        &self,
        ctx: &RequestContext,
        rid: ContainerRid,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let Some(container) = change.catalog.container_by_rid(rid).cloned() else {
            return Err(missing(ResourceKind::Container, rid));
        };
        check_etag(if_match.as_ref(), &resource_etag(rid.number, container.version))?;
        change.drop_container(&container);
        self.finish_change_for(ctx, change, "delete_container", &container.spec.id).await?;
        self.inner.monitor.notify_one();
        Ok(())
    }

    /// Changes provisioned throughput.
    pub async fn replace_offer(
        &self,
        ctx: &RequestContext,
        rid: OfferRid,
        wanted: impl Into<OfferChange>,
    ) -> Result<Arc<Offer>, Error> {
        let OfferChange { throughput, has_minute_budget, if_match } = wanted.into();
        let mut change = self.begin_change_for(ctx).await?;
        let Some(old) = change.catalog.offer(rid).cloned() else {
            return Err(missing(ResourceKind::Offer, rid));
        };
        if self.is_scaling(&old) && change.is_split_for_throughput(old.target) {
            return Err(Busy::Scaling.into());
        }
        check_etag(if_match.as_ref(), &resource_etag(rid.0, old.version))?;
        let bounds = self.bounds_in(&change.catalog, &old, throughput.kind());
        bounds.check(i64::from(throughput.peak()))?;
        let offer = Arc::new(Offer {
            throughput,
            has_minute_budget: has_minute_budget.unwrap_or(old.has_minute_budget),
            was_requested: true,
            peak_ever: old.peak_ever.max(throughput.peak()),
            ts: change.ts.max(old.ts),
            version: old.version + 1,
            ..*old
        });
        change.put_offer(Arc::clone(&offer));
        self.finish_change_for(ctx, change, "replace_offer", &rid).await?;
        self.inner.monitor.notify_one();
        Ok(offer)
    }

    fn range_count(&self, spec: &ContainerSpec, throughput: Option<Throughput>) -> u32 {
        let settings = &self.inner.settings;
        let wanted = match throughput {
            // A container without a key has one logical partition, which can't be split.
            _ if spec.partition_key.is_system => 1,
            Some(t) => t.peak().div_ceil(settings.partition_ru_planned.max(1)),
            None => settings.default_ranges,
        };
        wanted.clamp(1, limits::CONTAINER_RANGES_MAX)
    }

    /// Begins the change that a request wants.
    pub(crate) async fn begin_change_for(&self, ctx: &RequestContext) -> Result<Change, Error> {
        let change = self.before_deadline(ctx, self.begin_change()).await?;
        self.check_deadline(ctx)?;
        Ok(change)
    }

    /// Makes the change that a request wants durable, and logs on whose behalf that was.
    pub(crate) async fn finish_change_for(
        &self,
        ctx: &RequestContext,
        change: Change,
        operation: &'static str,
        subject: &(dyn Display + Sync),
    ) -> Result<(), Error> {
        self.finish_change(change).await?;
        self.log_change(ctx, operation, subject);
        Ok(())
    }

    pub(crate) async fn begin_change(&self) -> Change {
        let meta = Arc::clone(&self.inner.catalog_lock).lock_owned().await;
        Change {
            meta,
            catalog: Catalog::clone(&self.inner.catalog.load()),
            ts: self.inner.components.clock.now().seconds(),
            ops: Vec::new(),
            containers: Vec::new(),
            create: Vec::new(),
            retire: Vec::new(),
            begin: Vec::new(),
            cancel: Vec::new(),
            cut_over: None,
            provisioned: Vec::new(),
        }
    }

    pub(crate) async fn finish_change(&self, mut change: Change) -> Result<(), Error> {
        let meta = record::to_bytes(&*change.meta);
        change.put(Bytes::from_static(k::META), meta);
        for p in &change.retire {
            let op = Op::Put { p: PartitionId::CATALOG, k: k::retiring(*p), v: Bytes::new() };
            change.ops.push(op);
        }
        let Change { meta, catalog, ops, containers, create, retire, provisioned, .. } = change;
        let (begin, cancel, cut_over) = (change.begin, change.cancel, change.cut_over);
        let (reply, answer) = oneshot::channel();
        let command = Command::Catalog(Box::new(CatalogCommit {
            ops,
            catalog: Arc::new(catalog),
            containers,
            create,
            retire,
            begin,
            cancel,
            cut_over,
            provisioned,
            catalog_lock: meta,
            reply,
        }));
        self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        answer.await.map_err(|_| self.stopped())?
    }
}

impl Change {
    /// The catalog lives in memory, so it has a limit.
    fn check_room(&self) -> Result<(), Error> {
        if self.catalog.databases.len() + self.catalog.containers.len() >= RESOURCES_MAX {
            return Err(InvalidRequest::CatalogFull { count_max: RESOURCES_MAX }.into());
        }
        Ok(())
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) {
        self.ops.push(Op::Put { p: PartitionId::CATALOG, k: key, v: value });
    }

    pub(super) fn delete(&mut self, key: Bytes) {
        self.ops.push(Op::Del { p: PartitionId::CATALOG, k: key });
    }

    /// Ranges of a new container. Each receives its first item numbers, so that those of lower
    /// ranges are lower whichever is written first: clients order rows of equal rank by them.
    fn new_ranges(
        &mut self,
        rid: ContainerRid,
        spec: &ContainerSpec,
        count: u32,
    ) -> Vec<PartitionRange> {
        let first_number = |range: u32| 1 + u64::from(range) * NUMBERS_LEASED;
        self.put(k::numbers(rid), Bytes::copy_from_slice(&first_number(count).to_be_bytes()));
        let mut ranges = Vec::with_capacity(count as usize);
        for (id, epk) in (0u32..).zip(epk::equal_ranges(&spec.partition_key, count)) {
            let partition = PartitionId(self.meta.next_partition);
            self.meta.next_partition += 1;
            let state = PartitionState {
                lsn: Lsn(self.meta.lsn_floor),
                number_next: first_number(id),
                number_end: first_number(id + 1),
                ..PartitionState::default()
            };
            self.create.push(NewPartition { id: partition, state });
            ranges.push(PartitionRange {
                id: RangeId(id),
                epk,
                parents: Vec::new(),
                partition: Arc::new(Partition::new(partition, &state)),
            });
        }
        ranges
    }

    pub(crate) fn put_container(&mut self, container: Arc<Container>) {
        let routing = container.routing();
        self.put_container_routed(container, &routing);
    }

    /// Stores a container whose ranges will be those of `routing`.
    pub(crate) fn put_container_routed(&mut self, container: Arc<Container>, routing: &RoutingMap) {
        let encoded = record::encode_container(&container, routing);
        self.put(k::container(container.rid), encoded);
        self.containers.push(Arc::clone(&container));
        self.provisioned.push(OfferTarget::Container(container.rid));
        self.catalog.put_container(container);
    }

    fn is_split_for_throughput(&self, target: OfferTarget) -> bool {
        self.catalog.jobs.values().any(|job| {
            job.reason == JobReason::Throughput && target == OfferTarget::Container(job.container)
        })
    }

    pub(super) fn next_script(&mut self) -> u32 {
        let number = self.meta.next_script;
        self.meta.next_script = number.wrapping_add(1);
        number
    }

    pub(crate) fn next_job(&mut self) -> JobId {
        let id = JobId(self.meta.next_job);
        self.meta.next_job = self.meta.next_job.wrapping_add(1);
        id
    }

    /// Assigns numbers to the new ranges of a container and to their partitions.
    pub(crate) fn name_children(
        &mut self,
        container: &Container,
        ranges: Vec<EpkRange>,
    ) -> Vec<Child> {
        let mut named = container.same();
        let mut children = Vec::with_capacity(ranges.len());
        for epk in ranges {
            let partition = PartitionId(self.meta.next_partition);
            self.meta.next_partition += 1;
            children.push(Child { range: RangeId(named.next_range), partition, epk });
            named.next_range += 1;
        }
        self.put_container(Arc::new(named));
        children
    }

    pub(crate) fn put_job(&mut self, job: Arc<JobSpec>) {
        self.put(k::job(job.id), record::encode_job(&job));
        self.catalog.jobs.insert(job.id, job);
    }

    /// Removes a job that has ended.
    pub(crate) fn end_job(&mut self, job: &JobSpec) {
        self.delete(k::job(job.id));
        self.catalog.jobs.remove(&job.id);
    }

    /// Removes a job that has not ended, and what it copied.
    pub(crate) fn drop_job(&mut self, job: &JobSpec) {
        self.end_job(job);
        self.retire.extend(job.children.iter().map(|child| child.partition));
        if let Some(container) = self.catalog.container_by_rid(job.container) {
            let routing = container.routing();
            let sources = job.sources.iter().filter_map(|id| routing.by_id(*id));
            self.cancel.extend(sources.map(|range| range.partition.id));
        }
    }

    /// Drops a database with everything in it; returns how many containers it had.
    fn drop_database(&mut self, rid: DatabaseRid) -> usize {
        let containers: Vec<_> = self.catalog.containers(rid).cloned().collect();
        for container in &containers {
            self.drop_container(container);
        }
        self.drop_opaque_of_database(rid);
        self.drop_offer(OfferTarget::Database(rid));
        self.delete(k::database(rid));
        self.catalog.remove_database(rid);
        containers.len()
    }

    fn drop_container(&mut self, container: &Container) {
        let jobs: Vec<_> = self.catalog.jobs.values().cloned().collect();
        for job in jobs.iter().filter(|job| job.container == container.rid) {
            self.drop_job(job);
        }
        for range in container.routing().ranges() {
            self.retire.push(range.partition.id);
            // Commits that wait in the queue right now still advance the position.
            let reached = range.partition.lsn().0 + COMMITS_QUEUED_MAX as u64;
            self.meta.lsn_floor = self.meta.lsn_floor.max(reached);
        }
        self.drop_offer(OfferTarget::Container(container.rid));
        self.delete(k::container(container.rid));
        self.delete(k::numbers(container.rid));
        self.drop_scripts(container.rid);
        self.catalog.remove_container(container.rid);
    }

    fn add_offer(&mut self, target: OfferTarget, throughput: Throughput, was_requested: bool) {
        let rid = OfferRid(self.meta.next_offer & 0x00FF_FFFF);
        self.meta.next_offer = self.meta.next_offer.wrapping_add(1);
        let peak_ever = throughput.peak();
        self.put_offer(Arc::new(Offer {
            rid,
            target,
            throughput,
            has_minute_budget: false,
            was_requested,
            peak_ever,
            ts: self.ts,
            version: 1,
        }));
    }

    fn put_offer(&mut self, offer: Arc<Offer>) {
        self.put(k::offer(offer.rid.0), record::encode_offer(&offer));
        self.provisioned.push(offer.target);
        self.catalog.put_offer(offer);
    }

    fn drop_offer(&mut self, target: OfferTarget) {
        if let Some(rid) = self.catalog.offer_of(target).map(|o| o.rid) {
            self.delete(k::offer(rid.0));
            self.catalog.remove_offer(rid);
        }
        self.provisioned.push(target);
    }
}

/// The second since which all versions exist once a container keeps them for `minutes`, starting
/// `now`.
fn versions_since(old: &Container, minutes: u32, now: u64) -> u64 {
    match old.spec.versions_minutes {
        kept if kept == minutes => old.versions_since,
        // Within this second a change may have been written that is not kept.
        0 => now + 1,
        // Versions that the old description did not keep do not come back.
        kept => old.versions_since.max(now.saturating_sub(60 * u64::from(kept))),
    }
}

pub(super) fn check_resource_id(id: &str) -> Result<(), Error> {
    rid::validate_resource_id(id).map_err(|reason| InvalidRequest::id(id, reason, 255).into())
}

pub(super) fn check_etag(condition: Option<&EtagCondition>, etag: &str) -> Result<(), Error> {
    match condition {
        Some(EtagCondition::Is(wanted)) if wanted != etag.trim_matches('"') => {
            Err(Error::PreconditionFailed)
        }
        _ => Ok(()),
    }
}

pub(super) fn exists(kind: ResourceKind, id: &str) -> Error {
    Error::AlreadyExists { kind, id: id.to_owned() }
}

pub(super) fn missing(kind: ResourceKind, rid: impl ToString) -> Error {
    Error::NotFound { kind, id: rid.to_string() }
}
