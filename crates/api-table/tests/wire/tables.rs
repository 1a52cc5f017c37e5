//! Tables: create, list, read and delete.

use crate::support::TestService;

#[tokio::test]
async fn a_table_lives_from_create_to_delete() {
    let s = TestService::storage();
    let answer = s.post("/Tables", r#"{"TableName":"demo"}"#).await;
    answer.expect(201);
    assert_eq!(
        answer.text(),
        r#"{"odata.metadata":"http://example.test:10002/devstoreaccount1/$metadata#Tables/@Element","TableName":"demo"}"#
    );
    assert_eq!(answer.header("preference-applied"), None);
    s.post("/Tables", r#"{"TableName":"demo"}"#).await.refused(409, "TableAlreadyExists");
    s.post("/Tables", r#"{"TableName":"DEMO"}"#).await.refused(409, "TableAlreadyExists");
    s.get("/Tables('demo')").await.expect(200);
    s.call("DELETE", "/Tables('Demo')").send().await.expect(204);
    s.call("DELETE", "/Tables('demo')").send().await.refused(404, "ResourceNotFound");
    s.get("/Tables('demo')").await.refused(404, "ResourceNotFound");
    s.get("/demo()").await.refused(404, "TableNotFound");
}

#[tokio::test]
async fn a_preference_decides_what_comes_back() {
    let s = TestService::storage();
    let create = |name: &str, prefer: &str| {
        let body = format!(r#"{{"TableName":"{name}"}}"#);
        s.call("POST", "/Tables").header("prefer", prefer).body(body).send()
    };
    let answer = create("one", "return-no-content").await;
    answer.expect(204);
    assert!(answer.body.is_empty());
    assert_eq!(answer.header("preference-applied"), Some("return-no-content"));
    assert!(answer.header("dataserviceid").unwrap().ends_with("/Tables('one')"));
    let answer = create("two", "return-content").await;
    answer.expect(201);
    assert_eq!(answer.header("preference-applied"), Some("return-content"));
}

#[tokio::test]
async fn tables_are_listed_by_name_in_pages() {
    let s = TestService::storage();
    for name in ["ccc", "aaa", "bbb", "abc"] {
        s.post("/Tables", &format!(r#"{{"TableName":"{name}"}}"#)).await.expect(201);
    }
    let names = |answer: &crate::support::Answer| -> Vec<String> {
        let json = answer.json();
        let tables = json["value"].as_array().unwrap().iter();
        tables.map(|t| t["TableName"].as_str().unwrap().to_owned()).collect()
    };
    let all = s.get("/Tables").await;
    assert_eq!(names(&all), ["aaa", "abc", "bbb", "ccc"]);
    assert!(all.text().starts_with(
        r#"{"odata.metadata":"http://example.test:10002/devstoreaccount1/$metadata#Tables","value":[{"TableName":"#
    ));
    let first = s.get("/Tables()?$top=3").await;
    assert_eq!(names(&first), ["aaa", "abc", "bbb"]);
    let next = first.header("x-ms-continuation-nexttablename").unwrap();
    let second = s.get(&format!("/Tables?$top=3&NextTableName={next}")).await;
    assert_eq!(names(&second), ["ccc"]);
    assert_eq!(second.header("x-ms-continuation-nexttablename"), None);
    let exactly = s.get("/Tables?$top=4").await;
    assert_eq!(exactly.header("x-ms-continuation-nexttablename"), None);
    let filter = "TableName%20ge%20'ab'%20and%20TableName%20lt%20'c'";
    assert_eq!(names(&s.get(&format!("/Tables?$filter={filter}")).await), ["abc", "bbb"]);
    s.get("/Tables?$filter=TableName%20eq").await.refused(400, "InvalidInput");
    s.get("/Tables?NextTableName=x").await.refused(400, "InvalidInput");
}

#[tokio::test]
async fn levels_of_metadata_add_addresses() {
    let s = TestService::storage();
    let create = |name: &str, level: &str| {
        let accept = format!("application/json;odata={level}");
        let body = format!(r#"{{"TableName":"{name}"}}"#);
        s.call("POST", "/Tables").header("accept", &accept).body(body).send()
    };
    assert_eq!(create("one", "nometadata").await.text(), r#"{"TableName":"one"}"#);
    let full = create("two", "fullmetadata").await;
    let json = full.json();
    assert_eq!(json["odata.type"], "devstoreaccount1.Tables");
    assert_eq!(json["odata.editLink"], "Tables('two')");
    assert_eq!(json["odata.id"], "http://example.test:10002/devstoreaccount1/Tables('two')");
    assert!(full.header("content-type").unwrap().contains("odata=fullmetadata"));
}

#[tokio::test]
async fn bodies_that_name_no_table_are_refused() {
    let s = TestService::storage();
    s.post("/Tables", "{").await.refused(400, "InvalidInput");
    s.post("/Tables", "{}").await.refused(400, "PropertiesNeedValue");
    s.post("/Tables", r#"{"TableName":7}"#).await.refused(400, "InvalidInput");
    s.post("/Tables", r#"{"TableName":"a-b"}"#).await.refused(400, "InvalidResourceName");
    s.post("/Tables", r#"{"TableName":"ab"}"#).await.refused(400, "OutOfRangeInput");
    s.get("/a-b()").await.refused(400, "InvalidResourceName");
    s.call("PUT", "/Tables").send().await.refused(405, "UnsupportedHttpVerb");
}

#[tokio::test]
async fn addresses_below_a_table_are_refused_as_the_service_refuses_them() {
    let s = TestService::with_table().await;
    let body = r#"{"TableName":"other"}"#;
    s.post("/missing/Tables", body).await.refused(404, "TableNotFound");
    s.post("/demo/Tables", body).await.refused(400, "PropertiesNeedValue");
    s.call("DELETE", "/demo/Tables('x')").send().await.refused(400, "InvalidInput");
    let properties = "/demo/?restype=service&comp=properties";
    s.get(properties).await.refused(400, "InvalidQueryParameterValue");
    s.call("POST", "/demo/$batch").send().await.refused(415, "MediaTypeNotSupported");
}

#[tokio::test]
async fn accounts_have_tables_of_their_own() {
    let s = TestService::with_table().await;
    let key = account::Key::from_bytes(&[7; 64]);
    let other = |method: &str, path: &str| s.call(method, "").path(path).key(key.clone());
    let list = other("GET", "/other/Tables").send().await;
    assert_eq!(list.expect(200).json()["value"].as_array().unwrap().len(), 0);
    let body = r#"{"TableName":"demo"}"#;
    other("POST", "/other/Tables").body(body).send().await.expect(201);
    s.insert("p", "r", "").await.expect(201);
    let found = other("GET", "/other/demo()").send().await;
    assert_eq!(found.expect(200).json()["value"].as_array().unwrap().len(), 0);
    // A key of another account is not valid.
    s.call("GET", "").path("/other/Tables").send().await.refused(403, "AuthenticationFailed");
    s.call("GET", "").path("/nobody/Tables").send().await.refused(403, "AuthenticationFailed");
}
