//! Statements that clients send again when they do not know whether they were carried out.
//!
//! A record for each session and logical partition says what the newest number of the session did
//! there. It is written in the commit of the statement, so a statement is carried out once, whatever
//! happens between commit and answer.

use bytes::{Buf, BufMut, Bytes};
use model::{Charge, PartitionId};

use super::PreparedOp;
use super::apply::{self, CommitContext};
use super::group::Group;
use super::state::PartitionState;
use crate::Error;
use crate::ops::{ItemOutcome, OpResult};

const VERSION: u8 = 1;
/// How long a record is kept after the last statement: as long as a session without requests.
const RETENTION_SECONDS: u64 = 30 * 60;

/// A statement of a session.
#[derive(Clone, Debug)]
pub(crate) struct RetryStatement {
    pub(crate) session: Bytes,
    /// Grows from command to command of a session.
    pub(crate) number: i64,
    /// Which statement of the command it is.
    pub(crate) statement: i32,
    /// What is to be known of its results when it is sent again.
    pub(crate) describe: fn(&[OpResult]) -> Vec<u8>,
}

/// What the newest number of a session did in a logical partition: version u8, time of the last
/// statement u64 in seconds, number i64, then for each run of statements with the same outcome the
/// first and last of them i32, length u32 and bytes of the outcome. All big-endian.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryRecord {
    /// When the last statement was carried out, in seconds.
    pub(crate) ts: u64,
    number: i64,
    done: Vec<DoneStatements>,
}

/// Statements of a command that had the same outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DoneStatements {
    first: i32,
    last: i32,
    outcome: Bytes,
}

impl RetryRecord {
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let mut rest = value;
        if rest.try_get_u8().ok()? != VERSION {
            return None;
        }
        let (ts, number) = (rest.try_get_u64().ok()?, rest.try_get_i64().ok()?);
        let mut done = Vec::new();
        while !rest.is_empty() {
            let (first, last) = (rest.try_get_i32().ok()?, rest.try_get_i32().ok()?);
            let length = usize::try_from(rest.try_get_u32().ok()?).ok()?;
            let (outcome, after) = rest.split_at_checked(length)?;
            done.push(DoneStatements { first, last, outcome: Bytes::copy_from_slice(outcome) });
            rest = after;
        }
        Some(Self { ts, number, done })
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        out.put_u8(VERSION);
        out.put_u64(self.ts);
        out.put_i64(self.number);
        for DoneStatements { first, last, outcome } in &self.done {
            out.put_i32(*first);
            out.put_i32(*last);
            out.put_u32(u32::try_from(outcome.len()).unwrap_or(u32::MAX));
            out.put_slice(outcome);
        }
        out.into()
    }

    /// Whether no client sends its statements again `now`, in seconds.
    pub(crate) fn is_old(&self, now: u64) -> bool {
        self.ts.saturating_add(RETENTION_SECONDS) <= now
    }

    /// What a statement did, if it was carried out.
    fn outcome_of(&self, number: i64, statement: i32) -> Option<&Bytes> {
        let is_here = |done: &&DoneStatements| done.first <= statement && statement <= done.last;
        let found = self.done.iter().rev().find(is_here).filter(|_| self.number == number)?;
        Some(&found.outcome)
    }

    /// Whether a statement is not to be carried out.
    pub(crate) fn rules_out(&self, statement: &RetryStatement) -> bool {
        let RetryStatement { number, statement, .. } = *statement;
        self.number > number || self.outcome_of(number, statement).is_some()
    }

    /// The record after a statement was carried out at the time `ts`.
    fn with(mut self, number: i64, statement: i32, outcome: Bytes, ts: u64) -> Self {
        if self.number != number {
            (self.number, self.done) = (number, Vec::new());
        }
        self.ts = ts;
        match self.done.last_mut() {
            Some(done)
                if done.last.checked_add(1) == Some(statement) && done.outcome == outcome =>
            {
                done.last = statement;
            }
            _ => self.done.push(DoneStatements { first: statement, last: statement, outcome }),
        }
        self
    }
}

/// Applies the operations of a statement, unless they were applied before. A failure leaves the
/// record as it was; the caller undoes the rest.
pub(super) fn apply_once(
    group: &mut Group,
    state: &mut PartitionState,
    context: &CommitContext<'_>,
    ops: Vec<PreparedOp>,
    statement: &RetryStatement,
) -> Vec<OpResult> {
    let note = match RetryNote::begin(group, context, statement) {
        Ok(note) => note,
        Err(outcome) => return vec![OpResult { outcome: *outcome, charge: Charge::ZERO }],
    };
    let results = apply::apply_all(group, state, context, ops);
    if results.iter().all(|result| !result.has_failed()) {
        note.put(group, statement, &results);
    }
    results
}

/// Where to note what a statement did, and what is known of its session there.
pub(super) struct RetryNote {
    partition: PartitionId,
    key: Bytes,
    ts: u64,
    known: RetryRecord,
}

impl RetryNote {
    /// Reads what is known of the session in a logical partition; the outcome if the statement is
    /// not to be carried out.
    pub(super) fn begin(
        group: &Group,
        context: &CommitContext<'_>,
        statement: &RetryStatement,
    ) -> Result<Self, Box<Result<ItemOutcome, Error>>> {
        let CommitContext { partition, logical_partition, now, .. } = *context;
        let key = logical_partition.logical_key.retry(&statement.session);
        let RetryStatement { number, statement: at, .. } = *statement;
        let known = match group.get(partition, &key) {
            Ok(Some(value)) => RetryRecord::decode(&value)
                .ok_or_else(|| Error::Internal("what a session did can't be read".into())),
            Ok(None) => Ok(RetryRecord { number, ..RetryRecord::default() }),
            Err(error) => Err(error.into()),
        };
        let known = known.map_err(|error| Box::new(Err(error)))?;
        if known.number > number {
            return Err(Box::new(Err(Error::RetryTooOld { newest: known.number })));
        }
        match known.outcome_of(number, at) {
            Some(outcome) => Err(Box::new(Ok(ItemOutcome::Repeated(outcome.clone())))),
            None => Ok(Self { partition, key, ts: now.seconds, known }),
        }
    }

    /// Notes what the statement did.
    pub(super) fn put(self, group: &mut Group, statement: &RetryStatement, results: &[OpResult]) {
        let outcome = (statement.describe)(results).into();
        let record = self.known.with(statement.number, statement.statement, outcome, self.ts);
        group.put(self.partition, self.key, record.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_knows_the_statements_of_its_number_only() {
        let (one, other) = (Bytes::from_static(b"1"), Bytes::from_static(b"2"));
        let mut record = RetryRecord::default();
        for statement in 0..100 {
            record = record.with(5, statement, one.clone(), 9);
        }
        record = record.with(5, 100, other.clone(), 10).with(5, 200, one.clone(), 11);
        assert_eq!(record.done.len(), 3, "statements with one outcome take no more room");
        assert_eq!(RetryRecord::decode(&record.encode()), Some(record.clone()));
        for cut in 0..record.encode().len() {
            let read = RetryRecord::decode(&record.encode()[..cut]);
            assert_ne!(read, Some(record.clone()), "cut at {cut}");
        }
        assert_eq!(record.outcome_of(5, 99), Some(&one));
        assert_eq!(record.outcome_of(5, 100), Some(&other));
        assert_eq!((record.outcome_of(5, 101), record.outcome_of(4, 0)), (None, None));
        let next = record.with(6, 0, other.clone(), 12);
        assert_eq!((next.outcome_of(6, 0), next.outcome_of(6, 1)), (Some(&other), None));
        assert_eq!(next.ts, 12);
    }
}
