//! Finds the name that was probably meant by an unknown one.

/// Most names that are compared.
const NAMES_MAX: usize = 5_000;
/// Most edits between two names that count as similar, whatever their length.
const EDITS_MAX: usize = 4;

/// The name in `known` most similar to `name`, if it is similar enough: at most a third of its
/// characters may differ, and case is ignored.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let near = known.take(NAMES_MAX).filter_map(|other| {
        let letters = other.to_lowercase();
        let shorter = letters.chars().count().min(length);
        let edits_max = shorter.div_ceil(3).min(EDITS_MAX);
        // A cheap check that rules out most names.
        if letters.chars().count().max(length) - shorter > edits_max {
            return None;
        }
        let edits = strsim::damerau_levenshtein(&name, &letters);
        (edits <= edits_max).then_some((edits, other))
    });
    near.min_by_key(|(edits, _)| *edits).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let known = ["orders", "customers", "Shop", "o"];
        let nearest = |name| nearest(name, known.into_iter());
        assert_eq!(nearest("oders"), Some("orders"));
        assert_eq!(nearest("odrers"), Some("orders"));
        assert_eq!(nearest("ORDERS"), Some("orders"));
        assert_eq!(nearest("shpo"), Some("Shop"));
        assert_eq!(nearest("costumer"), Some("customers"));
        assert_eq!(nearest("products"), None);
        assert_eq!(nearest(""), None);
    }
}
