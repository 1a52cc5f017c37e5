//! Operators that bind variables, and those that choose what to evaluate.

use model::{Object, Value};
use query::document::expression::{Call, Named, Operator};
use query::document::values::type_name;
use query::document::{Expression, Failure};

use super::operands::by_name;
use super::{Compiler, fold, names};

impl Compiler<'_> {
    /// Compiles with more variables visible.
    fn within(
        &mut self,
        variables: impl IntoIterator<Item = String>,
        value: &Value,
    ) -> Result<Expression, Failure> {
        let outer = self.locals.len();
        self.locals.extend(variables);
        let compiled = self.compile(value);
        self.locals.truncate(outer);
        compiled
    }

    /// `$filter`, `$map` and `$reduce`: the input, then what is evaluated for each element.
    pub(super) fn binding(
        &mut self,
        operator: &'static Operator,
        named: &'static Named,
        operand: &Value,
    ) -> Result<Expression, Failure> {
        let given = by_name(operator, named, operand)?;
        let position = |name| named.parameters.iter().position(|found| found.name == name);
        let value = |name| position(name).and_then(|at| given.get(at).copied().flatten());
        let variable = match value("as") {
            None => "this".to_owned(),
            Some(name) => {
                let name = name.as_str().unwrap_or_default();
                names::check_variable_to_bind(name)?;
                name.to_owned()
            }
        };
        let mut arguments = Vec::with_capacity(3);
        for (parameter, value) in named.parameters.iter().zip(&given) {
            arguments.push(match (parameter.name, value) {
                ("as", _) | (_, None) => None,
                ("in", Some(body)) if operator.name == "$reduce" => {
                    Some(self.within(["this".to_owned(), "value".to_owned()], body)?)
                }
                ("in" | "cond", Some(body)) => Some(self.within([variable.clone()], body)?),
                (_, Some(value)) => Some(self.compile(value)?),
            });
        }
        self.call(operator, arguments)
    }

    /// `$let`: the values of the variables, then the expression that sees them.
    pub(super) fn let_in(
        &mut self,
        operator: &'static Operator,
        operand: &Value,
    ) -> Result<Expression, Failure> {
        let Some(fields) = operand.as_object() else {
            return Err(Failure::new(16874, "$let only supports an object as its argument"));
        };
        if let Some((name, _)) = fields.iter().find(|(name, _)| !["vars", "in"].contains(name)) {
            return Err(Failure::new(16875, format!("Unrecognized parameter to $let: {name}")));
        }
        let missing =
            |code, name| Failure::new(code, format!("Missing '{name}' parameter to $let"));
        let variables = fields.get("vars").ok_or_else(|| missing(16876, "vars"))?;
        let body = fields.get("in").ok_or_else(|| missing(16877, "in"))?;
        let variables = variables.as_object().ok_or_else(|| {
            let given = type_name(Some(variables));
            let message = format!("invalid parameter: expected an object (vars), found {given}");
            Failure::new(10065, message)
        })?;
        let mut arguments = Vec::with_capacity(variables.len() + 1);
        for (name, value) in variables.iter() {
            names::check_variable_to_bind(name)?;
            arguments.push(Some(self.compile(value)?));
        }
        let bound = variables.iter().map(|(name, _)| name.to_owned());
        arguments.push(Some(self.within(bound.collect::<Vec<_>>(), body)?));
        self.call(operator, arguments)
    }

    /// `$switch`: pairs of a condition and a result, then the default.
    pub(super) fn switch(
        &mut self,
        operator: &'static Operator,
        operand: &Value,
    ) -> Result<Expression, Failure> {
        let Some(fields) = operand.as_object() else {
            let given = type_name(Some(operand));
            let message = format!("$switch requires an object as an argument, found: {given}");
            return Err(Failure::new(40060, message));
        };
        let (mut arguments, mut default) = (Vec::new(), None);
        for (name, value) in fields.iter() {
            match name {
                "branches" => {
                    let branches = value.as_array().ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message =
                            format!("$switch expected an array for 'branches', found: {given}");
                        Failure::new(40061, message)
                    })?;
                    for branch in branches {
                        arguments.extend(self.branch(branch)?);
                    }
                }
                "default" => default = Some(self.compile(value)?),
                _ => {
                    let message = format!("$switch found an unknown argument: {name}");
                    return Err(Failure::new(40067, message));
                }
            }
        }
        if arguments.is_empty() {
            return Err(Failure::new(40068, "$switch requires at least one branch"));
        }
        arguments.extend(default.map(Some));
        let call = Call::new(operator, arguments, self.locals.len());
        fold(Expression::Call(Box::new(call)))
    }

    fn branch(&mut self, branch: &Value) -> Result<[Option<Expression>; 2], Failure> {
        let Some(fields) = branch.as_object() else {
            let given = type_name(Some(branch));
            let message = format!("$switch expected each branch to be an object, found: {given}");
            return Err(Failure::new(40062, message));
        };
        if let Some((name, _)) = fields.iter().find(|(name, _)| !["case", "then"].contains(name)) {
            let message = format!("$switch found an unknown argument to a branch: {name}");
            return Err(Failure::new(40063, message));
        }
        let part = |compiler: &mut Self, fields: &Object, name, code| match fields.get(name) {
            Some(value) => compiler.compile(value).map(Some),
            None => {
                let message = format!("$switch requires each branch have a '{name}' expression");
                Err(Failure::new(code, message))
            }
        };
        let case = part(self, fields, "case", 40064)?;
        Ok([case, part(self, fields, "then", 40065)?])
    }
}
