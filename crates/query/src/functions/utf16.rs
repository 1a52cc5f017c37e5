//! Positions and lengths in UTF-16 code units, which the dialect counts in.

use std::borrow::Cow;

/// Number of UTF-16 code units.
pub(super) fn len(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// The code units from `start` to before `end`, both clamped to the text. Half of a surrogate
/// pair, which UTF-8 cannot hold, becomes the replacement character.
pub(super) fn slice(text: &str, start: usize, end: usize) -> Cow<'_, str> {
    if text.is_ascii() {
        let end = end.min(text.len());
        return Cow::Borrowed(text.get(start.min(end)..end).unwrap_or_default());
    }
    let units: Vec<u16> = text.encode_utf16().skip(start).take(end.saturating_sub(start)).collect();
    Cow::Owned(String::from_utf16_lossy(&units))
}

/// Position in code units of a byte offset on a character boundary.
pub(super) fn position(text: &str, byte: usize) -> usize {
    len(text.get(..byte).unwrap_or_default())
}

/// The byte offset of a position in code units, moved up to a character boundary and clamped to
/// the text.
pub(super) fn byte_offset(text: &str, position: usize) -> usize {
    if text.is_ascii() {
        return position.min(text.len());
    }
    let mut units = 0;
    for (byte, c) in text.char_indices() {
        if units >= position {
            return byte;
        }
        units += c.len_utf16();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_surrogate_pairs_as_two() {
        assert_eq!(len("a😀b"), 4);
        assert_eq!(slice("a😀b", 1, 3), "😀");
        assert_eq!(slice("a😀b", 2, 4), "\u{FFFD}b");
        assert_eq!(slice("abc", 2, 1), "");
        assert_eq!(slice("abc", 5, 9), "");
        assert_eq!(byte_offset("a😀b", 3), 5);
        assert_eq!(byte_offset("a😀b", 9), 6);
        assert_eq!(position("a😀b", 5), 3);
    }
}
