//! A client that checks certificates, trusting what `planisphere cert` exports.
//!
//! Trust is read from the environment of the process, so this is a test binary of its own with a
//! single test.

use std::process::Command;

use azure_core::credentials::Secret;
use azure_data_cosmos::{AccountReference, CosmosClient, CosmosRuntime, RoutingStrategy};
use conformance::{new_id, server};

async fn connect() -> azure_data_cosmos::Result<CosmosClient> {
    let (endpoint, key) = server("https");
    CosmosClient::builder()
        .with_runtime(CosmosRuntime::builder().build().await?)
        .build(
            AccountReference::with_authentication_key(
                endpoint.parse().expect("a valid endpoint"),
                Secret::from(key),
            ),
            RoutingStrategy::PreferredRegions(Vec::new()),
        )
        .await
}

fn export_certificate() -> Vec<u8> {
    let binary = std::env::var("PLANISPHERE_BIN").expect("tests are started by the run script");
    let data = std::env::var("PLANISPHERE_DATA").expect("tests are started by the run script");
    let ended = Command::new(binary).args(["cert", "--data", &data]).output();
    let ended = ended.expect("the binary runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    ended.stdout
}

#[tokio::test]
async fn certificate_verifies_once_its_authority_is_trusted() {
    let untrusted = connect().await;
    assert!(untrusted.is_err(), "nothing vouches for the certificate yet");

    let path = std::env::temp_dir().join(new_id("ca"));
    std::fs::write(&path, export_certificate()).expect("a scratch file");
    // SAFETY: this is the only test of the binary, and no other thread reads the environment now.
    unsafe { std::env::set_var("SSL_CERT_FILE", &path) };
    let client = connect().await.expect("the authority is trusted");
    let id = new_id("db");
    client.create_database(&id, None).await.expect("a new database");
    client.database_client(id).delete(None).await.expect("it goes");
    std::fs::remove_file(&path).expect("the scratch file goes");
}
