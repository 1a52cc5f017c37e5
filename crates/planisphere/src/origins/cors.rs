//! The CORS headers with which browsers let pages send requests and see the responses.
//!
//! Only pages of origins in `--allow-host` get them, each by its own name, and never with
//! permission to send the user's credentials.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, VARY,
};
use hyper::{Method, Request, Response, StatusCode};

/// Browsers send this in a preflight request before a page of the internet accesses this machine.
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");
/// How many seconds a browser may cache a preflight response.
const MAX_AGE_S: &str = "600";

/// The response to a preflight request; `None` for other requests.
pub(crate) fn preflight<B>(request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    let asked = request.headers();
    let method = asked.get(ACCESS_CONTROL_REQUEST_METHOD)?;
    if request.method() != Method::OPTIONS {
        return None;
    }
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    if asked.contains_key(REQUEST_PRIVATE_NETWORK) {
        headers.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S));
    Some(response)
}

/// Lets pages of `origin` read a response, unless its headers already name an origin.
pub(crate) fn shown_to<B>(origin: &HeaderValue, mut response: Response<B>) -> Response<B> {
    let headers = response.headers_mut();
    if !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_asks_is_granted_as_asked() {
        let asked = Request::builder()
            .method(Method::OPTIONS)
            .header(ACCESS_CONTROL_REQUEST_METHOD, "PATCH")
            .header(ACCESS_CONTROL_REQUEST_HEADERS, "authorization,x-ms-date")
            .header(REQUEST_PRIVATE_NETWORK, "true");
        let response = preflight(&asked.body(()).unwrap()).unwrap();
        let told = |name: HeaderName| response.headers().get(name).map(|v| v.to_str().unwrap());
        assert_eq!(told(ACCESS_CONTROL_ALLOW_METHODS), Some("PATCH"));
        assert_eq!(told(ACCESS_CONTROL_ALLOW_HEADERS), Some("authorization,x-ms-date"));
        assert_eq!(told(ALLOW_PRIVATE_NETWORK), Some("true"));
        assert_eq!(told(ACCESS_CONTROL_ALLOW_ORIGIN), None);
        let plain = Request::builder().method(Method::OPTIONS).body(()).unwrap();
        assert!(preflight(&plain).is_none());
        let other = Request::builder().header(ACCESS_CONTROL_REQUEST_METHOD, "GET");
        assert!(preflight(&other.body(()).unwrap()).is_none());
    }

    #[test]
    fn a_response_that_says_who_may_see_it_stays() {
        let mut response = Response::new(());
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        let response = shown_to(&HeaderValue::from_static("http://a.example"), response);
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "http://a.example");
        let vary: Vec<_> = response.headers().get_all(VARY).iter().collect();
        assert_eq!(vary, ["Accept", "Origin"]);
        let vary: Vec<_> = vary.into_iter().cloned().collect();
        let response = shown_to(&HeaderValue::from_static("http://b.example"), response);
        assert!(response.headers().get_all(VARY).iter().eq(&vary));
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "http://a.example");
    }
}
