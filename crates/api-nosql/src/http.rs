//! The API over HTTP: the only module that knows HTTP's requests and responses. Another wire is
//! another module like this one.

mod reply;
mod request;

use std::pin::pin;
use std::sync::Arc;

use account::{Caller, RequestSource};
use bytes::Bytes;
use front_http::catch_panic;
use http_body_util::Full;
use hyper::Response;
use hyper::body::Body;
use hyper::http::request::Parts;
use tracing::error;

pub(crate) use reply::StaticHeaders;

use crate::Service;
use crate::address;
use crate::errors::ApiError;
use crate::observe::Wire;
use crate::service::Denied;

impl Service {
    /// Answers one request. Infallible: every error, a panic included, becomes a response.
    ///
    /// Dropping the future abandons the request; writes that the engine has already received are
    /// still committed. The body of a refused request may be left unread; the owner of the
    /// connection decides how much of it to take before it sends the response.
    pub async fn serve<B: Body>(
        self: &Arc<Self>,
        request: hyper::Request<B>,
        source: impl Into<RequestSource>,
    ) -> Response<Full<Bytes>> {
        let source = source.into();
        let (parts, body) = request.into_parts();
        let location = request::location(&parts, source.scheme);
        let head = request::head(&parts, source);
        let mut exchange = self.exchange(&head, Wire::Http);
        let caught = {
            let answer = pin!(async {
                let segments = address::segments_of(head.path, parts.uri.query());
                let target = self.admit(&head, segments, &mut exchange)?;
                let body = self.bodies().read(body, self.clock()).await?;
                self.answer(head.with_body(target, body.bytes.clone()), &mut exchange).await
            });
            catch_panic(answer).await
        };
        let result = caught.unwrap_or_else(|message| {
            error!(activity = ?exchange.activity, panic = message, "a request handler panicked");
            Err(ApiError::internal())
        });
        let (reply, envelope) = self.finish(result, &mut exchange);
        reply::response(reply, envelope, location, self.static_headers())
    }

    /// The response to a request that is refused because of its origin.
    pub fn refuse(
        &self,
        parts: &Parts,
        source: RequestSource,
        reason: String,
    ) -> Response<Full<Bytes>> {
        let head = request::head(parts, source);
        let mut exchange = self.exchange(&head, Wire::Http);
        let (reply, envelope) = self.forbid(reason, &mut exchange);
        let location = request::location(parts, source.scheme);
        reply::response(reply, envelope, location, self.static_headers())
    }

    /// Identifies the sender of a request for another part of the server that the same keys
    /// protect. Its `Authorization` is `Bearer` with an account key, or a signature as in requests
    /// of this API. `None` if it has none.
    pub fn authenticate(&self, parts: &Parts) -> Result<Option<Caller>, Denied> {
        let head = request::head(parts, account::Scheme::Http.into());
        self.key_holder(&head, address::segments_of(head.path, parts.uri.query()))
    }
}
