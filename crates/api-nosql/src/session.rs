//! Session tokens: `{range}:-1#{lsn}`, several joined with commas.

use engine::RangeId;
use model::Lsn;

/// The token of the ranges a request touched, for `x-ms-session-token`.
pub(crate) fn token(ranges: &[(RangeId, Lsn)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 * ranges.len());
    let mut digits = itoa::Buffer::new();
    for (range, lsn) in ranges {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(digits.format(range.0).as_bytes());
        out.extend_from_slice(b":-1#");
        out.extend_from_slice(digits.format(lsn.0).as_bytes());
    }
    out
}
