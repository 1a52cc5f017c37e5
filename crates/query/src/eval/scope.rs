//! The variables that an expression sees.

use model::Value;

/// The values of a row's variables. Scopes are linked from the innermost outwards, so binding one
/// more variable copies nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Number of the first variable of this scope.
    start: usize,
    values: Values<'a>,
    outer: Option<&'a Scope<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    None,
    One(&'a Value),
    Many(&'a [Option<Value>]),
}

impl<'a> Scope<'a> {
    /// No variables.
    pub(crate) const EMPTY: Scope<'static> = Scope { start: 0, values: Values::None, outer: None };

    /// An item, as variable 0.
    pub(crate) fn of_item(item: &'a Value) -> Self {
        Self { start: 0, values: Values::One(item), outer: None }
    }

    /// Adds a variable with this number. Variables with higher numbers are hidden.
    pub(crate) fn with(&'a self, slot: usize, value: &'a Value) -> Self {
        Self { start: slot, values: Values::One(value), outer: Some(self) }
    }

    /// Replaces the variables from `start` on by those of a group.
    pub(crate) fn with_group(&'a self, start: usize, values: &'a [Option<Value>]) -> Self {
        Self { start, values: Values::Many(values), outer: Some(self) }
    }

    pub(super) fn get(&self, slot: usize) -> Option<&'a Value> {
        let mut at = self;
        while slot < at.start {
            at = at.outer?;
        }
        let within = slot - at.start;
        match at.values {
            Values::None => None,
            Values::One(value) => (within == 0).then_some(value),
            Values::Many(values) => values.get(within)?.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_from_the_inside_out() {
        let (item, element) = (Value::Int64(1), Value::Int64(2));
        let outer = Scope::of_item(&item);
        let inner = outer.with(1, &element);
        assert_eq!(inner.get(0), Some(&item));
        assert_eq!(inner.get(1), Some(&element));
        assert_eq!(inner.get(2), None);
        assert_eq!(Scope::EMPTY.get(0), None);
        let group = [Some(Value::Int64(3)), None];
        let grouped = outer.with_group(1, &group);
        assert_eq!(grouped.get(1), Some(&Value::Int64(3)));
        assert_eq!(grouped.get(2), None);
        let subquery = grouped.with(3, &element);
        assert_eq!(subquery.get(3), Some(&element));
        assert_eq!(subquery.get(0), Some(&item));
    }
}
