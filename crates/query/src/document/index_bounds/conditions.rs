//! The conditions on paths that all documents meet which a filter accepts.

use super::ranges::ColumnRanges;
use crate::document::Predicate;
use crate::document::predicate::ValueTest;

/// A condition on the values of a path.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) path: String,
    /// The values that meet it; `None` if it only says that there is a value, or none.
    pub(super) ranges: Option<ColumnRanges>,
    needs_value: bool,
}

impl Condition {
    /// Whether only documents with a value at the path meet it.
    pub(super) fn needs_value(&self) -> bool {
        self.needs_value || self.ranges.as_ref().is_some_and(|ranges| !ranges.has_null())
    }
}

/// The conditions of a filter.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    pub(super) parts: Vec<Condition>,
    /// Whether every document that meets all of them is accepted.
    pub(super) are_all: bool,
}

/// Conditions that a filter implies.
pub(super) fn conditions_of(filter: &Predicate) -> Conditions {
    let mut found = Conditions { parts: Vec::new(), are_all: true };
    collect(filter, "", &mut found);
    found
}

/// Adds the conditions of `filter`, whose paths begin behind `base`.
fn collect(filter: &Predicate, base: &str, found: &mut Conditions) {
    match filter {
        Predicate::And(parts) => parts.iter().for_each(|part| collect(part, base, found)),
        Predicate::Or(parts) => {
            found.are_all = false;
            found.parts.extend(union_of(parts, base));
        }
        Predicate::Field { path, test } => {
            // In an element a number is the name of a field, in a document a position as well.
            let first = path.parts().first();
            match !base.is_empty() && first.is_some_and(|part| part.position.is_some()) {
                true => found.are_all = false,
                false => collect_test(&joined(base, path.as_str()), test, found),
            }
        }
        Predicate::Not(negated) => {
            found.are_all = false;
            if let Predicate::Field { path, test: ValueTest::Exists } = negated.as_ref() {
                let ranges = Some(ColumnRanges::equal_to(&model::Value::Null));
                let path = joined(base, path.as_str());
                found.parts.push(Condition { path, ranges, needs_value: false });
            }
        }
        Predicate::Constant(true) => {}
        Predicate::Constant(false)
        | Predicate::Expression(_)
        | Predicate::Script(_)
        | Predicate::Sample { .. }
        | Predicate::Schema(_) => found.are_all = false,
    }
}

fn joined(base: &str, path: &str) -> String {
    match (base, path) {
        ("", path) => path.to_owned(),
        (base, "") => base.to_owned(),
        (base, path) => format!("{base}.{path}"),
    }
}

fn collect_test(path: &str, test: &ValueTest, found: &mut Conditions) {
    match test {
        ValueTest::ElementObject(inner) => {
            found.are_all = false;
            collect(inner, path, found);
        }
        ValueTest::ElementValue(inner) => {
            found.are_all = false;
            collect_of_element(inner, path, found);
        }
        ValueTest::Compare { .. }
        | ValueTest::In(_)
        | ValueTest::Exists
        | ValueTest::Type(_)
        | ValueTest::Regex(_)
        | ValueTest::Mod { .. }
        | ValueTest::Bits(_)
        | ValueTest::Size(_) => {}
    }
    let ranges = ranges_of(test);
    found.are_all &= ranges.is_some();
    let needs_value = matches!(test, ValueTest::Exists);
    found.parts.push(Condition { path: path.to_owned(), ranges, needs_value });
}

/// Adds one condition for all tests of an element: they are met by the same value.
fn collect_of_element(inner: &Predicate, path: &str, found: &mut Conditions) {
    let mut tests = Vec::new();
    tests_of_element(inner, &mut tests);
    let ranges = tests.into_iter().filter_map(ranges_of);
    if let Some(ranges) = ranges.reduce(|a, b| a.intersection(&b)) {
        let ranges = Some(ColumnRanges { is_exact: false, ..ranges });
        found.parts.push(Condition { path: path.to_owned(), ranges, needs_value: true });
    }
}

/// The tests that an element must pass itself.
fn tests_of_element<'p>(inner: &'p Predicate, tests: &mut Vec<&'p ValueTest>) {
    match inner {
        Predicate::And(parts) => parts.iter().for_each(|part| tests_of_element(part, tests)),
        Predicate::Field { path, test } if path.parts().is_empty() => match test {
            // The elements of elements have no keys.
            ValueTest::ElementObject(_) | ValueTest::ElementValue(_) => {}
            ValueTest::Compare { .. }
            | ValueTest::In(_)
            | ValueTest::Exists
            | ValueTest::Type(_)
            | ValueTest::Regex(_)
            | ValueTest::Mod { .. }
            | ValueTest::Bits(_)
            | ValueTest::Size(_) => tests.push(test),
        },
        Predicate::Field { .. }
        | Predicate::Or(_)
        | Predicate::Not(_)
        | Predicate::Constant(_)
        | Predicate::Expression(_)
        | Predicate::Script(_)
        | Predicate::Sample { .. }
        | Predicate::Schema(_) => {}
    }
}

/// The values that pass a test; `None` if it restricts nothing.
fn ranges_of(test: &ValueTest) -> Option<ColumnRanges> {
    match test {
        ValueTest::Compare { relation, operand } => ColumnRanges::compared(*relation, operand),
        ValueTest::In(list) => {
            let values = ColumnRanges::equal_to_any(list.values());
            let regexes = list.regexes().iter().map(|regex| ColumnRanges::matching(regex));
            Some(regexes.fold(values, |all, regex| all.union(&regex)))
        }
        ValueTest::Exists => None,
        ValueTest::Type(types) => Some(ColumnRanges::of_types(*types)),
        ValueTest::Regex(regex) => Some(ColumnRanges::matching(regex)),
        ValueTest::Mod { .. } => Some(ColumnRanges::of_numbers(false)),
        ValueTest::Bits(_) => Some(ColumnRanges::of_numbers(true)),
        ValueTest::Size(_) | ValueTest::ElementObject(_) | ValueTest::ElementValue(_) => {
            Some(ColumnRanges::of_arrays())
        }
    }
}

/// The condition on one path that one of several filters implies each.
fn union_of(parts: &[Predicate], base: &str) -> Option<Condition> {
    let mut all: Option<Condition> = None;
    for part in parts {
        let mut own = Conditions::default();
        collect(part, base, &mut own);
        let mut own = own.parts.into_iter().filter(|condition| condition.ranges.is_some());
        all = Some(match all {
            None => own.next()?,
            Some(known) => {
                let same = own.find(|condition| condition.path == known.path)?;
                let ranges = known.ranges?.union(&same.ranges?);
                Condition { path: known.path, ranges: Some(ranges), needs_value: false }
            }
        });
    }
    all
}

/// Whether documents that meet all of `conditions` are accepted by `filter`.
pub(super) fn is_implied(filter: &Predicate, conditions: &[Condition]) -> bool {
    let wanted = conditions_of(filter);
    wanted.are_all_but_existence(filter)
        && wanted.parts.iter().all(|wanted| {
            let own = conditions.iter().filter(|condition| condition.path == wanted.path);
            let mut own = own.into_iter();
            match &wanted.ranges {
                None => own.any(Condition::needs_value),
                Some(wanted) => own.any(|condition| {
                    let ranges = condition.ranges.as_ref();
                    wanted.is_exact && ranges.is_some_and(|ranges| ranges.is_within(wanted))
                }),
            }
        })
}

impl Conditions {
    /// Whether the conditions say all that the filter says, where those that only say that there is
    /// a value are understood.
    fn are_all_but_existence(&self, filter: &Predicate) -> bool {
        fn is_plain(filter: &Predicate) -> bool {
            match filter {
                Predicate::And(parts) => parts.iter().all(is_plain),
                Predicate::Field { test, .. } => match test {
                    ValueTest::Compare { relation, .. } => {
                        *relation != crate::algebra::Relation::NotEqual
                    }
                    ValueTest::Exists | ValueTest::Type(_) | ValueTest::In(_) => true,
                    ValueTest::Regex(_)
                    | ValueTest::Mod { .. }
                    | ValueTest::Bits(_)
                    | ValueTest::Size(_)
                    | ValueTest::ElementObject(_)
                    | ValueTest::ElementValue(_) => false,
                },
                Predicate::Constant(always) => *always,
                Predicate::Or(_)
                | Predicate::Not(_)
                | Predicate::Expression(_)
                | Predicate::Script(_)
                | Predicate::Sample { .. }
                | Predicate::Schema(_) => false,
            }
        }
        self.are_all || is_plain(filter)
    }
}
