//! Finding items by their values: what is indexed, and the entries that are kept for it.
//!
//! Entries are written in the commit of their item ([`terms`] defines them) and name it by its
//! number and its identity, so a split or merge copies them as they are. [`rebuild`] brings them up
//! to date when a container's policy changes.

mod by_number;
mod cells;
mod composite;
mod definition;
mod find;
mod ordered;
mod path;
mod policy;
mod rebuild;
mod search;
mod source;
mod terms;
mod train;
mod vectors;
mod words;

use model::Value;
use model::order::TypeOrder;
use query::access::Step;
use query::fulltext::Language;

use crate::Error;
use crate::catalog::ContainerSpec;
use crate::item::SYSTEM_PROPERTIES;

pub(crate) use by_number::NumberedRows;
pub(crate) use composite::known_values;
pub(crate) use definition::{CompiledIndex, duplicate_of};
pub use definition::{DuplicateKey, OrderedColumn, OrderedIndexSpec};
pub(crate) use find::Posting;
pub(crate) use find::{Finder, PostingList};
pub(crate) use ordered::{Order, OrderedScan, ScanStart};
pub(crate) use path::PathHash;
pub use policy::{
    Composite, CompositeColumn, IndexedPaths, IndexingPolicy, PathPattern, TextIndex, VectorIndex,
};
pub(crate) use rebuild::{Progress, start as start_rebuilding};
pub(crate) use search::TextTotals;
pub(crate) use source::{OrderedRows, PostingRows, Rows};
pub(crate) use vectors::{Neighbor, VectorFinder};
pub(crate) use words::WordFinder;

pub use cells::Cells;
pub(crate) use terms::{TIME, Terms};

/// The order of the values in the entries of indexing policies and in unique keys, whatever the order
/// of the container is: a condition on them is about values of one type.
pub(crate) const TERM_ORDER: TypeOrder = TypeOrder::NoSql;

/// An indexing policy, ready to be applied.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) policy: IndexingPolicy,
    tree: IndexedPaths,
    /// Where geometries are indexed.
    geometries: IndexedPaths,
    pub(crate) ordered: Vec<CompiledIndex>,
}

impl Index {
    fn of(policy: &IndexingPolicy, spec: &ContainerSpec) -> Self {
        // Keys and ids are indexed whatever the policy says.
        let mut always: Vec<Vec<String>> =
            spec.partition_key.paths.iter().map(|path| path.segments().to_vec()).collect();
        always.push(vec!["id".to_owned()]);
        Self {
            policy: policy.clone(),
            tree: IndexedPaths::of(policy, &always),
            geometries: IndexedPaths::of_geometries(policy),
            ordered: policy.ordered.iter().map(CompiledIndex::of).collect(),
        }
    }

    pub(crate) fn paths(&self) -> &IndexedPaths {
        &self.tree
    }

    pub(crate) fn is_on(&self) -> bool {
        self.policy.is_on
    }

    /// Refuses an item that an ordered index can't have.
    pub(crate) fn check(&self, item: &Value) -> Result<(), Error> {
        self.ordered.iter().try_for_each(|index| index.keys(item).map(drop))
    }

    /// The values that an item holds in unique ordered indexes.
    pub(crate) fn unique_values(&self, item: &Value) -> Vec<Vec<u8>> {
        self.ordered.iter().flat_map(|index| index.unique_values(item)).collect()
    }

    /// Whether every value at a path has an entry.
    pub(crate) fn includes(&self, path: &[Step]) -> bool {
        match path {
            [Step::Name(name)] if name == TIME => self.is_on() && !self.policy.is_lean,
            [Step::Name(name), ..] if SYSTEM_PROPERTIES.contains(&name.as_str()) => false,
            [geometry @ .., Step::Cells(space)] => {
                *space == self.policy.space() && self.geometries.includes(geometry)
            }
            path => self.tree.includes(path),
        }
    }
}

/// The indexes of a container: the one of its policy, and those of former policies until all
/// entries are up to date.
#[derive(Clone, Debug)]
pub(crate) struct Indexes {
    /// Grows when the policy changes.
    pub(crate) version: u64,
    pub(crate) goal: Index,
    pub(crate) former: Vec<Index>,
}

impl Indexes {
    pub(crate) fn new(version: u64, spec: &ContainerSpec, former: &[IndexingPolicy]) -> Self {
        let goal = Index::of(&spec.indexing, spec);
        let former = former.iter().map(|policy| Index::of(policy, spec)).collect();
        Self { version, goal, former }
    }

    /// The indexes after the policy has changed to that of `spec`.
    pub(crate) fn succeeded_by(&self, spec: &ContainerSpec) -> Self {
        let mut former: Vec<IndexingPolicy> = Vec::new();
        for Index { policy, .. } in self.all() {
            if !policy.has_entries_of(&spec.indexing) && !former.contains(policy) {
                former.push(policy.clone());
            }
        }
        Self::new(self.version + 1, spec, &former)
    }

    /// The indexes once all entries are brought up to date.
    pub(crate) fn completed(&self) -> Self {
        Self { version: self.version, goal: self.goal.clone(), former: Vec::new() }
    }

    pub(crate) fn former_policies(&self) -> Vec<IndexingPolicy> {
        self.former.iter().map(|index| index.policy.clone()).collect()
    }

    /// Whether every value at a path has an entry, though some entries may still be missing.
    pub(crate) fn includes(&self, path: &[Step]) -> bool {
        self.all().all(|index| index.includes(path))
    }

    /// A composite index that is complete.
    pub(crate) fn has_composite(&self, composite: &Composite) -> bool {
        let is_kept = |index: &Index| index.is_on() && index.policy.composites.contains(composite);
        composite.is_sorted() && self.all().all(is_kept)
    }

    /// The path of texts in this language at these names, if its index is complete.
    pub(crate) fn text(&self, names: &[String], language: Language) -> Option<PathHash> {
        let is_it = |index: &TextIndex| index.path == names && index.language == language;
        let is_kept = |index: &Index| index.is_on() && index.policy.texts.iter().any(is_it);
        self.all().all(is_kept).then(|| search::path_of(names))
    }

    /// The index of the vectors at these names, if it is complete.
    pub(crate) fn vector(&self, names: &[String]) -> Option<&VectorIndex> {
        let goal = self.goal.policy.vectors.iter().find(|index| index.path == names)?;
        let is_kept = |index: &Index| index.is_on() && index.policy.vectors.contains(goal);
        self.all().all(is_kept).then_some(goal)
    }

    /// Whether an ordered index has all of its entries.
    pub(crate) fn has_ordered(&self, index: &CompiledIndex) -> bool {
        let is_it = |other: &CompiledIndex| other.number == index.number;
        self.all().all(|index| index.ordered.iter().any(is_it))
    }

    /// Whether the shapes of items can be used: the paths that they cover depend on the policy.
    pub(crate) fn has_shapes(&self) -> bool {
        self.former.is_empty() && self.goal.is_on() && !self.goal.policy.is_lean
    }

    /// Whether items can have entries at all.
    pub(crate) fn has_entries(&self) -> bool {
        self.all().any(|index| index.is_on() || !index.ordered.is_empty())
    }

    fn all(&self) -> impl Iterator<Item = &Index> {
        self.former.iter().chain([&self.goal])
    }

    /// The values that a stored item may hold in unique ordered indexes.
    pub(crate) fn unique_values(&self, item: &Value) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> =
            self.all().flat_map(|index| index.unique_values(item)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Every entry that a stored item may have.
    pub(crate) fn terms_to_remove(&self, item: &Value, ts: u64) -> Terms {
        let terms = self.goal.terms_at(item, ts);
        self.former.iter().fold(terms, |all, index| all.union(&index.terms_at(item, ts)))
    }

    /// The entries that a stored item is to have, those that it has already for certain, and every
    /// entry that it may have.
    pub(crate) fn terms_of_stored(&self, item: &Value, ts: u64) -> (Terms, Terms, Terms) {
        let wanted = self.goal.terms_at(item, ts);
        let (mut kept, mut all) = (wanted.clone(), wanted.clone());
        for former in &self.former {
            let terms = former.terms_at(item, ts);
            kept = kept.common(&terms);
            all = all.union(&terms);
        }
        (wanted, kept, all)
    }

    /// The entries that a stored item must have.
    pub(crate) fn terms_to_have(&self, item: &Value, ts: u64) -> Terms {
        let terms = self.goal.terms_at(item, ts);
        self.former.iter().fold(terms, |all, index| all.common(&index.terms_at(item, ts)))
    }
}
