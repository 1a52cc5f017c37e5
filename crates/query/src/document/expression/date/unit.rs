//! Units of time and days of the week.

use model::Value;

use super::super::Arguments;
use crate::document::Failure;
use crate::document::code::FAILED_TO_PARSE;
use crate::document::values::{is_nullish, type_name};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "year" => Unit::Year,
            "quarter" => Unit::Quarter,
            "month" => Unit::Month,
            "week" => Unit::Week,
            "day" => Unit::Day,
            "hour" => Unit::Hour,
            "minute" => Unit::Minute,
            "second" => Unit::Second,
            "millisecond" => Unit::Millisecond,
            _ => return None,
        })
    }

    /// How long one is, counted in months or in milliseconds.
    pub(super) fn length(self) -> Length {
        match self {
            Unit::Year => Length::Months(12),
            Unit::Quarter => Length::Months(3),
            Unit::Month => Length::Months(1),
            Unit::Week => Length::Days(7),
            Unit::Day => Length::Days(1),
            Unit::Hour => Length::Millis(3_600_000),
            Unit::Minute => Length::Millis(60_000),
            Unit::Second => Length::Millis(1000),
            Unit::Millisecond => Length::Millis(1),
        }
    }
}

/// The length of a unit. Months and days are those of a calendar, which vary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Months(i64),
    Days(i64),
    Millis(i64),
}

/// The unit that an argument names; `None` if it is null.
pub(super) fn unit(arguments: &Arguments<'_>, at: usize) -> Result<Option<Unit>, Failure> {
    let value = arguments.value(at)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    let Some(text) = value.as_deref().and_then(Value::as_str) else {
        let given = type_name(value.as_deref());
        let text = format_args!(" requires 'unit' to be a string, but got {given}");
        return Err(arguments.failure(5439013, text));
    };
    Unit::parse(text).map(Some).ok_or_else(|| {
        let message = format!("unknown time unit value: {text}");
        let context = format!("{} parameter 'unit' value parsing failed", arguments.name());
        Failure::new(FAILED_TO_PARSE, message).within(&context)
    })
}

/// The day with which weeks begin, 1 for Monday; `None` if the argument is null.
pub(super) fn start_of_week(arguments: &Arguments<'_>, at: usize) -> Result<Option<i64>, Failure> {
    if !arguments.is_given(at) {
        return Ok(Some(7));
    }
    let value = arguments.value(at)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    let Some(text) = value.as_deref().and_then(Value::as_str) else {
        let given = type_name(value.as_deref());
        let text = format_args!(" requires 'startOfWeek' to be a string, but got {given}");
        return Err(arguments.failure(5439015, text));
    };
    let day = match text.to_ascii_lowercase().as_str() {
        "monday" | "mon" => 1,
        "tuesday" | "tue" => 2,
        "wednesday" | "wed" => 3,
        "thursday" | "thu" => 4,
        "friday" | "fri" => 5,
        "saturday" | "sat" => 6,
        "sunday" | "sun" => 7,
        _ => {
            let text = format_args!(
                " parameter 'startOfWeek' value cannot be recognized as a day of a week: {text}"
            );
            return Err(arguments.failure(5439016, text));
        }
    };
    Ok(Some(day))
}
