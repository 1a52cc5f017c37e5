//! Reading the catalog back at start.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use model::rid::OfferRid;
use model::{ContainerRid, DatabaseRid, PartitionId};
use storage::{Dir, Durability, KeyRange, LocalStore, Op, View, WriteBatch};

use super::record::{self, MetaRecord};
use super::{Catalog, ChangeSignal, Container, opaque, scripts};
use crate::Error;
use crate::commit::{Mirrors, PartitionState, Slot, Slots};
use crate::components::Random;
use crate::keys::{self, catalog as k};
use crate::partition::Partition;
use crate::planted::{Bug, is_planted};
use crate::repartition::{self, JobId};
use crate::routing::{PartitionRange, RangeId, RoutingMap};

/// What a start reads.
pub(crate) struct Loaded {
    pub(crate) meta: MetaRecord,
    pub(crate) catalog: Catalog,
    pub(crate) partitions: Slots,
    pub(crate) mirrors: Mirrors,
}

/// Reads the catalog, or creates an empty one on a new store.
pub(crate) fn load(store: &dyn LocalStore, random: &dyn Random) -> Result<Loaded, Error> {
    let view = store.view();
    let Some(meta) = view.get(PartitionId::CATALOG, k::META)? else {
        return found(store, random);
    };
    record::check_layout(&meta)?;
    let meta: MetaRecord = record::from_bytes(&meta)?;
    let mut loaded = Loaded {
        meta,
        catalog: Catalog::default(),
        partitions: Slots::default(),
        mirrors: Mirrors::default(),
    };
    read_all(view.as_ref(), &mut loaded)?;
    mirror_again(view.as_ref(), &mut loaded)?;
    finish_retiring(store, view.as_ref())?;
    Ok(loaded)
}

/// Creates the catalog on an empty store. Numbers begin at random values, so that resource ids of
/// two stores differ and a client's cache of one never fits the other by accident.
fn found(store: &dyn LocalStore, random: &dyn Random) -> Result<Loaded, Error> {
    let mut seed = [0u8; 8];
    random.fill(&mut seed);
    let mut token_key = [0u8; 32];
    random.fill(&mut token_key);
    let [a, b, c, d, e, f, g, h] = seed;
    let meta = MetaRecord {
        format: record::FORMAT,
        features: Vec::new(),
        next_partition: 1,
        next_database: u32::from_be_bytes([a >> 2, b, c, d]) | 1 << 24,
        next_container: u32::from_be_bytes([e >> 2, f, g, h]) | 1,
        next_offer: 1,
        next_job: 1,
        next_small: record::first_small(),
        next_script: record::first_script(),
        lsn_floor: 0,
        token_key,
    };
    let ops = vec![Op::Put {
        p: PartitionId::CATALOG,
        k: Bytes::from_static(k::META),
        v: record::to_bytes(&meta),
    }];
    // Nothing has been acknowledged yet; the first commit makes this durable together with itself.
    store.write(WriteBatch { ops }, Durability::Buffered)?;
    Ok(Loaded {
        meta,
        catalog: Catalog::default(),
        partitions: Slots::default(),
        mirrors: Mirrors::default(),
    })
}

fn read_all(view: &dyn View, loaded: &mut Loaded) -> Result<(), Error> {
    let mut cursor = view.scan(PartitionId::CATALOG, KeyRange::ALL, Dir::Fwd)?;
    while let Some((key, value)) = cursor.next()? {
        let Some((&tag, rest)) = key.split_first() else { continue };
        match tag {
            k::TAG_DATABASE => {
                let database = record::decode_database(DatabaseRid(number(rest, 0)?), value)?;
                loaded.catalog.put_database(Arc::new(database));
            }
            k::TAG_CONTAINER => {
                let rid = ContainerRid {
                    database: DatabaseRid(number(rest, 0)?),
                    number: number(rest, 4)?,
                };
                read_container(view, rid, value, loaded)?;
            }
            k::TAG_OFFER => {
                let offer = record::decode_offer(OfferRid(number(rest, 0)?), value)?;
                loaded.catalog.put_offer(Arc::new(offer));
            }
            k::TAG_SCRIPT => {
                let rid = scripts::rid_of_key(rest)
                    .ok_or_else(|| record::damaged("the key of a script".into()))?;
                loaded.catalog.put_script(Arc::new(scripts::decode(rid, value)?));
            }
            k::TAG_JOB => {
                let job = record::decode_job(JobId(number(rest, 0)?), value)?;
                loaded.catalog.jobs.insert(job.id, Arc::new(job));
            }
            k::TAG_OPAQUE => loaded.catalog.opaque.put(opaque::decode(rest, value)?),
            _ => {}
        }
    }
    Ok(())
}

/// Resumes mirroring the partitions that are being split or merged, from the first write on.
fn mirror_again(view: &dyn View, loaded: &mut Loaded) -> Result<(), Error> {
    for job in loaded.catalog.jobs.values() {
        let container = loaded.catalog.container_by_rid(job.container);
        let container =
            container.ok_or_else(|| record::damaged("a job has no container".into()))?;
        let routing = container.routing();
        for id in &job.sources {
            let range = routing.by_id(*id);
            let range = range.ok_or_else(|| record::damaged("a job has no range".into()))?;
            let source = range.partition.id;
            let copied = repartition::progress_of(view, source)?;
            let copied = (!is_planted(Bug::CopyForgotten)).then_some(copied);
            let mirror = job.mirror(container, copied);
            let mut held = BTreeMap::new();
            for target in mirror.targets() {
                held.insert(target, stored_state(view, target)?);
            }
            loaded.mirrors.attach(source, mirror, |target| held[&target]);
        }
    }
    Ok(())
}

fn stored_state(view: &dyn View, id: PartitionId) -> Result<PartitionState, Error> {
    view.get(id, keys::PARTITION_STATE)?
        .and_then(|v| PartitionState::decode(&v))
        .ok_or_else(|| record::damaged(format!("partition {id} has no state")))
}

fn read_container(
    view: &dyn View,
    rid: ContainerRid,
    value: &[u8],
    loaded: &mut Loaded,
) -> Result<(), Error> {
    let read = record::decode_container(value)?;
    let mut ranges = Vec::with_capacity(read.ranges.len());
    let mut states = Vec::with_capacity(read.ranges.len());
    for range in &read.ranges {
        let id = range.partition();
        let state = stored_state(view, id)?;
        states.push((id, state));
        ranges.push(PartitionRange {
            id: RangeId(range.id),
            epk: range.epk()?,
            parents: record::range_ids(&range.parents),
            partition: Arc::new(Partition::new(id, &state)),
        });
    }
    let container = Arc::new(Container {
        rid,
        database_id: read.database_id,
        spec: read.spec,
        ts: read.ts,
        version: read.version,
        versions_since: read.versions_since,
        indexes: read.indexes,
        is_pinned: read.is_pinned,
        next_range: read.next_range,
        changes: ChangeSignal::default(),
        routing: Arc::new(ArcSwap::from_pointee(RoutingMap::new(read.routing_version, ranges))),
    });
    for (id, state) in states {
        loaded.partitions.insert(id, Slot::new(state, Arc::clone(&container)));
    }
    loaded.catalog.put_container(container);
    Ok(())
}

/// Retires partitions whose container was deleted just before the last stop.
fn finish_retiring(store: &dyn LocalStore, view: &dyn View) -> Result<(), Error> {
    let (lo, hi) = ([k::TAG_RETIRING], [k::TAG_RETIRING + 1]);
    let mut cursor = view.scan(PartitionId::CATALOG, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
    let mut ops = Vec::new();
    while let Some((key, _)) = cursor.next()? {
        store.retire(PartitionId(number(key, 1)?))?;
        ops.push(Op::Del { p: PartitionId::CATALOG, k: Bytes::copy_from_slice(key) });
    }
    if !ops.is_empty() {
        store.write(WriteBatch { ops }, Durability::Buffered)?;
    }
    Ok(())
}

pub(super) fn number(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| record::damaged("a key is too short".into()))
}
