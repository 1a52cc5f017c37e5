//! What a clock and a calendar show.

use model::calendar::{date_of_day, day_of_date};

pub(super) const MILLIS_PER_DAY: i64 = 86_400_000;
pub(super) const MILLIS_PER_HOUR: i64 = 3_600_000;

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i32,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) millisecond: u32,
    /// Days since 1970.
    pub(super) day_number: i64,
}

impl Civil {
    /// Milliseconds of a local clock since 1970.
    pub(super) fn of_millis(millis: i64) -> Self {
        let (day_number, in_day) =
            (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
        let (year, month, day) = date_of_day(day_number);
        let part = |n: i64| u32::try_from(n).unwrap_or(0);
        Self {
            year,
            month,
            day,
            hour: part(in_day / MILLIS_PER_HOUR),
            minute: part(in_day / 60_000 % 60),
            second: part(in_day / 1000 % 60),
            millisecond: part(in_day % 1000),
            day_number,
        }
    }

    /// From Monday, 1, to Sunday, 7.
    pub(super) fn iso_weekday(&self) -> i64 {
        (self.day_number + 3).rem_euclid(7) + 1
    }

    /// From 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.day_number - day_of_date(self.year, 1, 1) + 1
    }

    /// Weeks begin on Sunday; days before the first Sunday are in week 0.
    pub(super) fn week(&self) -> i64 {
        let from_sunday = self.iso_weekday() % 7;
        (self.day_of_year() + 6 - from_sunday) / 7
    }

    /// The year and the week by ISO 8601: the first week has the first Thursday.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let thursday = self.day_number + 4 - self.iso_weekday();
        let (year, _, _) = date_of_day(thursday);
        (i64::from(year), (thursday - day_of_date(year, 1, 1)) / 7 + 1)
    }

    /// Milliseconds since midnight.
    pub(super) fn millis_of_day(&self) -> i64 {
        let seconds = (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60;
        (seconds + i64::from(self.second)) * 1000 + i64::from(self.millisecond)
    }

    /// Months since January of year 0.
    pub(super) fn month_number(&self) -> i64 {
        i64::from(self.year) * 12 + i64::from(self.month) - 1
    }
}

/// The day on which a month begins, counted from January of year 0; `None` out of range.
pub(super) fn first_day_of_month(month_number: i64) -> Option<i64> {
    let year = i32::try_from(month_number.div_euclid(12)).ok()?;
    let month = u32::try_from(month_number.rem_euclid(12)).ok()? + 1;
    (-300_000_000..300_000_000).contains(&year).then(|| day_of_date(year, month, 1))
}

/// The day with which an ISO year begins.
pub(super) fn first_day_of_iso_year(year: i32) -> i64 {
    let fourth = Civil::of_millis(day_of_date(year, 1, 4) * MILLIS_PER_DAY);
    fourth.day_number + 1 - fourth.iso_weekday()
}
