//! Sets of items under construction, and how they combine.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::ranges::{hull, intersect, sort_and_join};
use super::{ByteRange, IndexSet, Step, Terms};

/// Most leaves of a set; conditions beyond restrict nothing.
const LEAVES_MAX: usize = 1000;
/// Most ranges of all leaves; those of a leaf that would exceed it become one.
const RANGES_MAX: usize = 20_000;

/// The items for which an expression may have a certain truth value.
#[derive(Clone, Debug)]
pub(super) struct CandidateSet {
    pub(super) set: Set,
    /// Whether the set contains no other items.
    pub(super) is_exact: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Set {
    Everything,
    Nothing,
    Leaf(Leaf),
    All(Vec<Set>),
    Any(Vec<Set>),
}

/// Items with a value in certain ranges.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: Vec<Step>,
    /// Leaves with the same number and path restrict the same value. Others may restrict different
    /// elements of an array.
    pub(super) value: Option<usize>,
    /// Sorted and disjoint, not empty.
    pub(super) ranges: Vec<ByteRange>,
    pub(super) is_exact: bool,
}

impl CandidateSet {
    /// Nothing is known.
    pub(super) const UNKNOWN: CandidateSet = CandidateSet { set: Set::Everything, is_exact: false };
    /// True for all items.
    pub(super) const ALWAYS: CandidateSet = CandidateSet { set: Set::Everything, is_exact: true };
    /// True for no item.
    pub(super) const NEVER: CandidateSet = CandidateSet { set: Set::Nothing, is_exact: true };

    pub(super) fn leaf(leaf: Leaf) -> Self {
        if leaf.ranges.is_empty() {
            return Self::NEVER;
        }
        let is_exact = leaf.is_exact;
        Self { set: Set::Leaf(leaf), is_exact }
    }

    /// The same set, which may have other items too.
    pub(super) fn inexact(self) -> Self {
        let is_exact = matches!(self.set, Set::Nothing);
        Self { is_exact, ..self }
    }

    /// The items for which all of `parts` hold.
    pub(super) fn all(parts: Vec<CandidateSet>) -> Self {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let mut kept = Vec::new();
        for part in parts {
            match part.set {
                Set::Everything => {}
                Set::Nothing => return Self::NEVER,
                Set::All(inner) => kept.extend(inner),
                other @ (Set::Leaf(_) | Set::Any(_)) => kept.push(other),
            }
        }
        match merge_all(kept) {
            Some(kept) => Self { set: joined(kept, Set::Everything, Set::All), is_exact },
            None => Self::NEVER,
        }
    }

    /// The items for which at least one of `parts` holds.
    pub(super) fn any(parts: Vec<CandidateSet>) -> Self {
        let is_exact = parts.iter().all(|part| part.is_exact);
        let mut kept = Vec::new();
        for part in parts {
            match part.set {
                Set::Everything => return Self { set: Set::Everything, is_exact: part.is_exact },
                Set::Nothing => {}
                Set::Any(inner) => kept.extend(inner),
                other @ (Set::Leaf(_) | Set::All(_)) => kept.push(other),
            }
        }
        Self { set: joined(merge_any(kept), Set::Nothing, Set::Any), is_exact }
    }

    /// The set in the form that planners use.
    pub(super) fn into_index_set(self) -> IndexSet {
        let mut budget = SizeBudget { leaves: LEAVES_MAX, ranges: RANGES_MAX };
        let (index_set, is_whole) = budget.index_set(self.set);
        let mut index_set = index_set.unwrap_or(IndexSet::Everything);
        if index_set.is_exact() && !(self.is_exact && is_whole) {
            index_set.mark_inexact();
        }
        index_set
    }
}

fn joined(mut parts: Vec<Set>, none: Set, many: fn(Vec<Set>) -> Set) -> Set {
    match parts.len() {
        0 => none,
        1 => parts.pop().unwrap_or(none),
        _ => many(parts),
    }
}

/// Intersects conditions on the same value; `None` if they contradict each other.
fn merge_all(parts: Vec<Set>) -> Option<Vec<Set>> {
    let mut leaves: BTreeMap<(usize, Vec<Step>), Leaf> = BTreeMap::new();
    let mut rest = Vec::new();
    for part in parts {
        match part {
            Set::Leaf(leaf @ Leaf { value: Some(value), .. }) => {
                match leaves.entry((value, leaf.path.clone())) {
                    Entry::Vacant(entry) => {
                        entry.insert(leaf);
                    }
                    Entry::Occupied(entry) => {
                        let known = entry.into_mut();
                        known.ranges = intersect(&known.ranges, &leaf.ranges);
                        known.is_exact &= leaf.is_exact;
                        if known.ranges.is_empty() {
                            return None;
                        }
                    }
                }
            }
            other @ (Set::Everything | Set::Nothing | Set::Leaf(_) | Set::All(_) | Set::Any(_)) => {
                rest.push(other);
            }
        }
    }
    Some(leaves.into_values().map(Set::Leaf).chain(rest).collect())
}

/// Merges conditions on the same path.
fn merge_any(parts: Vec<Set>) -> Vec<Set> {
    let mut leaves: BTreeMap<Vec<Step>, Leaf> = BTreeMap::new();
    let mut rest = Vec::new();
    for part in parts {
        match part {
            Set::Leaf(leaf) => match leaves.entry(leaf.path.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(leaf);
                }
                Entry::Occupied(entry) => {
                    let known = entry.into_mut();
                    known.ranges.extend(leaf.ranges);
                    known.is_exact &= leaf.is_exact;
                    known.value = known.value.filter(|value| leaf.value == Some(*value));
                }
            },
            other @ (Set::Everything | Set::Nothing | Set::All(_) | Set::Any(_)) => {
                rest.push(other)
            }
        }
    }
    let leaves = leaves.into_values().map(|mut leaf| {
        sort_and_join(&mut leaf.ranges);
        Set::Leaf(leaf)
    });
    leaves.chain(rest).collect()
}

/// What is left of the limits on the size of a set.
struct SizeBudget {
    leaves: usize,
    ranges: usize,
}

impl SizeBudget {
    /// The set as far as the limits allow, and whether that is all of it; `None` is everything.
    fn index_set(&mut self, set: Set) -> (Option<IndexSet>, bool) {
        match set {
            Set::Everything => (None, true),
            Set::Nothing => (Some(IndexSet::Nothing), true),
            Set::Leaf(leaf) => self.terms(leaf),
            Set::All(parts) => {
                let mut kept = Vec::with_capacity(parts.len().min(LEAVES_MAX));
                let mut is_whole = true;
                for part in parts {
                    let (index_set, is_part_whole) = self.index_set(part);
                    is_whole &= is_part_whole && index_set.is_some();
                    kept.extend(index_set);
                }
                let index_set = match kept.len() {
                    0 | 1 => kept.pop(),
                    _ => Some(IndexSet::All(kept)),
                };
                (index_set, is_whole)
            }
            Set::Any(parts) => {
                let mut kept = Vec::with_capacity(parts.len().min(LEAVES_MAX));
                let mut is_whole = true;
                for part in parts {
                    let (Some(index_set), is_part_whole) = self.index_set(part) else {
                        return (None, false);
                    };
                    is_whole &= is_part_whole;
                    kept.push(index_set);
                }
                (Some(IndexSet::Any(kept)), is_whole)
            }
        }
    }

    fn terms(&mut self, leaf: Leaf) -> (Option<IndexSet>, bool) {
        let Some(leaves) = self.leaves.checked_sub(1) else { return (None, false) };
        self.leaves = leaves;
        let Leaf { path, mut ranges, mut is_exact, .. } = leaf;
        if let Some(left) = self.ranges.checked_sub(ranges.len()) {
            self.ranges = left;
        } else {
            ranges = hull(ranges);
            is_exact = false;
        }
        (Some(IndexSet::Terms(Terms { path, ranges, is_exact })), is_exact)
    }
}
