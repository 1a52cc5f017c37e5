//! Multipart bodies of batches (RFC 2046), as clients write them.
//!
//! Parts are found by their boundaries at the beginning of lines, not by the form of their
//! contents: a property may hold a text that looks like another boundary, a request or a JSON
//! object. Lines may end with or without a carriage return.

/// Most parts that are read; one more than a changeset may have, so that the excess can be
/// reported.
pub(crate) const PARTS_MAX: usize = 102;
/// Most header lines of a part.
const HEADERS_MAX: usize = 32;
/// Longest boundary (RFC 2046).
const BOUNDARY_BYTES_MAX: usize = 70;

/// A request inside a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part<'b> {
    pub(crate) method: &'b str,
    pub(crate) url: &'b str,
    /// Headers of the request, then those of the part around it.
    headers: Vec<(&'b str, &'b str)>,
    pub(crate) body: &'b [u8],
}

impl<'b> Part<'b> {
    /// The value of a header, by its name in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&'b str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// The contents of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Batch<'b> {
    /// Changes that are committed together.
    Changeset(Vec<Part<'b>>),
    /// Requests outside of a changeset.
    Individual(Vec<Part<'b>>),
}

/// The boundary of a media type, if that is `multipart/mixed`.
pub(crate) fn boundary_of(media_type: &str) -> Option<&str> {
    let (kind, parameters) = media_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        let is_it = name.trim().eq_ignore_ascii_case("boundary");
        (is_it && !value.is_empty() && value.len() <= BOUNDARY_BYTES_MAX).then_some(value)
    })
}

/// Parses a batch; `None` if it is invalid.
pub(crate) fn parse<'b>(body: &'b [u8], boundary: &str) -> Option<Batch<'b>> {
    let parts = split(body, boundary)?;
    let mut loose = Vec::new();
    for part in &parts {
        let (headers, content) = read_headers(part)?;
        let media_type = find(&headers, "content-type").unwrap_or_default();
        match boundary_of(media_type) {
            Some(inner) if parts.len() == 1 => {
                let inner = split(content, inner)?;
                let changes = inner.iter().map(|part| read_request(part));
                return changes.collect::<Option<Vec<_>>>().map(Batch::Changeset);
            }
            // A second changeset.
            Some(_) => return None,
            None => loose.push(read_request(part)?),
        }
    }
    Some(Batch::Individual(loose))
}

/// The text between boundaries. A body without its last boundary is incomplete.
fn split<'b>(body: &'b [u8], boundary: &str) -> Option<Vec<&'b [u8]>> {
    let mut parts = Vec::new();
    let mut start = None;
    let mut at = 0;
    while at < body.len() {
        let end = next_line(body, at);
        let line = body.get(at..end)?;
        if let Some(is_last) = delimiter(line, boundary) {
            if let Some(start) = start {
                parts.push(without_line_end(body.get(start..at)?));
                if parts.len() > PARTS_MAX {
                    return Some(parts);
                }
            }
            if is_last {
                return Some(parts);
            }
            start = Some(end);
        }
        at = end;
    }
    None
}

fn next_line(body: &[u8], at: usize) -> usize {
    let rest = body.get(at..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(body.len(), |n| at + n + 1)
}

/// Whether a line is a boundary, and if so, whether it is the last one.
fn delimiter(line: &[u8], boundary: &str) -> Option<bool> {
    let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?;
    let rest = rest.trim_ascii_end();
    match rest {
        b"" => Some(false),
        b"--" => Some(true),
        _ => None,
    }
}

/// The line end before a boundary belongs to the boundary.
fn without_line_end(part: &[u8]) -> &[u8] {
    let part = part.strip_suffix(b"\n").unwrap_or(part);
    part.strip_suffix(b"\r").unwrap_or(part)
}

type Headers<'b> = Vec<(&'b str, &'b str)>;

fn find<'b>(headers: &Headers<'b>, name: &str) -> Option<&'b str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// Header lines up to an empty line, and the rest.
fn read_headers(part: &[u8]) -> Option<(Headers<'_>, &[u8])> {
    let mut headers = Vec::new();
    let mut at = 0;
    loop {
        let end = next_line(part, at);
        let line = std::str::from_utf8(part.get(at..end)?).ok()?.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Some((headers, part.get(end..).unwrap_or_default()));
        }
        let (name, value) = line.split_once(':')?;
        if headers.len() == HEADERS_MAX {
            return None;
        }
        headers.push((name.trim(), value.trim()));
        at = end;
    }
}

/// A request: the headers of its part, its line, its own headers, its body.
fn read_request(part: &[u8]) -> Option<Part<'_>> {
    let (around, content) = read_headers(part)?;
    let end = next_line(content, 0);
    let line = std::str::from_utf8(content.get(..end)?).ok()?.trim();
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let (method, url) = (words.next()?, words.next()?);
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    if words.next().is_some() {
        return None;
    }
    let (mut headers, body) = read_headers(content.get(end..)?)?;
    headers.extend(around);
    Some(Part { method, url, headers, body: body.trim_ascii() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PYTHON: &str = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_2\r\n\r\n\
        --changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
        Content-ID: 0\r\n\r\nPATCH http://h/a/t(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\
        Content-Type: application/json\r\nIf-Match: *\r\n\r\n{\"v\":2}\r\n--changeset_2\r\n\
        Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 1\r\n\r\n\
        DELETE http://h/a/t(PartitionKey='p',RowKey='s') HTTP/1.1\r\nIf-Match: *\r\n\r\n\r\n\
        --changeset_2--\r\n\r\n--batch_1--\r\n";

    fn changes(body: &str) -> Vec<Part<'_>> {
        match parse(body.as_bytes(), "batch_1") {
            Some(Batch::Changeset(parts)) => parts,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_are_read_as_the_sdks_write_them() {
        for body in [PYTHON.to_owned(), PYTHON.replace("\r\n", "\n")] {
            let parts = changes(&body);
            assert_eq!(parts.len(), 2);
            assert_eq!((parts[0].method, parts[0].body), ("PATCH", &b"{\"v\":2}"[..]));
            assert_eq!(parts[0].url, "http://h/a/t(PartitionKey='p',RowKey='r')");
            assert_eq!(parts[0].header("if-match"), Some("*"));
            assert_eq!(parts[1].header("content-id"), Some("1"));
            assert_eq!((parts[1].method, parts[1].body), ("DELETE", &b""[..]));
        }
    }

    #[test]
    fn blank_lines_and_small_letters_do_no_harm() {
        let body = "--batch_1\r\ncontent-type: multipart/mixed; boundary=\"changeset_2\"\r\n\r\n\r\n\
            --changeset_2\r\ncontent-type: application/http\r\n\
            content-transfer-encoding: binary\r\n\r\nPOST /t HTTP/1.1\r\naccept: application/json\r\n\
            \r\n\r\n{\"a\":1}\r\n--changeset_2--\r\n--batch_1--";
        let parts = changes(body);
        assert_eq!(
            (parts[0].method, parts[0].url, parts[0].body),
            ("POST", "/t", &b"{\"a\":1}"[..])
        );
    }

    #[test]
    fn texts_that_look_like_something_else_are_texts() {
        let value = "--batch_1 {\\\"x\\\":1} HTTP/1.1 --changeset_2";
        let body = PYTHON.replace("{\"v\":2}", &format!("{{\"v\":\"{value}\"}}"));
        let parts = changes(&body);
        assert_eq!(parts.len(), 2);
        assert!(parts[0].body.ends_with(b"--changeset_2\"}"));
    }

    #[test]
    fn one_request_may_stand_alone() {
        let body =
            "--b\r\nContent-Type: application/http\r\n\r\nGET http://h/t HTTP/1.1\r\n\r\n\r\n--b--";
        match parse(body.as_bytes(), "b") {
            Some(Batch::Individual(parts)) => {
                assert_eq!((parts.len(), parts[0].method), (1, "GET"))
            }
            other => panic!("{other:?}"),
        }
        let empty = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--b--\r\n";
        assert_eq!(parse(empty.as_bytes(), "b"), Some(Batch::Changeset(Vec::new())));
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for cut in 0..PYTHON.len() - "--batch_1--\r\n".len() {
            assert_eq!(parse(&PYTHON.as_bytes()[..cut], "batch_1"), None, "{cut}");
        }
        let twice = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n";
        let twice = format!("{twice}{twice}--b--");
        assert_eq!(parse(twice.as_bytes(), "b"), None);
    }

    #[test]
    fn boundaries_are_found_in_media_types() {
        assert_eq!(boundary_of("multipart/mixed; boundary=x_1"), Some("x_1"));
        assert_eq!(boundary_of("Multipart/Mixed;charset=utf-8;boundary=\"x\""), Some("x"));
        for bad in ["", "application/json", "multipart/mixed", "multipart/mixed; boundary="] {
            assert_eq!(boundary_of(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(
            pieces in proptest::collection::vec("(--batch_1|--changeset_2|--|\r\n|\n|POST /t HTTP/1.1|Content-Type: multipart/mixed; boundary=changeset_2|a:b|\\PC)", 0..40)
        ) {
            let _ = parse(pieces.concat().as_bytes(), "batch_1");
        }
    }
}
