//! Compiles filters to [`Predicate`]s.

mod bits;
mod json_schema;
mod operators;
#[cfg(test)]
mod properties;
mod schema_arguments;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{Object, Value};
use query::algebra::{RandomSource, Relation};
use query::document::predicate::{ValueTest, WhereScript};
use query::document::{DocumentTest, Evaluate, Failure, FieldPath, Predicate, Regex, code};

use super::{CompileOptions, expression};

/// Compiles JavaScript, with its scope if it has one.
pub type CompileScript<'c> =
    &'c dyn Fn(&str, Option<&Object>) -> Result<Arc<dyn DocumentTest>, Failure>;

/// What a filter is compiled with.
#[derive(Clone, Copy)]
pub struct FilterOptions<'c> {
    /// What `$expr` is compiled with.
    pub expressions: &'c CompileOptions,
    /// Compiles `$where`; `None` where there are no scripts.
    pub compile_script: Option<CompileScript<'c>>,
    /// Determines the documents that `$sampleRate` takes.
    pub seed: u64,
    /// Whether operators on whole documents are left out: in array filters and `$pull`.
    pub is_restricted: bool,
}

impl<'c> FilterOptions<'c> {
    /// Options without scripts.
    pub fn new(expressions: &'c CompileOptions) -> Self {
        Self { expressions, compile_script: None, seed: 0, is_restricted: false }
    }

    /// Compiles an expression of a filter, a projection or an update.
    pub(crate) fn expression(&self, value: &Value) -> Result<Arc<dyn Evaluate>, Failure> {
        Ok(Arc::new(expression::compile(value, self.expressions)?))
    }
}

/// Compiles the JavaScript of `$where` for the scripts of a command's variables: a
/// [`CompileScript`] of those who have scripts.
pub fn where_script(
    source: &str,
    scope: Option<&Object>,
) -> Result<Arc<dyn DocumentTest>, Failure> {
    match scope {
        Some(_) => Err(bad_value("$where got bad type")),
        None => Ok(Arc::new(WhereScript::new(source))),
    }
}

impl std::fmt::Debug for FilterOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterOptions").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// QueryFeatureNotAllowed.
const FEATURE_NOT_ALLOWED: i32 = 224;
/// NoQueryExecutionPlans.
const NO_QUERY_EXECUTION_PLANS: i32 = 291;

/// Compiles a filter on whole documents.
pub fn compile(filter: &Object, options: &FilterOptions<'_>) -> Result<Predicate, Failure> {
    Compiler { options, is_nested: false }.document(filter)
}

/// Whether an object holds operators rather than being a value: its first name says so, unless it is
/// a reference to a document.
pub(crate) fn is_operators(object: &Object) -> bool {
    let begins_with_dollar = object.iter().next().is_some_and(|(name, _)| name.starts_with('$'));
    let is_reference = object.get("$ref").is_some() && object.get("$id").is_some();
    begins_with_dollar && !is_reference
}

/// A mistake in the value of an argument.
fn bad_value(message: impl Into<String>) -> Failure {
    Failure::new(code::BAD_VALUE, message)
}

struct Compiler<'c> {
    options: &'c FilterOptions<'c>,
    /// Whether the filter is about elements of an array.
    is_nested: bool,
}

impl Compiler<'_> {
    fn nested(&self) -> Self {
        Compiler { options: self.options, is_nested: true }
    }

    fn document(&self, filter: &Object) -> Result<Predicate, Failure> {
        let mut parts = Vec::with_capacity(filter.len());
        for (name, value) in filter.iter() {
            match name.starts_with('$') {
                true => parts.extend(self.top_level(name, value)?),
                false => parts.push(self.field(name, value)?),
            }
        }
        Ok(all_of(parts))
    }

    fn field(&self, name: &str, value: &Value) -> Result<Predicate, Failure> {
        let path = FieldPath::parse(name);
        if let Value::Object(object) = value
            && is_operators(object)
        {
            return operators::compile(self, &path, object);
        }
        Ok(Predicate::Field { path, test: equality(value)? })
    }

    /// An operator that belongs to no field; `None` if it has no effect.
    fn top_level(&self, name: &str, value: &Value) -> Result<Option<Predicate>, Failure> {
        match name {
            "$and" => Ok(Some(all_of(self.parts(name, value)?))),
            "$or" => Ok(Some(one_of(self.parts(name, value)?))),
            "$nor" => Ok(Some(Predicate::Not(Box::new(one_of(self.parts(name, value)?))))),
            "$comment" => Ok(None),
            "$expr" => self.expression(value).map(Some),
            "$where" => self.script(value).map(Some),
            "$jsonSchema" => {
                self.check_allowed(name)?;
                Ok(Some(Predicate::Schema(Arc::new(json_schema::compile(value)?))))
            }
            "$sampleRate" => self.sample(value).map(Some),
            "$alwaysTrue" => always(name, value, true).map(Some),
            "$alwaysFalse" => always(name, value, false).map(Some),
            "$text" => {
                self.check_top_level(name)?;
                Err(Failure::new(code::INDEX_NOT_FOUND, "text index required for $text query"))
            }
            "$ref" | "$id" | "$db" => self.field(name, value).map(Some),
            _ => Err(bad_value(format!(
                "unknown top level operator: {name}. If you have a field name that starts with a \
                 '$' symbol, consider using $getField or $setField."
            ))),
        }
    }

    fn parts(&self, name: &str, value: &Value) -> Result<Vec<Predicate>, Failure> {
        let Value::Array(entries) = value else {
            return Err(bad_value(format!("{name} must be an array")));
        };
        if entries.is_empty() {
            return Err(bad_value("$and/$or/$nor must be a nonempty array"));
        }
        let part = |entry: &Value| match entry.as_object() {
            Some(entry) => self.document(entry),
            None => Err(bad_value("$or/$and/$nor entries need to be full objects")),
        };
        entries.iter().map(part).collect()
    }

    fn expression(&self, value: &Value) -> Result<Predicate, Failure> {
        self.check_top_level("$expr")?;
        self.check_allowed("$expr")?;
        Ok(Predicate::Expression(self.options.expression(value)?))
    }

    fn script(&self, value: &Value) -> Result<Predicate, Failure> {
        self.check_top_level("$where")?;
        if self.options.is_restricted {
            return Err(bad_value("$where is not allowed in this context"));
        }
        let (source, scope) = if let Value::String(source) = value {
            (source, None)
        } else if let Value::JavaScript { code, scope } = value {
            (code, scope.as_deref())
        } else {
            return Err(bad_value("$where got bad type"));
        };
        let Some(compile) = self.options.compile_script else {
            return Err(bad_value("no globalScriptEngine in $where parsing"));
        };
        Ok(Predicate::Script(compile(source, scope)?))
    }

    fn sample(&self, value: &Value) -> Result<Predicate, Failure> {
        let Some(rate) = query::document::types::to_f64(value) else {
            return Err(bad_value("argument to $sampleRate must be a numeric type"));
        };
        if !(0.0..=1.0).contains(&rate) {
            return Err(bad_value("numeric argument to $sampleRate must be in [0, 1]"));
        }
        Ok(Predicate::Sample { rate, random: RandomSource::new(self.options.seed) })
    }

    fn check_top_level(&self, name: &str) -> Result<(), Failure> {
        match self.is_nested {
            true => Err(bad_value(format!("{name} can only be applied to the top-level document"))),
            false => Ok(()),
        }
    }

    fn check_allowed(&self, name: &str) -> Result<(), Failure> {
        match self.options.is_restricted {
            true => {
                let message = format!("{name} is not allowed in this context");
                Err(Failure::new(FEATURE_NOT_ALLOWED, message))
            }
            false => Ok(()),
        }
    }
}

fn always(name: &str, value: &Value, constant: bool) -> Result<Predicate, Failure> {
    match super::integers::integer(name, value) {
        Ok(1) => Ok(Predicate::Constant(constant)),
        Ok(_) | Err(_) => {
            let message = format!("{name} must be an integer value of 1");
            Err(Failure::new(code::FAILED_TO_PARSE, message))
        }
    }
}

/// The test that a plain value stands for: equality, or the pattern of a regular expression.
fn equality(value: &Value) -> Result<ValueTest, Failure> {
    if let Value::Regex { pattern, options } = value {
        return Ok(ValueTest::Regex(Arc::new(Regex::new(pattern, options)?)));
    }
    comparable(value)?;
    Ok(ValueTest::Compare { relation: Relation::Equal, operand: value.clone() })
}

fn comparable(value: &Value) -> Result<(), Failure> {
    match query::document::BsonType::of(value) == query::document::BsonType::Undefined {
        true => Err(bad_value("cannot compare to undefined")),
        false => Ok(()),
    }
}

fn all_of(mut parts: Vec<Predicate>) -> Predicate {
    match (parts.pop(), parts.is_empty()) {
        (None, _) => Predicate::And(Vec::new()),
        (Some(only), true) => only,
        (Some(last), false) => {
            parts.push(last);
            Predicate::And(parts)
        }
    }
}

fn one_of(mut parts: Vec<Predicate>) -> Predicate {
    match (parts.pop(), parts.is_empty()) {
        (None, _) => Predicate::Or(Vec::new()),
        (Some(only), true) => only,
        (Some(last), false) => {
            parts.push(last);
            Predicate::Or(parts)
        }
    }
}
