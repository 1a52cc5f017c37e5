//! Shorthand for the documents of replies.

use model::{Date, Object, Timestamp, Value};

/// What can be a value of a reply.
pub(crate) trait IntoValue {
    fn into_value(self) -> Value;
}

macro_rules! into_value {
    ($($from:ty => $value:expr),* $(,)?) => {$(
        impl IntoValue for $from {
            fn into_value(self) -> Value {
                ($value)(self)
            }
        }
    )*};
}

into_value! {
    Value => |value| value,
    Object => Value::Object,
    Vec<Value> => Value::Array,
    Vec<Object> => |all: Vec<Object>| Value::Array(all.into_iter().map(Value::Object).collect()),
    bool => Value::Bool,
    i32 => Value::Int32,
    i64 => Value::Int64,
    f64 => Value::Double,
    &str => |text: &str| Value::String(text.to_owned()),
    String => Value::String,
    Timestamp => |time: Timestamp| date(time),
}

fn date(time: Timestamp) -> Value {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Value::Date(Date { millis, ticks: 0 })
}

/// A document of these fields.
macro_rules! document {
    () => { model::Object::new() };
    ($($name:expr => $value:expr),+ $(,)?) => {{
        let mut document = model::Object::new();
        $(document.insert($name, $crate::document::IntoValue::into_value($value));)+
        document
    }};
}

pub(crate) use document;

/// A count as the least type that holds it.
pub(crate) fn count(number: u64) -> Value {
    match (i32::try_from(number), i64::try_from(number)) {
        (Ok(small), _) => Value::Int32(small),
        (Err(_), Ok(large)) => Value::Int64(large),
        (Err(_), Err(_)) => Value::Double(number as f64),
    }
}

/// Bytes without a meaning of their own.
pub(crate) fn binary(bytes: impl Into<Vec<u8>>) -> Value {
    Value::Binary { subtype: 0, bytes: bytes.into() }
}

/// A UUID.
pub(crate) fn uuid(bytes: [u8; 16]) -> Value {
    Value::Binary { subtype: 4, bytes: bytes.into() }
}
