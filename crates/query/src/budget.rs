//! Limits the work that one evaluation may do.
//!
//! Query texts come from clients, so an expression may be built to be slow (`LIKE` over megabytes)
//! or to grow (a property concatenated with itself a thousand times). Every node evaluated and
//! every byte copied or compared is paid for here, which limits time and memory together.

use std::cell::Cell;
use std::rc::Rc;

use model::Value;

use crate::EvalError;
use crate::stopwatch::{Phase, Stopwatch};

/// Steps granted for one item. A step is one node evaluated or [`BYTES_PER_STEP`] bytes handled,
/// so that at most 64 MB are copied for a row.
const STEPS_PER_ITEM: u64 = 4 * 1024 * 1024;
const BYTES_PER_STEP: u64 = 16;
/// Steps after which evaluation yields to other work.
const STEPS_PER_TURN: u64 = 32 * 1024;

/// The remaining budget. Spent through a shared reference, since evaluation holds many borrows of
/// the item at once.
#[derive(Debug)]
pub struct Budget {
    steps_left: Cell<u64>,
    /// Evaluation yields once less than this is left.
    gives_way_below: Cell<u64>,
    hooks: EvalHooks,
}

/// What is called while items are evaluated.
#[derive(Clone, Default)]
pub(crate) struct EvalHooks {
    /// Measures the time of functions, if the client asked for query metrics.
    pub(crate) stopwatch: Option<Rc<Stopwatch>>,
    /// Yields to other work, if set.
    pub(crate) give_way: Option<Rc<dyn Fn()>>,
}

impl std::fmt::Debug for EvalHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvalHooks").field("stopwatch", &self.stopwatch).finish_non_exhaustive()
    }
}

impl Budget {
    /// The standard budget for one item.
    pub fn per_item() -> Self {
        Self::of_steps(STEPS_PER_ITEM)
    }

    /// A budget of exactly `steps`.
    pub fn of_steps(steps: u64) -> Self {
        Self {
            steps_left: Cell::new(steps),
            gives_way_below: Cell::new(0),
            hooks: EvalHooks::default(),
        }
    }

    /// The standard budget for one item, which calls these hooks.
    pub(crate) fn with_hooks(hooks: &EvalHooks) -> Self {
        let below = hooks.give_way.as_ref().map_or(0, |_| STEPS_PER_ITEM - STEPS_PER_TURN);
        Self { gives_way_below: Cell::new(below), hooks: hooks.clone(), ..Self::per_item() }
    }

    /// Calls a function and measures its time.
    pub(crate) fn call<T>(&self, phase: Phase, function: impl FnOnce() -> T) -> T {
        match &self.hooks.stopwatch {
            Some(stopwatch) => stopwatch.of_item(phase, function),
            None => function(),
        }
    }

    /// Pays `steps`, or fails if fewer are left.
    pub fn spend(&self, steps: u64) -> Result<(), EvalError> {
        match self.steps_left.get().checked_sub(steps) {
            Some(left) => {
                self.steps_left.set(left);
                if left < self.gives_way_below.get() {
                    self.give_way(left);
                }
                Ok(())
            }
            None => {
                self.steps_left.set(0);
                Err(EvalError::BudgetExceeded)
            }
        }
    }

    #[cold]
    fn give_way(&self, left: u64) {
        self.gives_way_below.set(left.saturating_sub(STEPS_PER_TURN));
        if let Some(give_way) = &self.hooks.give_way {
            give_way();
        }
    }

    /// Pays for handling `bytes` bytes.
    pub fn spend_bytes(&self, bytes: usize) -> Result<(), EvalError> {
        self.spend(bytes as u64 / BYTES_PER_STEP + 1)
    }

    /// Pays for copying `value`, and copies it.
    pub(crate) fn clone_value(&self, value: &Value) -> Result<Value, EvalError> {
        self.spend_copy_of(value)?;
        Ok(value.clone())
    }

    /// Pays for a pass over all of `value`.
    pub(crate) fn spend_copy_of(&self, value: &Value) -> Result<(), EvalError> {
        // Each node costs its own size in addition to its text, or empty arrays would be free.
        self.spend(size_of::<Value>() as u64 / BYTES_PER_STEP)?;
        if let Some(text) = value.as_str() {
            return self.spend_bytes(text.len());
        }
        if let Some(elements) = value.as_array() {
            return elements.iter().try_for_each(|element| self.spend_copy_of(element));
        }
        if let Some(object) = value.as_object() {
            return object.iter().try_for_each(|(name, field)| {
                self.spend_bytes(name.len())?;
                self.spend_copy_of(field)
            });
        }
        Ok(())
    }
}

/// Roughly how much memory a value takes.
pub(crate) fn bytes_of(value: &Value) -> usize {
    let own = size_of::<Value>();
    if let Some(text) = value.as_str() {
        return own + text.len();
    }
    if let Some(elements) = value.as_array() {
        return own + elements.iter().map(bytes_of).sum::<usize>();
    }
    let fields = value.as_object().map(|object| object.iter());
    own + fields.map_or(0, |fields| {
        fields.map(|(name, field)| size_of::<String>() + name.len() + bytes_of(field)).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_spent_to_the_last_step_and_then_fails() {
        let budget = Budget::of_steps(3);
        assert_eq!(budget.spend(3), Ok(()));
        assert_eq!(budget.spend(0), Ok(()));
        assert_eq!(budget.spend(1), Err(EvalError::BudgetExceeded));
    }

    #[test]
    fn others_get_their_turn_while_much_is_done_for_an_item() {
        let turns = Rc::new(Cell::new(0));
        let counted = Rc::clone(&turns);
        let give_way: Rc<dyn Fn()> = Rc::new(move || counted.set(counted.get() + 1));
        let budget = Budget::with_hooks(&EvalHooks { stopwatch: None, give_way: Some(give_way) });
        budget.spend(STEPS_PER_TURN).unwrap();
        assert_eq!(turns.get(), 0);
        while budget.spend(1).is_ok() {}
        assert!((100..=128).contains(&turns.get()), "{}", turns.get());
    }

    #[test]
    fn copying_costs_at_least_the_bytes_copied() {
        let text = Value::from("x".repeat(1600));
        assert_eq!(Budget::of_steps(90).clone_value(&text), Err(EvalError::BudgetExceeded));
        assert_eq!(Budget::of_steps(200).clone_value(&text), Ok(text));
    }
}
