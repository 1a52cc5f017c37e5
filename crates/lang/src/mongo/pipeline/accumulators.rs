//! `$group`, and the accumulators of all stages that make groups.

use std::sync::Arc;

use model::{Object, Value};
use query::document::accumulator::{AccumulatorCall, AccumulatorKind, ScriptSources};
use query::document::code::{BAD_VALUE, TYPE_MISMATCH};
use query::document::pipeline::{Group, GroupKey, Stage};
use query::document::types::to_f64;
use query::document::values::{printed, type_name};
use query::document::{Expression, Failure};

use super::{Compiler, sort};
use crate::mongo::expression::is_operator;

impl Compiler<'_> {
    pub(super) fn group(&self, spec: &Value) -> Result<Stage, Failure> {
        let fields = spec.as_object().ok_or_else(|| {
            Failure::new(15947, "a group's fields must be specified in an object")
        })?;
        let mut key = None;
        let mut accumulators = Vec::with_capacity(fields.len());
        for (name, value) in fields.iter() {
            match name {
                "_id" => key = Some(self.group_key(value)?),
                _ => accumulators.push((name.to_owned(), self.accumulator(name, value)?)),
            }
        }
        let key =
            key.ok_or_else(|| Failure::new(15955, "a group specification must include an _id"))?;
        Ok(Stage::Group(Arc::new(Group { key, fields: accumulators })))
    }

    fn group_key(&self, value: &Value) -> Result<GroupKey, Failure> {
        Ok(match self.expression(value)? {
            Expression::Object(fields) => GroupKey::Fields(fields),
            other @ (Expression::Literal(_)
            | Expression::Path(_)
            | Expression::Array(_)
            | Expression::Call(_)) => GroupKey::Value(other),
        })
    }

    /// The accumulators of an object of fields.
    pub(super) fn accumulators(
        &self,
        fields: &Object,
    ) -> Result<Vec<(String, AccumulatorCall)>, Failure> {
        let field =
            |(name, value): (&str, &Value)| Ok((name.to_owned(), self.accumulator(name, value)?));
        fields.iter().map(field).collect()
    }

    fn accumulator(&self, field: &str, value: &Value) -> Result<AccumulatorCall, Failure> {
        if field.contains('.') {
            let message = format!("The field name '{field}' cannot contain '.'");
            return Err(Failure::new(40235, message));
        }
        if field.starts_with('$') {
            let message = format!("The field name '{field}' cannot be an operator name");
            return Err(Failure::new(40236, message));
        }
        let Some(call) = value.as_object().filter(|call| is_operator(call)) else {
            let message = format!("The field '{field}' must be an accumulator object");
            return Err(Failure::new(40234, message));
        };
        let Some((name, operand)) = call.iter().next().filter(|_| call.len() == 1) else {
            let message = format!("The field '{field}' must specify one accumulator");
            return Err(Failure::new(40238, message));
        };
        self.call(name, operand)
    }

    fn call(&self, name: &str, operand: &Value) -> Result<AccumulatorCall, Failure> {
        use AccumulatorKind::{
            AddToSet, Avg, Bottom, BottomN, First, FirstN, Last, LastN, Max, MaxN, Median,
            MergeObjects, Min, MinN, Percentile, Push, StdDevPop, StdDevSamp, Sum, Top, TopN,
        };
        let unary = match name {
            "$addToSet" => AddToSet,
            "$avg" => Avg,
            "$first" => First,
            "$last" => Last,
            "$max" => Max,
            "$mergeObjects" => MergeObjects,
            "$min" => Min,
            "$push" => Push,
            "$stdDevPop" => StdDevPop,
            "$stdDevSamp" => StdDevSamp,
            "$sum" => Sum,
            "$firstN" => return self.several(FirstN, name, operand),
            "$lastN" => return self.several(LastN, name, operand),
            "$maxN" => return self.several(MaxN, name, operand),
            "$minN" => return self.several(MinN, name, operand),
            "$top" => return self.ranked(Top, name, operand),
            "$bottom" => return self.ranked(Bottom, name, operand),
            "$topN" => return self.ranked(TopN, name, operand),
            "$bottomN" => return self.ranked(BottomN, name, operand),
            "$median" => return self.percentile(Median, name, operand),
            "$percentile" => return self.percentile(Percentile, name, operand),
            "$accumulator" => return self.script(operand),
            "$count" => {
                if !operand.as_object().is_some_and(Object::is_empty) {
                    let message = "$count takes no arguments, i.e. $count:{}";
                    return Err(Failure::new(TYPE_MISMATCH, message));
                }
                let one = Expression::Literal(Some(Value::Int32(1)));
                return Ok(AccumulatorCall::new(Sum, one));
            }
            _ => return Err(Failure::new(15952, format!("unknown group operator '{name}'"))),
        };
        if operand.as_array().is_some() {
            let message = format!("The {name} accumulator is a unary operator");
            return Err(Failure::new(40237, message));
        }
        Ok(AccumulatorCall::new(unary, self.expression(operand)?))
    }

    /// `$firstN` and others: `n` and `input`.
    fn several(
        &self,
        kind: AccumulatorKind,
        name: &str,
        operand: &Value,
    ) -> Result<AccumulatorCall, Failure> {
        let Some(fields) = operand.as_object() else {
            let shown = printed(Some(operand));
            let message = format!("specification must be an object; found {name}: {shown}");
            return Err(Failure::new(5787900, message));
        };
        if let Some((other, _)) = fields.iter().find(|(name, _)| !["n", "input"].contains(name)) {
            let message = format!("Unknown argument for 'n' operator: {other}");
            return Err(Failure::new(5787901, message));
        }
        let argument = |name, code| {
            fields
                .get(name)
                .ok_or_else(|| Failure::new(code, format!("Missing value for '{name}'")))
        };
        let n = self.expression(argument("n", 5787906)?)?;
        let input = self.expression(argument("input", 5787907)?)?;
        Ok(AccumulatorCall { n: Some(n), ..AccumulatorCall::new(kind, input) })
    }

    /// `$top` and others: `sortBy`, `output` and perhaps `n`.
    fn ranked(
        &self,
        kind: AccumulatorKind,
        name: &str,
        operand: &Value,
    ) -> Result<AccumulatorCall, Failure> {
        let Some(fields) = operand.as_object() else {
            let shown = printed(Some(operand));
            let message = format!("specification must be an object; found {name}: {shown}");
            return Err(Failure::new(5788001, message));
        };
        let has_n = name.ends_with('N');
        for (argument, _) in fields.iter() {
            let is_known = ["sortBy", "output"].contains(&argument) || has_n && argument == "n";
            if !is_known {
                let message = format!("Unknown argument to {name} '{argument}'");
                return Err(Failure::new(5788002, message));
            }
        }
        let argument = |name, code| {
            fields
                .get(name)
                .ok_or_else(|| Failure::new(code, format!("Missing value for '{name}'")))
        };
        let n = match has_n {
            true => Some(self.expression(argument("n", 5788003)?)?),
            false => None,
        };
        let output = self.expression(argument("output", 5788004)?)?;
        let order = argument("sortBy", 5788005)?;
        if order.as_object().is_none() {
            let given = type_name(Some(order));
            let message = format!("invalid parameter: expected an object (sortBy), found {given}");
            return Err(Failure::new(10065, message));
        }
        let order = Some(sort::compile(order)?);
        Ok(AccumulatorCall { n, order, ..AccumulatorCall::new(kind, output) })
    }

    fn percentile(
        &self,
        kind: AccumulatorKind,
        name: &str,
        operand: &Value,
    ) -> Result<AccumulatorCall, Failure> {
        let Some(fields) = operand.as_object() else {
            let shown = printed(Some(operand));
            let message = format!("specification must be an object; found {name}: {shown}");
            return Err(Failure::new(7429703, message));
        };
        let is_percentile = kind == AccumulatorKind::Percentile;
        for (argument, _) in fields.iter() {
            let is_known =
                ["input", "method"].contains(&argument) || is_percentile && argument == "p";
            if !is_known {
                let message = format!("BSON field '{name}.{argument}' is an unknown field.");
                return Err(Failure::new(40415, message));
            }
        }
        let argument = |argument| {
            fields.get(argument).ok_or_else(|| {
                let message =
                    format!("BSON field '{name}.{argument}' is missing but a required field");
                Failure::new(40414, message)
            })
        };
        check_method(name, argument("method")?)?;
        let shares = if is_percentile { shares_of(argument("p")?)? } else { vec![0.5] };
        let input = self.expression(argument("input")?)?;
        Ok(AccumulatorCall { shares, ..AccumulatorCall::new(kind, input) })
    }

    fn script(&self, operand: &Value) -> Result<AccumulatorCall, Failure> {
        let Some(fields) = operand.as_object() else {
            let given = type_name(Some(operand));
            let message = format!("$accumulator expects an object as an argument; found: {given}");
            return Err(Failure::new(4544703, message));
        };
        const NAMES: [&str; 7] =
            ["init", "initArgs", "accumulate", "accumulateArgs", "merge", "finalize", "lang"];
        if let Some((name, _)) = fields.iter().find(|(name, _)| !NAMES.contains(name)) {
            let message = format!("$accumulator got an unexpected field: {name}");
            return Err(Failure::new(4544706, message));
        }
        let source = |name: &str| match fields.get(name) {
            None => Err(Failure::new(
                4544701,
                format!("$accumulator is missing required argument '{name}'"),
            )),
            Some(Value::String(text) | Value::JavaScript { code: text, .. }) => Ok(text.clone()),
            Some(_) => Err(Failure::new(
                4544701,
                format!("$accumulator '{name}' argument must be a string or code"),
            )),
        };
        if fields.get("lang").and_then(Value::as_str) != Some("js") {
            let message = "$accumulator lang currently only supports \"js\"";
            return Err(Failure::new(4544704, message));
        }
        let arguments = |name: &str| match fields.get(name) {
            None => Ok(Expression::Literal(Some(Value::Array(Vec::new())))),
            Some(value) => self.expression(value),
        };
        let scripts = ScriptSources {
            init: source("init")?,
            init_arguments: arguments("initArgs")?,
            accumulate: source("accumulate")?,
            merge: source("merge")?,
            finalize: fields.get("finalize").map(|_| source("finalize")).transpose()?,
        };
        let operand = arguments("accumulateArgs")?;
        let call = AccumulatorCall::new(AccumulatorKind::Script, operand);
        Ok(AccumulatorCall { scripts: Some(scripts), ..call })
    }
}

/// Checks the method of percentiles.
pub(crate) fn check_method(name: &str, method: &Value) -> Result<(), Failure> {
    match method.as_str() {
        Some("approximate") => Ok(()),
        Some(_) => {
            let message = format!(
                "Currently only 'approximate' can be used as a percentile 'method' of {name}."
            );
            Err(Failure::new(BAD_VALUE, message))
        }
        None => {
            let given = type_name(Some(method));
            let message = format!(
                "BSON field '{name}.method' is the wrong type '{given}', expected type 'string'"
            );
            Err(Failure::new(TYPE_MISMATCH, message))
        }
    }
}

/// The shares of percentiles.
pub(crate) fn shares_of(p: &Value) -> Result<Vec<f64>, Failure> {
    let failure = |code| {
        let shown = printed(Some(p));
        let message = format!(
            "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: \
             {shown}"
        );
        Failure::new(code, message)
    };
    let shares = p.as_array().filter(|p| !p.is_empty()).ok_or_else(|| failure(7750301))?;
    let share = |share: &Value| {
        let share = to_f64(share).ok_or_else(|| failure(7750302))?;
        (0.0..=1.0).contains(&share).then_some(share).ok_or_else(|| failure(7750303))
    };
    shares.iter().map(share).collect()
}
