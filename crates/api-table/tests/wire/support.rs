//! A service over an engine in memory, and a client that signs as the SDKs do.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use account::{Directory, DirectoryMode, Key, KeyRing, RequestSource, Scheme};
use api_table::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Flavour, Hooks, Service};
use bytes::Bytes;
use engine::{Container, Settings, Throttling};
use front_http::RequestLimits;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::header::HeaderMap;
use serde_json::Value;
use storage::MemoryStore;
use testkit::harness::Harness;

/// A service and the harness below it.
pub(crate) struct TestService {
    pub(crate) harness: Harness,
    pub(crate) service: Arc<Service>,
    flavour: Flavour,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// How a request is authorized.
enum Credential {
    None,
    SharedKey(Key),
    Header(String),
}

/// A request under construction.
pub(crate) struct Call<'s> {
    service: &'s TestService,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    credential: Credential,
    peer: &'static str,
}

pub(crate) fn development_key() -> Key {
    Key::parse(DEVELOPMENT_KEY).expect("a key")
}

impl TestService {
    /// The storage flavour, with a table `demo`.
    pub(crate) async fn with_table() -> Self {
        let service = Self::storage();
        service.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
        service
    }

    pub(crate) fn storage() -> Self {
        Self::over(Harness::in_memory(), Flavour::Storage)
    }

    pub(crate) fn cosmos() -> Self {
        Self::over(Harness::in_memory(), Flavour::Cosmos)
    }

    /// A service that refuses requests beyond the provisioned throughput.
    pub(crate) fn throttling(flavour: Flavour) -> Self {
        let settings = Settings { throttling: Throttling::On, ..Settings::default() };
        Self::over(Harness::with_settings(Arc::new(MemoryStore::new()), settings), flavour)
    }

    /// A service whose tables have several ranges.
    pub(crate) fn with_ranges(default_ranges: u32) -> Self {
        let settings = Settings { default_ranges, ..Settings::default() };
        let harness = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
        Self::over(harness, Flavour::Storage)
    }

    /// A service that serves only bearers of tokens.
    pub(crate) fn without_keys() -> Self {
        Self::with_auth(Harness::in_memory(), Flavour::Storage, false)
    }

    pub(crate) fn over(harness: Harness, flavour: Flavour) -> Self {
        Self::with_auth(harness, flavour, true)
    }

    fn with_auth(harness: Harness, flavour: Flavour, has_local_auth: bool) -> Self {
        let accounts = Accounts {
            keys: KeyRing {
                primary_readonly: Some(Key::from_bytes(&[3; 64])),
                ..KeyRing::single(Key::well_known())
            },
            has_development_key: true,
            others: vec![("other".into(), KeyRing::single(Key::from_bytes(&[7; 64])))],
            has_local_auth,
            checks_dates: true,
            default_throughput: None,
        };
        let mode = if has_local_auth { DirectoryMode::StandIn } else { DirectoryMode::TrustAny };
        let directory = Arc::new(Directory::new(mode));
        let hooks = Hooks { observer: None, directory };
        let engine = harness.engine.clone();
        let service = Service::new(engine, accounts, RequestLimits::default(), hooks);
        Self { harness, service, flavour }
    }

    /// A signed request; `path` is below the account.
    pub(crate) fn call(&self, method: &str, path: &str) -> Call<'_> {
        let (path, key) = match self.flavour {
            Flavour::Storage => (format!("/{DEVELOPMENT_ACCOUNT}{path}"), development_key()),
            Flavour::Cosmos => (path.to_owned(), Key::well_known()),
        };
        Call {
            service: self,
            method: method.to_owned(),
            path,
            headers: vec![("host".into(), "example.test:10002".into())],
            body: Vec::new(),
            credential: Credential::SharedKey(key),
            peer: "127.0.0.1",
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path).body(body).send().await
    }

    /// Inserts an entity into table `demo`.
    pub(crate) async fn insert(&self, partition: &str, row: &str, rest: &str) -> Answer {
        let (partition, row) = (serde_json::json!(partition), serde_json::json!(row));
        let comma = if rest.is_empty() { "" } else { "," };
        let body = format!(r#"{{"PartitionKey":{partition},"RowKey":{row}{comma}{rest}}}"#);
        self.post("/demo", &body).await
    }

    /// The container of table `demo`.
    pub(crate) fn demo(&self) -> Arc<Container> {
        let catalog = self.harness.engine.catalog();
        let database = catalog.database("TablesDB").expect("a database").rid;
        Arc::clone(catalog.container(database, "demo").expect("a table"))
    }

    /// The keys of all entities that a query finds, page by page, and how many pages there were.
    pub(crate) async fn keys(&self, query: &str) -> (Vec<(String, String)>, usize) {
        let (mut keys, mut pages, mut next) = (Vec::new(), 0, String::new());
        loop {
            let answer = self.get(&format!("/demo()?{query}{next}")).await;
            answer.expect(200);
            pages += 1;
            keys.extend(answer.keys());
            match answer.continuation() {
                Some(token) => next = token,
                None => return (keys, pages),
            }
        }
    }
}

impl Call<'_> {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    pub(crate) fn key(mut self, key: Key) -> Self {
        self.credential = Credential::SharedKey(key);
        self
    }

    pub(crate) fn unsigned(mut self) -> Self {
        self.credential = Credential::None;
        self
    }

    pub(crate) fn authorization(mut self, header: &str) -> Self {
        self.credential = Credential::Header(header.to_owned());
        self
    }

    /// Sends the whole path unchanged, including the account.
    pub(crate) fn path(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    pub(crate) fn from(mut self, peer: &'static str) -> Self {
        self.peer = peer;
        self
    }

    pub(crate) async fn send(self) -> Answer {
        let Self { service, method, path, headers, body, credential, peer } = self;
        let now = service.harness.engine.components().clock.now();
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now.0));
        let mut request = Request::builder().method(method.as_str()).uri(&path);
        let header = |name: &str| {
            headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap_or_default()
        };
        match credential {
            Credential::None => {}
            Credential::Header(text) => request = request.header("authorization", text),
            Credential::SharedKey(key) => {
                let (plain, query) = path.split_once('?').unwrap_or((&path, ""));
                let comp = query.split('&').find_map(|pair| pair.strip_prefix("comp="));
                let account = match service.flavour {
                    Flavour::Storage => {
                        let first = plain.split('/').nth(1).unwrap_or_default();
                        first.trim_end_matches("-secondary")
                    }
                    Flavour::Cosmos => "localhost",
                };
                let comp = comp.map(|comp| format!("?comp={comp}")).unwrap_or_default();
                let payload = format!(
                    "{method}\n\n{}\n{date}\n/{account}{plain}{comp}",
                    header("content-type")
                );
                let signature = account::sign(&key, payload.as_bytes());
                let value = format!("SharedKey {account}:{signature}");
                request = request.header("authorization", value);
            }
        }
        request = request.header("x-ms-date", &date);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let source = RequestSource::new(Scheme::Http, peer.parse().ok());
        // Boxed, so that tests do not carry its state along.
        let serving = Box::pin(service.service.serve(request, source, service.flavour));
        let response = serving.await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Checks status and code of an error.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    pub(crate) fn etag(&self) -> &str {
        self.header("etag").expect("an etag")
    }

    pub(crate) fn code(&self) -> String {
        self.header("x-ms-error-code").unwrap_or_default().to_owned()
    }

    /// Keys of the entities of a page.
    pub(crate) fn keys(&self) -> Vec<(String, String)> {
        let json = self.json();
        let entities = json["value"].as_array().expect("a list");
        let text = |entity: &Value, name: &str| entity[name].as_str().expect("a key").to_owned();
        entities.iter().map(|e| (text(e, "PartitionKey"), text(e, "RowKey"))).collect()
    }

    /// The options that ask for the next page.
    pub(crate) fn continuation(&self) -> Option<String> {
        let key = self.header("x-ms-continuation-nextpartitionkey")?;
        let row = self.header("x-ms-continuation-nextrowkey")?;
        Some(format!("&NextPartitionKey={key}&NextRowKey={row}"))
    }
}
