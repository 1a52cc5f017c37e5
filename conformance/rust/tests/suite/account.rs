//! The account: its keys and its description.

use conformance::{Account, connect, ids, read, refused, server, variants};
use serde_json::json;

const OTHER_KEY: &str =
    "bm90IHRoZSBrZXkgb2YgdGhpcyBhY2NvdW50LCBidXQgb25lIGp1c3QgYXMgbG9uZyBhcyBhIHJlYWwgb25lLg==";

async fn endpoint_is_the_one_the_client_used(account: &Account) {
    let (endpoint, key) = server(account.variant.scheme);
    assert_eq!(account.client.endpoint().as_str(), endpoint);
    let named = endpoint.replace("127.0.0.1", "localhost");
    let client = connect(account.variant, &named, &key).await.expect("reachable by name");
    let name = account.database.name().expect("a named database").to_owned();
    client.database_client(name).read(None).await.expect("the same account");
}

async fn wrong_key_is_unauthorized(account: &Account) {
    let (endpoint, _) = server(account.variant.scheme);
    let attempt = async {
        let stranger = connect(account.variant, &endpoint, OTHER_KEY).await?;
        stranger.create_database("never", None).await
    };
    refused(attempt.await, 401);
}

async fn read_only_key_reads_and_does_not_write(account: &Account) {
    let container = account.container().await;
    let item = json!({"id": "1", "pk": "a"});
    container.create_item("a", "1", &item, None).await.expect("created");
    let (endpoint, _) = server(account.variant.scheme);
    let key = std::env::var("PLANISPHERE_READONLY_KEY").expect("tests are started by run");
    let reader = connect(account.variant, &endpoint, &key).await.expect("a reader");
    let name = account.database.name().expect("a named database").to_owned();
    let properties = container.read(None).await.expect("read").into_model().expect("properties");
    let there = reader.database_client(name).container_client(&*properties.id, None).await;
    let there = there.expect("readable");
    assert_eq!(read(&there, "a", "1").await.expect("read")["id"], json!("1"));
    assert_eq!(ids(&there).await, ["1"]);
    refused(there.create_item("a", "2", &json!({"id": "2", "pk": "a"}), None).await, 403);
    refused(there.upsert_item("a", "1", &item, None).await, 403);
    refused(there.replace_item("a", "1", &item, None).await, 403);
    refused(there.delete_item("a", "1", None).await, 403);
    refused(there.delete(None).await, 403);
    refused(reader.create_database("never", None).await, 403);
    assert_eq!(ids(&container).await, ["1"]);
}

variants![
    read_only_key_reads_and_does_not_write,
    endpoint_is_the_one_the_client_used,
    wrong_key_is_unauthorized,
];
