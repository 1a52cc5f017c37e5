//! The APIs that answer HTTP requests, and all in which a connection treats them differently.

use account::{Key, RequestSource};
use api_table::Flavour;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response};

use super::ConnectionHandler;
use crate::admin::Admin;
use crate::connections::WatchedBody;
use crate::explorer::Explorer;
use crate::listen::Browsers;
use crate::origins::{OriginCheck, cors};
use crate::room::{self, Demand};

/// An API over HTTP, in the row of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// The NoSQL API, with the admin API and the other paths.
    Nosql,
    /// The Table API.
    Table(Flavour),
    /// The admin API.
    Admin,
}

impl Api {
    /// How large the reply to a request can be.
    pub(super) fn demand<B>(self, request: &Request<B>) -> Demand {
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        let path = request.uri().path();
        let is_page = match self {
            Api::Table(_) => is_read && !path.contains("RowKey="),
            Api::Admin => path.ends_with("/query"),
            // Links to single resources have an even number of segments: `dbs/shop/colls/orders`.
            Api::Nosql => {
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

    /// The reply to a request that the client should retry later.
    pub(super) fn no_room(self) -> Response<Full<Bytes>> {
        let message = room::MESSAGE;
        room::no_room(&match self {
            Api::Nosql | Api::Admin => {
                serde_json::json!({"code": "ServiceUnavailable", "message": message})
            }
            Api::Table(_) => {
                let message = serde_json::json!({"lang": "en-us", "value": message});
                serde_json::json!({"odata.error": {"code": "ServerBusy", "message": message}})
            }
        })
    }

    /// Whether a request is for the admin API.
    fn is_for_admin<B>(self, request: &Request<B>) -> bool {
        match self {
            Api::Table(_) => false,
            Api::Nosql => Admin::owns(request.uri().path()),
            Api::Admin => true,
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

impl ConnectionHandler<'_> {
    /// Passes a request to its API, unless a page of another site may not send it.
    pub(super) async fn answer_by_listener(
        &self,
        request: Request<WatchedBody>,
    ) -> Response<Full<Bytes>> {
        let mut source = RequestSource::new(self.scheme, self.peer.address);
        if let Err(reason) = self.check_site(&request) {
            if self.has_private_keys_too() {
                source.is_cross_site = true;
            } else {
                return self.refuse(request, source, reason);
            }
        }
        let origin = self.gateway.origin_policy.allowed_origin(request.headers());
        if let Some(origin) = &origin
            && let Some(granted) = cors::preflight(&request)
        {
            return cors::shown_to(origin, granted);
        }
        let response = match self.api {
            Api::Table(flavour) => {
                Box::pin(self.gateway.tables.serve(request, source, flavour)).await
            }
            Api::Nosql if Explorer::owns(request.uri().path()) => {
                let public_key = self.gateway.service.public_key();
                self.gateway.explorer.answer(request.method(), public_key.as_ref().map(Key::expose))
            }
            Api::Nosql if !Admin::owns(request.uri().path()) => {
                self.gateway.service.serve(request, source).await
            }
            // Boxed, so that other requests do not carry its state.
            Api::Nosql | Api::Admin => {
                Box::pin(self.gateway.admin.answer(request, self.peer)).await
            }
        };
        match origin {
            Some(origin) => cors::shown_to(&origin, response),
            None => response,
        }
    }

    /// Refuses requests that a browser sends for a page of another site: on the ports of the data
    /// while a key is well known, in the admin API always.
    pub(super) fn check_site(&self, request: &Request<WatchedBody>) -> Result<(), String> {
        let policy = &self.gateway.origin_policy;
        let level = match self.peer.listener.browsers {
            _ if policy.trusts_any || self.has_public_key() => OriginCheck::HostAndOrigin,
            Browsers::Excluded => OriginCheck::HostAndOrigin,
            Browsers::AlwaysChecked => OriginCheck::Origin,
            Browsers::CheckedIfKeyIsPublic if self.api.is_for_admin(request) => OriginCheck::Origin,
            Browsers::CheckedIfKeyIsPublic => return Ok(()),
        };
        let is_allowed_by_rule = || match self.api {
            Api::Table(flavour) => {
                let line = (request.method(), request.uri());
                self.gateway.tables.allows_origin(line, request.headers(), flavour)
            }
            Api::Nosql | Api::Admin => false,
        };
        policy.check(request, self.scheme, level, is_allowed_by_rule)
    }

    /// Whether one of the keys that the API accepts is well known.
    fn has_public_key(&self) -> bool {
        match self.api {
            Api::Table(_) => self.gateway.tables.has_public_key(),
            Api::Nosql | Api::Admin => self.gateway.service.is_key_public(),
        }
    }

    /// Whether only some of the accepted keys are well known, so that the key of the signature
    /// decides whether a request is refused.
    pub(super) fn has_private_keys_too(&self) -> bool {
        match self.api {
            Api::Table(_) => {
                !self.gateway.origin_policy.trusts_any && !self.gateway.tables.is_key_public()
            }
            Api::Nosql | Api::Admin => false,
        }
    }

    /// The refusal of a request in the form of the addressed API.
    pub(super) fn refuse(
        &self,
        request: Request<WatchedBody>,
        source: RequestSource,
        reason: String,
    ) -> Response<Full<Bytes>> {
        let is_for_admin = self.api.is_for_admin(&request);
        let (head, _body) = request.into_parts();
        match self.api {
            Api::Table(flavour) => self.gateway.tables.refuse(&head, source, flavour, reason),
            Api::Nosql if !is_for_admin => self.gateway.service.refuse(&head, source, reason),
            Api::Nosql | Api::Admin => self.gateway.admin.refuse(&head, self.peer, reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use api_table::Flavour;

    use super::*;

    fn demand(api: Api, method: Method, path: &str, header: Option<(&str, &str)>) -> Demand {
        let mut request = Request::builder().method(method).uri(path);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        api.demand(&request.body(()).unwrap())
    }

    #[test]
    fn only_feeds_and_queries_wait_for_room() {
        let nosql = |method, path| demand(Api::Nosql, method, path, None);
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
            assert_eq!(demand(Api::Nosql, Method::POST, docs, Some(header)), Demand::Page);
            assert_eq!(demand(Api::Nosql, Method::PUT, docs, Some(header)), Demand::Change);
        }
        for flavour in [Flavour::Cosmos, Flavour::Storage] {
            let table = |method, path| demand(Api::Table(flavour), method, path, None);
            let entity = "/notes(PartitionKey='p',RowKey='r')";
            assert_eq!(table(Method::GET, "/notes()"), Demand::Page);
            assert_eq!(table(Method::GET, entity), Demand::Thing);
            assert_eq!(table(Method::PUT, entity), Demand::Change);
            assert_eq!(table(Method::POST, "/$batch"), Demand::Change);
        }
        let query = "/_admin/v1/containers/shop/orders/query";
        for api in [Api::Nosql, Api::Admin] {
            assert_eq!(demand(api, Method::POST, query, None), Demand::Page);
        }
        assert_eq!(demand(Api::Admin, Method::GET, "/_admin/v1/jobs", None), Demand::Thing);
    }
}
