//! Strings between two bounds, in byte order, which equals the order of their code points.

use std::cmp::Ordering;
use std::ops::Bound;

/// The strings between a lower and an upper bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lower bound.
    pub lower: Bound<String>,
    /// The upper bound.
    pub upper: Bound<String>,
}

impl Bounds {
    /// All strings.
    pub fn everything() -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// One string.
    pub fn just(text: &str) -> Self {
        let bound = Bound::Included(text.to_owned());
        Self { lower: bound.clone(), upper: bound }
    }

    /// A string and all after it.
    pub fn from(text: &str) -> Self {
        Self { lower: Bound::Included(text.to_owned()), upper: Bound::Unbounded }
    }

    /// The strings after a string.
    pub fn above(text: &str) -> Self {
        Self { lower: Bound::Excluded(text.to_owned()), upper: Bound::Unbounded }
    }

    /// A string and all before it.
    pub fn up_to(text: &str) -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Included(text.to_owned()) }
    }

    /// The strings before a string.
    pub fn below(text: &str) -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Excluded(text.to_owned()) }
    }

    /// The string, if there is only one.
    pub fn point(&self) -> Option<&str> {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => Some(lower),
            _ => None,
        }
    }

    /// Whether all strings are within the bounds.
    pub fn is_everything(&self) -> bool {
        self.lower_key() == ("", false) && self.upper == Bound::Unbounded
    }

    /// Whether a string is within the bounds.
    pub fn contains(&self, text: &str) -> bool {
        let is_above = match &self.lower {
            Bound::Included(lower) => text >= lower.as_str(),
            Bound::Excluded(lower) => text > lower.as_str(),
            Bound::Unbounded => true,
        };
        is_above
            && match &self.upper {
                Bound::Included(upper) => text <= upper.as_str(),
                Bound::Excluded(upper) => text < upper.as_str(),
                Bound::Unbounded => true,
            }
    }

    /// Whether the bounds exclude each other. There may be no string between them even if not.
    pub(super) fn is_empty(&self) -> bool {
        let (lower, is_lower_excluded) = self.lower_key();
        match &self.upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => lower > upper.as_str() || is_lower_excluded && lower == upper,
            Bound::Excluded(upper) => lower >= upper.as_str(),
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let lower = if self.cmp_lower(other).is_ge() { self } else { other };
        let upper = if self.cmp_upper(other).is_le() { self } else { other };
        Self { lower: lower.lower.clone(), upper: upper.upper.clone() }
    }

    /// The smallest bounds that contain both.
    pub(super) fn hull(&self, other: &Self) -> Self {
        let lower = if self.cmp_lower(other).is_le() { self } else { other };
        let upper = if self.cmp_upper(other).is_ge() { self } else { other };
        Self { lower: lower.lower.clone(), upper: upper.upper.clone() }
    }

    /// Whether these bounds, which do not begin after the others, overlap the others or end where
    /// those begin.
    pub(super) fn meets(&self, later: &Self) -> bool {
        let (lower, is_lower_excluded) = later.lower_key();
        match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => lower <= upper.as_str(),
            Bound::Excluded(upper) => {
                lower < upper.as_str() || lower == upper && !is_lower_excluded
            }
        }
    }

    /// No lower bound is the same as the empty string.
    fn lower_key(&self) -> (&str, bool) {
        match &self.lower {
            Bound::Unbounded => ("", false),
            Bound::Included(text) => (text, false),
            Bound::Excluded(text) => (text, true),
        }
    }

    pub(super) fn cmp_lower(&self, other: &Self) -> Ordering {
        self.lower_key().cmp(&other.lower_key())
    }

    fn cmp_upper(&self, other: &Self) -> Ordering {
        match (upper_key(&self.upper), upper_key(&other.upper)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => a.cmp(&b),
        }
    }
}

fn upper_key(upper: &Bound<String>) -> Option<(&str, bool)> {
    match upper {
        Bound::Unbounded => None,
        Bound::Included(text) => Some((text, true)),
        Bound::Excluded(text) => Some((text, false)),
    }
}
