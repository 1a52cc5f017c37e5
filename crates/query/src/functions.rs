//! Built-in functions, as tables: one row per function, one file per group.
//!
//! To add a function, write it in its group's file and add a row to that file's table. Unless its
//! documentation says otherwise a function is *undefined* when an argument is undefined or has the
//! wrong type, which `?` on the accessors of [`Args`] handles.

mod array;
pub mod date;
mod integer;
mod item;
mod logic;
mod math;
pub(crate) mod regex;
pub mod search;
mod set;
pub mod spatial;
mod string;
mod string_convert;
mod string_search;
mod type_check;
mod utf16;

use std::borrow::Cow;
use std::sync::Arc;

use model::{Object, Value};

use crate::fulltext::Search;
use crate::{Budget, EvalError};

/// A built-in function.
#[derive(Debug)]
pub struct Function {
    name: &'static str,
    args_min: usize,
    args_max: Option<usize>,
    body: Body,
    prepare: Option<Prepare>,
    /// How it interprets coordinates, if it is spatial.
    space: Option<spatial::Geospatial>,
}

/// Prepares a call from arguments that are known ahead, or says what is wrong with them.
type Prepare = fn(&Args<'_>) -> Result<Option<Prepared>, String>;

/// What a function prepares from arguments that are known ahead.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// A compiled regular expression.
    Regex(Arc<regex::pattern::Pattern>),
    /// A geometry.
    Shape(spatial::PreparedShape),
    /// A search of texts.
    Search(Arc<Search>),
    /// A full-text score.
    Score(Arc<search::PreparedScore>),
    /// A measure of vectors.
    Distance(Arc<search::PreparedDistance>),
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Prepared::Regex(a), Prepared::Regex(b)) => a.as_str() == b.as_str(),
            (Prepared::Shape(a), Prepared::Shape(b)) => a == b,
            (Prepared::Search(a), Prepared::Search(b)) => a == b,
            (Prepared::Score(a), Prepared::Score(b)) => a == b,
            (Prepared::Distance(a), Prepared::Distance(b)) => a == b,
            (
                Prepared::Regex(_)
                | Prepared::Shape(_)
                | Prepared::Search(_)
                | Prepared::Score(_)
                | Prepared::Distance(_),
                _,
            ) => false,
        }
    }
}

/// Names are unique.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// How a function is implemented.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// Time and result are at most linear in the texts and elements of the arguments.
    Linear(fn(&Args<'_>) -> Option<Value>),
    /// Pays for its own work.
    Metered(fn(&Args<'_>, &Budget) -> Outcome),
}

/// Reading a character or an element costs about as much as copying this many bytes.
const LINEAR_COST: usize = 4;

/// A result, *undefined*, or the error that the budget is used up.
pub type Outcome = Result<Option<Value>, EvalError>;

impl Function {
    const fn linear(
        name: &'static str,
        args: (usize, Option<usize>),
        body: fn(&Args<'_>) -> Option<Value>,
    ) -> Self {
        let body = Body::Linear(body);
        Self { name, args_min: args.0, args_max: args.1, body, prepare: None, space: None }
    }

    const fn metered(
        name: &'static str,
        args: (usize, Option<usize>),
        body: fn(&Args<'_>, &Budget) -> Outcome,
    ) -> Self {
        let body = Body::Metered(body);
        Self { name, args_min: args.0, args_max: args.1, body, prepare: None, space: None }
    }

    /// The same function, with a preparation step.
    const fn prepared(self, prepare: Prepare) -> Self {
        Self { prepare: Some(prepare), ..self }
    }

    /// The same function, for geometries in a space.
    const fn in_space(self, space: spatial::Geospatial) -> Self {
        Self { space: Some(space), ..self }
    }

    /// How it interprets coordinates, if it is spatial.
    pub(crate) fn space(&self) -> Option<spatial::Geospatial> {
        self.space
    }

    /// Prepares a call, once all arguments but the first are known. An error says what is wrong
    /// with them.
    pub(crate) fn prepare(&self, args: &Args<'_>) -> Result<Option<Prepared>, String> {
        self.prepare.map_or(Ok(None), |prepare| prepare(args))
    }

    /// The name as the documentation spells it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Smallest number of arguments.
    pub fn args_min(&self) -> usize {
        self.args_min
    }

    /// Largest number of arguments; `None` if unlimited.
    pub fn args_max(&self) -> Option<usize> {
        self.args_max
    }

    /// The function applied to arguments from outside a query, with the budget of one item.
    /// *Undefined* if it takes more or fewer arguments.
    pub fn apply(&self, args: &[Option<Value>]) -> Outcome {
        let fits = args.len() >= self.args_min && self.args_max.is_none_or(|max| args.len() <= max);
        if !fits {
            return Ok(None);
        }
        let args: Vec<_> = args.iter().map(|arg| arg.as_ref().map(Cow::Borrowed)).collect();
        self.call(&Args::new(&args, None), &Budget::per_item())
    }

    /// The function applied to a valid number of arguments.
    pub(crate) fn call(&self, args: &Args<'_>, budget: &Budget) -> Outcome {
        match self.body {
            Body::Linear(body) => {
                budget.spend_bytes(args.linear_bytes().saturating_mul(LINEAR_COST))?;
                Ok(body(args))
            }
            Body::Metered(body) => body(args, budget),
        }
    }
}

/// Exactly `n` arguments.
const fn exactly(n: usize) -> (usize, Option<usize>) {
    (n, Some(n))
}

/// From `min` to `max` arguments.
const fn between(min: usize, max: usize) -> (usize, Option<usize>) {
    (min, Some(max))
}

/// `min` or more arguments.
const fn at_least(min: usize) -> (usize, Option<usize>) {
    (min, None)
}

static GROUPS: [&[Function]; 14] = [
    array::FUNCTIONS,
    date::FUNCTIONS,
    integer::FUNCTIONS,
    item::FUNCTIONS,
    logic::FUNCTIONS,
    math::FUNCTIONS,
    regex::FUNCTIONS,
    search::FUNCTIONS,
    set::FUNCTIONS,
    spatial::GEOGRAPHY,
    string::FUNCTIONS,
    string_convert::FUNCTIONS,
    string_search::FUNCTIONS,
    type_check::FUNCTIONS,
];

/// The function called `name`, whatever its case, for items with coordinates of this kind.
pub fn lookup_in(name: &str, geospatial: spatial::Geospatial) -> Option<&'static Function> {
    let on_plane = match geospatial {
        spatial::Geospatial::Geography => None,
        spatial::Geospatial::Geometry => {
            spatial::GEOMETRY.iter().find(|f| f.name.eq_ignore_ascii_case(name))
        }
    };
    on_plane.or_else(|| lookup(name))
}

/// The function called `name`, whatever its case.
pub fn lookup(name: &str) -> Option<&'static Function> {
    // Java clients call it so where they resume an ordered query.
    let name = if name.eq_ignore_ascii_case("IS_BOOLEAN") { "IS_BOOL" } else { name };
    GROUPS.iter().flat_map(|group| group.iter()).find(|f| f.name.eq_ignore_ascii_case(name))
}

/// Every function, for tables and tests.
pub fn all() -> impl Iterator<Item = &'static Function> {
    GROUPS.iter().flat_map(|group| group.iter())
}

/// The evaluated arguments of a call.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    values: &'a [Option<Cow<'a, Value>>],
    prepared: Option<&'a Prepared>,
}

impl<'a> Args<'a> {
    pub(crate) fn new(
        values: &'a [Option<Cow<'a, Value>>],
        prepared: Option<&'a Prepared>,
    ) -> Self {
        Self { values, prepared }
    }

    /// What the function has prepared.
    fn prepared(&self) -> Option<&'a Prepared> {
        self.prepared
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    /// Argument `at`; `None` when undefined or absent.
    fn get(&self, at: usize) -> Option<&'a Value> {
        self.values.get(at)?.as_deref()
    }

    /// All arguments from `at` on, undefined ones included.
    fn rest(&self, at: usize) -> impl Iterator<Item = Option<&'a Value>> + use<'a> {
        self.values.iter().skip(at).map(|value| value.as_deref())
    }

    fn str(&self, at: usize) -> Option<&'a str> {
        self.get(at)?.as_str()
    }

    fn number(&self, at: usize) -> Option<f64> {
        self.get(at)?.as_f64()
    }

    fn integer(&self, at: usize) -> Option<i64> {
        self.get(at)?.as_i64()
    }

    fn array(&self, at: usize) -> Option<&'a [Value]> {
        self.get(at)?.as_array()
    }

    fn object(&self, at: usize) -> Option<&'a Object> {
        self.get(at)?.as_object()
    }

    /// An optional boolean that defaults to false.
    fn flag(&self, at: usize) -> Option<bool> {
        if at < self.len() { self.get(at)?.as_bool() } else { Some(false) }
    }

    /// How many bytes a linear function may have to read.
    fn linear_bytes(&self) -> usize {
        self.values.iter().flatten().map(|value| linear_bytes(value)).sum()
    }
}

fn linear_bytes(value: &Value) -> usize {
    if let Some(text) = value.as_str() {
        return text.len();
    }
    value.as_array().map_or(0, |elements| elements.len() * 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_arities_make_sense() {
        let mut names: Vec<_> = all().map(|f| f.name.to_ascii_uppercase()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for function in all() {
            assert!(
                function.args_max.is_none_or(|max| max >= function.args_min),
                "{}",
                function.name
            );
        }
    }

    #[test]
    fn a_function_is_applied_to_values_that_fit_it() {
        let point = |x: i64| {
            let mut point = Object::with_capacity(2);
            point.insert("type", "Point".into());
            point.insert("coordinates", Value::Array(vec![Value::Int64(x), Value::Int64(0)]));
            Some(Value::Object(point))
        };
        let distance = lookup_in("st_distance", spatial::Geospatial::Geometry).unwrap();
        assert_eq!(distance.apply(&[point(1), point(4)]), Ok(Some(Value::Int64(3))));
        assert_eq!(distance.apply(&[point(1), None]), Ok(None));
        assert_eq!(distance.apply(&[point(1)]), Ok(None));
        assert_eq!(distance.apply(&[point(1), point(1), point(1)]), Ok(None));
    }

    #[test]
    fn lookup_ignores_case() {
        assert_eq!(lookup("StartsWith").map(Function::name), Some("STARTSWITH"));
        assert_eq!(lookup("is_boolean").map(Function::name), Some("IS_BOOL"));
        assert!(lookup("nosuch").is_none());
    }
}
