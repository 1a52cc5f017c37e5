//! `$redact`: which parts of a document are left.

use model::{Object, Value};

use crate::document::values::printed;
use crate::document::{Expression, Failure, Scope, Variables};

/// What is left of a document, if anything.
pub(super) fn redact(
    decision: &Expression,
    document: Value,
    variables: &Variables,
) -> Result<Option<Value>, Failure> {
    let scope = Scope::new(&document, variables);
    object(decision, &document, &scope)
}

fn object(
    decision: &Expression,
    value: &Value,
    scope: &Scope<'_>,
) -> Result<Option<Value>, Failure> {
    let decided = decision.evaluate(&scope.at(value))?;
    match decided.as_ref().and_then(Value::as_str) {
        Some("keep") => Ok(Some(value.clone())),
        Some("prune") => Ok(None),
        Some("descend") => {
            let mut left = Object::new();
            for (name, field) in value.as_object().map(Object::iter).into_iter().flatten() {
                if let Some(field) = part(decision, field, scope)? {
                    left.push_unique(name.to_owned(), field);
                }
            }
            Ok(Some(Value::Object(left)))
        }
        _ => {
            let shown = printed(decided.as_ref());
            let message = format!(
                "$redact's expression should not return anything aside from the variables $$KEEP, \
                 $$DESCEND, and $$PRUNE, but returned {shown}"
            );
            Err(Failure::new(17053, message))
        }
    }
}

fn part(decision: &Expression, value: &Value, scope: &Scope<'_>) -> Result<Option<Value>, Failure> {
    match Some(value) {
        Some(Value::Object(_)) => object(decision, value, scope),
        Some(Value::Array(elements)) => {
            let parts =
                elements.iter().filter_map(|element| part(decision, element, scope).transpose());
            Ok(Some(Value::Array(parts.collect::<Result<_, _>>()?)))
        }
        _ => Ok(Some(value.clone())),
    }
}
