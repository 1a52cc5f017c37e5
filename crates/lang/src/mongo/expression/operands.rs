//! Arguments: by position, by name, and those of the parts of dates.

use model::{Object, Value};
use query::document::expression::{Named, Operator, Shape};
use query::document::values::{printed, type_name};
use query::document::{Expression, Failure};

use super::Compiler;

impl Compiler<'_> {
    /// Arguments in an array; anything else is the only argument.
    pub(super) fn positional(
        &mut self,
        operand: &Value,
    ) -> Result<Vec<Option<Expression>>, Failure> {
        match operand.as_array() {
            Some(operands) => Ok(self.all(operands)?.into_iter().map(Some).collect()),
            None => Ok(vec![Some(self.compile(operand)?)]),
        }
    }

    /// Named arguments, in the order of the parameters.
    pub(super) fn named(
        &mut self,
        operator: &'static Operator,
        named: &'static Named,
        operand: &Value,
    ) -> Result<Vec<Option<Expression>>, Failure> {
        let given = by_name(operator, named, operand)?;
        given.into_iter().map(|value| value.map(|value| self.compile(value)).transpose()).collect()
    }

    /// A date, alone or with a time zone.
    pub(super) fn date_part(
        &mut self,
        operator: &'static Operator,
        operand: &Value,
    ) -> Result<Vec<Option<Expression>>, Failure> {
        let name = operator.name;
        if let Some([date]) = operand.as_array() {
            return Ok(vec![Some(self.compile(date)?), None]);
        }
        if let Some(operands) = operand.as_array() {
            let message = format!(
                "{name} accepts exactly one argument if given an array, but was given {}",
                operands.len()
            );
            return Err(Failure::new(40536, message));
        }
        let fields = operand.as_object().filter(|fields| !is_operator(fields));
        let Some(fields) = fields else { return Ok(vec![Some(self.compile(operand)?), None]) };
        let unknown = fields.iter().find(|(field, _)| !["date", "timezone"].contains(field));
        if let Some((field, _)) = unknown {
            let message = format!("unrecognized option to {name}: \"{field}\"");
            return Err(Failure::new(40535, message));
        }
        let Some(date) = fields.get("date") else {
            let shown = printed(Some(operand));
            let message = format!("missing 'date' argument to {name}, provided: {name}: {shown}");
            return Err(Failure::new(40539, message));
        };
        let date = self.compile(date)?;
        let zone = fields.get("timezone").map(|zone| self.compile(zone)).transpose()?;
        Ok(vec![Some(date), zone])
    }
}

/// Whether an object stands for an operator.
pub(crate) fn is_operator(object: &Object) -> bool {
    object.iter().next().is_some_and(|(name, _)| name.starts_with('$'))
}

/// Checks the number of arguments.
pub(super) fn check_count(operator: &Operator, count: usize) -> Result<(), Failure> {
    let name = operator.name;
    match operator.shape {
        Shape::Exactly(expected) if count != expected => Err(Failure::new(
            16020,
            format!(
                "Expression {name} takes exactly {expected} arguments. {count} were passed in."
            ),
        )),
        Shape::Between(least, most) if !(least..=most).contains(&count) => Err(Failure::new(
            28667,
            format!(
                "Expression {name} takes at least {least} arguments, and at most {most}, but \
                 {count} were passed in."
            ),
        )),
        Shape::Exactly(_)
        | Shape::Between(..)
        | Shape::Any
        | Shape::Named(_)
        | Shape::DatePart
        | Shape::Special(_) => Ok(()),
    }
}

/// The values of named arguments, in the order of the parameters.
pub(crate) fn by_name<'v>(
    operator: &Operator,
    named: &Named,
    operand: &'v Value,
) -> Result<Vec<Option<&'v Value>>, Failure> {
    let failure = |(code, text): (i32, &str), fact: &str| {
        Failure::new(code, text.replace("{op}", operator.name).replace("{}", fact))
    };
    let Some(fields) = operand.as_object() else {
        let (code, text) = named.not_object;
        let text = text.replace("{value}", &printed(Some(operand)));
        return Err(failure((code, &text), type_name(Some(operand))));
    };
    let mut given = vec![None; named.parameters.len()];
    for (name, value) in fields.iter() {
        let at = named.parameters.iter().position(|parameter| parameter.name == name);
        match at.and_then(|at| given.get_mut(at)) {
            Some(slot) => *slot = Some(value),
            None => return Err(failure(named.unknown, name)),
        }
    }
    for (parameter, value) in named.parameters.iter().zip(&given) {
        if let (Some(complaint), None) = (parameter.missing, value) {
            return Err(failure(complaint, ""));
        }
    }
    Ok(given)
}
