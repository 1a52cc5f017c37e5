//! Guids as text: 8-4-4-4-12 hexadecimal digits.

const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Lower-case text of a guid.
pub fn guid_text(guid: &[u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(36);
    for (at, byte) in guid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

/// Reads a guid of 36 characters, in either case.
pub fn parse_guid(text: &str) -> Option<[u8; 16]> {
    let groups = text.split('-');
    let is_shaped = groups.clone().map(str::len).eq(GROUPS);
    if !is_shaped || !text.is_ascii() {
        return None;
    }
    let digits: Vec<u8> = groups
        .flat_map(str::bytes)
        .map(|digit| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect::<Option<_>>()?;
    let mut guid = [0; 16];
    for (byte, pair) in guid.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(guid)
}
