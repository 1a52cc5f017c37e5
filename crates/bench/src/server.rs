//! Finds the server to test and its account.

use std::path::{Path, PathBuf};

use anyhow::bail;
use testkit::server::TestServer;

use crate::request::Account;

/// The address of a started server and the key to sign with.
pub fn account_of(server: &TestServer) -> anyhow::Result<Account> {
    Account::new(server.endpoint(), server.key())
}

/// The binary to test: `given`, else `PLANISPHERE_BIN`, else the one built beside this program.
pub fn find_binary(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    if let Some(path) = std::env::var_os("PLANISPHERE_BIN") {
        return Ok(path.into());
    }
    let beside = std::env::current_exe()?.with_file_name("planisphere");
    if !beside.exists() {
        bail!(
            "{} does not exist; build it with `cargo build --release -p planisphere` or name one \
             with --bin",
            beside.display()
        );
    }
    Ok(beside)
}
