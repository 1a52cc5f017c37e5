//! Several operations on one logical partition as one commit, each of which sees those before it.
//!
//! The operations are carried out twice. First on a snapshot, off the committer, where the code
//! that decides about the next operation (a script) may take its time. Then by the committer, if
//! nothing that they read has changed meanwhile; otherwise the transaction is [`Error::Overtaken`]
//! and can be retried from its start.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use model::{Charge, Lsn, PartitionKey, limits};
use storage::View;

use crate::cancellation::StopSignal;
use crate::catalog::Container;
use crate::commit::{
    self, CommitContext, CommitTerms, Group, PartitionState, PreparedOp, PreparedPatch,
    PreparedUpdate, ReadSet, Stamp,
};
use crate::context::WorkContext;
use crate::governor::Paid;
use crate::index::Indexes;
use crate::item::Etag;
use crate::keys::Log;
use crate::ops::{ItemOp, ItemOutcome, Page, PageRequest};
use crate::overlay::Overlay;
use crate::prepare::{LogicalPartition, prepare_op};
use crate::read::check_session;
use crate::routing::PartitionRange;
use crate::row::{Change, RowHead};
use crate::{Engine, Error, RangeId, RequestContext, RowKey, StoredItem, keys, ru};

/// Provisional positions, which are not a partition's own, begin here. Items that a transaction has
/// written have such a position until they are committed.
const PROVISIONAL_LSN: u64 = 1 << 62;
/// Provisional item numbers begin here; items have them until they are committed.
const PROVISIONAL_NUMBER: u64 = 1 << 59;

/// Operations that happen together or not at all.
pub struct Transaction {
    engine: Engine,
    container: Arc<Container>,
    logical_partition: LogicalPartition,
    range: PartitionRange,
    /// The partition's position before the view was taken.
    at: Lsn,
    view: Arc<dyn View>,
    indexes: Arc<Indexes>,
    group: Group,
    state: PartitionState,
    ops: Vec<PreparedOp>,
    /// The item that each operation made, with its provisional etag and number.
    made: Vec<Option<StoredItem>>,
    /// Items that were read one by one, and their versions in the view.
    read_versions: BTreeMap<RowKey, Option<Etag>>,
    /// Whether more was read than single items.
    has_scanned: bool,
    written_bytes: usize,
    context: WorkContext,
    paid: Option<Paid>,
    charge: Charge,
    /// The part of the charge that is accounted for already.
    metered: Charge,
}

/// A transaction that was committed.
#[derive(Debug)]
pub struct Committed {
    /// The range it happened in.
    pub range: RangeId,
    /// The current position of that range.
    pub lsn: Lsn,
    /// The outcome of each write, in order.
    pub outcomes: Vec<ItemOutcome>,
    /// Provisional etags and resource ids of items, and those that they have now.
    names: HashMap<String, String>,
}

impl Engine {
    /// Begins a transaction on the logical partition `key`.
    pub fn begin(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: &PartitionKey,
    ) -> Result<Transaction, Error> {
        let logical_partition = LogicalPartition::of(container, key)?;
        let (container, indexes, range, at, view) = loop {
            let container = self.newest(container);
            let indexes = Arc::clone(&container.indexes);
            let range = container.routing().locate(&logical_partition.epk).clone();
            let at = range.partition.lsn();
            if let Some(view) = self.view_of([&range])?
                && self.newest(&container).indexes.version == indexes.version
            {
                break (container, indexes, range, at, view);
            }
        };
        ctx.served.touch(range.id, at);
        check_session(&ctx.session, &range, at)?;
        let paid = self.admit(ctx, &range, ru::point_read(0))?;
        let state = view
            .get(range.partition.id, keys::PARTITION_STATE)?
            .and_then(|state| PartitionState::decode(&state))
            .ok_or_else(|| Error::Internal("a partition has no state".into()))?;
        let state = PartitionState {
            lsn: Lsn(PROVISIONAL_LSN),
            number_next: PROVISIONAL_NUMBER,
            number_end: u64::MAX,
            ..state
        };
        Ok(Transaction {
            engine: self.clone(),
            group: Group::new(Arc::clone(&view)),
            container,
            logical_partition,
            range,
            at,
            view,
            indexes,
            state,
            ops: Vec::new(),
            made: Vec::new(),
            read_versions: BTreeMap::new(),
            has_scanned: false,
            written_bytes: 0,
            context: ctx.work(),
            paid: Some(paid),
            charge: ru::point_read(0),
            metered: Charge::ZERO,
        })
    }

    fn newest(&self, container: &Arc<Container>) -> Arc<Container> {
        let catalog = self.catalog();
        Arc::clone(catalog.container_by_rid(container.rid).unwrap_or(container))
    }

    /// Commits a transaction. [`Error::Overtaken`] says that something it read has changed.
    pub async fn commit_transaction(
        &self,
        ctx: &mut RequestContext,
        mut transaction: Transaction,
    ) -> Result<Committed, Error> {
        let (range, lsn) = (transaction.range.clone(), transaction.at);
        ctx.served.charge += transaction.charge;
        if transaction.ops.is_empty() {
            let (outcomes, names) = (Vec::new(), HashMap::new());
            return Ok(Committed { range: range.id, lsn, outcomes, names });
        }
        let (ops, made) =
            (std::mem::take(&mut transaction.ops), std::mem::take(&mut transaction.made));
        let read_set = ReadSet {
            partition: range.partition.id,
            since: transaction.at,
            read_versions: std::mem::take(&mut transaction.read_versions).into_iter().collect(),
            has_scanned: transaction.has_scanned,
        };
        let (container, logical_partition) =
            (Arc::clone(&transaction.container), transaction.logical_partition.clone());
        let terms = CommitTerms { read_set: Some(Box::new(read_set)), ..CommitTerms::default() };
        let answer = self.submit(&container, &range, logical_partition, ops, terms).await?;
        // Nothing of it is needed from here on; the view it holds should not be kept.
        drop(transaction);
        let committed = answer.await.unwrap_or_else(|_| Err(self.stopped()))?;
        ctx.served.touch_instead(range.id, committed.range, committed.lsn);
        let mut outcomes = Vec::with_capacity(committed.results.len());
        for result in committed.results {
            // What succeeded on the snapshot fails now only because of another writer.
            let outcome = result.outcome.map_err(|error| {
                let is_ours = matches!(
                    error,
                    Error::Unavailable(_)
                        | Error::DiskAlmostFull { .. }
                        | Error::Storage(_)
                        | Error::Internal(_)
                );
                if is_ours { error } else { Error::Overtaken }
            });
            outcomes.push(outcome?);
        }
        let names = names(&made, &outcomes);
        Ok(Committed { range: committed.range, lsn: committed.lsn, outcomes, names })
    }
}

impl Transaction {
    /// Carries out one operation as far as this transaction can see.
    pub fn apply(&mut self, op: ItemOp) -> Result<ItemOutcome, Error> {
        self.check_deadline()?;
        if self.ops.len() >= limits::TRANSACTION_OPERATIONS_MAX {
            return Err(Error::TooMany {
                what: "operations in the transaction",
                count_max: limits::TRANSACTION_OPERATIONS_MAX,
            });
        }
        let (_, op) = prepare_op(&self.container, Some(&self.logical_partition), op)?;
        self.note_read(&op)?;
        let write = unconditional(&op);
        let context = CommitContext {
            container: &self.container,
            partition: self.range.partition.id,
            logical_partition: &self.logical_partition,
            now: Stamp::of(self.engine.inner.components.clock.now()),
            commit_time: 0,
            logical_partition_bytes_max: self.engine.logical_partition_bytes_max(),
            partition_bytes_max: self.engine.inner.settings.partition_bytes_max,
            answer_limit: None,
        };
        let results =
            commit::apply_or_undo(&mut self.group, &mut self.state, &context, vec![op], None);
        let Some(result) = results.into_iter().next() else {
            return Err(Error::Internal("an operation without a result".into()));
        };
        self.charge += result.charge;
        let outcome = result.outcome?;
        if let Some((write, bytes)) = write {
            self.written_bytes += bytes;
            self.ops.push(write);
            self.made.push(outcome.item().cloned());
        }
        Ok(outcome)
    }

    /// Rows of a compiled query over the logical partition, with what was written so far.
    pub fn query(&mut self, plan: query::Plan, request: PageRequest) -> Result<Page, Error> {
        self.check_deadline()?;
        self.has_scanned = true;
        let partition = self.range.partition.id;
        let writes = self.group.writes_of(partition);
        let changes = writes.map(|(key, value)| (key.clone(), value.clone())).collect();
        let overlay = Overlay { view: Arc::clone(&self.view), partition, changes };
        let partition_view = crate::query::LogicalPartitionView {
            range: &self.range,
            at: self.at,
            logical_partition: &self.logical_partition,
            indexes: &self.indexes,
            view: &overlay,
            has_provisional: !self.ops.is_empty(),
        };
        let (page, charge) = self.engine.query_key(
            &self.container,
            &partition_view,
            plan,
            request,
            self.context.clone(),
        )?;
        self.charge += charge;
        self.metered += charge;
        Ok(page)
    }

    /// Tells the code that decides about the next operation when it must end.
    pub fn stop_signal(&self) -> &StopSignal {
        &self.context.stop
    }

    fn check_deadline(&self) -> Result<(), Error> {
        self.context.stop.check(self.engine.inner.components.clock.monotonic())
    }

    /// How many writes it has.
    pub fn writes(&self) -> usize {
        self.ops.len()
    }

    /// What it has cost so far.
    pub fn charge(&self) -> Charge {
        self.charge
    }

    /// Whether it is still below the limits of what a transaction may cost and hold.
    pub fn has_room(&self) -> bool {
        let charge_max = self.range.partition.meter.page_charge_max();
        charge_max.is_none_or(|max| self.charge < max)
            && self.written_bytes < limits::TRANSACTION_BYTES_MAX
            && self.ops.len() < limits::TRANSACTION_OPERATIONS_MAX
    }

    /// Checks whether what it read is still current, so that the committer has less to check.
    pub fn check(&mut self) -> Result<(), Error> {
        let partition = &self.range.partition;
        let at = partition.lsn();
        if self.ops.is_empty() || at == self.at {
            return Ok(());
        }
        let Some(view) = self.engine.view_of([&self.range])? else { return Err(Error::Overtaken) };
        let is_touched =
            touched_since(view.as_ref(), partition.id, &self.logical_partition, self.at, u64::MAX)?;
        match is_touched {
            Some(false) => {
                self.at = at;
                Ok(())
            }
            _ if self.has_scanned => Err(Error::Overtaken),
            _ => Ok(()),
        }
    }

    fn note_read(&mut self, op: &PreparedOp) -> Result<(), Error> {
        for id in op.ids() {
            if !self.read_versions.contains_key(id) {
                let row = self.view.get(
                    self.range.partition.id,
                    &self.logical_partition.logical_key.row(id.as_bytes()),
                )?;
                let etag = row.and_then(|row| RowHead::decode(&row)).map(|head| head.etag);
                self.read_versions.insert(id.clone(), etag);
            }
        }
        Ok(())
    }
}

/// Whatever the outcome, what it read is paid for.
impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(paid) = self.paid.take() {
            let rest = self.charge.as_milli().saturating_sub(self.metered.as_milli());
            let rest = Charge::milli(rest);
            self.range.partition.meter.settle(paid, rest, Some(&self.logical_partition.id()));
        }
    }
}

impl Committed {
    /// `text` with the provisional etags and resource ids of items replaced by those that they have
    /// now.
    pub fn rename(&self, text: &str) -> String {
        if self.names.is_empty() {
            return text.to_owned();
        }
        let text = self.replace(text, ETAG_MARK, ETAG_BEFORE, ETAG_LENGTH);
        self.replace(&text, RID_MARK, RID_BEFORE, RID_LENGTH)
    }

    /// Replaces names of one kind: `length` long, with `mark` after the first `before` characters.
    fn replace(&self, text: &str, mark: &str, before: usize, length: usize) -> String {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (at, _) in text.match_indices(mark) {
            let Some(start) = at.checked_sub(before).filter(|start| *start >= done) else {
                continue;
            };
            let name = text.get(start..start + length);
            if let Some(new) = name.and_then(|name| self.names.get(name)) {
                out.push_str(&text[done..start]);
                out.push_str(new);
                done = start + length;
            }
        }
        out.push_str(&text[done..]);
        out
    }
}

/// The middle of every provisional etag.
const ETAG_MARK: &str = "-4000-";
const ETAG_BEFORE: usize = 18;
const ETAG_LENGTH: usize = 36;
/// The end of every provisional resource id.
const RID_MARK: &str = "CA==";
const RID_BEFORE: usize = 20;
const RID_LENGTH: usize = 24;

fn names(made: &[Option<StoredItem>], outcomes: &[ItemOutcome]) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for (made, outcome) in made.iter().zip(outcomes) {
        if let (Some(made), Some(item)) = (made, outcome.item()) {
            names.insert(made.etag().unquoted(), item.etag().unquoted());
            if made.rid() != item.rid() {
                names.insert(made.rid().to_string(), item.rid().to_string());
            }
        }
    }
    names
}

/// The write that has the same effect whatever the version is, once the version is known to be the
/// right one, and its size.
fn unconditional(op: &PreparedOp) -> Option<(PreparedOp, usize)> {
    Some(match op {
        PreparedOp::Create(item) => (PreparedOp::Create(item.clone()), item.body.len()),
        PreparedOp::Upsert(item, _) => (PreparedOp::Upsert(item.clone(), None), item.body.len()),
        PreparedOp::Replace { id, item, .. } => {
            let (id, item, size) = (id.clone(), item.clone(), item.body.len());
            (PreparedOp::Replace { id, item, if_match: None }, size)
        }
        PreparedOp::Patch(patch) => {
            let patch = PreparedPatch { if_match: None, ..PreparedPatch::clone(patch) };
            (PreparedOp::Patch(Box::new(patch)), 0)
        }
        PreparedOp::Update(update) => {
            let update = PreparedUpdate { if_match: None, ..PreparedUpdate::clone(update) };
            (PreparedOp::Update(Box::new(update)), 0)
        }
        PreparedOp::Delete { id, .. } => {
            (PreparedOp::Delete { id: id.clone(), if_match: None, old: None }, id.as_bytes().len())
        }
        PreparedOp::Read { .. }
        | PreparedOp::Swap { .. }
        | PreparedOp::Settle { .. }
        | PreparedOp::Erase { .. }
        | PreparedOp::Expire { .. } => return None,
    })
}

/// Whether anything of a logical partition changed after `since`, by the change log; `None` if that
/// has more than `entries_max` entries since then.
pub(crate) fn touched_since(
    view: &dyn View,
    partition: model::PartitionId,
    logical_partition: &LogicalPartition,
    since: Lsn,
    entries_max: u64,
) -> Result<Option<bool>, Error> {
    let (lo, hi) = Log::Changes.bounds(since, Lsn(u64::MAX - 1));
    let range = storage::KeyRange::half_open(&lo, &hi);
    let mut cursor = view.scan(partition, range, storage::Dir::Fwd)?;
    let mut entries = 0;
    while let Some((_, value)) = cursor.next()? {
        let change = Change::decode(value)
            .ok_or_else(|| Error::Internal("an entry of the change log can't be read".into()))?;
        if change.identity.starts_with(logical_partition.logical_key.as_bytes()) {
            return Ok(Some(true));
        }
        entries += 1;
        if entries > entries_max {
            return Ok(None);
        }
    }
    Ok(Some(false))
}

/// The same for a group that is not stored yet.
pub(crate) fn touched_in(
    group: &Group,
    partition: model::PartitionId,
    logical_partition: &LogicalPartition,
) -> bool {
    let (lo, hi) = logical_partition.logical_key.row_bounds();
    group.writes_of(partition).any(|(key, _): (&Bytes, _)| lo[..] <= key[..] && key[..] < hi[..])
}
