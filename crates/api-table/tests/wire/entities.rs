//! Entities by their keys.

use crate::support::TestService;

const ADDRESS: &str = "/demo(PartitionKey='p',RowKey='r')";

#[tokio::test]
async fn an_entity_lives_from_insert_to_delete() {
    let s = TestService::with_table().await;
    let inserted = s.insert("p", "r", r#""a":1,"b":"x""#).await;
    inserted.expect(201);
    let url = "http://example.test:10002/devstoreaccount1/demo(PartitionKey='p',RowKey='r')";
    assert_eq!(inserted.header("location"), Some(url));
    s.insert("p", "r", "").await.refused(409, "EntityAlreadyExists");
    let read = s.get(ADDRESS).await;
    assert_eq!((read.expect(200).etag(), read.text()), (inserted.etag(), inserted.text()));
    let json = read.json();
    assert_eq!(json["odata.etag"], read.etag());
    let timestamp = json["Timestamp"].as_str().unwrap();
    assert_eq!(read.etag(), format!("W/\"datetime'{}'\"", timestamp.replace(':', "%3A")));
    assert_eq!(timestamp.len(), "2026-11-15T08:33:40.9146531Z".len());

    let replace = s.call("PUT", ADDRESS).header("if-match", "*").body(r#"{"c":true}"#).send().await;
    assert_ne!(replace.expect(204).etag(), read.etag());
    let json = s.get(ADDRESS).await.json();
    assert_eq!((json.get("a"), &json["c"]), (None, &true.into()));
    let merge = s.call("PATCH", ADDRESS).body(r#"{"d":2.0,"c":null}"#).send().await;
    merge.expect(204);
    let read = s.get(ADDRESS).await;
    assert!(read.text().ends_with(r#""c":true,"d":2.0}"#), "{}", read.text());
    s.call("DELETE", ADDRESS).send().await.refused(400, "InvalidInput");
    let deleted = s.call("DELETE", ADDRESS).header("if-match", "*").send().await;
    assert_eq!((deleted.expect(204).header("etag"), deleted.body.len()), (None, 0));
    s.get(ADDRESS).await.refused(404, "ResourceNotFound");
    let again = s.call("DELETE", ADDRESS).header("if-match", "*").send().await;
    again.refused(404, "ResourceNotFound");
}

#[tokio::test]
async fn etags_decide_who_may_change() {
    let s = TestService::with_table().await;
    let old = s.insert("p", "r", "").await.etag().to_owned();
    let update = |verb: &str, etag: &str| {
        s.call(verb, ADDRESS).header("if-match", etag).body(r#"{"a":1}"#).send()
    };
    let new = update("PUT", &old).await.expect(204).etag().to_owned();
    for verb in ["PUT", "PATCH", "MERGE", "DELETE"] {
        update(verb, &old).await.refused(412, "UpdateConditionNotSatisfied");
        update(verb, "W/\"x\"").await.refused(412, "UpdateConditionNotSatisfied");
        update(verb, "x").await.refused(400, "InvalidInput");
    }
    // A missing entity is not found, whatever version is expected.
    let missing = s.call("PATCH", "/demo(PartitionKey='p',RowKey='z')").header("if-match", &old);
    missing.body("{}").send().await.refused(404, "ResourceNotFound");
    update("MERGE", &new).await.expect(204);
    let tunnelled = s.call("POST", ADDRESS).header("x-http-method", "MERGE").body(r#"{"b":2}"#);
    tunnelled.send().await.expect(204);
    let none_match = s.call("PUT", ADDRESS).header("if-none-match", "*").body("{}");
    none_match.send().await.refused(400, "InvalidInput");
}

#[tokio::test]
async fn an_upsert_makes_what_is_not_there() {
    let s = TestService::with_table().await;
    for (verb, row) in [("PUT", "1"), ("PATCH", "2")] {
        let path = format!("/demo(PartitionKey='p',RowKey='{row}')");
        for value in [1, 2] {
            let body = format!(r#"{{"PartitionKey":5,"RowKey":"ignored","v":{value}}}"#);
            s.call(verb, &path).body(body).send().await.expect(204);
        }
        let json = s.get(&path).await.json();
        assert_eq!((&json["RowKey"], &json["v"]), (&row.into(), &2.into()));
        let update = s.call(verb, "/demo(PartitionKey='p',RowKey='9')").header("if-match", "*");
        update.body("{}").send().await.refused(404, "ResourceNotFound");
    }
}

#[tokio::test]
async fn a_preference_decides_what_comes_back() {
    let s = TestService::with_table().await;
    let insert = |row: &str, prefer: &str| {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        s.call("POST", "/demo").header("prefer", prefer).body(body).send()
    };
    let answer = insert("1", "return-no-content").await;
    answer.expect(204);
    assert_eq!(answer.header("preference-applied"), Some("return-no-content"));
    assert_eq!(answer.header("dataserviceid"), answer.header("location"));
    assert!(answer.header("etag").is_some() && answer.body.is_empty());
    assert_eq!(
        insert("2", "return-content").await.header("preference-applied"),
        Some("return-content")
    );
    assert_eq!(s.insert("p", "3", "").await.header("preference-applied"), None);
}

#[tokio::test]
async fn selected_properties_come_alone() {
    let s = TestService::with_table().await;
    s.insert("p", "r", r#""a":1,"b":2,"c":3"#).await.expect(201);
    let none = "application/json;odata=nometadata";
    let read = |path: String| s.call("GET", &path).header("accept", none).send();
    assert_eq!(read(format!("{ADDRESS}?$select=c,a,x")).await.text(), r#"{"a":1,"c":3}"#);
    let keys = read(format!("{ADDRESS}?$select=RowKey")).await;
    assert_eq!(keys.text(), r#"{"RowKey":"r"}"#);
    assert!(read(format!("{ADDRESS}?$select=*")).await.text().contains("\"b\":2"));
    let list = read("/demo()?$select=b".into()).await;
    assert_eq!(list.text(), r#"{"value":[{"b":2}]}"#);
}

#[tokio::test]
async fn keys_may_be_empty_or_strange() {
    let s = TestService::with_table().await;
    for (partition, row, path) in [
        ("", "", "/demo(PartitionKey='',RowKey='')"),
        ("", "x", "/demo(PartitionKey='',RowKey='x')"),
        ("a'b", "c d", "/demo(PartitionKey='a%27%27b',RowKey='c%20d')"),
        ("中文", "%", "/demo(PartitionKey='%E4%B8%AD%E6%96%87',RowKey='%25')"),
        ("a,b=(c)", "!", "/demo(PartitionKey='a,b=(c)',RowKey='!')"),
    ] {
        let inserted = s.insert(partition, row, "").await;
        let read = s.get(path).await;
        assert_eq!(inserted.expect(201).text(), read.expect(200).text());
        let merged = s.call("PATCH", path).header("if-match", inserted.etag()).body("{}");
        merged.send().await.expect(204);
    }
    let (keys, _) = s.keys("").await;
    assert_eq!(keys.len(), 5);
    assert_eq!(keys[0], (String::new(), String::new()));
    s.call("DELETE", "/demo(PartitionKey='',RowKey='')")
        .header("if-match", "*")
        .send()
        .await
        .expect(204);
}

#[tokio::test]
async fn keys_that_are_none_are_refused() {
    let s = TestService::with_table().await;
    for (body, code) in [
        (r#"{"RowKey":"r"}"#, "PropertiesNeedValue"),
        (r#"{"PartitionKey":null,"RowKey":"r"}"#, "PropertiesNeedValue"),
        (r#"{"PartitionKey":1,"RowKey":"r"}"#, "InvalidInput"),
        (r#"{"PartitionKey":"p","RowKey":"1","RowKey@odata.type":"Edm.Int64"}"#, "InvalidInput"),
        (r#"{"PartitionKey":"a/b","RowKey":"r"}"#, "OutOfRangeInput"),
        (r#"{"PartitionKey":"a","RowKey":"\u0001"}"#, "OutOfRangeInput"),
        (r#"[]"#, "InvalidInput"),
        (r#"{"PartitionKey":"#, "InvalidInput"),
    ] {
        s.post("/demo", body).await.refused(400, code);
    }
    let longest = "k".repeat(512);
    s.insert(&longest, &longest, "").await.expect(201);
    for c in ["k", "中"] {
        s.insert(&c.repeat(513), "r", "").await.refused(400, "KeyValueTooLarge");
        s.insert("p", &c.repeat(513), "").await.refused(400, "KeyValueTooLarge");
    }
}

/// A text in the form that addresses use.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn keys_of_512_characters_work_however_many_bytes_they_are() {
    let s = TestService::with_ranges(3);
    s.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
    let end = |n: usize| ["一", "丁", "七", "万"][n];
    let key = |n: usize| format!("{}{}", "中".repeat(511), end(n));
    let mut all = Vec::new();
    for (partition, row) in [(0, 0), (0, 1), (1, 2), (1, 3), (2, 0), (3, 3)] {
        s.insert(&key(partition), &key(row), r#""n":1"#).await.expect(201);
        all.push((key(partition), key(row)));
    }
    all.sort();
    // Over all partitions and within one, in pages of one.
    assert_eq!(s.keys("$top=1").await, (all.clone(), 6));
    let filter = format!("$top=1&$filter=PartitionKey%20eq%20'{}'", escaped(&key(1)));
    let of_one = all.iter().filter(|(partition, _)| *partition == key(1)).cloned().collect();
    assert_eq!(s.keys(&filter).await, (of_one, 2));
    let above = format!("$filter=RowKey%20ge%20'{}'", escaped(&key(2)));
    let of_rows = all.iter().filter(|(_, row)| *row >= key(2)).cloned().collect::<Vec<_>>();
    assert_eq!(s.keys(&above).await.0, of_rows);
    let address =
        format!("/demo(PartitionKey='{}',RowKey='{}')", escaped(&key(3)), escaped(&key(3)));
    let etag = s.get(&address).await.expect(200).etag().to_owned();
    let merge = s.call("PATCH", &address).header("if-match", &etag).body(r#"{"m":2}"#);
    merge.send().await.expect(204);
    let json = s.get(&address).await.json();
    assert_eq!((&json["n"], &json["m"]), (&1.into(), &2.into()));
    s.call("DELETE", &address).header("if-match", "*").send().await.expect(204);
    s.get(&address).await.refused(404, "ResourceNotFound");
}

#[tokio::test]
async fn every_type_is_kept_through_the_store() {
    let s = TestService::with_table().await;
    let rest = concat!(
        r#""big@odata.type":"Edm.Int64","big":"9223372036854775807","#,
        r#""guid@odata.type":"Edm.Guid","guid":"c9da6455-213d-42c9-9a79-3e9149a57833","#,
        r#""when@odata.type":"Edm.DateTime","when":"2013-08-22T01:12:06.2608595Z","#,
        r#""bin@odata.type":"Edm.Binary","bin":"AQI=","#,
        r#""nan@odata.type":"Edm.Double","nan":"NaN","#,
        r#""d":3.0,"i":-5,"t":true,"s":"text","id":"mine","ttl":"also mine","_ts":"and this""#
    );
    let inserted = s.insert("p", "r", rest).await;
    inserted.expect(201);
    assert!(inserted.text().ends_with(&format!("{rest}}}")), "{}", inserted.text());
    assert_eq!(s.get(ADDRESS).await.text(), inserted.text());
    let plain = s.call("GET", ADDRESS).header("accept", "application/json;odata=nometadata");
    assert!(!plain.send().await.text().contains("odata"));
}

#[tokio::test]
async fn errors_come_in_the_form_that_is_read() {
    let s = TestService::with_table().await;
    let answer = s.get(ADDRESS).await;
    answer.refused(404, "ResourceNotFound");
    let text = answer.text();
    let start = r#"{"odata.error":{"code":"ResourceNotFound","message":{"lang":"en-US","value":"The specified resource does not exist.\nRequestId:"#;
    assert!(text.starts_with(start), "{text}");
    assert_eq!(answer.header("x-ms-version"), Some("2019-02-02"));
    let id = answer.header("x-ms-request-id").unwrap();
    assert!(text.contains(id));
    let xml = s.call("GET", ADDRESS).header("accept", "application/xml").send().await;
    assert!(xml.text().contains("<code>ResourceNotFound</code>"), "{}", xml.text());
    let echoed = s.call("GET", ADDRESS).header("x-ms-version", "2099-01-01");
    let echoed = echoed.header("x-ms-client-request-id", "mine").send().await;
    assert_eq!(echoed.header("x-ms-version"), Some("2099-01-01"));
    for no_version in ["invalid", "2019-02", "2019-02-021", "2019/02/02", ""] {
        let refused = s.call("GET", ADDRESS).header("x-ms-version", no_version).send().await;
        refused.refused(400, "InvalidHeaderValue");
        assert_eq!(refused.header("x-ms-version"), Some("2019-02-02"));
    }
    assert_eq!(echoed.header("x-ms-client-request-id"), Some("mine"));
}
