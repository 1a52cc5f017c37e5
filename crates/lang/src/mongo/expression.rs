//! Compiles expressions of the aggregation language.

use model::{Date, Object, Value};
use query::document::code::{FAILED_TO_PARSE, OVERFLOW};
use query::document::expression::{self, Base, Call, ExpressionPath, Operator, Shape};
use query::document::values::printed;
use query::document::{Expression, Failure, Scope, Variables};

use super::CompileOptions;

mod binding;
mod fields;
mod names;
mod operands;

pub(crate) use names::{check_field_name, check_variable_to_bind, field_path_names};
pub(crate) use operands::is_operator;

/// InvalidPipelineOperator.
const UNKNOWN_OPERATOR: i32 = 168;
/// Deepest nesting of an expression.
const DEPTH_MAX: usize = 200;

/// Compiles an expression: a literal, `"$path"`, `"$$variable"`, an object, an array or an operator.
pub fn compile(value: &Value, options: &CompileOptions) -> Result<Expression, Failure> {
    Compiler::new(options).compile(value)
}

/// The state of a compilation: the variables that are visible.
pub(super) struct Compiler<'o> {
    options: &'o CompileOptions,
    /// Names of the variables that expressions around this one bind, by their numbers.
    locals: Vec<String>,
    depth: usize,
}

impl<'o> Compiler<'o> {
    pub(super) fn new(options: &'o CompileOptions) -> Self {
        Self { options, locals: Vec::new(), depth: 0 }
    }

    /// Compiles a value where an expression stands.
    pub(super) fn compile(&mut self, value: &Value) -> Result<Expression, Failure> {
        if self.depth >= DEPTH_MAX {
            let message = "an expression is nested more deeply than is allowed";
            return Err(Failure::new(OVERFLOW, message));
        }
        self.depth += 1;
        let compiled = match Some(value) {
            Some(Value::String(text)) if text.starts_with('$') => self.path(text),
            Some(Value::Object(object)) => self.object(object),
            Some(Value::Array(elements)) => {
                self.all(elements).and_then(|elements| fold(Expression::Array(elements)))
            }
            _ => Ok(Expression::Literal(Some(value.clone()))),
        };
        self.depth -= 1;
        compiled
    }

    fn all(&mut self, values: &[Value]) -> Result<Vec<Expression>, Failure> {
        values.iter().map(|value| self.compile(value)).collect()
    }

    /// An object: an operator if its first name begins with a dollar sign, else fields.
    fn object(&mut self, object: &Object) -> Result<Expression, Failure> {
        let Some((name, operand)) = object.iter().next() else {
            return Ok(Expression::Literal(Some(Value::Object(Object::new()))));
        };
        if !name.starts_with('$') {
            let field = |(name, value): (&str, &Value)| {
                check_field_name(name)?;
                Ok((name.to_owned(), self.compile(value)?))
            };
            let fields = object.iter().map(field).collect::<Result<_, Failure>>()?;
            return fold(Expression::Object(fields));
        }
        if object.len() != 1 {
            let shown = printed(Some(&Value::Object(object.clone())));
            let message = format!(
                "An object representing an expression must have exactly one field: {shown}"
            );
            return Err(Failure::new(15983, message));
        }
        self.operator(name, operand)
    }

    fn operator(&mut self, name: &str, operand: &Value) -> Result<Expression, Failure> {
        let operator = expression::find(name).ok_or_else(|| {
            Failure::new(UNKNOWN_OPERATOR, format!("Unrecognized expression '{name}'"))
        })?;
        let arguments = match operator.shape {
            Shape::Exactly(_) | Shape::Between(..) | Shape::Any => {
                let arguments = self.positional(operand)?;
                operands::check_count(operator, arguments.len())?;
                arguments
            }
            Shape::Named(named) => match name {
                "$filter" | "$map" | "$reduce" => return self.binding(operator, named, operand),
                _ => self.named(operator, named, operand)?,
            },
            Shape::DatePart => self.date_part(operator, operand)?,
            Shape::Special(named) => return self.special(operator, named, operand),
        };
        self.call(operator, arguments)
    }

    /// A call whose arguments bind no variables.
    fn call(
        &self,
        operator: &'static Operator,
        arguments: Vec<Option<Expression>>,
    ) -> Result<Expression, Failure> {
        let call = Call::new(operator, arguments, self.locals.len());
        fold(Expression::Call(Box::new(call)))
    }

    /// A path of fields, or a variable and perhaps a path into it.
    fn path(&self, text: &str) -> Result<Expression, Failure> {
        let Some(variable) = text.strip_prefix("$$") else {
            let names =
                field_path_names(&text[1..], "'$' by itself is not a valid ExpressionPath")?;
            return Ok(Expression::Path(ExpressionPath::new(self.current(), names)));
        };
        let (variable, rest) = match variable.split_once('.') {
            Some((variable, rest)) => (variable, Some(rest)),
            None => (variable, None),
        };
        names::check_variable_to_read(variable)?;
        let names = match rest {
            Some("") => {
                return Err(Failure::new(40353, "ExpressionPath must not end with a '.'."));
            }
            Some(rest) => field_path_names(rest, "")?,
            None => Vec::new(),
        };
        let base = match variable {
            "CURRENT" => self.current(),
            "ROOT" => Base::Root,
            "NOW" => Base::Now,
            "CLUSTER_TIME" => Base::ClusterTime,
            "REMOVE" => return Ok(Expression::Literal(None)),
            "KEEP" | "PRUNE" | "DESCEND" => {
                // `$redact` knows its results by these texts.
                let text = variable.to_ascii_lowercase();
                return Ok(Expression::Literal(names.is_empty().then_some(Value::String(text))));
            }
            _ => self.variable(variable).ok_or_else(|| {
                Failure::new(17276, format!("Use of undefined variable: {variable}"))
            })?,
        };
        Ok(Expression::Path(ExpressionPath::new(base, names)))
    }

    fn variable(&self, name: &str) -> Option<Base> {
        let local = self.locals.iter().rposition(|local| local == name).map(Base::Local);
        local.or_else(|| self.options.slot(name).map(Base::Slot))
    }

    /// Where paths begin: the document, unless `$let` binds `CURRENT`.
    fn current(&self) -> Base {
        self.variable("CURRENT").unwrap_or(Base::Current)
    }
}

/// Evaluates an expression of constants.
fn fold(expression: Expression) -> Result<Expression, Failure> {
    let is_constant = match &expression {
        Expression::Literal(_) | Expression::Path(_) => false,
        Expression::Object(fields) => fields.iter().all(|(_, field)| field.as_literal().is_some()),
        Expression::Array(elements) => {
            elements.iter().all(|element| element.as_literal().is_some())
        }
        Expression::Call(call) => {
            let mut given = call.arguments().iter().flatten();
            call.operator().is_pure && given.all(|argument| argument.as_literal().is_some())
        }
    };
    if !is_constant {
        return Ok(expression);
    }
    let (document, variables) = (Value::Null, Variables::at(Date { millis: 0, ticks: 0 }));
    Ok(Expression::Literal(expression.evaluate(&Scope::new(&document, &variables))?))
}

/// The failure for an operator whose shape is wrong.
fn parse_failure(message: impl Into<String>) -> Failure {
    Failure::new(FAILED_TO_PARSE, message)
}

#[cfg(test)]
mod tests;
