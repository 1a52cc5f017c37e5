//! Requests and outcomes of the data plane, as plain values.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Charge, EpkRange, ErrorKind, PartitionKey, Value};
use query::access::{IndexSet, Step};
use query::exec;
use query::explain::Conjunct;
use query::plan::SortOrder;

use crate::index::Composite;
use crate::patch::{Check, Patch};
use crate::update::Update;
use crate::{BodyFormat, Error, Etag, RangeId, RowKey, StoredItem};

/// An item as a client sent it: the bytes that will be stored and the tree they stand for.
/// Made by [`ItemBody::from_json`], [`ItemBody::from_bson`] and others, which enforce the limits. In
/// a container whose items have another form, it is stored in that.
#[derive(Clone, Debug)]
pub struct ItemBody {
    pub(crate) format: BodyFormat,
    pub(crate) bytes: Bytes,
    pub(crate) value: Value,
}

/// The condition of a conditional operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagCondition {
    /// Any version.
    Any,
    /// Exactly this version. Compared without regard to surrounding quotes.
    Is(String),
    /// Exactly the version of this time ([`StoredItem::ticks`]).
    ChangedAt(u64),
}

impl EtagCondition {
    /// Reads a header value: `*` or an etag, quoted or not.
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "*" => EtagCondition::Any,
            other => EtagCondition::Is(other.trim_matches('"').to_owned()),
        }
    }

    /// Whether `item` satisfies the condition.
    pub fn is_met_by(&self, item: &StoredItem) -> bool {
        self.is_met_by_version(&item.etag(), item.ticks())
    }

    pub(crate) fn is_met_by_version(&self, etag: &Etag, ticks: u64) -> bool {
        match self {
            EtagCondition::Any => true,
            EtagCondition::Is(wanted) => etag.is(wanted),
            EtagCondition::ChangedAt(wanted) => *wanted == ticks,
        }
    }
}

/// One operation on one item of a known logical partition.
#[derive(Clone, Debug)]
pub enum ItemOp {
    /// Adds an item; fails if the id is taken.
    Create {
        /// The item.
        body: ItemBody,
    },
    /// Adds or replaces. `if_match` counts only when the item exists.
    Upsert {
        /// The item.
        body: ItemBody,
        /// Condition on the existing version.
        if_match: Option<EtagCondition>,
    },
    /// Replaces an existing item; a body with another id renames it.
    Replace {
        /// Row key of the existing item.
        id: RowKey,
        /// The new item.
        body: ItemBody,
        /// Condition on the existing version.
        if_match: Option<EtagCondition>,
    },
    /// Changes parts of an existing item.
    Patch {
        /// Row key of the existing item.
        id: RowKey,
        /// What to change.
        patch: Patch,
        /// Condition on the existing version.
        if_match: Option<EtagCondition>,
    },
    /// Merges properties into an item: those that it has get their new values, the others are
    /// appended.
    Merge {
        /// The properties, and id and partition key of the item.
        body: ItemBody,
        /// Condition on the existing version.
        if_match: Option<EtagCondition>,
        /// Whether an item of just these properties is created if there is none.
        creates: bool,
        /// A rule that the result must satisfy.
        check: Option<Check>,
    },
    /// Changes an item as its stored version, or its absence, demands.
    Update {
        /// Row key of the item.
        id: RowKey,
        /// What becomes of it.
        update: Arc<dyn Update>,
        /// Condition on the existing version.
        if_match: Option<EtagCondition>,
    },
    /// Removes an existing item.
    Delete {
        /// Row key of the existing item.
        id: RowKey,
        /// Condition on the existing version.
        if_match: Option<EtagCondition>,
    },
    /// Reads an item, in order with the writes around it (in batches).
    Read {
        /// Row key of the item.
        id: RowKey,
        /// Yields [`Error::NotModified`] when met.
        if_none_match: Option<EtagCondition>,
    },
}

/// What an operation did.
#[derive(Clone, Debug)]
pub enum ItemOutcome {
    /// A new item was created.
    Created(StoredItem),
    /// An existing item has a new version.
    Replaced(StoredItem),
    /// The item was read.
    Read(StoredItem),
    /// The item is gone.
    Deleted,
    /// What an update made of an item; the same version twice if it kept it.
    Updated {
        /// The item before, if there was one.
        before: Option<Box<StoredItem>>,
        /// The item now, if there is one.
        after: Option<StoredItem>,
    },
    /// An earlier attempt of the same statement was carried out: what that
    /// [noted](crate::run::RetrySession::describe) of it.
    Repeated(Bytes),
}

impl ItemOutcome {
    /// The item as it is now, unless it is gone.
    pub fn item(&self) -> Option<&StoredItem> {
        match self {
            ItemOutcome::Created(i) | ItemOutcome::Replaced(i) | ItemOutcome::Read(i) => Some(i),
            ItemOutcome::Updated { after, .. } => after.as_ref(),
            ItemOutcome::Deleted | ItemOutcome::Repeated(_) => None,
        }
    }
}

/// The result of one operation of a batch or of a bulk request.
#[derive(Debug)]
pub struct OpResult {
    /// What happened; siblings of a failed operation have [`Error::FailedDependency`].
    pub outcome: Result<ItemOutcome, Error>,
    /// What it cost.
    pub charge: Charge,
}

impl OpResult {
    /// Whether the other operations of a batch fail with this one. The answer that a read's caller
    /// has the current version already is no failure.
    pub fn has_failed(&self) -> bool {
        match &self.outcome {
            Ok(_) => false,
            Err(error) => error.kind() != ErrorKind::NotModified,
        }
    }
}

/// How large the items may be that a batch returns.
#[derive(Clone, Debug)]
pub struct AnswerLimit {
    /// Most bytes in all.
    pub bytes_max: usize,
    /// Bytes of an item besides its text.
    pub item_overhead: usize,
    /// For each operation whether its item is returned.
    pub is_returned: Vec<bool>,
}

impl AnswerLimit {
    /// What the result of the operation at this place adds.
    pub(crate) fn bytes_of(&self, at: usize, result: &OpResult) -> usize {
        let is_returned = self.is_returned.get(at).is_some_and(|is_returned| *is_returned);
        let item = result.outcome.as_ref().ok().and_then(ItemOutcome::item);
        item.filter(|_| is_returned).map_or(0, |item| item.body().len() + self.item_overhead)
    }
}

/// Which part of a container a listing or query covers.
#[derive(Clone, Debug, Default)]
pub enum Scope {
    /// All of it.
    #[default]
    All,
    /// One logical partition, or with fewer components than the definition all with this prefix.
    Key(PartitionKey),
    /// One physical partition, cut to `epk` when given. Fails with [`Error::RangeGone`] when the
    /// range is gone.
    Range {
        /// Its range.
        id: RangeId,
        /// A part of it.
        epk: Option<EpkRange>,
    },
    /// A range of the hash line, whichever partitions hold it.
    Epk(EpkRange),
}

/// How much of a listing or query to return and where to continue.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    /// Most rows; `None` lets the server choose.
    pub items_max: Option<usize>,
    /// Token of the previous page.
    pub continuation: Option<String>,
    /// Where rows of an ordered query begin, if the caller knows that itself. The later one of this
    /// and the token counts.
    pub resume: Option<exec::RowPosition>,
    /// Whether a page ends where a range does, unless it must read all ranges.
    pub ends_with_range: bool,
    /// The name of the ordered index to use; no other is, even if this one serves nothing.
    pub index_hint: Option<String>,
    /// Whether the page reports how its rows were found.
    pub wants_report: bool,
    /// Whether the page reports the time of each of its steps.
    pub wants_times: bool,
    /// Whether the query calls user-defined functions, which may take long.
    pub runs_scripts: bool,
    /// Whether throughput has admitted it already, as a further page of the same request.
    pub is_admitted: bool,
}

/// One row of a page.
#[derive(Clone, Debug)]
pub enum Row {
    /// A whole item, whose text can be copied.
    Item(StoredItem),
    /// A projected value as JSON text.
    Json(Vec<u8>),
}

impl From<exec::Row<StoredItem>> for Row {
    fn from(row: exec::Row<StoredItem>) -> Self {
        match row {
            exec::Row::WholeItem(item) => Row::Item(item),
            exec::Row::Json(text) => Row::Json(text),
        }
    }
}

/// A page of a listing or query.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Token for the next page; absent when there is no more.
    pub continuation: Option<String>,
    /// What was read to fill it.
    pub retrieved: Retrieved,
    /// How its rows were found, if the client asked for that.
    pub report: Option<PageReport>,
    /// The time of each step, if the client asked for that.
    pub times: Option<PageTimes>,
}

/// How long filling a page took, without the wait for a thread, and the parts of that time. Times
/// that add up over items are measured on some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTimes {
    /// All of it.
    pub total: Duration,
    /// Determining which indexes could serve the query.
    pub optimizing: Duration,
    /// Choosing how rows are found.
    pub choosing: Duration,
    /// Reading indexes.
    pub index_lookup: Duration,
    /// Reading items from the store.
    pub loading: Duration,
    /// Built-in functions.
    pub system_functions: Duration,
    /// User-defined functions.
    pub user_functions: Duration,
}

impl PageTimes {
    /// Adds the times of another page.
    pub fn add(&mut self, other: PageTimes) {
        self.total += other.total;
        self.optimizing += other.optimizing;
        self.choosing += other.choosing;
        self.index_lookup += other.index_lookup;
        self.loading += other.loading;
        self.system_functions += other.system_functions;
        self.user_functions += other.user_functions;
    }
}

/// How the rows of a page are or were found.
#[derive(Clone, Debug)]
pub struct PageReport {
    /// The conditions of the filter, and what indexes know of each.
    pub conjuncts: Vec<Conjunct>,
    /// The paths that functions and aggregates of the select list are over.
    pub projected: Vec<Vec<Step>>,
    /// The items that the filter can keep, as far as indexes know.
    pub index_set: IndexSet,
    /// The access path that was chosen.
    pub access_path: AccessPathKind,
    /// The ordered index by which documents are found, if one is used.
    pub ordered_index: Option<String>,
    /// The ranges that were read, in order.
    pub ranges: Vec<RangeReport>,
}

/// A method to find rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessPathKind {
    /// Nothing has to be found: the query reads no items.
    NoItems,
    /// In the order of the hash line. Each range says whether an index named its items.
    InStorageOrder,
    /// The items that an index names are few enough to be sorted.
    Sorted,
    /// In the order that an index has.
    InIndexOrder(IndexOrder),
    /// Only the first item in the order that an index has is needed.
    FirstInIndexOrder(IndexOrder),
    /// Items are counted, not read.
    Counted,
}

/// An order that an index has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOrder {
    /// What its entries are sorted by.
    pub columns: Vec<(Vec<Step>, SortOrder)>,
    /// Whether it is a composite index.
    pub is_composite: bool,
    /// Whether only a part of it is scanned, because the filter accepts no other values.
    pub is_bounded: bool,
}

/// What was done in one range for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeReport {
    /// Which range.
    pub id: RangeId,
    /// Its range of the hash line.
    pub epk: EpkRange,
    /// Whether an index found its items; otherwise all items were scanned.
    pub is_indexed: bool,
    /// Items examined, and bytes of those that were read.
    pub scanned: Retrieved,
    /// Items read, and their bytes.
    pub read: Retrieved,
    /// Index entries examined.
    pub entries: u64,
    /// The composite index of the entries, if they belong to one.
    pub composite: Option<Composite>,
    /// What it cost.
    pub charge: Charge,
}

impl PageReport {
    /// The composite index that named items in a range, if one did.
    pub fn composite(&self) -> Option<&Composite> {
        self.ranges.iter().find_map(|range| range.composite.as_ref())
    }

    /// Whether an index was of use in at least one range.
    pub fn uses_index(&self) -> bool {
        self.ranges.iter().any(|range| range.is_indexed)
    }
}

/// How much a page read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retrieved {
    /// Items loaded.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}
