//! Paths of projections and updates: names between dots, none of them empty.

use query::document::{Failure, code};

/// Most parts of a path: as deep as documents may be, with room for what operators add.
pub(crate) const PATH_PARTS_MAX: usize = 200;

const EMPTY_PATH: i32 = 40352;
const ENDS_WITH_DOT: i32 = 40353;
const EMPTY_NAME: i32 = 15998;
const DOLLAR_NAME: i32 = 16410;
const NULL_BYTE: i32 = 16411;

/// The parts of a path that an expression or a projection may name.
pub(crate) fn path_parts(text: &str) -> Result<Vec<&str>, Failure> {
    if text.is_empty() {
        let message = "FieldPath cannot be constructed with empty string";
        return Err(Failure::new(EMPTY_PATH, message));
    }
    if text.ends_with('.') {
        return Err(Failure::new(ENDS_WITH_DOT, "FieldPath must not end with a '.'."));
    }
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > PATH_PARTS_MAX {
        return Err(Failure::new(code::OVERFLOW, "FieldPath is too long"));
    }
    for part in &parts {
        if part.is_empty() {
            let message = "FieldPath field names may not be empty strings.";
            return Err(Failure::new(EMPTY_NAME, message));
        }
        if part.starts_with('$') {
            let message = "FieldPath field names may not start with '$'. Consider using $getField \
                           or $setField.";
            return Err(Failure::new(DOLLAR_NAME, message));
        }
        if part.contains('\0') {
            let message = "FieldPath field names may not contain '\0'.";
            return Err(Failure::new(NULL_BYTE, message));
        }
    }
    Ok(parts)
}
