//! Dates and times: texts in one ISO 8601 format, always UTC, counted in ticks of 100 nanoseconds.
//!
//! Functions of the current time are not here: compilers know that time and make constants.

mod calendar;
mod format;

use model::Value;

use super::{Args, Function, between, exactly};

pub use calendar::Ticks;
use calendar::{Civil, DatePart, TICKS_PER_MILLISECOND};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("DateTimeAdd", exactly(3), add),
    Function::linear("DateTimeBin", between(2, 4), bin),
    Function::linear("DateTimeDiff", exactly(3), difference),
    Function::linear("DateTimeFormat", exactly(2), formatted),
    Function::linear("DateTimeFromParts", between(3, 7), from_parts),
    Function::linear("DateTimePart", exactly(2), |args| part_of(args.part(0)?, args.date(1)?)),
    Function::linear("DateTimeToTicks", exactly(1), |args| Some(Value::Int64(args.date(0)?.0))),
    Function::linear("DateTimeToTimestamp", exactly(1), |args| {
        Some(Value::Int64(args.date(0)?.milliseconds()))
    }),
    Function::linear("DAY", exactly(1), |args| part_of(DatePart::Day, args.date(0)?)),
    Function::linear("IS_DATETIME", exactly(1), |args| Some(Value::Bool(args.date(0).is_some()))),
    Function::linear("MONTH", exactly(1), |args| part_of(DatePart::Month, args.date(0)?)),
    Function::linear("TicksToDateTime", exactly(1), |args| {
        text(Ticks::in_range(args.integer(0)?)?)
    }),
    Function::linear("TimestampToDateTime", exactly(1), |args| {
        let ticks = args.integer(0)?.checked_mul(TICKS_PER_MILLISECOND)?;
        text(Ticks::in_range(ticks)?)
    }),
    Function::linear("YEAR", exactly(1), |args| part_of(DatePart::Year, args.date(0)?)),
];

impl Args<'_> {
    fn date(&self, at: usize) -> Option<Ticks> {
        Ticks::parse(self.str(at)?)
    }

    fn part(&self, at: usize) -> Option<DatePart> {
        DatePart::parse(self.str(at)?)
    }
}

fn text(ticks: Ticks) -> Option<Value> {
    Some(Value::String(ticks.to_text()))
}

fn add(args: &Args<'_>) -> Option<Value> {
    text(moved(args.date(2)?, args.part(0)?, args.integer(1)?)?)
}

/// A moment moved by some date parts; `None` outside the years with four digits.
pub(crate) fn moved(from: Ticks, part: DatePart, count: i64) -> Option<Ticks> {
    let Some(nanoseconds) = part.nanoseconds() else {
        let civil = from.civil();
        let months = if part == DatePart::Year { count.checked_mul(12)? } else { count };
        let now = i64::from(civil.year) * 12 + i64::from(civil.month) - 1;
        return civil.with_month(now.checked_add(months)?)?.ticks();
    };
    // Less than a tick is dropped.
    let ticks = i128::from(count) * i128::from(nanoseconds) / 100;
    Ticks::in_range(i64::try_from(i128::from(from.0) + ticks).ok()?)
}

fn bin(args: &Args<'_>) -> Option<Value> {
    let (at, part) = (args.date(0)?, args.part(1)?);
    let size = if args.len() > 2 { args.integer(2)? } else { 1 };
    let origin = if args.len() > 3 { args.date(3)? } else { Ticks(0) };
    if size < 1 || origin < Ticks::BIN_ORIGIN_MIN {
        return None;
    }
    let width = i128::from(part.nanoseconds()?).checked_mul(i128::from(size))?;
    let since = (i128::from(at.0) - i128::from(origin.0)) * 100;
    let start = i128::from(origin.0) * 100 + since.div_euclid(width) * width;
    text(Ticks::in_range(i64::try_from(start.div_euclid(100)).ok()?)?)
}

/// How many boundaries of the date part lie between two moments.
fn difference(args: &Args<'_>) -> Option<Value> {
    let (part, start, end) = (args.part(0)?, args.date(1)?, args.date(2)?);
    Some(Value::Int64(part.index(end).checked_sub(part.index(start))?))
}

fn formatted(args: &Args<'_>) -> Option<Value> {
    Some(Value::String(format::format(args.date(0)?, args.str(1)?)))
}

fn from_parts(args: &Args<'_>) -> Option<Value> {
    let part = |at: usize, default: i64| {
        if at < args.len() { args.integer(at) } else { Some(default) }
    };
    let civil = Civil {
        year: i32::try_from(part(0, 1)?).ok()?,
        month: u32::try_from(part(1, 1)?).ok()?,
        day: u32::try_from(part(2, 1)?).ok()?,
        hour: u32::try_from(part(3, 0)?).ok()?,
        minute: u32::try_from(part(4, 0)?).ok()?,
        second: u32::try_from(part(5, 0)?).ok()?,
        fraction: u32::try_from(part(6, 0)?).ok()?,
    };
    text(civil.ticks()?)
}

fn part_of(part: DatePart, at: Ticks) -> Option<Value> {
    let civil = at.civil();
    Some(Value::Int64(match part {
        DatePart::Year => i64::from(civil.year),
        DatePart::Month => i64::from(civil.month),
        DatePart::Day => i64::from(civil.day),
        DatePart::Hour => i64::from(civil.hour),
        DatePart::Minute => i64::from(civil.minute),
        DatePart::Second => i64::from(civil.second),
        DatePart::Millisecond => i64::from(civil.fraction / 10_000),
        DatePart::Microsecond => i64::from(civil.fraction / 10),
        DatePart::Nanosecond => i64::from(civil.fraction) * 100,
    }))
}

/// The kind of result of a function of the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentTime {
    /// Text.
    DateTime,
    /// Ticks since 1970.
    Ticks,
    /// Milliseconds since 1970.
    Timestamp,
    /// Text of a moment some date parts later.
    Ahead,
    /// Text of a moment some date parts earlier.
    Ago,
}

impl CurrentTime {
    /// The function called `name`, whatever its case, with its smallest and largest number of
    /// arguments. Functions that the service evaluates for each row are the same here: a page has
    /// one current time.
    pub fn lookup(name: &str) -> Option<(Self, usize, usize)> {
        const FUNCTIONS: [(&str, CurrentTime, usize, usize); 8] = [
            ("GetCurrentDateTime", CurrentTime::DateTime, 0, 0),
            ("GetCurrentDateTimeStatic", CurrentTime::DateTime, 0, 0),
            ("GetCurrentTicks", CurrentTime::Ticks, 0, 0),
            ("GetCurrentTicksStatic", CurrentTime::Ticks, 0, 0),
            ("GetCurrentTimestamp", CurrentTime::Timestamp, 0, 0),
            ("GetCurrentTimestampStatic", CurrentTime::Timestamp, 0, 0),
            ("NOW", CurrentTime::Ahead, 0, 2),
            ("AGO", CurrentTime::Ago, 2, 2),
        ];
        let mut functions = FUNCTIONS.iter();
        let found = functions.find(|(known, ..)| known.eq_ignore_ascii_case(name));
        found.map(|(_, present, min, max)| (*present, *min, *max))
    }

    /// Its value at `now`, with these arguments if it takes any.
    pub fn value(self, now: Ticks, part: Option<&str>, count: Option<i64>) -> Option<Value> {
        match self {
            CurrentTime::DateTime => text(now),
            CurrentTime::Ticks => Some(Value::Int64(now.0)),
            CurrentTime::Timestamp => Some(Value::Int64(now.milliseconds())),
            CurrentTime::Ahead if part.is_none() && count.is_none() => text(now),
            CurrentTime::Ahead => text(moved(now, DatePart::parse(part?)?, count?)?),
            CurrentTime::Ago => text(moved(now, DatePart::parse(part?)?, count?.checked_neg()?)?),
        }
    }
}
