//! Operators: what they are called, what arguments they take, and the calls of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use model::Value;

use super::{
    Evaluated, Expression, accumulate, arithmetic, array, compare, conditional, convert, date,
    math, misc, object, regex, set, string,
};
use crate::document::{Failure, Regex, Scope};

/// An operator.
#[derive(Debug)]
pub struct Operator {
    /// Its name, with the dollar sign.
    pub name: &'static str,
    /// The arguments that it takes.
    pub shape: Shape,
    /// Whether equal arguments give equal results, so that a call of constants is one.
    pub is_pure: bool,
    pub(super) evaluate: for<'s> fn(&Arguments<'s>) -> Evaluated<'s>,
}

/// The arguments that an operator takes.
#[derive(Debug)]
pub enum Shape {
    /// This many, in an array; one may stand by itself.
    Exactly(usize),
    /// From the first to the second number.
    Between(usize, usize),
    /// Any number.
    Any,
    /// An object of named arguments.
    Named(&'static Named),
    /// One argument, or an object with `date` and perhaps `timezone`.
    DatePart,
    /// Compiled by a rule of its own, which may have named arguments.
    Special(Option<&'static Named>),
}

/// Named arguments, and how the operator complains about them.
#[derive(Debug)]
pub struct Named {
    /// The arguments, in the order in which the operator counts them.
    pub parameters: &'static [Parameter],
    /// The number and text for what is not an object; `{}` is its type, `{op}` the operator.
    pub not_object: (i32, &'static str),
    /// The number and text for an argument without a parameter; `{}` is its name.
    pub unknown: (i32, &'static str),
}

/// A named parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The number and text for a call without it; `None` if it may be left out.
    pub missing: Option<(i32, &'static str)>,
}

/// Shorthand for the tables.
pub(super) const fn required(name: &'static str, code: i32, text: &'static str) -> Parameter {
    Parameter { name, missing: Some((code, text)) }
}

/// Shorthand for the tables.
pub(super) const fn optional(name: &'static str) -> Parameter {
    Parameter { name, missing: None }
}

impl Operator {
    pub(super) const fn new(
        name: &'static str,
        shape: Shape,
        evaluate: for<'s> fn(&Arguments<'s>) -> Evaluated<'s>,
    ) -> Self {
        Self { name, shape, is_pure: true, evaluate }
    }

    pub(super) const fn impure(self) -> Self {
        Self { name: self.name, shape: self.shape, is_pure: false, evaluate: self.evaluate }
    }
}

/// The tables of all groups.
const GROUPS: &[&[Operator]] = &[
    accumulate::OPERATORS,
    arithmetic::OPERATORS,
    array::OPERATORS,
    compare::OPERATORS,
    conditional::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
    math::OPERATORS,
    misc::OPERATORS,
    object::OPERATORS,
    regex::OPERATORS,
    set::OPERATORS,
    string::OPERATORS,
];

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static Operator>> = LazyLock::new(|| {
    GROUPS.iter().flat_map(|group| group.iter()).map(|operator| (operator.name, operator)).collect()
});

/// The operator with this name.
pub fn find(name: &str) -> Option<&'static Operator> {
    BY_NAME.get(name).copied()
}

/// An operator with its arguments.
#[derive(Clone, Debug)]
pub struct Call {
    operator: &'static Operator,
    arguments: Vec<Option<Expression>>,
    /// The number of the first variable that the call binds for its arguments.
    first_local: usize,
    /// The regular expression, once it is compiled, if it is a constant.
    regex: OnceLock<Option<Arc<Regex>>>,
}

impl Call {
    /// A call. Arguments that are left out are `None`.
    pub fn new(
        operator: &'static Operator,
        arguments: Vec<Option<Expression>>,
        first_local: usize,
    ) -> Self {
        Self { operator, arguments, first_local, regex: OnceLock::new() }
    }

    /// The operator.
    pub fn operator(&self) -> &'static Operator {
        self.operator
    }

    /// Its arguments.
    pub fn arguments(&self) -> &[Option<Expression>] {
        &self.arguments
    }

    pub(super) fn eval<'s>(&'s self, scope: &Scope<'s>) -> Evaluated<'s> {
        (self.operator.evaluate)(&Arguments { call: self, scope: *scope })
    }
}

/// The arguments of a call, evaluated when the operator asks for them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'s> {
    call: &'s Call,
    scope: Scope<'s>,
}

impl<'s> Arguments<'s> {
    pub(super) fn len(&self) -> usize {
        self.call.arguments.len()
    }

    pub(super) fn scope(&self) -> &Scope<'s> {
        &self.scope
    }

    /// The name of the operator.
    pub(super) fn name(&self) -> &'static str {
        self.call.operator.name
    }

    pub(super) fn first_local(&self) -> usize {
        self.call.first_local
    }

    pub(super) fn expression(&self, at: usize) -> Option<&'s Expression> {
        self.call.arguments.get(at)?.as_ref()
    }

    pub(super) fn is_given(&self, at: usize) -> bool {
        self.expression(at).is_some()
    }

    /// The value of an argument; one that was left out is missing.
    pub(super) fn value(&self, at: usize) -> Evaluated<'s> {
        match self.expression(at) {
            Some(expression) => expression.eval(&self.scope),
            None => Ok(None),
        }
    }

    /// The values of all arguments, one after the other.
    pub(super) fn values(&self) -> impl Iterator<Item = Evaluated<'s>> + '_ {
        (0..self.len()).map(|at| self.value(at))
    }

    /// As [`Arguments::value`], copied if it is borrowed.
    pub(super) fn own(&self, at: usize) -> Result<Option<Value>, Failure> {
        self.value(at)?.map(|value| self.scope.own(value)).transpose()
    }

    /// The regular expression of a call whose pattern and options are constants.
    pub(super) fn prepared_regex(&self) -> Option<&'s Arc<Regex>> {
        let is_constant = |at| self.expression(at).is_none_or(|part| part.as_literal().is_some());
        if !(is_constant(1) && is_constant(2)) {
            return None;
        }
        self.call.regex.get_or_init(|| regex::compile(self).ok().flatten()).as_ref()
    }

    /// A failure whose text begins with the name of the operator.
    pub(super) fn failure(&self, code: i32, text: impl std::fmt::Display) -> Failure {
        Failure::new(code, format!("{}{text}", self.name()))
    }
}

/// A result of its own.
pub(super) fn owned<'s>(value: impl Into<Value>) -> Evaluated<'s> {
    Ok(Some(Cow::Owned(value.into())))
}

/// Null.
pub(super) fn null<'s>() -> Evaluated<'s> {
    Ok(Some(Cow::Owned(Value::Null)))
}
