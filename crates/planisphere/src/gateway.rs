//! HTTP: takes the requests of a connection and passes each to the probes of the process, or to the
//! API that the connection's listener is for.

mod api;
mod probes;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use account::Scheme;
use api_nosql::Service;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::admin::Admin;
use crate::connections::{
    Activity, Connections, Phase, UnreadBody, WatchedBody, WatchedStream, discard_unread,
};
use crate::explorer::Explorer;
use crate::health::Health;
use crate::listen::Peer;
use crate::metrics::DirectCounters;
use crate::origins::OriginPolicy;
use crate::protocol::{Connection, Protocol, Recognition};
use crate::room::Demand;
use crate::tls::Tls;

pub(crate) use api::Api;
use probes::Probe;

/// Everything a connection needs to answer requests.
pub(crate) struct Gateway {
    pub(crate) service: Arc<Service>,
    pub(crate) tables: Arc<api_table::Service>,
    pub(crate) mongo: Arc<api_mongo::Service>,
    pub(crate) admin: Arc<Admin>,
    pub(crate) explorer: Explorer,
    pub(crate) health: Arc<Health>,
    pub(crate) tls: Tls,
    pub(crate) connections: Connections,
    pub(crate) origin_policy: OriginPolicy,
    pub(crate) http: http1::Builder,
    /// Counts of Direct mode.
    pub(crate) direct: Arc<DirectCounters>,
    /// Whether only this machine can connect to the ports of the data.
    pub(crate) is_on_loopback: bool,
}

/// How HTTP is read, for requests whose heads have at most so many bytes.
pub(crate) fn http(header_bytes_max: usize) -> http1::Builder {
    let mut http = http1::Builder::new();
    // Time limits are kept by `Connections`, which needs no timer per connection. A head that is
    // only slightly too large reaches the API, which answers with an error in its own form.
    http.header_read_timeout(None).max_header_size(header_bytes_max.saturating_mul(2));
    http
}

/// HTTP/1.1, for one of the APIs.
pub(crate) struct Http(pub(crate) Api);

impl Protocol for Http {
    /// Any client that speaks no other protocol; one that speaks none gets a bare 400.
    fn recognise(_: &[u8]) -> Recognition {
        Recognition::Yes
    }

    async fn serve<S>(self, stream: S, connection: Connection) -> anyhow::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Connection { gateway, peer, scheme, activity, .. } = connection;
        let stream = TokioIo::new(WatchedStream::new(stream, Arc::clone(&activity)));
        let handler = ConnectionHandler {
            api: self.0,
            gateway: &gateway,
            peer,
            scheme,
            activity,
            unread_body: UnreadBody::default(),
        };
        let answer = service_fn(|request| handler.answer(request));
        gateway.http.serve_connection(stream, answer).await?;
        Ok(())
    }
}

/// The state of one connection.
struct ConnectionHandler<'c> {
    api: Api,
    gateway: &'c Gateway,
    peer: Peer,
    scheme: Scheme,
    activity: Arc<Activity>,
    unread_body: UnreadBody,
}

impl ConnectionHandler<'_> {
    /// Answers one request.
    async fn answer(
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

    /// Answers a request when there is memory for the reply.
    async fn answer_in_room(&self, request: Request<WatchedBody>) -> Response<Full<Bytes>> {
        let connections = &self.gateway.connections;
        let demand = self.api.demand(&request);
        if demand == Demand::Page {
            connections.wait_for_room().await;
        }
        let response = self.answer_by_listener(request).await;
        let bytes = response.body().size_hint().exact().unwrap_or_default();
        match demand {
            Demand::Page | Demand::Thing if !connections.has_room_for(bytes) => self.api.no_room(),
            Demand::Page | Demand::Thing | Demand::Change => response,
        }
    }
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

    /// The MongoDB API over an engine.
    pub(crate) fn mongo(engine: &Engine) -> Arc<api_mongo::Service> {
        let settings = api_mongo::Settings {
            account: "test".to_owned(),
            host: "localhost".to_owned(),
            requires_login: false,
            has_test_commands: false,
            throttle_wait: Duration::ZERO,
        };
        let host = Arc::new(crate::mongo::Host { connections_max: 1 });
        let hooks = api_mongo::Hooks { observer: None, host, temporary_files: None };
        let keys = KeyRing::single(Key::well_known());
        api_mongo::Service::new(engine.clone(), keys, settings, hooks)
    }

    fn gateway() -> (Gateway, Engine) {
        let components = Components::system(tokio::runtime::Handle::current());
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(store, components, engine::Settings::default()).unwrap();
        let account = Account {
            name: "test".into(),
            keys: KeyRing::single(Key::well_known()),
            public_endpoint: None,
            region: "Local".to_owned(),
            consistency: Consistency::Session,
            local_auth: true,
            direct: api_nosql::Direct::default(),
        };
        let long = Duration::from_secs(3600);
        let limits = ConnectionLimits { open_max: 1, head: long, body: long };
        let service = Service::new(engine.clone(), account);
        let tables = tables(&engine);
        let ring = KeyRing::single(Key::well_known());
        let mongo = mongo(&engine);
        let apis = (Arc::clone(&service), Arc::clone(&tables), Arc::clone(&mongo));
        let keys = KeyStore::new(apis, ring, None);
        let health = Arc::new(Health::new(engine.clone()));
        let connections = Connections::new(limits);
        let requests = Arc::new(Requests::default());
        let direct = Arc::clone(&requests.direct);
        let metrics = Metrics::new(&engine, requests, connections.clone(), Arc::clone(&health));
        let service_of_admin = Arc::clone(&service);
        let admin = Admin::new(engine.clone(), service_of_admin, keys, metrics, None, long, true);
        let tls = Tls::new(None, Vec::new());
        let http = http(8192);
        let (origin_policy, explorer) = (OriginPolicy::default(), Explorer::default());
        let gateway = Gateway {
            service,
            tables,
            mongo,
            admin,
            explorer,
            health,
            tls,
            connections,
            origin_policy,
            http,
            direct,
            is_on_loopback: true,
        };
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
