//! Fields that change their names. Neither name may lead through an array.

use model::{Object, Value};

use crate::document::print::Printed;
use crate::document::{Failure, code};

/// A field that changes its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The names that lead to the field.
    pub source: Vec<String>,
    /// The names that will.
    pub target: Vec<String>,
}

/// The values of the fields that change their names; `None` where there is none.
pub(super) fn values(renames: &[Rename], document: &Object) -> Result<Vec<Option<Value>>, Failure> {
    renames.iter().map(|rename| rename.value(document)).collect()
}

impl Rename {
    fn value(&self, document: &Object) -> Result<Option<Value>, Failure> {
        let Some(value) = follow(&self.source, document, "source")? else { return Ok(None) };
        follow(&self.target, document, "destination")?;
        Ok(Some(value.clone()))
    }
}

/// The value that a path leads to. Fails if an array is on the way.
fn follow<'d>(
    path: &[String],
    document: &'d Object,
    role: &str,
) -> Result<Option<&'d Value>, Failure> {
    let Some((first, rest)) = path.split_first() else { return Ok(None) };
    let mut found = document.get(first);
    let mut name = first;
    for part in rest {
        if let Some(Value::Array(_)) = found {
            let id = document
                .get("_id")
                .map_or("no id".to_owned(), |id| format!("_id: {}", Printed(id)));
            let message = format!(
                "The {role} field cannot be an array element, '{}' in doc with {id} has an array \
                 field called '{name}'",
                path.join(".")
            );
            return Err(Failure::new(code::BAD_VALUE, message));
        }
        found = found.and_then(|value| value.field(part));
        name = part;
    }
    Ok(found)
}
