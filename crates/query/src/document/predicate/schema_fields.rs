//! The rules of schemas about objects and arrays.

use model::{Object, Value};

use crate::document::types;
use crate::document::{Failure, Regex};

use super::{Matching, Schema};

/// What is said of fields or elements that no other rule names.
#[derive(Debug, Default)]
pub enum Additional {
    /// They may be anything.
    #[default]
    Allowed,
    /// There must be none.
    Forbidden,
    /// They have to fit.
    Fit(Box<Schema>),
}

/// What is said of the elements of an array.
#[derive(Debug, Default)]
pub enum Items {
    /// Nothing.
    #[default]
    Any,
    /// All have to fit.
    All(Box<Schema>),
    /// Each has to fit the schema at its position; what is said of the others.
    Each(Vec<Schema>, Additional),
}

/// Rules about arrays.
#[derive(Debug, Default)]
pub struct ArrayRules {
    /// The rules about elements.
    pub items: Items,
    /// The least number of elements.
    pub min_items: Option<u64>,
    /// The greatest number of elements.
    pub max_items: Option<u64>,
    /// Whether no two elements may be equal.
    pub has_unique_items: bool,
}

/// Rules about objects.
#[derive(Debug, Default)]
pub struct ObjectRules {
    /// Schemas of fields by name.
    pub properties: Vec<(String, Schema)>,
    /// Schemas of all fields whose names match.
    pub pattern_properties: Vec<(Regex, Schema)>,
    /// What is said of the other fields.
    pub additional: Additional,
    /// Fields that have to exist.
    pub required: Vec<String>,
    /// Fields that have to exist if another does.
    pub field_dependencies: Vec<(String, Vec<String>)>,
    /// What the object has to fit if a field exists.
    pub schema_dependencies: Vec<(String, Schema)>,
    /// The least number of fields.
    pub min_properties: Option<u64>,
    /// The greatest number of fields.
    pub max_properties: Option<u64>,
}

impl Additional {
    fn accepts(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        match self {
            Additional::Allowed => Ok(true),
            Additional::Forbidden => Ok(false),
            Additional::Fit(schema) => schema.accepts(value, matching),
        }
    }
}

fn is_within(count: usize, min: Option<u64>, max: Option<u64>) -> bool {
    let count = count as u64;
    min.is_none_or(|min| count >= min) && max.is_none_or(|max| count <= max)
}

impl ArrayRules {
    pub(super) fn accept(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        let Value::Array(elements) = value else { return Ok(true) };
        if !is_within(elements.len(), self.min_items, self.max_items)
            || self.has_unique_items && has_repetitions(elements)
        {
            return Ok(false);
        }
        for (at, element) in elements.iter().enumerate() {
            let is_accepted = match &self.items {
                Items::Any => return Ok(true),
                Items::All(schema) => schema.accepts(element, matching)?,
                Items::Each(schemas, additional) => match schemas.get(at) {
                    Some(schema) => schema.accepts(element, matching)?,
                    None => additional.accepts(element, matching)?,
                },
            };
            if !is_accepted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether two elements are equal. They are sorted, so that no array takes quadratic time.
fn has_repetitions(elements: &[Value]) -> bool {
    let mut sorted: Vec<&Value> = elements.iter().collect();
    sorted.sort_by(|a, b| types::compare(Some(a), Some(b)));
    sorted.windows(2).any(|pair| types::equal(pair[0], pair[1]))
}

impl ObjectRules {
    pub(super) fn accept(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        let Value::Object(object) = value else { return Ok(true) };
        let has_all = |names: &[String]| names.iter().all(|name| object.get(name).is_some());
        let keep_dependencies = self
            .field_dependencies
            .iter()
            .all(|(name, needed)| object.get(name).is_none() || has_all(needed));
        if !is_within(object.len(), self.min_properties, self.max_properties)
            || !has_all(&self.required)
            || !keep_dependencies
        {
            return Ok(false);
        }
        for (name, schema) in &self.properties {
            if let Some(field) = object.get(name)
                && !schema.accepts(field, matching)?
            {
                return Ok(false);
            }
        }
        for (name, schema) in &self.schema_dependencies {
            if object.get(name).is_some() && !schema.accepts(value, matching)? {
                return Ok(false);
            }
        }
        self.accept_unnamed(object, matching)
    }

    /// The rules about fields that are not found by their names.
    fn accept_unnamed(&self, object: &Object, matching: &Matching<'_>) -> Result<bool, Failure> {
        if self.pattern_properties.is_empty() && matches!(self.additional, Additional::Allowed) {
            return Ok(true);
        }
        for (name, field) in object.iter() {
            let mut is_named = self.properties.iter().any(|(property, _)| property == name);
            for (pattern, schema) in &self.pattern_properties {
                if pattern.is_match(name, matching.budget)? {
                    is_named = true;
                    if !schema.accepts(field, matching)? {
                        return Ok(false);
                    }
                }
            }
            if !is_named && !self.additional.accepts(field, matching)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
