//! A service over an engine in memory, and a client that signs as the SDKs do.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use account::{Key, KeyRing, Observer, Scheme};
use api_nosql::{Account, Consistency, Hooks, Observation, ScriptLimits, Service};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use engine::Settings;
use front_http::RequestLimits;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::header::HeaderMap;
use serde_json::Value;
use sha2::Sha256;
use storage::MemoryStore;
use testkit::harness::Harness;

/// A service and the harness below it.
pub(crate) struct TestService {
    pub(crate) harness: Harness,
    pub(crate) service: Arc<Service>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request under construction.
pub(crate) struct Call<'s> {
    service: &'s TestService,
    method: &'static str,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    key: Option<Key>,
    skew: i64,
}

impl TestService {
    /// A service for the emulator's account.
    pub(crate) fn new() -> Self {
        Self::with_account(account())
    }

    /// A service for `account`.
    pub(crate) fn with_account(account: Account) -> Self {
        Self::over(Harness::in_memory(), account)
    }

    /// A service that refuses requests beyond the provisioned throughput.
    pub(crate) fn throttling() -> Self {
        let settings = Settings { throttling: engine::Throttling::On, ..Settings::default() };
        Self::with_settings(settings)
    }

    /// A service over an engine with `settings`.
    pub(crate) fn with_settings(settings: Settings) -> Self {
        Self::over(Harness::with_settings(Arc::new(MemoryStore::new()), settings), account())
    }

    /// A service that notifies `observer` of its requests.
    pub(crate) fn observed(observer: Arc<dyn Observer<Observation>>) -> Self {
        let harness = Harness::in_memory();
        let (engine, limits) = (harness.engine.clone(), RequestLimits::default());
        let hooks = Hooks { observer: Some(observer), ..Hooks::default() };
        let scripts = ScriptLimits::default();
        let service = Service::with_limits(engine, account(), limits, scripts, hooks);
        Self { harness, service }
    }

    fn over(harness: Harness, account: Account) -> Self {
        let service = Service::new(harness.engine.clone(), account);
        Self { harness, service }
    }

    /// A signed request; `path` is sent as it is.
    pub(crate) fn call(&self, method: &'static str, path: &str) -> Call<'_> {
        Call {
            service: self,
            method,
            path: path.to_owned(),
            headers: vec![("host".into(), b"example.test:8081".to_vec())],
            body: Vec::new(),
            key: Some(Key::well_known()),
            skew: 0,
        }
    }

    /// Reads `path`.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    /// Posts a JSON text to `path`.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path).body(body).send().await
    }

    /// Queries the feed at `path`.
    pub(crate) async fn query(&self, path: &str, body: &str) -> Answer {
        let call = self.call("POST", path).header("x-ms-documentdb-isquery", "True");
        call.header("content-type", "application/query+json").body(body).send().await
    }

    /// Database `d` with container `c`, keyed by `/pk`.
    pub(crate) async fn with_container(self) -> Self {
        self.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
        let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
        self.post("/dbs/d/colls", body).await.expect(201);
        self
    }
}

/// The emulator's account, with a read-only key.
pub(crate) fn account() -> Account {
    Account {
        name: "planisphere".into(),
        keys: KeyRing {
            primary: Key::well_known(),
            secondary: Some(Key::from_bytes(&[2; 64])),
            primary_readonly: Some(Key::from_bytes(&[3; 64])),
            secondary_readonly: None,
        },
        public_endpoint: None,
        region: "Local".to_owned(),
        consistency: Consistency::Session,
        local_auth: true,
        direct: api_nosql::Direct::default(),
    }
}

impl Call<'_> {
    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn key(mut self, key: Option<Key>) -> Self {
        self.key = key;
        self
    }

    pub(crate) fn skew_seconds(mut self, skew: i64) -> Self {
        self.skew = skew;
        self
    }

    pub(crate) async fn send(self) -> Answer {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        if let Some(key) = &self.key {
            let seconds = testkit::harness::START_SECONDS.saturating_add_signed(self.skew);
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            let (kind, link) = signed_parts(&self.path);
            let method = self.method.to_lowercase();
            let text = format!("{method}\n{kind}\n{link}\n{}\n\n", date.to_lowercase());
            request = request.header("x-ms-date", date).header("authorization", sign(key, &text));
        }
        let request = request.body(Full::new(Bytes::from(self.body))).expect("a request");
        let response = self.service.service.serve(request, Scheme::Http).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }
}

impl Answer {
    /// Returns the response if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// Type and link by the rules of the protocol, written down independently of the server.
fn signed_parts(path: &str) -> (String, String) {
    let segments: Vec<String> = path
        .split('/')
        .filter(|s| !s.is_empty())
        .map(|s| percent_encoding::percent_decode_str(s).decode_utf8_lossy().into_owned())
        .collect();
    let n = segments.len();
    let is_rid = segments.get(1).is_some_and(|d| d.len() == 8 && d.ends_with("=="));
    let (kind, owner) = match n {
        0 => (String::new(), &segments[..]),
        6 if segments[4] == "operations" => ("colls".into(), &segments[..4]),
        n if n % 2 == 1 => (segments[n - 1].clone(), &segments[..n - 1]),
        n => (segments[n - 2].clone(), &segments[..]),
    };
    let link = match segments.first().map(String::as_str) {
        Some("offers") => owner.get(1).cloned().unwrap_or_default().to_lowercase(),
        _ if is_rid => owner.last().cloned().unwrap_or_default().to_lowercase(),
        _ => owner.join("/"),
    };
    (kind, link)
}

fn sign(key: &Key, text: &str) -> String {
    let key_bytes = STANDARD.decode(key.expose()).expect("keys are base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key_bytes).expect("a key of any length");
    mac.update(text.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    let token = format!("type=master&ver=1.0&sig={signature}");
    percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC).to_string()
}
