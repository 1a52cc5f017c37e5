//! Paths into documents: names separated by dots, of which a number may also be a position.

use model::json::FieldMask;

/// A path such as `a.0.b`. Without parts it is the value itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    text: String,
    parts: Vec<PathPart>,
}

/// One part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The name of a field.
    pub name: String,
    /// The position in an array that the name stands for, if it is a number without leading zeros.
    pub position: Option<usize>,
}

impl PathPart {
    /// A part with this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), position: position_of(name) }
    }
}

impl FieldPath {
    /// Splits `text` at its dots. Every text is a path, an empty name included.
    pub fn parse(text: &str) -> Self {
        Self { text: text.to_owned(), parts: text.split('.').map(PathPart::new).collect() }
    }

    /// The path of the value itself, without parts.
    pub fn root() -> Self {
        Self { text: String::new(), parts: Vec::new() }
    }

    /// The text that was parsed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its parts, outermost first.
    pub fn parts(&self) -> &[PathPart] {
        &self.parts
    }

    /// Adds to `mask` what has to be read to follow this path. From a number on everything is read:
    /// it may be a name or a position.
    pub fn require(&self, mask: &mut FieldMask) {
        let names = self.parts.iter().take_while(|part| part.position.is_none());
        let names: Vec<String> = names.map(|part| part.name.clone()).collect();
        mask.add(&names, FieldMask::All);
    }
}

fn position_of(name: &str) -> Option<usize> {
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = name == "0" || !name.starts_with('0');
    (is_number && is_canonical).then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_without_leading_zeros_are_positions() {
        let path = FieldPath::parse("a.0.12.01.+1..99999999999999999999999");
        let positions: Vec<_> = path.parts().iter().map(|part| part.position).collect();
        assert_eq!(positions, [None, Some(0), Some(12), None, None, None, None]);
        assert!(FieldPath::root().parts().is_empty());
    }

    #[test]
    fn a_mask_ends_before_the_first_number() {
        let mut mask = FieldMask::NOTHING;
        FieldPath::parse("a.b.0.c").require(&mut mask);
        FieldPath::parse("d").require(&mut mask);
        let b = FieldMask::Fields(vec![("b".to_owned(), FieldMask::All)]);
        let both = vec![("a".to_owned(), b), ("d".to_owned(), FieldMask::All)];
        assert_eq!(mask, FieldMask::Fields(both));
        FieldPath::root().require(&mut mask);
        assert_eq!(mask, FieldMask::All);
    }
}
