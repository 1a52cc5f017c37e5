//! Points in time from the year 1 to 9999, in ticks of 100 nanoseconds, and their text forms.

use crate::Date;
use crate::calendar::{date_of_day, day_of_date, days_in_month};

const TICKS_PER_MILLISECOND: i64 = 10_000;
const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_MINUTE: i64 = 60 * TICKS_PER_SECOND;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
const MILLIS_PER_DAY: i64 = 86_400_000;
/// Days from 0001-01-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;

/// The first moment that a property can hold: the start of 1601.
pub const DATE_MIN: Date = Date { millis: -134_774 * MILLIS_PER_DAY, ticks: 0 };
/// The last moment that a property can hold: the last tick of 9999.
pub const DATE_MAX: Date = Date { millis: 2_932_897 * MILLIS_PER_DAY - 1, ticks: 9_999 };

/// How many digits follow the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateDigits {
    /// As many as it needs, none for a whole second.
    AsNeeded,
    /// Always seven.
    Seven,
}

/// Ticks of 100 nanoseconds since 0001-01-01.
pub fn ticks_of(date: Date) -> i64 {
    let days_in_millis = DAYS_TO_1970 * MILLIS_PER_DAY;
    date.millis
        .saturating_add(days_in_millis)
        .saturating_mul(TICKS_PER_MILLISECOND)
        .saturating_add(i64::from(date.ticks))
}

/// The moment with so many ticks since 0001-01-01.
pub fn date_from_ticks(ticks: i64) -> Date {
    let millis = ticks.div_euclid(TICKS_PER_MILLISECOND) - DAYS_TO_1970 * MILLIS_PER_DAY;
    // A remainder below 10,000 fits.
    let ticks = u16::try_from(ticks.rem_euclid(TICKS_PER_MILLISECOND)).unwrap_or(0);
    Date { millis, ticks }
}

/// `YYYY-MM-DDThh:mm:ss[.fffffff]Z`
pub fn date_text(date: Date, digits: DateDigits) -> String {
    let ticks = ticks_of(date);
    let (days, within) = (ticks.div_euclid(TICKS_PER_DAY), ticks.rem_euclid(TICKS_PER_DAY));
    let (year, month, day) = date_of_day(days - DAYS_TO_1970);
    let seconds = within / TICKS_PER_SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    let fraction = within % TICKS_PER_SECOND;
    if fraction != 0 || digits == DateDigits::Seven {
        text.push_str(&format!(".{fraction:07}"));
    }
    if digits == DateDigits::AsNeeded && fraction != 0 {
        text.truncate(text.trim_end_matches('0').len());
    }
    text.push('Z');
    text
}

/// Reads `YYYY-MM-DD[Thh:mm[:ss[.fffffff]]][Z|+hh:mm|-hh:mm]` of a moment that a property can
/// hold. Without a zone it is UTC.
pub fn parse_date(text: &str) -> Option<Date> {
    let mut rest = Reader(text.as_bytes());
    let (year, month, day) = (rest.digits(4)?, rest.after(b'-', 2)?, rest.after(b'-', 2)?);
    let mut within = 0;
    if rest.takes(b'T') || rest.takes(b't') || rest.takes(b' ') {
        let (hour, minute) = (rest.digits(2)?, rest.after(b':', 2)?);
        let mut second = 0;
        if rest.takes(b':') {
            second = rest.digits(2)?;
            if rest.takes(b'.') {
                within = rest.fraction()?;
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        within += i64::from(hour * 3600 + minute * 60 + second) * TICKS_PER_SECOND;
    }
    let offset = rest.zone()?;
    let year = i32::try_from(year).ok()?;
    let is_date = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day);
    if !is_date || !rest.0.is_empty() {
        return None;
    }
    let days = day_of_date(year, month, day) + DAYS_TO_1970;
    let date = date_from_ticks(days * TICKS_PER_DAY + within - offset);
    (DATE_MIN..=DATE_MAX).contains(&date).then_some(date)
}

/// The rest of a text.
struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    fn takes(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits
            .iter()
            .try_fold(0, |number: u32, digit| Some(number * 10 + char::from(*digit).to_digit(10)?))
    }

    fn after(&mut self, byte: u8, count: usize) -> Option<u32> {
        if self.takes(byte) { self.digits(count) } else { None }
    }

    /// One to seven digits of a second, in ticks.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=7).contains(&count) {
            return None;
        }
        let places = u32::try_from(7 - count).ok()?;
        Some(i64::from(self.digits(count)?) * 10_i64.pow(places))
    }

    /// How far the zone is ahead of UTC, in ticks.
    fn zone(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.takes(b'Z') || self.takes(b'z') {
            return Some(0);
        }
        let is_ahead = self.takes(b'+');
        if !is_ahead && !self.takes(b'-') {
            return None;
        }
        let (hours, minutes) = (self.digits(2)?, self.after(b':', 2)?);
        if hours > 14 || minutes > 59 {
            return None;
        }
        let ticks = i64::from(hours * 60 + minutes) * TICKS_PER_MINUTE;
        Some(if is_ahead { ticks } else { -ticks })
    }
}
