//! Dates from parts, and their parts as an object.

use model::calendar::day_of_date;
use model::{Object, Value};

use super::super::number::{Number, int_or_long};
use super::super::operator::{null, owned};
use super::super::{Arguments, Evaluated};
use super::civil::{MILLIS_PER_DAY, first_day_of_iso_year, first_day_of_month};
use super::{coerce_to_date, date, zone};
use crate::document::Failure;
use crate::document::code::OVERFLOW;
use crate::document::values::{is_nullish, printed, type_name};

/// Positions of the arguments of `$dateFromParts`.
const YEAR: usize = 0;
const MONTH: usize = 1;
const DAY: usize = 2;
const HOUR: usize = 3;
const MINUTE: usize = 4;
const SECOND: usize = 5;
const MILLISECOND: usize = 6;
const ISO_YEAR: usize = 7;
const ISO_WEEK: usize = 8;
const ISO_WEEKDAY: usize = 9;
const ZONE: usize = 10;
const NAMES: [&str; 10] = [
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "isoWeekYear",
    "isoWeek",
    "isoDayOfWeek",
];

/// The whole number of an argument; `None` if it is null.
fn number(arguments: &Arguments<'_>, at: usize, default: i64) -> Result<Option<i64>, Failure> {
    if !arguments.is_given(at) {
        return Ok(Some(default));
    }
    let value = arguments.value(at)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    Number::of(value.as_deref()).and_then(Number::exact_i64).map(Some).ok_or_else(|| {
        let name = NAMES.get(at).copied().unwrap_or_default();
        let (given, shown) = (type_name(value.as_deref()), printed(value.as_deref()));
        let message =
            format!("'{name}' must evaluate to an integer, found {given} with value {shown}");
        Failure::new(40515, message)
    })
}

/// As [`number`], of a part that may exceed what a calendar shows, but not by much.
fn bounded(arguments: &Arguments<'_>, at: usize, default: i64) -> Result<Option<i64>, Failure> {
    let number = number(arguments, at, default)?;
    if let Some(n) = number.filter(|n| i16::try_from(*n).is_err()) {
        let name = NAMES.get(at).copied().unwrap_or_default();
        let message = format!(
            "'{name}' must evaluate to a value in the range [-32768, 32767]; value {n} is not in \
             range"
        );
        return Err(Failure::new(31034, message));
    }
    Ok(number)
}

pub(super) fn from_parts<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let is_iso = arguments.is_given(ISO_YEAR);
    check_mixture(arguments, is_iso)?;
    let (year_at, month_at, day_at) = match is_iso {
        true => (ISO_YEAR, ISO_WEEK, ISO_WEEKDAY),
        false => (YEAR, MONTH, DAY),
    };
    let year = number(arguments, year_at, 0)?;
    let month = bounded(arguments, month_at, 1)?;
    let day = bounded(arguments, day_at, 1)?;
    let hour = bounded(arguments, HOUR, 0)?;
    let minute = bounded(arguments, MINUTE, 0)?;
    let second = number(arguments, SECOND, 0)?;
    let millisecond = number(arguments, MILLISECOND, 0)?;
    let zone = zone(arguments, ZONE)?;
    let (
        Some(year),
        Some(month),
        Some(day),
        Some(hour),
        Some(minute),
        Some(second),
        Some(millisecond),
        Some(zone),
    ) = (year, month, day, hour, minute, second, millisecond, zone)
    else {
        return null();
    };
    let in_calendar = i32::try_from(year).ok().filter(|year| (1..=9999).contains(year));
    let Some(year) = in_calendar else {
        let (name, code) = if is_iso { ("isoWeekYear", 31095) } else { ("year", 40523) };
        let message =
            format!("'{name}' must evaluate to an integer in the range 1 to 9999, found {year}");
        return Err(Failure::new(code, message));
    };
    let day = match is_iso {
        true => first_day_of_iso_year(year) + (month - 1) * 7 + day - 1,
        false => {
            let first = first_day_of_month(i64::from(year) * 12 + month - 1);
            first.unwrap_or_else(|| day_of_date(year, 1, 1)) + day - 1
        }
    };
    let overflow = || Failure::new(OVERFLOW, "date overflow");
    let seconds = ((hour * 60) + minute).checked_mul(60).and_then(|n| n.checked_add(second));
    let millis = seconds
        .and_then(|seconds| seconds.checked_mul(1000))
        .and_then(|millis| millis.checked_add(millisecond))
        .and_then(|millis| millis.checked_add(day * MILLIS_PER_DAY))
        .ok_or_else(overflow)?;
    date(zone.moment_of(millis))
}

fn check_mixture(arguments: &Arguments<'_>, is_iso: bool) -> Result<(), Failure> {
    let has = |parts: &[usize]| parts.iter().any(|at| arguments.is_given(*at));
    if is_iso && has(&[YEAR, MONTH, DAY]) {
        let message = "$dateFromParts does not allow mixing natural dates with ISO dates";
        return Err(Failure::new(40489, message));
    }
    if !is_iso && !arguments.is_given(YEAR) {
        let message = "$dateFromParts requires either 'year' or 'isoWeekYear' to be present";
        return Err(Failure::new(40516, message));
    }
    if !is_iso && has(&[ISO_WEEK, ISO_WEEKDAY]) {
        let message = "$dateFromParts does not allow mixing ISO dates with natural dates";
        return Err(Failure::new(40525, message));
    }
    Ok(())
}

/// The date, the zone, and whether the week by ISO 8601 is wanted.
pub(super) fn to_parts<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    let Some(zone) = zone(arguments, 1)? else { return null() };
    let flag = arguments.value(2)?;
    let is_iso = match flag.as_deref() {
        _ if !arguments.is_given(2) => false,
        other if is_nullish(other) => return null(),
        Some(Value::Bool(is_iso)) => *is_iso,
        other => {
            let given = type_name(other);
            let message = format!("iso8601 must evaluate to a bool, found {given}");
            return Err(Failure::new(40521, message));
        }
    };
    if is_nullish(value.as_deref()) {
        return null();
    }
    let civil = zone.civil_at(coerce_to_date(value.as_deref())?);
    let days = match is_iso {
        true => {
            let (year, week) = civil.iso_week();
            [("isoWeekYear", year), ("isoWeek", week), ("isoDayOfWeek", civil.iso_weekday())]
        }
        false => [
            ("year", i64::from(civil.year)),
            ("month", i64::from(civil.month)),
            ("day", i64::from(civil.day)),
        ],
    };
    let times = [
        ("hour", i64::from(civil.hour)),
        ("minute", i64::from(civil.minute)),
        ("second", i64::from(civil.second)),
        ("millisecond", i64::from(civil.millisecond)),
    ];
    let parts = days.into_iter().chain(times);
    let parts = parts.map(|(name, n)| (name.to_owned(), Value::from(int_or_long(n))));
    owned(parts.collect::<Object>())
}
