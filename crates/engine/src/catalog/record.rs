//! The stored form of the catalog: one JSON record per resource under partition 0.

use std::sync::Arc;

use model::order::TypeOrder;
use model::rid::OfferRid;
use model::{
    ContainerRid, DatabaseRid, Epk, EpkRange, PartitionId, PartitionKeyDefinition,
    PartitionKeyKind, PartitionKeyVersion, PropertyPath, json,
};
use serde::{Deserialize, Serialize};

use super::{Api, Container, ContainerSpec, Database, Offer, OfferTarget, Throughput};
use crate::index::{Indexes, IndexingPolicy};
use crate::repartition::{Child, JobId, JobKind, JobReason, JobSpec, Progression};
use crate::routing::{RangeId, RoutingMap};
use crate::{BodyFormat, Error};

/// Version of the data directory's layout, raised when old binaries could not read it.
pub(crate) const FORMAT: u32 = 3;

/// The features that this build knows, of those that a directory may have beyond its format.
const FEATURES: [&str; 0] = [];

/// What every build reads before the rest of [`MetaRecord`].
#[derive(Deserialize)]
struct Layout {
    format: u32,
    #[serde(default)]
    features: Vec<String>,
}

/// Refuses a directory that this build can't read.
pub(crate) fn check_layout(meta: &[u8]) -> Result<(), Error> {
    let Layout { format, features } = from_bytes(meta)?;
    if format != FORMAT {
        return Err(Error::Storage(format!(
            "the data directory has format {format}, this version reads format {FORMAT}; use the \
             version that wrote it to export the data"
        )));
    }
    match features.iter().find(|feature| !FEATURES.contains(&feature.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(Error::Storage(format!(
            "the data directory has the feature {unknown:?}, which this version does not know; use \
             the version that wrote it, or a later one"
        ))),
    }
}

/// Numbers that the catalog assigns, and the secret behind continuation tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MetaRecord {
    pub(crate) format: u32,
    /// Kinds of keys that came after the format. A build that does not know one refuses the
    /// directory.
    pub(crate) features: Vec<String>,
    pub(crate) next_partition: u32,
    pub(crate) next_database: u32,
    pub(crate) next_container: u32,
    pub(crate) next_offer: u32,
    #[serde(default)]
    pub(crate) next_job: u32,
    #[serde(default = "first_small")]
    pub(crate) next_small: u32,
    #[serde(default = "first_script")]
    pub(crate) next_script: u32,
    /// New partitions start above this position. It lies above those of deleted containers, so
    /// that a client which still holds a session token of one is served by its successor.
    pub(crate) lsn_floor: u64,
    pub(crate) token_key: [u8; 32],
}

/// Whether throughput was requested, in records that do not say it.
fn requested() -> bool {
    true
}

/// The first number of a user, permission or client encryption key.
pub(crate) fn first_small() -> u32 {
    1
}

/// Numbers of scripts begin here.
pub(crate) fn first_script() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
struct DatabaseRecord {
    id: String,
    ts: u64,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct OfferRecord {
    database: Option<u32>,
    container: Option<(u32, u32)>,
    manual: Option<u32>,
    autoscale: Option<(u32, u32)>,
    #[serde(default)]
    has_minute_budget: bool,
    #[serde(default = "requested")]
    was_requested: bool,
    peak_ever: u32,
    ts: u64,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct ContainerRecord {
    id: String,
    database_id: String,
    key_paths: Vec<String>,
    key_kind: KeyKind,
    key_version: u8,
    key_is_system: bool,
    #[serde(default)]
    is_pinned: bool,
    unique_keys: Vec<Vec<String>>,
    default_ttl: Option<i32>,
    #[serde(default)]
    versions_minutes: u32,
    #[serde(default)]
    versions_since: u64,
    indexing: IndexingPolicy,
    index_version: u64,
    /// Policies whose index entries are not all brought up to date.
    former_indexing: Vec<IndexingPolicy>,
    #[serde(with = "ApiName")]
    api: Api,
    #[serde(with = "OrderName")]
    order: TypeOrder,
    #[serde(with = "BodyName")]
    body: BodyFormat,
    policies: String,
    ts: u64,
    version: u64,
    next_range: u32,
    routing_version: u64,
    ranges: Vec<RangeRecord>,
}

#[derive(Serialize, Deserialize)]
struct JobRecord {
    database: u32,
    container: u32,
    kind: JobKind,
    sources: Vec<u32>,
    children: Vec<RangeRecord>,
    progression: Progression,
    reason: JobReason,
    started: u64,
    #[serde(default)]
    is_paused: bool,
}

#[derive(Serialize, Deserialize)]
enum KeyKind {
    Hash,
    MultiHash,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Api", rename_all = "lowercase")]
enum ApiName {
    NoSql,
    Table,
    Mongo,
    Gremlin,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TypeOrder", rename_all = "lowercase")]
enum OrderName {
    NoSql,
    Bson,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "BodyFormat", rename_all = "lowercase")]
enum BodyName {
    Json,
    Bson,
}

/// A range of a container, and which partition serves it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RangeRecord {
    pub(crate) id: u32,
    pub(crate) partition: u32,
    pub(crate) min: String,
    pub(crate) max: String,
    pub(crate) parents: Vec<u32>,
}

impl RangeRecord {
    pub(crate) fn partition(&self) -> PartitionId {
        PartitionId(self.partition)
    }

    pub(crate) fn epk(&self) -> Result<EpkRange, Error> {
        let bound = |text: &str| Epk::from_hex(text).map_err(|e| damaged(e.to_string()));
        Ok(EpkRange { min: bound(&self.min)?, max: bound(&self.max)? })
    }
}

/// A container as read from its record, before its partitions are attached.
pub(crate) struct ReadContainer {
    pub(crate) database_id: String,
    pub(crate) spec: ContainerSpec,
    pub(crate) ts: u64,
    pub(crate) version: u64,
    pub(crate) versions_since: u64,
    pub(crate) indexes: Arc<Indexes>,
    pub(crate) is_pinned: bool,
    pub(crate) next_range: u32,
    pub(crate) routing_version: u64,
    pub(crate) ranges: Vec<RangeRecord>,
}

pub(crate) fn damaged(detail: String) -> Error {
    Error::Storage(format!("the catalog can't be read: {detail}"))
}

pub(crate) fn to_bytes(record: &impl Serialize) -> bytes::Bytes {
    serde_json::to_vec(record).expect("catalog records hold only plain data").into()
}

pub(crate) fn from_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))
}

pub(crate) fn encode_database(database: &Database) -> bytes::Bytes {
    let Database { rid: _, id, ts, version } = database;
    to_bytes(&DatabaseRecord { id: id.clone(), ts: *ts, version: *version })
}

pub(crate) fn decode_database(rid: DatabaseRid, bytes: &[u8]) -> Result<Database, Error> {
    let DatabaseRecord { id, ts, version } = from_bytes(bytes)?;
    Ok(Database { rid, id, ts, version })
}

pub(crate) fn encode_offer(offer: &Offer) -> bytes::Bytes {
    let (database, container) = match offer.target {
        OfferTarget::Database(rid) => (Some(rid.0), None),
        OfferTarget::Container(rid) => (None, Some((rid.database.0, rid.number))),
    };
    let (manual, autoscale) = match offer.throughput {
        Throughput::Manual(t) => (Some(t), None),
        Throughput::Autoscale { max, increment_percent } => (None, Some((max, increment_percent))),
    };
    let Offer { has_minute_budget, was_requested, peak_ever, ts, version, .. } = *offer;
    to_bytes(&OfferRecord {
        database,
        container,
        manual,
        autoscale,
        has_minute_budget,
        was_requested,
        peak_ever,
        ts,
        version,
    })
}

pub(crate) fn decode_offer(rid: OfferRid, bytes: &[u8]) -> Result<Offer, Error> {
    let record: OfferRecord = from_bytes(bytes)?;
    let target = match (record.database, record.container) {
        (Some(db), None) => OfferTarget::Database(DatabaseRid(db)),
        (None, Some((db, number))) => {
            OfferTarget::Container(ContainerRid { database: DatabaseRid(db), number })
        }
        _ => return Err(damaged("an offer has no target".into())),
    };
    let throughput = match (record.manual, record.autoscale) {
        (Some(t), None) => Throughput::Manual(t),
        (None, Some((max, increment_percent))) => Throughput::Autoscale { max, increment_percent },
        _ => return Err(damaged("an offer has no throughput".into())),
    };
    let OfferRecord { has_minute_budget, was_requested, peak_ever, ts, version, .. } = record;
    Ok(Offer { rid, target, throughput, has_minute_budget, was_requested, peak_ever, ts, version })
}

pub(crate) fn encode_job(job: &JobSpec) -> bytes::Bytes {
    to_bytes(&JobRecord {
        database: job.container.database.0,
        container: job.container.number,
        kind: job.kind,
        sources: job.sources.iter().map(|id| id.0).collect(),
        children: job
            .children
            .iter()
            .map(|c| RangeRecord {
                id: c.range.0,
                partition: c.partition.0,
                min: c.epk.min.to_hex(),
                max: c.epk.max.to_hex(),
                parents: Vec::new(),
            })
            .collect(),
        progression: job.progression,
        reason: job.reason,
        started: job.started,
        is_paused: job.is_paused,
    })
}

pub(crate) fn decode_job(id: JobId, bytes: &[u8]) -> Result<JobSpec, Error> {
    let record: JobRecord = from_bytes(bytes)?;
    let child = |c: &RangeRecord| {
        Ok(Child { range: RangeId(c.id), partition: c.partition(), epk: c.epk()? })
    };
    Ok(JobSpec {
        id,
        container: ContainerRid {
            database: DatabaseRid(record.database),
            number: record.container,
        },
        kind: record.kind,
        sources: range_ids(&record.sources),
        children: record.children.iter().map(child).collect::<Result<_, Error>>()?,
        progression: record.progression,
        reason: record.reason,
        started: record.started,
        is_paused: record.is_paused,
    })
}

pub(crate) fn encode_container(container: &Container, routing: &RoutingMap) -> bytes::Bytes {
    let spec = &container.spec;
    let key = &spec.partition_key;
    to_bytes(&ContainerRecord {
        id: spec.id.clone(),
        database_id: container.database_id.clone(),
        key_paths: texts(&key.paths),
        key_kind: match key.kind {
            PartitionKeyKind::Hash => KeyKind::Hash,
            PartitionKeyKind::MultiHash => KeyKind::MultiHash,
        },
        key_version: match key.version {
            PartitionKeyVersion::V1 => 1,
            PartitionKeyVersion::V2 => 2,
        },
        key_is_system: key.is_system,
        is_pinned: container.is_pinned,
        unique_keys: spec.unique_keys.iter().map(|paths| texts(paths)).collect(),
        default_ttl: spec.default_ttl,
        versions_minutes: spec.versions_minutes,
        versions_since: container.versions_since,
        indexing: spec.indexing.clone(),
        index_version: container.indexes.version,
        former_indexing: container.indexes.former_policies(),
        api: spec.api,
        order: spec.order,
        body: spec.body,
        policies: json::to_string(&spec.policies),
        ts: container.ts,
        version: container.version,
        next_range: container.next_range,
        routing_version: routing.version(),
        ranges: routing
            .ranges()
            .iter()
            .map(|r| RangeRecord {
                id: r.id.0,
                partition: r.partition.id.0,
                min: r.epk.min.to_hex(),
                max: r.epk.max.to_hex(),
                parents: r.parents.iter().map(|p| p.0).collect(),
            })
            .collect(),
    })
}

pub(crate) fn decode_container(bytes: &[u8]) -> Result<ReadContainer, Error> {
    let record: ContainerRecord = from_bytes(bytes)?;
    let paths = |texts: &[String]| -> Result<Vec<PropertyPath>, Error> {
        texts.iter().map(|t| PropertyPath::parse(t).map_err(|e| damaged(e.to_string()))).collect()
    };
    let policies = json::parse(record.policies.as_bytes(), model::limits::ITEM_DEPTH_MAX)
        .map_err(|e| damaged(e.to_string()))?
        .value;
    let spec = ContainerSpec {
        partition_key: PartitionKeyDefinition {
            paths: paths(&record.key_paths)?,
            kind: match record.key_kind {
                KeyKind::Hash => PartitionKeyKind::Hash,
                KeyKind::MultiHash => PartitionKeyKind::MultiHash,
            },
            version: match record.key_version {
                1 => PartitionKeyVersion::V1,
                2 => PartitionKeyVersion::V2,
                other => return Err(damaged(format!("partition key version {other}"))),
            },
            is_system: record.key_is_system,
        },
        unique_keys: record.unique_keys.iter().map(|p| paths(p)).collect::<Result<_, _>>()?,
        default_ttl: record.default_ttl,
        versions_minutes: record.versions_minutes,
        indexing: record.indexing,
        policies,
        id: record.id,
        api: record.api,
        order: record.order,
        body: record.body,
    };
    let indexes = Indexes::new(record.index_version, &spec, &record.former_indexing);
    Ok(ReadContainer {
        database_id: record.database_id,
        indexes: Arc::new(indexes),
        spec,
        ts: record.ts,
        version: record.version,
        versions_since: record.versions_since,
        is_pinned: record.is_pinned,
        next_range: record.next_range,
        routing_version: record.routing_version,
        ranges: record.ranges,
    })
}

fn texts(paths: &[PropertyPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

/// Range ids as the record keeps them.
pub(crate) fn range_ids(numbers: &[u32]) -> Vec<RangeId> {
    numbers.iter().copied().map(RangeId).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_throughput_was_asked_for_is_kept_and_is_taken_for_granted_where_it_is_not_said() {
        let offer = |was_requested| Offer {
            rid: OfferRid(7),
            target: OfferTarget::Database(DatabaseRid(3)),
            throughput: Throughput::Manual(400),
            has_minute_budget: false,
            was_requested,
            peak_ever: 400,
            ts: 1,
            version: 1,
        };
        for was_requested in [true, false] {
            let bytes = encode_offer(&offer(was_requested));
            assert_eq!(decode_offer(OfferRid(7), &bytes).unwrap(), offer(was_requested));
        }
        let older = br#"{"database":3,"container":null,"manual":400,"autoscale":null,"peak_ever":400,"ts":1,"version":1}"#;
        assert_eq!(decode_offer(OfferRid(7), older).unwrap(), offer(true));
    }
}
