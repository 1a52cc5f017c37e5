//! Values in memory as a source of items: the rows of inner queries, and tests.

use model::Value;
use model::json::{self, FieldMask};

use crate::EvalError;
use crate::plan::Plan;

use super::{
    Execution, Item, ItemOrder, Limits, Mode, Next, PageEnd, Position, Row, RowLookup, RowPosition,
    Source,
};

/// Values that are used as items, numbered in order.
pub struct Values {
    values: Vec<Value>,
    next: usize,
    identity: [u8; 8],
}

impl Values {
    /// Starts at the first of these values.
    pub fn new(values: Vec<Value>) -> Self {
        Self { values, next: 0, identity: [0; 8] }
    }

    /// One page of `plan` over all values, and where the next one begins.
    pub fn page(
        &mut self,
        plan: &Plan,
        position: Position,
        limits: Limits,
    ) -> Result<(Vec<Row<Value>>, Option<Position>), EvalError> {
        let at = position.at.clone();
        let order = ItemOrder::Number;
        let mut execution = Execution::in_order(order, plan.clone(), position, limits);
        let end = self.run(&mut execution, &at)?;
        let position = (end == PageEnd::Full).then(|| execution.position(None));
        Ok((execution.into_rows(), position))
    }

    /// Passes to the execution all values that a page from `at` on needs.
    pub(super) fn run(
        &mut self,
        execution: &mut Execution<Value>,
        at: &RowPosition,
    ) -> Result<PageEnd, EvalError> {
        if execution.is_satisfied() {
            return Ok(PageEnd::Satisfied);
        }
        if execution.must_look_up() {
            self.next = 0;
            execution.look_up(self)?;
        }
        // The position of a query over another query is one among the rows of the inner query.
        let is_stream = matches!(execution.mode, Mode::Stream(_));
        self.next = if is_stream { first_of(at) } else { 0 };
        let mut end = PageEnd::Exhausted;
        if execution.reads_items() {
            end = execution.pull(self)?;
        }
        match end {
            PageEnd::Exhausted => execution.finish(self),
            PageEnd::Full | PageEnd::Satisfied => Ok(end),
        }
    }
}

/// The first value that a page from `at` on needs.
fn first_of(at: &RowPosition) -> usize {
    let RowPosition::Number { number, rows } = at else { return 0 };
    usize::try_from(*number).unwrap_or(usize::MAX).saturating_add(usize::from(*rows == u64::MAX))
}

fn index_of(identity: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_be_bytes(identity.try_into().ok()?)).ok()
}

/// One value of [`Values`].
pub struct ValueItem<V> {
    value: V,
    identity: [u8; 8],
}

impl<V: std::borrow::Borrow<Value>> Item for ValueItem<V> {
    type WholeItem = Value;
    type Error = EvalError;

    fn number(&self) -> u64 {
        u64::from_be_bytes(self.identity)
    }

    fn identity(&self) -> &[u8] {
        &self.identity
    }

    fn read(&self, _: &FieldMask) -> Result<Value, EvalError> {
        Ok(self.value.borrow().clone())
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        json::write(self.value.borrow(), out);
    }

    fn bytes(&self) -> usize {
        crate::budget::bytes_of(self.value.borrow())
    }

    fn to_whole_item(&self) -> Value {
        self.value.borrow().clone()
    }
}

impl Source for Values {
    type WholeItem = Value;
    type Error = EvalError;
    type Item<'s> = ValueItem<&'s Value>;

    fn next(&mut self) -> Result<Next<ValueItem<&Value>>, EvalError> {
        let Some(value) = self.values.get(self.next) else { return Ok(Next::End) };
        self.identity = (self.next as u64).to_be_bytes();
        self.next += 1;
        Ok(Next::Item(ValueItem { value, identity: self.identity }))
    }
}

impl RowLookup for Values {
    type Item = ValueItem<Value>;

    fn fetch(&mut self, identity: &[u8]) -> Result<Option<ValueItem<Value>>, EvalError> {
        let value = index_of(identity).and_then(|at| self.values.get(at)).cloned();
        let identity: Option<[u8; 8]> = identity.try_into().ok();
        Ok(value.zip(identity).map(|(value, identity)| ValueItem { value, identity }))
    }
}
