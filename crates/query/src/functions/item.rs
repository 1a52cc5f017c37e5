//! Functions of the system properties of items.

use model::{DocumentRid, Value};

use super::array::has_element;
use super::{Args, Function, Outcome, exactly};
use crate::Budget;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("DocumentId", exactly(1), number),
    Function::metered("_TRY_ARRAY_CONTAINS", exactly(2), try_contains),
];

/// The number of the item with this resource id; compilers pass the resource id for the item.
fn number(args: &Args<'_>) -> Option<Value> {
    let rid = DocumentRid::parse(args.str(0)?)?;
    Some(Value::Int64(i64::try_from(rid.number).unwrap_or(i64::MAX)))
}

/// Membership that is never *undefined*.
fn try_contains(args: &Args<'_>, budget: &Budget) -> Outcome {
    let is_found = match (args.array(0), args.get(1)) {
        (Some(elements), Some(wanted)) => has_element(elements, wanted, budget)?,
        _ => false,
    };
    Ok(Some(Value::Bool(is_found)))
}
