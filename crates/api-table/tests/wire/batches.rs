//! Entity group transactions: committed together or not at all, with responses in the spelling that
//! clients read.

use crate::support::{Answer, Call, TestService};

/// An operation: method, path below the account, headers, body.
type Op<'a> = (&'a str, &'a str, &'a str, &'a str);

fn multipart(ops: &[Op<'_>]) -> String {
    let mut out =
        String::from("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_2\r\n\r\n");
    for (n, (method, path, headers, body)) in ops.iter().enumerate() {
        out.push_str(&format!(
            "--changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\
             \r\nContent-ID: {n}\r\n\r\n{method} http://other.host/devstoreaccount1{path} HTTP/1.1\
             \r\nContent-Type: application/json\r\nAccept: application/json\r\n{headers}\r\n{body}\
             \r\n"
        ));
    }
    out + "--changeset_2--\r\n\r\n--batch_1--\r\n"
}

fn batch<'s>(s: &'s TestService, body: &str) -> Call<'s> {
    let call = s.call("POST", "/$batch");
    call.header("content-type", "multipart/mixed; boundary=batch_1").body(body)
}

async fn submit(s: &TestService, ops: &[Op<'_>]) -> Answer {
    batch(s, &multipart(ops)).send().await
}

fn entity(row: &str) -> String {
    format!(r#"{{"PartitionKey":"p","RowKey":"{row}","v":1}}"#)
}

/// Statuses of the parts of a response.
fn statuses(answer: &Answer) -> Vec<u16> {
    let text = answer.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 "));
    lines.map(|line| line[..3].parse().expect("a status")).collect()
}

#[tokio::test]
async fn all_operations_are_carried_out_together() {
    let s = TestService::with_table().await;
    for row in ["old", "gone", "merged"] {
        s.insert("p", row, r#""v":0,"w":9"#).await.expect(201);
    }
    let new = entity("new");
    let answer = submit(
        &s,
        &[
            ("POST", "/demo", "Prefer: return-no-content\r\n", &new),
            ("PUT", "/demo(PartitionKey='p',RowKey='old')", "If-Match: *\r\n", r#"{"v":1}"#),
            ("PATCH", "/demo(PartitionKey='p',RowKey='merged')", "", r#"{"v":1}"#),
            ("POST", "/demo(PartitionKey='p',RowKey='up')", "X-HTTP-Method: MERGE\r\n", "{}"),
            ("DELETE", "/demo(PartitionKey='p',RowKey='gone')", "If-Match: *\r\n", ""),
        ],
    )
    .await;
    answer.expect(202);
    assert_eq!(statuses(&answer), [204, 204, 204, 204, 204], "{}", answer.text());
    let text = answer.text();
    assert!(answer.header("content-type").unwrap().contains("boundary=batchresponse_"));
    assert!(text.contains("boundary=changesetresponse_") && text.contains("Content-ID: 3\r\n"));
    assert_eq!(text.matches("\r\nETag: W/\"datetime'").count(), 4, "{text}");
    assert!(text.contains("Location: http://example.test:10002/devstoreaccount1/demo(PartitionKey='p',RowKey='merged')"));
    assert!(!text.contains('{'), "{text}");
    let (keys, _) = s.keys("").await;
    let rows: Vec<&str> = keys.iter().map(|(_, row)| row.as_str()).collect();
    assert_eq!(rows, ["merged", "new", "old", "up"]);
    let merged = s.get("/demo(PartitionKey='p',RowKey='merged')").await.json();
    assert_eq!((&merged["v"], &merged["w"]), (&1.into(), &9.into()));
    let old = s.get("/demo(PartitionKey='p',RowKey='old')").await.json();
    assert_eq!((&old["v"], old.get("w")), (&1.into(), None));
}

#[tokio::test]
async fn a_write_is_one_commit_and_so_is_a_batch() {
    let s = TestService::with_table().await;
    let table = s.demo();
    let commits = || table.routing().ranges()[0].lsn().0;
    let address = "/demo(PartitionKey='p',RowKey='r')";
    let before = commits();
    s.insert("p", "r", "").await.expect(201);
    for (verb, if_match) in [("PUT", "*"), ("PATCH", "*"), ("DELETE", "*")] {
        s.call(verb, address).header("if-match", if_match).body("{}").send().await.expect(204);
    }
    // Upserts of missing and existing entities.
    for verb in ["PUT", "PATCH", "PUT"] {
        s.call(verb, address).body("{}").send().await.expect(204);
    }
    assert_eq!(commits(), before + 7);
    let rows: Vec<String> =
        (0..10).map(|n| format!("/demo(PartitionKey='p',RowKey='{n}')")).collect();
    let ops: Vec<Op<'_>> = rows.iter().map(|row| ("PUT", row.as_str(), "", "{}")).collect();
    submit(&s, &ops).await.expect(202);
    assert_eq!(commits(), before + 8);
    // A refused upsert stores nothing.
    s.insert("p", "r", "").await.refused(409, "EntityAlreadyExists");
    s.get(address).await.expect(200);
    assert_eq!(commits(), before + 8);
}

#[tokio::test]
async fn an_insert_without_preference_shows_the_entity() {
    let s = TestService::with_table().await;
    let answer = submit(&s, &[("POST", "/demo", "", &entity("a"))]).await;
    assert_eq!(statuses(&answer), [201]);
    assert!(answer.text().contains(r#""RowKey":"a""#), "{}", answer.text());
}

#[tokio::test]
async fn one_failure_undoes_all_and_is_told_with_its_number() {
    let s = TestService::with_table().await;
    let etag = s.insert("p", "there", "").await.etag().to_owned();
    s.call("PUT", "/demo(PartitionKey='p',RowKey='there')").body("{}").send().await.expect(204);
    let stale = format!("If-Match: {etag}\r\n");
    let (new, there) = (entity("new"), entity("there"));
    let address = "/demo(PartitionKey='p',RowKey='there')";
    let missing = "/demo(PartitionKey='p',RowKey='missing')";
    for (op, status, code) in [
        (("POST", "/demo", "", there.as_str()), 409, "EntityAlreadyExists"),
        (("PUT", address, stale.as_str(), "{}"), 412, "UpdateConditionNotSatisfied"),
        (("DELETE", missing, "If-Match: *\r\n", ""), 404, "ResourceNotFound"),
        (("PUT", missing, "", r#"{"x":{}}"#), 400, "InvalidInput"),
        (("DELETE", address, "", ""), 400, "InvalidInput"),
        (("GET", address, "", ""), 400, "InvalidInput"),
    ] {
        let answer = submit(&s, &[("POST", "/demo", "", &new), op]).await;
        answer.expect(202);
        assert_eq!(statuses(&answer), [status], "{}", answer.text());
        let text = answer.text();
        assert!(text.contains(&format!(r#""code":"{code}""#)), "{text}");
        assert!(text.contains(r#""value":"1:"#) && text.contains("Content-ID: 1\r\n"), "{text}");
        s.get("/demo(PartitionKey='p',RowKey='new')").await.refused(404, "ResourceNotFound");
    }
}

#[tokio::test]
async fn an_entity_that_a_merge_makes_too_large_undoes_all() {
    let s = TestService::with_table().await;
    let many: Vec<String> = (0..252).map(|n| format!(r#""p{n}":1"#)).collect();
    s.insert("p", "full", &many.join(",")).await.expect(201);
    let new = entity("new");
    let merge = ("PATCH", "/demo(PartitionKey='p',RowKey='full')", "", r#"{"more":1}"#);
    let answer = submit(&s, &[("POST", "/demo", "", &new), merge]).await;
    assert_eq!(statuses(&answer), [400]);
    assert!(answer.text().contains("TooManyProperties"), "{}", answer.text());
    s.get("/demo(PartitionKey='p',RowKey='new')").await.refused(404, "ResourceNotFound");
    let alone = s.call("PATCH", merge.1).body(merge.3).send().await;
    alone.refused(400, "TooManyProperties");
}

#[tokio::test]
async fn rules_of_groups_are_kept() {
    let s = TestService::with_table().await;
    s.post("/Tables", r#"{"TableName":"other"}"#).await.expect(201);
    let check = async |ops: &[Op<'_>], index: usize, code: &str| {
        let answer = submit(&s, ops).await;
        answer.expect(202);
        let text = answer.text();
        assert_eq!(statuses(&answer).len(), 1, "{text}");
        assert!(text.contains(code) && text.contains(&format!(r#""value":"{index}:"#)), "{text}");
    };
    let (a, b) = (entity("a"), entity("b"));
    let elsewhere = r#"{"PartitionKey":"q","RowKey":"b"}"#;
    check(
        &[("POST", "/demo", "", &a), ("POST", "/demo", "", elsewhere)],
        1,
        "CommandsInBatchActOnDifferentPartitions",
    )
    .await;
    check(&[("POST", "/demo", "", &a), ("POST", "/other", "", &b)], 1, "InvalidInput").await;
    check(&[("POST", "/demo", "", &a), ("POST", "/demo", "", &a)], 1, "InvalidDuplicateRow").await;
    check(&[("POST", "/missing", "", &a)], 0, "TableNotFound").await;
    let entities: Vec<String> = (0..101).map(|n| entity(&n.to_string())).collect();
    let ops: Vec<Op<'_>> = entities.iter().map(|e| ("POST", "/demo", "", e.as_str())).collect();
    check(&ops, 100, "InvalidInput").await;
    let answer = submit(&s, &ops[..100]).await;
    assert_eq!(statuses(&answer).len(), 100);
    assert_eq!(s.keys("").await.0.len(), 100);
}

#[tokio::test]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let s = TestService::with_table().await;
    submit(&s, &[]).await.refused(400, "InvalidInput");
    batch(&s, "garbage").send().await.refused(400, "InvalidInput");
    let json = s.call("POST", "/$batch").header("content-type", "application/json").body("{}");
    json.send().await.refused(415, "MediaTypeNotSupported");
    let signed = batch(&s, &multipart(&[])).key(account::Key::from_bytes(&[9; 64]));
    signed.send().await.refused(403, "AuthenticationFailed");
    let large = entity(&"x".repeat(4 * 1024 * 1024));
    submit(&s, &[("POST", "/demo", "", &large)]).await.refused(413, "RequestBodyTooLarge");
}

#[tokio::test]
async fn one_entity_may_be_read_by_a_batch() {
    let s = TestService::with_table().await;
    s.insert("p", "r", r#""v":7"#).await.expect(201);
    let get = |row: &str| {
        format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
             \r\nGET /demo(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nAccept: application/json;\
             odata=nometadata\r\n\r\n\r\n--batch_1--\r\n"
        )
    };
    let answer = batch(&s, &get("r")).send().await;
    assert_eq!((answer.status, statuses(&answer)), (202, vec![200]));
    assert!(answer.text().contains("\"v\":7}"), "{}", answer.text());
    let answer = batch(&s, &get("x")).send().await;
    assert_eq!((answer.status, statuses(&answer)), (202, vec![404]));
}
