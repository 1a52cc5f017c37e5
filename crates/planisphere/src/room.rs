//! Requests with large replies, and the reply when there is no memory for one.
//!
//! Reply bytes that clients have not received stay in memory. While there are too many, feeds and
//! queries wait. Other requests continue, because clients that receive their replies must not
//! suffer from those that do not. If memory is exhausted, replies to reads are dropped.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::listen::Listener;

/// How large the reply to a request can be, and whether it may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A page of many resources, which can be read again.
    Page,
    /// One resource, which can be read again.
    Thing,
    /// The reply to a change, which must be delivered.
    Change,
}

impl Demand {
    /// The demand of a request.
    pub(crate) fn of<B>(request: &Request<B>, listener: Listener) -> Self {
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        let path = request.uri().path();
        let is_page = match listener {
            Listener::Table(_) => is_read && !path.contains("RowKey="),
            Listener::Admin => path.ends_with("/query"),
            // Links to single resources have an even number of segments: `dbs/shop/colls/orders`.
            Listener::Nosql => {
                let segments = path.split('/').filter(|segment| !segment.is_empty()).count();
                (is_read && segments % 2 == 1) || is_query(request) || path.ends_with("/query")
            }
        };
        match (is_page, is_read) {
            (true, _) => Demand::Page,
            (false, true) => Demand::Thing,
            (false, false) => Demand::Change,
        }
    }
}

/// Whether a request of the NoSQL API is a query.
fn is_query<B>(request: &Request<B>) -> bool {
    let is = |name: &str, start: &[u8]| {
        let value =
            request.headers().get(name).and_then(|value| value.as_bytes().get(..start.len()));
        value.is_some_and(|value| value.eq_ignore_ascii_case(start))
    };
    let says_so =
        || is("x-ms-documentdb-isquery", b"true") || is("content-type", b"application/query+json");
    request.method() == Method::POST && says_so()
}

/// The reply to a request that the client should retry later.
pub(crate) fn no_room(listener: Listener) -> Response<Full<Bytes>> {
    const MESSAGE: &str = "Clients have not taken too many of their answers, so there is no memory \
                           for more. Try again in a moment.";
    let body = match listener {
        Listener::Nosql | Listener::Admin => {
            serde_json::json!({"code": "ServiceUnavailable", "message": MESSAGE})
        }
        Listener::Table(_) => serde_json::json!({
            "odata.error": {"code": "ServerBusy", "message": {"lang": "en-us", "value": MESSAGE}}
        }),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use api_table::Flavour;

    use super::*;

    fn demand(
        listener: Listener,
        method: Method,
        path: &str,
        header: Option<(&str, &str)>,
    ) -> Demand {
        let mut request = Request::builder().method(method).uri(path);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        Demand::of(&request.body(()).unwrap(), listener)
    }

    #[test]
    fn only_feeds_and_queries_wait_for_room() {
        let nosql = |method, path| demand(Listener::Nosql, method, path, None);
        let docs = "/dbs/shop/colls/orders/docs";
        assert_eq!(nosql(Method::GET, docs), Demand::Page);
        assert_eq!(nosql(Method::GET, "/dbs"), Demand::Page);
        assert_eq!(nosql(Method::GET, "/dbs/shop/colls/orders/docs/1"), Demand::Thing);
        assert_eq!(nosql(Method::GET, "/"), Demand::Thing);
        assert_eq!(nosql(Method::POST, docs), Demand::Change);
        assert_eq!(nosql(Method::DELETE, "/dbs/shop"), Demand::Change);
        for header in [
            ("x-ms-documentdb-isquery", "True"),
            ("content-type", "application/query+json; charset=utf-8"),
        ] {
            assert_eq!(demand(Listener::Nosql, Method::POST, docs, Some(header)), Demand::Page);
            assert_eq!(demand(Listener::Nosql, Method::PUT, docs, Some(header)), Demand::Change);
        }
        for flavour in [Flavour::Cosmos, Flavour::Storage] {
            let table = |method, path| demand(Listener::Table(flavour), method, path, None);
            let entity = "/notes(PartitionKey='p',RowKey='r')";
            assert_eq!(table(Method::GET, "/notes()"), Demand::Page);
            assert_eq!(table(Method::GET, entity), Demand::Thing);
            assert_eq!(table(Method::PUT, entity), Demand::Change);
            assert_eq!(table(Method::POST, "/$batch"), Demand::Change);
        }
        let query = "/_admin/v1/containers/shop/orders/query";
        for listener in [Listener::Nosql, Listener::Admin] {
            assert_eq!(demand(listener, Method::POST, query, None), Demand::Page);
        }
        assert_eq!(demand(Listener::Admin, Method::GET, "/_admin/v1/jobs", None), Demand::Thing);
    }
}
