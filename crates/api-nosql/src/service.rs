//! The service: takes one HTTP request through its stations to a response.

use std::sync::Arc;

use bytes::Bytes;
use engine::Engine;
use http_body_util::Full;
use hyper::body::Body;
use hyper::{Request, Response};

use crate::{Account, Scheme};

/// The NoSQL API of one account over one engine.
pub struct Service {
    engine: Engine,
    account: Account,
}

impl Service {
    /// A service for `account` over `engine`.
    pub fn new(engine: Engine, account: Account) -> Arc<Self> {
        Arc::new(Self { engine, account })
    }

    /// Answers one request. Infallible: every error, a panic included, becomes a response.
    pub async fn serve<B>(
        self: &Arc<Self>,
        _request: Request<B>,
        _scheme: Scheme,
    ) -> Response<Full<Bytes>>
    where
        B: Body,
    {
        let _ = (&self.engine, &self.account);
        Response::new(Full::default())
    }

    /// The engine underneath.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}
