//! The filters on elements of arrays that paths refer to as `$[name]`.

use model::{Object, Value};
use query::document::Failure;
use query::document::print::PrintedObject;
use query::document::update::ArrayFilter;

use crate::mongo::filter::{self, FilterOptions};

use super::{Compiler, UpdateOptions, bad_value, failed_to_parse};

/// Compiles the filters, each of which is about one name.
pub(super) fn compile(options: &UpdateOptions<'_>) -> Result<Vec<ArrayFilter>, Failure> {
    let context = "Error parsing array filter";
    let mut filters: Vec<ArrayFilter> = Vec::with_capacity(options.array_filters.len());
    for filter in options.array_filters {
        let restricted = FilterOptions { is_restricted: true, ..options.filter };
        let predicate =
            filter::compile(filter, &restricted).map_err(|failure| failure.within(context))?;
        let mut identifier = None;
        find_identifier(filter, &mut identifier).map_err(|failure| failure.within(context))?;
        let Some(identifier) = identifier else {
            let message = "Cannot use an expression without a top-level field name in arrayFilters";
            return Err(failed_to_parse(message));
        };
        check_identifier(identifier).map_err(|failure| failure.within(context))?;
        if filters.iter().any(|other| other.identifier == identifier) {
            return Err(failed_to_parse(format!(
                "Found multiple array filters with the same top-level field name {identifier}"
            )));
        }
        filters.push(ArrayFilter { identifier: identifier.to_owned(), predicate });
    }
    Ok(filters)
}

/// The name that all paths of a filter begin with.
fn find_identifier<'f>(
    filter: &'f Object,
    identifier: &mut Option<&'f str>,
) -> Result<(), Failure> {
    for (name, value) in filter.iter() {
        if name.starts_with('$') {
            for part in value.as_array().unwrap_or_default() {
                if let Value::Object(part) = part {
                    find_identifier(part, identifier)?;
                }
            }
            continue;
        }
        let found = name.split('.').next().unwrap_or_default();
        match identifier {
            Some(first) if *first != found => {
                return Err(failed_to_parse(format!(
                    "Expected a single top-level field name, found '{first}' and '{found}'"
                )));
            }
            Some(_) => {}
            None => *identifier = Some(found),
        }
    }
    Ok(())
}

fn check_identifier(identifier: &str) -> Result<(), Failure> {
    let begins_lowercase = identifier.starts_with(|first: char| first.is_ascii_lowercase());
    if begins_lowercase && identifier.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(bad_value(format!(
        "The top-level field name must be an alphanumeric string beginning with a lowercase \
         letter, found '{identifier}'"
    )))
}

impl Compiler<'_> {
    /// Fails if there is a filter that no path refers to.
    pub(super) fn check_all_filters_used(&self, update: &Object) -> Result<(), Failure> {
        let is_unused = |filter: &&ArrayFilter| !self.used.contains(&filter.identifier);
        match self.modifiers.array_filters.iter().find(is_unused) {
            Some(unused) => Err(failed_to_parse(format!(
                "The array filter for identifier '{}' was not used in the update {}",
                unused.identifier,
                PrintedObject(update)
            ))),
            None => Ok(()),
        }
    }
}
