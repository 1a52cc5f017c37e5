//! Which parts of a query a full-text or vector index can answer.

use super::{Step, names_of};
use crate::algebra::Expr;
use crate::fulltext::{Language, Search};
use crate::functions::Prepared;
use crate::functions::search::{PreparedDistance, PreparedScore};
use crate::plan::{Aggregate, Input, Plan, SortOrder};

/// What rows are ordered by, the best rows first.
#[derive(Clone, Debug)]
pub enum Ranking<'p> {
    /// The score of the texts at a path.
    Text {
        /// Names from the root.
        path: Vec<String>,
        /// How they are scored.
        score: &'p PreparedScore,
    },
    /// The distance between the vectors at a path and a known vector.
    Vector {
        /// Names from the root.
        path: Vec<String>,
        /// How it is measured.
        distance: &'p PreparedDistance,
        /// The known vector.
        from: &'p [f32],
    },
}

/// Items whose texts have certain words.
#[derive(Clone, Debug)]
pub enum TextMatch<'p> {
    /// At one path.
    Text {
        /// Names from the root.
        path: Vec<String>,
        /// The words to search.
        search: &'p Search,
        /// Whether all of them must occur.
        needs_all: bool,
    },
    /// Items that are in at least one of these.
    Any(Vec<TextMatch<'p>>),
    /// Items that are in all of these.
    All(Vec<TextMatch<'p>>),
}

/// A count over all items.
#[derive(Clone, Debug)]
pub enum Total<'p> {
    /// The number of items.
    Items,
    /// The number of words in the texts at a path.
    Words {
        /// Names from the root.
        path: Vec<String>,
        /// Their language.
        language: Language,
    },
    /// The number of texts that have certain words.
    Texts(TextMatch<'p>),
}

impl Plan {
    /// The score that rows are ordered by, if there is one, and how many of the best are needed at
    /// most.
    pub fn ranking(&self) -> Option<(Ranking<'_>, u64)> {
        let clauses = self.clauses();
        let [key] = clauses.order.as_slice() else { return None };
        let is_plain = matches!(clauses.input, Input::Items)
            && clauses.select.is_row_by_row()
            && clauses.select.bindings().is_empty();
        if !is_plain {
            return None;
        }
        let rows = self.offset().unwrap_or(0).saturating_add(self.rows_max());
        let expr = if let Expr::Coalesce(score, _) = &key.expr { score } else { &key.expr };
        let Expr::Call { args, prepared, .. } = expr else { return None };
        let path = plain_names(args.first()?)?;
        let ranking = match prepared.as_ref()? {
            Prepared::Score(score) if key.order == SortOrder::Descending => {
                Ranking::Text { path, score }
            }
            Prepared::Distance(distance) if key.order == distance.metric.best_first() => {
                Ranking::Vector { path, distance, from: distance.known.as_deref()? }
            }
            Prepared::Score(_)
            | Prepared::Distance(_)
            | Prepared::Search(_)
            | Prepared::Regex(_)
            | Prepared::Shape(_) => return None,
        };
        Some((ranking, rows))
    }

    /// The words that items kept by the filter must have, as far as the filter requires words.
    pub fn text_match(&self) -> Option<TextMatch<'_>> {
        let clauses = self.clauses();
        let is_of_items = matches!(clauses.input, Input::Items);
        is_of_items.then(|| text_match(clauses.select.filter()?)).flatten()
    }

    /// The counts, if the plan does nothing but count over all items.
    pub fn totals(&self) -> Option<Vec<Total<'_>>> {
        let clauses = self.clauses();
        let select = &clauses.select;
        let grouping = select.grouping()?;
        let is_plain = matches!(clauses.input, Input::Items)
            && select.bindings().is_empty()
            && select.filter().is_none()
            && !select.is_distinct()
            && clauses.order.is_empty()
            && grouping.keys.is_empty();
        if !is_plain {
            return None;
        }
        let calls = grouping.aggregates.iter();
        calls.map(|call| total(call.aggregate, &call.operand)).collect()
    }
}

fn total(aggregate: Aggregate, operand: &Expr) -> Option<Total<'_>> {
    match aggregate {
        Aggregate::Count => matches!(operand, Expr::Constant(Some(_))).then_some(Total::Items),
        Aggregate::CountIf => text_match_of_call(operand).map(Total::Texts),
        Aggregate::Sum => {
            let Expr::Call { function, args, prepared: Some(Prepared::Search(search)) } = operand
            else {
                return None;
            };
            let is_count = function.name() == "_FullTextWordCount";
            let path = plain_names(args.first()?)?;
            is_count.then_some(Total::Words { path, language: search.language })
        }
        Aggregate::Average
        | Aggregate::Max
        | Aggregate::Min
        | Aggregate::MakeList
        | Aggregate::MakeSet => None,
    }
}

fn text_match(filter: &Expr) -> Option<TextMatch<'_>> {
    if let Expr::And(operands) = filter {
        // A condition on other things than words excludes items, but adds none.
        let mut parts: Vec<_> = operands.iter().filter_map(text_match).collect();
        return match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(TextMatch::All(parts)),
        };
    }
    if let Expr::Or(operands) = filter {
        return operands.iter().map(text_match).collect::<Option<_>>().map(TextMatch::Any);
    }
    text_match_of_call(filter)
}

fn text_match_of_call(expr: &Expr) -> Option<TextMatch<'_>> {
    let Expr::Call { function, args, prepared: Some(Prepared::Search(search)) } = expr else {
        return None;
    };
    let needs_all = match function.name() {
        "FullTextContains" | "FullTextContainsAny" => false,
        "FullTextContainsAll" => true,
        _ => return None,
    };
    Some(TextMatch::Text { path: plain_names(args.first()?)?, search, needs_all })
}

fn plain_names(expr: &Expr) -> Option<Vec<String>> {
    let name = |step: Step| match step {
        Step::Name(name) => Some(name),
        Step::Elements | Step::Cells(_) => None,
    };
    names_of(expr)?.into_iter().map(name).collect()
}
