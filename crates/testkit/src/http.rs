//! A blocking HTTP/1.1 client that sends exactly the bytes a test wants, over any stream.

use std::io::{self, Read, Write};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The server never sends a longer head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A response, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null when it is not.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A request, whole.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request without headers but `host`.
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![("host".to_owned(), "localhost".to_owned())],
            body: Vec::new(),
        }
    }

    /// Names this host instead of `localhost`.
    pub fn host(mut self, host: &str) -> Self {
        self.headers.retain(|(name, _)| name != "host");
        self.header("host", host)
    }

    /// Names this host in the request line, as clients of proxies do.
    pub fn to_host(mut self, host: &str) -> Self {
        self.path = format!("http://{host}{}", self.path);
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body and its length.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.header("content-length", &length)
    }

    /// Signs the request with an account key, as of now, and adds the headers every request of the
    /// NoSQL API has. `resource_type` and `link` are those of the protocol, for example `docs` and
    /// `dbs/d/colls/c/docs/i`.
    #[expect(clippy::disallowed_methods, reason = "the server compares with the real time")]
    pub fn signed(self, key: &str, resource_type: &str, link: &str) -> Self {
        let signed = sign(key, &self.method, resource_type, link, SystemTime::now());
        self.header("x-ms-version", "2020-07-15")
            .header("x-ms-date", &signed.date)
            .header("authorization", &signed.authorization)
    }

    /// Signs the request as one of the Table API (SharedKeyLite), as of now. `comp` is the query
    /// parameter of that name, or empty.
    #[expect(clippy::disallowed_methods, reason = "the server compares with the real time")]
    pub fn signed_for_tables(self, account: &str, key: &str, comp: &str) -> Self {
        let date = httpdate::fmt_http_date(SystemTime::now());
        let path = self.path.split('?').next().unwrap_or_default();
        let comp = if comp.is_empty() { String::new() } else { format!("?comp={comp}") };
        let signature = signature(key, &format!("{date}\n/{account}{path}{comp}"));
        self.header("x-ms-version", "2019-02-02")
            .header("x-ms-date", &date)
            .header("authorization", &format!("SharedKeyLite {account}:{signature}"))
    }

    /// The bytes on the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends the request and reads its response. The stream can be used again afterwards.
    pub fn send(&self, stream: &mut (impl Read + Write)) -> io::Result<Response> {
        stream.write_all(&self.bytes())?;
        stream.flush()?;
        read_response(stream)
    }
}

/// The two headers that authenticate a request.
#[derive(Clone, Debug)]
pub struct Signed {
    /// For `x-ms-date`.
    pub date: String,
    /// For `authorization`.
    pub authorization: String,
}

/// Signs a request with an account key, as of `when`.
pub fn sign(key: &str, method: &str, resource_type: &str, link: &str, when: SystemTime) -> Signed {
    let date = httpdate::fmt_http_date(when);
    let method = method.to_lowercase();
    let text = format!("{method}\n{resource_type}\n{link}\n{}\n\n", date.to_lowercase());
    let token = format!("type=master&ver=1.0&sig={}", signature(key, &text));
    let everything = percent_encoding::NON_ALPHANUMERIC;
    let authorization = percent_encoding::utf8_percent_encode(&token, everything).to_string();
    Signed { date, authorization }
}

/// The signature of a text by a key, in base64.
pub fn signature(key: &str, text: &str) -> String {
    let key = STANDARD.decode(key).expect("an account key is base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Reads one response with a `content-length`, or without a body.
pub fn read_response(stream: &mut impl Read) -> io::Result<Response> {
    let head = read_head(stream)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let status = status.parse().map_err(|_| invalid(format!("no status in {head:?}")))?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut response = Response { status, headers, body: Vec::new() };
    let length = response.header("content-length").unwrap_or("0");
    let length = length.parse().map_err(|_| invalid(format!("length is {length:?}")))?;
    response.body = vec![0; length];
    stream.read_exact(&mut response.body)?;
    Ok(response)
}

/// Reads up to the empty line, byte by byte so as not to consume what follows it.
fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
        if head.len() > HEAD_BYTES_MAX {
            return Err(invalid("the response head does not end".to_owned()));
        }
    }
    String::from_utf8(head).map_err(|_| invalid("the response head is not text".to_owned()))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_and_what_follows_is_left() {
        let mut bytes: &[u8] =
            b"HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Length: 2\r\n\r\nhiHTTP";
        let response = read_response(&mut bytes).unwrap();
        assert_eq!((response.status, response.text().as_str()), (404, "hi"));
        assert_eq!(response.header("x-a"), Some("b"));
        assert_eq!(bytes, b"HTTP");
    }

    #[test]
    fn a_cut_response_is_an_error() {
        assert!(
            read_response(&mut &b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"[..]).is_err()
        );
        assert!(read_response(&mut &b""[..]).is_err());
    }
}
