//! The Gregorian calendar from year 1 to 9999, in ticks of 100 nanoseconds since 1970.

use model::calendar::{date_of_day, day_of_date, days_in_month};

pub(super) const TICKS_PER_MILLISECOND: i64 = 10_000;
const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub i64);

impl Ticks {
    /// The start of year 1.
    const MIN: Ticks = Ticks(-719_162 * TICKS_PER_DAY);
    /// The last tick of year 9999.
    const MAX: Ticks = Ticks(2_932_897 * TICKS_PER_DAY - 1);
    /// The start of 1601, before which no bin begins.
    pub(super) const BIN_ORIGIN_MIN: Ticks = Ticks(-134_774 * TICKS_PER_DAY);

    /// A moment within the range of the calendar.
    pub(super) fn in_range(ticks: i64) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&ticks).then_some(Self(ticks))
    }

    /// Milliseconds since 1970.
    pub(super) fn milliseconds(self) -> i64 {
        self.0.div_euclid(TICKS_PER_MILLISECOND)
    }

    /// Reads `YYYY-MM-DD`, which may be followed by `Z`, or by `T` or a space and `hh:mm:ss`, with
    /// a fraction of up to seven digits, and `Z` again.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = Reader(text.as_bytes());
        let (year, month, day) = (rest.digits(4)?, rest.after(b'-', 2)?, rest.after(b'-', 2)?);
        let mut civil = Civil { year: i32::try_from(year).ok()?, month, day, ..Civil::default() };
        if rest.takes(b'T') || rest.takes(b' ') {
            civil.hour = rest.digits(2)?;
            civil.minute = rest.after(b':', 2)?;
            civil.second = rest.after(b':', 2)?;
            if rest.takes(b'.') {
                civil.fraction = rest.fraction()?;
            }
        }
        rest.takes(b'Z');
        if rest.0.is_empty() { civil.ticks() } else { None }
    }

    /// `YYYY-MM-DDThh:mm:ss.fffffffZ`
    pub(super) fn to_text(self) -> String {
        let Civil { year, month, day, hour, minute, second, fraction } = self.civil();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
    }

    pub(super) fn civil(self) -> Civil {
        let (days, within) = (self.0.div_euclid(TICKS_PER_DAY), self.0.rem_euclid(TICKS_PER_DAY));
        let (year, month, day) = date_of_day(days);
        let seconds = within / TICKS_PER_SECOND;
        let small = |n: i64| u32::try_from(n).unwrap_or(0);
        Civil {
            year,
            month,
            day,
            hour: small(seconds / 3600),
            minute: small(seconds / 60 % 60),
            second: small(seconds % 60),
            fraction: small(within % TICKS_PER_SECOND),
        }
    }
}

/// A moment in calendar fields; the fraction is in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i32,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) fraction: u32,
}

impl Civil {
    /// The moment, if it exists.
    pub(super) fn ticks(self) -> Option<Ticks> {
        let Civil { year, month, day, hour, minute, second, fraction } = self;
        let is_valid = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60
            && i64::from(fraction) < TICKS_PER_SECOND;
        is_valid.then(|| {
            let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
            let within = seconds * TICKS_PER_SECOND + i64::from(fraction);
            Ticks(day_of_date(year, month, day) * TICKS_PER_DAY + within)
        })
    }

    /// The same day in another month, which is counted from the start of year 0, or the last day of
    /// that month.
    pub(super) fn with_month(self, months: i64) -> Option<Self> {
        let year = i32::try_from(months.div_euclid(12)).ok()?;
        let month = u32::try_from(months.rem_euclid(12)).ok()? + 1;
        Some(Self { year, month, day: self.day.min(days_in_month(year, month)), ..self })
    }
}

/// A date part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatePart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl DatePart {
    /// The part with this name. Unlike names of functions, these are case-sensitive.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "year" | "yyyy" | "yy" => DatePart::Year,
            "month" | "mm" | "m" => DatePart::Month,
            "day" | "dd" | "d" => DatePart::Day,
            "hour" | "hh" => DatePart::Hour,
            "minute" | "mi" | "n" => DatePart::Minute,
            "second" | "ss" | "s" => DatePart::Second,
            "millisecond" | "ms" => DatePart::Millisecond,
            "microsecond" | "mcs" => DatePart::Microsecond,
            "nanosecond" | "ns" => DatePart::Nanosecond,
            _ => return None,
        })
    }

    /// Its length, if that is constant.
    pub(super) fn nanoseconds(self) -> Option<i64> {
        const SECOND: i64 = 1_000_000_000;
        Some(match self {
            DatePart::Year | DatePart::Month => return None,
            DatePart::Day => 86_400 * SECOND,
            DatePart::Hour => 3_600 * SECOND,
            DatePart::Minute => 60 * SECOND,
            DatePart::Second => SECOND,
            DatePart::Millisecond => 1_000_000,
            DatePart::Microsecond => 1_000,
            DatePart::Nanosecond => 1,
        })
    }

    /// How many of these parts have begun before `at`, counted from a fixed moment.
    pub(super) fn index(self, at: Ticks) -> i64 {
        let civil = at.civil();
        match (self, self.nanoseconds()) {
            (DatePart::Year, _) => i64::from(civil.year),
            (DatePart::Month, _) => i64::from(civil.year) * 12 + i64::from(civil.month),
            // A tick has a hundred nanoseconds; no moment is far enough from 1970 to overflow.
            (DatePart::Nanosecond, _) => at.0.saturating_mul(100),
            (_, Some(nanoseconds)) => at.0.div_euclid(nanoseconds / 100),
            (_, None) => 0,
        }
    }
}

/// The rest of a text.
struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    fn takes(&mut self, byte: u8) -> bool {
        match self.0.strip_prefix(&[byte]) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Exactly this many digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        number(digits)
    }

    fn after(&mut self, separator: u8, count: usize) -> Option<u32> {
        if self.takes(separator) { self.digits(count) } else { None }
    }

    /// One to seven digits, as ticks.
    fn fraction(&mut self) -> Option<u32> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=7).contains(&count) {
            return None;
        }
        let scale = (count..7).fold(1, |scale, _| scale * 10);
        Some(self.digits(count)? * scale)
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_are_those_of_four_digit_years() {
        assert_eq!(Ticks::MIN.to_text(), "0001-01-01T00:00:00.0000000Z");
        assert_eq!(Ticks::MAX.to_text(), "9999-12-31T23:59:59.9999999Z");
        assert_eq!(Ticks::BIN_ORIGIN_MIN.to_text(), "1601-01-01T00:00:00.0000000Z");
        assert_eq!(Ticks(0).to_text(), "1970-01-01T00:00:00.0000000Z");
    }

    #[test]
    fn leap_days_are_where_they_belong() {
        for (year, is_leap_year) in [(2000, true), (1900, false), (2024, true), (2023, false)] {
            let text = format!("{year}-02-29");
            assert_eq!(Ticks::parse(&text).is_some(), is_leap_year, "{year}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_reads_back(ticks in Ticks::MIN.0..=Ticks::MAX.0) {
            let text = Ticks(ticks).to_text();
            prop_assert_eq!(Ticks::parse(&text), Some(Ticks(ticks)));
            prop_assert_eq!(Ticks(ticks).civil().ticks(), Some(Ticks(ticks)));
        }

        #[test]
        fn days_follow_each_other(day in -719_162_i64..2_932_896) {
            let (today, tomorrow) = (date_of_day(day), date_of_day(day + 1));
            prop_assert!(today < tomorrow);
            prop_assert_eq!(day_of_date(today.0, today.1, today.2), day);
        }
    }
}
