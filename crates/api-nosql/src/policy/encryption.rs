//! Client encryption policies: which properties clients encrypt, with which key and how.
//!
//! The server never sees the plain values. It stores the policy unchanged and refuses one that no
//! client could follow.

use model::{PartitionKeyDefinition, PropertyPath, Value};

use super::invalid;
use crate::errors::ApiError;

const NAME: &str = "clientEncryptionPolicy";
const ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";
/// From this version on, ids and partition keys may be encrypted.
const VERSION_OF_KEYS: i64 = 2;

/// Refuses a policy that contradicts itself or names keys that do not exist.
pub(super) fn check(
    policy: &Value,
    partition_key: &PartitionKeyDefinition,
    has_key: &dyn Fn(&str) -> bool,
) -> Result<(), ApiError> {
    let version = match policy.field("policyFormatVersion") {
        None | Some(Value::Null) => 1,
        Some(version) => {
            version.as_i64().filter(|v| (1..=VERSION_OF_KEYS).contains(v)).ok_or_else(|| {
                ApiError::bad_request_errors(
                    "Supported versions of client encryption policy are 1 and 2.",
                )
            })?
        }
    };
    let paths = policy.field("includedPaths").and_then(Value::as_array);
    let paths = paths.ok_or_else(|| invalid(NAME))?;
    for included in paths {
        let key = text(included, "clientEncryptionKeyId")?;
        if !has_key(key) {
            return Err(ApiError::bad_request_errors(format!(
                "ClientEncryptionKey with id '[{key}]' does not exist."
            )));
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for included in paths {
        let path = text(included, "path")?;
        check_path(path)?;
        if seen.contains(&path) {
            return Err(ApiError::bad_request_errors(format!(
                "Duplicate path '{path}' found in the client encryption policy."
            )));
        }
        seen.push(path);
        if text(included, "encryptionAlgorithm")? != ALGORITHM {
            return Err(ApiError::bad_request_errors(format!(
                "EncryptionAlgorithm should be '{ALGORITHM}'."
            )));
        }
        let is_deterministic = match text(included, "encryptionType")? {
            "Deterministic" => true,
            "Randomized" => false,
            _ => {
                return Err(ApiError::bad_request_errors(
                    "EncryptionType should be either 'Deterministic' or 'Randomized'.",
                ));
            }
        };
        if is_of_identity(path, partition_key) {
            check_identity(path, version, is_deterministic)?;
        }
    }
    Ok(())
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, ApiError> {
    let text = value.field(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| invalid(NAME))
}

/// Only top-level properties can be encrypted, as a whole.
fn check_path(path: &str) -> Result<(), ApiError> {
    match PropertyPath::parse(path) {
        Ok(parsed) if parsed.segments().len() == 1 => Ok(()),
        _ => Err(ApiError::bad_request_errors(format!(
            "Invalid path '{path}' in the client encryption policy: only top level paths, such as \
             /a, are supported."
        ))),
    }
}

/// Whether `path` is the id or part of the partition key.
fn is_of_identity(path: &str, partition_key: &PartitionKeyDefinition) -> bool {
    let Ok(path) = PropertyPath::parse(path) else { return false };
    let first = path.segments().first();
    first.is_some_and(|name| name == "id")
        || partition_key.paths.iter().any(|key| key.segments().first() == first)
}

fn check_identity(path: &str, version: i64, is_deterministic: bool) -> Result<(), ApiError> {
    if version < VERSION_OF_KEYS {
        return Err(ApiError::bad_request_errors(format!(
            "Path: {path} which is part of the partition key or the id cannot be encrypted with \
             PolicyFormatVersion: {version}. Please use PolicyFormatVersion: {VERSION_OF_KEYS}."
        )));
    }
    match is_deterministic {
        true => Ok(()),
        false => Err(ApiError::bad_request_errors(format!(
            "Path: {path} which is part of the partition key or the id has to be encrypted with \
             Deterministic type Encryption."
        ))),
    }
}
