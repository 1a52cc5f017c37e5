//! Databases, containers and their throughput: what exists, kept in memory as one immutable
//! snapshot and on disk under partition 0.

mod change;
mod opaque;
pub(crate) mod record;
mod rules;
mod scripts;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use model::order::TypeOrder;
use model::rid::OfferRid;
use model::{ContainerRid, DatabaseRid, PartitionKeyDefinition, PropertyPath, Value};
use tokio::sync::watch;

use crate::BodyFormat;
use crate::index::{IndexedPaths, Indexes, IndexingPolicy};
use crate::repartition::{JobId, JobSpec};
use crate::routing::RoutingMap;

pub(crate) use change::Change;
pub use change::{Deleted, OfferChange};
pub use opaque::{NewOpaque, OpaqueId, OpaqueKind, OpaqueOwner, OpaqueResource};
pub(crate) use rules::sharing;
pub use rules::{NewSubject, OfferBounds, OfferRefused, ThroughputKind, ThroughputLimits};
pub use scripts::{
    Script, ScriptKind, ScriptRid, ScriptSpec, TriggerOperation, TriggerSpec, TriggerTime,
};
pub(crate) use store::load;

/// How a resource is provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// A fixed number of request units per second.
    Manual(u32),
    /// Scales between a tenth of `max` and `max`.
    Autoscale {
        /// Most request units per second.
        max: u32,
        /// Growth of `max` in percent when storage grows; 0 for none.
        increment_percent: u32,
    },
}

/// The version tag of a catalog resource: opaque, quoted, in the shape clients are used to.
pub fn resource_etag(rid_number: u32, version: u64) -> String {
    format!("\"{rid_number:08x}-0000-0000-0000-{version:012x}\"")
}

impl Throughput {
    /// The most it can serve, which decides the number of partitions.
    pub fn peak(self) -> u32 {
        match self {
            Throughput::Manual(t) => t,
            Throughput::Autoscale { max, .. } => max,
        }
    }
}

/// What an offer provisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfferTarget {
    /// Throughput shared by a database's containers.
    Database(DatabaseRid),
    /// A container's own throughput.
    Container(ContainerRid),
}

/// Provisioned throughput of a database or container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its resource id.
    pub rid: OfferRid,
    /// What it provisions.
    pub target: OfferTarget,
    /// How much.
    pub throughput: Throughput,
    /// Whether it has an extra budget per minute, for when the second's is used up.
    pub has_minute_budget: bool,
    /// Whether a client requested throughput, when it created the target or later; otherwise it is
    /// the default.
    pub was_requested: bool,
    /// The highest peak it ever had.
    pub peak_ever: u32,
    /// Seconds since the Unix epoch of the last change.
    pub ts: u64,
    /// Grows with every change; the etag is made from it.
    pub version: u64,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Its resource id.
    pub rid: DatabaseRid,
    /// Its name.
    pub id: String,
    /// Seconds since the Unix epoch of the last change.
    pub ts: u64,
    /// Grows with every change; the etag is made from it.
    pub version: u64,
}

/// The API that made a container. Others can open it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// The NoSQL API.
    NoSql,
    /// The Table API.
    Table,
    /// The MongoDB API.
    Mongo,
    /// The Gremlin API.
    Gremlin,
}

/// What a client defines of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// Its name.
    pub id: String,
    /// Who made it.
    pub api: Api,
    /// The order of its values, for every API and language. Never changes.
    pub order: TypeOrder,
    /// The form of its items. Never changes.
    pub body: BodyFormat,
    /// Its partition key.
    pub partition_key: PartitionKeyDefinition,
    /// Paths whose values together are unique within a logical partition.
    pub unique_keys: Vec<Vec<PropertyPath>>,
    /// `None` = no expiry, -1 = only items with their own ttl, n = seconds.
    pub default_ttl: Option<i32>,
    /// For how many minutes every version and every delete is kept for the change feed; 0 keeps
    /// none.
    pub versions_minutes: u32,
    /// What is indexed.
    pub indexing: IndexingPolicy,
    /// Policies stored for the front end that wrote them (an object in its own documented shape).
    pub policies: Value,
}

/// Wakes the readers that wait for changes of a container. All versions of its description share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeSignal(Arc<watch::Sender<u64>>);

impl ChangeSignal {
    /// Tells those who wait, if there are any.
    pub(crate) fn tell(&self) {
        if self.0.receiver_count() > 0 {
            self.0.send_modify(|told| *told += 1);
        }
    }
}

/// The current state of a container.
#[derive(Debug)]
pub struct Container {
    /// Its resource id.
    pub rid: ContainerRid,
    /// Name of its database.
    pub database_id: String,
    /// What the client defined.
    pub spec: ContainerSpec,
    /// Seconds since the Unix epoch of the last change.
    pub ts: u64,
    /// Grows with every change; the etag is made from it.
    pub version: u64,
    /// The second since the Unix epoch from which on every version and every delete has been kept,
    /// unless it is past the retention time.
    pub(crate) versions_since: u64,
    /// What is indexed, and which of it is not complete yet.
    pub(crate) indexes: Arc<Indexes>,
    /// Whether it always has one partition although it has a key.
    pub(crate) is_pinned: bool,
    /// The next range number to assign.
    pub(crate) next_range: u32,
    /// Wakes the readers that wait for changes of items.
    pub(crate) changes: ChangeSignal,
    /// Shared by all versions of the container's description.
    pub(crate) routing: Arc<ArcSwap<RoutingMap>>,
}

impl Container {
    /// The same container, as a base for a new description.
    pub(crate) fn same(&self) -> Self {
        Self {
            rid: self.rid,
            database_id: self.database_id.clone(),
            spec: self.spec.clone(),
            ts: self.ts,
            version: self.version,
            versions_since: self.versions_since,
            indexes: Arc::clone(&self.indexes),
            is_pinned: self.is_pinned,
            next_range: self.next_range,
            routing: Arc::clone(&self.routing),
            changes: self.changes.clone(),
        }
    }

    /// Tells when items of the container have changed, in any range and also after splits and
    /// merges: its value is how often that has been told. What is told is durable. Changes in quick
    /// succession may be told once.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changes.0.subscribe()
    }

    /// Whether it always has one partition: a container without a key can't be split, one created
    /// with little throughput under the documents' limits must not be.
    pub fn is_fixed(&self) -> bool {
        self.is_pinned || self.spec.partition_key.is_system
    }

    /// The paths that its policy indexes.
    pub fn indexed_paths(&self) -> &IndexedPaths {
        self.indexes.goal.paths()
    }

    /// The live ranges.
    pub fn routing(&self) -> Arc<RoutingMap> {
        self.routing.load_full()
    }

    /// The number of its items and their bytes, in all of its ranges.
    pub fn stored(&self) -> (u64, u64) {
        let routing = self.routing.load();
        let of = |range: &crate::PartitionRange| (range.partition.items(), range.partition.bytes());
        let add = |(items, bytes), (i, b): (u64, u64)| (items + i, bytes + b);
        routing.ranges().iter().map(of).fold((0, 0), add)
    }
}

/// All resources at one moment. Names are compared exactly.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub(crate) databases: BTreeMap<DatabaseRid, Arc<Database>>,
    pub(crate) database_names: BTreeMap<String, DatabaseRid>,
    pub(crate) containers: BTreeMap<ContainerRid, Arc<Container>>,
    pub(crate) container_names: BTreeMap<(DatabaseRid, String), ContainerRid>,
    pub(crate) offers: BTreeMap<OfferRid, Arc<Offer>>,
    pub(crate) offer_targets: BTreeMap<OfferTarget, OfferRid>,
    /// Users, permissions and client encryption keys.
    pub(crate) opaque: opaque::OpaqueResources,
    pub(crate) scripts: BTreeMap<ContainerRid, Arc<scripts::ContainerScripts>>,
    /// Running splits and merges.
    pub(crate) jobs: BTreeMap<JobId, Arc<JobSpec>>,
}

impl Catalog {
    /// A database by name.
    pub fn database(&self, id: &str) -> Option<&Arc<Database>> {
        self.databases.get(self.database_names.get(id)?)
    }

    /// A database by resource id.
    pub fn database_by_rid(&self, rid: DatabaseRid) -> Option<&Arc<Database>> {
        self.databases.get(&rid)
    }

    /// All databases, oldest first.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.databases.values()
    }

    /// A container by name.
    pub fn container(&self, database: DatabaseRid, id: &str) -> Option<&Arc<Container>> {
        self.containers.get(self.container_names.get(&(database, id.to_owned()))?)
    }

    /// A container by resource id.
    pub fn container_by_rid(&self, rid: ContainerRid) -> Option<&Arc<Container>> {
        self.containers.get(&rid)
    }

    /// A database's containers, oldest first.
    pub fn containers(&self, database: DatabaseRid) -> impl Iterator<Item = &Arc<Container>> {
        let first = ContainerRid { database, number: 0 };
        let last = ContainerRid { database, number: u32::MAX };
        self.containers.range(first..=last).map(|(_, c)| c)
    }

    pub(crate) fn put_database(&mut self, database: Arc<Database>) {
        self.database_names.insert(database.id.clone(), database.rid);
        self.databases.insert(database.rid, database);
    }

    pub(crate) fn remove_database(&mut self, rid: DatabaseRid) {
        if let Some(database) = self.databases.remove(&rid) {
            self.database_names.remove(&database.id);
        }
    }

    pub(crate) fn put_container(&mut self, container: Arc<Container>) {
        let name = (container.rid.database, container.spec.id.clone());
        self.container_names.insert(name, container.rid);
        self.containers.insert(container.rid, container);
    }

    pub(crate) fn remove_container(&mut self, rid: ContainerRid) {
        if let Some(container) = self.containers.remove(&rid) {
            self.container_names.remove(&(rid.database, container.spec.id.clone()));
        }
    }

    /// All offers, oldest first.
    pub fn offers(&self) -> impl Iterator<Item = &Arc<Offer>> {
        self.offers.values()
    }

    /// An offer by resource id.
    pub fn offer(&self, rid: OfferRid) -> Option<&Arc<Offer>> {
        self.offers.get(&rid)
    }

    /// The offer of a database or container, if it has one of its own.
    pub fn offer_of(&self, target: OfferTarget) -> Option<&Arc<Offer>> {
        self.offers.get(self.offer_targets.get(&target)?)
    }

    pub(crate) fn put_offer(&mut self, offer: Arc<Offer>) {
        self.offer_targets.insert(offer.target, offer.rid);
        self.offers.insert(offer.rid, offer);
    }

    pub(crate) fn remove_offer(&mut self, rid: OfferRid) {
        if let Some(offer) = self.offers.remove(&rid) {
            self.offer_targets.remove(&offer.target);
        }
    }
}
