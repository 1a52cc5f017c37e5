//! The service: takes one request through its stages to a reply, whichever wire it came by.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use account::{Caller, Directory, DirectoryMode, Key, KeyRing, Observer, RequestSource};
use arc_swap::ArcSwap;
use engine::components::Clock;
use engine::{Container, Engine, RequestContext, Served, Source};
use front_http::{Bodies, RequestIds, RequestLimits};
use model::{ErrorKind, limits};
use script::Scripts;
use tracing::{Level, debug, enabled, error};

use crate::access::{self, Grant, Identity, TokenKey};
use crate::address::{self, BadPath, Segments, Target};
use crate::auth::{Authenticator, Proof, Signed};
use crate::errors::ApiError;
use crate::faults::{FaultInjector, FaultSubject};
use crate::headers::HeaderName;
use crate::http::StaticHeaders;
use crate::observe::{Observation, Wire, WireFormat};
use crate::operation::Operation;
use crate::reply::{Envelope, Reply};
use crate::request::{Request, RequestHead};
use crate::script_guard::ScriptGuard;
use crate::system_properties::NoSqlProperties;
use crate::{Account, binary_json, headers, routes};

/// The outcome of requests that were refused before the engine served them.
static NOTHING_SERVED: LazyLock<Served> = LazyLock::new(Served::default);

/// How long a request waits for a range that is moving before it is answered 410. Ranges move in no
/// time, unless an operator drives the split or merge by hand; SDKs wait longer than this for an
/// answer, also those that repeat the request once.
const MOVE_WAIT_MAX: Duration = Duration::from_secs(4);

/// Longest activity id of a client that is echoed.
const ACTIVITY_ID_BYTES_MAX: usize = 128;

/// How often, and after which pauses, a read is tried whose client is ahead of its range.
const POSITION_TRIES: u32 = 3;
const POSITION_PAUSE: Duration = Duration::from_millis(5);

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
    script_guard: Arc<ScriptGuard>,
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
pub(crate) struct Exchange<'r> {
    /// The request's id, which replies and the log name.
    pub activity: String,
    /// As in [`RequestHead`].
    method: &'r str,
    path: &'r str,
    source: RequestSource,
    received: Duration,
    container: Option<Arc<Container>>,
    /// Whether the request addresses the container itself.
    is_container: bool,
    operation: Operation,
    /// The sender, once identified.
    identity: Option<Identity>,
    format: WireFormat,
    /// Made for the sender, once identified.
    ctx: Option<RequestContext>,
}

impl Exchange<'_> {
    /// Logs a request, for operators who look into what a client does.
    fn log(&self, status: u16, elapsed: Duration) {
        if !enabled!(Level::DEBUG) {
            return;
        }
        let container = self.container.as_deref();
        debug!(
            activity = ?self.activity,
            wire = self.format.wire.name(),
            method = %self.method,
            // A path has no secrets; a query string can have some, in addresses of other APIs.
            path = self.path,
            operation = ?self.operation,
            container = container.map(|c| format!("{}/{}", c.database_id, c.spec.id)),
            status,
            charge = %self.ctx.as_ref().map(|ctx| ctx.served.charge).unwrap_or_default(),
            elapsed_us = elapsed.as_micros(),
            "request served"
        );
    }

    /// Logs a request that was refused because of its sender.
    fn denied(&self, error: &ApiError) {
        access::audit(&access::RefusedRequest {
            activity: &self.activity,
            peer: self.source.peer,
            method: self.method,
            path: self.path,
            identity: self.identity.as_ref(),
            error,
        });
    }
}

/// Whether the client has itself chosen the range that serves the request, by name or by the
/// address of a replica. Such clients choose again when the range is moving. Others would report
/// that to their callers, so the server waits instead.
fn names_its_range(request: &Request) -> bool {
    request.direct.is_some() || request.headers.has(HeaderName::PartitionKeyRangeId)
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
            bodies: Bodies::new(limits, limits::REQUEST_BYTES_MAX),
            scripts: OnceLock::new(),
            script_limits: scripts,
            script_guard: Arc::new(ScriptGuard::new(
                Arc::clone(&engine.components().clock),
                scripts.time,
            )),
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

    /// What a service knows of a request that has just arrived.
    pub(crate) fn exchange<'r>(&self, head: &RequestHead<'r>, wire: Wire) -> Exchange<'r> {
        let RequestHead { method, path, source, .. } = *head;
        Exchange {
            activity: self.activity_id(head),
            method,
            path,
            source,
            received: self.clock().monotonic(),
            container: None,
            is_container: false,
            operation: Operation::Other,
            identity: None,
            format: WireFormat { wire, ..WireFormat::default() },
            ctx: None,
        }
    }

    /// The client's activity id if it sent one that can be echoed, else a new one. Of a list, which
    /// the .NET SDK sends with some queries and can't read back, it is the first.
    fn activity_id(&self, head: &RequestHead<'_>) -> String {
        let given = head.headers.text(HeaderName::ActivityId).and_then(|ids| {
            let first = ids.split(',').next().unwrap_or_default().trim();
            (1..=ACTIVITY_ID_BYTES_MAX).contains(&first.len()).then(|| first.to_owned())
        });
        given.unwrap_or_else(|| self.activity_ids.make_text())
    }

    /// The clock of the engine.
    pub(crate) fn clock(&self) -> &dyn Clock {
        self.engine.components().clock.as_ref()
    }

    /// The memory for request bodies.
    pub(crate) fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    /// The header values that HTTP prepares for many responses.
    pub(crate) fn static_headers(&self) -> &StaticHeaders {
        &self.static_headers
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

    /// What blocks scripts that take too much.
    pub(crate) fn script_guard(&self) -> &Arc<ScriptGuard> {
        &self.script_guard
    }

    /// The context of a request that an operator makes by another part of the server.
    pub fn operator_context(&self) -> RequestContext {
        let activity = self.activity_ids.make_text();
        let ctx = RequestContext::new(engine::Caller::Operator, Source::Admin, activity);
        RequestContext { system: &NoSqlProperties, ..ctx }
    }

    /// The account served.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// All checks that need no body: limits, address, caller, headers.
    pub(crate) fn admit(
        &self,
        head: &RequestHead<'_>,
        segments: Result<Segments<'_>, BadPath>,
        exchange: &mut Exchange<'_>,
    ) -> Result<Target, ApiError> {
        if head.bytes > self.head_bytes_max {
            return Err(ApiError::head_too_large());
        }
        let bad_path = |_| ApiError::bad_request("Server could not parse the Url.");
        let segments = segments.map_err(bad_path)?;
        let target = address::target(&segments).map_err(bad_path)?;
        let identity =
            self.identify(head, &segments).inspect_err(|error| exchange.denied(error))?;
        exchange.identity = Some(identity);
        let format = headers::validate(&head.headers, self.account.consistency)?;
        exchange.format = WireFormat { wire: exchange.format.wire, ..format };
        Ok(target)
    }

    /// Answers an admitted request.
    pub(crate) async fn answer(
        &self,
        mut request: Request,
        exchange: &mut Exchange<'_>,
    ) -> Result<Reply, ApiError> {
        let identity = exchange.identity.as_ref().ok_or_else(ApiError::internal)?;
        exchange.operation = Operation::of(&request);
        exchange.format.request_is_binary = binary_json::is_binary(&request.body);
        exchange.is_container = matches!(request.target, Target::Container(_));
        let ctx = RequestContext::new(identity.caller(), Source::NoSql, exchange.activity.as_str());
        let ctx = RequestContext { system: &NoSqlProperties, ..ctx };
        let admission = request.admission(exchange.path);
        let checked = access::check(self, &ctx, identity, &mut request, exchange.operation).await;
        exchange.container = checked.inspect_err(|error| exchange.denied(error))?;
        let ctx = exchange.ctx.insert(ctx);
        if let Some(faults) = self.faults() {
            let container = exchange.container.as_deref();
            let subject = FaultSubject::new(&request, exchange.operation, container);
            if let Some(answer) = faults.answer_instead(&subject) {
                return Err(ApiError::injected(&answer));
            }
        }
        let (container, operation) = (exchange.container.as_ref(), exchange.operation);
        ctx.admission = admission;
        let remaining = request.direct.and_then(|direct| direct.remaining_ms);
        ctx.deadline = remaining.map(|ms| exchange.received + Duration::from_millis(ms.into()));
        let reply = routes::route(self, ctx, container, operation, &request).await;
        match reply {
            Err(error) if request.direct.is_some() && error.is_ahead_of_session() => {
                // Boxed, because it is rare and would enlarge the future of every request.
                Box::pin(self.answer_when_reached(error, ctx, container, operation, &request)).await
            }
            Err(error) if error.is_range_moving() && !names_its_range(&request) => {
                Box::pin(self.answer_when_moved(error, ctx, container, operation, &request)).await
            }
            reply => reply,
        }
    }

    /// Answers a request whose range is moving once it has moved, if that is soon.
    async fn answer_when_moved(
        &self,
        mut error: ApiError,
        ctx: &mut RequestContext,
        container: Option<&Arc<Container>>,
        operation: Operation,
        request: &Request,
    ) -> Result<Reply, ApiError> {
        let Some(rid) = container.map(|container| container.rid) else { return Err(error) };
        let (admission, until) = (ctx.admission, self.clock().monotonic() + MOVE_WAIT_MAX);
        loop {
            let patience = until.saturating_sub(self.clock().monotonic());
            if patience.is_zero() || !self.engine.serves_again(rid, patience).await {
                return Err(error);
            }
            (ctx.admission, ctx.served) = (admission, Served::default());
            match routes::route(self, ctx, container, operation, request).await {
                Err(again) if again.is_range_moving() => error = again,
                reply => return reply,
            }
        }
    }

    /// Answers a read of a client that is ahead of its range, for a short time: clients in Direct
    /// mode try again many times, and then give up.
    async fn answer_when_reached(
        &self,
        mut error: ApiError,
        ctx: &mut RequestContext,
        container: Option<&Arc<Container>>,
        operation: Operation,
        request: &Request,
    ) -> Result<Reply, ApiError> {
        for _ in 0..POSITION_TRIES {
            self.clock().sleep(POSITION_PAUSE).await;
            match routes::route(self, ctx, container, operation, request).await {
                Err(again) if again.is_ahead_of_session() => error = again,
                reply => return reply,
            }
        }
        Err(error)
    }

    /// The reply to a request that is refused because of its origin.
    pub(crate) fn forbid<'x>(
        &self,
        reason: String,
        exchange: &'x mut Exchange<'_>,
    ) -> (Reply, Envelope<'x>) {
        let error = ApiError::new(ErrorKind::Forbidden, reason);
        exchange.denied(&error);
        self.finish(Err(error), exchange)
    }

    /// Identifies the sender of a request.
    fn identify(
        &self,
        head: &RequestHead<'_>,
        segments: &Segments<'_>,
    ) -> Result<Identity, ApiError> {
        let segments = address::signed(segments);
        let signed = Signed { method: head.method, segments, headers: &head.headers };
        let now = self.clock().now();
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

    /// The holder of the key that signed a request to another part of the server, or that the
    /// request carries; `None` if it has no authorization.
    pub(crate) fn key_holder(
        &self,
        head: &RequestHead<'_>,
        segments: Result<Segments<'_>, BadPath>,
    ) -> Result<Option<Caller>, Denied> {
        let Some(text) = head.headers.text_or(HeaderName::Authorization, "") else {
            return Ok(None);
        };
        let authenticator = self.authenticator.load();
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
        let segments = segments.map_err(|_| Denied {
            status: 401,
            message: "The path can't be read, so its signature can't be checked.".to_owned(),
        })?;
        let signed = Signed { method: head.method, segments: &segments, headers: &head.headers };
        match authenticator.authenticate(signed, self.clock().now(), |_| false).map_err(denied)? {
            Proof::Key(caller) => Ok(Some(caller)),
            Proof::ResourceToken(_) | Proof::DirectoryToken(_) => {
                Err(Denied { status: 403, message: "This needs a key of the account.".to_owned() })
            }
        }
    }

    /// The reply to send, and what all replies say. Tells the observer and the log.
    pub(crate) fn finish<'x>(
        &self,
        result: Result<Reply, ApiError>,
        exchange: &'x mut Exchange<'_>,
    ) -> (Reply, Envelope<'x>) {
        let elapsed = self.clock().monotonic().saturating_sub(exchange.received);
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
                status: reply.status.0,
                elapsed,
                format: WireFormat { reply_is_binary, ..exchange.format },
            });
        }
        exchange.log(reply.status.0, elapsed);
        let envelope = Envelope {
            activity: std::mem::take(&mut exchange.activity),
            container: exchange.container.as_deref(),
            is_container: exchange.is_container,
            served: exchange.ctx.as_ref().map_or(&NOTHING_SERVED, |ctx| &ctx.served),
            elapsed,
        };
        (reply, envelope)
    }
}
