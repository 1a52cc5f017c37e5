//! Groups of rows in progress.

use std::collections::BTreeMap;

use model::Value;

use crate::aggregate::Accumulator;
use crate::algebra::Expr;
use crate::eval::{Scope, into_owned};
use crate::plan::{AggregateCall, Grouping};
use crate::value_keys::push_equality_key;
use crate::{Budget, EvalError, budget};

/// The keys of a group and its aggregates so far.
#[derive(Clone, Debug)]
pub struct Group {
    keys: Vec<Option<Value>>,
    accumulators: Vec<Accumulator>,
    bytes: usize,
}

impl Group {
    /// A group without rows.
    pub(crate) fn new(grouping: &Grouping, keys: Vec<Option<Value>>) -> Self {
        let accumulators: Vec<_> =
            grouping.aggregates.iter().map(|call| Accumulator::new(call.aggregate)).collect();
        let bytes = keys.iter().flatten().map(budget::bytes_of).sum::<usize>()
            + size_of_val(accumulators.as_slice());
        Self { keys, accumulators, bytes }
    }

    /// Adds a row.
    pub(crate) fn add(
        &mut self,
        grouping: &Grouping,
        row: &Scope<'_>,
        budget: &Budget,
    ) -> Result<(), EvalError> {
        for (call, accumulator) in grouping.aggregates.iter().zip(&mut self.accumulators) {
            if let Some(value) = call.operand.eval(row, budget)? {
                self.bytes += accumulator.add(&value, budget)?;
            }
        }
        Ok(())
    }

    /// Adds a number of rows that [are all the same](Grouping::is_of_constants).
    pub(crate) fn add_constants(
        &mut self,
        grouping: &Grouping,
        rows: u64,
        budget: &Budget,
    ) -> Result<(), EvalError> {
        for (call, accumulator) in grouping.aggregates.iter().zip(&mut self.accumulators) {
            if let Expr::Constant(Some(value)) = &call.operand {
                self.bytes += accumulator.add_repeated(value, rows, budget)?;
            }
        }
        Ok(())
    }

    /// Adds totals of rows that were counted, one for each aggregate.
    pub(crate) fn add_totals(&mut self, totals: &[u64]) {
        for (accumulator, total) in self.accumulators.iter_mut().zip(totals) {
            accumulator.add_total(i64::try_from(*total).unwrap_or(i64::MAX));
        }
    }

    /// Adds all rows of the same group over other items.
    pub(crate) fn merge(&mut self, other: Group) {
        self.bytes += other.bytes;
        for (own, others) in self.accumulators.iter_mut().zip(other.accumulators) {
            own.merge(others);
        }
    }

    /// The variables of the group: its keys, then its aggregates.
    pub(crate) fn into_values(self) -> Vec<Option<Value>> {
        let aggregates = self.accumulators.into_iter().map(Accumulator::finish);
        self.keys.into_iter().chain(aggregates).collect()
    }

    /// Roughly how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Grouping {
    /// Whether it makes one group of all rows and aggregates only constants, so that many rows can
    /// be added at once.
    pub(crate) fn is_of_constants(&self) -> bool {
        let is_constant = |call: &AggregateCall| {
            let Expr::Constant(value) = &call.operand else { return false };
            value.as_ref().is_none_or(|value| call.aggregate.takes_repeated(value))
        };
        self.keys.is_empty() && self.aggregates.iter().all(is_constant)
    }

    /// The keys of the group that a row belongs to.
    pub(crate) fn keys_of(
        &self,
        row: &Scope<'_>,
        budget: &Budget,
    ) -> Result<Vec<Option<Value>>, EvalError> {
        let key = |key: &Expr| {
            let value = key.eval(row, budget)?;
            value.map(|value| into_owned(value, budget)).transpose()
        };
        self.keys.iter().map(key).collect()
    }
}

/// The bytes that are equal for rows of one group.
pub(crate) fn group_key(keys: &[Option<Value>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 * keys.len());
    for key in keys {
        push_equality_key(key.as_ref(), &mut out);
    }
    out
}

/// All groups of a subquery, in order of appearance.
pub(crate) struct Groups<'p> {
    grouping: &'p Grouping,
    numbers: BTreeMap<Vec<u8>, usize>,
    groups: Vec<Group>,
}

impl<'p> Groups<'p> {
    pub(crate) fn new(grouping: &'p Grouping) -> Self {
        // Without keys there is a group even before there is a row.
        let is_single = grouping.keys.is_empty();
        let groups: Vec<_> =
            is_single.then(|| Group::new(grouping, Vec::new())).into_iter().collect();
        let numbers = groups.iter().map(|_| (Vec::new(), 0)).collect();
        Self { grouping, numbers, groups }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: &Scope<'_>, budget: &Budget) -> Result<(), EvalError> {
        let keys = self.grouping.keys_of(row, budget)?;
        for key in keys.iter().flatten() {
            budget.spend_copy_of(key)?;
        }
        let next = self.groups.len();
        let number = *self.numbers.entry(group_key(&keys)).or_insert(next);
        if number == next {
            self.groups.push(Group::new(self.grouping, keys));
        }
        match self.groups.get_mut(number) {
            Some(group) => group.add(self.grouping, row, budget),
            None => Ok(()),
        }
    }

    /// The variables of each group.
    pub(crate) fn into_values(self) -> impl Iterator<Item = Vec<Option<Value>>> {
        self.groups.into_iter().map(Group::into_values)
    }
}
