//! Etags of entities: their timestamps.

use model::Date;
use model::edm::{DateDigits, date_text, parse_date};

use super::EntityError;

/// The etag of an entity that was last changed at this time.
pub fn etag_of(timestamp: Date) -> String {
    let text = date_text(timestamp, DateDigits::Seven).replace(':', "%3A");
    format!("W/\"datetime'{text}'\"")
}

/// The version that a client expects when it changes an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Any existing version.
    Exists,
    /// The version of this time.
    Version(Date),
    /// A version that never existed.
    Unknown,
}

impl Condition {
    /// Whether a version of this time satisfies the condition.
    pub fn is_met_by(&self, timestamp: Date) -> bool {
        match self {
            Condition::Exists => true,
            Condition::Version(expected) => *expected == timestamp,
            Condition::Unknown => false,
        }
    }
}

/// Parses the value of `If-Match`.
pub fn parse_condition(text: &str) -> Result<Condition, EntityError> {
    if text == "*" {
        return Ok(Condition::Exists);
    }
    let opaque = text.strip_prefix("W/\"").or_else(|| text.strip_prefix("w/\""));
    let opaque = opaque.and_then(|rest| rest.strip_suffix('"'));
    let Some(opaque) = opaque.filter(|opaque| !opaque.contains('"')) else {
        return Err(EntityError::Etag(text.to_owned()));
    };
    let date = opaque.strip_prefix("datetime'").and_then(|rest| rest.strip_suffix('\''));
    let date = date.map(|date| date.replace("%3A", ":").replace("%3a", ":"));
    Ok(date.and_then(|date| parse_date(&date)).map_or(Condition::Unknown, Condition::Version))
}
