//! The paths of updates.

use query::document::update::Modifier;
use query::document::{Failure, code};

use crate::mongo::field_names::PATH_PARTS_MAX;

use super::{Compiler, bad_value};

/// The parts of a path, none of which is empty. The first is a name.
pub(super) fn parts_of(path: &str) -> Result<Vec<&str>, Failure> {
    if path.is_empty() {
        let message = "An empty update path is not valid.";
        return Err(Failure::new(code::EMPTY_FIELD_NAME, message));
    }
    let parts: Vec<&str> = path.split('.').collect();
    if parts.len() > PATH_PARTS_MAX {
        return Err(Failure::new(code::OVERFLOW, "FieldPath is too long"));
    }
    if parts.iter().any(|part| part.is_empty()) {
        let message =
            format!("The update path '{path}' contains an empty field name, which is not allowed.");
        return Err(Failure::new(code::EMPTY_FIELD_NAME, message));
    }
    let positional = parts.iter().filter(|part| **part == "$").count();
    if positional > 1 {
        let message = format!("Too many positional (i.e. '$') elements found in path '{path}'");
        return Err(bad_value(message));
    }
    let first = parts.first().copied().unwrap_or_default();
    if first == "$" {
        let message = format!(
            "Cannot have positional (i.e. '$') element in the first position in path '{path}'"
        );
        return Err(bad_value(message));
    }
    if is_array_filter(first) {
        let message = format!(
            "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in \
             path '{path}'"
        );
        return Err(bad_value(message));
    }
    let named_by_dollar =
        |part: &&&str| part.starts_with('$') && **part != "$" && !is_array_filter(part);
    if let Some(name) = parts.iter().find(named_by_dollar) {
        let message = format!(
            "The dollar ($) prefixed field '{name}' in '{path}' is not allowed in the context of \
             an update's replacement document. Consider using an aggregation pipeline with \
             $replaceWith."
        );
        return Err(Failure::new(code::DOLLAR_PREFIXED_FIELD_NAME, message));
    }
    Ok(parts)
}

/// Whether a part of a path stands for elements of an array.
fn is_array_filter(part: &str) -> bool {
    part.starts_with("$[") && part.ends_with(']')
}

/// Whether a path names the same values whatever a document holds.
pub(super) fn is_static(parts: &[&str]) -> bool {
    !parts.iter().any(|part| *part == "$" || is_array_filter(part))
}

impl Compiler<'_> {
    /// Adds an operator on the value at `path`.
    pub(super) fn add(&mut self, path: &str, modifier: Modifier) -> Result<(), Failure> {
        let parts = parts_of(path)?;
        for part in &parts {
            let identifier = part.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']'));
            let Some(identifier) = identifier.filter(|identifier| !identifier.is_empty()) else {
                continue;
            };
            let filters = &self.modifiers.array_filters;
            if !filters.iter().any(|filter| filter.identifier == identifier) {
                return Err(bad_value(format!(
                    "No array filter found for identifier '{identifier}' in path '{path}'"
                )));
            }
            if !self.used.iter().any(|used| used == identifier) {
                self.used.push(identifier.to_owned());
            }
        }
        self.modifiers.count += 1;
        self.modifiers.tree.add(&parts, modifier)
    }
}
