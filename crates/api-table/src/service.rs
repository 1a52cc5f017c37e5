//! The service: takes one HTTP request through its stages to a response.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use account::{
    Bearer, Caller, DEVELOPMENT_KEY, Directory, Key, KeyRing, Observer, RequestSource, Signers,
};
use arc_swap::ArcSwap;
use bytes::Bytes;
use engine::{Admission, Container, Engine, RequestContext, Source};
use front_http::{Bodies, RequestIds, RequestLimits, catch_panic, head_bytes};
use http_body_util::Full;
use hyper::body::Body;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, Uri};
use model::Timestamp;
use tracing::{debug, error, warn};

use crate::address::{self, Address};
use crate::auth::{Identity, Sas, SasRequest, SharedKey, Signed};
use crate::errors::TableError;
use crate::headers::name;
use crate::observe::{Observation, Operation};
use crate::options::Options;
use crate::reply::{Envelope, Reply};
use crate::request::{Request, TableContext, Verb, text};
use crate::{Flavour, acl, cors, properties, routes, stored};

/// The account that development tools use.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";

/// Longest client request id that is echoed.
const CLIENT_ID_BYTES_MAX: usize = 1024;

/// The served accounts and their settings.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// The keys of the server's own account.
    pub keys: KeyRing,
    /// Whether the well-known account of development tools may be used with its well-known key.
    pub has_development_key: bool,
    /// Other accounts by name, each with tables of its own.
    pub others: Vec<(String, KeyRing)>,
    /// Whether keys are accepted; if not, only bearers of tokens are served.
    pub has_local_auth: bool,
    /// Whether signatures must be recent.
    pub checks_dates: bool,
    /// Throughput of tables that are created without a value.
    pub default_throughput: Option<u32>,
}

/// Optional parts that the owner of a service supplies.
#[derive(Clone)]
pub struct Hooks {
    /// Notified of every request.
    pub observer: Option<Arc<dyn Observer<Observation>>>,
    /// Identifies the bearers of directory tokens.
    pub directory: Arc<Directory>,
}

/// The Table API over one engine.
pub struct Service {
    engine: Engine,
    /// Keys of the server's own account.
    signers: ArcSwap<Signers>,
    development: Option<Signers>,
    others: Vec<Account>,
    has_local_auth: bool,
    checks_dates: bool,
    default_throughput: Option<u32>,
    request_ids: RequestIds,
    head_bytes_max: usize,
    bodies: Bodies,
    hooks: Hooks,
}

/// An account with its own tables.
struct Account {
    name: String,
    signers: Signers,
    database: String,
}

/// The state of a request while it is served.
struct Exchange {
    flavour: Flavour,
    operation: Operation,
    /// Made for the sender, once identified.
    ctx: Option<RequestContext>,
    /// The database whose CORS rules apply.
    database: String,
    /// The table that it addresses, if any.
    table: Option<String>,
}

impl Exchange {
    /// What it has cost.
    fn charge(&self) -> model::Charge {
        self.ctx.as_ref().map(|ctx| ctx.served.charge).unwrap_or_default()
    }

    /// The addressed table, if any, by its name in the NoSQL API.
    fn container(&self) -> Option<String> {
        self.table.as_ref().map(|table| format!("{}/{table}", self.database))
    }
}

impl Service {
    /// A service for `accounts` over `engine`.
    pub fn new(
        engine: Engine,
        accounts: Accounts,
        limits: RequestLimits,
        hooks: Hooks,
    ) -> Arc<Self> {
        let development = Key::parse(DEVELOPMENT_KEY).ok().filter(|_| accounts.has_development_key);
        let others = accounts.others.into_iter().map(|(name, keys)| Account {
            signers: Signers::new(&keys),
            database: format!("{}-{name}", stored::DATABASE),
            name,
        });
        Arc::new(Self {
            signers: ArcSwap::from_pointee(Signers::new(&accounts.keys)),
            development: development.map(|key| Signers::new(&KeyRing::single(key))),
            others: others.collect(),
            has_local_auth: accounts.has_local_auth,
            checks_dates: accounts.checks_dates,
            default_throughput: accounts.default_throughput,
            request_ids: RequestIds::new(engine.components().random.as_ref()),
            head_bytes_max: limits.head_bytes_max,
            bodies: Bodies::new(limits, model::limits::TABLE_REQUEST_BYTES_MAX),
            hooks,
            engine,
        })
    }

    /// Replaces the keys of the server's own account.
    pub fn rotate_keys(&self, keys: &KeyRing) {
        self.signers.store(Arc::new(Signers::new(keys)));
    }

    /// Whether one of the keys of the server's own account is well known.
    pub fn is_key_public(&self) -> bool {
        self.signers.load().is_public()
    }

    /// Whether any served account has a well-known key.
    pub fn has_public_key(&self) -> bool {
        let is_public = |account: &Account| account.signers.is_public();
        self.is_key_public() || self.development.is_some() || self.others.iter().any(is_public)
    }

    /// Whether the CORS rules of a request's account allow its origin.
    pub fn allows_origin(
        &self,
        (method, uri): (&Method, &Uri),
        headers: &HeaderMap,
        flavour: Flavour,
    ) -> bool {
        let host = host_of(uri, headers);
        if address::flavour_of_host(&host).unwrap_or(flavour) == Flavour::Cosmos {
            return false;
        }
        // A preflight request is answered from the rules, and has no effect.
        if method == Method::OPTIONS {
            return true;
        }
        let Ok(address) = Address::parse(Flavour::Storage, &host, uri.path()) else { return false };
        let database = self.database_named(address.account.as_deref().unwrap_or_default());
        cors::allows(&properties::stored(self, database).cors, method, headers)
    }

    /// The response to a request that is refused because of its origin.
    pub fn refuse(
        &self,
        head: &Parts,
        source: RequestSource,
        flavour: Flavour,
        reason: String,
    ) -> Response<Full<Bytes>> {
        let clock = &self.engine.components().clock;
        let request_id = self.request_ids.make();
        let error = TableError::new(403, "AuthorizationFailure", reason);
        self.note(&error, &request_id, (&head.method, head.uri.path()), source);
        if let Some(observer) = &self.hooks.observer {
            let (operation, status) = (Operation::Other, error.status.as_u16());
            observer.answered(&Observation {
                operation,
                status,
                elapsed: Duration::ZERO,
                format: (),
            });
        }
        let envelope = Envelope {
            flavour,
            request_id: &request_id,
            client_request_id: None,
            version: None,
            charge: model::Charge::ZERO,
            now_ticks: clock.now().0.saturating_mul(10_000),
            wants_xml: wants_xml(&head.headers),
            is_preflight: head.method == Method::OPTIONS,
        };
        envelope.send(envelope.error(&error))
    }

    /// Answers one request. Infallible: every error, a panic included, becomes a response.
    pub async fn serve<B: Body>(
        self: &Arc<Self>,
        request: hyper::Request<B>,
        source: RequestSource,
        flavour: Flavour,
    ) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let clock = &self.engine.components().clock;
        let received = clock.monotonic();
        let host = host_of(&head.uri, &head.headers);
        let mut exchange = Exchange {
            flavour: address::flavour_of_host(&host).unwrap_or(flavour),
            operation: Operation::Other,
            ctx: None,
            database: stored::DATABASE.to_owned(),
            table: None,
        };
        let request_id = self.request_ids.make();
        let (method, headers) = (head.method.clone(), head.headers.clone());
        let now_ticks = clock.now().0.saturating_mul(10_000);
        let wants_xml = wants_xml(&headers);
        // Batches report errors before the reply is made.
        let envelope = Envelope {
            flavour: exchange.flavour,
            request_id: &request_id,
            client_request_id: None,
            version: None,
            charge: model::Charge::ZERO,
            now_ticks,
            wants_xml,
            is_preflight: method == Method::OPTIONS,
        };
        let path = head.uri.path().to_owned();
        let caught = {
            let answer = self.answer((head, &host), body, source, &envelope, &mut exchange);
            catch_panic(pin!(answer)).await
        };
        let result = caught.unwrap_or_else(|message| {
            Err(TableError::internal(format!("a request handler panicked: {message}")))
        });
        if let Err(error) = &result {
            self.note(error, &request_id, (&method, &path), source);
        }
        let client_request_id = headers.get(name::CLIENT_REQUEST_ID);
        let envelope = Envelope {
            client_request_id: client_request_id.filter(|id| id.len() <= CLIENT_ID_BYTES_MAX),
            version: headers.get(name::VERSION).filter(|version| is_version(version)),
            charge: exchange.charge(),
            ..envelope
        };
        let reply = result.unwrap_or_else(|error| envelope.error(&error));
        let reply = self.with_cors(&exchange, &method, &headers, reply);
        let elapsed = clock.monotonic().saturating_sub(received);
        if let Some(observer) = &self.hooks.observer {
            let (operation, status) = (exchange.operation, reply.status.as_u16());
            observer.answered(&Observation { operation, status, elapsed, format: () });
        }
        debug!(
            request = ?request_id,
            %method,
            path,
            operation = ?exchange.operation,
            database = exchange.database,
            container = exchange.container(),
            status = reply.status.as_u16(),
            charge = %exchange.charge(),
            elapsed_us = elapsed.as_micros(),
            "table request served"
        );
        envelope.send(reply)
    }

    /// Logs server errors, and requests refused because of their sender.
    fn note(
        &self,
        failed: &TableError,
        request_id: &HeaderValue,
        (method, path): (&Method, &str),
        source: RequestSource,
    ) {
        if failed.status.is_server_error()
            && let Some(detail) = failed.extra.as_ref().and_then(|extra| extra.detail.as_ref())
        {
            error!(request = ?request_id, detail, "a table request failed");
        }
        if failed.is_denial() {
            warn!(
                target: "audit",
                request = ?request_id,
                peer = source.peer.map(tracing::field::display),
                method = method.as_str(),
                path,
                status = failed.status.as_u16(),
                code = failed.code,
                "access denied"
            );
        }
    }

    fn with_cors(
        &self,
        exchange: &Exchange,
        method: &Method,
        headers: &HeaderMap,
        reply: Reply,
    ) -> Reply {
        let is_asked = headers.contains_key(hyper::header::ORIGIN) && method != Method::OPTIONS;
        if !is_asked || exchange.flavour == Flavour::Cosmos {
            return reply;
        }
        let rules = properties::stored(self, &exchange.database).cors;
        cors::allow(&rules, method, headers, reply)
    }

    async fn answer<B: Body>(
        &self,
        (head, host): (Parts, &str),
        body: B,
        source: RequestSource,
        envelope: &Envelope<'_>,
        exchange: &mut Exchange,
    ) -> Result<Reply, TableError> {
        if head_bytes(&head) > self.head_bytes_max {
            return Err(TableError::head_too_large());
        }
        check_version(&head.headers)?;
        let flavour = exchange.flavour;
        let address = Address::parse(flavour, host, head.uri.path())?;
        let options = Options::parse(head.uri.query().unwrap_or_default())?;
        if head.method == Method::OPTIONS {
            exchange.operation = Operation::Service;
            return self.preflight(flavour, &address, &head.headers);
        }
        let (account, identity) = self.identify(&head, &address, &options, source, flavour)?;
        exchange.database = self.database_named(&account).to_owned();
        exchange.table = address.target.name().map(str::to_owned);
        let context =
            TableContext::new(flavour, &address, account, identity, (source.scheme, host));
        let verb = Verb::of(&head.method, &head.headers)?;
        exchange.operation = routes::operation_of(verb, &address.target, &options);
        if context.is_secondary && flavour == Flavour::Storage && verb != Verb::Get {
            return Err(TableError::new(
                403,
                "InsufficientAccountPermissions",
                "Write operations are not allowed.",
            ));
        }
        let clock = self.engine.components().clock.as_ref();
        let body = self.bodies.read(body, clock).await?;
        let Parts { headers, uri, .. } = head;
        let query = uri.query().unwrap_or_default().as_bytes();
        let activity = envelope.request_id.to_str().unwrap_or_default();
        let mut ctx = RequestContext::new(context.identity.caller(), Source::Table, activity);
        ctx.system = &stored::TableProperties;
        ctx.deadline = options.timeout().map(|timeout| clock.monotonic() + timeout);
        ctx.admission = Admission {
            digest: Admission::digest_of(&[uri.path().as_bytes(), query, &body.bytes]),
            // The storage service has no request units.
            is_free_by_default: flavour == Flavour::Storage,
            ..Admission::default()
        };
        let target = address.target;
        let request = Request { context, verb, target, options, headers, body: body.bytes.clone() };
        let ctx = exchange.ctx.insert(ctx);
        routes::route(self, ctx, envelope, &request).await
    }

    fn preflight(
        &self,
        flavour: Flavour,
        address: &Address,
        headers: &HeaderMap,
    ) -> Result<Reply, TableError> {
        if flavour == Flavour::Cosmos {
            return Err(TableError::not_implemented());
        }
        let database = self.database_named(address.account.as_deref().unwrap_or_default());
        cors::preflight(&properties::stored(self, database).cors, headers)
    }

    /// Identifies the sender of a request and the account it addresses.
    fn identify(
        &self,
        head: &Parts,
        address: &Address,
        options: &Options,
        source: RequestSource,
        flavour: Flavour,
    ) -> Result<(String, Identity), TableError> {
        let now = self.engine.components().clock.now();
        let authorization = head.headers.get(AUTHORIZATION);
        let Some(authorization) = authorization else {
            let Some(sas) = Sas::parse(options, address.target.table()) else {
                return Err(self.no_credentials());
            };
            let account = self.account_of(address.account.as_deref(), flavour)?;
            return self.identify_sas(sas?, account, (source, now), flavour);
        };
        let header = authorization.to_str().map_err(|_| TableError::invalid_authentication())?;
        if let Some(key) = SharedKey::parse(header) {
            let key = key?;
            return self.identify_key(head, &key, (address, options), source, flavour);
        }
        let token = header.trim().split_once(' ');
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = token else { return Err(TableError::invalid_authentication()) };
        let account = self.account_of(address.account.as_deref(), flavour)?;
        let bearer = self.hooks.directory.identify(token.trim(), &self.signers.load(), now);
        let identity = match bearer.map_err(|refused| self.refused_token(&refused))? {
            Bearer::Key(caller) => Identity::Key(caller),
            Bearer::Principal(principal) => Identity::Principal(principal),
        };
        Ok((account, identity))
    }

    fn identify_key(
        &self,
        head: &Parts,
        key: &SharedKey<'_>,
        (address, options): (&Address, &Options),
        source: RequestSource,
        flavour: Flavour,
    ) -> Result<(String, Identity), TableError> {
        let named = key.account.strip_suffix("-secondary").unwrap_or(key.account);
        if address.account.as_ref().is_some_and(|account| account != named) {
            return Err(TableError::not_authenticated());
        }
        let account = self.account_of(Some(named), flavour)?;
        let signed = Signed {
            method: &head.method,
            path: head.uri.path(),
            comp: options.get("comp"),
            headers: &head.headers,
        };
        let mut payloads = signed.payloads(key, address.is_secondary).into_iter();
        let caller = payloads
            .find_map(|payload| self.signer_of(&account, flavour, &payload, &key.signature));
        let caller = caller.ok_or_else(|| self.wrong_key(&account, flavour))?;
        let caller = accept(caller, source)?;
        if self.checks_dates {
            signed.check_date(self.engine.components().clock.now())?;
        }
        Ok((account, Identity::Key(caller)))
    }

    fn identify_sas(
        &self,
        sas: Sas,
        account: String,
        (source, now): (RequestSource, Timestamp),
        flavour: Flavour,
    ) -> Result<(String, Identity), TableError> {
        let payload = sas.payload(&account);
        let signer = self.signer_of(&account, flavour, &payload, sas.signature());
        let signer = signer.ok_or_else(|| self.wrong_key(&account, flavour))?;
        let signer = accept(signer, source)?;
        let stored = match sas.policy() {
            Some((table, id)) => {
                let database = self.database_named(&account);
                let table = self.table_in(database, table);
                let policy = table.and_then(|table| acl::find(self, &table, id));
                Some(policy.ok_or_else(TableError::not_authenticated)?)
            }
            None => None,
        };
        let sas_request = SasRequest { scheme: source.scheme, peer: source.peer, now };
        let grant = sas.grant(signer, stored.as_ref(), sas_request)?;
        Ok((account, Identity::Sas(Box::new(grant))))
    }

    /// The account that a request addresses. Each account of Cosmos DB has its own host, so there
    /// is only one, whatever name clients use.
    fn account_of(&self, named: Option<&str>, flavour: Flavour) -> Result<String, TableError> {
        match (named, flavour) {
            (Some(name), Flavour::Cosmos) => Ok(name.to_owned()),
            (None, Flavour::Cosmos) => Ok("localhost".to_owned()),
            (Some(name), Flavour::Storage)
                if name == DEVELOPMENT_ACCOUNT || self.others.iter().any(|a| a.name == name) =>
            {
                Ok(name.to_owned())
            }
            (_, Flavour::Storage) => Err(TableError::not_authenticated()),
        }
    }

    /// The rights of the account key that made this signature, and whether it is well known.
    fn signer_of(
        &self,
        account: &str,
        flavour: Flavour,
        payload: &str,
        signature: &[u8],
    ) -> Option<(Caller, bool)> {
        if !self.has_local_auth {
            return None;
        }
        let payload = payload.as_bytes();
        let by =
            |signers: &Signers| Some((signers.signer_of(payload, signature)?, signers.is_public()));
        if let Some(other) = self.others.iter().find(|other| other.name == account) {
            return by(&other.signers);
        }
        let development = self.development.as_ref().filter(|_| flavour == Flavour::Storage);
        let by_development = development.and_then(by).map(|(caller, _)| (caller, true));
        by_development.or_else(|| by(&self.signers.load()))
    }

    /// The error for a signature that none of the account's keys made.
    fn wrong_key(&self, account: &str, flavour: Flavour) -> TableError {
        if !self.has_local_auth {
            return TableError::not_authenticated();
        }
        if let Some(other) = self.others.iter().find(|other| other.name == account) {
            return TableError::not_authenticated_since(other.signers.advice());
        }
        let signers = self.signers.load();
        let development = self.development.as_ref().filter(|_| flavour == Flavour::Storage);
        match development.and_then(Signers::public) {
            Some(key) => TableError::not_authenticated_since(&format!(
                "{} Here Azurite's well-known key ({}) is good, too.",
                signers.advice(),
                key.short_fingerprint()
            )),
            None => TableError::not_authenticated_since(signers.advice()),
        }
    }

    fn no_credentials(&self) -> TableError {
        match self.hooks.directory.authority() {
            Some(authority) => challenged(TableError::not_authenticated(), authority),
            None => TableError::not_authenticated(),
        }
    }

    fn refused_token(&self, refused: &account::TokenError) -> TableError {
        let authority = self.hooks.directory.authority().unwrap_or_default();
        let error = TableError::new(401, "InvalidAuthenticationInfo", refused.to_string());
        challenged(error, authority)
    }

    /// The engine underneath.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn default_throughput(&self) -> Option<u32> {
        self.default_throughput
    }

    /// The database with the tables of a request's account.
    pub(crate) fn database_of(&self, context: &TableContext) -> &str {
        self.database_named(&context.account)
    }

    fn database_named(&self, account: &str) -> &str {
        let other = self.others.iter().find(|other| other.name == account);
        other.map_or(stored::DATABASE, |other| &other.database)
    }

    fn table_in(&self, database: &str, table: &str) -> Option<Arc<Container>> {
        let catalog = self.engine.catalog();
        let database = catalog.database(database)?.rid;
        let is_it = |c: &&Arc<Container>| c.spec.id.eq_ignore_ascii_case(table);
        catalog.containers(database).find(is_it).cloned()
    }

    /// Starts a build of the index that lists entities, if a container that another API created
    /// lacks it. The container stays usable meanwhile.
    pub(crate) async fn make_listable(
        &self,
        ctx: &RequestContext,
        container: &Container,
    ) -> Result<(), engine::Error> {
        if stored::has_key_order(container) {
            return Ok(());
        }
        let spec = stored::with_key_order(container);
        self.engine.replace_container(ctx, container.rid, spec, None).await.map(drop)
    }
}

/// Accepts a signature with its rights, unless a page of another site made it with a well-known
/// key.
fn accept(signer: (Caller, bool), source: RequestSource) -> Result<Caller, TableError> {
    match signer {
        (_, true) if source.is_cross_site => Err(TableError::new(
            403,
            "AuthorizationFailure",
            "This key is public, so pages of other sites and hosts that are not this server may \
             not use it. Start the server with --allow-host NAME to let one in.",
        )),
        (caller, _) => Ok(caller),
    }
}

fn challenged(error: TableError, authority: &str) -> TableError {
    error.challenged(format!(
        "Bearer authorization_uri={authority} resource_id=https://storage.azure.com"
    ))
}

/// Refuses an invalid version. Any date is accepted, so that clients of later versions work.
fn check_version(headers: &HeaderMap) -> Result<(), TableError> {
    match headers.get(name::VERSION) {
        Some(version) if !is_version(version) => Err(TableError::invalid_header()),
        Some(_) | None => Ok(()),
    }
}

/// Whether this is a date: `2019-02-02`.
fn is_version(text: &HeaderValue) -> bool {
    let is_part = |(at, byte): (usize, &u8)| match at {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.as_bytes().iter().enumerate().all(is_part)
}

fn host_of(uri: &Uri, headers: &HeaderMap) -> String {
    match uri.authority() {
        Some(authority) => authority.to_string(),
        None => text(headers, &HOST).unwrap_or("localhost").to_owned(),
    }
}

/// Whether a client accepts XML and no JSON.
fn wants_xml(headers: &HeaderMap) -> bool {
    let accept = text(headers, &ACCEPT).unwrap_or_default();
    accept.contains("xml") && !accept.contains("json")
}
