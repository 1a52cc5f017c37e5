//! Time zones: names of the tz database, and offsets from UTC.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::civil::{Civil, MILLIS_PER_DAY};
use crate::document::Failure;

/// A time zone.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    Utc,
    /// Minutes east of UTC.
    Offset(i64),
    Named(TimeZone),
}

const MILLIS_PER_MINUTE: i64 = 60_000;

impl Zone {
    /// The zone with this name, or this offset: `+05`, `+0530`, `-05:30`.
    pub(super) fn parse(name: &str) -> Result<Self, Failure> {
        let unknown = || {
            let message = format!("unrecognized time zone identifier: \"{name}\"");
            Failure::new(40485, message)
        };
        if ["UTC", "GMT", "Z"].contains(&name) {
            return Ok(Zone::Utc);
        }
        if name.starts_with(['+', '-']) {
            return parse_offset(name).map(Zone::Offset).ok_or_else(unknown);
        }
        TimeZone::get(name).map(Zone::Named).map_err(|_| unknown())
    }

    pub(super) fn is_utc(&self) -> bool {
        matches!(self, Zone::Utc)
    }

    /// Milliseconds east of UTC at a moment. Beyond the years that the database knows, as at their
    /// end.
    pub(super) fn offset_at(&self, millis: i64) -> i64 {
        match self {
            Zone::Utc => 0,
            Zone::Offset(minutes) => minutes * MILLIS_PER_MINUTE,
            Zone::Named(zone) => {
                let earliest = Timestamp::MIN.as_millisecond() + MILLIS_PER_DAY;
                let latest = Timestamp::MAX.as_millisecond() - MILLIS_PER_DAY;
                let moment = Timestamp::from_millisecond(millis.clamp(earliest, latest));
                moment.map_or(0, |moment| i64::from(zone.to_offset(moment).seconds()) * 1000)
            }
        }
    }

    /// The clock of the zone at a moment.
    pub(super) fn civil_at(&self, millis: i64) -> Civil {
        Civil::of_millis(millis.saturating_add(self.offset_at(millis)))
    }

    /// The moment at which the clock of the zone shows these milliseconds. Of two, the earlier; in
    /// a gap, as if the clock had not been changed yet.
    pub(super) fn moment_of(&self, local: i64) -> i64 {
        let Zone::Named(zone) = self else { return local.saturating_sub(self.offset_at(local)) };
        let civil = Civil::of_millis(local);
        let known = (|| {
            let date = DateTime::new(
                i16::try_from(civil.year).ok()?,
                i8::try_from(civil.month).ok()?,
                i8::try_from(civil.day).ok()?,
                i8::try_from(civil.hour).ok()?,
                i8::try_from(civil.minute).ok()?,
                i8::try_from(civil.second).ok()?,
                0,
            );
            let moment = zone.to_ambiguous_timestamp(date.ok()?).compatible().ok()?;
            Some(moment.as_millisecond() + i64::from(civil.millisecond))
        })();
        known.unwrap_or_else(|| local.saturating_sub(self.offset_at(local)))
    }
}

/// The minutes of an offset.
pub(super) fn parse_offset(text: &str) -> Option<i64> {
    let is_west = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match digits.len() {
        2 => (digits, "0"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':')?,
        _ => return None,
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten()
    };
    let minutes = number(hours)? * 60 + number(minutes)?;
    Some(if is_west { -minutes } else { minutes })
}
