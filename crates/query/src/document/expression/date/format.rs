//! Dates as texts.

use std::fmt::Write;

use model::Value;

use super::super::operator::{null, owned};
use super::super::{Arguments, Evaluated};
use super::zone::Zone;
use super::{coerce_to_date, or_else, zone};
use crate::document::Failure;
use crate::document::values::{is_nullish, printed, type_name};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// What may follow the percent sign.
const SPECIFIERS: &str = "bBdGHjLmMSwuUVYzZ";
/// The form of texts that have no format: with the mark of UTC only where it is the zone.
const DEFAULT_UTC: &str = "%Y-%m-%dT%H:%M:%S.%LZ";
const DEFAULT_LOCAL: &str = "%Y-%m-%dT%H:%M:%S.%L";

/// Checks a format against the letters that are allowed.
pub(super) fn check(format: &str, specifiers: &str) -> Result<(), Failure> {
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            continue;
        }
        match rest.next() {
            None => return Err(Failure::new(18535, "Unmatched '%' at end of format string")),
            Some(c) if c == '%' || specifiers.contains(c) => {}
            Some(c) => {
                let message = format!("Invalid format character '%{c}' in format string");
                return Err(Failure::new(18536, message));
            }
        }
    }
    Ok(())
}

/// The date, the zone, the format, and what stands for null.
pub(super) fn to_string<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let format = arguments.value(2)?;
    let has_format = arguments.is_given(2);
    let text = format.as_deref().and_then(Value::as_str);
    if has_format && !is_nullish(format.as_deref()) {
        let Some(text) = text else {
            let (given, shown) = (type_name(format.as_deref()), printed(format.as_deref()));
            let message = format!(
                "$dateToString requires that 'format' be a string, found: {given} with value {shown}"
            );
            return Err(Failure::new(18533, message));
        };
        check(text, SPECIFIERS)?;
    }
    let zone = zone(arguments, 1)?;
    let value = arguments.value(0)?;
    if is_nullish(value.as_deref()) {
        return or_else(arguments, 3);
    }
    let Some(zone) = zone else { return null() };
    if has_format && text.is_none() {
        return null();
    }
    let default = if zone.is_utc() { DEFAULT_UTC } else { DEFAULT_LOCAL };
    let text = text.unwrap_or(default);
    owned(write(coerce_to_date(value.as_deref())?, &zone, text)?)
}

fn write(millis: i64, zone: &Zone, format: &str) -> Result<String, Failure> {
    let civil = zone.civil_at(millis);
    let minutes = zone.offset_at(millis) / 60_000;
    let mut out = String::with_capacity(format.len() + 8);
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let specifier = rest.next().unwrap_or('%');
        let month = usize::try_from(civil.month - 1).ok().and_then(|at| MONTHS.get(at));
        let month = month.copied().unwrap_or_default();
        // Writing to a string never fails.
        let _ = match specifier {
            'Y' if (0..=9999).contains(&civil.year) => write!(out, "{:04}", civil.year),
            'Y' => {
                let year = civil.year;
                let message = format!(
                    "$dateToString is only defined on year 0-9999, tried to use year {year}"
                );
                return Err(Failure::new(18537, message));
            }
            'm' => write!(out, "{:02}", civil.month),
            'd' => write!(out, "{:02}", civil.day),
            'H' => write!(out, "{:02}", civil.hour),
            'M' => write!(out, "{:02}", civil.minute),
            'S' => write!(out, "{:02}", civil.second),
            'L' => write!(out, "{:03}", civil.millisecond),
            'j' => write!(out, "{:03}", civil.day_of_year()),
            'w' => write!(out, "{}", civil.iso_weekday() % 7 + 1),
            'u' => write!(out, "{}", civil.iso_weekday()),
            'U' => write!(out, "{:02}", civil.week()),
            'V' => write!(out, "{:02}", civil.iso_week().1),
            'G' => write!(out, "{:04}", civil.iso_week().0),
            'b' => write!(out, "{}", &month[..month.len().min(3)]),
            'B' => write!(out, "{month}"),
            'z' => {
                let (sign, away) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
                write!(out, "{sign}{:02}{:02}", away / 60, away % 60)
            }
            'Z' => write!(out, "{minutes:+}"),
            other => write!(out, "{other}"),
        };
    }
    Ok(out)
}
