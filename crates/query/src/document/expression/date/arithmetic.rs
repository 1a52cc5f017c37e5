//! Moments some units later, the number of units between two, and the beginning of a unit.

use model::calendar::{day_of_date, days_in_month};

use super::super::number::Number;
use super::super::operator::{null, owned};
use super::super::{Arguments, Evaluated};
use super::civil::{Civil, MILLIS_PER_DAY, MILLIS_PER_HOUR, first_day_of_month};
use super::unit::{Length, Unit, start_of_week, unit};
use super::zone::Zone;
use super::{date, millis_of, zone};
use crate::document::Failure;
use crate::document::values::{is_nullish, printed, type_name};

/// Most units that can be added; more would leave the calendar.
const MONTHS_MAX: i64 = 12 * 584_942_417;
const DAYS_MAX: i64 = 213_503_982_334;

/// The start, the unit, the amount and the zone. `sign` is -1 to go back.
pub(super) fn add<'s>(arguments: &Arguments<'s>, sign: i64) -> Evaluated<'s> {
    let (start, amount) = (arguments.value(0)?, arguments.value(2)?);
    let unit_is_null = is_nullish(arguments.value(1)?.as_deref());
    let zone = zone(arguments, 3)?;
    let is_null = is_nullish(start.as_deref()) || is_nullish(amount.as_deref()) || unit_is_null;
    let (false, Some(zone)) = (is_null, zone) else { return null() };
    let start = millis_of(start.as_deref()).ok_or_else(|| {
        arguments.failure(5166403, " requires startDate to be convertible to a date")
    })?;
    let Some(unit) = unit(arguments, 1)? else { return null() };
    let amount = Number::of(amount.as_deref())
        .and_then(Number::exact_i64)
        .ok_or_else(|| arguments.failure(5166405, " expects integer amount of time units"))?;
    let signed = amount.checked_mul(sign).ok_or_else(|| {
        let message = format!("invalid {} 'amount' parameter value: {amount}", arguments.name());
        Failure::new(6045000, message)
    })?;
    let overflow = || Failure::new(5166406, format!("{} overflowed", &arguments.name()[1..]));
    let is_valid = match unit.length() {
        Length::Months(months) => {
            signed.unsigned_abs() <= MONTHS_MAX.unsigned_abs() / months.unsigned_abs()
        }
        Length::Days(days) => {
            signed.unsigned_abs() <= DAYS_MAX.unsigned_abs() / days.unsigned_abs()
        }
        Length::Millis(_) => true,
    };
    if !is_valid {
        let message = format!("invalid dateAdd 'amount' parameter value: {signed}");
        return Err(Failure::new(5976500, message));
    }
    date(later(start, signed, unit, &zone).ok_or_else(overflow)?)
}

fn later(start: i64, amount: i64, unit: Unit, zone: &Zone) -> Option<i64> {
    let local = |day: i64, civil: &Civil| {
        let millis = day.checked_mul(MILLIS_PER_DAY)?.checked_add(civil.millis_of_day())?;
        Some(zone.moment_of(millis))
    };
    match unit.length() {
        Length::Months(months) => {
            let civil = zone.civil_at(start);
            let month = civil.month_number().checked_add(amount.checked_mul(months)?)?;
            let first = first_day_of_month(month)?;
            let year = i32::try_from(month.div_euclid(12)).ok()?;
            let days = days_in_month(year, u32::try_from(month.rem_euclid(12)).ok()? + 1);
            local(first + i64::from(civil.day.min(days)) - 1, &civil)
        }
        Length::Days(days) => {
            let civil = zone.civil_at(start);
            local(civil.day_number.checked_add(amount.checked_mul(days)?)?, &civil)
        }
        Length::Millis(millis) => start.checked_add(amount.checked_mul(millis)?),
    }
}

fn moment(
    arguments: &Arguments<'_>,
    value: Option<&model::Value>,
    code: i32,
    name: &str,
) -> Result<i64, Failure> {
    millis_of(value).ok_or_else(|| {
        let given = type_name(value);
        arguments.failure(code, format_args!(" requires '{name}' to be a date, but got {given}"))
    })
}

/// The start, the end, the unit, the zone and the day with which weeks begin.
pub(super) fn difference<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (start, end) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(start.as_deref()) || is_nullish(end.as_deref()) {
        return null();
    }
    let Some(unit) = unit(arguments, 2)? else { return null() };
    let Some(zone) = zone(arguments, 3)? else { return null() };
    let first_weekday = if unit == Unit::Week { start_of_week(arguments, 4)? } else { Some(7) };
    let Some(first_weekday) = first_weekday else { return null() };
    let start = moment(arguments, start.as_deref(), 5166307, "startDate")?;
    let end = moment(arguments, end.as_deref(), 5166307, "endDate")?;
    let (from, to) = (zone.civil_at(start), zone.civil_at(end));
    let boundaries = |per: i64| {
        // Zones are whole minutes apart, and hours begin with those of the zone.
        let at = |millis: i64| {
            millis.saturating_add(zone.offset_at(millis) % MILLIS_PER_HOUR).div_euclid(per)
        };
        at(end) - at(start)
    };
    let week = |civil: &Civil| (civil.day_number + 3 - (first_weekday - 1)).div_euclid(7);
    owned(match unit {
        Unit::Year => i64::from(to.year) - i64::from(from.year),
        Unit::Quarter => to.month_number().div_euclid(3) - from.month_number().div_euclid(3),
        Unit::Month => to.month_number() - from.month_number(),
        Unit::Week => week(&to) - week(&from),
        Unit::Day => to.day_number - from.day_number,
        Unit::Hour => boundaries(MILLIS_PER_HOUR),
        Unit::Minute => boundaries(60_000),
        Unit::Second => boundaries(1000),
        Unit::Millisecond => {
            end.checked_sub(start).ok_or_else(|| Failure::new(5166308, "dateDiff overflowed"))?
        }
    })
}

/// The date, the unit, how many of them make one bin, the zone and the day with which weeks begin.
/// Bins are counted from the beginning of the year 2000.
pub(super) fn truncate<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let value = arguments.value(0)?;
    if is_nullish(value.as_deref()) {
        return null();
    }
    let Some(unit) = unit(arguments, 1)? else { return null() };
    let Some(size) = bin_size(arguments)? else { return null() };
    let Some(zone) = zone(arguments, 3)? else { return null() };
    let first_weekday = if unit == Unit::Week { start_of_week(arguments, 4)? } else { Some(7) };
    let Some(first_weekday) = first_weekday else { return null() };
    let millis = moment(arguments, value.as_deref(), 5439012, "date")?;
    let overflow = || Failure::new(5439000, "dateTrunc overflowed");
    date(bin_start(millis, unit, size, &zone, first_weekday).ok_or_else(overflow)?)
}

fn bin_size(arguments: &Arguments<'_>) -> Result<Option<i64>, Failure> {
    if !arguments.is_given(2) {
        return Ok(Some(1));
    }
    let value = arguments.value(2)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    let size = Number::of(value.as_deref()).and_then(Number::exact_i64).ok_or_else(|| {
        let (shown, given) = (printed(value.as_deref()), type_name(value.as_deref()));
        let message = format!(
            "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{shown}' of type \
             {given}"
        );
        Failure::new(5439017, message)
    })?;
    if size <= 0 {
        let message =
            format!("$dateTrunc requires 'binSize' to be greater than 0, but got value {size}");
        return Err(Failure::new(5439018, message));
    }
    Ok(Some(size))
}

fn bin_start(millis: i64, unit: Unit, size: i64, zone: &Zone, first_weekday: i64) -> Option<i64> {
    let floor =
        |n: i64, origin: i64, size: i64| n.checked_sub(n.checked_sub(origin)?.rem_euclid(size));
    let origin_day = day_of_date(2000, 1, 1);
    let at_day = |day: i64| Some(zone.moment_of(day.checked_mul(MILLIS_PER_DAY)?));
    match unit.length() {
        Length::Months(months) => {
            let month = zone.civil_at(millis).month_number();
            at_day(first_day_of_month(floor(month, 2000 * 12, months.checked_mul(size)?)?)?)
        }
        Length::Days(days) => {
            // The origin is a Saturday; weeks are counted from the first day that begins one.
            let to_first = if unit == Unit::Week { (first_weekday - 6).rem_euclid(7) } else { 0 };
            let origin = origin_day + to_first;
            at_day(floor(zone.civil_at(millis).day_number, origin, days.checked_mul(size)?)?)
        }
        Length::Millis(length) => {
            let origin = zone.moment_of(origin_day * MILLIS_PER_DAY);
            floor(millis, origin, length.checked_mul(size)?)
        }
    }
}
