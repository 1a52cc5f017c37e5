//! Session tokens: `{range}:-1#{lsn}`. Responses carry one, requests one or several with commas.
//!
//! A token holds the newest position of a range that a client has seen; a read must not return
//! older data. Clients also send the forms of multi-region accounts, `{range}:{version}#{lsn}`
//! followed by `#{region}={lsn}` for each region, of which only the first position counts here.

use engine::RangeId;
use model::Lsn;

use crate::Consistency;
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::request::Request;

/// The token of a range, for `x-ms-session-token`.
pub(crate) fn token(range: RangeId, lsn: Lsn) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    out.extend_from_slice(itoa::Buffer::new().format(range.0).as_bytes());
    out.push(b':');
    write_position(lsn, &mut out);
    out
}

/// The token without its range, for answers in Direct mode, which name the range beside it. Clients
/// put it in front themselves, those of Java also where it is there already.
pub(crate) fn token_without_range(lsn: Lsn) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    write_position(lsn, &mut out);
    out
}

fn write_position(lsn: Lsn, out: &mut Vec<u8>) {
    out.extend_from_slice(b"-1#");
    out.extend_from_slice(itoa::Buffer::new().format(lsn.0).as_bytes());
}

/// The positions that the caller of a read has already seen. Empty if the request asks for less
/// than session consistency, in an account of the given default.
pub(crate) fn required_lsns(
    request: &Request,
    account: Consistency,
) -> Result<Vec<(RangeId, Lsn)>, ApiError> {
    let header = request.headers.text_or(HeaderName::SessionToken, "?");
    let Some(token) = header else { return Ok(Vec::new()) };
    let asked = request.header(HeaderName::ConsistencyLevel).and_then(Consistency::parse);
    match asked.unwrap_or(account) {
        Consistency::ConsistentPrefix | Consistency::Eventual => Ok(Vec::new()),
        Consistency::Strong | Consistency::BoundedStaleness | Consistency::Session => parse(token),
    }
}

/// Parses a token or a list of them; of several for one range the furthest counts.
pub(crate) fn parse(text: &str) -> Result<Vec<(RangeId, Lsn)>, ApiError> {
    let mut lsns: Vec<(RangeId, Lsn)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        // The older .NET SDK truncates the token lists that responses used to carry, so the last
        // range may lack its position. Such an entry is ignored.
        if !lsns.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let entry = parse_one(part).ok_or_else(|| {
            ApiError::bad_request(format!("The session token provided '{text}' is invalid."))
        })?;
        lsns.push(entry);
    }
    lsns.sort_unstable();
    // Sorted by range and then position, so of equal ranges the later entry is kept.
    lsns.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            kept.1 = later.1;
        }
        is_same
    });
    Ok(lsns)
}

fn parse_one(text: &str) -> Option<(RangeId, Lsn)> {
    let (range, position) = text.split_once(':')?;
    let range = RangeId(range.parse().ok()?);
    let mut parts = position.split('#');
    let first = parts.next()?;
    let Some(lsn) = parts.next() else {
        // The oldest form: a position only.
        return Some((range, lsn(first)?));
    };
    first.parse::<i64>().ok()?;
    for region in parts {
        let (region, position) = region.split_once('=')?;
        region.parse::<u64>().ok()?;
        position.parse::<i64>().ok()?;
    }
    Some((range, self::lsn(lsn)?))
}

/// Parses a position; -1 means that there is none yet.
fn lsn(text: &str) -> Option<Lsn> {
    match text.parse::<i64>().ok()? {
        -1 => Some(Lsn(0)),
        n => Some(Lsn(u64::try_from(n).ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsns_of(pairs: &[(u32, u64)]) -> Vec<(RangeId, Lsn)> {
        pairs.iter().map(|(range, lsn)| (RangeId(*range), Lsn(*lsn))).collect()
    }

    #[test]
    fn a_token_names_its_range_unless_that_stands_beside_it() {
        assert_eq!(token(RangeId(7), Lsn(57)), b"7:-1#57");
        assert_eq!(token_without_range(Lsn(57)), b"-1#57");
    }

    #[test]
    fn every_form_is_read() {
        let cases: &[(&str, &[(u32, u64)])] = &[
            ("", &[]),
            ("0:-1#57", &[(0, 57)]),
            ("0:0#12#11=-1", &[(0, 12)]),
            ("0:1#9#4=8#7=5", &[(0, 9)]),
            ("3:-1#0", &[(3, 0)]),
            ("0:57", &[(0, 57)]),
            ("0:-1#-1", &[(0, 0)]),
            ("0:-1#5,1:-1#9", &[(0, 5), (1, 9)]),
            (" 1:-1#9 , 0:-1#5 ", &[(0, 5), (1, 9)]),
            ("1:-1#9,1:-1#12,1:-1#3", &[(1, 12)]),
            ("0:-1#5,1", &[(0, 5)]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).ok(), Some(lsns_of(expected)), "{text}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        for text in [
            "x",
            "0",
            "1,0:-1#5",
            "0:",
            ":-1#5",
            "a:-1#5",
            "0:-1#",
            "0:-1#x",
            "0:x#5",
            "0:-1#-2",
            "0:-1#5#",
            "0:-1#5#1",
            "0:-1#5#a=1",
            "0:-1#5#1=b",
            "99999999999:-1#5",
            "0:-1#99999999999999999999",
            "0:-1#5;1:-1#6",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.status(), 400, "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for (range, lsn, expected) in [(0, 57, "0:-1#57"), (7, 4_294_967_295, "7:-1#4294967295")] {
            let text = String::from_utf8(token(RangeId(range), Lsn(lsn))).unwrap();
            assert_eq!(text, expected);
            assert_eq!(parse(&text).ok(), Some(lsns_of(&[(range, lsn)])));
        }
    }
}
