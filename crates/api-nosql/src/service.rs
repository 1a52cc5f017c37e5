//! The service: takes one HTTP request through its stages to a response.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use engine::{Container, Engine, RequestContext, Served, Source};
use front::{
    Bodies, Caller, Directory, DirectoryMode, Key, KeyRing, Observer, RequestIds, RequestLimits,
    RequestSource, Scheme, catch_panic, head_bytes,
};
use http_body_util::Full;
use hyper::body::Body;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response};
use model::{ErrorKind, limits};
use script::Scripts;
use tracing::{Level, debug, enabled, error};

use crate::access::{self, Grant, Identity, TokenKey};
use crate::address::{self, Segments, Target};
use crate::auth::{Authenticator, Proof, Signed};
use crate::errors::ApiError;
use crate::faults::{FaultInjector, FaultSubject};
use crate::observe::{Observation, Operation, WireFormat};
use crate::reply::{Envelope, Reply, StaticHeaders};
use crate::request::Request;
use crate::{Account, binary_json, headers, routes};

/// Largest body that is kept: the largest item, with extra space for white space, escapes and an
/// envelope.
const BODY_BYTES_MAX: usize = limits::ITEM_BYTES_MAX + 512 * 1024;

/// The NoSQL API of one account over one engine.
pub struct Service {
    engine: Engine,
    account: Account,
    authenticator: ArcSwap<Authenticator>,
    token_key: TokenKey,
    static_headers: StaticHeaders,
    activity_ids: RequestIds,
    head_bytes_max: usize,
    bodies: Bodies,
    /// Created on first use.
    scripts: OnceLock<Arc<Scripts>>,
    script_limits: script::Limits,
    hooks: Hooks,
}

/// Optional parts that the owner of a service supplies.
#[derive(Clone)]
pub struct Hooks {
    /// Notified of every request.
    pub observer: Option<Arc<dyn Observer<Observation>>>,
    /// Injects faults.
    pub faults: Option<Arc<dyn FaultInjector>>,
    /// Identifies the bearers of directory tokens.
    pub directory: Arc<Directory>,
}

impl Default for Hooks {
    fn default() -> Self {
        let directory = Arc::new(Directory::new(DirectoryMode::StandIn));
        Self { observer: None, faults: None, directory }
    }
}

/// A request whose authorization is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// HTTP status: 401, or 403 for a signature that is too old.
    pub status: u16,
    /// The reason.
    pub message: String,
}

/// The state of a request while it is served. The reply reports it, whatever the outcome.
struct Exchange {
    activity: HeaderValue,
    location: Option<HeaderValue>,
    received: Duration,
    container: Option<Arc<Container>>,
    /// Whether the request addresses the container itself.
    is_container: bool,
    operation: Operation,
    peer: Option<IpAddr>,
    /// The sender, once identified.
    identity: Option<Identity>,
    format: WireFormat,
    /// Made for the sender, once identified.
    ctx: Option<RequestContext>,
    /// Method and path, if they are logged.
    line: Option<Box<(Method, String)>>,
}

impl Exchange {
    /// Logs a request, for operators who look into what a client does.
    fn log(&self, status: u16, elapsed: Duration) {
        let Some((method, path)) = self.line.as_deref() else { return };
        let container = self.container.as_deref();
        debug!(
            activity = ?self.activity,
            %method,
            path,
            operation = ?self.operation,
            container = container.map(|c| format!("{}/{}", c.database_id, c.spec.id)),
            status,
            charge = %self.ctx.as_ref().map(|ctx| ctx.served.charge).unwrap_or_default(),
            elapsed_us = elapsed.as_micros(),
            "request served"
        );
    }

    /// Logs a request that was refused because of its sender.
    fn denied(&self, (method, path): (&Method, &str), error: &ApiError) {
        access::audit(&access::RefusedRequest {
            activity: &self.activity,
            peer: self.peer,
            method,
            path,
            identity: self.identity.as_ref(),
            error,
        });
    }
}

impl Service {
    /// A service for `account` over `engine` with the default limits.
    pub fn new(engine: Engine, account: Account) -> Arc<Self> {
        let (limits, scripts) = (RequestLimits::default(), script::Limits::default());
        Self::with_limits(engine, account, limits, scripts, Hooks::default())
    }

    /// A service for `account` over `engine`.
    pub fn with_limits(
        engine: Engine,
        account: Account,
        limits: RequestLimits,
        scripts: script::Limits,
        hooks: Hooks,
    ) -> Arc<Self> {
        Arc::new(Self {
            authenticator: ArcSwap::from_pointee(Authenticator::new(&account.keys)),
            token_key: TokenKey::new(engine.secret(access::TOKEN_PURPOSE)),
            static_headers: StaticHeaders::new(engine.components().clock.now()),
            activity_ids: RequestIds::new(engine.components().random.as_ref()),
            head_bytes_max: limits.head_bytes_max,
            bodies: Bodies::new(limits, BODY_BYTES_MAX),
            scripts: OnceLock::new(),
            script_limits: scripts,
            hooks,
            engine,
            account,
        })
    }

    /// Replaces the account's keys. Requests that are already past authentication finish.
    pub fn rotate_keys(&self, keys: &KeyRing) {
        self.authenticator.store(Arc::new(Authenticator::new(keys)));
    }

    /// A well-known key, if the account has one.
    pub fn public_key(&self) -> Option<Key> {
        self.authenticator.load().0.public().cloned()
    }

    /// Whether one of the keys is well known.
    pub fn is_key_public(&self) -> bool {
        self.authenticator.load().0.is_public()
    }

    /// Identifies the sender of a request for another part of the server that the same keys
    /// protect. Its `Authorization` is `Bearer` with an account key, or a signature as in requests
    /// of this API. `None` if it has none.
    pub fn authenticate(&self, head: &Parts) -> Result<Option<Caller>, Denied> {
        let Some(header) = head.headers.get(AUTHORIZATION) else { return Ok(None) };
        let authenticator = self.authenticator.load();
        let text = header.to_str().unwrap_or_default();
        if let Some((scheme, key)) = text.split_once(' ')
            && scheme.eq_ignore_ascii_case("bearer")
        {
            let advice = authenticator.0.advice();
            return authenticator.0.bearer(key.trim()).map(Some).ok_or_else(|| Denied {
                status: 401,
                message: format!("The bearer token is not a key of this account. {advice}"),
            });
        }
        let denied = |error: ApiError| Denied {
            status: error.status(),
            message: error.message().to_owned(),
        };
        let segments = address::segments_of(&head.uri).map_err(|_| Denied {
            status: 401,
            message: "The path can't be read, so its signature can't be checked.".to_owned(),
        })?;
        let signed = Signed { method: &head.method, segments: &segments, headers: &head.headers };
        let now = self.engine.components().clock.now();
        match authenticator.authenticate(signed, now, |_| false).map_err(denied)? {
            Proof::Key(caller) => Ok(Some(caller)),
            Proof::ResourceToken(_) | Proof::DirectoryToken(_) => {
                Err(Denied { status: 403, message: "This needs a key of the account.".to_owned() })
            }
        }
    }

    /// Answers one request. Infallible: every error, a panic included, becomes a response.
    ///
    /// Dropping the future abandons the request; writes that the engine has already received are
    /// still committed. The body of a refused request may be left unread; the owner of the
    /// connection decides how much of it to take before it sends the response.
    pub async fn serve<B>(
        self: &Arc<Self>,
        request: hyper::Request<B>,
        source: impl Into<RequestSource>,
    ) -> Response<Full<Bytes>>
    where
        B: Body,
    {
        let source = source.into();
        let (head, body) = request.into_parts();
        let mut exchange = self.exchange(&head, source);
        let answer = self.answer(head, body, source.scheme, &mut exchange);
        let result = catch_panic(answer).await.unwrap_or_else(|message| {
            error!(activity = ?exchange.activity, panic = message, "a request handler panicked");
            Err(ApiError::internal())
        });
        self.finish(result, &exchange)
    }

    /// The response to a request that is refused because of its origin.
    pub fn refuse(
        &self,
        head: &Parts,
        source: RequestSource,
        reason: String,
    ) -> Response<Full<Bytes>> {
        let exchange = self.exchange(head, source);
        let error = ApiError::new(ErrorKind::Forbidden, reason);
        exchange.denied((&head.method, head.uri.path()), &error);
        self.finish(Err(error), &exchange)
    }

    fn exchange(&self, head: &Parts, source: RequestSource) -> Exchange {
        Exchange {
            activity: headers::activity_id(&self.activity_ids, &head.headers),
            location: headers::location(head, source.scheme),
            received: self.engine.components().clock.monotonic(),
            container: None,
            is_container: false,
            operation: Operation::Other,
            peer: source.peer,
            identity: None,
            format: WireFormat::default(),
            ctx: None,
            // A path has no secrets; a query string can have some, in addresses of other APIs.
            line: enabled!(Level::DEBUG)
                .then(|| Box::new((head.method.clone(), head.uri.path().to_owned()))),
        }
    }

    /// The engine underneath.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The fault injector, if there is one.
    pub(crate) fn faults(&self) -> Option<&dyn FaultInjector> {
        self.hooks.faults.as_deref()
    }

    /// The key that signs resource tokens.
    pub(crate) fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// The script runner.
    pub(crate) fn scripts(&self) -> &Arc<Scripts> {
        self.scripts.get_or_init(|| {
            let clock = Arc::clone(&self.engine.components().clock);
            Arc::new(Scripts::new(self.script_limits, Arc::new(move || clock.monotonic())))
        })
    }

    /// The context of a request that an operator makes by another part of the server.
    pub(crate) fn operator_context(&self) -> RequestContext {
        let activity = self.activity_ids.make();
        let activity = activity.to_str().unwrap_or_default();
        RequestContext::new(engine::Caller::Operator, Source::Admin, activity)
    }

    /// The account served.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    async fn answer<B: Body>(
        self: &Arc<Self>,
        head: Parts,
        body: B,
        scheme: Scheme,
        exchange: &mut Exchange,
    ) -> Result<Reply, ApiError> {
        let clock = self.engine.components().clock.as_ref();
        let (target, identity) = self.admit(&head, exchange)?;
        let activity = exchange.activity.to_str().unwrap_or_default();
        let ctx = RequestContext::new(identity.caller(), Source::NoSql, activity);
        let ctx = exchange.ctx.insert(ctx);
        let identity = exchange.identity.insert(identity);
        let body = self.bodies.read(body, clock).await?;
        let path = head.uri;
        let mut request = Request {
            method: head.method,
            scheme,
            authority: path.authority().cloned(),
            target,
            headers: head.headers,
            body: body.bytes.clone(),
        };
        exchange.operation = Operation::of(&request);
        exchange.format.request_is_binary = binary_json::is_binary(&request.body);
        exchange.is_container = matches!(request.target, Target::Container(_));
        let admission = request.admission(path.path());
        let checked = access::check(self, ctx, identity, &mut request, exchange.operation).await;
        exchange.container = checked.inspect_err(|error| {
            access::audit(&access::RefusedRequest {
                activity: &exchange.activity,
                peer: exchange.peer,
                method: &request.method,
                path: path.path(),
                identity: Some(identity),
                error,
            });
        })?;
        if let Some(faults) = self.faults() {
            let container = exchange.container.as_deref();
            let subject = FaultSubject::new(&request, exchange.operation, container);
            if let Some(answer) = faults.answer_instead(&subject) {
                return Err(ApiError::injected(&answer));
            }
        }
        let (container, operation) = (exchange.container.as_ref(), exchange.operation);
        ctx.admission = admission;
        routes::route(self, ctx, container, operation, &request).await
    }

    /// All checks that need no body.
    fn admit(&self, head: &Parts, exchange: &mut Exchange) -> Result<(Target, Identity), ApiError> {
        if head_bytes(head) > self.head_bytes_max {
            return Err(ApiError::head_too_large());
        }
        let bad_path = |_| ApiError::bad_request("Server could not parse the Url.");
        let segments = address::segments_of(&head.uri).map_err(bad_path)?;
        let target = address::target(&segments).map_err(bad_path)?;
        let identity = self.identify(head, &segments).inspect_err(|error| {
            exchange.denied((&head.method, head.uri.path()), error);
        })?;
        exchange.format = headers::validate(&head.headers, self.account.consistency)?;
        Ok((target, identity))
    }

    /// Identifies the sender of a request.
    fn identify(&self, head: &Parts, segments: &Segments<'_>) -> Result<Identity, ApiError> {
        let signed = Signed { method: &head.method, segments, headers: &head.headers };
        let now = self.engine.components().clock.now();
        let authenticator = self.authenticator.load();
        let name_exists = |name: &str| self.engine.catalog().database(name).is_some();
        let is_local = self.account.local_auth;
        match authenticator.authenticate(signed, now, name_exists)? {
            Proof::Key(_) | Proof::ResourceToken(_) if !is_local => {
                Err(ApiError::local_auth_disabled())
            }
            Proof::Key(caller) => Ok(Identity::Key(caller)),
            Proof::ResourceToken(token) => {
                let grant = Grant::of(&self.token_key, &token, now, &self.engine.catalog())?;
                Ok(Identity::Resource(Box::new(grant)))
            }
            Proof::DirectoryToken(token) => {
                let bearer = self.hooks.directory.identify(&token, &authenticator.0, now);
                bearer.map(Identity::from).map_err(ApiError::from)
            }
        }
    }

    fn finish(
        &self,
        result: Result<Reply, ApiError>,
        exchange: &Exchange,
    ) -> Response<Full<Bytes>> {
        let elapsed = self.engine.components().clock.monotonic().saturating_sub(exchange.received);
        let nothing = Served::default();
        let envelope = Envelope {
            activity: &exchange.activity,
            location: exchange.location.as_ref(),
            container: exchange.container.as_deref(),
            is_container: exchange.is_container,
            served: exchange.ctx.as_ref().map_or(&nothing, |ctx| &ctx.served),
            elapsed,
            fixed: &self.static_headers,
        };
        let reply = result.unwrap_or_else(|error| {
            if error.is_ours() {
                error!(activity = ?exchange.activity, detail = error.detail(), "a request failed");
            }
            error.into_reply(&exchange.activity)
        });
        if let Some(observer) = &self.hooks.observer {
            let reply_is_binary = binary_json::is_binary(&reply.body);
            observer.answered(&Observation {
                operation: exchange.operation,
                status: reply.status.as_u16(),
                elapsed,
                format: WireFormat { reply_is_binary, ..exchange.format },
            });
        }
        exchange.log(reply.status.as_u16(), elapsed);
        envelope.send(reply)
    }
}
