//! Loads the public keys of a directory from a file, or from a URL that is read again periodically.

use std::sync::Arc;
use std::time::Duration;

use account::{Directory, DirectoryMode, DirectoryRules, JwkSet, Principals};
use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::{info, warn};

use crate::config;

/// How long keys are used before they are fetched again.
const REFRESH: Duration = Duration::from_secs(60 * 60);
/// Least interval between two fetches, whatever tokens clients send.
const PAUSE: Duration = Duration::from_secs(30);
/// Time limit of a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest accepted key set.
const KEYS_BYTES_MAX: usize = 1 << 20;

/// Opens the configured directory, with its keys. A file must exist at the start; a URL may become
/// available later.
pub(crate) async fn open(settings: &config::Directory) -> anyhow::Result<Arc<Directory>> {
    let mode = match settings.mode {
        config::DirectoryMode::StandIn => DirectoryMode::StandIn,
        config::DirectoryMode::TrustAny => DirectoryMode::TrustAny,
        config::DirectoryMode::Verify => DirectoryMode::Verify(rules(settings)),
    };
    let directory = Arc::new(Directory::new(mode));
    match settings.mode {
        config::DirectoryMode::StandIn => {}
        config::DirectoryMode::TrustAny => {
            warn!("every caller with any bearer token can do everything on this server");
        }
        config::DirectoryMode::Verify => {
            let source = JwksSource::parse(&settings.jwks);
            match source.read().await {
                Ok(keys) => directory.set_keys(keys),
                Err(error) if matches!(source, JwksSource::File(_)) => return Err(error),
                Err(error) => warn!(
                    error = format!("{error:#}"),
                    "the directory's public keys are not loaded yet"
                ),
            }
            tokio::spawn(keep_fresh(Arc::clone(&directory), source));
        }
    }
    Ok(directory)
}

fn rules(settings: &config::Directory) -> DirectoryRules {
    let list = settings.audience.split(',').map(str::trim).filter(|text| !text.is_empty());
    DirectoryRules {
        issuer: settings.issuer.trim().to_owned(),
        audiences: list.map(str::to_owned).collect(),
        contributors: Principals::parse(&settings.contributors),
        readers: Principals::parse(&settings.readers),
    }
}

/// Fetches the keys periodically. After a failure the old keys stay in use.
async fn keep_fresh(directory: Arc<Directory>, source: JwksSource) {
    loop {
        tokio::select! {
            () = directory.wait_for_unknown_key() => {}
            () = tokio::time::sleep(REFRESH) => {}
        }
        match source.read().await {
            Ok(keys) => {
                directory.set_keys(keys);
                info!("the directory's public keys were reloaded");
            }
            Err(error) => {
                warn!(error = format!("{error:#}"), "can't reload the directory's public keys")
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The source of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JwksSource {
    File(String),
    Url(Uri),
}

impl JwksSource {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let url = text.parse::<Uri>().ok();
        let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
        url.map_or_else(|| JwksSource::File(text.to_owned()), JwksSource::Url)
    }

    async fn read(&self) -> anyhow::Result<JwkSet> {
        let (name, text) = match self {
            JwksSource::File(path) => (path.clone(), std::fs::read(path).map_err(Into::into)),
            JwksSource::Url(url) => {
                let fetched = tokio::time::timeout(FETCH_TIMEOUT, fetch(url)).await;
                let fetched = fetched.unwrap_or_else(|_| Err(anyhow!("it does not answer")));
                (url.to_string(), fetched)
            }
        };
        let text = text.with_context(|| format!("can't read the directory's keys at {name}"))?;
        JwkSet::parse(&text).map_err(|error| anyhow!("the directory's keys at {name}: {error}"))
    }
}

async fn fetch(url: &Uri) -> anyhow::Result<Vec<u8>> {
    let host = url.host().context("the address has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_https = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    if !is_https {
        return get(stream, url).await;
    }
    let connector = TlsConnector::from(Arc::new(trust()?));
    let stream = connector.connect(ServerName::try_from(host)?, stream).await?;
    get(stream, url).await
}

/// Trusts the root certificates of the operating system.
fn trust() -> anyhow::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

async fn get<S>(stream: S, url: &Uri) -> anyhow::Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Errors of the connection show up in its request.
    tokio::spawn(connection);
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map(ToString::to_string).unwrap_or_default();
    let request = Request::get(path).header(HOST, host).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    if !response.status().is_success() {
        bail!("it answers with {}", response.status());
    }
    let body = Limited::new(response.into_body(), KEYS_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer can't be read: {error}"))?;
    Ok(body.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_told_from_a_file() {
        let url = |text: &str| matches!(JwksSource::parse(text), JwksSource::Url(_));
        assert!(url("https://login.example/keys") && url(" http://127.0.0.1:1/k "));
        assert!(!url("keys.json") && !url("/etc/keys.json") && !url("C:\\keys.json"));
        assert!(!url("ftp://x/y"));
    }
}
