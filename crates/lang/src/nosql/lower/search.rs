//! Functions that search texts and vectors: prepares their constant arguments.

use std::sync::Arc;

use model::limits::SEARCH_PHRASES_MAX;
use model::{PropertyPath, Value};
use query::algebra::Expr;
use query::fulltext::{Language, Phrase, Search, Statistics};
use query::functions::search::{PreparedDistance, PreparedScore};
use query::functions::{Function, Prepared};
use query::vector;
use query::vector::VectorMetric;

use super::super::ast::Span;
use super::super::diagnostic::Diagnostic;
use super::{Lowered, Lowering};

/// Most letters in which a word may differ.
const DISTANCE_MAX: i64 = 2;
/// Factors by which the number of candidates may exceed the number of rows.
const EFFORTS: std::ops::RangeInclusive<i64> = 1..=100;
const EFFORT_DEFAULT: u32 = 5;

/// Whether a function searches.
pub(super) fn is_search(function: &Function) -> bool {
    let name = function.name();
    name.starts_with("FullText") || name.starts_with("_FullText") || is_distance(name)
}

fn is_distance(name: &str) -> bool {
    matches!(name, "VectorDistance" | "_VectorScore")
}

impl Lowering<'_> {
    pub(super) fn search(
        &self,
        function: &'static Function,
        mut args: Vec<Expr>,
        span: Span,
    ) -> Lowered<Expr> {
        let prepared = if is_distance(function.name()) {
            if constant(&args[0]).is_some() && constant(&args[1]).is_none() {
                args.swap(0, 1);
            }
            Some(Prepared::Distance(Arc::new(self.distance(&args, span)?)))
        } else if function.name() == "_FullTextScore" {
            let [path, terms, statistics @ ..] = args.as_slice() else {
                return Ok(Expr::Constant(None));
            };
            let terms = elements(terms, span)?;
            match (self.search_for(path, &terms, span)?, statistics_of(statistics, span)?) {
                (Some(search), Some(statistics)) => {
                    Some(Prepared::Score(Arc::new(PreparedScore { search, statistics })))
                }
                _ => None,
            }
        } else {
            let search = self.search_for(&args[0], &args[1..], span)?;
            search.map(|search| Prepared::Search(Arc::new(search)))
        };
        Ok(match prepared {
            Some(prepared) => Expr::Call { function, args, prepared: Some(prepared) },
            None => Expr::Constant(None),
        })
    }

    /// A search for phrases at a path; `None` if an argument is not a phrase.
    pub(super) fn search_for(
        &self,
        path: &Expr,
        terms: &[Expr],
        span: Span,
    ) -> Lowered<Option<Search>> {
        if terms.len() > SEARCH_PHRASES_MAX {
            let what = format!("more than {SEARCH_PHRASES_MAX} search terms");
            return Err(Diagnostic::not_supported(&what, span));
        }
        let language = self.language_of(path);
        let mut phrases = Vec::with_capacity(terms.len());
        for term in terms {
            let Some(term) = constant(term) else {
                return Err(Diagnostic::not_supported("a search term that depends on a row", span));
            };
            match term.and_then(|term| phrase(term, language)) {
                Some(phrase) => phrases.push(phrase),
                None => return Ok(None),
            }
        }
        Ok(Some(Search { language, phrases }))
    }

    fn language_of(&self, path: &Expr) -> Language {
        let texts = &self.environment.texts;
        let known = self.path_of(path).and_then(|path| known_path(texts, &path));
        known.unwrap_or(self.environment.language)
    }

    fn distance(&self, args: &[Expr], span: Span) -> Lowered<PreparedDistance> {
        let options = match args.get(3).map(constant) {
            None => None,
            Some(Some(options)) => options,
            Some(None) => {
                return Err(Diagnostic::not_supported("options that depend on a row", span));
            }
        };
        let is_exhaustive = args.get(2).and_then(constant).flatten().and_then(Value::as_bool);
        let metric = match options.and_then(|options| options.field("distanceFunction")) {
            Some(name) => Some(metric_called(name, span)?),
            None => args
                .iter()
                .take(2)
                .find_map(|arg| known_path(&self.environment.vectors, &self.path_of(arg)?)),
        };
        let known = args.get(1).and_then(constant).flatten().and_then(vector::numbers_of);
        Ok(PreparedDistance {
            metric: metric.unwrap_or(VectorMetric::Cosine),
            known: known.map(Arc::from),
            is_exhaustive: is_exhaustive.unwrap_or(false),
            effort: options.map_or(Ok(EFFORT_DEFAULT), |options| effort(options, span))?,
        })
    }

    /// The names that lead from the item to an expression.
    fn path_of(&self, expr: &Expr) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut at = expr;
        while let Expr::Property { base, name } = at {
            names.push(name.clone());
            at = base;
        }
        names.reverse();
        let is_item = matches!(at, Expr::Variable(slot) if self.items.contains(slot));
        is_item.then_some(names)
    }
}

fn known_path<T: Copy>(known: &[(PropertyPath, T)], path: &[String]) -> Option<T> {
    known.iter().find(|(known, _)| known.segments() == path).map(|(_, of)| *of)
}

/// The value of a constant; *undefined* is one too.
fn constant(expr: &Expr) -> Option<Option<&Value>> {
    if let Expr::Constant(value) = expr { Some(value.as_deref()) } else { None }
}

/// The elements of an array that is known.
fn elements(expr: &Expr, span: Span) -> Lowered<Vec<Expr>> {
    match constant(expr).flatten().and_then(Value::as_array) {
        Some(elements) => {
            let element = |value: &Value| Expr::Constant(Some(Arc::new(value.clone())));
            Ok(elements.iter().map(element).collect())
        }
        None => Err(Diagnostic::not_supported("search terms that are no array", span)),
    }
}

/// A text, or `{"term": text, "distance": n}`.
fn phrase(term: &Value, language: Language) -> Option<Phrase> {
    if let Some(text) = term.as_str() {
        return Some(Phrase { words: language.words(text), distance: 0 });
    }
    let text = term.field("term")?.as_str()?;
    let distance = match term.field("distance") {
        Some(distance) => distance.as_i64().filter(|n| (0..=DISTANCE_MAX).contains(n))?,
        None => 0,
    };
    Some(Phrase { words: language.words(text), distance: u8::try_from(distance).ok()? })
}

/// Counts of items and words, and an array with the number of items for each phrase.
fn statistics_of(args: &[Expr], span: Span) -> Lowered<Option<Statistics>> {
    let [items, words, hits] = args else { return Ok(None) };
    let number = |expr: &Expr| constant(expr).flatten().and_then(Value::as_f64);
    let hits = elements(hits, span)?.iter().map(number).collect::<Option<Vec<_>>>();
    let statistics = number(items).zip(number(words)).zip(hits);
    Ok(statistics.map(|((items, words), hits)| Statistics { items, words, hits }))
}

fn metric_called(name: &Value, span: Span) -> Lowered<VectorMetric> {
    name.as_str().and_then(VectorMetric::lookup).ok_or_else(|| {
        let name = model::json::to_string(name);
        let message = format!(
            "The 'distanceFunction' value {name} specified in the VectorDistance function is not \
             valid. The value must be one of 'cosine', 'dotproduct' and 'euclidean'."
        );
        Diagnostic::syntax("SC2212", message, span)
    })
}

fn effort(options: &Value, span: Span) -> Lowered<u32> {
    let mut effort = EFFORT_DEFAULT;
    for name in ["searchListSizeMultiplier", "quantizedVectorListMultiplier"] {
        let Some(value) = options.field(name) else { continue };
        let number = value.as_i64().filter(|n| EFFORTS.contains(n));
        let number = number.and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
            let message = format!(
                "The '{name}' value {} specified in the VectorDistance function is outside the \
                 supported range. The value must be between {} and {}.",
                model::json::to_string(value),
                EFFORTS.start(),
                EFFORTS.end()
            );
            Diagnostic::syntax("SC2213", message, span)
        })?;
        effort = effort.max(number);
    }
    Ok(effort)
}
