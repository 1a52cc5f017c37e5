//! One writer: sends operations until its connection breaks, and keeps the ledger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::crash::check::Violation;
use crate::crash::item::{self, ItemKey, Version};
use crate::crash::ledger::{Ack, Change, Intent, Known, Ledger, OpId};
use crate::crash::link::{Link, Wire};
use crate::request::{Account, Draft, OwnedReply};
use crate::rng::Rng;

/// Link of the container that writers use.
pub const CONTAINER_LINK: &str = "dbs/crash/colls/items";
/// Logical partitions.
pub const PARTITIONS: usize = 24;
/// Writers, each with a connection of its own.
pub const WRITERS: usize = 16;
/// Items that each writer owns.
pub const OWNED_PER_WRITER: usize = 48;
/// Items of one writer in one logical partition, which is the most that a batch can change.
const OWNED_PER_PARTITION: usize = 8;
const CONTENDED: usize = 8;
const COUNTERS: usize = 8;

const RANGE_HEADER: &str = "x-ms-documentdb-partitionkeyrangeid";
const PATCH: &str = r#"{"operations":[{"op":"incr","path":"/count","value":1}]}"#;

/// The ledger as writers share it.
pub type SharedLedger = Arc<Mutex<Ledger>>;

/// Locks the ledger. It is consistent between any two of its calls, so a panic elsewhere does not
/// corrupt it.
pub fn lock(ledger: &SharedLedger) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Items of one writer: runs of [`OWNED_PER_PARTITION`] share a logical partition with runs of
/// other writers.
pub fn owned_key(writer: usize, index: usize) -> ItemKey {
    let partition = (writer * 5 + index / OWNED_PER_PARTITION) % PARTITIONS;
    ItemKey { partition: partition_name(partition), id: format!("w{writer}-{index}") }
}

/// Items that all writers overwrite.
pub fn contended_keys() -> impl Iterator<Item = ItemKey> {
    (0..CONTENDED)
        .map(|i| ItemKey { partition: partition_name(i * 3 % PARTITIONS), id: format!("x-{i}") })
}

/// Items that all writers increment.
pub fn counter_keys() -> impl Iterator<Item = ItemKey> {
    (0..COUNTERS)
        .map(|i| ItemKey { partition: partition_name(i * 7 % PARTITIONS), id: format!("n-{i}") })
}

/// Every logical partition's key value.
pub fn partition_names() -> impl Iterator<Item = String> {
    (0..PARTITIONS).map(partition_name)
}

fn partition_name(number: usize) -> String {
    format!("p{number}")
}

/// The request that creates `key` at `version`.
pub fn create<'a>(key: &ItemKey, version: Version) -> Draft<'a> {
    Draft::feed("POST", CONTAINER_LINK, "docs").key(&key.partition).body(item::body(key, version))
}

/// The request that reads `key`.
pub fn read<'a>(key: &ItemKey) -> Draft<'a> {
    Draft::one("GET", CONTAINER_LINK, "docs", &key.id).key(&key.partition)
}

/// One writer.
pub struct Writer {
    account: Account,
    ledger: SharedLedger,
    number: usize,
    rng: Rng,
}

/// A single operation on one owned item: the request, the resulting change, the status of success.
struct Single<'a> {
    draft: Draft<'a>,
    after: Option<Version>,
    status: u16,
}

/// One operation of a batch and the status it must have.
struct BatchEntry {
    operation: Value,
    change: Change,
    status: u64,
}

impl Writer {
    /// Writer `number`, with its own stream of choices.
    pub fn new(account: Account, ledger: SharedLedger, number: usize, rng: Rng) -> Self {
        Self { account, ledger, number, rng }
    }

    /// Sends operations one after the other until the server closes the connection. An operation
    /// that is cut short is in doubt and stays pending in the ledger.
    pub async fn run(mut self, wire: Wire) {
        let Ok(mut link) = Link::open(&self.account, wire).await else { return };
        while !link.is_closing() && self.one_operation(&mut link).await.is_ok() {}
    }

    async fn one_operation(&mut self, link: &mut Link) -> anyhow::Result<()> {
        match self.rng.below(100) {
            0..55 => self.write_owned(link).await,
            55..70 => self.write_batch(link).await,
            70..74 => self.write_failing_batch(link).await,
            74..84 => self.overwrite_contended(link).await,
            84..95 => self.increment(link).await,
            _ => self.read_back(link).await,
        }
    }

    async fn write_owned(&mut self, link: &mut Link) -> anyhow::Result<()> {
        let key = self.pick_owned();
        let known = lock(&self.ledger).known(&key);
        if self.rng.percent(4) {
            return self.write_with_stale_etag(link, &key, &known).await;
        }
        let single = match known.version {
            None => self.bring_to_life(&key),
            Some(version) => self.change_existing(&key, version, &known),
        };
        let change = Change { key: key.clone(), after: single.after };
        let op = self.begin(&key.partition, Intent::Owned(vec![change]));
        let reply = link.send(&self.account, &single.draft).await?;
        self.conclude(op, &single.draft, &reply, single.status);
        Ok(())
    }

    fn bring_to_life<'a>(&mut self, key: &ItemKey) -> Single<'a> {
        let version = self.fresh_version();
        let draft = create(key, version);
        let draft = if self.rng.percent(40) { draft.upsert() } else { draft };
        Single { draft, after: Some(version), status: 201 }
    }

    fn change_existing<'a>(
        &mut self,
        key: &ItemKey,
        version: Version,
        known: &Known,
    ) -> Single<'a> {
        let one = |verb| Draft::one(verb, CONTAINER_LINK, "docs", &key.id).key(&key.partition);
        let fresh = self.fresh_version();
        match self.rng.below(100) {
            0..25 => Single { draft: one("DELETE"), after: None, status: 204 },
            25..50 => {
                let after = Version { count: version.count + 1, ..version };
                let draft = one("PATCH").body(PATCH);
                Single { draft, after: Some(after), status: 200 }
            }
            50..75 => {
                let draft = one("PUT").body(item::body(key, fresh));
                let draft = match &known.etag {
                    Some(etag) if self.rng.percent(50) => draft.header("If-Match", etag.clone()),
                    Some(_) | None => draft,
                };
                Single { draft, after: Some(fresh), status: 200 }
            }
            _ => Single { draft: create(key, fresh).upsert(), after: Some(fresh), status: 200 },
        }
    }

    /// A replace that the server must refuse without effect.
    async fn write_with_stale_etag(
        &mut self,
        link: &mut Link,
        key: &ItemKey,
        known: &Known,
    ) -> anyhow::Result<()> {
        let version = self.fresh_version();
        let draft = Draft::one("PUT", CONTAINER_LINK, "docs", &key.id)
            .key(&key.partition)
            .header("If-Match", "\"00000000-0000-0000-0000-000000000000\"")
            .body(item::body(key, version));
        let wanted = if known.version.is_some() { 412 } else { 404 };
        let op = self.begin(&key.partition, Intent::Owned(Vec::new()));
        let reply = link.send(&self.account, &draft).await?;
        self.conclude_refusal(op, &draft, &reply, wanted);
        Ok(())
    }

    async fn write_batch(&mut self, link: &mut Link) -> anyhow::Result<()> {
        let keys = self.pick_neighbours();
        let entries: Vec<BatchEntry> = keys.iter().map(|key| self.batch_entry(key)).collect();
        let draft = batch(&keys[0].partition, entries.iter().map(|entry| &entry.operation));
        let changes = entries.iter().map(|entry| entry.change.clone()).collect();
        let op = self.begin(&keys[0].partition, Intent::Owned(changes));
        let reply = link.send(&self.account, &draft).await?;
        let results = reply.json().unwrap_or_default();
        let wanted: Vec<u64> = entries.iter().map(|entry| entry.status).collect();
        if reply.status == 200 && statuses(&results) == wanted {
            let etags = etags(&results);
            self.acknowledge(op, &draft, &reply, etags);
        } else {
            self.wrong_reply(op, &draft, &reply);
        }
        Ok(())
    }

    fn batch_entry(&mut self, key: &ItemKey) -> BatchEntry {
        let known = lock(&self.ledger).known(key);
        let fresh = self.fresh_version();
        let resource =
            || serde_json::from_str::<Value>(&item::body(key, fresh)).unwrap_or_default();
        let (operation, after, status) = match known.version {
            None => {
                let kind = if self.rng.percent(50) { "Create" } else { "Upsert" };
                (json!({"operationType": kind, "resourceBody": resource()}), Some(fresh), 201)
            }
            Some(version) => match self.rng.below(4) {
                0 => (json!({"operationType": "Delete", "id": key.id}), None, 204),
                1 => {
                    let after = Version { count: version.count + 1, ..version };
                    let patch: Value = serde_json::from_str(PATCH).unwrap_or_default();
                    let operation =
                        json!({"operationType": "Patch", "id": key.id, "resourceBody": patch});
                    (operation, Some(after), 200)
                }
                2 => {
                    let operation = json!({
                        "operationType": "Replace", "id": key.id, "resourceBody": resource()
                    });
                    (operation, Some(fresh), 200)
                }
                _ => {
                    let operation = json!({"operationType": "Upsert", "resourceBody": resource()});
                    (operation, Some(fresh), 200)
                }
            },
        };
        BatchEntry { operation, change: Change { key: key.clone(), after }, status }
    }

    /// A batch whose last operation cannot succeed: no part of it may remain.
    async fn write_failing_batch(&mut self, link: &mut Link) -> anyhow::Result<()> {
        let keys = self.pick_neighbours();
        let mut operations: Vec<Value> = Vec::new();
        let mut wanted = Vec::new();
        for key in &keys {
            operations.push(self.batch_entry(key).operation);
            wanted.push(424);
        }
        operations.push(json!({"operationType": "Delete", "id": "never-written"}));
        wanted.push(404);
        let draft = batch(&keys[0].partition, operations.iter());
        let op = self.begin(&keys[0].partition, Intent::Owned(Vec::new()));
        let reply = link.send(&self.account, &draft).await?;
        let results = reply.json().unwrap_or_default();
        if reply.status == 207 && statuses(&results) == wanted {
            lock(&self.ledger).refuse(op);
        } else {
            self.wrong_reply(op, &draft, &reply);
        }
        Ok(())
    }

    async fn overwrite_contended(&mut self, link: &mut Link) -> anyhow::Result<()> {
        let keys: Vec<ItemKey> = contended_keys().collect();
        let key = &keys[self.rng.index(keys.len())];
        let version = self.fresh_version();
        let draft = create(key, version).upsert();
        let op = self.begin(&key.partition, Intent::Contended(key.clone(), version.stamp));
        let reply = link.send(&self.account, &draft).await?;
        // Another writer may have created it in the meantime.
        let wanted = if reply.status == 201 { 201 } else { 200 };
        self.conclude(op, &draft, &reply, wanted);
        Ok(())
    }

    async fn increment(&mut self, link: &mut Link) -> anyhow::Result<()> {
        let keys: Vec<ItemKey> = counter_keys().collect();
        let key = &keys[self.rng.index(keys.len())];
        let draft =
            Draft::one("PATCH", CONTAINER_LINK, "docs", &key.id).key(&key.partition).body(PATCH);
        let op = self.begin(&key.partition, Intent::Increment(key.clone()));
        let reply = link.send(&self.account, &draft).await?;
        self.conclude(op, &draft, &reply, 200);
        Ok(())
    }

    /// No other writer writes it, so a read must return exactly what was acknowledged.
    async fn read_back(&mut self, link: &mut Link) -> anyhow::Result<()> {
        let key = self.pick_owned();
        let known = lock(&self.ledger).known(&key);
        let draft = read(&key);
        let reply = link.send(&self.account, &draft).await?;
        let shown = (reply.status == 200)
            .then(|| item::parse(&reply.json().unwrap_or_default(), None))
            .flatten();
        let right = match known.version {
            Some(version) => {
                shown.is_some_and(|(_, item)| item.version == version && item.is_intact)
            }
            None => reply.status == 404,
        };
        if !right {
            lock(&self.ledger).note(wrong(&draft, &reply));
        }
        Ok(())
    }

    fn begin(&self, partition: &str, intent: Intent) -> OpId {
        lock(&self.ledger).begin(partition, intent)
    }

    fn conclude(&self, op: OpId, draft: &Draft<'_>, reply: &OwnedReply, wanted: u16) {
        if reply.status == wanted {
            let etag = reply.header("etag").map(str::to_owned);
            self.acknowledge(op, draft, reply, vec![etag]);
        } else {
            self.wrong_reply(op, draft, reply);
        }
    }

    fn conclude_refusal(&self, op: OpId, draft: &Draft<'_>, reply: &OwnedReply, wanted: u16) {
        if reply.status == wanted {
            lock(&self.ledger).refuse(op);
        } else {
            self.wrong_reply(op, draft, reply);
        }
    }

    fn acknowledge(
        &self,
        op: OpId,
        draft: &Draft<'_>,
        reply: &OwnedReply,
        etags: Vec<Option<String>>,
    ) {
        let mut ledger = lock(&self.ledger);
        let number = |name| reply.header(name).and_then(|text| text.parse().ok());
        match (number("lsn"), reply.header(RANGE_HEADER)) {
            (Some(lsn), Some(range)) => {
                let item_lsn = number("x-ms-item-lsn");
                ledger.acknowledge(op, Ack { range: range.to_owned(), lsn, item_lsn, etags });
            }
            (_, _) => ledger.note(wrong(draft, reply)),
        }
    }

    /// The operation stays pending: its outcome is as unknown as without a reply.
    fn wrong_reply(&self, _op: OpId, draft: &Draft<'_>, reply: &OwnedReply) {
        lock(&self.ledger).note(wrong(draft, reply));
    }

    fn fresh_version(&self) -> Version {
        Version { stamp: lock(&self.ledger).stamp(), count: 0 }
    }

    fn pick_owned(&mut self) -> ItemKey {
        owned_key(self.number, self.rng.index(OWNED_PER_WRITER))
    }

    /// Two to six distinct items of one logical partition.
    fn pick_neighbours(&mut self) -> Vec<ItemKey> {
        let run = self.rng.index(OWNED_PER_WRITER / OWNED_PER_PARTITION) * OWNED_PER_PARTITION;
        let first = self.rng.index(OWNED_PER_PARTITION);
        let count = 2 + self.rng.index(5);
        (0..count)
            .map(|i| owned_key(self.number, run + (first + i) % OWNED_PER_PARTITION))
            .collect()
    }
}

fn batch<'a, 'v>(partition: &str, operations: impl Iterator<Item = &'v Value>) -> Draft<'a> {
    let operations: Vec<String> = operations.map(Value::to_string).collect();
    Draft::feed("POST", CONTAINER_LINK, "docs")
        .batch()
        .key(partition)
        .body(format!("[{}]", operations.join(",")))
}

fn statuses(results: &Value) -> Vec<u64> {
    let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
    results.iter().map(|result| result["statusCode"].as_u64().unwrap_or_default()).collect()
}

fn etags(results: &Value) -> Vec<Option<String>> {
    let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
    results.iter().map(|result| result["eTag"].as_str().map(str::to_owned)).collect()
}

fn wrong(draft: &Draft<'_>, reply: &OwnedReply) -> Violation {
    let shown: String = String::from_utf8_lossy(&reply.body).chars().take(300).collect();
    Violation::WrongReply { what: format!("{} -> {} {shown}", draft.summary(), reply.status) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_item_has_one_owner_and_neighbours_share_a_partition() {
        let keys: BTreeSet<ItemKey> = (0..WRITERS)
            .flat_map(|writer| (0..OWNED_PER_WRITER).map(move |index| owned_key(writer, index)))
            .collect();
        assert_eq!(keys.len(), WRITERS * OWNED_PER_WRITER);
        let account = Account::new("http://127.0.0.1:1/", "AAAA").unwrap();
        let mut writer = Writer::new(account, SharedLedger::default(), 3, Rng::new(1));
        for _ in 0..200 {
            let keys = writer.pick_neighbours();
            let distinct: BTreeSet<_> = keys.iter().map(|key| &key.id).collect();
            assert_eq!(distinct.len(), keys.len());
            assert!(keys.iter().all(|key| key.partition == keys[0].partition));
        }
    }

    #[test]
    fn batches_serialise_in_an_order_that_keeps_bodies_intact() {
        let account = Account::new("http://127.0.0.1:1/", "AAAA").unwrap();
        let mut writer = Writer::new(account, SharedLedger::default(), 0, Rng::new(1));
        let key = owned_key(0, 0);
        let entry = writer.batch_entry(&key);
        let mut body = entry.operation["resourceBody"].clone();
        body["_etag"] = Value::from("e");
        assert!(item::parse(&body, None).unwrap().1.is_intact);
        assert_eq!(entry.status, 201);
    }
}
