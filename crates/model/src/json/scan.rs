//! Finds the bytes of a string literal that need escapes, eight bytes at a time.

/// How many bytes from the start need no escape inside a string literal.
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let plain = plain_in_word(*word);
        if plain < word.len() {
            return word.len() * at + plain;
        }
    }
    bytes.len() - tail.len() + tail.iter().position(|b| !is_plain(*b)).unwrap_or(tail.len())
}

fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// How many of eight bytes from the start are plain.
#[expect(clippy::little_endian_bytes, reason = "the first byte is to be the lowest")]
fn plain_in_word(word: [u8; 8]) -> usize {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH_BITS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    // The high bit of a byte comes out set if that byte is zero. A borrow may also set it in bytes
    // after a zero one, which does not matter: only the lowest is used.
    let zero_bytes = |x: u64| x.wrapping_sub(ONES) & !x;
    let quotes = zero_bytes(word ^ (ONES * u64::from(b'"')));
    let backslashes = zero_bytes(word ^ (ONES * u64::from(b'\\')));
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    let special = (quotes | backslashes | controls) & HIGH_BITS;
    special.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte value at every position of a word, among neighbours that might borrow.
    #[test]
    fn words_agree_with_bytes() {
        for neighbour in [b'a', 0x20, 0x21, 0x7F, 0x80, 0xFF] {
            for byte in 0..=u8::MAX {
                for at in 0..8 {
                    let mut word = [neighbour; 8];
                    word[at] = byte;
                    let expected = word.iter().position(|b| !is_plain(*b)).unwrap_or(8);
                    assert_eq!(plain_in_word(word), expected, "{byte:#x} at {at}");
                }
            }
        }
    }

    #[test]
    fn stops_at_the_first_special_byte() {
        for length in 0..40 {
            let mut bytes = vec![b'x'; length];
            assert_eq!(plain_prefix(&bytes), length);
            for at in 0..length {
                bytes[at] = b'"';
                assert_eq!(plain_prefix(&bytes), at);
                bytes[at] = b'x';
            }
        }
    }
}
