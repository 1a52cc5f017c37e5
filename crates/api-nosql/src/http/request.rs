//! From the head of an HTTP request to what the API knows of a request.

use account::{RequestSource, Scheme};
use bytes::Bytes;
use front_http::head_bytes;
use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use crate::address;
use crate::headers::{HeaderName, Headers};
use crate::request::RequestHead;

/// The head of a request.
pub(super) fn head(parts: &Parts, source: RequestSource) -> RequestHead<'_> {
    let path = parts.uri.path();
    let has_use_for_endpoint = matches!(path.trim_matches('/'), "" | address::ADDRESSES);
    let mut headers = Headers::new();
    for (name, value) in &parts.headers {
        if let Some(name) = HeaderName::of(name.as_str()) {
            headers.add(name, value.as_bytes());
        }
    }
    RequestHead {
        method: parts.method.as_str(),
        path,
        bytes: head_bytes(parts),
        endpoint: has_use_for_endpoint.then(|| endpoint(parts, source.scheme)).flatten(),
        headers,
        direct: None,
        source,
    }
}

/// The address at which the client reached the server, if the request states it in a form that can
/// be part of a link.
fn endpoint(parts: &Parts, scheme: Scheme) -> Option<String> {
    let host = || parts.headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let host = parts.uri.authority().cloned().or_else(host)?;
    Some(format!("{}://{host}/", scheme.as_str()))
}

/// The address a client used, for `Content-Location`; `None` when the request names no host.
pub(super) fn location(parts: &Parts, scheme: Scheme) -> Option<HeaderValue> {
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => parts.headers.get(HOST)?.as_bytes(),
    };
    let path = parts.uri.path().as_bytes();
    let mut out = Vec::with_capacity(8 + host.len() + path.len());
    out.extend_from_slice(scheme.as_str().as_bytes());
    out.extend_from_slice(b"://");
    out.extend_from_slice(host);
    out.extend_from_slice(path);
    HeaderValue::from_maybe_shared(Bytes::from(out)).ok()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn head_of(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn known_headers_are_kept_and_the_first_of_two_counts() {
        let headers = [("X-MS-Version", "1"), ("user-agent", "me"), ("x-ms-version", "2")];
        let parts = head_of("/dbs", &headers);
        let head = head(&parts, Scheme::Http.into());
        assert_eq!((head.method, head.path), ("GET", "/dbs"));
        assert_eq!(head.headers.text(HeaderName::Version), Some("1"));
        assert_eq!(format!("{:?}", head.headers), "[\"x-ms-version\"]");
    }

    #[test]
    fn an_account_has_the_address_that_the_client_used() {
        let endpoint = |uri: &str, headers: &[(&str, &str)]| {
            head(&head_of(uri, headers), Scheme::Https.into()).endpoint
        };
        assert_eq!(endpoint("/", &[("host", "a:1")]).as_deref(), Some("https://a:1/"));
        assert_eq!(endpoint("//", &[("host", "[::1]:1")]).as_deref(), Some("https://[::1]:1/"));
        assert_eq!(endpoint("http://b:2/", &[("host", "a")]).as_deref(), Some("https://b:2/"));
        assert_eq!(endpoint("/", &[("host", "a/b")]), None);
        assert_eq!(endpoint("/", &[]), None);
        assert_eq!(endpoint("//addresses/", &[("host", "a")]).as_deref(), Some("https://a/"));
        assert_eq!(endpoint("/dbs", &[("host", "a")]), None);
    }
}
