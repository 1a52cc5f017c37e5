//! The heads of requests and of replies.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use engine::components::Random;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;

/// About how many bytes the request line and headers took on the wire.
pub fn head_bytes(head: &Parts) -> usize {
    const LINE_EXTRA: usize = "  HTTP/1.1\r\n\r\n".len();
    const HEADER_EXTRA: usize = ": \r\n".len();
    let uri = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + HEADER_EXTRA
    };
    head.method.as_str().len() + uri + LINE_EXTRA + head.headers.iter().map(header).sum::<usize>()
}

/// Makes ids for requests. They must not repeat, but may be guessed: a counter with a random start,
/// scrambled, avoids a call to the operating system for each id.
#[derive(Debug)]
pub struct RequestIds {
    start: u128,
    given_out: AtomicU64,
}

impl RequestIds {
    /// Ids that no other instance makes.
    pub fn new(random: &dyn Random) -> Self {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Self { start: u128::from_be_bytes(bytes), given_out: AtomicU64::new(0) }
    }

    /// A new id.
    pub fn make(&self) -> HeaderValue {
        ascii(self.make_text().into_bytes())
    }

    /// A new id, for more than a header.
    pub fn make_text(&self) -> String {
        guid(self.next())
    }

    fn next(&self) -> u128 {
        // Odd factors make both steps reversible, so different counts stay different.
        const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        // ORDERING: the only requirement is that no two requests get the same count.
        let count = self.given_out.fetch_add(1, Ordering::Relaxed);
        let spread = self.start.wrapping_add(u128::from(count).wrapping_mul(SPREAD));
        (spread ^ (spread >> 64)).wrapping_mul(SPREAD)
    }
}

fn guid(number: u128) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = number.to_be_bytes();
    // Version 4, variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 0x0f)]));
    }
    text
}

/// A header value of ASCII text made by the server.
pub fn ascii(text: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(HeaderValue::from_static(""))
}

/// `thousandths` of a unit as a decimal number without trailing zeros.
pub fn decimal(thousandths: u64) -> HeaderValue {
    let mut digits = itoa::Buffer::new();
    let mut out = Vec::with_capacity(24);
    out.extend_from_slice(digits.format(thousandths / 1000).as_bytes());
    let mut fraction = thousandths % 1000;
    if fraction > 0 {
        out.push(b'.');
        let mut place = 100;
        while fraction > 0 {
            // A digit is below ten.
            out.push(b'0' + u8::try_from(fraction / place).unwrap_or_default());
            fraction %= place;
            place /= 10;
        }
    }
    ascii(out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_differ_and_have_the_form_of_a_guid() {
        struct Sevens;
        impl Random for Sevens {
            fn fill(&self, out: &mut [u8]) {
                out.fill(0x77);
            }
        }
        let ids = RequestIds::new(&Sevens);
        let made: BTreeSet<String> =
            (0..1000).map(|_| ids.make().to_str().unwrap().to_owned()).collect();
        assert_eq!(made.len(), 1000);
        for id in made {
            let parts: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
            assert_eq!((&id[14..15], id[19..20].contains(['8', '9', 'a', 'b'])), ("4", true));
        }
    }
}
