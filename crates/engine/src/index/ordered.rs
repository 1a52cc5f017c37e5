//! Items in the order of their values, from an index that has that order.
//!
//! An index keeps values up to a certain length only, and of arrays and objects only their tag.
//! Entries that it can't tell apart, a *class*, are sorted by reading their items. Items without a
//! value have no entry; they are found by their shapes.

use std::collections::{BinaryHeap, VecDeque};
use std::ops::Bound;

use model::json::FieldMask;
use model::order::bounds::{ABOVE_ALL, WHOLE_STRING_BYTES_MAX};
use model::order::{self, Tag};
use model::{PartitionId, Value};
use query::access::{ByteRange, Step};
use query::document::index_bounds::{IndexBounds, IndexState, SortUse};
use query::document::index_keys::{ColumnKind, FirstKey, IndexColumn, OrderedIndex};
use query::exec::IndexStart;
use query::plan::SortOrder;
use storage::{Cursor, Dir, KeyRange, View};

use super::{CompiledIndex, Composite, Indexes, PathHash, TERM_ORDER, TIME};
use crate::Error;
use crate::keys;
use crate::ops::IndexOrder;
use crate::partition::{FetchedRow, ScanContext, ScanStats};

/// Entries that are equal up to this length may differ in what was cut.
const CLASS_BYTES: usize = order::STRING_BYTES_MAX;
const ARRAY: u8 = Tag::Array.byte(TERM_ORDER);
const OBJECT: u8 = Tag::Object.byte(TERM_ORDER);
const UNDEFINED: u8 = Tag::Undefined.byte(TERM_ORDER);
/// Most items of a class that are sorted for one page.
const CLASS_ITEMS_MAX: usize = 1_000;
/// Most bytes of their sort keys.
const CLASS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Equal values that are reversed at once when their ties go against the scan.
const RUN_MAX: usize = 256;
/// With more shapes than this, finding items without a value is no better than reading all items.
const SHAPES_MAX: usize = 64;

/// A sort order that an index has.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The bytes that its entries begin with.
    prefix: Vec<u8>,
    is_reverse: bool,
    /// Whether items with equal values come in falling order of their numbers.
    has_falling_ties: bool,
    /// The values to return, in ascending order of entries.
    ranges: Vec<ByteRange>,
    columns: Vec<(Vec<Step>, SortOrder)>,
    /// Whether items without a value, which have no entry, are returned too.
    wants_undefined: bool,
    is_composite: bool,
    /// The order of an ordered index of documents.
    documents: Option<DocumentOrder>,
}

/// How an ordered index of documents is scanned.
#[derive(Clone, Debug)]
struct DocumentOrder {
    index: OrderedIndex,
    /// The first column of the order; those before have one value each.
    first: usize,
    /// Whether a document may have several entries, of which only the first in the scan counts.
    has_repetitions: bool,
    /// What has to be read of a document for its keys.
    fields: FieldMask,
}

impl Order {
    /// The order of an ordered index, of which the scan is to return the documents within `bounds`
    /// sorted by all columns from one on; `None` if the index has another order.
    pub(crate) fn of_documents(
        index: &CompiledIndex,
        state: &IndexState<'_>,
        bounds: &IndexBounds,
        sort: &[IndexColumn],
    ) -> Option<Self> {
        let SortUse { has_repetitions, .. } = state.sort_use(bounds, sort)?;
        let columns = &index.index.columns;
        let paths_are = |columns: &[IndexColumn]| {
            columns.len() == sort.len()
                && columns.iter().zip(sort).all(|(c, key)| c.path == key.path)
        };
        // Positions between pages have the values of the sort, so the entries must have just those.
        let first = [bounds.fixed, 0]
            .into_iter()
            .find(|first| columns.get(*first..).is_some_and(paths_are))?;
        let kinds = || columns.iter().skip(first).zip(sort);
        let is_reverse = !kinds().all(|(column, key)| column.kind == key.kind);
        if is_reverse && !kinds().all(|(column, key)| column.kind == key.kind.opposite()) {
            return None;
        }
        let fixed = if first == 0 { &[][..] } else { &bounds.prefix };
        let within = |range: &ByteRange| {
            let (lo, hi) = (range.lo.strip_prefix(fixed)?, range.hi.strip_prefix(fixed)?);
            Some(ByteRange { lo: lo.to_vec(), hi: hi.to_vec() })
        };
        let ranges = bounds.ranges.iter().map(within).collect::<Option<Vec<_>>>()?;
        let mut fields = FieldMask::NOTHING;
        index.index.require(&mut fields);
        let directions = sort.iter().map(|key| {
            let names = key.path.parts().iter().map(|part| Step::Name(part.name.clone()));
            let order = match key.kind {
                ColumnKind::Descending => SortOrder::Descending,
                ColumnKind::Ascending | ColumnKind::Hashed => SortOrder::Ascending,
            };
            (names.collect(), order)
        });
        let documents =
            DocumentOrder { index: index.index.clone(), first, has_repetitions, fields };
        Some(Self {
            prefix: [index.prefix().as_slice(), fixed].concat(),
            is_reverse,
            has_falling_ties: sort.first().is_some_and(|key| key.kind == ColumnKind::Descending),
            ranges,
            columns: directions.collect(),
            wants_undefined: false,
            is_composite: true,
            documents: Some(documents),
        })
    }

    /// The key that comes first among those of a document, if this is an order of documents.
    fn first_key(&self, row: &FetchedRow) -> Option<FirstKey> {
        let documents = self.documents.as_ref()?;
        let document = query::exec::Item::read(row, &documents.fields).ok()?;
        documents.index.first_key(&document, documents.first, self.is_reverse).ok()
    }

    /// The index order that rows sorted by `columns` have, if there is one. With `ranges`, only
    /// items whose first column is in one of them are returned.
    pub(crate) fn of(
        indexes: &Indexes,
        columns: Vec<(Vec<Step>, SortOrder)>,
        ranges: Option<&[ByteRange]>,
    ) -> Option<Self> {
        let (first, direction) = columns.first()?;
        let has_falling_ties = *direction == SortOrder::Descending;
        let mut prefix = Vec::with_capacity(9);
        if columns.len() == 1 {
            if !indexes.includes(first) {
                return None;
            }
            keys::push_path_term(PathHash::of(first), &mut prefix);
            let is_time = matches!(&first[..], [Step::Name(name)] if name == TIME);
            let wants_undefined = ranges.is_none() && !is_time;
            if wants_undefined && !indexes.has_shapes() {
                return None;
            }
            let ranges = ranges.map_or_else(everything, <[_]>::to_vec);
            return Some(Self {
                prefix,
                is_reverse: has_falling_ties,
                has_falling_ties,
                ranges,
                columns,
                wants_undefined,
                is_composite: false,
                documents: None,
            });
        }
        let (composite, is_reverse) = composite_for(indexes, &columns)?;
        keys::push_composite_term(composite.number(), &mut prefix);
        // Descending columns are stored complemented.
        let is_ascending = composite.columns.first().is_some_and(|c| !c.is_descending);
        let ranges = ranges.filter(|_| is_ascending).map_or_else(everything, <[_]>::to_vec);
        Some(Self {
            prefix,
            is_reverse,
            has_falling_ties,
            ranges,
            columns,
            wants_undefined: false,
            is_composite: true,
            documents: None,
        })
    }

    /// The same, for the report to the client.
    pub(crate) fn described(&self) -> IndexOrder {
        IndexOrder {
            columns: self.columns.clone(),
            is_composite: self.is_composite,
            is_bounded: self.ranges != everything(),
        }
    }

    /// Whether the index can return a partition's items in this order.
    pub(crate) fn is_known(
        &self,
        view: &dyn View,
        partition: PartitionId,
        stats: &ScanStats,
    ) -> Result<bool, Error> {
        if !self.is_composite && !self.has_few_insides(view, partition, stats)? {
            return Ok(false);
        }
        if !self.wants_undefined {
            return Ok(true);
        }
        let mut shapes = 0;
        for_each_shape(view, partition, stats, &mut |_, _| {
            shapes += 1;
            Ok(shapes <= SHAPES_MAX)
        })?;
        Ok(shapes <= SHAPES_MAX)
    }

    /// Whether few values are arrays and objects, which must be read to be sorted.
    fn has_few_insides(
        &self,
        view: &dyn View,
        partition: PartitionId,
        stats: &ScanStats,
    ) -> Result<bool, Error> {
        let lo = [self.prefix.as_slice(), &[ARRAY]].concat();
        let hi = [self.prefix.as_slice(), &[OBJECT + 1]].concat();
        let mut cursor = view.scan(partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
        for _ in 0..CLASS_ITEMS_MAX {
            if cursor.next()?.is_none() {
                return Ok(true);
            }
            stats.note_entry();
        }
        Ok(false)
    }

    /// Orders items with the same sort key.
    fn tie_of(&self, number: u64) -> u64 {
        match self.has_falling_ties {
            true => !number,
            false => number,
        }
    }

    /// The number of the item that has a tie.
    fn number_of(&self, tie: u64) -> u64 {
        self.tie_of(tie)
    }

    /// Whether equal values lie against the order of their ties.
    fn must_reverse_ties(&self) -> bool {
        self.is_reverse != self.has_falling_ties
    }

    /// The sort key of rows whose entry has `value`.
    fn sort_key(&self, value: &[u8]) -> Vec<u8> {
        match self.is_reverse {
            false => value.to_vec(),
            true => value.iter().map(|byte| !byte).collect(),
        }
    }

    /// The bytes that entries of the same class begin with; `None` if `value` is whole.
    fn class<'e>(&self, value: &'e [u8]) -> Option<&'e [u8]> {
        match value {
            [ARRAY | OBJECT] if !self.is_composite => Some(value),
            // In a longer one a value may be cut.
            long if long.len() > WHOLE_STRING_BYTES_MAX => long.get(..CLASS_BYTES),
            _ => None,
        }
    }
}

fn everything() -> Vec<ByteRange> {
    vec![ByteRange { lo: Vec::new(), hi: vec![ABOVE_ALL] }]
}

/// The composite index over just these columns, and whether it is to be scanned backwards.
fn composite_for<'i>(
    indexes: &'i Indexes,
    columns: &[(Vec<Step>, SortOrder)],
) -> Option<(&'i Composite, bool)> {
    let fits = |composite: &Composite, is_reverse: bool| {
        composite.columns.len() == columns.len()
            && composite.columns.iter().zip(columns).all(|(column, (path, order))| {
                column.is_path(path) && (column.order() == *order) != is_reverse
            })
    };
    let complete = indexes.goal.policy.composites.iter().filter(|c| indexes.has_composite(c));
    complete
        .flat_map(|composite| [(composite, false), (composite, true)])
        .find(|(composite, is_reverse)| fits(composite, *is_reverse))
}

/// An item in the order of the scan, by its sort key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) tie: u64,
    pub(crate) identity: Vec<u8>,
}

/// Where a scan begins: at a sort key, or the beginning of one, and a tie.
#[derive(Clone, Debug)]
pub(crate) struct ScanStart<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) tie: u64,
    /// The same position in the index.
    pub(crate) in_index: IndexStart,
}

/// A scan over a partition's items in the order of an index.
pub(crate) struct OrderedScan<'v> {
    order: &'v Order,
    context: ScanContext<'v>,
    stages: VecDeque<Stage<'v>>,
    /// Entries in order, before all that are still to be read.
    ready: VecDeque<Entry>,
    start: Option<(Vec<u8>, u64)>,
    /// Whether some items of a class were left out, so that no later entry can be returned.
    is_cut_short: bool,
}

enum Stage<'v> {
    /// Items without a value, by shape.
    Undefined(Vec<ShapeScan<'v>>),
    /// Entries of a range of values.
    Entries(ValueScan<'v>),
    /// Entries with one value, which are scanned in the opposite direction.
    Run { value: Vec<u8>, cursor: Box<dyn Cursor + Send + 'v> },
}

/// The result of one step of a scan over values.
enum ValueStep<'v> {
    Entry(Entry),
    /// Entries were put into `ready`.
    Ready,
    /// A scan of the entries that come before all others.
    Run(Stage<'v>),
    End,
}

struct ValueScan<'v> {
    lo: Vec<u8>,
    hi: Vec<u8>,
    cursor: Box<dyn Cursor + Send + 'v>,
    /// Read, but not returned yet.
    next: Option<RawEntry>,
}

/// An entry as it is stored.
struct RawEntry {
    value: Vec<u8>,
    number: u64,
    identity: Vec<u8>,
}

struct ShapeScan<'v> {
    shape: Vec<u8>,
    cursor: Box<dyn Cursor + Send + 'v>,
    next: Option<(u64, Vec<u8>)>,
}

/// The next result of a scan.
pub(crate) enum NextEntry {
    Entry(Entry),
    /// There is more, but not for this page.
    CutShort,
    End,
}

impl<'v> OrderedScan<'v> {
    /// A scan that begins at `start`, or a little before.
    pub(crate) fn new(
        order: &'v Order,
        context: ScanContext<'v>,
        start: Option<&ScanStart<'_>>,
    ) -> Result<Self, Error> {
        let mut scan = Self {
            order,
            context,
            stages: VecDeque::new(),
            ready: VecDeque::new(),
            start: start.map(|start| (start.key.to_vec(), start.tie)),
            is_cut_short: false,
        };
        let mut ranges: Vec<_> = order.ranges.iter().collect();
        if order.is_reverse {
            ranges.reverse();
        }
        for range in ranges {
            if let Some(values) = scan.open_values(range, start)? {
                scan.stages.push_back(Stage::Entries(values));
            }
        }
        if order.wants_undefined {
            let undefined = order.sort_key(&[UNDEFINED]);
            let is_passed =
                start.is_some_and(|start| start.key > undefined.as_slice() && !order.is_reverse);
            if !is_passed {
                let from = start
                    .filter(|start| start.key == undefined.as_slice())
                    .map_or(0, |start| start.tie);
                let stage = Stage::Undefined(scan.open_shapes(from)?);
                match order.is_reverse {
                    false => scan.stages.push_front(stage),
                    true => scan.stages.push_back(stage),
                }
            }
        }
        Ok(scan)
    }

    /// The entries of a range that are not before `start`; `None` if all are before it.
    fn open_values(
        &self,
        range: &ByteRange,
        start: Option<&ScanStart<'_>>,
    ) -> Result<Option<ValueScan<'v>>, Error> {
        let prefix = &self.order.prefix;
        let mut lo = [prefix.as_slice(), &range.lo].concat();
        let mut hi = [prefix.as_slice(), &range.hi].concat();
        if let Some(start) = start {
            let IndexStart { key, tie } = &match self.order.documents {
                // What is cut in entries is equal up to here.
                Some(_) => IndexStart {
                    key: start.key.get(..CLASS_BYTES).unwrap_or(start.key).to_vec(),
                    tie: if start.key.len() <= CLASS_BYTES { start.tie } else { 0 },
                },
                None => start.in_index.clone(),
            };
            let mut at = [prefix.as_slice(), &self.order.sort_key(key)].concat();
            // Ties that go against the scan are put in order behind this.
            if *tie > 0 && !self.order.must_reverse_ties() {
                at.extend_from_slice(&self.order.number_of(*tie).to_be_bytes());
            }
            match self.order.is_reverse {
                false => lo = lo.max(at),
                true => hi = hi.min(keys::successor(&at)),
            }
        }
        if lo >= hi {
            return Ok(None);
        }
        let dir = if self.order.is_reverse { Dir::Rev } else { Dir::Fwd };
        let range = KeyRange::half_open(&lo, &hi);
        let cursor = self.context.view.scan(self.context.partition, range, dir)?;
        Ok(Some(ValueScan { lo, hi, cursor, next: None }))
    }

    /// The items of all shapes without a value, from the tie `from` on.
    fn open_shapes(&self, from: u64) -> Result<Vec<ShapeScan<'v>>, Error> {
        let ScanContext { view, partition, stats, .. } = self.context;
        let mut scans = Vec::new();
        for_each_shape(view, partition, stats, &mut |shape, identity| {
            if !self.has_value(identity)? {
                let first = [shape, &self.order.number_of(from).to_be_bytes()].concat();
                let first = Bound::Included(first.as_slice());
                let (range, dir) = match self.order.has_falling_ties {
                    false => (KeyRange { lo: first, hi: Bound::Unbounded }, Dir::Fwd),
                    true => (KeyRange { lo: Bound::Included(shape), hi: first }, Dir::Rev),
                };
                let cursor = view.scan(partition, range, dir)?;
                scans.push(ShapeScan { shape: shape.to_vec(), cursor, next: None });
            }
            Ok(true)
        })?;
        Ok(scans)
    }

    /// Whether an item has a value to sort by, and with it all items of its shape.
    fn has_value(&self, identity: &[u8]) -> Result<bool, Error> {
        let Some((path, _)) = self.order.columns.first() else { return Ok(false) };
        let row = self.context.fetch(identity)?;
        Ok(row.is_some_and(|row| value_at(&row, path).is_some()))
    }

    fn is_within(&self, identity: &[u8]) -> bool {
        self.context
            .within
            .is_none_or(|(lo, hi)| lo.as_slice() <= identity && identity < hi.as_slice())
    }

    /// The next entry that is not before the start.
    pub(crate) fn next(&mut self) -> Result<NextEntry, Error> {
        loop {
            let next = self.advance()?;
            match &next {
                NextEntry::Entry(entry) if self.is_before_start(entry) => {}
                NextEntry::Entry(_) | NextEntry::CutShort | NextEntry::End => return Ok(next),
            }
        }
    }

    fn is_before_start(&self, entry: &Entry) -> bool {
        self.start
            .as_ref()
            .is_some_and(|(key, tie)| (entry.key.as_slice(), entry.tie) < (key.as_slice(), *tie))
    }

    fn advance(&mut self) -> Result<NextEntry, Error> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(NextEntry::Entry(entry));
            }
            if self.is_cut_short {
                return Ok(NextEntry::CutShort);
            }
            let Some(mut stage) = self.stages.pop_front() else { return Ok(NextEntry::End) };
            let entry = match &mut stage {
                Stage::Undefined(shapes) => self.next_undefined(shapes)?,
                Stage::Run { value, cursor } => self.next_of_run(value, cursor.as_mut())?,
                Stage::Entries(values) => {
                    match self.next_of_values(values)? {
                        ValueStep::Entry(entry) => {
                            self.stages.push_front(stage);
                            return Ok(NextEntry::Entry(entry));
                        }
                        ValueStep::Ready => self.stages.push_front(stage),
                        ValueStep::Run(run) => {
                            self.stages.push_front(stage);
                            self.stages.push_front(run);
                        }
                        ValueStep::End => {}
                    }
                    continue;
                }
            };
            if let Some(entry) = entry {
                self.stages.push_front(stage);
                return Ok(NextEntry::Entry(entry));
            }
        }
    }

    fn next_undefined(&self, shapes: &mut [ShapeScan<'v>]) -> Result<Option<Entry>, Error> {
        for shape in shapes.iter_mut().filter(|shape| shape.next.is_none()) {
            while let Some((key, identity)) = shape.cursor.next()? {
                let (term, number) = split(key)?;
                if term != shape.shape {
                    break;
                }
                self.context.stats.note_entry();
                if self.is_within(identity) {
                    shape.next = Some((self.order.tie_of(number), identity.to_vec()));
                    break;
                }
            }
        }
        let least = shapes.iter_mut().filter(|shape| shape.next.is_some());
        let least = least.min_by_key(|shape| shape.next.as_ref().map(|(tie, _)| *tie));
        Ok(least.and_then(|shape| shape.next.take()).map(|(tie, identity)| Entry {
            key: self.order.sort_key(&[UNDEFINED]),
            tie,
            identity,
        }))
    }

    fn next_of_run(
        &self,
        value: &[u8],
        cursor: &mut (dyn Cursor + Send + 'v),
    ) -> Result<Option<Entry>, Error> {
        while let Some((key, identity)) = cursor.next()? {
            self.context.stats.note_entry();
            let (_, number) = split(key)?;
            if self.is_within(identity) {
                let key = self.order.sort_key(value);
                let tie = self.order.tie_of(number);
                return Ok(Some(Entry { key, tie, identity: identity.to_vec() }));
            }
        }
        Ok(None)
    }

    fn next_of_values(&mut self, values: &mut ValueScan<'v>) -> Result<ValueStep<'v>, Error> {
        let Some(first) = self.next_raw_entry(values)? else { return Ok(ValueStep::End) };
        if let Some(class) = self.order.class(&first.value) {
            let class = class.to_vec();
            self.put_class_in_order(values, first, &class)?;
            return Ok(ValueStep::Ready);
        }
        if !self.order.must_reverse_ties() {
            let RawEntry { mut value, number, identity } = first;
            if self.order.is_reverse {
                value.iter_mut().for_each(|byte| *byte = !*byte);
            }
            let tie = self.order.tie_of(number);
            return Ok(ValueStep::Entry(Entry { key: value, tie, identity }));
        }
        let value = first.value.clone();
        let mut run = vec![first];
        while run.len() <= RUN_MAX {
            match self.next_raw_entry(values)? {
                Some(raw_entry) if raw_entry.value == value => run.push(raw_entry),
                other => {
                    values.next = other;
                    break;
                }
            }
        }
        if run.len() > RUN_MAX {
            return self.scan_run_against(values, value).map(ValueStep::Run);
        }
        let key = self.order.sort_key(&value);
        let order = self.order;
        self.ready.extend(run.into_iter().rev().map(|raw_entry| Entry {
            key: key.clone(),
            tie: order.tie_of(raw_entry.number),
            identity: raw_entry.identity,
        }));
        Ok(ValueStep::Ready)
    }

    /// Leaves the entries of a value to a scan in the other direction, and continues beyond them.
    fn scan_run_against(
        &self,
        values: &mut ValueScan<'v>,
        value: Vec<u8>,
    ) -> Result<Stage<'v>, Error> {
        let ScanContext { view, partition, .. } = self.context;
        let first = [self.order.prefix.as_slice(), &value].concat();
        let end = keys::successor(&first);
        let from = match &self.start {
            Some((key, tie)) if *key == self.order.sort_key(&value) => {
                Some([first.as_slice(), &self.order.number_of(*tie).to_be_bytes()].concat())
            }
            _ => None,
        };
        values.next = None;
        let cursor = match self.order.is_reverse {
            true => {
                let rest = KeyRange::half_open(&values.lo, &first);
                values.cursor = view.scan(partition, rest, Dir::Rev)?;
                let lo = from.as_deref().unwrap_or(&first);
                view.scan(partition, KeyRange::half_open(lo, &end), Dir::Fwd)?
            }
            false => {
                let rest = KeyRange::half_open(&end, &values.hi);
                values.cursor = view.scan(partition, rest, Dir::Fwd)?;
                let hi = from.map_or_else(|| end.clone(), |from| keys::successor(&from));
                view.scan(partition, KeyRange::half_open(&first, &hi), Dir::Rev)?
            }
        };
        Ok(Stage::Run { value, cursor })
    }

    fn next_raw_entry(&self, values: &mut ValueScan<'v>) -> Result<Option<RawEntry>, Error> {
        if let Some(raw_entry) = values.next.take() {
            return Ok(Some(raw_entry));
        }
        while let Some((key, identity)) = values.cursor.next()? {
            self.context.stats.note_entry();
            if !self.is_within(identity) {
                continue;
            }
            let (term, number) = split(key)?;
            let value = term.get(self.order.prefix.len()..).unwrap_or_default().to_vec();
            if self.order.documents.as_ref().is_some_and(|documents| documents.has_repetitions) {
                let row = self.context.fetch(identity)?;
                let first = row.and_then(|row| self.order.first_key(&row));
                if first.is_none_or(|first| first.stored != value) {
                    continue;
                }
            }
            return Ok(Some(RawEntry { value, number, identity: identity.to_vec() }));
        }
        Ok(None)
    }

    /// Sorts a class and adds its first items that are not before the start to `ready`.
    fn put_class_in_order(
        &mut self,
        values: &mut ValueScan<'v>,
        first: RawEntry,
        class: &[u8],
    ) -> Result<(), Error> {
        let mut kept: BinaryHeap<Entry> = BinaryHeap::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(raw_entry) = next {
            if !raw_entry.value.starts_with(class) {
                values.next = Some(raw_entry);
                break;
            }
            let row = self.context.fetch(&raw_entry.identity)?;
            if let Some(row) = self.context.live(row) {
                let key = self.true_key(&row);
                let tie = self.order.tie_of(raw_entry.number);
                let entry = Entry { key, tie, identity: raw_entry.identity };
                if !self.is_before_start(&entry) {
                    bytes += entry.key.len();
                    kept.push(entry);
                }
            }
            while kept.len() > 1 && (kept.len() > CLASS_ITEMS_MAX || bytes > CLASS_BYTES_MAX) {
                bytes -= kept.pop().map_or(0, |entry| entry.key.len());
                self.is_cut_short = true;
            }
            next = self.next_raw_entry(values)?;
        }
        self.ready.extend(kept.into_sorted_vec());
        Ok(())
    }

    /// The sort key of an item with its values in full length.
    fn true_key(&self, row: &FetchedRow) -> Vec<u8> {
        if self.order.documents.is_some() {
            return self.order.first_key(row).map(|first| first.sorted).unwrap_or_default();
        }
        let mut key = Vec::new();
        for (path, direction) in &self.order.columns {
            let value = value_at(row, path);
            let from = key.len();
            order::encode_whole(TERM_ORDER, value.as_ref(), &mut key);
            if *direction == SortOrder::Descending {
                key[from..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        key
    }
}

/// Receives the term of a shape and the identity of an item; returns whether to continue.
type VisitShape<'v> = dyn FnMut(&[u8], &[u8]) -> Result<bool, Error> + 'v;

/// Calls `visit` with the term of each shape and the identity of one item that has it, until it
/// returns false.
fn for_each_shape(
    view: &dyn View,
    partition: PartitionId,
    stats: &ScanStats,
    visit: &mut VisitShape<'_>,
) -> Result<(), Error> {
    let (lo, hi) = keys::SHAPE_BOUNDS;
    let mut cursor = view.scan(partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
    loop {
        let Some((key, identity)) = cursor.next()? else { return Ok(()) };
        stats.note_entry();
        let (shape, _) = split(key)?;
        if !visit(shape, identity)? {
            return Ok(());
        }
        let next = keys::successor(shape);
        cursor.seek(&next)?;
    }
}

/// The value of an item at a path of names.
fn value_at(row: &FetchedRow, path: &[Step]) -> Option<Value> {
    let mut names = Vec::with_capacity(path.len());
    for step in path {
        match step {
            Step::Name(name) => names.push(name.clone()),
            Step::Elements | Step::Cells(_) => return None,
        }
    }
    let mut field_mask = FieldMask::NOTHING;
    field_mask.add(&names, FieldMask::All);
    let item = query::exec::Item::read(row, &field_mask).ok()?;
    names.iter().try_fold(&item, |at, name| at.field(name)).cloned()
}

fn split(key: &[u8]) -> Result<(&[u8], u64), Error> {
    keys::split_index_entry(key)
        .ok_or_else(|| Error::Internal("an index entry can't be read".into()))
}
