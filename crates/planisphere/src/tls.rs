//! TLS: our own certificate authority, and the server certificate that it signs.
//!
//! The authority is created once per data directory and kept there, so that users need to trust it
//! only once. The server certificate is created anew in each process, with the current names of the
//! machine; it is never stored. Nothing here runs before the first TLS connection needs it.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;

use crate::{http2, machine, private_file};

const DAY: Duration = Duration::from_secs(86_400);
/// Clients with slow clocks must not see a certificate from the future.
const BACKDATED: Duration = DAY;
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);
/// Apple's platforms refuse server certificates that live longer than 825 days.
const SERVER_LIFETIME: Duration = DAY.saturating_mul(800);

/// TLS for one process; everything is created on first use.
pub(crate) struct Tls {
    directory: Option<PathBuf>,
    names: Vec<String>,
    made: OnceCell<Made>,
}

struct Made {
    acceptor: TlsAcceptor,
    authority_pem: String,
}

/// A certificate authority with its key.
pub(crate) struct Authority {
    key: KeyPair,
    pem: String,
}

impl Tls {
    /// TLS whose authority lives under the data directory (or in memory, without one) and whose
    /// server certificate is valid for `names`, host names and IP addresses alike.
    pub(crate) fn new(data_dir: Option<&Path>, names: Vec<String>) -> Self {
        Self { directory: data_dir.map(directory_in), names, made: OnceCell::new() }
    }

    /// The acceptor for TLS connections.
    pub(crate) async fn acceptor(&self) -> anyhow::Result<&TlsAcceptor> {
        Ok(&self.made().await?.acceptor)
    }

    /// The authority's certificate, for clients to trust.
    pub(crate) async fn authority_pem(&self) -> anyhow::Result<&str> {
        Ok(&self.made().await?.authority_pem)
    }

    async fn made(&self) -> anyhow::Result<&Made> {
        self.made
            .get_or_try_init(|| async {
                let directory = self.directory.clone();
                let names = self.names.clone();
                tokio::task::spawn_blocking(move || make(directory.as_deref(), names)).await?
            })
            .await
    }
}

fn make(directory: Option<&Path>, names: Vec<String>) -> anyhow::Result<Made> {
    let authority = match directory {
        Some(directory) => Authority::load_or_create(directory)?,
        None => Authority::create()?,
    };
    let (chain, key) = authority.issue(names)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // HTTP/2 comes last: it is only for clients that offer nothing else, to refuse them properly.
    config.alpn_protocols = vec![b"http/1.1".to_vec(), http2::ALPN.to_vec()];
    Ok(Made { acceptor: TlsAcceptor::from(Arc::new(config)), authority_pem: authority.pem })
}

/// The certificate file of a data directory's authority.
pub(crate) fn authority_file(data_dir: &Path) -> PathBuf {
    directory_in(data_dir).join("ca.pem")
}

/// The certificate directory in a data directory.
pub(crate) fn directory_in(data_dir: &Path) -> PathBuf {
    data_dir.join("tls")
}

impl Authority {
    /// The authority kept in `directory`, created if there is none. Two processes that do this at
    /// once end up with the same one.
    pub(crate) fn load_or_create(directory: &Path) -> anyhow::Result<Self> {
        let shown = directory.display();
        if let Some(authority) = Self::load(directory)
            .with_context(|| format!("can't use the certificates in {shown}"))?
        {
            return Ok(authority);
        }
        Self::create()?
            .store(directory)
            .with_context(|| format!("can't store certificates in {shown}"))?;
        Self::load(directory)?
            .ok_or_else(|| anyhow!("{shown} disappeared while it was being created"))
    }

    fn load(directory: &Path) -> anyhow::Result<Option<Self>> {
        let key = match std::fs::read_to_string(directory.join("ca-key.pem")) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let pem = std::fs::read_to_string(directory.join("ca.pem"))?;
        Ok(Some(Self { key: KeyPair::from_pem(&key)?, pem }))
    }

    fn create() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = authority_params(&key);
        (params.not_before, params.not_after) = validity(AUTHORITY_LIFETIME);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { key, pem })
    }

    /// Puts both files into place in one step, so that no process sees one without the other.
    fn store(&self, directory: &Path) -> io::Result<()> {
        let parent = directory.parent().unwrap_or(Path::new("."));
        let staging = parent.join(format!("tls.new-{}", std::process::id()));
        if staging.exists() {
            // Left by a process with our id that did not finish.
            std::fs::remove_dir_all(&staging)?;
        }
        private_file::create(&staging.join("ca-key.pem"), self.key.serialize_pem().as_bytes())?;
        private_file::create(&staging.join("ca.pem"), self.pem.as_bytes())?;
        let renamed = std::fs::rename(&staging, directory);
        if renamed.is_err() {
            std::fs::remove_dir_all(&staging)?;
        }
        // Another process was faster; its authority is equally valid.
        if directory.join("ca-key.pem").exists() { Ok(()) } else { renamed }
    }

    /// A server certificate for `names` with its chain and key.
    fn issue(
        &self,
        names: Vec<String>,
    ) -> anyhow::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let issuer_params = authority_params(&self.key);
        let issuer = Issuer::from_params(&issuer_params, &self.key);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = common_name("Planisphere server".to_owned());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(SERVER_LIFETIME);
        let server = params.signed_by(&key, &issuer)?;
        let authority = CertificateDer::from_pem_slice(self.pem.as_bytes())
            .map_err(|error| anyhow!("ca.pem is not a certificate: {error}"))?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((vec![server.der().clone(), authority], key.into()))
    }

    /// The certificate, for clients to trust.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

/// The parameters that identify an authority. They are derived from the key alone, so that they
/// need not be read back from the certificate, and two authorities never share a name: trust stores
/// that look up issuers by name would confuse them.
fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let id = params.key_identifier(key);
    let tail: String = id.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = common_name(format!("Planisphere local authority {tail}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(name: String) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Start and end of a validity period, in the type that the certificate needs.
fn validity<T: From<SystemTime>>(lifetime: Duration) -> (T, T) {
    let start = SystemTime::now() - BACKDATED;
    (start.into(), (start + lifetime).into())
}

/// The names of a server certificate: this machine's, plus `extra`.
pub(crate) fn server_names(extra: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    for name in machine::host_name().into_iter().chain(extra) {
        if is_certifiable(&name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether a text is a valid name in a certificate: an IP address or a DNS name.
fn is_certifiable(name: &str) -> bool {
    let dns = name.strip_prefix("*.").unwrap_or(name);
    let is_dns = !dns.is_empty()
        && name.len() <= 253
        && dns.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    is_dns || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_made_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let tls = dir.path().join("tls");
        let first = Authority::load_or_create(&tls).unwrap();
        let second = Authority::load_or_create(&tls).unwrap();
        assert_eq!(first.pem, second.pem);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "staging was left behind");
    }

    #[test]
    fn an_authority_that_was_stored_meanwhile_wins() {
        let dir = tempfile::tempdir().unwrap();
        let tls = dir.path().join("tls");
        let first = Authority::create().unwrap();
        first.store(&tls).unwrap();
        Authority::create().unwrap().store(&tls).unwrap();
        assert_eq!(Authority::load(&tls).unwrap().unwrap().pem, first.pem);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "staging was left behind");
    }

    #[test]
    fn a_damaged_key_is_an_error_and_not_a_new_authority() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca-key.pem"), "garbage").unwrap();
        std::fs::write(dir.path().join("ca.pem"), "garbage").unwrap();
        assert!(Authority::load_or_create(dir.path()).is_err());
    }

    #[test]
    fn names_are_unique_and_only_those_a_certificate_can_hold() {
        let given = ["localhost", "10.0.0.7", "a b", "", "*.db.example", "a.*", "my_db"];
        let names = server_names(given.map(str::to_owned));
        assert_eq!(names.iter().filter(|name| *name == "localhost").count(), 1);
        assert!(names.contains(&"10.0.0.7".to_owned()));
        let is_in = |name: &str| names.iter().any(|known| known == name);
        assert!(is_in("*.db.example") && is_in("my_db") && !is_in("a b") && !is_in("a.*"));
        assert!(!names.contains(&String::new()));
    }
}
