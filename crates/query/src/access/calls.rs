//! What the truth of a function says of the terms of an item.

use model::{Object, Value};

use super::Step;
use super::analysis::{Analysis, Place};
use super::ranges::Matching;
use super::set::Found;
use crate::algebra::Expr;
use crate::functions::Function;

impl Analysis<'_> {
    /// The items for which a function can be exactly `wanted`.
    pub(super) fn find_call(
        &mut self,
        function: &'static Function,
        args: &[Expr],
        wanted: bool,
    ) -> Found {
        let name = function.name().to_ascii_uppercase();
        match (name.as_str(), args) {
            ("ST_WITHIN" | "ST_INTERSECTS", [a, b]) if wanted => {
                self.find_near(function, a, b, 0.0)
            }
            ("STARTSWITH", [text, part, rest @ ..]) => {
                self.find_text(text, part, rest, wanted, Matching::starting_with)
            }
            ("STRINGEQUALS", [text, part, rest @ ..]) => {
                let equal = |text: &str| Matching::equal_to(&Value::from(text));
                if constant_of(text).is_some() {
                    self.find_text(part, text, rest, wanted, equal)
                } else {
                    self.find_text(text, part, rest, wanted, equal)
                }
            }
            ("CONTAINS" | "ENDSWITH" | "REGEXMATCH", [text, part, ..]) => {
                let parts = vec![self.strings(text), self.strings(part)];
                Found::all(parts)
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
                None => Found::UNKNOWN,
            },
            _ => Found::UNKNOWN,
        }
    }

    /// The items for which two geometries, one of them a constant, are within a distance.
    pub(super) fn find_near(
        &mut self,
        function: &'static Function,
        a: &Expr,
        b: &Expr,
        distance: f64,
    ) -> Found {
        let (constant, expr) = match (constant_of(a), constant_of(b)) {
            (Some(constant), None) => (constant, b),
            (None, Some(constant)) => (constant, a),
            _ => return Found::UNKNOWN,
        };
        let Some(constant) = constant else { return Found::NEVER };
        let (Some(space), Some(place)) = (function.space(), self.place_of(expr)) else {
            return Found::UNKNOWN;
        };
        self.pay_for(constant, |own| {
            let ranges = space.cells_near(constant, distance);
            own.terms(&place.followed_by([Step::Cells(space)]), Matching::inexactly(ranges))
        })
    }

    /// A test of a text against a constant that is sensitive to case unless a flag says otherwise.
    fn find_text<'e>(
        &mut self,
        text: &Expr,
        constant: &'e Expr,
        flag: &[Expr],
        wanted: bool,
        matching: impl FnOnce(&str) -> Matching,
    ) -> Found {
        let text_of = |value: Option<&'e Value>| value.and_then(Value::as_str);
        match (constant_of(constant).and_then(text_of), flag_of(flag), wanted) {
            (Some(constant), Some(false), true) => self.matching(text, || matching(constant)),
            _ => Found::all(vec![self.strings(text), self.strings(constant)]),
        }
    }

    /// Functions of texts have a value only for texts.
    fn strings(&mut self, expr: &Expr) -> Found {
        self.matching(expr, || Matching::strings().inexact())
    }

    fn arrays(&mut self, expr: &Expr) -> Found {
        self.matching(expr, || Matching::arrays().inexact())
    }

    fn find_contained(
        &mut self,
        array: &Expr,
        needle: &Expr,
        flag: &[Expr],
        wanted: bool,
    ) -> Found {
        let is_partial = flag_of(flag);
        match (array, needle) {
            (_, Expr::Constant(None)) => Found::NEVER,
            (Expr::Constant(array), needle) if wanted => {
                let elements = array.as_deref().and_then(Value::as_array).unwrap_or_default();
                let found = self.equal_to_any(needle, elements.iter());
                if is_partial == Some(false) { found } else { found.inexact() }
            }
            (array, Expr::Constant(Some(needle))) if wanted => {
                let Some(place) = self.place_of(array) else { return Found::UNKNOWN };
                let found = self.pay_for(needle, |own| match (needle.as_object(), is_partial) {
                    (Some(part), Some(true)) => own.find_part(&place, part),
                    _ => own.terms(&place.elements(), Matching::equal_to(needle)),
                });
                if is_partial.is_some() { found } else { found.inexact() }
            }
            _ => self.arrays(array),
        }
    }

    /// The items with an element that has all fields of `part`.
    fn find_part(&self, array: &Place, part: &Object) -> Found {
        let mut conditions = vec![self.terms(&array.elements(), Matching::objects())];
        let mut path = vec![Step::Elements];
        self.add_fields(array, &mut path, part, &mut conditions);
        if conditions.len() > 1 {
            // An element with such fields is an object.
            conditions.remove(0);
        }
        Found::all(conditions).inexact()
    }

    fn add_fields(&self, array: &Place, path: &mut Vec<Step>, part: &Object, out: &mut Vec<Found>) {
        for (name, field) in part.iter() {
            path.push(Step::Name(name.to_owned()));
            match field.as_object() {
                Some(inner) if !inner.is_empty() => self.add_fields(array, path, inner, out),
                _ => {
                    let place = array.followed_by(path.iter().cloned());
                    out.push(self.terms(&place, Matching::equal_to(field)));
                }
            }
            path.pop();
        }
    }

    fn find_any_contained(&mut self, array: &Expr, needles: &[Expr]) -> Found {
        let Some(place) = self.place_of(array) else { return Found::UNKNOWN };
        let mut parts = Vec::with_capacity(needles.len());
        for needle in needles {
            match constant_of(needle) {
                Some(Some(needle)) => parts.push(self.contained(&place, needle)),
                Some(None) => {}
                None => return self.arrays(array),
            }
        }
        Found::any(parts)
    }

    fn find_all_contained(&mut self, array: &Expr, needles: &[Expr]) -> Found {
        let Some(place) = self.place_of(array) else { return Found::UNKNOWN };
        let mut parts = Vec::with_capacity(needles.len());
        for needle in needles {
            match constant_of(needle) {
                Some(Some(needle)) => parts.push(self.contained(&place, needle)),
                Some(None) => return Found::NEVER,
                None => parts.push(self.arrays(array)),
            }
        }
        Found::all(parts)
    }

    /// The items with an array at `place` that has an element equal to `needle`.
    fn contained(&mut self, place: &Place, needle: &Value) -> Found {
        self.pay_for(needle, |own| own.terms(&place.elements(), Matching::equal_to(needle)))
    }
}

/// What a type check with this name is true of.
fn kind_checked_by(name: &str) -> Option<Matching> {
    Some(match name {
        "IS_ARRAY" => Matching::arrays(),
        "IS_BOOL" => Matching::booleans(),
        "IS_DEFINED" => Matching::defined(),
        "IS_NULL" => Matching::nulls(),
        "IS_NUMBER" => Matching::numbers(),
        "IS_FINITE_NUMBER" | "IS_INTEGER" => Matching::numbers().inexact(),
        "IS_OBJECT" => Matching::objects(),
        "IS_PRIMITIVE" => Matching::primitives(),
        "IS_STRING" => Matching::strings(),
        _ => return None,
    })
}

/// The value of a constant, *undefined* being one too.
pub(super) fn constant_of(expr: &Expr) -> Option<Option<&Value>> {
    if let Expr::Constant(value) = expr { Some(value.as_deref()) } else { None }
}

/// An optional flag that is false unless given; `None` if it is not known.
fn flag_of(rest: &[Expr]) -> Option<bool> {
    match rest {
        [] => Some(false),
        [Expr::Constant(Some(flag))] => flag.as_bool(),
        _ => None,
    }
}
