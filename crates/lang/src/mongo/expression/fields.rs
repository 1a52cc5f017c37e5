//! Operators whose arguments follow rules of their own.

use model::{Object, Value};
use query::document::expression::{ExpressionPath, Named, Operator};
use query::document::values::{printed, type_name};
use query::document::{Expression, Failure};

use super::operands::{by_name, is_operator};
use super::{Compiler, parse_failure};
use crate::mongo::pipeline::{check_method, shares_of};

impl Compiler<'_> {
    /// The operators whose shape is [`query::document::expression::Shape::Special`].
    pub(super) fn special(
        &mut self,
        operator: &'static Operator,
        named: Option<&'static Named>,
        operand: &Value,
    ) -> Result<Expression, Failure> {
        let arguments = match (operator.name, named) {
            ("$literal", _) => return Ok(Expression::Literal(Some(operand.clone()))),
            ("$let", _) => return self.let_in(operator, operand),
            ("$switch", _) => return self.switch(operator, operand),
            ("$ifNull", _) => {
                let arguments = self.positional(operand)?;
                if arguments.len() < 2 {
                    let count = arguments.len();
                    let message = format!("$ifNull needs at least two arguments, had: {count}");
                    return Err(Failure::new(1257300, message));
                }
                arguments
            }
            ("$setEquals", _) => {
                let arguments = self.positional(operand)?;
                if arguments.len() < 2 {
                    let count = arguments.len();
                    let message = format!("$setEquals needs at least two arguments had: {count}");
                    return Err(Failure::new(17045, message));
                }
                arguments
            }
            ("$cond", Some(named)) => match operand.as_object() {
                Some(fields) if !is_operator(fields) => self.named(operator, named, operand)?,
                _ => {
                    let arguments = self.positional(operand)?;
                    if arguments.len() != 3 {
                        let message = format!(
                            "Expression $cond takes exactly 3 arguments. {} were passed in.",
                            arguments.len()
                        );
                        return Err(Failure::new(16020, message));
                    }
                    arguments
                }
            },
            ("$getField", Some(named)) => self.get_field(operator, named, operand)?,
            ("$setField" | "$unsetField", Some(named)) => {
                let given = by_name(operator, named, operand)?;
                let mut arguments = Vec::with_capacity(3);
                for (at, value) in given.into_iter().enumerate() {
                    let Some(value) = value else { continue };
                    let codes = (4161106, 4161107, 4161108);
                    arguments.push(Some(match at {
                        0 => self.constant_name(operator, value, codes)?,
                        _ => self.compile(value)?,
                    }));
                }
                arguments
            }
            ("$sortArray", Some(named)) => {
                let given = by_name(operator, named, operand)?;
                let input = given.first().copied().flatten();
                let order = given.get(1).copied().flatten();
                check_order_of_elements(order)?;
                let input = input.map(|input| self.compile(input)).transpose()?;
                vec![input, Some(Expression::Literal(order.cloned()))]
            }
            ("$median" | "$percentile", Some(named)) => {
                let given = by_name(operator, named, operand)?;
                let mut given = given.into_iter().flatten();
                let input = given.next().map(|input| self.compile(input)).transpose()?;
                if let Some(method) = given.next() {
                    check_method(operator.name, method)?;
                }
                let shares = given.next().map(|shares| {
                    let constant = self.compile(shares)?;
                    let Some(Some(constant)) = constant.as_literal() else {
                        let message =
                            "The $percentile 'p' field must be an array of constant values";
                        return Err(Failure::new(7750300, message));
                    };
                    let shares = shares_of(constant)?.into_iter().map(Value::Double);
                    Ok(Expression::Literal(Some(Value::Array(shares.collect()))))
                });
                vec![input, shares.transpose()?]
            }
            ("$function", Some(named)) => self.function(operator, named, operand)?,
            ("$rand", _) => match operand.as_object().map(Object::is_empty) {
                Some(true) => Vec::new(),
                None if operand.as_array().is_some_and(<[Value]>::is_empty) => Vec::new(),
                _ => {
                    let message = "$rand does not currently accept arguments";
                    return Err(Failure::new(3040501, message));
                }
            },
            ("$meta", _) => {
                check_metadata(operand)?;
                Vec::new()
            }
            ("$zip", Some(named)) => self.zip(operator, named, operand)?,
            (name, _) => {
                return Err(parse_failure(format!("{name} is not supported here")));
            }
        };
        self.call(operator, arguments)
    }

    fn get_field(
        &mut self,
        operator: &'static Operator,
        named: &'static Named,
        operand: &Value,
    ) -> Result<Vec<Option<Expression>>, Failure> {
        let codes = (5654601, 5654602, 5654600);
        match operand.as_object() {
            Some(fields) if !is_operator(fields) => {
                let given = by_name(operator, named, operand)?;
                let mut given = given.into_iter().flatten();
                let (Some(field), Some(input)) = (given.next(), given.next()) else {
                    return Err(parse_failure("$getField requires 'field' and 'input'"));
                };
                let field = self.constant_name(operator, field, codes)?;
                Ok(vec![Some(field), Some(self.compile(input)?)])
            }
            _ => {
                let field = self.constant_name(operator, operand, codes)?;
                let current = Expression::Path(ExpressionPath::new(self.current(), Vec::new()));
                Ok(vec![Some(field), Some(current)])
            }
        }
    }

    /// The name of a field: a constant text, which may look like a path only as a literal.
    fn constant_name(
        &mut self,
        operator: &'static Operator,
        value: &Value,
        (not_constant, not_text, is_path): (i32, i32, i32),
    ) -> Result<Expression, Failure> {
        let name = operator.name;
        if let Some(text) = value.as_str().filter(|text| text.starts_with('$')) {
            let message = format!(
                "'{text}' is a field path reference which is not allowed in this context. Did you \
                 mean {{$literal: '{text}'}}?"
            );
            return Err(Failure::new(is_path, message));
        }
        let compiled = self.compile(value)?;
        let Some(constant) = compiled.as_literal() else {
            let message = format!(
                "{name} requires 'field' to evaluate to a constant, but got a non-constant argument"
            );
            return Err(Failure::new(not_constant, message));
        };
        match constant.and_then(Value::as_str) {
            Some(text) if text.contains('\0') => Err(Failure::new(
                9534700,
                format!("{name}: 'field' cannot contain an embedded null byte"),
            )),
            Some(_) => Ok(compiled),
            None => {
                let given = type_name(constant);
                let message =
                    format!("{name} requires 'field' to evaluate to type String, but got {given}");
                Err(Failure::new(not_text, message))
            }
        }
    }

    /// `$function`: the source text, and the arguments as one expression.
    fn function(
        &mut self,
        operator: &'static Operator,
        named: &'static Named,
        operand: &Value,
    ) -> Result<Vec<Option<Expression>>, Failure> {
        let given = by_name(operator, named, operand)?;
        let mut given = given.into_iter().flatten();
        let (Some(body), Some(operands), Some(language)) =
            (given.next(), given.next(), given.next())
        else {
            return Err(parse_failure("$function requires 'body', 'args' and 'lang'"));
        };
        if language.as_str() != Some("js") {
            let message = "Currently the only supported language specifier is 'js'.";
            return Err(Failure::new(31419, message));
        }
        let body = self.compile(body)?;
        match body.as_literal() {
            None => Err(Failure::new(31432, "The body function must be a constant expression")),
            Some(Some(Value::String(_) | Value::JavaScript { .. })) => {
                Ok(vec![Some(body), Some(self.compile(operands)?)])
            }
            Some(_) => {
                let message = "The body function must evaluate to type string or code";
                Err(Failure::new(31262, message))
            }
        }
    }

    fn zip(
        &mut self,
        operator: &'static Operator,
        named: &'static Named,
        operand: &Value,
    ) -> Result<Vec<Option<Expression>>, Failure> {
        let given = by_name(operator, named, operand)?;
        let argument = |at: usize| given.get(at).copied().flatten();
        let list = |value: Option<&Value>, code, what: &str| match value {
            None => Ok(Vec::new()),
            Some(value) => value.as_array().map(<[Value]>::to_vec).ok_or_else(|| {
                let given = type_name(Some(value));
                let message = format!("{what} must be an array of expressions, found {given}");
                Failure::new(code, message)
            }),
        };
        let inputs = list(argument(0), 34461, "inputs")?;
        let defaults = list(argument(2), 34462, "defaults")?;
        let is_longest = match argument(1) {
            None => false,
            Some(flag) => flag.as_bool().ok_or_else(|| {
                let given = type_name(Some(flag));
                Failure::new(34463, format!("useLongestLength must be a bool, found {given}"))
            })?,
        };
        if inputs.is_empty() {
            return Err(Failure::new(34465, "$zip requires at least one input array"));
        }
        if !defaults.is_empty() && !is_longest {
            let message = "cannot specify defaults unless useLongestLength is true";
            return Err(Failure::new(34466, message));
        }
        if !defaults.is_empty() && defaults.len() != inputs.len() {
            return Err(Failure::new(34467, "defaults and inputs must have the same length"));
        }
        Ok(vec![
            Some(Expression::Array(self.all(&inputs)?)),
            Some(Expression::Literal(Some(Value::Bool(is_longest)))),
            Some(Expression::Array(self.all(&defaults)?)),
        ])
    }
}

/// Checks the order that `$sortArray` is given.
fn check_order_of_elements(order: Option<&Value>) -> Result<(), Failure> {
    match order {
        Some(Value::Object(fields)) => {
            for (path, direction) in fields.iter() {
                super::field_path_names(path, "")?;
                let is_direction = matches!(direction.as_i64(), Some(1 | -1));
                if !is_direction {
                    let shown = printed(Some(direction));
                    let message = format!(
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending), \
                         found {path}: {shown}"
                    );
                    return Err(Failure::new(15975, message));
                }
            }
            Ok(())
        }
        Some(Value::Int32(_) | Value::Int64(_) | Value::Double(_)) => {
            match order.and_then(Value::as_i64) {
                Some(1 | -1) => Ok(()),
                _ => {
                    let message = "The $sort element value must be either 1 or -1";
                    Err(Failure::new(2942506, message))
                }
            }
        }
        _ => Err(Failure::new(
            2942507,
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
             embedded fields",
        )),
    }
}

/// Checks the name of metadata.
fn check_metadata(operand: &Value) -> Result<(), Failure> {
    let Some(name) = operand.as_str() else {
        return Err(Failure::new(17307, "$meta only supports string arguments"));
    };
    match name {
        "textScore"
        | "randVal"
        | "searchScore"
        | "searchHighlights"
        | "geoNearDistance"
        | "geoNearPoint"
        | "recordId"
        | "indexKey"
        | "sortKey"
        | "searchScoreDetails"
        | "searchSequenceToken"
        | "timeseriesBucketMinTime"
        | "timeseriesBucketMaxTime"
        | "vectorSearchScore" => Ok(()),
        _ => Err(Failure::new(17308, format!("Unsupported argument to $meta: {name}"))),
    }
}
