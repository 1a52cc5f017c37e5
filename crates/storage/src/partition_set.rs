//! A set of partition ids stored as runs of adjacent ids.
//!
//! Ids are assigned in order and never reused, so the retired ones form few long runs: the set
//! stays small however many partitions were created and retired.

use std::collections::BTreeMap;

use model::PartitionId;

/// Partition ids as inclusive, disjoint, non-adjacent runs: first id to last id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionSet {
    runs: BTreeMap<u32, u32>,
}

impl PartitionSet {
    pub(crate) fn contains(&self, p: PartitionId) -> bool {
        self.run_at(p.0).is_some()
    }

    /// Adds one id; returns the run that now holds it and the first ids of runs it absorbed.
    pub(crate) fn insert(&mut self, p: PartitionId) -> Grown {
        if let Some((first, last)) = self.run_at(p.0) {
            return Grown { first, last, swallowed: None };
        }
        let before = p.0.checked_sub(1).and_then(|id| self.run_at(id));
        let after = p.0.checked_add(1).and_then(|id| self.run_at(id));
        let first = before.map_or(p.0, |(first, _)| first);
        let last = after.map_or(p.0, |(_, last)| last);
        if let Some((swallowed, _)) = after {
            self.runs.remove(&swallowed);
        }
        self.runs.insert(first, last);
        Grown { first, last, swallowed: after.map(|(first, _)| first) }
    }

    /// Adds a run that was read from storage.
    pub(crate) fn insert_run(&mut self, first: u32, last: u32) {
        self.runs.insert(first, last);
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.runs.iter().map(|(first, last)| (*first, *last))
    }

    fn run_at(&self, id: u32) -> Option<(u32, u32)> {
        let (first, last) = self.runs.range(..=id).next_back()?;
        (id <= *last).then_some((*first, *last))
    }
}

/// How the runs changed when an id was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grown {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) swallowed: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs_after(ids: &[u32]) -> Vec<(u32, u32)> {
        let mut set = PartitionSet::default();
        for id in ids {
            set.insert(PartitionId(*id));
        }
        set.runs().collect()
    }

    #[test]
    fn neighbours_join_into_one_run() {
        assert_eq!(runs_after(&[5, 7, 6]), [(5, 7)]);
        assert_eq!(runs_after(&[1, 2, 3, 9]), [(1, 3), (9, 9)]);
        assert_eq!(runs_after(&[3, 2, 1, 2]), [(1, 3)]);
        assert_eq!(runs_after(&[0, u32::MAX]), [(0, 0), (u32::MAX, u32::MAX)]);
    }

    #[test]
    fn contains_exactly_what_was_added() {
        let mut set = PartitionSet::default();
        let added = [3_u32, 4, 10, 11, 12, 30];
        for id in added {
            set.insert(PartitionId(id));
        }
        for id in 0..40 {
            assert_eq!(set.contains(PartitionId(id)), added.contains(&id), "id {id}");
        }
    }

    #[test]
    fn growing_names_the_run_it_swallowed() {
        let mut set = PartitionSet::default();
        set.insert(PartitionId(1));
        set.insert(PartitionId(3));
        let grown = set.insert(PartitionId(2));
        assert_eq!(grown, Grown { first: 1, last: 3, swallowed: Some(3) });
    }
}
