//! BSON trees in tests, written as JSON with a few typed values.

use model::{Date, Object, Value};
use query::document::Variables;

use super::CompileOptions;
use super::filter::FilterOptions;

/// Reads relaxed JSON as BSON: whole numbers are int32 if they fit, `{"$date": ms}` is a date,
/// `{"$oid": hex}` an id, `{"$long": n}`, `{"$double": n}`, `{"$decimal": text}` numbers,
/// `{"$timestamp": seconds}` a timestamp, `{"$bytes": text}` a binary, `{"$re": [pattern, options]}` a
/// regular expression, `{"$special": "NaN" | "minKey" | "maxKey"}` what JSON lacks.
pub(crate) fn bson(json: &str) -> Value {
    let read = model::json::parse(json.as_bytes(), 200);
    typed(read.unwrap_or_else(|error| panic!("{json}: {error:?}")).value)
}

/// As [`bson`], of an object.
pub(crate) fn bson_object(json: &str) -> Object {
    let Value::Object(object) = bson(json) else { panic!("{json} is no object") };
    object
}

fn typed(value: Value) -> Value {
    if let Value::Int64(n) = value {
        return i32::try_from(n).map_or(Value::Int64(n), Value::Int32);
    }
    if let Value::Array(elements) = value {
        return Value::Array(elements.into_iter().map(typed).collect());
    }
    let Value::Object(object) = value else { return value };
    let only = object.iter().next().filter(|_| object.len() == 1);
    if let Some(special) = only.and_then(|(name, inner)| special(name, inner)) {
        return special;
    }
    Value::Object(object.into_iter().map(|(name, value)| (name, typed(value))).collect())
}

fn special(name: &str, inner: &Value) -> Option<Value> {
    match name {
        "$date" => Some(Value::Date(Date { millis: inner.as_i64()?, ticks: 0 })),
        "$long" => Some(Value::Int64(inner.as_i64()?)),
        "$double" => Some(Value::Double(inner.as_f64()?)),
        "$decimal" => {
            let decimal = model::decimal::Decimal::parse(inner.as_str()?)?;
            Some(Value::Decimal128(decimal.to_bson()))
        }
        "$timestamp" => {
            let seconds = u32::try_from(inner.as_i64()?).ok()?;
            Some(Value::Timestamp { seconds, increment: 1 })
        }
        "$bytes" => Some(Value::Binary { subtype: 0, bytes: inner.as_str()?.as_bytes().to_vec() }),
        "$oid" => {
            let digits = inner.as_str()?;
            let mut id = [0; 12];
            for (at, byte) in id.iter_mut().enumerate() {
                *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
            }
            Some(Value::ObjectId(id))
        }
        "$re" => {
            let [pattern, options] = inner.as_array()? else { return None };
            Some(Value::Regex {
                pattern: pattern.as_str()?.to_owned(),
                options: options.as_str()?.to_owned(),
            })
        }
        "$special" => match inner.as_str()? {
            "NaN" => Some(Value::Double(f64::NAN)),
            "minKey" => Some(Value::MinKey),
            "maxKey" => Some(Value::MaxKey),
            _ => None,
        },
        _ => None,
    }
}

static EXPRESSIONS: CompileOptions = CompileOptions { variables: Vec::new() };

/// Options without variables and scripts.
pub(crate) fn options() -> FilterOptions<'static> {
    FilterOptions::new(&EXPRESSIONS)
}

/// Variables at a fixed time.
pub(crate) fn variables() -> Variables {
    Variables::at(Date { millis: 1_600_000_000_000, ticks: 0 })
}
