//! Batches and bulk requests in HybridRow, as the .NET SDK sends them. The rows are written and
//! read here independently of the server's own code.
#![expect(clippy::little_endian_bytes, reason = "HybridRow is little-endian")]

use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const PK: &str = "x-ms-documentdb-partitionkey";
const SEGMENT: &[u8] = &[0x81, 0xF0, 0xD8, 0xFF, 0x7F, 1, 10, 0, 0, 0];
const RECORD: &[u8] = &[0x81, 0xF1, 0xD8, 0xFF, 0x7F];

const CREATE: i32 = 0;
const PATCH: i32 = 1;
const READ: i32 = 2;
const DELETE: i32 = 4;
const REPLACE: i32 = 5;
const UPSERT: i32 = 20;

#[derive(Clone, Default)]
struct Operation {
    kind: i32,
    key: Option<&'static str>,
    id: Option<&'static str>,
    body: Option<Vec<u8>>,
    if_match: Option<String>,
    if_none_match: Option<String>,
    is_minimal: bool,
}

fn op(kind: i32, id: Option<&'static str>, body: Option<Value>) -> Operation {
    let body = body.map(|body| body.to_string().into_bytes());
    Operation { kind, id, body, ..Operation::default() }
}

fn create(id: &str) -> Operation {
    op(CREATE, None, Some(json!({"id": id, "pk": "A"})))
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| {
            if c & 1 == 1 { (c >> 1) ^ 0xEDB8_8320 } else { c >> 1 }
        })
    })
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut n = bytes.len();
    let seven_bits = |n: usize| u8::try_from(n % 0x80).expect("less than 128");
    while n >= 0x80 {
        out.push(seven_bits(n) | 0x80);
        n /= 0x80;
    }
    out.push(seven_bits(n));
    out.extend_from_slice(bytes);
}

fn rows(operations: &[Operation]) -> Vec<u8> {
    let mut out = SEGMENT.to_vec();
    for operation in operations {
        let mut row = vec![0x81, 0x70, 0x54, 0xE1, 0x7F];
        let flag = |is_there: bool, bit: u8| if is_there { 1 << bit } else { 0 };
        let Operation { kind, key, id, body, if_match, if_none_match, is_minimal } = operation;
        row.push(3 | flag(key.is_some(), 2) | flag(id.is_some(), 4) | flag(body.is_some(), 6));
        row.extend_from_slice(&kind.to_le_bytes());
        row.extend_from_slice(&2_i32.to_le_bytes());
        let variable = [key.map(str::as_bytes), id.map(str::as_bytes), body.as_deref()];
        variable.into_iter().flatten().for_each(|bytes| put_bytes(bytes, &mut row));
        for (token, text) in [(9, if_match), (10, if_none_match)] {
            if let Some(text) = text {
                row.extend_from_slice(&[20, token]);
                put_bytes(text.as_bytes(), &mut row);
            }
        }
        if *is_minimal {
            row.extend_from_slice(&[3, 12]);
        }
        out.extend_from_slice(RECORD);
        let length = u32::try_from(row.len()).expect("a short row");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&crc(&row).to_le_bytes());
        out.extend_from_slice(&row);
    }
    out
}

/// The result rows of an answer: `status`, `substatus` and, if they are there, `etag`, `body`,
/// `wait` and `charge`.
fn results(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    let mut rest = answer.body.strip_prefix(SEGMENT).expect("a segment");
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at(count);
        rest = left;
        (taken, left.is_empty())
    };
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("the test's own data"));
    let mut all = Vec::new();
    loop {
        assert_eq!(take(5).0, RECORD);
        let (length, checksum) = (number(take(4).0), number(take(4).0));
        let (row, is_last) = take(length as usize);
        assert_eq!(crc(row), checksum);
        let (head, mut sparse) = row.split_at(14);
        assert_eq!(head[..5], [0x81, 0x71, 0x54, 0xE1, 0x7F]);
        let mut found = json!({"status": number(&head[6..10]), "substatus": number(&head[10..14])});
        for (bit, name) in [(2, "etag"), (3, "body")] {
            if head[5] & (1 << bit) != 0 {
                let (mut length, mut shift) = (0, 0);
                loop {
                    let byte = sparse[0];
                    sparse = &sparse[1..];
                    length |= usize::from(byte & 0x7F) << shift;
                    shift += 7;
                    if byte < 0x80 {
                        break;
                    }
                }
                let (value, left) = sparse.split_at(length);
                sparse = left;
                found[name] = match name {
                    "body" => serde_json::from_slice(value).expect("JSON"),
                    _ => String::from_utf8(value.to_vec()).expect("the test's own data").into(),
                };
            }
        }
        if let Some(left) = sparse.strip_prefix(&[11, 5]) {
            found["wait"] = number(&left[..4]).into();
            sparse = &left[4..];
        }
        let charge = sparse.strip_prefix(&[16, 6]).expect("a charge");
        found["charge"] =
            f64::from_le_bytes(charge.try_into().expect("the test's own data")).into();
        all.push(found);
        if is_last {
            return all;
        }
    }
}

fn codes(answer: &Answer) -> Vec<u64> {
    results(answer)
        .iter()
        .map(|result| result["status"].as_u64().expect("the test's own data"))
        .collect()
}

fn batch<'s>(s: &'s TestService, body: impl Into<Vec<u8>>) -> Call<'s> {
    s.call("POST", DOCS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .header("x-ms-cosmos-batch-ordered", "True")
        .header(PK, r#"["A"]"#)
        .body(body)
}

fn bulk<'s>(s: &'s TestService, operations: &[Operation]) -> Call<'s> {
    s.call("POST", DOCS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", "0")
        .body(rows(operations))
}

async fn service() -> TestService {
    TestService::new().with_container().await
}

async fn count(s: &TestService) -> Value {
    s.get(DOCS).await.json()["_count"].clone()
}

#[tokio::test]
async fn every_operation_of_a_batch() {
    let s = service().await;
    let old = s.post(DOCS, r#"{"id":"old","pk":"A","n":1}"#).await.expect(201);
    let etag = old.header("etag").unwrap().to_owned();
    let patch = json!({"condition": "from c where c.n = 1",
                       "operations": [{"op": "incr", "path": "/n", "value": 1}]});
    let operations = [
        create("1"),
        Operation { if_match: Some(etag), ..op(PATCH, Some("old"), Some(patch)) },
        op(READ, Some("old"), None),
        op(REPLACE, Some("1"), Some(json!({"id": "1", "pk": "A", "r": 1}))),
        Operation { is_minimal: true, ..op(UPSERT, None, Some(json!({"id": "2", "pk": "A"}))) },
        op(DELETE, Some("1"), None),
    ];
    let answer = batch(&s, rows(&operations)).send().await.expect(200);
    let found = results(&answer);
    assert_eq!(codes(&answer), [201, 200, 200, 200, 201, 204]);
    assert_eq!(found[2]["body"]["n"], 2);
    assert_eq!(found[2]["etag"], found[2]["body"]["_etag"]);
    assert_eq!(found[4].get("body"), None);
    assert!(found[4]["etag"].is_string());
    assert_eq!((found[5].get("body"), found[5].get("etag")), (None, None));
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#2"));
    assert_eq!(answer.header("x-ms-documentdb-partitionkeyrangeid"), Some("0"));
    assert!(answer.header("x-ms-content-path").is_some());
    let total: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    let sum: f64 = found.iter().map(|result| result["charge"].as_f64().unwrap()).sum();
    assert!((sum - total).abs() < 0.001);
    assert_eq!(count(&s).await, 2);
}

#[tokio::test]
async fn a_failure_has_a_text_and_undoes_the_batch() {
    let s = service().await;
    let old = s.post(DOCS, r#"{"id":"old","pk":"A"}"#).await.expect(201);
    let etag = old.header("etag").unwrap().to_owned();
    let stale = Some("\"stale\"".to_owned());
    let bad = Operation { body: Some(b"{\"id\":".to_vec()), ..op(CREATE, None, None) };
    let foreign = op(CREATE, None, Some(json!({"id": "x", "pk": "B"})));
    let condition = json!({"condition": "from c where c.n = 1",
                           "operations": [{"op": "set", "path": "/n", "value": 1}]});
    for (failing, status, substatus) in [
        (create("old"), 409, 0),
        (op(READ, Some("none"), None), 404, 0),
        (op(READ, Some(""), None), 400, 0),
        (op(READ, None, None), 400, 0),
        (Operation { if_match: stale, ..op(DELETE, Some("old"), None) }, 412, 0),
        (op(PATCH, Some("old"), Some(condition)), 412, 1110),
        (foreign, 400, 1001),
        (bad, 400, 0),
        (op(UPSERT, None, None), 400, 0),
    ] {
        let body = rows(&[create("new"), failing, create("after")]);
        let answer = batch(&s, body).send().await.expect(207);
        assert_eq!(codes(&answer), [424, status, 424]);
        let found = results(&answer);
        assert_eq!(found[1]["substatus"], substatus);
        assert!(!found[1]["body"]["message"].as_str().unwrap().is_empty());
        assert_eq!(found[0].get("body"), None);
        let total: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!(total > 0.0 && (found[1]["charge"].as_f64().unwrap() - total).abs() < 0.001);
        assert_eq!(count(&s).await, 1);
    }
    let known = Operation { if_none_match: Some(etag), ..op(READ, Some("old"), None) };
    let answer = batch(&s, rows(&[known, create("new")])).send().await.expect(207);
    assert_eq!(codes(&answer), [304, 201]);
    assert_eq!(results(&answer)[0].get("body"), None);
    assert_eq!(count(&s).await, 2);
}

#[tokio::test]
async fn errors_before_any_operation_are_json() {
    let s = service().await;
    let many: Vec<_> = (0..101).map(|n| create(&n.to_string())).collect();
    for (body, wanted) in [
        (b"\x81".to_vec(), "ends within a row"),
        (b"\x81\x00\x00\x00\x00".to_vec(), "does not begin with a segment"),
        (SEGMENT.to_vec(), "no operations"),
        (rows(&many), "more operations"),
        (rows(&[op(18, Some("1"), None)]), "no operation type 18"),
    ] {
        let answer = batch(&s, body).send().await.expect(400);
        assert!(answer.message().contains(wanted), "{wanted}: {}", answer.message());
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    codes(&batch(&s, rows(&many[..100])).send().await.expect(200));
    // Rows are for batches only.
    let item = s.call("POST", DOCS).header(PK, r#"["A"]"#).body(rows(&[create("1")]));
    assert!(item.send().await.expect(400).message().contains("HybridRow"));
    let prefix = s.call("POST", DOCS).header("x-ms-cosmos-is-batch-request", "True");
    prefix.header(PK, r#"["A","B"]"#).body(rows(&[create("1")])).send().await.expect(400);
}

#[tokio::test]
async fn sizes_are_bounded() {
    let s = service().await;
    // The largest item fits although the rows around it make the body larger than it.
    let text = "x".repeat(2 * 1024 * 1024 - 40);
    let large = |text: &str| op(CREATE, None, Some(json!({"id": "l", "pk": "A", "x": text})));
    let body = rows(&[large(&text)]);
    assert!(body.len() > 2 * 1024 * 1024);
    assert_eq!(codes(&batch(&s, body).send().await.expect(200)), [201]);
    let slightly = format!("{text}{}", "x".repeat(100));
    let answer = batch(&s, rows(&[large(&slightly)])).send().await.expect(207);
    assert_eq!(codes(&answer), [413]);
    let much = format!("{text}{}", "x".repeat(110_000));
    let answer = batch(&s, rows(&[large(&much)])).send().await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
}

#[tokio::test]
async fn bulk_operations_stand_alone() {
    let s = service().await;
    let keyed = |operation: Operation, key| Operation { key: Some(key), ..operation };
    let of = |kind, id, body| keyed(op(kind, id, body), "[\"A\"]");
    let operations = [
        keyed(create("1"), "[\"A\"]"),
        keyed(create("1"), "[\"A\"]"),
        keyed(op(CREATE, None, Some(json!({"id": "n", "pk": 5.5}))), "[5.5]"),
        keyed(op(UPSERT, None, Some(json!({"id": "u"}))), "[{}]"),
        keyed(create("2"), "[\"B\"]"),
        of(READ, Some("none"), None),
        of(
            PATCH,
            Some("1"),
            Some(json!({"operations": [{"op": "set", "path": "/n", "value": 1}]})),
        ),
        Operation {
            is_minimal: true,
            ..of(REPLACE, Some("1"), Some(json!({"id": "1", "pk": "A"})))
        },
        of(DELETE, Some("1"), None),
        keyed(create("3"), "nonsense"),
    ];
    let answer = bulk(&s, &operations).send().await.expect(207);
    assert_eq!(codes(&answer), [201, 409, 201, 201, 400, 404, 200, 200, 204, 400]);
    let found = results(&answer);
    assert_eq!(found[4]["substatus"], 1001);
    assert_eq!(found[1]["body"]["code"], "Conflict");
    assert_eq!(found[7].get("body"), None);
    assert_eq!(answer.header("x-ms-documentdb-partitionkeyrangeid"), Some("0"));
    assert_eq!(codes(&bulk(&s, &[keyed(create("9"), "[\"A\"]")]).send().await.expect(200)), [201]);
}

#[tokio::test]
async fn items_may_be_binary() {
    let s = service().await;
    let value = model::json::parse(br#"{"id":"b","pk":"A","n":[1,2.5]}"#, 9).unwrap().value;
    let body = Some(api_nosql::fuzzing::encode(&value));
    let binary = Operation { key: Some("[\"A\"]"), body, ..op(UPSERT, None, None) };
    let answer = bulk(&s, &[binary]).send().await.expect(200);
    assert_eq!(results(&answer)[0]["body"]["n"], json!([1, 2.5]));
}

#[tokio::test]
async fn a_throttled_bulk_operation_waits_long_enough_for_all_attempts() {
    let s = TestService::throttling().with_container().await;
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let operations: Vec<_> =
        ids.iter().map(|id| Operation { key: Some("[\"A\"]"), ..create(id) }).collect();
    let answer = bulk(&s, &operations).send().await.expect(207);
    let found = results(&answer);
    let waits: Vec<u64> = found.iter().filter_map(|result| result["wait"].as_u64()).collect();
    // The budget of a second is enough for 80 of them.
    assert_eq!(waits.len(), found.iter().filter(|result| result["status"] == 429).count());
    assert!(waits.len() >= 15 && waits.iter().all(|wait| *wait >= 500), "{waits:?}");
    // A whole batch is refused as a whole.
    let refused = batch(&s, rows(&[create("x")])).send().await.expect(429);
    assert!(refused.header("x-ms-retry-after-ms").is_some());
    assert_eq!(refused.header("content-type"), Some("application/json"));
}
