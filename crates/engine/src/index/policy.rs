//! The indexing policy of a container.

use std::collections::BTreeMap;

use query::access::Step;
use query::fulltext::Language;
use query::functions::spatial::Geospatial;
use query::plan::SortOrder;
use query::vector::VectorMetric;
use serde::{Deserialize, Serialize};

use super::TIME;
use super::cells::Cells;
use super::definition::OrderedIndexSpec;
use super::path::PathHash;
use crate::item::SYSTEM_PROPERTIES;

/// The indexing policy of a container, as its owner set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexingPolicy {
    /// Whether anything is indexed.
    pub is_on: bool,
    /// Paths whose values are indexed.
    pub included: Vec<PathPattern>,
    /// Paths whose values are not indexed.
    pub excluded: Vec<PathPattern>,
    /// Lists of paths whose values are indexed together.
    pub composites: Vec<Composite>,
    /// Whether the time of an item's last change and its shape are left out of the index. For items
    /// that are found by their keys, where every write would pay for both.
    #[serde(default)]
    pub is_lean: bool,
    /// Paths whose geometries are indexed.
    #[serde(default)]
    pub spatial: Vec<PathPattern>,
    /// Whether geometries are on a plane, not on the globe.
    #[serde(default)]
    pub is_on_plane: bool,
    /// Paths whose texts are indexed by their words.
    #[serde(default)]
    pub texts: Vec<TextIndex>,
    /// Paths whose vectors are indexed.
    #[serde(default)]
    pub vectors: Vec<VectorIndex>,
    /// Ordered indexes of a collection. They are kept whether or not anything else is indexed.
    #[serde(default)]
    pub ordered: Vec<OrderedIndexSpec>,
}

/// A path whose texts are indexed by their words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextIndex {
    /// Names from the root.
    pub path: Vec<String>,
    /// The language of the texts.
    pub language: Language,
}

/// A path whose vectors are indexed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorIndex {
    /// Names from the root.
    pub path: Vec<String>,
    /// How many numbers the vectors have; others are not indexed.
    pub dimensions: usize,
    /// How their distance is measured.
    pub metric: VectorMetric,
    /// Whether a query compares all of them, however many there are.
    pub is_exact: bool,
    /// Their cells, once there are enough vectors to make them from.
    #[serde(default)]
    pub cells: Option<Cells>,
}

/// A set of paths of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPattern {
    /// From the root; `None` is a step to all elements of an array.
    pub steps: Vec<Option<String>>,
    /// Whether all paths below are included too.
    pub is_subtree: bool,
}

/// Paths whose values are indexed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composite {
    /// The paths, by names.
    pub columns: Vec<CompositeColumn>,
}

/// A path of a composite index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompositeColumn {
    /// Names from the root.
    pub path: Vec<String>,
    /// Whether its values are in descending order.
    pub is_descending: bool,
}

impl CompositeColumn {
    /// The order of its values.
    pub fn order(&self) -> SortOrder {
        match self.is_descending {
            true => SortOrder::Descending,
            false => SortOrder::Ascending,
        }
    }

    /// Whether it has this path.
    pub fn is_path(&self, path: &[Step]) -> bool {
        let names = path.iter().map(|step| match step {
            Step::Name(name) => Some(name),
            Step::Elements | Step::Cells(_) => None,
        });
        names.eq(self.path.iter().map(Some))
    }
}

impl Composite {
    /// Whether its entries hold the values that queries read. Of the system properties only the
    /// time of the last change is indexed, and only once.
    pub(crate) fn is_sorted(&self) -> bool {
        let is_system = |column: &&CompositeColumn| {
            column.path.first().is_some_and(|name| SYSTEM_PROPERTIES.contains(&name.as_str()))
        };
        let mut system = self.columns.iter().filter(is_system);
        match (system.next(), system.next()) {
            (None, _) => true,
            (Some(only), None) => only.path == [TIME],
            (Some(_), Some(_)) => false,
        }
    }

    /// Distinguishes its entries from those of other composite indexes.
    pub(crate) fn number(&self) -> u64 {
        let column = |at: PathHash, column: &CompositeColumn| {
            let names = column.path.iter().fold(at, |at, name| at.name(name));
            names.name(if column.is_descending { "descending" } else { "ascending" }).elements()
        };
        self.columns.iter().fold(PathHash::ROOT.elements(), column).number()
    }
}

impl Default for IndexingPolicy {
    /// Indexes everything.
    fn default() -> Self {
        Self {
            is_on: true,
            included: vec![PathPattern { steps: Vec::new(), is_subtree: true }],
            ..Self::none()
        }
    }
}

impl IndexingPolicy {
    /// The same policy with what is not set with it: the cells that `old` has for the same vectors,
    /// and its ordered indexes.
    #[must_use]
    pub(crate) fn with_cells_of(mut self, old: &Self) -> Self {
        for index in &mut self.vectors {
            let same = |old: &&VectorIndex| VectorIndex { cells: None, ..(*old).clone() } == *index;
            let known = old.vectors.iter().find(same).and_then(|old| old.cells.clone());
            index.cells = known;
        }
        self.ordered.clone_from(&old.ordered);
        self
    }

    /// Whether items have the same entries under both policies.
    pub(crate) fn has_entries_of(&self, other: &Self) -> bool {
        let same_ordered = self.ordered.len() == other.ordered.len()
            && self.ordered.iter().zip(&other.ordered).all(|(a, b)| a.has_keys_of(b));
        let without = |policy: &Self| Self { ordered: Vec::new(), ..policy.clone() };
        same_ordered && without(self) == without(other)
    }

    /// Indexes nothing.
    pub fn none() -> Self {
        Self {
            is_on: false,
            included: Vec::new(),
            excluded: Vec::new(),
            composites: Vec::new(),
            is_lean: false,
            texts: Vec::new(),
            vectors: Vec::new(),
            ordered: Vec::new(),
            spatial: Vec::new(),
            is_on_plane: false,
        }
    }

    /// The space of its geometries.
    pub(crate) fn space(&self) -> Geospatial {
        match self.is_on_plane {
            true => Geospatial::Geometry,
            false => Geospatial::Geography,
        }
    }
}

/// The paths that a policy indexes: a tree that is traversed beside an item.
#[derive(Clone, Debug, Default)]
pub struct IndexedPaths {
    /// Decides about the value at this path alone.
    value: Option<bool>,
    /// Decides about the value at this path and all below.
    subtree: Option<bool>,
    names: BTreeMap<String, IndexedPaths>,
    elements: Option<Box<IndexedPaths>>,
}

/// A position in an [`IndexedPaths`] during the traversal of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathCursor<'t> {
    tree: Option<&'t IndexedPaths>,
    /// The decision of the nearest subtree above.
    inherited: bool,
}

impl IndexedPaths {
    /// The paths of a policy, and the paths `always`. The more specific path wins; of equally long
    /// ones the path of the value alone wins.
    pub fn of(policy: &IndexingPolicy, always: &[Vec<String>]) -> Self {
        let mut tree = Self::default();
        if !policy.is_on {
            return tree;
        }
        for pattern in &policy.included {
            tree.add(&pattern.steps, pattern.is_subtree, true);
        }
        for pattern in &policy.excluded {
            tree.add(&pattern.steps, pattern.is_subtree, false);
        }
        for path in always {
            let steps: Vec<_> = path.iter().cloned().map(Some).collect();
            tree.add(&steps, false, true);
        }
        tree
    }

    /// The paths whose geometries a policy indexes.
    pub(crate) fn of_geometries(policy: &IndexingPolicy) -> Self {
        let mut tree = Self::default();
        let spatial = policy.spatial.iter().filter(|_| policy.is_on);
        spatial.for_each(|pattern| tree.add(&pattern.steps, pattern.is_subtree, true));
        tree
    }

    fn add(&mut self, steps: &[Option<String>], is_subtree: bool, is_included: bool) {
        match steps.split_first() {
            None if is_subtree => self.subtree = Some(is_included),
            None => self.value = Some(is_included),
            Some((Some(name), rest)) => {
                self.names.entry(name.clone()).or_default().add(rest, is_subtree, is_included);
            }
            Some((None, rest)) => {
                self.elements.get_or_insert_default().add(rest, is_subtree, is_included);
            }
        }
    }

    pub(crate) fn root(&self) -> PathCursor<'_> {
        PathCursor { tree: Some(self), inherited: self.subtree.unwrap_or(false) }
    }

    /// Whether values at a path are indexed.
    pub fn includes(&self, path: &[Step]) -> bool {
        self.root().at(path).includes_value()
    }

    /// Whether values at a path are indexed because a path of the policy names them, not because
    /// everything is indexed.
    pub fn includes_by_name(&self, path: &[Step]) -> bool {
        PathCursor { tree: Some(self), inherited: false }.at(path).includes_value()
    }
}

impl PathCursor<'_> {
    pub(crate) fn includes_value(&self) -> bool {
        self.tree.and_then(|tree| tree.value).unwrap_or(self.inherited)
    }

    /// Whether neither the value at this path nor any below can be indexed.
    pub(crate) fn is_over(&self) -> bool {
        self.tree.is_none() && !self.inherited
    }

    fn at(self, path: &[Step]) -> Self {
        path.iter().fold(self, |at, step| match step {
            Step::Name(name) => at.name(name),
            Step::Elements => at.elements(),
            // Another tree decides which geometries have cells.
            Step::Cells(_) => Self { tree: None, inherited: false },
        })
    }

    pub(crate) fn name(&self, name: &str) -> Self {
        self.step(self.tree.and_then(|tree| tree.names.get(name)))
    }

    pub(crate) fn elements(&self) -> Self {
        self.step(self.tree.and_then(|tree| tree.elements.as_deref()))
    }
}

impl<'t> PathCursor<'t> {
    fn step(&self, tree: Option<&'t IndexedPaths>) -> Self {
        let inherited = tree.and_then(|tree| tree.subtree).unwrap_or(self.inherited);
        Self { tree, inherited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> PathPattern {
        let (path, is_subtree) = match text.strip_suffix("/*") {
            Some(path) => (path, true),
            None => (text.strip_suffix("/?").unwrap(), false),
        };
        let step = |s: &str| (s != "[]").then(|| s.to_owned());
        PathPattern { steps: path.split('/').skip(1).map(step).collect(), is_subtree }
    }

    fn path(text: &str) -> Vec<Step> {
        let step = |s: &str| match s {
            "[]" => Step::Elements,
            name => Step::Name(name.to_owned()),
        };
        text.split('/').skip(1).map(step).collect()
    }

    #[test]
    fn the_more_specific_path_decides() {
        let policy = IndexingPolicy {
            included: ["/*", "/a/b/*", "/c/?", "/t/[]/x/?"].map(pattern).to_vec(),
            excluded: ["/a/*", "/a/b/d/?", "/c/*", "/t/*", "/e/?"].map(pattern).to_vec(),
            ..IndexingPolicy::default()
        };
        let tree = IndexedPaths::of(&policy, &[vec!["a".to_owned(), "key".to_owned()]]);
        for (text, is_included) in [
            ("/x", true),
            ("/x/[]/y", true),
            ("/a", false),
            ("/a/x", false),
            ("/a/key", true),
            ("/a/b", true),
            ("/a/b/c/d", true),
            ("/a/b/d", false),
            ("/a/b/d/e", true),
            ("/c", true),
            ("/c/d", false),
            ("/e", false),
            ("/e/f", true),
            ("/t/[]", false),
            ("/t/[]/x", true),
            ("/t/x", false),
        ] {
            assert_eq!(tree.includes(&path(text)), is_included, "{text}");
        }
    }

    #[test]
    fn nothing_is_included_where_indexing_is_off() {
        let tree = IndexedPaths::of(&IndexingPolicy::none(), &[vec!["id".to_owned()]]);
        assert!(!tree.includes(&path("/id")));
        assert!(tree.root().name("id").is_over());
    }

    #[test]
    fn composites_have_numbers_of_their_own() {
        let column = |path: &[&str], is_descending| CompositeColumn {
            path: path.iter().map(ToString::to_string).collect(),
            is_descending,
        };
        let a = column(&["a"], false);
        let b = column(&["b"], false);
        let lists = [
            vec![a.clone(), b.clone()],
            vec![b.clone(), a.clone()],
            vec![a.clone(), column(&["b"], true)],
            vec![column(&["a", "ascending"], false), b.clone()],
            vec![a, b.clone(), b],
        ];
        let mut numbers: Vec<_> =
            lists.iter().map(|l| Composite { columns: l.clone() }.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), lists.len());
    }
}
