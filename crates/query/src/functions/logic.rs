//! Chooses between values. The chosen one may be *undefined*.

use super::{Args, Function, Outcome, at_least, exactly};
use crate::Budget;

pub(super) static FUNCTIONS: &[Function] =
    &[Function::metered("CHOOSE", at_least(2), choose), Function::metered("IIF", exactly(3), iif)];

/// The argument at a one-based index.
fn choose(args: &Args<'_>, budget: &Budget) -> Outcome {
    let position = args.integer(0).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    position.and_then(|n| args.get(n)).map(|value| budget.clone_value(value)).transpose()
}

fn iif(args: &Args<'_>, budget: &Budget) -> Outcome {
    let is_true = args.get(0).and_then(model::Value::as_bool) == Some(true);
    args.get(if is_true { 1 } else { 2 }).map(|value| budget.clone_value(value)).transpose()
}
