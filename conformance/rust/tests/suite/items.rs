//! Create, read, replace, upsert, delete, and their conditions.

use azure_data_cosmos::models::ItemResponse;
use azure_data_cosmos::options::{ItemReadOptions, ItemWriteOptions, Precondition};
use conformance::{
    Account, answered, charge, ids, message, read, refused, substatus, token_lsn, variants,
    without_system,
};
use serde_json::{Value, json};

fn item() -> Value {
    json!({"id": "1", "pk": "a", "n": 1, "nested": {"list": [1, "two", null, true]}})
}

fn with_n(n: i64) -> Value {
    json!({"id": "1", "pk": "a", "n": n})
}

fn assert_common_headers(response: &ItemResponse, status: u16) {
    assert_eq!(u16::from(response.status().status_code()), status);
    let headers = response.headers();
    assert!(charge(headers) > 0.0);
    assert!(headers.session_token().is_some());
    assert!(headers.activity_id().is_some());
    assert!(headers.lsn().is_some());
    assert!(headers.item_lsn().is_some() || status == 204);
    assert!(headers.server_duration().is_some());
    assert!(headers.partition_key_range_id().is_some());
}

fn only_if(etag: &str) -> Option<ItemWriteOptions> {
    let condition = Precondition::if_match(etag.to_owned());
    Some(ItemWriteOptions::default().with_precondition(condition))
}

async fn every_operation(account: &Account) {
    let container = account.container().await;
    let created = container.create_item("a", "1", &item(), None).await.expect("created");
    assert_common_headers(&created, 201);
    assert!(created.headers().etag().is_some());
    assert!(created.into_body().is_empty(), "the SDK asks for minimal answers");

    let response = container.read_item("a", "1", None).await.expect("read");
    assert_common_headers(&response, 200);
    assert_eq!(charge(response.headers()), 1.0);
    let etag = response.headers().etag().expect("an etag").to_string();
    let found: Value = response.into_model().expect("an item");
    assert_eq!(without_system(found.clone()), item());
    assert_eq!(found["_etag"], json!(etag));
    for name in ["_rid", "_self", "_ts", "_attachments"] {
        assert!(!found[name].is_null(), "{name}");
    }

    let replaced = container.replace_item("a", "1", &with_n(2), Some(answered())).await;
    let replaced = replaced.expect("replaced");
    assert_common_headers(&replaced, 200);
    let replaced: Value = replaced.into_model().expect("an item");
    assert_eq!(without_system(replaced.clone()), with_n(2));
    assert_eq!(replaced["_rid"], found["_rid"]);
    assert_ne!(replaced["_etag"], found["_etag"]);

    let upserted = container.upsert_item("a", "1", &with_n(3), None).await.expect("upserted");
    assert_common_headers(&upserted, 200);
    let upserted = container
        .upsert_item("b", "1", &json!({"id": "1", "pk": "b"}), None)
        .await
        .expect("upserted");
    assert_common_headers(&upserted, 201);

    let deleted = container.delete_item("a", "1", None).await.expect("deleted");
    assert_common_headers(&deleted, 204);
    assert_eq!(ids(&container).await, ["1"]);
}

async fn refusals(account: &Account) {
    let container = account.container().await;
    container.create_item("a", "1", &item(), None).await.expect("created");
    let conflict = refused(container.create_item("a", "1", &item(), None).await, 409);
    assert!(message(&conflict).contains("already exists"));
    let missing = refused(container.read_item("a", "2", None).await, 404);
    assert_eq!(substatus(&missing), 0);
    assert!(message(&missing).contains("Resource Not Found"));
    let headers = missing.response().expect("an answer").headers();
    assert!(headers.lsn.is_some() && headers.session_token.is_some());
    assert!(headers.activity_id.is_some() && headers.request_charge.is_some());
    refused(container.read_item("b", "1", None).await, 404);
    let other = json!({"id": "2", "pk": "a"});
    refused(container.replace_item("a", "2", &other, None).await, 404);
    refused(container.delete_item("a", "2", None).await, 404);
    let moved = json!({"id": "1", "pk": "b"});
    let error = refused(container.replace_item("a", "1", &moved, None).await, 400);
    assert_eq!(substatus(&error), 1001);
    refused(container.create_item("a", "3", &json!({"id": "3", "pk": "b"}), None).await, 400);
    refused(container.create_item("a", "4", &json!({"pk": "a"}), None).await, 400);
    refused(container.create_item("a", "5", &json!([1, 2]), None).await, 400);
    assert_eq!(ids(&container).await, ["1"]);
}

async fn replace_with_another_id_renames(account: &Account) {
    let container = account.container().await;
    container.create_item("a", "1", &item(), None).await.expect("created");
    let renamed = json!({"id": "2", "pk": "a"});
    container.replace_item("a", "1", &renamed, None).await.expect("renamed");
    refused(read(&container, "a", "1").await, 404);
    assert_eq!(ids(&container).await, ["2"]);
    container.create_item("a", "1", &item(), None).await.expect("created");
    refused(container.replace_item("a", "1", &renamed, None).await, 409);
}

async fn conditions(account: &Account) {
    let container = account.container().await;
    container.create_item("a", "1", &with_n(1), None).await.expect("created");
    let first = read(&container, "a", "1").await.expect("read")["_etag"].clone();
    let first = first.as_str().expect("an etag");
    let unchanged =
        ItemReadOptions::default().with_precondition(Precondition::if_none_match(first.to_owned()));
    let status = match container.read_item("a", "1", Some(unchanged.clone())).await {
        Ok(response) => response.status(),
        Err(error) => error.status(),
    };
    assert_eq!(u16::from(status.status_code()), 304);
    container.replace_item("a", "1", &with_n(2), only_if(first)).await.expect("current");
    let error = refused(container.replace_item("a", "1", &with_n(3), only_if(first)).await, 412);
    assert!(message(&error).contains("One of the specified pre-condition is not met"));
    refused(container.upsert_item("a", "1", &with_n(3), only_if(first)).await, 412);
    refused(container.delete_item("a", "1", only_if(first)).await, 412);
    let changed = container.read_item("a", "1", Some(unchanged)).await.expect("changed since");
    assert_eq!(changed.into_model::<Value>().expect("an item")["n"], json!(2));
    let absent = json!({"id": "9", "pk": "a"});
    refused(container.replace_item("a", "9", &absent, only_if(first)).await, 404);
    container.upsert_item("a", "9", &absent, only_if(first)).await.expect("ignored on create");
}

async fn sessions(account: &Account) {
    let container = account.container().await;
    let mut last = 0;
    for n in 0..5 {
        let written = container.upsert_item("a", "1", &with_n(n), None).await.expect("written");
        let lsn = token_lsn(written.headers());
        assert!(lsn > last);
        last = lsn;
        let response = container.read_item("a", "1", None).await.expect("read");
        assert_eq!(token_lsn(response.headers()), lsn);
        assert_eq!(response.into_model::<Value>().expect("an item")["n"], json!(n));
    }
    let future =
        ItemReadOptions::default().with_session_token(format!("0:-1#{}", last + 1_000_000));
    let error = match container.read_item("a", "1", Some(future)).await {
        Ok(_) => panic!("a session of the future must not be available"),
        Err(error) => error,
    };
    // The SDK retries 404/1002 and then reports that no region could serve the session.
    let status = (u16::from(error.status().status_code()), substatus(&error));
    assert!([(404, 1002), (503, 20310)].contains(&status), "{status:?}");
}

async fn recreated_container_is_another_one(account: &Account) {
    use azure_data_cosmos::models::ContainerProperties;
    let container = account.container().await;
    container.create_item("a", "1", &item(), None).await.expect("created");
    let before = container.read(None).await.expect("read").into_model().expect("properties");
    container.delete(None).await.expect("deleted");
    let again = ContainerProperties::new(before.id.clone(), "/pk".into());
    let after = account.database.create_container(again, None).await.expect("made again");
    let after = after.into_model().expect("properties");
    assert_ne!(after.system_properties.resource_id, before.system_properties.resource_id);
    refused(container.read_item("a", "1", None).await, 404);
    container.create_item("a", "2", &json!({"id": "2", "pk": "a"}), None).await.expect("healed");
    assert_eq!(ids(&container).await, ["2"]);
}

variants![
    every_operation,
    refusals,
    replace_with_another_id_renames,
    conditions,
    sessions,
    recreated_container_is_another_one,
];
