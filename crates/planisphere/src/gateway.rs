//! Dispatches the requests of each port: the process's own probes, the admin API, the data APIs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use account::{Key, RequestSource, Scheme};
use api_nosql::Service;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tracing::error;

use crate::admin::Admin;
use crate::connections::{Activity, Connections, Phase, UnreadBody, WatchedBody, discard_unread};
use crate::explorer::Explorer;
use crate::health::Health;
use crate::listen::{Listener, Peer};
use crate::origins::{OriginCheck, OriginPolicy, cors};
use crate::room::{Demand, no_room};
use crate::tls::Tls;

/// Everything a connection needs to answer requests.
pub(crate) struct Gateway {
    pub(crate) service: Arc<Service>,
    pub(crate) tables: Arc<api_table::Service>,
    pub(crate) admin: Arc<Admin>,
    pub(crate) explorer: Explorer,
    pub(crate) health: Arc<Health>,
    pub(crate) tls: Tls,
    pub(crate) connections: Connections,
    pub(crate) origin_policy: OriginPolicy,
}

/// The state of one connection.
pub(crate) struct ConnectionHandler {
    gateway: Arc<Gateway>,
    peer: Peer,
    scheme: Scheme,
    activity: Arc<Activity>,
    unread_body: UnreadBody,
}

impl ConnectionHandler {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        peer: Peer,
        scheme: Scheme,
        activity: Arc<Activity>,
    ) -> Self {
        Self { gateway, peer, scheme, activity, unread_body: UnreadBody::default() }
    }

    /// The activity record of the connection.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }

    /// Answers one request.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let activity = &self.activity;
        let request = request.map(|body| {
            WatchedBody::new(body, Arc::clone(activity), Arc::clone(&self.unread_body))
        });
        let mut response = if let Some(probe) = Probe::of(&request) {
            self.gateway.answer_probe(probe).await
        } else {
            self.answer_in_room(request).await
        };
        // A body that was refused because it is slow is not read further.
        let timeout = match response.status() {
            StatusCode::REQUEST_TIMEOUT => Duration::ZERO,
            _ => self.gateway.connections.body_time(),
        };
        let body_was_read = activity.phase() != Phase::Body
            || discard_unread(&self.unread_body, activity, timeout).await;
        if !body_was_read || self.gateway.connections.is_closing() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response.map(|body| activity.reply(body)))
    }
}

impl ConnectionHandler {
    /// Answers a request when there is memory for the reply.
    async fn answer_in_room(&self, request: Request<WatchedBody>) -> Response<Full<Bytes>> {
        let (listener, connections) = (self.peer.listener, &self.gateway.connections);
        let demand = Demand::of(&request, listener);
        if demand == Demand::Page {
            connections.wait_for_room().await;
        }
        let response = self.answer_by_listener(request).await;
        let bytes = response.body().size_hint().exact().unwrap_or_default();
        match demand {
            Demand::Page | Demand::Thing if !connections.has_room_for(bytes) => no_room(listener),
            Demand::Page | Demand::Thing | Demand::Change => response,
        }
    }

    async fn answer_by_listener(&self, request: Request<WatchedBody>) -> Response<Full<Bytes>> {
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
        let response = match self.peer.listener {
            Listener::Table(flavour) => {
                Box::pin(self.gateway.tables.serve(request, source, flavour)).await
            }
            Listener::Nosql if Explorer::owns(request.uri().path()) => {
                let public_key = self.gateway.service.public_key();
                self.gateway.explorer.answer(request.method(), public_key.as_ref().map(Key::expose))
            }
            Listener::Nosql if !Admin::owns(request.uri().path()) => {
                self.gateway.service.serve(request, source).await
            }
            // Boxed, so that other requests do not carry its state.
            Listener::Nosql | Listener::Admin => {
                Box::pin(self.gateway.admin.answer(request, self.peer)).await
            }
        };
        match origin {
            Some(origin) => cors::shown_to(&origin, response),
            None => response,
        }
    }
}

impl ConnectionHandler {
    /// Refuses requests that a browser sends for a page of another site: on the ports of the data
    /// while a key is well known, in the admin API always.
    fn check_site(&self, request: &Request<WatchedBody>) -> Result<(), String> {
        let Gateway { service, tables, origin_policy, .. } = &*self.gateway;
        let is_open = origin_policy.trusts_any;
        match self.peer.listener {
            Listener::Table(_) if !is_open && !tables.has_public_key() => Ok(()),
            Listener::Table(flavour) => {
                let allows = || {
                    let line = (request.method(), request.uri());
                    tables.allows_origin(line, request.headers(), flavour)
                };
                origin_policy.check(request, self.scheme, OriginCheck::HostAndOrigin, allows)
            }
            Listener::Nosql | Listener::Admin => {
                let level = if is_open || service.is_key_public() {
                    OriginCheck::HostAndOrigin
                } else if self.is_for_admin(request) {
                    OriginCheck::Origin
                } else {
                    return Ok(());
                };
                origin_policy.check(request, self.scheme, level, || false)
            }
        }
    }

    /// Whether only some of the accepted keys are well known, so that the key of the signature
    /// decides whether a request is refused.
    fn has_private_keys_too(&self) -> bool {
        match self.peer.listener {
            Listener::Table(_) => {
                !self.gateway.origin_policy.trusts_any && !self.gateway.tables.is_key_public()
            }
            Listener::Nosql | Listener::Admin => false,
        }
    }

    fn is_for_admin(&self, request: &Request<WatchedBody>) -> bool {
        match self.peer.listener {
            Listener::Table(_) => false,
            Listener::Nosql => Admin::owns(request.uri().path()),
            Listener::Admin => true,
        }
    }

    /// The refusal of a request in the form of the addressed API.
    fn refuse(
        &self,
        request: Request<WatchedBody>,
        source: RequestSource,
        reason: String,
    ) -> Response<Full<Bytes>> {
        let is_for_admin = self.is_for_admin(&request);
        let (head, _body) = request.into_parts();
        match self.peer.listener {
            Listener::Table(flavour) => self.gateway.tables.refuse(&head, source, flavour, reason),
            Listener::Nosql if !is_for_admin => self.gateway.service.refuse(&head, source, reason),
            Listener::Nosql | Listener::Admin => {
                self.gateway.admin.refuse(&head, self.peer, reason)
            }
        }
    }
}

/// Requests about the process, which need no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Whether the server is ready.
    Ready,
    /// The health of the store.
    Health,
    /// The certificate to trust.
    Authority,
}

impl Probe {
    fn of<B>(request: &Request<B>) -> Option<Self> {
        let probe = match request.uri().path() {
            "/ready" => Probe::Ready,
            "/healthz" => Probe::Health,
            "/_explorer/emulator.pem" => Probe::Authority,
            _ => return None,
        };
        (request.method() == Method::GET || request.method() == Method::HEAD).then_some(probe)
    }
}

impl Gateway {
    async fn answer_probe(&self, probe: Probe) -> Response<Full<Bytes>> {
        match probe {
            Probe::Ready => self.answer_ready().await,
            Probe::Health => self.answer_health().await,
            Probe::Authority => self.answer_authority().await,
        }
    }

    async fn answer_ready(&self) -> Response<Full<Bytes>> {
        if self.connections.is_closing() {
            return json(StatusCode::SERVICE_UNAVAILABLE, r#"{"ready":false}"#.to_owned());
        }
        let health = self.health.get().await;
        if !health.writable {
            let body = serde_json::json!({"ready": false, "reason": health.reason});
            return json(StatusCode::SERVICE_UNAVAILABLE, body.to_string());
        }
        json(StatusCode::OK, r#"{"ready":true}"#.to_owned())
    }

    async fn answer_health(&self) -> Response<Full<Bytes>> {
        let health = self.health.get().await;
        let (status, text) = if health.writable {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "read-only")
        };
        let body = serde_json::json!({
            "status": text,
            "store": {
                "writable": health.writable,
                "stalled": health.stalled,
                "diskBytes": health.disk_bytes,
                "journalBytes": health.journal_bytes,
                "lookupCacheBytes": health.lookup_cache_bytes,
                "batches": health.batches,
                "diskFreeBytes": health.room.map(|room| room.free_bytes),
                "diskFloorBytes": health.room.map(|room| room.floor_bytes),
            },
            "reason": health.reason,
        });
        json(status, body.to_string())
    }

    async fn answer_authority(&self) -> Response<Full<Bytes>> {
        match self.tls.authority_pem().await {
            Ok(pem) => {
                let pem_type = HeaderValue::from_static("application/x-pem-file");
                respond(StatusCode::OK, pem_type, pem.to_owned())
            }
            Err(error) => {
                error!(error = format!("{error:#}"), "certificate authority not available");
                let message = r#"{"code":"InternalServerError","message":"the server's certificates are not available; see the server's log"}"#;
                json(StatusCode::INTERNAL_SERVER_ERROR, message.to_owned())
            }
        }
    }
}

fn json(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    respond(status, HeaderValue::from_static("application/json"), body)
}

fn respond(status: StatusCode, media_type: HeaderValue, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

#[cfg(test)]
pub(crate) mod tests {
    use account::{Directory, DirectoryMode, Key, KeyRing};
    use api_nosql::{Account, Consistency};
    use engine::{Components, Engine};
    use front_http::RequestLimits;
    use http_body_util::BodyExt;
    use storage::MemoryStore;

    use super::*;
    use crate::connections::ConnectionLimits;
    use crate::key_store::KeyStore;
    use crate::metrics::{Metrics, Requests};

    /// The Table API over an engine.
    pub(crate) fn tables(engine: &Engine) -> Arc<api_table::Service> {
        let accounts = api_table::Accounts {
            keys: KeyRing::single(Key::well_known()),
            has_development_key: true,
            others: Vec::new(),
            has_local_auth: true,
            checks_dates: true,
            default_throughput: None,
        };
        let directory = Arc::new(Directory::new(DirectoryMode::StandIn));
        let hooks = api_table::Hooks { observer: None, directory };
        api_table::Service::new(engine.clone(), accounts, RequestLimits::default(), hooks)
    }

    fn gateway() -> (Gateway, Engine) {
        let components = Components::system(tokio::runtime::Handle::current());
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(store, components, engine::Settings::default()).unwrap();
        let account = Account {
            name: "test".into(),
            keys: KeyRing::single(Key::well_known()),
            public_endpoint: None,
            consistency: Consistency::Session,
            local_auth: true,
        };
        let long = Duration::from_secs(3600);
        let limits = ConnectionLimits { open_max: 1, head: long, body: long };
        let service = Service::new(engine.clone(), account);
        let tables = tables(&engine);
        let ring = KeyRing::single(Key::well_known());
        let keys = KeyStore::new(Arc::clone(&service), Arc::clone(&tables), ring, None);
        let health = Arc::new(Health::new(engine.clone()));
        let connections = Connections::new(limits);
        let requests = Arc::new(Requests::default());
        let metrics = Metrics::new(&engine, requests, connections.clone(), Arc::clone(&health));
        let service_of_admin = Arc::clone(&service);
        let admin = Admin::new(engine.clone(), service_of_admin, keys, metrics, None, long, true);
        let tls = Tls::new(None, Vec::new());
        let (origin_policy, explorer) = (OriginPolicy::default(), Explorer::default());
        let gateway =
            Gateway { service, tables, admin, explorer, health, tls, connections, origin_policy };
        (gateway, engine)
    }

    async fn ask(gateway: &Gateway, probe: Probe) -> (u16, String) {
        let response = gateway.answer_probe(probe).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_server_that_is_stopping_is_not_ready() {
        let (gateway, _) = gateway();
        assert_eq!(ask(&gateway, Probe::Ready).await, (200, r#"{"ready":true}"#.into()));
        gateway.connections.drain(Duration::ZERO).await;
        assert_eq!(ask(&gateway, Probe::Ready).await, (503, r#"{"ready":false}"#.into()));
    }

    #[tokio::test]
    async fn health_is_that_of_the_engine() {
        let (running, _engine) = gateway();
        let (status, body) = ask(&running, Probe::Health).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, &body["status"], &body["store"]["writable"]),
            (200, &"ok".into(), &true.into())
        );
        let (stopped, engine) = gateway();
        engine.close().await.unwrap();
        let (status, body) = ask(&stopped, Probe::Health).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["status"]), (503, &"read-only".into()));
        assert_eq!(body["store"]["writable"], false);
    }
}
