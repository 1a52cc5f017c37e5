//! `planisphere cert`: hand out the certificate to trust, and say how.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Arg, ArgMatches, Command, value_parser};

use super::{config_arg, load_settings, settings_arg};
use crate::config::KEYS;
use crate::tls::{Authority, directory_in};

const TRUST: &str = "\
That certificate is the one to trust; it signs the certificate of the https port. It belongs to
this data directory and stays the same until the directory is deleted. FILE stands for where you
saved it:

  Python   SSL_CERT_FILE=FILE REQUESTS_CA_BUNDLE=FILE python app.py
           (azure-cosmos checks no certificate at all for localhost and 127.0.0.1)
  Node     NODE_EXTRA_CA_CERTS=FILE node app.js
  Java     keytool -importcert -alias planisphere -cacerts -storepass changeit -noprompt -file FILE
  curl     curl --cacert FILE https://localhost:8081/ready
  Linux    sudo cp FILE /usr/local/share/ca-certificates/planisphere.crt
           sudo update-ca-certificates                         (Debian, Ubuntu)
           sudo trust anchor FILE                              (Fedora, Arch)
  macOS    security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db FILE
  Windows  certutil -user -addstore Root FILE                  (also for .NET)

Rust and Go programs use the trust store of the operating system. Or use the http address, which
needs no certificate. A running server also hands it out at GET /_explorer/emulator.pem.";

pub(super) fn command() -> Command {
    let data = KEYS.iter().filter(|key| key.flag == "data").map(settings_arg);
    let out = Arg::new("out")
        .long("out")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Write the certificate here, instead of to standard output");
    Command::new("cert")
        .about("Export the certificate that clients must trust for https, and explain how")
        .after_help(format!("Example:\n  planisphere cert --out planisphere-ca.pem\n\n{TRUST}"))
        .args(data.chain([config_arg(), out]))
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let settings = load_settings(matches)?;
    let Some(data) = settings.data_dir() else {
        bail!(
            "with storage.memory every start makes a new certificate; ask the running server for \
             it at GET /_explorer/emulator.pem"
        );
    };
    let authority = Authority::load_or_create(&directory_in(data))?;
    match matches.get_one::<PathBuf>("out") {
        Some(file) => {
            std::fs::write(file, authority.pem())
                .with_context(|| format!("can't write {}", file.display()))?;
            eprintln!("The certificate is in {}.", file.display());
        }
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(authority.pem().as_bytes())?;
            out.flush()?;
        }
    }
    eprintln!("\n{TRUST}");
    Ok(())
}
