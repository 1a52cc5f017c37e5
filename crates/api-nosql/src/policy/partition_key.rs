//! Partition key definitions.

use model::partition_key::SYSTEM_KEY_PATH;
use model::{
    Object, PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion, PropertyPath, Value,
    limits,
};

use super::{given, invalid};
use crate::errors::ApiError;

/// A definition, and the form in which clients read it. A version that was not given is not shown.
pub(super) struct PartitionKeyPolicy {
    pub definition: PartitionKeyDefinition,
    pub rendered: Value,
}

impl PartitionKeyPolicy {
    /// Whether items have the same key under both definitions.
    pub(super) fn is_same_as(&self, other: &PartitionKeyDefinition) -> bool {
        let names = |d: &PartitionKeyDefinition| {
            d.paths.iter().map(|p| p.segments().to_vec()).collect::<Vec<_>>()
        };
        self.definition.kind == other.kind
            && self.definition.version == other.version
            && names(&self.definition) == names(other)
    }
}

/// The definition of a container created without a partition key.
pub(super) fn system() -> PartitionKeyPolicy {
    let definition = PartitionKeyDefinition {
        paths: PropertyPath::parse(SYSTEM_KEY_PATH).into_iter().collect(),
        kind: PartitionKeyKind::Hash,
        version: PartitionKeyVersion::V1,
        is_system: true,
    };
    let rendered = render(&[SYSTEM_KEY_PATH.into()], "Hash", None, true);
    PartitionKeyPolicy { definition, rendered }
}

/// Parses `{"paths": [...], "kind": "Hash", "version": 2}`.
pub(super) fn parse(value: &Value) -> Result<PartitionKeyPolicy, ApiError> {
    let object = value.as_object().ok_or_else(|| invalid("partitionKey"))?;
    let texts = given(object, "paths").and_then(Value::as_array);
    let texts = texts.ok_or_else(|| invalid("partitionKey.paths"))?;
    let (kind, kind_name) = match given(object, "kind").map(|k| k.as_str().unwrap_or_default()) {
        None | Some("Hash") => (PartitionKeyKind::Hash, "Hash"),
        Some("MultiHash") => (PartitionKeyKind::MultiHash, "MultiHash"),
        Some(_) => return Err(invalid("partitionKey.kind")),
    };
    let shown_version = given(object, "version").map(version_number).transpose()?;
    let version = match shown_version {
        Some(Value::Int64(2)) => PartitionKeyVersion::V2,
        _ => PartitionKeyVersion::V1,
    };
    check_levels(kind, version, texts.len())?;
    // The flag makes a key the service's own only at its own path; elsewhere it is just kept.
    let is_shown_as_system = given(object, "systemKey") == Some(&Value::Bool(true));
    let definition = PartitionKeyDefinition {
        paths: texts.iter().map(path).collect::<Result<_, _>>()?,
        kind,
        version,
        is_system: is_shown_as_system && *texts == [Value::from(SYSTEM_KEY_PATH)],
    };
    let repeats = |i: usize| definition.paths[..i].contains(&definition.paths[i]);
    if (0..definition.paths.len()).any(repeats) {
        return Err(ApiError::bad_request_errors("A partition key path is given twice."));
    }
    let rendered = render(texts, kind_name, shown_version.as_ref(), is_shown_as_system);
    Ok(PartitionKeyPolicy { definition, rendered })
}

/// A version as it is shown. Java clients send its name in place of the number.
fn version_number(given: &Value) -> Result<Value, ApiError> {
    let names = [("V1", 1), ("V2", 2)];
    let is_it = |(name, number): &&(&str, i64)| {
        given.as_i64() == Some(*number) || given.as_str() == Some(*name)
    };
    let found = names.iter().find(is_it).map(|(_, number)| Value::Int64(*number));
    found.ok_or_else(|| invalid("partitionKey.version"))
}

fn check_levels(
    kind: PartitionKeyKind,
    version: PartitionKeyVersion,
    levels: usize,
) -> Result<(), ApiError> {
    let levels_max = match kind {
        PartitionKeyKind::Hash => 1,
        PartitionKeyKind::MultiHash => limits::PARTITION_KEY_LEVELS_MAX,
    };
    if levels == 0 {
        return Err(invalid("partitionKey.paths"));
    }
    if levels > levels_max {
        return Err(ApiError::bad_request_errors(format!(
            "Too many partition key paths ({levels}) specified. A maximum of {levels_max} is allowed."
        )));
    }
    if kind == PartitionKeyKind::MultiHash && version == PartitionKeyVersion::V1 {
        return Err(ApiError::bad_request_errors(
            "A partition key of kind MultiHash must have version 2.",
        ));
    }
    Ok(())
}

fn path(text: &Value) -> Result<PropertyPath, ApiError> {
    let text = text.as_str().ok_or_else(|| invalid("partitionKey.paths"))?;
    let refused = |reason: &str| {
        ApiError::bad_request_errors(format!(
            "The partition key component definition path '{text}' could not be accepted: {reason}. \
             Partition key paths must contain only valid characters and not contain a trailing \
             slash or wildcard character."
        ))
    };
    let path = PropertyPath::parse(text).map_err(|error| refused(error.reason))?;
    match has_bare_space(text) {
        true => Err(refused("a segment with a space must be quoted")),
        false => Ok(path),
    }
}

/// Whether an accepted path has a space outside of quotes, which begin at the start of a segment.
fn has_bare_space(path: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    for character in path.chars() {
        match quote {
            Some(open) if character == open && before != '\\' => quote = None,
            Some(_) => {}
            None if before == '/' && matches!(character, '"' | '\'') => quote = Some(character),
            None if character.is_whitespace() => return true,
            None => {}
        }
        before = character;
    }
    false
}

fn render(paths: &[Value], kind: &str, version: Option<&Value>, has_system_flag: bool) -> Value {
    let mut out = Object::with_capacity(4);
    out.insert("paths", Value::Array(paths.to_vec()));
    out.insert("kind", kind.into());
    if let Some(version) = version {
        out.insert("version", version.clone());
    }
    if has_system_flag {
        out.insert("systemKey", true.into());
    }
    out.into()
}
