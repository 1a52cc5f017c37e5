//! Unique keys and time to live.

use std::time::{Duration, Instant};

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::{ContainerProperties, TimeToLive, UniqueKey, UniqueKeyPolicy};
use conformance::{Account, ids, new_id, read, refused, variants};
use serde_json::json;

fn properties() -> ContainerProperties {
    ContainerProperties::new(new_id("c"), "/pk".into())
}

async fn unique_keys(account: &Account) {
    let policy =
        UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/email"));
    let container = account.container_with(properties().with_unique_key_policy(policy), None).await;
    let item = |id: &str, pk: &str, email: &str| json!({"id": id, "pk": pk, "email": email});
    container.create_item("a", "1", &item("1", "a", "e1"), None).await.expect("created");
    container.create_item("a", "2", &item("2", "a", "e2"), None).await.expect("created");
    container.create_item("b", "1", &item("1", "b", "e1"), None).await.expect("another partition");
    refused(container.create_item("a", "3", &item("3", "a", "e1"), None).await, 409);
    refused(container.upsert_item("a", "3", &item("3", "a", "e1"), None).await, 409);
    refused(container.replace_item("a", "2", &item("2", "a", "e1"), None).await, 409);
    container.delete_item("a", "1", None).await.expect("deleted");
    container.create_item("a", "3", &item("3", "a", "e1"), None).await.expect("free again");
}

/// Polls until the item can no longer be read.
async fn expires(container: &ContainerClient, id: &str) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while read(container, "a", id).await.is_ok() {
        assert!(Instant::now() < deadline, "{id} is still there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    refused(read(container, "a", id).await, 404);
}

async fn time_to_live(account: &Account) {
    let by_default = account.container_with(properties().with_default_ttl(1u32), None).await;
    let by_item =
        account.container_with(properties().with_default_ttl(TimeToLive::NoDefault), None).await;
    let short = json!({"id": "short", "pk": "a"});
    by_default.create_item("a", "short", &short, None).await.expect("created");
    let kept = json!({"id": "kept", "pk": "a", "ttl": -1});
    by_default.create_item("a", "kept", &kept, None).await.expect("created");
    let short = json!({"id": "short", "pk": "a", "ttl": 1});
    by_item.create_item("a", "short", &short, None).await.expect("created");
    by_item.create_item("a", "kept", &kept, None).await.expect("created");
    for container in [&by_default, &by_item] {
        expires(container, "short").await;
        assert_eq!(ids(container).await, ["kept"]);
    }
    by_item.create_item("a", "short", &short, None).await.expect("free again");
    for ttl in [json!(null), json!(0), json!(-5), json!("x")] {
        let bad = json!({"id": "bad", "pk": "a", "ttl": ttl});
        refused(by_item.create_item("a", "bad", &bad, None).await, 400);
    }
}

variants![unique_keys, time_to_live];
