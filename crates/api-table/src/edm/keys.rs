//! Keys of entities.

use super::{EntityError, Rules};

/// Checks a key, named `PartitionKey` or `RowKey`, of a write or an address.
pub fn check_key(name: &'static str, key: &str, rules: &Rules) -> Result<(), EntityError> {
    let length = if name == "RowKey" { rules.row_key_max } else { rules.partition_key_max };
    if key.is_empty() && !rules.are_empty_keys_taken {
        return Err(EntityError::KeyEmpty);
    }
    if !length.admits(key) {
        return Err(EntityError::KeyTooLong);
    }
    if key.chars().any(|c| is_forbidden(c, rules)) {
        return Err(EntityError::KeyCharacter { name, value: key.to_owned() });
    }
    Ok(())
}

fn is_forbidden(c: char, rules: &Rules) -> bool {
    matches!(c, '/' | '\\' | '#' | '?')
        || !rules.are_control_characters_taken && matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}
