//! Expressions of the aggregation language: literals, field paths, objects, arrays and calls of
//! operators.
//!
//! An operator is a row in the table of its group, with a function that evaluates its arguments
//! when it needs them. `lang::mongo` looks operators up by name and checks their arguments.

use std::borrow::Cow;

use model::json::FieldMask;
use model::{Object, Value};

use super::{Evaluate, Failure, Scope, Variables};

mod accumulate;
mod arithmetic;
mod array;
mod compare;
mod conditional;
mod convert;
mod date;
mod math;
mod misc;
pub(super) mod number;
mod object;
mod operator;
mod path;
mod regex;
mod set;
mod string;

pub(crate) use array::count_of;
pub(crate) use object::Merged;
pub use operator::{Arguments, Call, Named, Operator, Parameter, Shape, find};
pub use path::{Base, ExpressionPath};

/// What an evaluation yields: a value, borrowed where it can be, or `None` for what is missing.
pub type Evaluated<'s> = Result<Option<Cow<'s, Value>>, Failure>;

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Expression {
    /// A constant; `None` is missing.
    Literal(Option<Value>),
    /// A path into a document or a variable.
    Path(ExpressionPath),
    /// An object made of fields; those that are missing are left out.
    Object(Vec<(String, Expression)>),
    /// An array; elements that are missing are null.
    Array(Vec<Expression>),
    /// An operator with its arguments.
    Call(Box<Call>),
}

impl Expression {
    /// Evaluates to a value of its own; `None` is missing.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Option<Value>, Failure> {
        self.eval(scope)?.map(|value| scope.own(value)).transpose()
    }

    /// Evaluates to a value that is borrowed from the document, a variable or the expression where
    /// it is a part of one.
    pub fn eval<'s>(&'s self, scope: &Scope<'s>) -> Evaluated<'s> {
        match self {
            Expression::Literal(value) => Ok(value.as_ref().map(Cow::Borrowed)),
            Expression::Path(path) => path.eval(scope),
            Expression::Object(fields) => {
                let mut object = Object::with_capacity(fields.len());
                for (name, field) in fields {
                    if let Some(value) = field.evaluate(scope)? {
                        object.push_unique(name.clone(), value);
                    }
                }
                Ok(Some(Cow::Owned(Value::Object(object))))
            }
            Expression::Array(elements) => {
                let element =
                    |element: &Expression| Ok(element.evaluate(scope)?.unwrap_or(Value::Null));
                let elements = elements.iter().map(element).collect::<Result<_, Failure>>()?;
                Ok(Some(Cow::Owned(Value::Array(elements))))
            }
            Expression::Call(call) => {
                scope.step()?;
                call.eval(scope)
            }
        }
    }

    /// The value of an expression that is a constant.
    pub fn as_literal(&self) -> Option<Option<&Value>> {
        if let Expression::Literal(value) = self { Some(value.as_ref()) } else { None }
    }

    /// Calls a function with all paths of the expression, those of variables included.
    pub fn for_each_path(&self, visit: &mut dyn FnMut(&ExpressionPath)) {
        match self {
            Expression::Literal(_) => {}
            Expression::Path(path) => visit(path),
            Expression::Object(fields) => {
                fields.iter().for_each(|(_, field)| field.for_each_path(visit));
            }
            Expression::Array(elements) => {
                elements.iter().for_each(|element| element.for_each_path(visit));
            }
            Expression::Call(call) => {
                call.arguments().iter().flatten().for_each(|operand| operand.for_each_path(visit));
            }
        }
    }

    /// How many levels of objects and arrays it can add to the values it is given.
    pub fn depth(&self) -> usize {
        match self {
            Expression::Literal(_) | Expression::Path(_) => 1,
            Expression::Object(fields) => {
                1 + fields.iter().map(|(_, field)| field.depth()).max().unwrap_or(0)
            }
            Expression::Array(elements) => {
                1 + elements.iter().map(Expression::depth).max().unwrap_or(0)
            }
            Expression::Call(call) => {
                1 + call.arguments().iter().flatten().map(Expression::depth).max().unwrap_or(0)
            }
        }
    }
}

impl Evaluate for Expression {
    fn evaluate(&self, document: &Value, variables: &Variables) -> Result<Option<Value>, Failure> {
        Expression::evaluate(self, &Scope::new(document, variables))
    }

    fn require(&self, mask: &mut FieldMask) {
        self.for_each_path(&mut |path| match path.base() {
            Base::Root | Base::Current if path.names().is_empty() => *mask = FieldMask::All,
            Base::Root | Base::Current => mask.add(path.names(), FieldMask::All),
            Base::Slot(_) | Base::Local(_) | Base::Now | Base::ClusterTime => {}
        });
    }
}
