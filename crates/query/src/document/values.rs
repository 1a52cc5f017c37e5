//! What MongoDB says of values that may be missing, and the texts that it makes of them.

use std::cmp::Ordering;

use model::Value;

use super::types::{self, BsonType};

/// The alias of the type of a value, as `$type` gives it.
pub fn type_name(value: Option<&Value>) -> &'static str {
    value.map_or("missing", |value| BsonType::of(value).alias())
}

/// Whether a value is missing, null or undefined.
pub fn is_nullish(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null | Value::Undefined))
}

/// Whether a value counts as true; what is missing does not.
pub fn is_truthy(value: Option<&Value>) -> bool {
    value.is_some_and(types::is_truthy)
}

/// Compares in the order of BSON, across types; what is missing is below null.
pub fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Int32(a)), Some(Value::Int32(b))) => a.cmp(b),
        (Some(Value::Int64(a)), Some(Value::Int64(b))) => a.cmp(b),
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        (a, b) => types::compare(a, b),
    }
}

/// A value as the texts of failures show it.
pub fn printed(value: Option<&Value>) -> String {
    match value {
        None => "MISSING".to_owned(),
        Some(Value::Double(n)) => double_text(*n),
        Some(Value::Date(date)) => date_text(date.millis),
        Some(value) => super::print::Printed(value).to_string(),
    }
}

/// A double as `$toString` prints it: up to 16 digits, without zeros at the end.
pub(crate) fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let text = format!("{n:.15e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..16).contains(&exponent) {
        let places = usize::try_from(15 - exponent).unwrap_or(0);
        return trimmed(&format!("{n:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// A time as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
pub(crate) fn date_text(millis: i64) -> String {
    let (day, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = model::calendar::date_of_day(day);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_dates_have_their_shortest_texts() {
        let texts = [1.0, 0.1 + 0.2, -2.5, 1e21, 1e-7, 123_456_789.0, 0.0].map(double_text);
        assert_eq!(texts, ["1", "0.3", "-2.5", "1e+21", "1e-07", "123456789", "0"]);
        assert_eq!(date_text(1_709_211_906_789), "2024-02-29T13:05:06.789Z");
        assert_eq!(date_text(-1), "1969-12-31T23:59:59.999Z");
    }
}
