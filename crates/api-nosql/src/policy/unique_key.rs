//! Unique key policies.

use model::{Object, PropertyPath, Value, limits};

use super::{given, invalid};
use crate::errors::ApiError;

/// The keys, and the form in which clients read them.
pub(super) struct UniqueKeyPolicy {
    pub keys: Vec<Vec<PropertyPath>>,
    pub rendered: Value,
}

impl UniqueKeyPolicy {
    /// Whether both make the same combinations of values unique.
    pub(super) fn is_same_as(&self, other: &[Vec<PropertyPath>]) -> bool {
        let names = |keys: &[Vec<PropertyPath>]| -> Vec<Vec<Vec<String>>> {
            let of_key =
                |key: &Vec<PropertyPath>| key.iter().map(|path| path.segments().to_vec()).collect();
            keys.iter().map(of_key).collect()
        };
        names(&self.keys) == names(other)
    }
}

/// Reads `{"uniqueKeys": [{"paths": [...]}]}`; absent means none.
pub(super) fn parse(policy: Option<&Value>) -> Result<UniqueKeyPolicy, ApiError> {
    let list = match policy {
        None => &[],
        Some(policy) => {
            let object = policy.as_object().ok_or_else(|| invalid("uniqueKeyPolicy"))?;
            match given(object, "uniqueKeys") {
                None => &[],
                Some(keys) => keys.as_array().ok_or_else(|| invalid("uniqueKeyPolicy"))?,
            }
        }
    };
    if list.len() > limits::UNIQUE_KEYS_MAX {
        return Err(ApiError::bad_request_errors(format!(
            "The number of unique keys exceeds the limit of {}.",
            limits::UNIQUE_KEYS_MAX
        )));
    }
    let keys = list.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    if (0..keys.len()).any(|i| keys[..i].contains(&keys[i])) {
        return Err(ApiError::bad_request_errors("A unique key is given twice."));
    }
    let rendered = keys.iter().map(|key| one("paths", key.iter().map(path_text).collect()));
    let rendered = one("uniqueKeys", rendered.collect());
    Ok(UniqueKeyPolicy { keys, rendered })
}

fn key(value: &Value) -> Result<Vec<PropertyPath>, ApiError> {
    let paths = value.field("paths").and_then(Value::as_array);
    let paths = paths.filter(|p| !p.is_empty()).ok_or_else(|| invalid("uniqueKeyPolicy"))?;
    if paths.len() > limits::UNIQUE_KEY_PATHS_MAX {
        return Err(ApiError::bad_request_errors(format!(
            "The number of paths of a unique key exceeds the limit of {}.",
            limits::UNIQUE_KEY_PATHS_MAX
        )));
    }
    paths.iter().map(path).collect()
}

fn path(value: &Value) -> Result<PropertyPath, ApiError> {
    let text = value.as_str().ok_or_else(|| invalid("uniqueKeyPolicy"))?;
    PropertyPath::parse(text).map_err(|error| {
        ApiError::bad_request_errors(format!("The unique key path is not valid: {error}."))
    })
}

fn path_text(path: &PropertyPath) -> Value {
    path.to_string().into()
}

fn one(name: &str, list: Vec<Value>) -> Value {
    let mut out = Object::with_capacity(1);
    out.insert(name, Value::Array(list));
    out.into()
}
