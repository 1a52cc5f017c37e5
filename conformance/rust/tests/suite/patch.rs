//! Patch, sent to the service and also as the read-modify-write loop of the SDK.

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::{PatchInstructions, PatchOperation};
use azure_data_cosmos::options::{PatchItemOptions, PatchStrategy, Precondition};
use conformance::{Account, read, refused, variants, without_system};
use serde_json::{Value, json};

fn item() -> Value {
    json!({"id": "1", "pk": "a", "number": 5, "text": "abc", "list": [1, 2, 3], "child": {"x": 1}})
}

async fn patch(
    container: &ContainerClient,
    strategy: PatchStrategy,
    operations: Vec<PatchOperation>,
) -> azure_data_cosmos::Result<Value> {
    let options = PatchItemOptions::default().with_strategy(strategy);
    let instructions = PatchInstructions::from(operations);
    container.patch_item("a", "1", instructions, Some(options)).await?.into_model()
}

async fn every_operation(account: &Account) {
    let container = account.container().await;
    let cases = [
        (PatchOperation::add("/new", json!({"k": 1})), "/new", json!({"k": 1})),
        (PatchOperation::add("/list/1", json!(9)), "/list", json!([1, 9, 2, 3])),
        (PatchOperation::add("/list/-", json!(9)), "/list", json!([1, 2, 3, 9])),
        (PatchOperation::set("/list/1", json!(9)), "/list", json!([1, 9, 3])),
        (PatchOperation::set("/child/y", json!(null)), "/child", json!({"x": 1, "y": null})),
        (PatchOperation::replace("/text", json!(7)), "/text", json!(7)),
        (PatchOperation::remove("/list/0"), "/list", json!([2, 3])),
        (PatchOperation::increment("/number", 3_i64), "/number", json!(8)),
        (PatchOperation::increment("/number", -5.5), "/number", json!(-0.5)),
        (PatchOperation::move_value("/child/x", "/moved"), "/moved", json!(1)),
    ];
    for (operation, pointer, expected) in cases {
        for strategy in [PatchStrategy::ServerSide, PatchStrategy::ClientSide] {
            container.upsert_item("a", "1", &item(), None).await.expect("reset");
            let patched = patch(&container, strategy, vec![operation.clone()]).await;
            let patched = patched.expect(pointer);
            assert_eq!(patched.pointer(pointer), Some(&expected), "{strategy:?}");
            let stored = read(&container, "a", "1").await.expect("read");
            assert_eq!(stored.pointer(pointer), Some(&expected), "{strategy:?}");
        }
    }
}

async fn failures_change_nothing(account: &Account) {
    let container = account.container().await;
    container.create_item("a", "1", &item(), None).await.expect("created");
    for operation in [
        PatchOperation::add("/absent/child", json!(1)),
        PatchOperation::add("/list/9", json!(1)),
        PatchOperation::set("/list/9", json!(1)),
        PatchOperation::replace("/absent", json!(1)),
        PatchOperation::remove("/absent"),
        PatchOperation::increment("/text", 1_i64),
        PatchOperation::move_value("/absent", "/b"),
    ] {
        let first = PatchOperation::set("/first", json!(true));
        let operations = vec![first, operation];
        refused(patch(&container, PatchStrategy::ServerSide, operations).await, 400);
    }
    let stored = read(&container, "a", "1").await.expect("read");
    assert_eq!(without_system(stored), item());
}

async fn conditions_and_missing_items(account: &Account) {
    let container = account.container().await;
    let set = || PatchInstructions::from(vec![PatchOperation::set("/n", json!(1))]);
    refused(container.patch_item("a", "1", set(), None).await, 404);
    container.create_item("a", "1", &item(), None).await.expect("created");
    let stale = PatchItemOptions::default()
        .with_strategy(PatchStrategy::ServerSide)
        .with_precondition(Precondition::if_match("\"stale\"".to_owned()));
    refused(container.patch_item("a", "1", set(), Some(stale)).await, 412);
    assert!(read(&container, "a", "1").await.expect("read")["n"].is_null());
}

variants![every_operation, failures_change_nothing, conditions_and_missing_items];
