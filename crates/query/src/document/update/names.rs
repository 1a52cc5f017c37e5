//! The order in which fields are changed: by name, and numbers by value.

use std::cmp::Ordering;

/// The name of a field that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldName(pub(super) String);

impl Ord for FieldName {
    fn cmp(&self, other: &Self) -> Ordering {
        match (digits(&self.0), digits(&other.0)) {
            (Some(a), Some(b)) => {
                a.len().cmp(&b.len()).then_with(|| a.cmp(b)).then_with(|| self.0.cmp(&other.0))
            }
            _ => self.0.cmp(&other.0),
        }
    }
}

impl PartialOrd for FieldName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The digits of a number, without leading zeros.
fn digits(name: &str) -> Option<&str> {
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| name.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_value() {
        let mut names: Vec<_> =
            ["b", "10", "9", "a", "", "09", "1"].map(|name| FieldName(name.to_owned())).into();
        names.sort();
        let names: Vec<_> = names.iter().map(|name| name.0.as_str()).collect();
        assert_eq!(names, ["", "1", "09", "9", "10", "a", "b"]);
    }
}
