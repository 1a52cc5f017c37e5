//! The operators on one field.

use std::sync::Arc;

use model::{Object, Value};
use query::algebra::Relation;
use query::document::predicate::{BitTest, InList, ValueTest};
use query::document::types::is_number;
use query::document::{BsonType, Failure, FieldPath, Predicate, Regex, TypeSet, code};

use crate::mongo::integers::{coerced, non_negative_integer};

use super::{
    Compiler, NO_QUERY_EXECUTION_PLANS, all_of, bad_value, bits, comparable, equality, is_operators,
};

/// Options in both the pattern and the operator.
const OPTIONS_TWICE: i32 = 51075;

/// Compiles all operators of one field.
pub(super) fn compile(
    compiler: &Compiler<'_>,
    path: &FieldPath,
    operators: &Object,
) -> Result<Predicate, Failure> {
    let field = Field { compiler, path, operators };
    let mut parts = Vec::with_capacity(operators.len());
    for (name, value) in operators.iter() {
        parts.extend(field.operator(name, value)?);
    }
    Ok(all_of(parts))
}

struct Field<'c> {
    compiler: &'c Compiler<'c>,
    path: &'c FieldPath,
    operators: &'c Object,
}

impl Field<'_> {
    fn test(&self, test: ValueTest) -> Predicate {
        Predicate::Field { path: self.path.clone(), test }
    }

    /// One operator; `None` if another one includes it.
    fn operator(&self, name: &str, value: &Value) -> Result<Option<Predicate>, Failure> {
        let predicate = match name {
            "$eq" => self.compare(Relation::Equal, value)?,
            "$gt" => self.compare(Relation::Greater, value)?,
            "$gte" => self.compare(Relation::GreaterOrEqual, value)?,
            "$lt" => self.compare(Relation::Less, value)?,
            "$lte" => self.compare(Relation::LessOrEqual, value)?,
            "$ne" => {
                if matches!(value, Value::Regex { .. }) {
                    return Err(bad_value("Can't have regex as arg to $ne."));
                }
                negated(self.compare(Relation::Equal, value)?)
            }
            "$in" => self.test(ValueTest::In(in_list(name, value)?)),
            "$nin" => negated(self.test(ValueTest::In(in_list(name, value)?))),
            "$not" => self.negation(value)?,
            "$exists" => {
                let exists = self.test(ValueTest::Exists);
                if query::document::types::is_truthy(value) { exists } else { negated(exists) }
            }
            "$type" => self.test(ValueTest::Type(type_set(self.path.as_str(), value)?)),
            "$mod" => self.modulo(value)?,
            "$regex" => self.regex(value)?,
            "$options" if self.operators.get("$regex").is_some() => return Ok(None),
            "$options" => return Err(bad_value("$options needs a $regex")),
            "$size" => {
                let size = non_negative_integer(name, value)
                    .map_err(|reason| bad_value(format!("Failed to parse $size. {reason}")))?;
                self.test(ValueTest::Size(size))
            }
            "$elemMatch" => self.element(value)?,
            "$all" => self.all(value)?,
            "$bitsAllSet" => self.bits(BitTest::AllSet, name, value)?,
            "$bitsAnySet" => self.bits(BitTest::AnySet, name, value)?,
            "$bitsAllClear" => self.bits(BitTest::AllClear, name, value)?,
            "$bitsAnyClear" => self.bits(BitTest::AnyClear, name, value)?,
            "$near" | "$nearSphere" | "$geoNear" => {
                let message = "unable to find index for $geoNear query";
                return Err(Failure::new(NO_QUERY_EXECUTION_PLANS, message));
            }
            "$geoWithin" | "$within" | "$geoIntersects" => {
                return Err(Failure::new(code::NOT_SUPPORTED, format!("{name} is not supported")));
            }
            _ => return Err(bad_value(format!("unknown operator: {name}"))),
        };
        Ok(Some(predicate))
    }

    fn compare(&self, relation: Relation, operand: &Value) -> Result<Predicate, Failure> {
        comparable(operand)?;
        if relation != Relation::Equal && matches!(operand, Value::Regex { .. }) {
            return Err(bad_value(format!(
                "Can't have RegEx as arg to predicate over field '{}'.",
                self.path.as_str()
            )));
        }
        Ok(self.test(ValueTest::Compare { relation, operand: operand.clone() }))
    }

    fn negation(&self, value: &Value) -> Result<Predicate, Failure> {
        if matches!(value, Value::Regex { .. }) {
            return Ok(negated(self.test(equality(value)?)));
        }
        let Value::Object(operators) = value else {
            return Err(bad_value("$not needs a regex or a document"));
        };
        if operators.is_empty() {
            return Err(bad_value("$not cannot be empty"));
        }
        Ok(negated(compile(self.compiler, self.path, operators)?))
    }

    fn modulo(&self, value: &Value) -> Result<Predicate, Failure> {
        let malformed = |what: &str| bad_value(format!("malformed mod, {what}"));
        let Value::Array(arguments) = value else {
            return Err(malformed("needs to be an array"));
        };
        let [divisor, remainder] = &arguments[..] else {
            return Err(malformed(match arguments.len() < 2 {
                true => "not enough elements",
                false => "too many elements",
            }));
        };
        let argument = |name: &str, value: &Value| {
            if !is_number(value) {
                return Err(malformed(&format!("{name} not a number")));
            }
            let invalid =
                |reason| malformed(&format!("{name} value is invalid :: caused by :: {reason}"));
            coerced(value).map_err(invalid)
        };
        let divisor = argument("divisor", divisor)?;
        let remainder = argument("remainder", remainder)?;
        if divisor == 0 {
            return Err(bad_value("divisor cannot be 0"));
        }
        Ok(self.test(ValueTest::Mod { divisor, remainder }))
    }

    fn regex(&self, value: &Value) -> Result<Predicate, Failure> {
        let (pattern, own_options) = if let Value::String(pattern) = value {
            (pattern, "")
        } else if let Value::Regex { pattern, options } = value {
            (pattern, options.as_str())
        } else {
            return Err(bad_value("$regex has to be a string"));
        };
        let options = match self.operators.get("$options") {
            None => own_options,
            Some(Value::String(_)) if !own_options.is_empty() => {
                let message = "options set in both $regex and $options";
                return Err(Failure::new(OPTIONS_TWICE, message));
            }
            Some(Value::String(options)) => options.as_str(),
            Some(_) => return Err(bad_value("$options has to be a string")),
        };
        Ok(self.test(ValueTest::Regex(Arc::new(Regex::new(pattern, options)?))))
    }

    fn element(&self, value: &Value) -> Result<Predicate, Failure> {
        let Value::Object(filter) = value else {
            return Err(bad_value("$elemMatch needs an Object"));
        };
        if filter.get("$where").is_some() {
            return Err(bad_value("$elemMatch cannot contain $where expression"));
        }
        let nested = self.compiler.nested();
        Ok(self.test(match tests_values(filter) {
            true => {
                let tests = compile(&nested, &FieldPath::root(), filter)?;
                ValueTest::ElementValue(Box::new(tests))
            }
            false => ValueTest::ElementObject(Box::new(nested.document(filter)?)),
        }))
    }

    fn all(&self, value: &Value) -> Result<Predicate, Failure> {
        let Value::Array(values) = value else {
            return Err(bad_value("$all needs an array"));
        };
        let Some(first) = values.first() else { return Ok(Predicate::Constant(false)) };
        let element_filter = |value: &Value| {
            let (name, _) = value.as_object()?.iter().next()?;
            (name == "$elemMatch").then_some(())
        };
        if element_filter(first).is_some() {
            let part = |value: &Value| match value.as_object() {
                Some(filter) if element_filter(value).is_some() && filter.len() == 1 => {
                    compile(self.compiler, self.path, filter)
                }
                Some(_) | None => Err(bad_value("$all/$elemMatch has to be consistent")),
            };
            let parts: Result<Vec<_>, _> = values.iter().map(part).collect();
            return parts.map(all_of);
        }
        let part = |value: &Value| {
            if value.as_object().is_some_and(is_operators) {
                return Err(bad_value("no $ expressions in $all"));
            }
            Ok(self.test(equality(value)?))
        };
        let parts: Result<Vec<_>, _> = values.iter().map(part).collect();
        parts.map(all_of)
    }

    fn bits(&self, test: BitTest, name: &str, value: &Value) -> Result<Predicate, Failure> {
        Ok(self.test(ValueTest::Bits(bits::compile(test, self.path.as_str(), name, value)?)))
    }
}

fn negated(predicate: Predicate) -> Predicate {
    Predicate::Not(Box::new(predicate))
}

/// Whether `$elemMatch` holds tests of values rather than a filter on objects.
fn tests_values(filter: &Object) -> bool {
    let Some((name, _)) = filter.iter().next() else { return false };
    let is_of_documents = matches!(
        name,
        "$and"
            | "$or"
            | "$nor"
            | "$expr"
            | "$where"
            | "$comment"
            | "$jsonSchema"
            | "$text"
            | "$sampleRate"
            | "$alwaysTrue"
            | "$alwaysFalse"
            | "$ref"
            | "$id"
            | "$db"
    );
    name.starts_with('$') && !is_of_documents
}

fn in_list(name: &str, value: &Value) -> Result<InList, Failure> {
    let Value::Array(elements) = value else {
        return Err(bad_value(format!("{name} needs an array")));
    };
    let (mut values, mut regexes) = (Vec::new(), Vec::new());
    for element in elements {
        if element.as_object().is_some_and(is_operators) {
            return Err(bad_value("cannot nest $ under $in"));
        }
        if BsonType::of(element) == BsonType::Undefined {
            return Err(bad_value("InMatchExpression equality cannot be undefined"));
        }
        if let Value::Regex { pattern, options } = element {
            regexes.push(Arc::new(Regex::new(pattern, options)?));
        }
        values.push(element.clone());
    }
    Ok(InList::new(values, regexes))
}

/// The types that `$type` names, at least one.
fn type_set(path: &str, value: &Value) -> Result<TypeSet, Failure> {
    let mut types = TypeSet::default();
    match value.as_array() {
        Some(elements) => elements.iter().try_for_each(|each| add_type(each, &mut types))?,
        None => add_type(value, &mut types)?,
    }
    if types.is_empty() {
        let message = format!("{path} must match at least one type");
        return Err(Failure::new(code::FAILED_TO_PARSE, message));
    }
    Ok(types)
}

fn add_type(value: &Value, types: &mut TypeSet) -> Result<(), Failure> {
    if let Value::String(alias) = value {
        return add_alias(alias, types);
    }
    if !is_number(value) {
        let message = "type must be represented as a number or a string";
        return Err(Failure::new(code::TYPE_MISMATCH, message));
    }
    let number = crate::mongo::integers::integer("", value).ok();
    match number.and_then(query::document::types::type_of_number) {
        Some(named) => {
            types.add(named);
            Ok(())
        }
        None => {
            let printed = query::document::print::Printed(value);
            let hint = if number == Some(0) { ". Instead use {$exists:false}." } else { "" };
            Err(bad_value(format!("Invalid numerical type code: {printed}{hint}")))
        }
    }
}

/// Adds the type with a name; all numbers have one together.
pub(super) fn add_alias(alias: &str, types: &mut TypeSet) -> Result<(), Failure> {
    if alias == "number" {
        types.add_numbers();
        return Ok(());
    }
    match BsonType::named(alias) {
        Some(named) => {
            types.add(named);
            Ok(())
        }
        None => Err(bad_value(format!("Unknown type name alias: {alias}"))),
    }
}
