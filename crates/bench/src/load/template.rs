//! Requests that are rendered once and then stamped with new numbers in place.

/// The placeholder for a number, of twelve digits.
const NUMBER_MARK: &[u8] = b"~~~~~~~~~~~~";
/// The placeholder for the number of a logical partition.
const PARTITION_MARK: &[u8] = b"@@@@";

/// How many logical partitions stamped items are spread over.
pub const PARTITIONS: u64 = 256;

/// A request with placeholders for numbers. Placeholders are as wide as their replacements, so the
/// lengths in the head stay correct.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    numbers: Vec<usize>,
    partitions: Vec<usize>,
}

impl Template {
    /// Finds the marks in `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        let numbers = positions(&bytes, NUMBER_MARK);
        let partitions = positions(&bytes, PARTITION_MARK);
        Self { bytes, numbers, partitions }
    }

    /// Whether every use has the same bytes.
    pub fn is_fixed(&self) -> bool {
        self.numbers.is_empty() && self.partitions.is_empty()
    }

    /// The bytes with the placeholders.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the request for `number` into `out`, replacing its contents.
    pub fn stamp_into(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bytes);
        for &at in &self.numbers {
            write_digits(&mut out[at..at + NUMBER_MARK.len()], number);
        }
        for &at in &self.partitions {
            write_digits(&mut out[at..at + PARTITION_MARK.len()], number % PARTITIONS);
        }
    }
}

/// Fills `digits` with `number` in decimal, without the most significant digits if it does not fit.
fn write_digits(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789"[usize::try_from(number % 10).unwrap_or_default()];
        number /= 10;
    }
}

fn positions(haystack: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while from + needle.len() <= haystack.len() {
        if &haystack[from..from + needle.len()] == needle {
            found.push(from);
            from += needle.len();
        } else {
            from += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_digits_of_the_same_width() {
        let template = Template::new(b"id=~~~~~~~~~~~~ pk=@@@@ again=~~~~~~~~~~~~".to_vec());
        let mut out = Vec::new();
        template.stamp_into(300, &mut out);
        assert_eq!(out, b"id=000000000300 pk=0044 again=000000000300");
        assert!(!template.is_fixed());
        assert!(Template::new(b"plain".to_vec()).is_fixed());
    }
}
