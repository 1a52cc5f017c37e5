//! What answers on the NoSQL port: the process's own probes, then the NoSQL API.

use std::convert::Infallible;
use std::sync::Arc;

use api_nosql::{Scheme, Service};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use storage::LocalStore;
use tracing::error;

use crate::connections::{Activity, Connections, Leftover, Phase, WatchedBody, swallow};
use crate::tls::Tls;

/// Everything a connection needs to answer requests.
pub(crate) struct Gateway {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Arc<dyn LocalStore>,
    pub(crate) tls: Tls,
    pub(crate) connections: Connections,
}

/// One connection's view of the gateway.
pub(crate) struct Session {
    gateway: Arc<Gateway>,
    scheme: Scheme,
    activity: Arc<Activity>,
    leftover: Leftover,
}

impl Session {
    pub(crate) fn new(gateway: Arc<Gateway>, scheme: Scheme, activity: Arc<Activity>) -> Self {
        Self { gateway, scheme, activity, leftover: Leftover::default() }
    }

    /// Answers one request.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let activity = &self.activity;
        let request = request
            .map(|body| WatchedBody::new(body, Arc::clone(activity), Arc::clone(&self.leftover)));
        let mut response = match Probe::of(&request) {
            Some(probe) => self.gateway.answer_probe(probe).await,
            None => self.gateway.service.serve(request, self.scheme).await,
        };
        let body_was_read = activity.phase() != Phase::Body || swallow(&self.leftover).await;
        if !body_was_read || self.gateway.connections.is_closing() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        activity.enter(Phase::Replying);
        Ok(response)
    }
}

/// Requests about the process, which need no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Can it serve?
    Ready,
    /// Is it well?
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
            Probe::Ready => self.answer_ready(),
            Probe::Health => self.answer_health(),
            Probe::Authority => self.answer_authority().await,
        }
    }

    fn answer_ready(&self) -> Response<Full<Bytes>> {
        if self.connections.is_closing() {
            return json(StatusCode::SERVICE_UNAVAILABLE, r#"{"ready":false}"#.to_owned());
        }
        json(StatusCode::OK, r#"{"ready":true}"#.to_owned())
    }

    fn answer_health(&self) -> Response<Full<Bytes>> {
        let health = self.store.health();
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
                "batches": health.batches,
            },
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
                let message = r#"{"code":"InternalServerError","message":"the server's certificates are not available; its log says why"}"#;
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
