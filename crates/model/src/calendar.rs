//! The Gregorian calendar: days since 1970 to and from year, month and day.

/// Days before a month, counted from March, since month lengths repeat once February is last.
fn days_before_month(month_from_march: i64) -> i64 {
    (153 * month_from_march + 2) / 5
}

const DAYS_PER_400_YEARS: i64 = 146_097;
/// Days from the first of March of year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970. Years begin in March here, so that leap days come last.
pub fn day_of_date(year: i32, month: u32, day: u32) -> i64 {
    let (year, month) = (i64::from(year), i64::from(month));
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = days_before_month((month + 9) % 12) + i64::from(day) - 1;
    let in_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * DAYS_PER_400_YEARS + in_era - DAYS_TO_1970
}

/// Year, month and day of a day number counted from 1970.
pub fn date_of_day(day: i64) -> (i32, u32, u32) {
    let from_march = day + DAYS_TO_1970;
    let (era, in_era) =
        (from_march.div_euclid(DAYS_PER_400_YEARS), from_march.rem_euclid(DAYS_PER_400_YEARS));
    let of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let of_year = in_era - (of_era * 365 + of_era / 4 - of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - days_before_month(month_from_march) + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + of_era + i64::from(month <= 2);
    (
        i32::try_from(year).unwrap_or(0),
        u32::try_from(month).unwrap_or(1),
        u32::try_from(day).unwrap_or(1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        let start = day_of_date(1600, 3, 1);
        for day in start..start + DAYS_PER_400_YEARS {
            let (year, month, of_month) = date_of_day(day);
            assert_eq!(day_of_date(year, month, of_month), day);
            assert!((1..=days_in_month(year, month)).contains(&of_month), "{year}-{month}");
        }
        assert_eq!(date_of_day(0), (1970, 1, 1));
        assert_eq!(day_of_date(2000, 2, 29), 11_016);
        assert_eq!(day_of_date(1, 1, 1), -719_162);
    }
}
