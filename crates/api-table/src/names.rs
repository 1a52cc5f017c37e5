//! Names of tables.

use crate::Flavour;
use crate::errors::TableError;

const STORAGE_CHARS: std::ops::RangeInclusive<usize> = 3..=63;
const COSMOS_CHARS_MAX: usize = 254;

/// Checks the table name in a path.
pub(crate) fn check_table(name: &str, flavour: Flavour) -> Result<(), TableError> {
    match flavour {
        Flavour::Storage => check_storage(name),
        // A name that can't be created is simply not found.
        Flavour::Cosmos => Ok(()),
    }
}

/// Checks the name of a table to delete: if it is too long, the error is that the table is not
/// found.
pub(crate) fn check_deleted_table(name: &str, flavour: Flavour) -> Result<(), TableError> {
    match flavour {
        Flavour::Storage => check_storage(name),
        Flavour::Cosmos => check_cosmos_characters(name),
    }
}

/// Checks the name of a table to create.
pub(crate) fn check_new_table(name: &str, flavour: Flavour) -> Result<(), TableError> {
    match flavour {
        Flavour::Storage if name.eq_ignore_ascii_case("tables") => {
            Err(TableError::invalid_input("The table name is reserved."))
        }
        Flavour::Storage => check_storage(name),
        Flavour::Cosmos => check_cosmos(name),
    }
}

/// A letter, then letters and digits: 3 to 63 of them.
fn check_storage(name: &str) -> Result<(), TableError> {
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins_well || !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
        // The service's own spelling.
        return Err(TableError::new(
            400,
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        ));
    }
    if !STORAGE_CHARS.contains(&name.len()) {
        return Err(TableError::new(
            400,
            "OutOfRangeInput",
            "The specified resource name length is not within the permissible limits.",
        ));
    }
    Ok(())
}

fn check_cosmos(name: &str) -> Result<(), TableError> {
    if name.is_empty() || name.chars().count() > COSMOS_CHARS_MAX {
        return Err(TableError::new(400, "BadRequest", "The input name is invalid."));
    }
    check_cosmos_characters(name)
}

fn check_cosmos_characters(name: &str) -> Result<(), TableError> {
    if name.contains(['/', '\\', '#', '?']) {
        return Err(TableError::invalid_input(
            "The table name contains an invalid character. Ensure to provide a name without any \
             of '/', '\\\\', '#' and '?'.",
        ));
    }
    if name.ends_with(' ') {
        return Err(TableError::invalid_input("Table name cannot end with a space."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(name: &str, flavour: Flavour) -> String {
        let checked = check_new_table(name, flavour);
        checked.map_or_else(|error| error.code.to_owned(), |()| String::new())
    }

    #[test]
    fn names_of_storage_are_letters_and_digits() {
        let code = |name: &str| code(name, Flavour::Storage);
        for good in ["abc", "ABC123", &"a".repeat(63)] {
            assert_eq!(code(good), "", "{good}");
        }
        for bad in ["1abc", "a-b", "a b", "table$", "", "é12"] {
            assert_eq!(code(bad), "InvalidResourceName", "{bad}");
        }
        for long in ["ab", &"a".repeat(64)] {
            assert_eq!(code(long), "OutOfRangeInput", "{long}");
        }
        assert_eq!(code("Tables"), "InvalidInput");
    }

    #[test]
    fn names_of_cosmos_are_almost_anything() {
        let code = |name: &str| code(name, Flavour::Cosmos);
        for good in ["a", "my table", "-", "測試", &"a".repeat(254)] {
            assert_eq!(code(good), "", "{good}");
        }
        for bad in ["a/b", "a\\b", "a#b", "a?b", "a "] {
            assert_eq!(code(bad), "InvalidInput", "{bad}");
        }
        assert_eq!(code(&"a".repeat(255)), "BadRequest");
    }
}
