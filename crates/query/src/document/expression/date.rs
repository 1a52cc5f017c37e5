//! Dates: their parts, texts and arithmetic, in time zones.

use std::borrow::Cow;

use model::{Date, Value};

use super::operator::{Named, null, optional, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{is_nullish, printed, type_name};

mod arithmetic;
mod civil;
mod format;
mod parse;
mod parts;
mod unit;
mod zone;

use civil::Civil;
use zone::Zone;

pub(super) use parse::parse_text;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$dateAdd", Shape::Named(ADD), |a| arithmetic::add(a, 1)),
    Operator::new("$dateDiff", Shape::Named(DIFFERENCE), arithmetic::difference),
    Operator::new("$dateFromParts", Shape::Named(FROM_PARTS), parts::from_parts),
    Operator::new("$dateFromString", Shape::Named(FROM_STRING), parse::from_string),
    Operator::new("$dateSubtract", Shape::Named(ADD), |a| arithmetic::add(a, -1)),
    Operator::new("$dateToParts", Shape::Named(TO_PARTS), parts::to_parts),
    Operator::new("$dateToString", Shape::Named(TO_STRING), format::to_string),
    Operator::new("$dateTrunc", Shape::Named(TRUNCATE), arithmetic::truncate),
    Operator::new("$dayOfMonth", Shape::DatePart, |a| part(a, |c| i64::from(c.day))),
    Operator::new("$dayOfWeek", Shape::DatePart, |a| part(a, |c| c.iso_weekday() % 7 + 1)),
    Operator::new("$dayOfYear", Shape::DatePart, |a| part(a, Civil::day_of_year)),
    Operator::new("$hour", Shape::DatePart, |a| part(a, |c| i64::from(c.hour))),
    Operator::new("$isoDayOfWeek", Shape::DatePart, |a| part(a, Civil::iso_weekday)),
    Operator::new("$isoWeek", Shape::DatePart, |a| part(a, |c| c.iso_week().1)),
    Operator::new("$isoWeekYear", Shape::DatePart, |a| {
        local(a)?.map_or_else(null, |civil| owned(civil.iso_week().0))
    }),
    Operator::new("$millisecond", Shape::DatePart, |a| part(a, |c| i64::from(c.millisecond))),
    Operator::new("$minute", Shape::DatePart, |a| part(a, |c| i64::from(c.minute))),
    Operator::new("$month", Shape::DatePart, |a| part(a, |c| i64::from(c.month))),
    Operator::new("$second", Shape::DatePart, |a| part(a, |c| i64::from(c.second))),
    Operator::new("$week", Shape::DatePart, |a| part(a, Civil::week)),
    Operator::new("$year", Shape::DatePart, |a| part(a, |c| i64::from(c.year))),
];

const ADD: &Named = &Named {
    parameters: &[
        required("startDate", 5166402, "{op} requires startDate, unit, and amount to be present"),
        required("unit", 5166402, "{op} requires startDate, unit, and amount to be present"),
        required("amount", 5166402, "{op} requires startDate, unit, and amount to be present"),
        optional("timezone"),
    ],
    not_object: (5166400, "{op} expects an object as its argument"),
    unknown: (
        5166401,
        "Unrecognized argument to {op}: {}. Expected arguments are startDate, unit, amount, and \
         optionally timezone.",
    ),
};

const DIFFERENCE: &Named = &Named {
    parameters: &[
        required("startDate", 5166303, "Missing 'startDate' parameter to $dateDiff"),
        required("endDate", 5166304, "Missing 'endDate' parameter to $dateDiff"),
        required("unit", 5166305, "Missing 'unit' parameter to $dateDiff"),
        optional("timezone"),
        optional("startOfWeek"),
    ],
    not_object: (5166301, "$dateDiff only supports an object as its argument"),
    unknown: (5166302, "Unrecognized argument to $dateDiff: {}"),
};

const FROM_PARTS: &Named = &Named {
    parameters: &[
        optional("year"),
        optional("month"),
        optional("day"),
        optional("hour"),
        optional("minute"),
        optional("second"),
        optional("millisecond"),
        optional("isoWeekYear"),
        optional("isoWeek"),
        optional("isoDayOfWeek"),
        optional("timezone"),
    ],
    not_object: (40519, "$dateFromParts only supports an object as its argument"),
    unknown: (40518, "Unrecognized argument to $dateFromParts: {}"),
};

const FROM_STRING: &Named = &Named {
    parameters: &[
        required("dateString", 40542, "Missing 'dateString' parameter to $dateFromString"),
        optional("format"),
        optional("timezone"),
        optional("onError"),
        optional("onNull"),
    ],
    not_object: (40540, "$dateFromString only supports an object as an argument, found: {}"),
    unknown: (40541, "Unrecognized argument to $dateFromString: {}"),
};

const TO_PARTS: &Named = &Named {
    parameters: &[
        required("date", 40522, "Missing 'date' parameter to $dateToParts"),
        optional("timezone"),
        optional("iso8601"),
    ],
    not_object: (40524, "$dateToParts only supports an object as its argument"),
    unknown: (40520, "Unrecognized argument to $dateToParts: {}"),
};

const TO_STRING: &Named = &Named {
    parameters: &[
        required("date", 18628, "Missing 'date' parameter to $dateToString"),
        optional("timezone"),
        optional("format"),
        optional("onNull"),
    ],
    not_object: (18629, "$dateToString only supports an object as its argument"),
    unknown: (18534, "Unrecognized argument to $dateToString: {}"),
};

const TRUNCATE: &Named = &Named {
    parameters: &[
        required("date", 5439009, "Missing 'date' parameter to $dateTrunc"),
        required("unit", 5439010, "Missing 'unit' parameter to $dateTrunc"),
        optional("binSize"),
        optional("timezone"),
        optional("startOfWeek"),
    ],
    not_object: (5439007, "$dateTrunc only supports an object as its argument"),
    unknown: (
        5439008,
        "Unrecognized argument to $dateTrunc: {}. Expected arguments are date, unit, and \
         optionally, binSize, timezone, startOfWeek",
    ),
};

/// The milliseconds of what counts as a date: dates, timestamps and the time in an object id.
pub(super) fn millis_of(value: Option<&Value>) -> Option<i64> {
    match value {
        Some(Value::Date(date)) => Some(date.millis),
        Some(Value::Timestamp { seconds, .. }) => Some(i64::from(*seconds) * 1000),
        Some(Value::ObjectId([a, b, c, d, ..])) => {
            Some(i64::from(u32::from_be_bytes([*a, *b, *c, *d])) * 1000)
        }
        _ => None,
    }
}

/// As [`millis_of`], or a failure.
fn coerce_to_date(value: Option<&Value>) -> Result<i64, Failure> {
    millis_of(value).ok_or_else(|| {
        let given = type_name(value);
        Failure::new(16006, format!("can't convert from BSON type {given} to Date"))
    })
}

fn date<'s>(millis: i64) -> Evaluated<'s> {
    owned(Value::Date(Date { millis, ticks: 0 }))
}

/// The zone that an argument names; UTC if it was left out, `None` if it is null.
fn zone(arguments: &Arguments<'_>, at: usize) -> Result<Option<Zone>, Failure> {
    if !arguments.is_given(at) {
        return Ok(Some(Zone::Utc));
    }
    let value = arguments.value(at)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    match value.as_deref().and_then(Value::as_str) {
        Some(name) => Zone::parse(name).map(Some),
        None => {
            let given = type_name(value.as_deref());
            let message = format!("timezone must evaluate to a string, found {given}");
            Err(Failure::new(40517, message))
        }
    }
}

/// The date and the zone that the arguments of a part give; `None` if one is null.
fn local(arguments: &Arguments<'_>) -> Result<Option<Civil>, Failure> {
    let value = arguments.value(0)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    let millis = coerce_to_date(value.as_deref())?;
    if arguments.is_given(1) {
        let name = arguments.value(1)?;
        if is_nullish(name.as_deref()) {
            return Ok(None);
        }
        if name.as_deref().and_then(Value::as_str).is_none() {
            let (given, shown) = (type_name(name.as_deref()), printed(name.as_deref()));
            let text = format_args!(
                " requires a string for the timezone argument, but was given a {given} ({shown})"
            );
            return Err(arguments.failure(40533, text));
        }
    }
    Ok(zone(arguments, 1)?.map(|zone| zone.civil_at(millis)))
}

fn part<'s>(arguments: &Arguments<'s>, part: fn(&Civil) -> i64) -> Evaluated<'s> {
    match local(arguments)? {
        Some(civil) => owned(super::number::int_or_long(part(&civil))),
        None => null(),
    }
}

/// The value of an argument that stands for a result that cannot be had; null if it was left out.
fn or_else<'s>(arguments: &Arguments<'s>, at: usize) -> Evaluated<'s> {
    match arguments.is_given(at) {
        true => arguments.value(at),
        false => Ok(Some(Cow::Owned(Value::Null))),
    }
}
