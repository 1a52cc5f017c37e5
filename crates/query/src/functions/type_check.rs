//! Type checks. They are never *undefined*: an undefined argument is not of the type.

use model::Value;

use super::{Args, Function, exactly};
use crate::compare::{Class, class_of};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("IS_ARRAY", exactly(1), |args| is(args, Class::Array)),
    Function::linear("IS_BOOL", exactly(1), |args| is(args, Class::Bool)),
    Function::linear("IS_DEFINED", exactly(1), |args| Some(Value::Bool(args.get(0).is_some()))),
    Function::linear("IS_FINITE_NUMBER", exactly(1), is_finite_number),
    Function::linear("IS_INTEGER", exactly(1), |args| Some(Value::Bool(args.integer(0).is_some()))),
    Function::linear("IS_NULL", exactly(1), |args| is(args, Class::Null)),
    Function::linear("IS_NUMBER", exactly(1), |args| is(args, Class::Number)),
    Function::linear("IS_OBJECT", exactly(1), |args| is(args, Class::Object)),
    Function::linear("IS_PRIMITIVE", exactly(1), is_primitive),
    Function::linear("IS_STRING", exactly(1), |args| is(args, Class::String)),
];

fn is(args: &Args<'_>, class: Class) -> Option<Value> {
    Some(Value::Bool(args.get(0).is_some_and(|value| class_of(value) == class)))
}

fn is_finite_number(args: &Args<'_>) -> Option<Value> {
    Some(Value::Bool(args.number(0).is_some_and(f64::is_finite)))
}

fn is_primitive(args: &Args<'_>) -> Option<Value> {
    Some(Value::Bool(args.get(0).is_some_and(|value| match class_of(value) {
        Class::Null | Class::Bool | Class::Number | Class::String => true,
        Class::Array | Class::Object | Class::Foreign => false,
    })))
}
