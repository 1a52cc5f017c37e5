//! Counts of rows: TOP, OFFSET and LIMIT.

use model::Value;
use query::plan::Window;

use super::super::ast::{self, CountValue, Span};
use super::super::diagnostic::Diagnostic;
use super::{Lowered, Lowering};

/// A clause that takes a count, and its errors.
pub(super) struct CountClause {
    name: &'static str,
    too_large_code: &'static str,
    too_large: &'static str,
}

pub(super) const TOP: CountClause = CountClause {
    name: "TOP",
    too_large_code: "SC2060",
    too_large: "The count value provided for a TOP clause must be an integer.",
};
const OFFSET: CountClause = CountClause {
    name: "OFFSET",
    too_large_code: "SC2062",
    too_large: "The OFFSET count value exceeds the maximum allowed value.",
};
const LIMIT: CountClause = CountClause {
    name: "LIMIT",
    too_large_code: "SC2061",
    too_large: "The LIMIT count value exceeds the maximum allowed value.",
};

impl Lowering<'_> {
    pub(super) fn window(&self, query: &ast::Query) -> Lowered<Option<Window>> {
        let Some(window) = &query.window else { return Ok(None) };
        if query.top.is_some() {
            let keyword = Span::new(window.span.start, window.span.start + "OFFSET".len());
            return Err(Diagnostic::unexpected("OFFSET", keyword));
        }
        let offset = self.count(&window.offset, &OFFSET)?;
        let limit = self.count(&window.limit, &LIMIT)?;
        Ok(Some(Window { offset, limit }))
    }

    /// A count of rows: a whole number below 2^32.
    pub(super) fn count(&self, count: &ast::Count, clause: &CountClause) -> Lowered<u64> {
        let value = match &count.value {
            CountValue::Number(value) => Some(value),
            CountValue::Parameter(name) => self.parameters.get(name.as_str()).map(|value| &**value),
        };
        let is_count = value.and_then(Value::as_f64).is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
        let number = value.and_then(Value::as_i64).and_then(|n| u32::try_from(n).ok());
        match number {
            Some(number) => Ok(u64::from(number)),
            None if is_count => Err(Diagnostic::syntax(
                clause.too_large_code,
                clause.too_large.to_owned(),
                count.span,
            )),
            None => {
                let name = clause.name;
                let message =
                    format!("The count value provided for a {name} clause must be an integer.");
                Err(Diagnostic::syntax("SC2060", message, count.span))
            }
        }
    }
}
