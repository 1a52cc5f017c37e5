//! Transactional batches: all or nothing.

use azure_data_cosmos::TransactionalBatch;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::options::{BatchReplaceOptions, Precondition};
use conformance::{
    Account, answered_batch, charge, ids, message, read, refused, token_lsn, variants,
};
use serde_json::{Value, json};

fn item(id: &str, n: i64) -> Value {
    json!({"id": id, "pk": "a", "n": n})
}

/// The statuses of a batch that the service answered, with 200 or with 207.
async fn statuses(container: &ContainerClient, batch: TransactionalBatch) -> Vec<u16> {
    let response = container.execute_transactional_batch(batch, None).await.expect("an answer");
    let results = response.into_model().expect("results");
    results.results().iter().map(|result| result.status_code()).collect()
}

async fn every_operation(account: &Account) {
    let container = account.container().await;
    for id in ["old1", "old2", "old3"] {
        container.create_item("a", id, &item(id, 1), None).await.expect("created");
    }
    let batch = TransactionalBatch::new("a")
        .create_item(item("new", 0))
        .and_then(|batch| batch.upsert_item(item("up", 0), None))
        .and_then(|batch| batch.upsert_item(item("old1", 2), None))
        .and_then(|batch| batch.replace_item("old2", item("old2", 3), None))
        .expect("a batch")
        .read_item("old2", None)
        .delete_item("old3", None);
    let response = container.execute_transactional_batch(batch, Some(answered_batch())).await;
    let response = response.expect("an answer");
    assert!(charge(response.headers()) > 0.0);
    let lsn = token_lsn(response.headers());
    let results = response.into_model().expect("results");
    let codes: Vec<u16> = results.results().iter().map(|result| result.status_code()).collect();
    assert_eq!(codes, [201, 201, 200, 200, 200, 204]);
    let found: Value = results.results()[4].into_model().expect("a body").expect("an item");
    assert_eq!(found["n"], json!(3));
    assert!(results.results()[0].etag().is_some());
    assert_eq!(ids(&container).await, ["new", "old1", "old2", "up"]);
    let read = container.read_item("a", "new", None).await.expect("read");
    assert_eq!(token_lsn(read.headers()), lsn, "one batch is one step");
}

async fn failure_undoes_everything(account: &Account) {
    let container = account.container().await;
    let batch = TransactionalBatch::new("a").create_item(item("1", 0)).expect("a batch");
    assert_eq!(statuses(&container, batch.delete_item("absent", None)).await, [424, 404]);
    let batch = TransactionalBatch::new("a")
        .create_item(item("1", 0))
        .and_then(|batch| batch.create_item(item("1", 0)))
        .and_then(|batch| batch.create_item(item("2", 0)));
    assert_eq!(statuses(&container, batch.expect("a batch")).await, [424, 409, 424]);
    let batch = TransactionalBatch::new("a")
        .create_item(item("1", 0))
        .and_then(|batch| batch.create_item(json!({"id": "2", "pk": "b"})));
    assert_eq!(statuses(&container, batch.expect("a batch")).await, [424, 400]);
    container.create_item("a", "old", &item("old", 1), None).await.expect("created");
    let stale = BatchReplaceOptions::default()
        .with_precondition(Precondition::if_match("\"stale\"".to_owned()));
    let batch = TransactionalBatch::new("a")
        .create_item(item("1", 0))
        .and_then(|batch| batch.replace_item("old", item("old", 2), Some(stale)));
    assert_eq!(statuses(&container, batch.expect("a batch")).await, [424, 412]);
    assert_eq!(ids(&container).await, ["old"]);
    assert_eq!(read(&container, "a", "old").await.expect("read")["n"], json!(1));
}

async fn limits(account: &Account) {
    let container = account.container().await;
    let of = |count: i64| {
        (0..count).try_fold(TransactionalBatch::new("a"), |batch, n| {
            batch.create_item(item(&n.to_string(), n))
        })
    };
    let too_many = of(101).expect("a batch");
    let error = refused(container.execute_transactional_batch(too_many, None).await, 400);
    assert!(message(&error).contains("more operations than what is supported"));
    let text = "x".repeat(1_100_000);
    let too_large = ["1", "2"].iter().try_fold(TransactionalBatch::new("a"), |batch, id| {
        batch.create_item(json!({"id": id, "pk": "a", "text": text}))
    });
    let too_large = too_large.expect("a batch");
    refused(container.execute_transactional_batch(too_large, None).await, 413);
    assert!(ids(&container).await.is_empty());
    assert_eq!(statuses(&container, of(100).expect("a batch")).await, [201; 100]);
}

async fn hierarchical_key(account: &Account) {
    let container = account.keyed(("/t", "/u"), None).await;
    let batch = TransactionalBatch::new(("x", 5_i64))
        .create_item(json!({"id": "1", "t": "x", "u": 5}))
        .and_then(|batch| batch.create_item(json!({"id": "2", "t": "x", "u": 5})));
    assert_eq!(statuses(&container, batch.expect("a batch")).await, [201, 201]);
    read(&container, ("x", 5_i64), "2").await.expect("read");
}

variants![every_operation, failure_undoes_everything, limits, hierarchical_key];
