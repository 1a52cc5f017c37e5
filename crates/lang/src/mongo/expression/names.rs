//! Names of fields and of variables.

use query::document::Failure;
use query::document::code::OVERFLOW;

/// Most fields of a path.
const PATH_LENGTH_MAX: usize = 200;
const HINT: &str = " Consider using $getField or $setField.";

/// The names of a path without its dollar sign.
pub(crate) fn field_path_names(path: &str, complaint: &str) -> Result<Vec<String>, Failure> {
    if path.is_empty() {
        return Err(match complaint {
            "" => Failure::new(40352, "FieldPath cannot be constructed with empty string"),
            complaint => Failure::new(16872, complaint),
        });
    }
    if path.ends_with('.') {
        return Err(Failure::new(40353, "FieldPath must not end with a '.'."));
    }
    if path.contains('\0') {
        let message = "field path must not contain embedded null characters";
        return Err(Failure::new(16419, message));
    }
    let names: Vec<String> = path.split('.').map(str::to_owned).collect();
    names.iter().try_for_each(|name| check_field_name(name))?;
    if names.len() > PATH_LENGTH_MAX {
        return Err(Failure::new(OVERFLOW, "FieldPath is too long"));
    }
    Ok(names)
}

/// Checks one name of a path or of an object.
pub(crate) fn check_field_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::new(15998, "FieldPath field names may not be empty strings."));
    }
    if name.starts_with('$') {
        let message = format!("FieldPath field names may not start with '$'.{HINT}");
        return Err(Failure::new(16410, message));
    }
    if name.contains('\0') {
        let message = "FieldPath field names may not contain '\\0'.";
        return Err(Failure::new(16411, message));
    }
    if name.contains('.') {
        let message = format!("FieldPath field names may not contain '.'.{HINT}");
        return Err(Failure::new(16412, message));
    }
    Ok(())
}

/// Checks the name of a variable that is used.
pub(super) fn check_variable_to_read(name: &str) -> Result<(), Failure> {
    let Some(first) = name.chars().next() else {
        return Err(Failure::new(16869, "empty variable names are not allowed"));
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        let message = format!("'{name}' starts with an invalid character for a variable name");
        return Err(Failure::new(16870, message));
    }
    check_rest(name, 16871)
}

/// Checks the name of a variable that is bound.
pub(crate) fn check_variable_to_bind(name: &str) -> Result<(), Failure> {
    if name == "CURRENT" {
        return Ok(());
    }
    let Some(first) = name.chars().next() else {
        return Err(Failure::new(16866, "empty variable names are not allowed"));
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        let message = format!("'{name}' starts with an invalid character for a user variable name");
        return Err(Failure::new(16867, message));
    }
    check_rest(name, 16868)
}

fn check_rest(name: &str, code: i32) -> Result<(), Failure> {
    let is_invalid = |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_';
    match name.chars().skip(1).find(is_invalid) {
        None => Ok(()),
        Some(c) => {
            let message =
                format!("'{name}' contains an invalid character for a variable name: '{c}'");
            Err(Failure::new(code, message))
        }
    }
}
