//! A client's input: JSON with or without annotations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::edm::{EdmType, parse_date, parse_guid};
use model::{Object, Value, json};

use super::rules::NAME_CHARS_MAX;
use super::{EntityError, Rules};

const ANNOTATION: &str = "@odata.type";
/// An entity is an object of scalars; deeper values are refused because of their type.
const DEPTH_MAX: usize = 16;

/// A key in a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentKey {
    /// The key is missing.
    Missing,
    /// A string.
    Text(String),
    /// A value that is no valid key.
    Other,
}

/// An entity in a client's input.
#[derive(Clone, Debug, PartialEq)]
pub struct SentEntity {
    /// The partition key, if it was sent.
    pub partition_key: SentKey,
    /// The row key, if it was sent.
    pub row_key: SentKey,
    /// Typed values of the other properties, without those that are null.
    pub properties: Object,
    wrong_key: EntityError,
}

impl SentEntity {
    /// Parses a request's body.
    pub fn parse(body: &[u8], rules: &Rules) -> Result<Self, EntityError> {
        let parsed = json::parse(body, DEPTH_MAX).map_err(|_| EntityError::Body)?;
        if !parsed.is_faithful {
            return Err(EntityError::Duplicate);
        }
        let Value::Object(fields) = parsed.value else { return Err(EntityError::Body) };
        let sent =
            Fields::split_annotations(fields).and_then(|fields| fields.into_sent_entity(rules));
        let is_alike =
            |refusal: &EntityError| matches!(refusal, EntityError::Value | EntityError::Input);
        sent.map_err(|refusal| match is_alike(&refusal) && rules.are_wrong_values_alike {
            true => EntityError::InputValue,
            false => refusal,
        })
    }

    /// The keys of an entity to insert: both must be present, and be strings.
    pub fn keys(&self) -> Result<(&str, &str), EntityError> {
        let key = |key: &'_ SentKey| match key {
            SentKey::Missing => Err(EntityError::KeyMissing),
            SentKey::Other => Err(self.wrong_key.clone()),
            SentKey::Text(_) => Ok(()),
        };
        key(&self.partition_key)?;
        key(&self.row_key)?;
        match (&self.partition_key, &self.row_key) {
            (SentKey::Text(partition), SentKey::Text(row)) => Ok((partition, row)),
            _ => Err(EntityError::KeyMissing),
        }
    }

    /// Checks the keys in the body of an update, although the keys in the address apply.
    pub fn check_sent_keys(&self, rules: &Rules) -> Result<(), EntityError> {
        let is_wrong = self.partition_key == SentKey::Other || self.row_key == SentKey::Other;
        if rules.are_sent_keys_checked && is_wrong { Err(EntityError::InputValue) } else { Ok(()) }
    }
}

/// Values and their annotations, in the order of the values.
struct Fields {
    values: Vec<(String, Value)>,
    types: Vec<(String, String)>,
}

impl Fields {
    fn split_annotations(fields: Object) -> Result<Self, EntityError> {
        let mut values = Vec::with_capacity(fields.len());
        let mut types = Vec::new();
        for (name, value) in fields {
            if let Some(annotated) = name.strip_suffix(ANNOTATION) {
                let Value::String(edm) = value else { return Err(EntityError::Input) };
                types.push((annotated.to_owned(), edm));
            } else if !is_metadata(&name) {
                values.push((name, value));
            }
        }
        Ok(Self { values, types })
    }

    fn into_sent_entity(self, rules: &Rules) -> Result<SentEntity, EntityError> {
        let mut sent = SentEntity {
            partition_key: SentKey::Missing,
            row_key: SentKey::Missing,
            properties: Object::with_capacity(self.values.len()),
            wrong_key: match rules.are_wrong_values_alike {
                true => EntityError::InputValue,
                false => EntityError::Input,
            },
        };
        for (name, value) in self.values {
            let edm = self.types.iter().find(|(annotated, _)| *annotated == name);
            let edm = edm.map(|(_, edm)| edm.as_str());
            match name.as_str() {
                "PartitionKey" => sent.partition_key = sent_key(value, edm),
                "RowKey" => sent.row_key = sent_key(value, edm),
                "Timestamp" => {}
                dropped if rules.dropped_names.contains(&dropped) => {}
                _ => {
                    check_name(&name, rules)?;
                    if let Some(value) = typed(value, edm)? {
                        check_size(&value, rules)?;
                        sent.properties.push_unique(name, value);
                    }
                }
            }
        }
        if sent.properties.len() > rules.properties_max {
            return Err(EntityError::TooManyProperties);
        }
        Ok(sent)
    }
}

/// Whether a member is metadata of the entity and not a property.
fn is_metadata(name: &str) -> bool {
    name.starts_with("odata.") || name.contains("@odata.")
}

fn sent_key(value: Value, edm: Option<&str>) -> SentKey {
    let is_string = edm.is_none_or(|edm| edm == EdmType::String.name());
    if value == Value::Null {
        return SentKey::Missing;
    }
    if let Value::String(text) = value
        && is_string
    {
        return SentKey::Text(text);
    }
    SentKey::Other
}

/// A letter or underscore, then letters, digits and underscores.
fn check_name(name: &str, rules: &Rules) -> Result<(), EntityError> {
    if name.len() > NAME_CHARS_MAX && name.encode_utf16().count() > NAME_CHARS_MAX {
        return Err(EntityError::NameTooLong);
    }
    let mut characters = name.chars();
    let begins_well = characters.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    let goes_on_well = characters.all(|c| c.is_alphanumeric() || c == '_');
    if begins_well && goes_on_well && !rules.reserved_names.contains(&name) {
        return Ok(());
    }
    Err(EntityError::Name { shown: rules.are_names_shown.then(|| name.to_owned()) })
}

/// The value in the form of its type; `None` for null.
fn typed(value: Value, edm: Option<&str>) -> Result<Option<Value>, EntityError> {
    let edm = match edm {
        Some(name) => Some(EdmType::named(name).ok_or(EntityError::Input)?),
        None => None,
    };
    if matches!(value, Value::Array(_) | Value::Object(_)) {
        return Err(EntityError::Input);
    }
    if value == Value::Null {
        // Some clients send null for values of these types that JSON can't express, and do not
        // notice it. So null is an error.
        let is_lost = matches!(edm, Some(EdmType::Double | EdmType::DateTime));
        return if is_lost { Err(EntityError::Value) } else { Ok(None) };
    }
    let typed = match edm {
        None => untyped(value),
        Some(edm) => annotated(value, edm),
    };
    typed.map(Some).ok_or(EntityError::Value)
}

/// The type of a value without an annotation follows from its JSON form.
fn untyped(value: Value) -> Option<Value> {
    if let Value::Int64(n) = value {
        return i32::try_from(n).ok().map(Value::Int32);
    }
    Some(value)
}

fn annotated(value: Value, edm: EdmType) -> Option<Value> {
    let text = value.as_str();
    match edm {
        EdmType::String => text.map(Value::from),
        EdmType::Guid => parse_guid(text?).map(Value::Guid),
        EdmType::DateTime => parse_date(text?).map(Value::Date),
        EdmType::Binary => {
            let bytes = STANDARD.decode(text?).ok()?;
            Some(Value::Binary { subtype: 0, bytes })
        }
        EdmType::Boolean => match text {
            Some(text) if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
            Some(_) => None,
            None => value.as_bool().map(Value::Bool),
        },
        EdmType::Int32 => i32::try_from(integer(&value)?).ok().map(Value::Int32),
        EdmType::Int64 => integer(&value).map(Value::Int64),
        EdmType::Double => match text {
            Some("NaN") => Some(Value::Double(f64::NAN)),
            Some("Infinity" | "INF") => Some(Value::Double(f64::INFINITY)),
            Some("-Infinity" | "-INF") => Some(Value::Double(f64::NEG_INFINITY)),
            Some(text) => finite(text),
            None => value.as_f64().map(Value::Double),
        },
    }
}

/// A number in decimal notation; other words for numbers are refused.
fn finite(text: &str) -> Option<Value> {
    let is_number =
        text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let number: f64 = is_number.then(|| text.parse().ok()).flatten()?;
    number.is_finite().then_some(Value::Double(number))
}

/// An integer as number or text; a number with a decimal point is refused.
fn integer(value: &Value) -> Option<i64> {
    if let Value::Int64(n) = value {
        return Some(*n);
    }
    value.as_str()?.parse().ok()
}

fn check_size(value: &Value, rules: &Rules) -> Result<(), EntityError> {
    let max = rules.value_bytes_max;
    let is_small = if let Value::Binary { bytes, .. } = value {
        bytes.len() <= max
    } else if let Some(text) = value.as_str() {
        // No text has more code units than bytes.
        2 * text.len() <= max || 2 * text.encode_utf16().count() <= max
    } else {
        true
    };
    if is_small { Ok(()) } else { Err(EntityError::ValueTooLarge) }
}
