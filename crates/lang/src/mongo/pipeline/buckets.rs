//! `$bucket`, `$bucketAuto` and `$sortByCount`.

use std::sync::Arc;

use model::{Object, Value};
use query::document::accumulator::{AccumulatorCall, AccumulatorKind};
use query::document::index_keys::{ColumnKind, IndexColumn};
use query::document::pipeline::{BucketAuto, Granularity, Group, GroupKey, Sort, Stage};
use query::document::sort::SortPattern;
use query::document::types::{BsonType, is_number};
use query::document::values::{compare, printed, type_name};
use query::document::{Expression, Failure, FieldPath};

use super::Compiler;
use crate::mongo::expression::is_operator;
use crate::mongo::integers::integer;

fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect())
}

fn literal(value: &Value) -> Value {
    object([("$literal", value.clone())])
}

/// The number of documents of each group.
fn counted() -> Vec<(String, AccumulatorCall)> {
    let one = Expression::Literal(Some(Value::Int32(1)));
    vec![("count".to_owned(), AccumulatorCall::new(AccumulatorKind::Sum, one))]
}

fn sorted_by(name: &str, kind: ColumnKind) -> Stage {
    let column = IndexColumn { path: FieldPath::parse(name), kind };
    Stage::Sort(Arc::new(Sort { pattern: SortPattern::new(vec![column]), limit: None }))
}

/// Whether a value is a path or an expression in an object.
fn is_expression(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with('$'))
        || value.as_object().is_some_and(is_operator)
}

impl Compiler<'_> {
    pub(super) fn sort_by_count(&self, spec: &Value) -> Result<Vec<Stage>, Failure> {
        let complaint = "the sortByCount field must be defined as a $-prefixed path or an \
                         expression inside an object";
        match (spec.as_object(), spec.as_str()) {
            (Some(fields), _) if is_operator(fields) => {}
            (Some(_), _) => return Err(Failure::new(40147, complaint)),
            (None, Some(text)) if text.starts_with('$') => {}
            (None, Some(_)) => return Err(Failure::new(40148, complaint)),
            (None, None) => {
                let message = "the sortByCount field must be specified as a string or as an object";
                return Err(Failure::new(40149, message));
            }
        }
        let group = Group { key: GroupKey::Value(self.expression(spec)?), fields: counted() };
        Ok(vec![Stage::Group(Arc::new(group)), sorted_by("count", ColumnKind::Descending)])
    }

    pub(super) fn bucket(&self, spec: &Value) -> Result<Vec<Stage>, Failure> {
        let Some(fields) = spec.as_object() else {
            let given = type_name(Some(spec));
            let message =
                format!("Argument to $bucket stage must be an object, but found type: {given}.");
            return Err(Failure::new(40201, message));
        };
        let (mut key, mut boundaries, mut default, mut output) = (None, None, None, None);
        for (name, value) in fields.iter() {
            match name {
                "groupBy" if is_expression(value) => key = Some(value),
                "groupBy" => {
                    let shown = printed(Some(value));
                    let message = format!(
                        "The $bucket 'groupBy' field must be defined as a $-prefixed path or an \
                         expression, but found: {shown}."
                    );
                    return Err(Failure::new(40202, message));
                }
                "boundaries" => boundaries = Some(self.boundaries(value)?),
                "default" => {
                    let complaint = (
                        40195,
                        "The $bucket 'default' field must be a constant expression, but found",
                    );
                    default = Some(self.constant(value, complaint)?);
                }
                "output" => {
                    output = Some(value.as_object().ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message = format!(
                            "The $bucket 'output' field must be an object, but found type: {given}."
                        );
                        Failure::new(40196, message)
                    })?);
                }
                _ => {
                    let message = format!("Unrecognized option to $bucket: {name}.");
                    return Err(Failure::new(40197, message));
                }
            }
        }
        let (Some(key), Some(boundaries)) = (key, boundaries) else {
            let message = "$bucket requires 'groupBy' and 'boundaries' to be specified.";
            return Err(Failure::new(40198, message));
        };
        check_default(&boundaries, default.as_ref())?;
        let key = self.expression(&bucket_of(key, &boundaries, default.as_ref()))?;
        let fields = match output {
            Some(output) => self.accumulators(output)?,
            None => counted(),
        };
        let group = Group { key: GroupKey::Value(key), fields };
        Ok(vec![Stage::Group(Arc::new(group)), sorted_by("_id", ColumnKind::Ascending)])
    }

    fn constant(&self, value: &Value, (code, text): (i32, &str)) -> Result<Value, Failure> {
        match self.expression(value)?.as_literal() {
            Some(constant) => Ok(constant.cloned().unwrap_or(Value::Null)),
            None => Err(Failure::new(code, format!("{text}: {}.", printed(Some(value))))),
        }
    }

    fn boundaries(&self, value: &Value) -> Result<Vec<Value>, Failure> {
        let Some(boundaries) = value.as_array() else {
            let given = type_name(Some(value));
            let message = format!(
                "The $bucket 'boundaries' field must be an array, but found type: {given}."
            );
            return Err(Failure::new(40200, message));
        };
        let complaint = (
            40191,
            "The $bucket 'boundaries' field must be an array of constant values, but found value",
        );
        let constant = |value| self.constant(value, complaint);
        let boundaries = boundaries.iter().map(constant).collect::<Result<Vec<_>, _>>()?;
        if boundaries.len() < 2 {
            let count = boundaries.len();
            let message = format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {count} \
                 value(s)."
            );
            return Err(Failure::new(40192, message));
        }
        for (at, pair) in boundaries.windows(2).enumerate() {
            let [lower, upper] = pair else { continue };
            let are_alike =
                BsonType::of(lower) == BsonType::of(upper) || is_number(lower) && is_number(upper);
            if !are_alike {
                let (a, b) = (type_name(Some(lower)), type_name(Some(upper)));
                let message = format!(
                    "All values in the the 'boundaries' option to $bucket must have the same type. \
                     Found conflicting types {a} and {b}."
                );
                return Err(Failure::new(40193, message));
            }
            if !compare(Some(lower), Some(upper)).is_lt() {
                let (a, b) = (printed(Some(lower)), printed(Some(upper)));
                let message = format!(
                    "The 'boundaries' option to $bucket must be sorted, but elements {at} and {} \
                     are not in ascending order ({a} is not less than {b}).",
                    at + 1
                );
                return Err(Failure::new(40194, message));
            }
        }
        Ok(boundaries)
    }

    pub(super) fn bucket_auto(&self, spec: &Value) -> Result<Stage, Failure> {
        let Some(fields) = spec.as_object() else {
            let given = type_name(Some(spec));
            let message =
                format!("The argument to $bucketAuto must be an object, but found type: {given}");
            return Err(Failure::new(40240, message));
        };
        let (mut key, mut buckets, mut granularity) = (None, None, None);
        let mut accumulators = counted();
        for (name, value) in fields.iter() {
            match name {
                "groupBy" if is_expression(value) => key = Some(self.expression(value)?),
                "groupBy" => {
                    let shown = printed(Some(value));
                    let message = format!(
                        "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an \
                         expression object, but found: {shown}"
                    );
                    return Err(Failure::new(40239, message));
                }
                "buckets" => buckets = Some(number_of_buckets(value)?),
                "output" => {
                    let output = value.as_object().ok_or_else(|| {
                        let given = type_name(Some(value));
                        let message = format!(
                            "The $bucketAuto 'output' field must be an object, but found type: \
                             {given}"
                        );
                        Failure::new(40244, message)
                    })?;
                    accumulators = self.accumulators(output)?;
                }
                "granularity" => granularity = Some(granularity_of(value)?),
                _ => {
                    let message = format!("Unrecognized option to $bucketAuto: {name}");
                    return Err(Failure::new(40245, message));
                }
            }
        }
        let (Some(key), Some(buckets)) = (key, buckets) else {
            let message = "$bucketAuto requires 'groupBy' and 'buckets' to be specified";
            return Err(Failure::new(40246, message));
        };
        let stage = BucketAuto { key, buckets, fields: accumulators, granularity };
        Ok(Stage::BucketAuto(Arc::new(stage)))
    }
}

fn number_of_buckets(value: &Value) -> Result<u32, Failure> {
    if !is_number(value) {
        let given = type_name(Some(value));
        let message = format!(
            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {given}"
        );
        return Err(Failure::new(40241, message));
    }
    let buckets = integer("buckets", value).ok().and_then(|n| i32::try_from(n).ok());
    let buckets = buckets.ok_or_else(|| {
        let shown = printed(Some(value));
        let message = format!(
            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found \
             {shown}"
        );
        Failure::new(40242, message)
    })?;
    u32::try_from(buckets).ok().filter(|buckets| *buckets > 0).ok_or_else(|| {
        let message =
            format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {buckets}");
        Failure::new(40243, message)
    })
}

fn granularity_of(value: &Value) -> Result<Granularity, Failure> {
    let Some(name) = value.as_str() else {
        let given = type_name(Some(value));
        let message = format!(
            "The $bucketAuto 'granularity' field must be a string, but found type: {given}"
        );
        return Err(Failure::new(40261, message));
    };
    Granularity::named(name)
        .ok_or_else(|| Failure::new(40257, format!("Unknown rounding granularity '{name}'")))
}

/// Checks that the default lies outside of the buckets.
fn check_default(boundaries: &[Value], default: Option<&Value>) -> Result<(), Failure> {
    let (Some(lowest), Some(highest), Some(_)) = (boundaries.first(), boundaries.last(), default)
    else {
        return Ok(());
    };
    let is_outside =
        compare(default, Some(lowest)).is_lt() || compare(default, Some(highest)).is_ge();
    if !is_outside {
        let message = "The $bucket 'default' field must be less than the lowest boundary or \
                       greater than or equal to the highest boundary.";
        return Err(Failure::new(40199, message));
    }
    Ok(())
}

/// The lower bound of the bucket that a value is in, as an expression.
fn bucket_of(key: &Value, boundaries: &[Value], default: Option<&Value>) -> Value {
    let branch = |pair: &[Value]| {
        let [lower, upper] = pair else { return Value::Null };
        let from = object([("$gte", Value::Array(vec![key.clone(), literal(lower)]))]);
        let to = object([("$lt", Value::Array(vec![key.clone(), literal(upper)]))]);
        let case = object([("$and", Value::Array(vec![from, to]))]);
        object([("case", case), ("then", literal(lower))])
    };
    let branches = Value::Array(boundaries.windows(2).map(branch).collect());
    let mut fields = Object::from_iter([("branches".to_owned(), branches)]);
    if let Some(default) = default {
        fields.insert("default", literal(default));
    }
    object([("$switch", Value::Object(fields))])
}
