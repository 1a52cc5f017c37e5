//! Finds what must be escaped in a string literal, eight bytes at a time.

/// How many bytes from the start stand for themselves inside a string literal.
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let plain_words = words.iter().take_while(|word| is_plain_word(**word)).count();
    let tail = &bytes[8 * plain_words..];
    8 * plain_words + tail.iter().position(|b| !is_plain(*b)).unwrap_or(tail.len())
}

fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// [`is_plain`] of eight bytes at once.
#[expect(clippy::little_endian_bytes, reason = "any order does; this one costs nothing")]
fn is_plain_word(word: [u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH_BITS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    // The high bit of a byte comes out set if that byte is zero. A borrow may also set it in bytes
    // after a zero one, which changes nothing: the word is not plain then anyway.
    let zero_bytes = |x: u64| x.wrapping_sub(ONES) & !x;
    let quotes = zero_bytes(word ^ (ONES * u64::from(b'"')));
    let backslashes = zero_bytes(word ^ (ONES * u64::from(b'\\')));
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    (quotes | backslashes | controls) & HIGH_BITS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte value at every place of a word, among neighbours that might borrow.
    #[test]
    fn words_agree_with_bytes() {
        for neighbour in [b'a', 0x20, 0x21, 0x7F, 0x80, 0xFF] {
            for byte in 0..=u8::MAX {
                for at in 0..8 {
                    let mut word = [neighbour; 8];
                    word[at] = byte;
                    assert_eq!(is_plain_word(word), is_plain(byte), "{byte:#x} at {at}");
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
