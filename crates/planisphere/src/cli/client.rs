//! The client for a running server's admin API.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use account::WELL_KNOWN_KEY;
use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, value_parser};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, RETRY_AFTER};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{config_arg, load_settings, settings_arg, text};
use crate::admin::RETRY_AFTER_MS;
use crate::admin::types::{Problem, QueryErrorInfo};
use crate::config::{KEYS, Settings};
use crate::{account_keys, data_dir, listen, tls};

/// A server that takes longer than this to answer counts as dead.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The total time that a request waits for a server that throttles it.
const THROTTLED_MAX: Duration = Duration::from_secs(600);
/// After this time of throttling the user is notified.
const THROTTLED_NOTICE_AFTER: Duration = Duration::from_secs(3);
/// The least wait of a throttled request, also used if the server gives none.
const RETRY_WAIT: Duration = Duration::from_secs(1);
const RETRY_WAIT_MIN: Duration = Duration::from_millis(1);
/// Consecutive failures that a polling command tolerates.
const FAILURES_MAX: u32 = 5;
/// Largest accepted reply.
const REPLY_BYTES_MAX: usize = 256 << 20;

/// The server that a command talks to.
pub(super) struct Client {
    endpoint: Uri,
    key: Option<String>,
    trusted: Option<PathBuf>,
    /// The connection to reuse, unless a request is using it or failed on it.
    connection: Mutex<Option<Connection>>,
}

/// Sends requests on an open connection.
type Connection = SendRequest<Full<Bytes>>;

/// A raw response.
struct Answer {
    status: StatusCode,
    /// How long a throttled request must wait, if the server says so.
    retry_after: Option<Duration>,
    body: Bytes,
}

/// A request that the server refuses, so that a retry would be refused too.
#[derive(Debug)]
struct RejectedRequest {
    status: StatusCode,
    text: String,
}

/// Whether an error means that the server says that a resource does not exist.
pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    is_refused(error, StatusCode::NOT_FOUND)
}

/// Whether an error means that the server says that a resource exists already.
pub(super) fn is_taken(error: &anyhow::Error) -> bool {
    is_refused(error, StatusCode::CONFLICT)
}

fn is_refused(error: &anyhow::Error, status: StatusCode) -> bool {
    error.downcast_ref::<RejectedRequest>().is_some_and(|refused| refused.status == status)
}

impl std::fmt::Display for RejectedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RejectedRequest {}

/// A query with a mistake, and its position.
#[derive(Debug)]
pub(super) struct InvalidQuery {
    pub(super) message: String,
    pub(super) query_error: QueryErrorInfo,
}

impl std::fmt::Display for InvalidQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidQuery {}

/// Counts consecutive failures that count as temporary.
#[derive(Debug, Default)]
pub(super) struct Retries {
    failures: u32,
}

impl Retries {
    /// The failure as a line to show before the next try; an error if there are too many.
    pub(super) fn failed(&mut self, error: anyhow::Error) -> anyhow::Result<String> {
        self.failures += 1;
        if error.is::<RejectedRequest>() || self.failures > FAILURES_MAX {
            return Err(error);
        }
        let text = format!("{error:#}");
        let line = text.lines().next().unwrap_or_default().trim_end_matches('.');
        Ok(text::shown(&format!("{line}; trying again")))
    }
}

/// Arguments that select the server.
pub(super) fn args() -> Vec<Arg> {
    const HEADING: &str = "Which server";
    let endpoint = Arg::new("endpoint")
        .long("endpoint")
        .value_name("URL")
        .env("PLANISPHERE_ADMIN_ENDPOINT")
        .help(
            "Address of the server: its admin port, or its NoSQL port [default: the server of \
               --data if it runs, else the default admin port of this machine]",
        );
    let trusted = Arg::new("ca")
        .long("ca")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Certificate to trust for an https address [default: that of --data]");
    let of_settings = KEYS
        .iter()
        .filter(|key| matches!(key.flag, "data" | "key" | "key-file"))
        .map(settings_arg)
        .chain([config_arg()]);
    let args = [endpoint, trusted].into_iter().chain(of_settings);
    args.map(|arg| arg.help_heading(HEADING)).collect()
}

impl Client {
    /// The server that the arguments select.
    pub(super) fn of(matches: &ArgMatches) -> anyhow::Result<Self> {
        let settings = load_settings(matches)?;
        let given = matches.get_one::<String>("endpoint").cloned();
        let noted = settings.data_dir().and_then(data_dir::noted_admin_endpoint);
        let is_noted = given.is_none() && noted.is_some();
        let endpoint = match given.or(noted) {
            Some(endpoint) => endpoint,
            // The default server must not be taken for that of the given directory.
            None if matches.value_source("data") == Some(ValueSource::CommandLine) => bail!(
                "no server with an admin port has {} open.\n\
                 Start it with `planisphere serve --data DIR`, or give its address with \
                 --endpoint URL.",
                settings.storage.data.display()
            ),
            None => {
                let port = |name| listen::named(name).map(|row| settings.listen.port(row));
                let admin = port("admin").filter(|port| *port != 0);
                format!("http://127.0.0.1:{}/", admin.or(port("nosql")).unwrap_or_default())
            }
        };
        let endpoint: Uri = parse_endpoint(&endpoint)?;
        let key = key_for(&endpoint, is_noted, &settings)?;
        let trusted = matches.get_one::<PathBuf>("ca").cloned().or_else(|| {
            let own = tls::authority_file(settings.data_dir()?);
            own.exists().then_some(own)
        });
        Ok(Self { endpoint, key, trusted, connection: Mutex::default() })
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        self.ask(Method::POST, path, serde_json::to_vec(body)?.into()).await
    }

    pub(super) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        self.ask(Method::PUT, path, serde_json::to_vec(body)?.into()).await
    }

    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.ask(Method::DELETE, path, Bytes::new()).await
    }

    /// The response to a probe, whatever its status, within `timeout`.
    pub(super) async fn probe(
        &self,
        path: &str,
        timeout: Duration,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let exchange = self.exchange(Method::GET, path, Bytes::new());
        let answer = tokio::time::timeout(timeout, exchange).await;
        let Answer { status, body, .. } = answer.map_err(|_| self.timed_out())??;
        Ok((status, body))
    }

    /// The address of the server.
    pub(super) fn endpoint(&self) -> &Uri {
        &self.endpoint
    }

    /// Whether the server is on this machine, judging by its address.
    pub(super) fn is_here(&self) -> bool {
        address_of(&self.endpoint).is_ok_and(|(host, _)| is_loopback(&host))
    }

    /// Sends a request until the server no longer throttles it.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<T> {
        let mut waited = Duration::ZERO;
        let Answer { status, body, .. } = loop {
            let exchange = self.exchange(method.clone(), path, body.clone());
            let answer = tokio::time::timeout(REPLY_TIMEOUT, exchange)
                .await
                .map_err(|_| self.timed_out())??;
            if answer.status != StatusCode::TOO_MANY_REQUESTS || waited >= THROTTLED_MAX {
                break answer;
            }
            let wait =
                answer.retry_after.unwrap_or(RETRY_WAIT).clamp(RETRY_WAIT_MIN, REPLY_TIMEOUT);
            if waited < THROTTLED_NOTICE_AFTER && waited + wait >= THROTTLED_NOTICE_AFTER {
                eprintln!("planisphere: the server answers with 429 (throttled); retrying");
            }
            waited += wait;
            tokio::time::sleep(wait).await;
        };
        if !status.is_success() {
            return Err(self.explain(status, &body));
        }
        serde_json::from_slice(&body)
            .with_context(|| format!("{} answers, but not as a Planisphere server", self.endpoint))
    }

    fn timed_out(&self) -> anyhow::Error {
        anyhow!("{} does not answer", self.endpoint)
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Answer> {
        let mut connection = match self.idle_connection().await {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let request = self.request(&method, path, body)?;
        let response = connection.send_request(request).await?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow!("the answer can't be read: {error}"))?;
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(Answer { status, retry_after, body: body.to_bytes() })
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request =
            Request::builder().method(method).uri(path).header(HOST, authority(&self.endpoint));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            // Signed, because the process that listens there may not be the server, and must not
            // learn the key.
            let signed = api_nosql::sign(key, method.as_str(), path, SystemTime::now());
            let (date, signature) = signed.context("the key is not base64")?;
            request = request.header("x-ms-date", date).header(AUTHORIZATION, signature);
        }
        Ok(request.body(Full::new(body))?)
    }

    /// The connection of the last request, unless the server closed it in the meantime.
    async fn idle_connection(&self) -> Option<Connection> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        kept.ready().await.is_ok().then_some(kept)
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        let (host, port) = address_of(&self.endpoint)?;
        let connecting = TcpStream::connect((host.as_str(), port));
        let stream = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Err(_) => return Err(self.timed_out()),
        };
        if self.endpoint.scheme_str() == Some("https") {
            let name = ServerName::try_from(host)?;
            let connector = TlsConnector::from(Arc::new(self.tls()?));
            let stream = connector.connect(name, stream).await.with_context(|| {
                format!(
                    "no TLS connection to {}; give the certificate to trust with --ca",
                    self.endpoint
                )
            })?;
            return shake_hands(stream).await;
        }
        shake_hands(stream).await
    }

    fn tls(&self) -> anyhow::Result<rustls::ClientConfig> {
        let Some(file) = &self.trusted else {
            bail!("for an https address give --ca FILE; `planisphere cert` exports that file");
        };
        let shown = file.display();
        let certificate =
            CertificateDer::from_pem_file(file).map_err(|error| anyhow!("{shown}: {error}"))?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).with_context(|| format!("{shown} can't be trusted"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }

    fn unreachable(&self, error: &std::io::Error) -> anyhow::Error {
        anyhow!(
            "no server answers at {} ({error}).\n\
             Start one with `planisphere serve`, or give its address with --endpoint URL.",
            self.endpoint
        )
    }

    fn explain(&self, status: StatusCode, body: &[u8]) -> anyhow::Error {
        let problem = serde_json::from_slice::<Problem>(body);
        if let Ok(Problem { message, query: Some(query_error), .. }) = problem {
            return InvalidQuery { message, query_error }.into();
        }
        let (message, help) = match problem {
            Ok(problem) => (problem.message, problem.help),
            Err(_) => (format!("{} answers with {status}", self.endpoint), Vec::new()),
        };
        let text = if status == StatusCode::UNAUTHORIZED {
            format!("{message}\nGive the account's key with --key-file FILE or --key BASE64.")
        } else if help.is_empty() || help.iter().any(|entry| entry.contains("/_admin/")) {
            message
        } else {
            format!("{message}\nAvailable: {}", help.join(", "))
        };
        if status.is_client_error() {
            RejectedRequest { status, text }.into()
        } else {
            anyhow!("{text}")
        }
    }
}

/// How long a throttled request must wait, by the finer header if present.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: HeaderName| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let finer = number(RETRY_AFTER_MS).map(Duration::from_millis);
    finer.or_else(|| number(RETRY_AFTER).map(Duration::from_secs))
}

async fn shake_hands<S>(stream: S) -> anyhow::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Errors of the connection show up in its requests.
    tokio::spawn(connection);
    Ok(sender)
}

fn parse_endpoint(text: &str) -> anyhow::Result<Uri> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = with_scheme
        .parse()
        .ok()
        .filter(|uri: &Uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
        })
        .with_context(|| {
            format!("`{text}` is not an address; give one such as http://127.0.0.1:8085/")
        })?;
    Ok(uri)
}

fn address_of(endpoint: &Uri) -> anyhow::Result<(String, u16)> {
    let host = endpoint.host().context("the address has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let default = if endpoint.scheme_str() == Some("https") { 443 } else { 80 };
    Ok((host, endpoint.port_u16().unwrap_or(default)))
}

fn authority(endpoint: &Uri) -> String {
    endpoint.authority().map(ToString::to_string).unwrap_or_default()
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The key to send: the configured one; for the data directory's own server or on this machine, the
/// one of the data directory; on this machine, else the well-known one.
fn key_for(endpoint: &Uri, is_noted: bool, settings: &Settings) -> anyhow::Result<Option<String>> {
    let configured = account_keys::configured_primary(settings)?;
    let (host, _) = address_of(endpoint)?;
    let is_here = is_loopback(&host);
    let current = match settings.data_dir() {
        Some(dir) if is_here || is_noted => account_keys::current_primary(dir, configured.clone()),
        Some(_) | None => configured,
    };
    Ok(match current {
        Some(key) => Some(key.expose().to_owned()),
        None if is_here => Some(WELL_KNOWN_KEY.to_owned()),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_scheme() {
        let address = |text: &str| address_of(&parse_endpoint(text).unwrap()).unwrap();
        assert_eq!(address("localhost:8085"), ("localhost".to_owned(), 8085));
        assert_eq!(address("http://127.0.0.1:1/"), ("127.0.0.1".to_owned(), 1));
        assert_eq!(address("https://[::1]"), ("::1".to_owned(), 443));
        assert!(parse_endpoint("ftp://x").is_err() && parse_endpoint("http://").is_err());
    }

    #[test]
    fn some_failures_pass_but_a_refusal_stays() {
        let mut retries = Retries::default();
        let tried = (1..).take_while(|_| retries.failed(anyhow!("no answer")).is_ok()).count();
        assert_eq!(tried, 5);
        let refused = RejectedRequest { status: StatusCode::NOT_FOUND, text: "no such job".into() };
        let refused = anyhow::Error::from(refused);
        assert!(is_missing(&refused) && !is_taken(&refused));
        assert!(Retries::default().failed(refused).is_err());
        let said = Retries::default().failed(anyhow!("nobody there.\nStart one")).unwrap();
        assert_eq!(said, "nobody there; trying again");
    }

    #[test]
    fn the_finer_wait_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        headers.insert(RETRY_AFTER, "2".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(2)));
        headers.insert(RETRY_AFTER_MS, "30".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_millis(30)));
        headers.insert(RETRY_AFTER_MS, "soon".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_well_known_key_is_shown_to_this_machine_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.storage.data = dir.path().to_owned();
        let key = |endpoint: &str, settings: &Settings| {
            key_for(&parse_endpoint(endpoint).unwrap(), false, settings).unwrap()
        };
        let noted = |settings: &Settings| {
            key_for(&parse_endpoint("10.0.0.1:1").unwrap(), true, settings).unwrap()
        };
        assert_eq!(key("localhost:1", &settings).as_deref(), Some(WELL_KNOWN_KEY));
        assert_eq!((key("db.example:1", &settings), noted(&settings)), (None, None));
        let mine = "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l";
        std::fs::write(dir.path().join("account.key"), mine).unwrap();
        assert_eq!(key("localhost:1", &settings).as_deref(), Some(mine));
        assert_eq!(key("db.example:1", &settings), None);
        // The note of the directory names this server, so its key is used.
        assert_eq!(noted(&settings).as_deref(), Some(mine));
        settings.account.key = crate::config::Secret(mine.to_owned());
        assert_eq!(key("db.example:1", &settings).as_deref(), Some(mine));
    }
}
