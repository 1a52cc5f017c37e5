//! JSON schemas: rules that a value of some type has to keep.

use model::Value;

use crate::document::types::{self, BsonType, TypeSet};
use crate::document::{Failure, Regex};

use super::schema_fields::{ArrayRules, ObjectRules};
use super::{Matching, truncated};

/// The rules of one schema. A rule about values of another type is kept.
#[derive(Debug, Default)]
pub struct Schema {
    /// The types that are allowed, if not all.
    pub types: Option<TypeSet>,
    /// The values that are allowed, if not all.
    pub values: Option<Vec<Value>>,
    /// Schemas that have to accept the value.
    pub all_of: Vec<Schema>,
    /// Schemas of which one has to accept it, if there are any.
    pub any_of: Option<Vec<Schema>>,
    /// Schemas of which exactly one has to accept it, if there are any.
    pub one_of: Option<Vec<Schema>>,
    /// A schema that must not accept it.
    pub not: Option<Box<Schema>>,
    /// The least number, and whether it is itself excluded.
    pub minimum: Option<(Value, bool)>,
    /// The greatest number, and whether it is itself excluded.
    pub maximum: Option<(Value, bool)>,
    /// What numbers are multiples of; greater than zero.
    pub multiple_of: Option<Value>,
    /// The least number of characters of text.
    pub min_length: Option<u64>,
    /// The greatest number of characters of text.
    pub max_length: Option<u64>,
    /// What text has to match.
    pub pattern: Option<Regex>,
    /// Rules about arrays.
    pub array: ArrayRules,
    /// Rules about objects.
    pub object: ObjectRules,
}

impl Schema {
    pub(super) fn accepts(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        matching.variables.step()?;
        Ok(self.accepts_type(value)
            && self.accepts_number(value)
            && self.accepts_text(value, matching)?
            && self.array.accept(value, matching)?
            && self.object.accept(value, matching)?
            && self.accepts_by_parts(value, matching)?)
    }

    fn accepts_type(&self, value: &Value) -> bool {
        let has_type = self.types.is_none_or(|types| types.contains(BsonType::of(value)));
        let is_listed = |values: &Vec<Value>| values.iter().any(|each| types::equal(each, value));
        has_type && self.values.as_ref().is_none_or(is_listed)
    }

    fn accepts_number(&self, value: &Value) -> bool {
        if !types::is_number(value) {
            return true;
        }
        let order = |bound| types::compare(Some(value), Some(bound));
        let is_above = self.minimum.as_ref().is_none_or(|(bound, is_excluded)| {
            if *is_excluded { order(bound).is_gt() } else { order(bound).is_ge() }
        });
        let is_below = self.maximum.as_ref().is_none_or(|(bound, is_excluded)| {
            if *is_excluded { order(bound).is_lt() } else { order(bound).is_le() }
        });
        is_above
            && is_below
            && self.multiple_of.as_ref().is_none_or(|divisor| is_multiple(value, divisor))
    }

    fn accepts_text(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        let Value::String(text) = value else { return Ok(true) };
        if self.min_length.is_some() || self.max_length.is_some() {
            let length = text.chars().count() as u64;
            let is_long = self.min_length.is_none_or(|min| length >= min);
            if !is_long || self.max_length.is_some_and(|max| length > max) {
                return Ok(false);
            }
        }
        match &self.pattern {
            Some(pattern) => pattern.is_match(text, matching.budget),
            None => Ok(true),
        }
    }

    fn accepts_by_parts(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        for part in &self.all_of {
            if !part.accepts(value, matching)? {
                return Ok(false);
            }
        }
        let count = |parts: &[Schema], enough: usize| -> Result<usize, Failure> {
            let mut count = 0;
            for part in parts {
                count += usize::from(part.accepts(value, matching)?);
                if count >= enough {
                    break;
                }
            }
            Ok(count)
        };
        if let Some(parts) = &self.any_of
            && count(parts, 1)? == 0
        {
            return Ok(false);
        }
        if let Some(parts) = &self.one_of
            && count(parts, 2)? != 1
        {
            return Ok(false);
        }
        match &self.not {
            Some(not) => Ok(!not.accepts(value, matching)?),
            None => Ok(true),
        }
    }
}

/// Whether a number is a multiple: exactly for integers, by doubles otherwise.
fn is_multiple(value: &Value, divisor: &Value) -> bool {
    let exact = |n: &Value| super::bits::exact_integer(n);
    if let (Some(n), Some(divisor)) = (exact(value), exact(divisor)) {
        return n.checked_rem(divisor) == Some(0);
    }
    let double = |n: &Value| types::to_f64(n).unwrap_or(f64::NAN);
    // A number beyond all integers has no fraction that could be left over.
    truncated(value).is_some() && double(value) % double(divisor) == 0.0
}
