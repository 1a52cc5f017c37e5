//! HTTP and HTTPS on one port.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use testkit::http::Request;
use testkit::server::TestServer;

use crate::support::{binary, builder, connect, get, in_memory, run};

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A TLS connection that trusts only the given certificate.
pub(crate) fn connect_tls(server: &TestServer, authority_pem: &[u8], name: &str) -> TlsStream {
    tls_over(connect(server), authority_pem, name)
}

pub(crate) fn tls_over(stream: TcpStream, authority_pem: &[u8], name: &str) -> TlsStream {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority_pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, stream)
}

#[test]
fn the_admin_port_speaks_both() {
    let server = in_memory(&[]);
    let admin = || server.connect_admin().unwrap();
    let pem = Request::new("GET", "/_explorer/emulator.pem").send(&mut admin()).unwrap();
    let jobs = Request::new("GET", "/_admin/v1/jobs");
    let over_tls = jobs.send(&mut tls_over(admin(), &pem.body, "localhost")).unwrap();
    assert_eq!((over_tls.status, over_tls), (200, jobs.send(&mut admin()).unwrap()));
}

#[test]
fn one_port_speaks_both() {
    let server = in_memory(&[]);
    let pem = get(&server, "/_explorer/emulator.pem");
    assert_eq!(pem.status, 200);
    for name in ["localhost", "127.0.0.1", "::1"] {
        let mut stream = connect_tls(&server, &pem.body, name);
        for _ in 0..2 {
            let account = Request::new("GET", "/").signed(server.key(), "", "");
            let response = account.send(&mut stream).unwrap();
            assert_eq!(response.status, 200, "{}", response.text());
            let told = response.json()["writableLocations"][0]["databaseAccountEndpoint"].clone();
            assert!(told.as_str().is_some_and(|url| url.starts_with("https://")), "{told}");
        }
    }
    let plain = Request::new("GET", "/").signed(server.key(), "", "");
    let response = plain.send(&mut connect(&server)).unwrap();
    let told = response.json()["writableLocations"][0]["databaseAccountEndpoint"].clone();
    assert!(told.as_str().is_some_and(|url| url.starts_with("http://")), "{told}");
}

#[test]
fn a_certificate_for_another_name_is_not_offered() {
    let server = in_memory(&[]);
    let pem = get(&server, "/_explorer/emulator.pem").body;
    let mut stream = connect_tls(&server, &pem, "elsewhere.example");
    assert!(Request::new("GET", "/ready").send(&mut stream).is_err());
    let mut stream = connect_tls(&server, &pem, "localhost");
    assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
}

#[test]
fn the_name_of_the_public_endpoint_is_in_the_certificate() {
    let server = in_memory(&["--public-endpoint", "https://db.example:8081/"]);
    let pem = get(&server, "/_explorer/emulator.pem").body;
    let mut stream = connect_tls(&server, &pem, "db.example");
    assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
}

#[test]
fn a_name_that_the_certificate_lacks_is_added_under_the_same_authority() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = |arguments: &[&str]| builder().data_dir(&data).args(arguments).start().unwrap();
    let ready = |server: &TestServer, pem: &[u8], name: &str| {
        let response = Request::new("GET", "/ready").send(&mut connect_tls(server, pem, name));
        response.is_ok_and(|response| response.status == 200)
    };
    let first = server(&[]);
    let pem = get(&first, "/_explorer/emulator.pem").body;
    assert!(ready(&first, &pem, "localhost"));
    for name in ["db.example", "a.tenants.example", "10.1.2.3"] {
        assert!(!ready(&first, &pem, name), "{name}");
    }
    drop(first);
    let allowed = "db.example:8081,*.tenants.example,10.1.2.3";
    let second = server(&["--allow-host", allowed]);
    for name in ["localhost", "127.0.0.1", "db.example", "a.tenants.example", "10.1.2.3"] {
        assert!(ready(&second, &pem, name), "{name}");
    }
    assert!(!ready(&second, &pem, "tenants.example"));
}

#[test]
fn the_exported_certificate_is_the_one_the_server_uses() {
    let mut server = TestServer::start(binary()).unwrap();
    let data = server.data_dir();
    let exported = run(&["cert", "--data", data.to_str().unwrap()]);
    assert!(exported.status.success());
    let explained = String::from_utf8_lossy(&exported.stderr).into_owned();
    for way in ["NODE_EXTRA_CA_CERTS", "keytool", "COSMOS.EMULATOR_SERVER_CERTIFICATE"] {
        assert!(explained.contains(way), "{way} is not in {explained}");
    }
    for way in ["SSL_CERT_FILE=FILE dotnet", "DisableServerCertificateValidation=true;"] {
        assert!(explained.contains(way), "{way} is not in {explained}");
    }
    for _ in 0..2 {
        let mut stream = connect_tls(&server, &exported.stdout, "localhost");
        assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
        server.restart().unwrap();
    }
}

#[test]
fn the_certificate_is_that_of_the_directory_in_the_settings_file() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("settings.toml"));
    std::fs::write(&file, format!("[storage]\ndata = {data:?}\n")).unwrap();
    let missing = run(&["cert", "--config", file.to_str().unwrap()]);
    assert!(!missing.status.success() && !data.exists());
    std::fs::create_dir(&data).unwrap();
    let named = run(&["cert", "--data", data.to_str().unwrap()]);
    let made = String::from_utf8_lossy(&named.stderr).into_owned();
    assert!(made.contains("Made a new authority"), "{made}");
    let configured = run(&["cert", "--config", file.to_str().unwrap()]);
    assert!(configured.status.success());
    assert_eq!(configured.stdout, named.stdout);
    assert!(!String::from_utf8_lossy(&configured.stderr).contains("Made a new authority"));
}

/// Runs `planisphere cert` in an empty directory, where no server answers on the default admin
/// port.
fn cert_in(dir: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::process::Command::new(binary())
        .arg("cert")
        .args(arguments)
        .current_dir(dir)
        .env("PLANISPHERE_LISTEN_ADMIN_PORT", port.to_string())
        .output()
        .unwrap()
}

#[test]
fn the_certificate_of_a_server_in_memory_is_the_one_it_uses() {
    let server = in_memory(&[]);
    let dir = tempfile::tempdir().unwrap();
    let admin = format!("http://{}/", server.ready().admin.unwrap());
    for endpoint in [admin.as_str(), server.endpoint()] {
        let exported = cert_in(dir.path(), &["--endpoint", endpoint]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        let mut stream = connect_tls(&server, &exported.stdout, "localhost");
        assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was written");
}

#[test]
fn without_a_server_there_is_no_certificate_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["--endpoint", "http://127.0.0.1:1/"]] {
        let refused = cert_in(dir.path(), arguments);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("emulator.pem") && said.contains("no server answers"), "{said}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was written");
    }
}

#[test]
fn the_certificate_of_the_default_directory_is_exported_while_its_server_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let refused = cert_in(dir.path(), &["--data", "./planisphere-data"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("no directory ./planisphere-data"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was written");
    std::fs::create_dir(dir.path().join("planisphere-data")).unwrap();
    let made = cert_in(dir.path(), &["--data", "./planisphere-data"]);
    assert!(made.status.success());
    let exported = cert_in(dir.path(), &[]);
    assert_eq!((exported.status.code(), &exported.stdout), (Some(0), &made.stdout));
    assert!(String::from_utf8_lossy(&exported.stderr).contains("No server answers"));
}

#[test]
fn a_certificate_can_be_exported_to_a_file_before_the_first_start() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("ca.pem"));
    std::fs::create_dir(&data).unwrap();
    let output = run(&["cert", "--data", data.to_str().unwrap(), "--out", file.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty());
    let server = builder().data_dir(&data).start().unwrap();
    assert_eq!(std::fs::read(file).unwrap(), get(&server, "/_explorer/emulator.pem").body);
}
