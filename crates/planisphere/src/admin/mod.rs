//! The admin API: operations on the server itself, for operators and tests.
//!
//! It answers on its own port and, below `/_admin/`, on the NoSQL port. A request passes
//! [`access`], is matched to one of the [`routes`], and runs on the engine. The JSON types are in
//! [`types`], which the command line parses too.

mod access;
mod containers;
mod databases;
mod faults;
mod jobs;
mod key_scans;
mod keys;
mod management;
mod partitions;
mod queries;
mod reply;
mod request;
mod routes;
#[cfg(test)]
mod tests;
mod throughput;
pub(crate) mod types;

use std::sync::Arc;
use std::time::Duration;

use api_nosql::Service;
use bytes::Bytes;
use engine::Engine;
use http_body_util::Full;
use hyper::body::Body;
use hyper::http::request::Parts;
use hyper::{Method, Response};
use tracing::{Level, debug, enabled, error, info, warn};

use crate::faults::Faults;
use crate::key_store::KeyStore;
use crate::listen::Peer;
use crate::metrics::{MEDIA_TYPE, Metrics};

pub(crate) use containers::{ContainerSizes, RangeSize};
use key_scans::KeyScanLimiter;
pub(crate) use reply::RETRY_AFTER_MS;
use reply::{AdminError, Reply};
use request::Request;
use routes::Route;

/// How long a request waits for a job to take its step before it reports the job's current phase.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The dependencies of the admin API.
pub(crate) struct Admin {
    engine: Engine,
    service: Arc<Service>,
    keys: KeyStore,
    metrics: Metrics,
    /// Present on servers that were started with fault injection.
    faults: Option<Arc<Faults>>,
    body_timeout: Duration,
    /// Whether the data lives in memory only.
    is_memory: bool,
    key_scans: KeyScanLimiter,
}

impl Admin {
    pub(crate) fn new(
        engine: Engine,
        service: Arc<Service>,
        keys: KeyStore,
        metrics: Metrics,
        faults: Option<Arc<Faults>>,
        body_timeout: Duration,
        is_memory: bool,
    ) -> Arc<Self> {
        let key_scans = KeyScanLimiter::default();
        Arc::new(Self {
            engine,
            service,
            keys,
            metrics,
            faults,
            body_timeout,
            is_memory,
            key_scans,
        })
    }

    /// Whether a path of the NoSQL port belongs to the admin API.
    pub(crate) fn owns(path: &str) -> bool {
        let below = path.strip_prefix(routes::PREFIX);
        path == routes::METRICS
            || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers one request. Infallible: every error becomes a response.
    pub(crate) async fn answer<B>(
        self: &Arc<Self>,
        request: hyper::Request<B>,
        peer: Peer,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let line = enabled!(Level::DEBUG)
            .then(|| (request.method().clone(), request.uri().path().to_owned()));
        let admitted = self.admit(request, peer).await;
        let answered = match admitted {
            Ok((route, request)) => self.run(route, request).await,
            Err(error) => Err(error),
        };
        let response = answered.unwrap_or_else(AdminError::into_reply).into_response();
        if let Some((method, path)) = line {
            let status = response.status().as_u16();
            debug!(%method, path, operation = "admin", status, "admin request served");
        }
        response
    }

    /// The response to a request that is refused because of its origin.
    pub(crate) fn refuse(&self, head: &Parts, peer: Peer, reason: String) -> Response<Full<Bytes>> {
        let error = AdminError::forbidden(reason);
        audit(head, peer, &error);
        error.into_reply().into_response()
    }

    /// All checks before the work: caller, route and body.
    async fn admit<B>(
        &self,
        request: hyper::Request<B>,
        peer: Peer,
    ) -> Result<(Route, Request), AdminError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let (head, body) = request.into_parts();
        access::check(&self.service, &head, peer).inspect_err(|error| audit(&head, peer, error))?;
        let route = routes::find(head.uri.path(), self.faults.is_some())?;
        let bytes_max = route.body_bytes_max();
        let request = Request::read(head, body, bytes_max, self.body_timeout).await?;
        Ok((route, request))
    }

    /// Runs a request in its own task, so that a panic is answered with 500. If the client
    /// disconnects, a change still runs to its end; a request that has changed nothing yet is
    /// cancelled.
    async fn run(self: &Arc<Self>, route: Route, request: Request) -> Result<Reply, AdminError> {
        let ends_with_caller = is_read(&request.method) || route.looks_before_it_acts();
        let admin = Arc::clone(self);
        let work = tokio::spawn(async move { admin.carry_out(route, &request).await });
        let _ended = ends_with_caller.then(|| EndOnDrop(work.abort_handle()));
        work.await.unwrap_or_else(|error| {
            error!(%error, "an admin request failed");
            Err(AdminError::internal())
        })
    }

    /// `GET /metrics`
    async fn metrics(&self) -> Result<Reply, AdminError> {
        let text = self.metrics.text().await.map_err(|_| AdminError::internal())?;
        Ok(Reply::text(MEDIA_TYPE, text))
    }

    async fn carry_out(&self, route: Route, request: &Request) -> Result<Reply, AdminError> {
        if !route.takes(&request.method) {
            return Err(AdminError::method_not_allowed(route.methods()));
        }
        let is_read = is_read(&request.method);
        let is_post = request.method == Method::POST;
        match route {
            Route::Index => Ok(routes::index(self.faults.is_some())),
            Route::Metrics => self.metrics().await,
            Route::Databases if is_post => self.create_database(request).await,
            Route::Databases => Ok(self.databases()),
            Route::Database(id) if is_read => self.database(&id),
            Route::Database(id) => self.delete_database(&id).await,
            Route::Containers => Ok(self.containers()),
            Route::ContainersOf(database) if is_post => {
                self.create_container(&database, request).await
            }
            Route::ContainersOf(database) => self.containers_of(&database),
            Route::Container(name) if is_read => self.container(&name),
            Route::Container(name) => self.delete_container(&name).await,
            Route::Reset => self.reset(request).await,
            Route::Partitions(name) => self.partitions(&name, request).await,
            Route::Split(name, range) => self.split(&name, range, request).await,
            Route::Merge(name) => self.merge(&name, request).await,
            Route::Throughput(name) if is_read => self.throughput(&name),
            Route::Throughput(name) => self.set_throughput(&name, request).await,
            Route::Keys => Ok(self.list_keys()),
            Route::RegenerateKey => self.regenerate_key(request),
            Route::Query(name) => self.query(&name, request).await,
            Route::Explain(name) => self.explain(&name, request).await,
            Route::Jobs => Ok(self.jobs()),
            Route::Job(id) => self.job(id),
            Route::JobStep(id, step) => self.step_job(id, step).await,
            Route::Faults if is_read => Ok(self.list_faults()),
            Route::Faults if is_post => self.add_fault(request),
            Route::Faults => self.remove_faults(None),
            Route::Fault(id) => self.remove_faults(Some(id)),
            Route::Capabilities => Ok(self.capabilities()),
            Route::Health => Ok(self.management_health()),
            Route::SplitOperation(name, range) => self.split_operation(&name, range, request).await,
            Route::MergeOperation(name) => self.merge_operation(&name, request).await,
            Route::Operation(id) => self.operation(id),
            Route::OperationStep(id, step) => self.step_operation(id, step).await,
        }
        .inspect(|_| {
            if !is_read {
                info!(method = %request.method, path = request.path(), "admin request carried out");
            }
        })
    }
}

/// Logs a request that was refused because of its sender.
fn audit(head: &Parts, peer: Peer, error: &AdminError) {
    warn!(
        target: "audit",
        peer = %peer.address,
        method = head.method.as_str(),
        path = head.uri.path(),
        status = error.status(),
        caller = "admin API",
        reason = error.message(),
        "access denied"
    );
}

/// Whether a request only reads. A HEAD is answered like a GET without its body.
fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// A task that is aborted when its owner is dropped.
struct EndOnDrop(tokio::task::AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
