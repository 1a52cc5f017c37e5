//! Partition keys of every type and version, and hierarchical ones.

use azure_data_cosmos::models::{PartitionKeyDefinition, PartitionKeyValue, PartitionKeyVersion};
use azure_data_cosmos::{FeedScope, PartitionKey};
use conformance::{Account, ids, query, read, refused, variants};
use serde_json::{Value, json};

fn keys() -> Vec<(PartitionKey, Value)> {
    let number = |value: f64| PartitionKey::try_from(value).expect("a finite number");
    vec![
        ("text".into(), json!("text")),
        ("".into(), json!("")),
        ("café 東京 🚀".into(), json!("café 東京 🚀")),
        ("q\"\\".into(), json!("q\"\\")),
        ("a".repeat(100).into(), json!("a".repeat(100))),
        ("a".repeat(101).into(), json!("a".repeat(101))),
        ("a".repeat(2048).into(), json!("a".repeat(2048))),
        (number(0.0), json!(0)),
        (number(5.0), json!(5)),
        (number(-128.0), json!(-128)),
        (number(5.5), json!(5.5)),
        (number(1e300), json!(1e300)),
        (true.into(), json!(true)),
        (false.into(), json!(false)),
        (PartitionKey::NULL.into(), Value::Null),
    ]
}

async fn keys_of_every_type(account: &Account) {
    for version in [PartitionKeyVersion::V1, PartitionKeyVersion::V2] {
        let definition = PartitionKeyDefinition::from("/pk").with_version(version);
        let container = account.keyed(definition, None).await;
        for (key, value) in keys() {
            let item = json!({"id": "1", "pk": value});
            container.create_item(key.clone(), "1", &item, None).await.expect("created");
            assert_eq!(read(&container, key.clone(), "1").await.expect("read")["pk"], value);
            container.replace_item(key.clone(), "1", &item, None).await.expect("replaced");
            let found = query(&container, "SELECT * FROM c", FeedScope::partition(key)).await;
            assert_eq!(found.expect("the query answers").len(), 1);
        }
        assert_eq!(ids(&container).await.len(), keys().len());
        for (key, _) in keys() {
            container.delete_item(key, "1", None).await.expect("deleted");
        }
        assert!(ids(&container).await.is_empty());
        let long = "a".repeat(2049);
        let item = json!({"id": "1", "pk": long});
        refused(container.create_item(&long, "1", &item, None).await, 400);
    }
}

async fn undefined_is_a_key_of_its_own(account: &Account) {
    let container = account.container().await;
    let item = json!({"id": "1", "is": "undefined"});
    container.create_item(PartitionKey::UNDEFINED, "1", &item, None).await.expect("created");
    let item = json!({"id": "1", "pk": null, "is": "null"});
    container.create_item(PartitionKey::NULL, "1", &item, None).await.expect("created");
    let found = read(&container, PartitionKey::UNDEFINED, "1").await.expect("read");
    assert_eq!(found["is"], json!("undefined"));
    let found = read(&container, PartitionKey::NULL, "1").await.expect("read");
    assert_eq!(found["is"], json!("null"));
    container.delete_item(PartitionKey::UNDEFINED, "1", None).await.expect("deleted");
    refused(read(&container, PartitionKey::UNDEFINED, "1").await, 404);
}

async fn hierarchical_keys(account: &Account) {
    for throughput in [400, 30_000] {
        let container = account.keyed(("/tenant", "/user", "/session"), Some(throughput)).await;
        for tenant in ["t1", "t2"] {
            for user in [1_i64, 2] {
                for session in [true, false] {
                    let id = format!("{tenant}.{user}.{session}");
                    let item =
                        json!({"id": id, "tenant": tenant, "user": user, "session": session});
                    let key = (tenant, user, session);
                    container.create_item(key, &id, &item, None).await.expect("created");
                }
            }
        }
        let found = read(&container, ("t1", 2_i64, true), "t1.2.true").await.expect("read");
        assert_eq!(found["user"], json!(2));
        refused(read(&container, ("t1", 2_i64, false), "t1.2.true").await, 404);
        let count = async |key: Vec<PartitionKeyValue>| {
            let key = PartitionKey::try_from(key).expect("at most three levels");
            let found = query(&container, "SELECT * FROM c", FeedScope::partition(key)).await;
            found.expect("the query answers").len()
        };
        assert_eq!(count(vec!["t1".into()]).await, 4);
        assert_eq!(count(vec!["t1".into(), 1_i64.into()]).await, 2);
        assert_eq!(count(vec!["t1".into(), 1_i64.into(), true.into()]).await, 1);
        assert_eq!(count(vec!["absent".into()]).await, 0);
        assert_eq!(ids(&container).await.len(), 8);
        container.delete_item(("t1", 1_i64, true), "t1.1.true", None).await.expect("deleted");
        assert_eq!(count(vec!["t1".into()]).await, 3);
    }
}

async fn nested_key_path(account: &Account) {
    let container = account.keyed("/address/zip", None).await;
    let item = json!({"id": "1", "address": {"zip": "98052"}});
    container.create_item("98052", "1", &item, None).await.expect("created");
    assert_eq!(read(&container, "98052", "1").await.expect("read")["id"], json!("1"));
}

variants![keys_of_every_type, undefined_is_a_key_of_its_own, hierarchical_keys, nested_key_path];
