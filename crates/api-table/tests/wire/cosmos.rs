//! Behaviour of Cosmos DB's flavour that differs.

use crate::support::TestService;

async fn with_table() -> TestService {
    let s = TestService::cosmos();
    s.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
    s
}

#[tokio::test]
async fn names_of_tables_are_almost_anything_and_told_apart_by_case() {
    let s = with_table().await;
    s.post("/Tables", r#"{"TableName":"DEMO"}"#).await.expect(201);
    s.post("/Tables", r#"{"TableName":"my table-1"}"#).await.expect(201);
    s.get("/my%20table-1()").await.expect(200);
    let wrong = s.post("/Tables", r#"{"TableName":"a/b"}"#).await;
    wrong.refused(400, "InvalidInput");
    assert!(wrong.text().contains("The table name contains an invalid character"));
    let spaced = s.post("/Tables", r#"{"TableName":"a "}"#).await;
    assert!(spaced.expect(400).text().contains("Table name cannot end with a space."));
    let long = format!(r#"{{"TableName":"{}"}}"#, "a".repeat(255));
    assert!(
        s.post("/Tables", &long).await.expect(400).text().contains("The input name is invalid.")
    );
}

#[tokio::test]
async fn keys_and_properties_follow_other_rules() {
    let s = with_table().await;
    let empty = s.insert("", "r", "").await;
    assert!(empty.expect(400).text().contains("PartitionKey/RowKey cannot be empty"));
    assert!(empty.text().contains(r#""lang":"en-us""#));
    s.insert("p", &"r".repeat(255), "").await.expect(201);
    s.insert("p", &"r".repeat(256), "").await.refused(400, "KeyValueTooLarge");
    let name = s.insert("p", "r", r#""123":1"#).await;
    name.refused(400, "PropertyNameInvalid");
    assert!(name.text().contains("The property name '123' is invalid."));
    s.insert("p", "r", r#""id":"x""#).await.expect(400);
    let keys = s.call("PUT", "/demo(PartitionKey='p',RowKey='r')").body(r#"{"PartitionKey":1}"#);
    let keys = keys.send().await;
    assert!(keys.expect(400).text().contains("One of the input values is invalid."));
    let large = format!(r#""s":"{}""#, "x".repeat(100_000));
    s.insert("p", "large", &large).await.expect(201);
}

#[tokio::test]
async fn what_it_has_not_is_not_implemented() {
    let s = with_table().await;
    for path in
        ["/?restype=service&comp=properties", "/?restype=service&comp=stats", "/demo?comp=acl"]
    {
        s.get(path).await.refused(501, "NotImplemented");
    }
    s.call("OPTIONS", "/demo").unsigned().send().await.refused(501, "NotImplemented");
    let below = s.post("/demo/Tables", "{}").await;
    below.refused(400, "InvalidInput");
    assert!(below.text().contains("Request url is invalid."));
}

#[tokio::test]
async fn every_reply_tells_its_charge() {
    let s = with_table().await;
    let inserted = s.insert("p", "r", "").await;
    let charge: f64 = inserted.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(charge > 1.0, "{charge}");
    let read = s.get("/demo(PartitionKey='p',RowKey='r')").await;
    assert_eq!(read.header("x-ms-request-charge"), Some("1"));
    let merge =
        s.call("POST", "/demo(PartitionKey='p',RowKey='r')").header("x-http-method", "MERGE");
    merge.body(r#"{"a":1}"#).send().await.expect(204);
    let many = s.get("/demo()?$top=5000").await;
    assert_eq!(many.expect(200).keys().len(), 1);
}
