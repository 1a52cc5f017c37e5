//! `planisphere cert`: export the certificate to trust, with instructions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, value_parser};
use hyper::StatusCode;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::client::{self, Client};
use super::load_settings;
use crate::config::Settings;
use crate::tls::{Authority, authority_file, directory_in};

/// Path at which a server returns its certificate, without a key.
const PATH: &str = "/_explorer/emulator.pem";
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

const TRUST: &str = "\
That certificate is the one to trust; it signs the certificate of the https port. It belongs to
the server's data directory and stays the same until that is deleted; a server with --memory makes
another one at each start. FILE stands for where you saved it:

  Python   SSL_CERT_FILE=FILE REQUESTS_CA_BUNDLE=FILE python app.py
           (azure-cosmos checks no certificate at all for localhost and 127.0.0.1)
  Node     NODE_EXTRA_CA_CERTS=FILE node app.js
  .NET     SSL_CERT_FILE=FILE dotnet run          (Linux; on Windows and macOS the stores below)
           or, to check nothing, DisableServerCertificateValidation=true; in the connection string
  Java     keytool -importcert -alias planisphere -cacerts -storepass changeit -noprompt -file FILE
           or, to check nothing, java -DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true
  curl     curl --cacert FILE https://localhost:8081/ready
  Linux    sudo cp FILE /usr/local/share/ca-certificates/planisphere.crt
           sudo update-ca-certificates                         (Debian, Ubuntu)
           sudo trust anchor FILE                              (Fedora, Arch)
  macOS    security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db FILE
  Windows  certutil -user -addstore Root FILE

Rust and Go programs use the trust store of the operating system. Or use the http address, which
needs no certificate; .NET and Java in Direct mode use TLS at either. A running server also serves
the certificate at GET /_explorer/emulator.pem.

The server's own certificate is made at each start, for localhost, the names of the machine, the
addresses of --bind and --admin-bind, the host of --public-endpoint and the names of --allow-host.
A client that reaches the server by another name needs that name in one of these settings.";

const EXAMPLES: &str = "\
Examples:
  planisphere cert --out planisphere-ca.pem       of the server that runs on this machine
  planisphere cert --endpoint http://127.0.0.1:8085 --out planisphere-ca.pem
  planisphere cert --data /srv/cosmos             of a directory that is there, also before its
                                                  server is started";

pub(super) fn command() -> Command {
    let out = Arg::new("out")
        .long("out")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Write the certificate here, instead of to standard output");
    Command::new("cert")
        .about("Export the certificate that clients must trust for https, and explain how")
        .after_help(format!("{EXAMPLES}\n\n{TRUST}"))
        .arg(out)
        .args(client::args())
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let settings = load_settings(matches)?;
    let pem = match chosen_dir(matches, &settings) {
        Some(dir) => of_directory(dir)?,
        None => of_server(matches, &settings)?,
    };
    match matches.get_one::<PathBuf>("out") {
        Some(file) => {
            std::fs::write(file, pem).with_context(|| format!("can't write {}", file.display()))?;
            eprintln!("The certificate is in {}.", file.display());
        }
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(pem.as_bytes())?;
            out.flush()?;
        }
    }
    eprintln!("\n{TRUST}");
    Ok(())
}

/// The given data directory, unless a server was given. Its certificate is that of the server that
/// has it open or will open it.
fn chosen_dir<'s>(matches: &ArgMatches, settings: &'s Settings) -> Option<&'s Path> {
    if matches.contains_id("endpoint") {
        return None;
    }
    let is_named = matches.value_source("data") == Some(ValueSource::CommandLine)
        || settings.storage.data != Settings::default().storage.data;
    settings.data_dir().filter(|_| is_named)
}

fn of_directory(data: &Path) -> anyhow::Result<String> {
    if !data.is_dir() {
        let data = data.display();
        bail!(
            "there is no directory {data}, and so no certificate to export.\n\
             A server with --data {data} makes both. To have the certificate before it starts, \
             make the directory first."
        );
    }
    crate::private_file::create_all_private();
    let is_new = !authority_file(data).exists();
    let authority = Authority::load_or_create(&directory_in(data))?;
    if is_new {
        let (tls, data) = (directory_in(data), data.display());
        let tls = tls.display();
        eprintln!("Made a new authority in {tls}, for servers started with --data {data}.");
    }
    Ok(authority.pem().to_owned())
}

/// The certificate of the running server; if none runs, that of the default directory.
fn of_server(matches: &ArgMatches, settings: &Settings) -> anyhow::Result<String> {
    let error = match ask(matches) {
        Ok(pem) => return Ok(pem),
        Err(error) => error,
    };
    let kept = settings.data_dir().map(authority_file).filter(|_| !matches.contains_id("endpoint"));
    if let Some(file) = kept
        && let Ok(pem) = std::fs::read_to_string(&file)
    {
        eprintln!("No server answers; this is the certificate in {}.", file.display());
        return Ok(pem);
    }
    Err(error.context(
        "there is no certificate to export: a server creates it and serves it at \
         GET /_explorer/emulator.pem",
    ))
}

fn ask(matches: &ArgMatches) -> anyhow::Result<String> {
    let client = Client::of(matches)?;
    let (status, body) = super::block_on(client.probe(PATH, REPLY_TIMEOUT))?;
    let endpoint = client.endpoint();
    let pem = String::from_utf8(body.to_vec()).unwrap_or_default();
    if status != StatusCode::OK || CertificateDer::from_pem_slice(pem.as_bytes()).is_err() {
        bail!("{endpoint} answers with {status} and no certificate");
    }
    if !client.is_here() {
        eprintln!(
            "It came from {endpoint} over a connection that nothing protects. Compare it with the \
             one that `planisphere cert` exports there before you trust it."
        );
    }
    Ok(pem)
}
