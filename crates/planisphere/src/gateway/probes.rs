//! Requests about the process itself: whether it is ready, how the store is, which certificate to
//! trust. They need no key.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tracing::error;

use super::Gateway;

/// A request about the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// Whether the server is ready.
    Ready,
    /// The health of the store.
    Health,
    /// The certificate to trust.
    Authority,
}

impl Probe {
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
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
    pub(super) async fn answer_probe(&self, probe: Probe) -> Response<Full<Bytes>> {
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
