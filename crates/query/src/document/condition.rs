//! Filters and sort keys on documents as expressions of the algebra, over the item of a query.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use model::Value;
use model::json::FieldMask;

use crate::EvalError;

use super::index_keys::{ColumnKind, IndexColumn, sort_values};
use super::{Failure, Predicate, Variables};

/// The first failure of the filters and sort keys of a query, which evaluation itself reports as
/// [`EvalError::Document`] only.
pub type FirstFailure = Arc<OnceLock<Failure>>;

fn keep(failure: Failure, first: &FirstFailure) -> EvalError {
    // A later failure is of no interest.
    first.get_or_init(|| failure);
    EvalError::Document
}

/// A filter on the item, with the variables of its command.
#[derive(Clone, Debug)]
pub struct DocumentFilter {
    predicate: Arc<Predicate>,
    variables: Arc<Variables>,
    failure: FirstFailure,
}

impl DocumentFilter {
    /// A filter with these variables, whose failure is kept.
    pub fn new(
        predicate: Arc<Predicate>,
        variables: Arc<Variables>,
        failure: FirstFailure,
    ) -> Self {
        Self { predicate, variables, failure }
    }

    /// What documents have to match.
    pub fn predicate(&self) -> &Arc<Predicate> {
        &self.predicate
    }

    pub(crate) fn matches(&self, document: &Value) -> Result<bool, EvalError> {
        let is_match = self.predicate.matches(document, &self.variables);
        is_match.map_err(|failure| keep(failure, &self.failure))
    }

    pub(crate) fn require(&self, mask: &mut FieldMask) {
        self.predicate.require(mask);
    }
}

/// One filter equals itself only: compiled expressions cannot be compared.
impl PartialEq for DocumentFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.predicate, &other.predicate)
            && Arc::ptr_eq(&self.variables, &other.variables)
    }
}

/// A value that documents are sorted by. Of arrays it is the least or the greatest element, and
/// values from one array belong to one element of it.
#[derive(Clone, Debug)]
pub struct SortValue {
    /// All columns of the sort.
    columns: Arc<[IndexColumn]>,
    /// The column that has the value.
    at: usize,
    failure: FirstFailure,
}

impl SortValue {
    /// The values of `columns`, the first of which decides first. Their failure is kept.
    pub fn all(columns: Vec<IndexColumn>, failure: &FirstFailure) -> Vec<Self> {
        let columns: Arc<[IndexColumn]> = columns.into();
        let count = columns.len();
        let value = |at| Self { columns: Arc::clone(&columns), at, failure: Arc::clone(failure) };
        (0..count).map(value).collect()
    }

    /// The columns of the sort.
    pub fn columns(&self) -> &[IndexColumn] {
        &self.columns
    }

    /// The column that has the value.
    pub fn column(&self) -> Option<&IndexColumn> {
        self.columns.get(self.at)
    }

    /// The value; `None` is below null.
    pub(crate) fn value<'d>(
        &self,
        document: &'d Value,
    ) -> Result<Option<Cow<'d, Value>>, EvalError> {
        if let Some(value) = self.direct_value(document) {
            return Ok(Some(Cow::Borrowed(value)));
        }
        let values = sort_values(document, &self.columns);
        let values = values.map_err(|failure| keep(failure, &self.failure))?;
        Ok(values.into_iter().nth(self.at).flatten().map(Cow::Owned))
    }

    /// The value if no array is on the way to it, and null for a missing one.
    fn direct_value<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        const NULL: &Value = &Value::Null;
        let mut value = document;
        for part in self.column()?.path.parts() {
            if value.as_array().is_some() {
                return None;
            }
            value = value.field(&part.name).unwrap_or(NULL);
        }
        value.as_array().is_none().then_some(value)
    }

    pub(crate) fn require(&self, mask: &mut FieldMask) {
        self.columns.iter().for_each(|column| column.path.require(mask));
    }

    /// The text that explanations show.
    pub(crate) fn text(&self) -> String {
        let Some(column) = self.column() else { return String::new() };
        let extreme = match column.kind {
            ColumnKind::Descending => "GREATEST",
            ColumnKind::Ascending | ColumnKind::Hashed => "LEAST",
        };
        format!("{extreme}({})", column.path.as_str())
    }
}

/// A column of another sort is another value.
impl PartialEq for SortValue {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.at == other.at
    }
}
