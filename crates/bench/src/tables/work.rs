//! The requests to both servers.

use std::sync::Arc;

use crate::load::drive::Source;
use crate::rng::Rng;

use super::client::Account;

/// Entities of a partition, and of a range query.
const ROWS: usize = 100;
pub(super) const RANGE: usize = 10;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One entity by its keys.
    Get,
    /// A new entity.
    Insert,
    /// An upsert of an existing entity, which replaces it.
    Upsert,
    /// A merge of two properties into an existing entity.
    Merge,
    /// Ten entities by partition key and a range of row keys.
    Range,
}

impl Work {
    /// All kinds.
    pub const ALL: [Work; 5] = [Work::Get, Work::Insert, Work::Upsert, Work::Merge, Work::Range];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Work::Get => "get",
            Work::Insert => "insert",
            Work::Upsert => "upsert",
            Work::Merge => "merge",
            Work::Range => "range-10",
        }
    }

    /// The most of Azurite's processor time that our server may use.
    pub fn bound(self) -> f64 {
        match self {
            Work::Get | Work::Insert | Work::Upsert | Work::Merge => 1.0 / 5.0,
            Work::Range => 1.0 / 10.0,
        }
    }

    /// Whether a status means success.
    pub fn accepts(self, status: u16) -> bool {
        match self {
            Work::Get | Work::Range => status == 200,
            Work::Insert | Work::Upsert | Work::Merge => status == 204,
        }
    }
}

pub(super) fn partition_of(number: usize) -> String {
    format!("customer-{:05}", number / ROWS)
}

pub(super) fn row_of(number: usize) -> String {
    format!("order-{:08}", number)
}

/// An entity with a property of each usual type, some 400 bytes.
pub(super) fn entity(partition: &str, row: &str, number: usize) -> String {
    let text = "the quick brown fox jumps over the lazy dog, again and again";
    format!(
        r#"{{"PartitionKey":"{partition}","RowKey":"{row}","state":"open","count":{number},"price":{}.25,"total@odata.type":"Edm.Int64","total":"{}","when@odata.type":"Edm.DateTime","when":"2026-11-15T08:33:40.9146531Z","owner@odata.type":"Edm.Guid","owner":"c9da6455-213d-42c9-9a79-{:012x}","urgent":{},"note":"{text}"}}"#,
        number % 1000,
        number as u64 * 1_000_003,
        number,
        number.is_multiple_of(3)
    )
}

/// The requests of one connection.
pub(super) struct Sender {
    account: Arc<Account>,
    work: Work,
    entities: usize,
    rng: Rng,
    /// Keeps new entities of rounds and connections distinct.
    lane: (u32, usize),
    sent: usize,
    request: Vec<u8>,
}

impl Sender {
    pub(super) fn new(
        account: Arc<Account>,
        work: Work,
        entities: usize,
        rng: Rng,
        lane: (u32, usize),
    ) -> Self {
        Self { account, work, entities, rng, lane, sent: 0, request: Vec::new() }
    }

    fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.below(count as u64)).unwrap_or(0)
    }
}

impl Source for Sender {
    fn next_request(&mut self) -> &[u8] {
        let number = self.any(self.entities);
        let (partition, row) = (partition_of(number), row_of(number));
        self.sent += 1;
        self.request = match self.work {
            Work::Get => self.account.get(&partition, &row),
            Work::Upsert => self.account.upsert(&partition, &row, number),
            Work::Merge => self.account.merge(&partition, &row, self.sent),
            Work::Insert => {
                let (round, lane) = self.lane;
                let row = format!("new-{round}-{lane}-{:08}", self.sent);
                self.account.insert(&partition, &row, number)
            }
            Work::Range => {
                let within = self.any(ROWS / RANGE) * RANGE;
                let last = (self.entities - 1) / ROWS;
                // Ranges end within their partition, so the last partition, which may be too short,
                // is left out.
                let partition = (number / ROWS).min(last.saturating_sub(1));
                self.account.range(partition * ROWS + within)
            }
        };
        &self.request
    }
}
