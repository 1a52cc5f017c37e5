//! Derives from the result of a function which terms an item must have.

use model::{Object, Value};

use super::Step;
use super::analysis::{Analysis, ItemPath};
use super::ranges::ValueRanges;
use super::set::CandidateSet;
use crate::algebra::Expr;
use crate::functions::Function;

impl Analysis<'_> {
    /// The items for which a function can be exactly `wanted`.
    pub(super) fn find_call(
        &mut self,
        function: &'static Function,
        args: &[Expr],
        wanted: bool,
    ) -> CandidateSet {
        let name = function.name().to_ascii_uppercase();
        match (name.as_str(), args) {
            ("ST_WITHIN" | "ST_INTERSECTS", [a, b]) if wanted => {
                self.find_near(function, a, b, 0.0)
            }
            ("STARTSWITH", [text, part, rest @ ..]) => {
                self.find_text(text, part, rest, wanted, ValueRanges::starting_with)
            }
            ("STRINGEQUALS", [text, part, rest @ ..]) => {
                let equal = |text: &str| ValueRanges::equal_to(&Value::from(text));
                if constant_of(text).is_some() {
                    self.find_text(part, text, rest, wanted, equal)
                } else {
                    self.find_text(text, part, rest, wanted, equal)
                }
            }
            ("CONTAINS" | "ENDSWITH" | "REGEXMATCH", [text, part, ..]) => {
                let parts = vec![self.strings(text), self.strings(part)];
                CandidateSet::all(parts)
            }
            (
                "CONTAINS_ALL_CI" | "CONTAINS_ALL_CS" | "CONTAINS_ANY_CI" | "CONTAINS_ANY_CS"
                | "CONTAINSALLCI" | "CONTAINSALLCS" | "CONTAINSANYCI" | "CONTAINSANYCS",
                [text, ..],
            ) => self.strings(text),
            ("ARRAY_CONTAINS", [array, needle, rest @ ..]) => {
                self.find_contained(array, needle, rest, wanted)
            }
            ("ARRAY_CONTAINS_ANY", [array, needles @ ..]) if wanted => {
                self.find_any_contained(array, needles)
            }
            ("ARRAY_CONTAINS_ALL", [array, needles @ ..]) if wanted => {
                self.find_all_contained(array, needles)
            }
            ("ARRAY_CONTAINS_ANY" | "ARRAY_CONTAINS_ALL", [array, ..]) => self.arrays(array),
            ("IIF", [condition, then, otherwise]) => {
                self.find_choice(condition, then, otherwise, wanted)
            }
            (name, [arg]) if wanted => match kind_checked_by(name) {
                Some(matching) => self.matching(arg, || matching),
                None => CandidateSet::UNKNOWN,
            },
            _ => CandidateSet::UNKNOWN,
        }
    }

    /// The items for which two geometries, one of them a constant, are within a distance.
    pub(super) fn find_near(
        &mut self,
        function: &'static Function,
        a: &Expr,
        b: &Expr,
        distance: f64,
    ) -> CandidateSet {
        let (constant, expr) = match (constant_of(a), constant_of(b)) {
            (Some(constant), None) => (constant, b),
            (None, Some(constant)) => (constant, a),
            _ => return CandidateSet::UNKNOWN,
        };
        let Some(constant) = constant else { return CandidateSet::NEVER };
        let (Some(space), Some(item_path)) = (function.space(), self.item_path_of(expr)) else {
            return CandidateSet::UNKNOWN;
        };
        self.pay_for(constant, |own| {
            let ranges = space.cells_near(constant, distance);
            own.terms(&item_path.followed_by([Step::Cells(space)]), ValueRanges::inexactly(ranges))
        })
    }

    /// A test of a text against a constant, case-sensitive unless a flag says otherwise.
    fn find_text<'e>(
        &mut self,
        text: &Expr,
        constant: &'e Expr,
        flag: &[Expr],
        wanted: bool,
        matching: impl FnOnce(&str) -> ValueRanges,
    ) -> CandidateSet {
        let text_of = |value: Option<&'e Value>| value.and_then(Value::as_str);
        match (constant_of(constant).and_then(text_of), flag_of(flag), wanted) {
            (Some(constant), Some(false), true) => self.matching(text, || matching(constant)),
            _ => CandidateSet::all(vec![self.strings(text), self.strings(constant)]),
        }
    }

    /// Functions of texts are defined only for texts.
    fn strings(&mut self, expr: &Expr) -> CandidateSet {
        self.matching(expr, || ValueRanges::strings().inexact())
    }

    fn arrays(&mut self, expr: &Expr) -> CandidateSet {
        self.matching(expr, || ValueRanges::arrays().inexact())
    }

    fn find_contained(
        &mut self,
        array: &Expr,
        needle: &Expr,
        flag: &[Expr],
        wanted: bool,
    ) -> CandidateSet {
        let is_partial = flag_of(flag);
        match (array, needle) {
            (_, Expr::Constant(None)) => CandidateSet::NEVER,
            (Expr::Constant(array), needle) if wanted => {
                let elements = array.as_deref().and_then(Value::as_array).unwrap_or_default();
                let found = self.equal_to_any(needle, elements.iter());
                if is_partial == Some(false) { found } else { found.inexact() }
            }
            (array, Expr::Constant(Some(needle))) if wanted => {
                let Some(item_path) = self.item_path_of(array) else {
                    return CandidateSet::UNKNOWN;
                };
                let found = self.pay_for(needle, |own| match (needle.as_object(), is_partial) {
                    (Some(part), Some(true)) => own.find_part(&item_path, part),
                    _ => own.terms(&item_path.elements(), ValueRanges::equal_to(needle)),
                });
                if is_partial.is_some() { found } else { found.inexact() }
            }
            _ => self.arrays(array),
        }
    }

    /// The items with an element that has all fields of `part`.
    fn find_part(&self, array: &ItemPath, part: &Object) -> CandidateSet {
        let mut conditions = vec![self.terms(&array.elements(), ValueRanges::objects())];
        let mut path = vec![Step::Elements];
        self.add_fields(array, &mut path, part, &mut conditions);
        if conditions.len() > 1 {
            // An element with such fields is an object.
            conditions.remove(0);
        }
        CandidateSet::all(conditions).inexact()
    }

    fn add_fields(
        &self,
        array: &ItemPath,
        path: &mut Vec<Step>,
        part: &Object,
        out: &mut Vec<CandidateSet>,
    ) {
        for (name, field) in part.iter() {
            path.push(Step::Name(name.to_owned()));
            match field.as_object() {
                Some(inner) if !inner.is_empty() => self.add_fields(array, path, inner, out),
                _ => {
                    let item_path = array.followed_by(path.iter().cloned());
                    out.push(self.terms(&item_path, ValueRanges::equal_to(field)));
                }
            }
            path.pop();
        }
    }

    fn find_any_contained(&mut self, array: &Expr, needles: &[Expr]) -> CandidateSet {
        let Some(item_path) = self.item_path_of(array) else { return CandidateSet::UNKNOWN };
        let mut parts = Vec::with_capacity(needles.len());
        for needle in needles {
            match constant_of(needle) {
                Some(Some(needle)) => parts.push(self.contained(&item_path, needle)),
                Some(None) => {}
                None => return self.arrays(array),
            }
        }
        CandidateSet::any(parts)
    }

    fn find_all_contained(&mut self, array: &Expr, needles: &[Expr]) -> CandidateSet {
        let Some(item_path) = self.item_path_of(array) else { return CandidateSet::UNKNOWN };
        let mut parts = Vec::with_capacity(needles.len());
        for needle in needles {
            match constant_of(needle) {
                Some(Some(needle)) => parts.push(self.contained(&item_path, needle)),
                Some(None) => return CandidateSet::NEVER,
                None => parts.push(self.arrays(array)),
            }
        }
        CandidateSet::all(parts)
    }

    /// The items with an array at `item_path` that has an element equal to `needle`.
    fn contained(&mut self, item_path: &ItemPath, needle: &Value) -> CandidateSet {
        self.pay_for(needle, |own| own.terms(&item_path.elements(), ValueRanges::equal_to(needle)))
    }
}

/// The values for which a type check with this name is true.
fn kind_checked_by(name: &str) -> Option<ValueRanges> {
    Some(match name {
        "IS_ARRAY" => ValueRanges::arrays(),
        "IS_BOOL" => ValueRanges::booleans(),
        "IS_DEFINED" => ValueRanges::defined(),
        "IS_NULL" => ValueRanges::nulls(),
        "IS_NUMBER" => ValueRanges::numbers(),
        "IS_FINITE_NUMBER" | "IS_INTEGER" => ValueRanges::numbers().inexact(),
        "IS_OBJECT" => ValueRanges::objects(),
        "IS_PRIMITIVE" => ValueRanges::primitives(),
        "IS_STRING" => ValueRanges::strings(),
        _ => return None,
    })
}

/// The value of a constant; *undefined* is one too.
pub(super) fn constant_of(expr: &Expr) -> Option<Option<&Value>> {
    if let Expr::Constant(value) = expr { Some(value.as_deref()) } else { None }
}

/// An optional flag that defaults to false; `None` if it is not a constant boolean.
fn flag_of(rest: &[Expr]) -> Option<bool> {
    match rest {
        [] => Some(false),
        [Expr::Constant(Some(flag))] => flag.as_bool(),
        _ => None,
    }
}
