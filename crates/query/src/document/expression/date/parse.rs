//! Dates from texts, in a format that is given or in one of the usual ones.

use model::Value;
use model::calendar::{day_of_date, days_in_month};

use super::super::operator::null;
use super::super::{Arguments, Evaluated};
use super::civil::{MILLIS_PER_DAY, first_day_of_iso_year};
use super::format::{MONTHS, check};
use super::zone::{Zone, parse_offset};
use super::{date, or_else, zone};
use crate::document::Failure;
use crate::document::code::CONVERSION_FAILURE;
use crate::document::values::{is_nullish, printed, type_name};

/// What may follow the percent sign of a format.
const SPECIFIERS: &str = "bBdGHjLmMSuVYzZ";

/// The text, the format, the zone, and what stands for errors and for null.
pub(super) fn from_string<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (value, format) = (arguments.value(0)?, arguments.value(1)?);
    let pattern = format.as_deref().and_then(Value::as_str);
    if !is_nullish(format.as_deref()) {
        let Some(pattern) = pattern else {
            let (given, shown) = (type_name(format.as_deref()), printed(format.as_deref()));
            let message = format!(
                "$dateFromString requires that 'format' be a string, found: {given} with value \
                 {shown}"
            );
            return Err(Failure::new(40684, message));
        };
        check(pattern, SPECIFIERS)?;
    }
    let zone = zone(arguments, 2)?;
    if is_nullish(value.as_deref()) {
        return or_else(arguments, 4);
    }
    let Some(text) = value.as_deref().and_then(Value::as_str) else {
        let (given, shown) = (type_name(value.as_deref()), printed(value.as_deref()));
        let message = format!(
            "$dateFromString requires that 'dateString' be a string, found: {given} with value \
             {shown}"
        );
        return or_failure(arguments, Failure::new(CONVERSION_FAILURE, message));
    };
    let Some(zone) = zone else { return null() };
    if arguments.is_given(1) && pattern.is_none() {
        return null();
    }
    match moment(text, pattern, &zone) {
        Ok(millis) => date(millis),
        Err(failure) => or_failure(arguments, failure),
    }
}

fn or_failure<'s>(arguments: &Arguments<'s>, failure: Failure) -> Evaluated<'s> {
    if arguments.is_given(3) { arguments.value(3) } else { Err(failure) }
}

/// The moment of a text in one of the usual forms, in UTC unless it says otherwise.
pub(in super::super) fn parse_text(text: &str) -> Result<i64, Failure> {
    moment(text, None, &Zone::Utc)
}

fn moment(text: &str, format: Option<&str>, zone: &Zone) -> Result<i64, Failure> {
    let mut reader = Reader { text, rest: text, found: Found::default() };
    let read = match format {
        Some(format) => reader.read_format(format),
        None => reader.read_usual(),
    };
    read.map_err(|reason| {
        let at = text.len() - reader.rest.len();
        let character = reader.rest.chars().next().map(String::from).unwrap_or_default();
        let message = format!("Error parsing date string '{text}'; {at}: {reason} '{character}'");
        Failure::new(CONVERSION_FAILURE, message)
    })?;
    let found = reader.found;
    let incomplete = || {
        let message = format!(
            "an incomplete date/time string has been found, with elements missing: \"{text}\""
        );
        Failure::new(CONVERSION_FAILURE, message)
    };
    if found.offset.is_some() && !zone.is_utc() {
        let message = "you cannot pass in a date/time string with GMT offset together with a \
                       timezone argument";
        return Err(Failure::new(CONVERSION_FAILURE, message));
    }
    let day = found.day_number().ok_or_else(incomplete)?;
    let (hour, minute, second) = match (found.hour, found.minute, found.second) {
        (None, None, None) => (0, 0, 0),
        (Some(hour), Some(minute), second) => (hour, minute, second.unwrap_or(0)),
        _ => return Err(incomplete()),
    };
    let in_day = ((hour * 60 + minute) * 60 + second) * 1000 + found.millisecond.unwrap_or(0);
    let local = day * MILLIS_PER_DAY + in_day;
    Ok(match found.offset {
        Some(minutes) => local - minutes * 60_000,
        None => zone.moment_of(local),
    })
}

/// The parts that a text has.
#[derive(Debug, Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millisecond: Option<i64>,
    /// Minutes east of UTC.
    offset: Option<i64>,
}

impl Found {
    fn day_number(&self) -> Option<i64> {
        if let (Some(year), Some(week)) = (self.iso_year, self.iso_week) {
            let first = first_day_of_iso_year(i32::try_from(year).ok()?);
            return Some(first + (week - 1) * 7 + self.iso_weekday.unwrap_or(1) - 1);
        }
        let year = i32::try_from(self.year?).ok()?;
        if let Some(day) = self.day_of_year {
            return Some(day_of_date(year, 1, 1) + day - 1);
        }
        let month = u32::try_from(self.month?).ok()?;
        // A day past the end of its month is one of the next.
        Some(day_of_date(year, month, 1) + self.day? - 1)
    }
}

/// Why a text cannot be read.
type Reason = &'static str;

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    found: Found,
}

impl Reader<'_> {
    /// A number of up to `most` digits.
    fn number(&mut self, least: usize, most: usize, reason: Reason) -> Result<i64, Reason> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return Err(reason);
        }
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        digits.parse().map_err(|_| reason)
    }

    fn number_within(
        &mut self,
        most: usize,
        range: std::ops::RangeInclusive<i64>,
        reason: Reason,
    ) -> Result<i64, Reason> {
        let before = self.rest;
        let n = self.number(1, most, reason)?;
        if range.contains(&n) {
            return Ok(n);
        }
        self.rest = before;
        Err(reason)
    }

    fn take(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char, reason: Reason) -> Result<(), Reason> {
        if self.take(c) { Ok(()) } else { Err(reason) }
    }

    fn read_format(&mut self, format: &str) -> Result<(), Reason> {
        let mut specifiers = format.chars();
        while let Some(c) = specifiers.next() {
            let specifier = match c {
                '%' => specifiers.next().unwrap_or('%'),
                literal => {
                    self.expect(literal, "Format literal not found")?;
                    continue;
                }
            };
            self.read_part(specifier)?;
        }
        if self.rest.is_empty() { Ok(()) } else { Err("Trailing data") }
    }

    fn read_part(&mut self, specifier: char) -> Result<(), Reason> {
        match specifier {
            'Y' => {
                self.found.year =
                    Some(self.number(4, 4, "A four digit year could not be found")?);
            }
            'm' => {
                let reason = "A two digit month could not be found";
                self.found.month = Some(self.number_within(2, 1..=12, reason)?);
            }
            'd' => {
                let reason = "A two digit day could not be found";
                self.found.day = Some(self.number_within(2, 1..=31, reason)?);
            }
            'H' => {
                let reason = "A two digit hour could not be found";
                self.found.hour = Some(self.number_within(2, 0..=24, reason)?);
            }
            'M' => {
                let reason = "A two digit minute could not be found";
                self.found.minute = Some(self.number_within(2, 0..=59, reason)?);
            }
            'S' => {
                let reason = "A two digit second could not be found";
                self.found.second = Some(self.number_within(2, 0..=60, reason)?);
            }
            'L' => {
                let reason = "A three digit millisecond could not be found";
                self.found.millisecond = Some(self.number(1, 3, reason)?);
            }
            'j' => {
                let reason = "A three digit day-of-year could not be found";
                self.found.day_of_year = Some(self.number_within(3, 1..=366, reason)?);
            }
            'G' => {
                let reason = "A four digit ISO year could not be found";
                self.found.iso_year = Some(self.number(4, 4, reason)?);
            }
            'V' => {
                let reason = "A two digit ISO week could not be found";
                self.found.iso_week = Some(self.number_within(2, 1..=53, reason)?);
            }
            'u' => {
                let reason = "A one digit ISO weekday could not be found";
                self.found.iso_weekday = Some(self.number_within(1, 1..=7, reason)?);
            }
            'b' | 'B' => {
                self.found.month = Some(self.month("A textual month could not be found")?);
            }
            'z' => self.found.offset = Some(self.offset()?),
            'Z' => {
                let is_west = self.take('-');
                if !is_west {
                    self.take('+');
                }
                let reason = "Invalid timezone offset in minutes";
                let minutes = self.number(1, 4, reason)?;
                self.found.offset = Some(if is_west { -minutes } else { minutes });
            }
            literal => self.expect(literal, "Format literal not found")?,
        }
        Ok(())
    }

    /// A month by its name or the first three letters of it.
    fn month(&mut self, reason: Reason) -> Result<i64, Reason> {
        let word = self.word();
        let matches = |name: &str| {
            word.eq_ignore_ascii_case(name)
                || name.get(..3).is_some_and(|short| word.eq_ignore_ascii_case(short))
        };
        let at = MONTHS.iter().position(|name| matches(name)).ok_or(reason)?;
        self.rest = &self.rest[word.len()..];
        i64::try_from(at + 1).map_err(|_| reason)
    }

    /// The letters that follow.
    fn word(&self) -> String {
        self.rest.chars().take_while(char::is_ascii_alphabetic).collect()
    }

    /// An offset from UTC, or the name of UTC.
    fn offset(&mut self) -> Result<i64, Reason> {
        let word = self.word();
        if ["Z", "UTC", "GMT"].iter().any(|name| word.eq_ignore_ascii_case(name)) {
            self.rest = &self.rest[word.len()..];
            return Ok(0);
        }
        let reason = "The timezone could not be found in the database";
        let is_part = |c: char| c.is_ascii_digit() || ":+-".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let minutes = parse_offset(&self.rest[..end]).ok_or(reason)?;
        self.rest = &self.rest[end..];
        Ok(minutes)
    }

    /// ISO 8601, `month/day/year`, and forms with the name of the month, each with an optional time
    /// and zone.
    fn read_usual(&mut self) -> Result<(), Reason> {
        self.skip_blanks();
        if self.rest.is_empty() {
            return Err("Empty string");
        }
        self.weekday();
        if self.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.found.month = Some(self.month(UNKNOWN)?);
            self.skip_separators();
            self.found.day = Some(self.day()?);
            self.skip_separators();
            self.found.year = Some(self.number(4, 4, UNEXPECTED)?);
        } else {
            self.date_of_numbers()?;
        }
        self.time()?;
        self.skip_blanks();
        if self.rest.is_empty() { self.check_day() } else { Err(UNEXPECTED) }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn skip_separators(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', ',', '.', '-', '\t']);
    }

    /// The name of a day of the week has no meaning beside a date.
    fn weekday(&mut self) {
        let word = self.word().to_ascii_lowercase();
        let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
        let is_day = days.iter().any(|day| word == *day)
            || (word.ends_with("day") && days.iter().any(|day| word.starts_with(day)));
        if is_day {
            self.rest = &self.rest[word.len()..];
            self.skip_separators();
        }
    }

    fn day(&mut self) -> Result<i64, Reason> {
        let day = self.number_within(2, 1..=31, UNEXPECTED)?;
        let suffix = self.word().to_ascii_lowercase();
        if ["st", "nd", "rd", "th"].contains(&suffix.as_str()) {
            self.rest = &self.rest[2..];
        }
        Ok(day)
    }

    fn date_of_numbers(&mut self) -> Result<(), Reason> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        match digits {
            // `20240229`
            8 => {
                self.found.year = Some(self.number(4, 4, UNEXPECTED)?);
                self.found.month = Some(self.number_within(2, 1..=12, UNEXPECTED)?);
                self.found.day = Some(self.number_within(2, 1..=31, UNEXPECTED)?);
            }
            4 => {
                self.found.year = Some(self.number(4, 4, UNEXPECTED)?);
                let separator = ['-', '/', '.'].into_iter().find(|c| self.take(*c));
                if separator == Some('-') && self.take('W') {
                    self.found.iso_year = self.found.year;
                    self.found.iso_week = Some(self.number_within(2, 1..=53, UNEXPECTED)?);
                    if self.take('-') {
                        self.found.iso_weekday = Some(self.number_within(1, 1..=7, UNEXPECTED)?);
                    }
                    return Ok(());
                }
                let separator = separator.ok_or(UNEXPECTED)?;
                self.found.month = Some(self.number_within(2, 1..=12, UNEXPECTED)?);
                if self.take(separator) {
                    self.found.day = Some(self.number_within(2, 1..=31, UNEXPECTED)?);
                } else {
                    self.found.day = Some(1);
                }
            }
            1 | 2 => {
                let first = self.day()?;
                if self.take('/') {
                    self.found.month = Some(first).filter(|month| (1..=12).contains(month));
                    self.found.day = Some(self.number_within(2, 1..=31, UNEXPECTED)?);
                    self.expect('/', UNEXPECTED)?;
                } else {
                    self.found.day = Some(first);
                    self.skip_separators();
                    self.found.month = match self.rest.starts_with(|c: char| c.is_ascii_digit()) {
                        true => Some(self.number_within(2, 1..=12, UNEXPECTED)?),
                        false => Some(self.month(UNKNOWN)?),
                    };
                    self.skip_separators();
                }
                self.found.year = Some(self.number(4, 4, UNEXPECTED)?);
            }
            _ => return Err(UNEXPECTED),
        }
        Ok(())
    }

    /// A time of day with a zone, if there is one.
    fn time(&mut self) -> Result<(), Reason> {
        let has_mark = self.take('T') || self.take('t');
        self.skip_separators();
        let is_number = |reader: &Self| reader.rest.starts_with(|c: char| c.is_ascii_digit());
        if !is_number(self) {
            return if has_mark || !self.rest.trim_start().is_empty() {
                Err(UNEXPECTED)
            } else {
                Ok(())
            };
        }
        let hour = self.number_within(2, 0..=24, UNEXPECTED)?;
        let has_colon = self.take(':');
        let minute = match has_colon || is_number(self) {
            true => self.number_within(2, 0..=59, UNEXPECTED)?,
            false => 0,
        };
        let mut second = 0;
        if self.take(':') || (!has_colon && is_number(self)) {
            second = self.number_within(2, 0..=60, UNEXPECTED)?;
            if self.take('.') || self.take(',') {
                self.found.millisecond = Some(self.fraction()?);
            }
        }
        self.skip_blanks();
        let hour = self.half_of_day(hour)?;
        self.found.hour = Some(hour);
        self.found.minute = Some(minute);
        self.found.second = Some(second);
        self.skip_blanks();
        if !self.rest.is_empty() {
            self.found.offset = Some(self.offset()?);
        }
        Ok(())
    }

    /// The milliseconds of a fraction of a second; further digits are cut.
    fn fraction(&mut self) -> Result<i64, Reason> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(count);
        if digits.is_empty() {
            return Err(UNEXPECTED);
        }
        self.rest = rest;
        format!("{digits:0<3}")[..3].parse().map_err(|_| UNEXPECTED)
    }

    fn half_of_day(&mut self, hour: i64) -> Result<i64, Reason> {
        let word = self.word().to_ascii_lowercase();
        let after_noon = match word.as_str() {
            "am" => 0,
            "pm" => 12,
            _ => return Ok(hour),
        };
        if !(1..=12).contains(&hour) {
            return Err(UNEXPECTED);
        }
        self.rest = &self.rest[2..];
        Ok(hour % 12 + after_noon)
    }

    /// A day that its month does not have.
    fn check_day(&mut self) -> Result<(), Reason> {
        let (Some(year), Some(month), Some(day)) =
            (self.found.year, self.found.month, self.found.day)
        else {
            return Ok(());
        };
        let days = match (i32::try_from(year), u32::try_from(month)) {
            (Ok(year), Ok(month)) => i64::from(days_in_month(year, month)),
            _ => 31,
        };
        if day > days {
            self.rest = &self.text[self.text.len()..];
            return Err("The parsed date was invalid");
        }
        Ok(())
    }
}

const UNEXPECTED: Reason = "Unexpected character";
const UNKNOWN: Reason = "passing a time zone identifier as part of the string is not allowed";
