//! Single bad requests and the status each must get.

use std::time::{Duration, SystemTime};

use anyhow::ensure;

use crate::client::Connection;
use crate::hostile::CONTAINER_LINK;
use crate::request::{Account, Draft};
use crate::sign::Key;

/// Largest item that is accepted.
const ITEM_BYTES_MAX: usize = 2 << 20;

/// A bad request.
struct Case {
    name: &'static str,
    request: Vec<u8>,
    wanted: u16,
}

/// Sends every case on a connection of its own and compares the status. Errors of the protocol
/// must also have a JSON body with `code` and `message`, which clients rely on.
pub async fn run(account: &Account) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for case in all(account) {
        match answer(account, &case).await {
            Ok(status) if status == case.wanted => {}
            Ok(status) => {
                wrong.push(format!("{}: {status} instead of {}", case.name, case.wanted));
            }
            Err(error) => wrong.push(format!("{}: {error:#}", case.name)),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

async fn answer(account: &Account, case: &Case) -> anyhow::Result<u16> {
    let mut connection = Connection::open(account.address).await?;
    let reply = connection.exchange(&case.request).await?;
    if reply.status >= 400 {
        let body: serde_json::Value = serde_json::from_slice(reply.body)?;
        ensure!(body["code"].is_string() && body["message"].is_string(), "no code and message");
        ensure!(reply.header("x-ms-activity-id").is_some(), "no activity id");
    }
    Ok(reply.status)
}

fn all(account: &Account) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, wanted, request| cases.push(Case { name, request, wanted });
    for (name, wanted, draft) in bodies().into_iter().chain(ids()).chain(heads()) {
        add(name, wanted, account.render(&draft));
    }
    for (name, wanted, draft) in operations() {
        add(name, wanted, account.render(&draft));
    }
    for (name, wanted, request) in callers(account).into_iter().chain(raw(account)) {
        add(name, wanted, request);
    }
    cases
}

type Drafted = (&'static str, u16, Draft<'static>);

fn create(body: impl Into<Vec<u8>>) -> Draft<'static> {
    Draft::feed("POST", CONTAINER_LINK, "docs").body(body)
}

/// An item whose body is exactly `length` bytes.
fn item_of(length: usize, id: &str) -> String {
    let around = format!(r#"{{"id":"{id}","pk":"p","pad":""}}"#).len();
    format!(r#"{{"id":"{id}","pk":"p","pad":"{}"}}"#, "x".repeat(length - around))
}

fn nested(levels: usize) -> String {
    format!(r#"{{"id":"deep","pk":"p","a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
}

fn bodies() -> Vec<Drafted> {
    let mut cut = br#"{"id":"i","pk":"p","s":""#.to_vec();
    cut.extend_from_slice(b"\xff\xfe\x80\"}");
    let mut overlong = br#"{"id":"i","pk":"p","s":""#.to_vec();
    overlong.extend_from_slice(b"\xc0\xaf\"}");
    vec![
        ("an item at the limit", 201, create(item_of(ITEM_BYTES_MAX, "limit"))),
        ("an item over the limit", 413, create(item_of(ITEM_BYTES_MAX + 1, "over"))),
        ("a body of 5 MB", 413, create(item_of(5 << 20, "big"))),
        ("200 levels", 400, create(nested(200))),
        ("a million levels", 400, create(nested(1_000_000))),
        ("a million levels never closed", 400, create("[".repeat(1_000_000))),
        ("a million objects never closed", 400, create(r#"{"a":"#.repeat(400_000))),
        ("bytes that are no text", 400, create(cut)),
        ("an overlong encoding", 400, create(overlong)),
        ("no body", 400, create("")),
        ("white space", 400, create("   ")),
        ("half an object", 400, create(r#"{"id":"i","pk":"#)),
        ("two objects", 400, create(r#"{"id":"i","pk":"p"}{}"#)),
        ("a list", 400, create(r#"[{"id":"i","pk":"p"}]"#)),
        ("a number", 400, create("1")),
        ("a number too long to be one", 400, create(format!("{}.", "9".repeat(100_000)))),
        ("a bad escape", 400, create(r#"{"id":"i","pk":"p","s":"\x"}"#)),
        ("a control character", 400, create("{\"id\":\"i\",\"pk\":\"p\",\"s\":\"\u{1}\"}")),
        ("XML", 400, create("<item/>").header("Content-Type", "application/xml")),
        ("binary JSON of garbage", 400, create(b"\x80\xff\xff\xff\xff\xff".to_vec())),
        ("binary JSON cut short", 400, create(b"\x80\xec".to_vec())),
        ("HybridRow", 400, create(b"\x81\x00\x00".to_vec())),
        ("ttl of zero", 400, create(r#"{"id":"i","pk":"p","ttl":0}"#)),
        ("ttl of text", 400, create(r#"{"id":"i","pk":"p","ttl":"1"}"#)),
    ]
}

fn ids() -> Vec<Drafted> {
    let with_id = |id: &str| create(format!(r#"{{"id":{id},"pk":"p"}}"#));
    let long = |n| format!("\"{}\"", "i".repeat(n));
    vec![
        ("an id at the limit", 201, with_id(&long(1023))),
        ("an id over the limit", 400, with_id(&long(1024))),
        ("an id of 100 KB", 400, with_id(&long(100_000))),
        ("no id", 400, create(r#"{"pk":"p"}"#)),
        ("an empty id", 400, with_id(r#""""#)),
        ("a number as id", 400, with_id("7")),
        ("null as id", 400, with_id("null")),
        ("a backslash in an id", 201, with_id(r#""a\\b""#)),
    ]
}

fn heads() -> Vec<Drafted> {
    let read = || Draft::one("GET", CONTAINER_LINK, "docs", "good");
    let keyed = |key: &str| read().header("x-ms-documentdb-partitionkey", key.to_owned());
    let feed = |name, value: &str| {
        Draft::feed("GET", CONTAINER_LINK, "docs").header(name, value.to_owned())
    };
    vec![
        ("no partition key", 400, read()),
        ("a partition key that is no JSON", 400, keyed("[")),
        ("a partition key that is no list", 400, keyed(r#"{"a":1}"#)),
        ("a list as partition key", 400, keyed("[[1]]")),
        ("an object as partition key", 400, keyed(r#"[{"a":1}]"#)),
        ("too many partition keys", 400, keyed(r#"["p","q"]"#)),
        ("a deep partition key", 400, keyed(&"[".repeat(10_000))),
        (
            "another partition key than the body's",
            400,
            create(r#"{"id":"i","pk":"p"}"#).key("other"),
        ),
        ("a page of -2", 400, feed("x-ms-max-item-count", "-2")),
        ("a page of 1e9999", 400, feed("x-ms-max-item-count", "1e9999")),
        ("a continuation that no server issued", 400, feed("x-ms-continuation", "AAAA")),
        ("an unknown consistency", 400, feed("x-ms-consistency-level", "Firm")),
        ("a session token of garbage", 400, keyed(r#"["p"]"#).header("x-ms-session-token", "?#")),
    ]
}

fn operations() -> Vec<Drafted> {
    let patch =
        |body: String| Draft::one("PATCH", CONTAINER_LINK, "docs", "good").key("p").body(body);
    let increments = |count| {
        let one = r#"{"op":"incr","path":"/n","value":1}"#;
        format!(r#"{{"operations":[{}]}}"#, vec![one; count].join(","))
    };
    let batch =
        |body: String| Draft::feed("POST", CONTAINER_LINK, "docs").batch().key("p").body(body);
    let reads =
        |count| format!("[{}]", vec![r#"{"operationType":"Read","id":"good"}"#; count].join(","));
    let query = |text: String| {
        Draft::feed("POST", CONTAINER_LINK, "docs")
            .header("x-ms-documentdb-isquery", "true")
            .header("x-ms-documentdb-query-enablecrosspartition", "true")
            .header("Content-Type", "application/query+json")
            .body(serde_json::json!({"query": text, "parameters": []}).to_string())
    };
    let incr = increments(1);
    vec![
        ("a patch as XML", 400, patch(incr).header("Content-Type", "application/xml")),
        ("a patch of nothing", 400, patch(increments(0))),
        ("a patch of eleven", 400, patch(increments(11))),
        (
            "a patch of the id",
            400,
            patch(r#"{"operations":[{"op":"set","path":"/id","value":"x"}]}"#.to_owned()),
        ),
        (
            "a patch with an unknown verb",
            400,
            patch(r#"{"operations":[{"op":"boil","path":"/n","value":1}]}"#.to_owned()),
        ),
        (
            "a patch along a path that never ends",
            400,
            patch(format!(
                r#"{{"operations":[{{"op":"set","path":"{}","value":1}}]}}"#,
                "/a".repeat(100_000)
            )),
        ),
        ("an empty batch", 400, batch("[]".to_owned())),
        ("a batch of 101", 400, batch(reads(101))),
        ("a batch that is an object", 400, batch("{}".to_owned())),
        (
            "a batch with an unknown verb",
            400,
            batch(r#"[{"operationType":"Boil","id":"good"}]"#.to_owned()),
        ),
        ("a query that is no query", 400, query("SELEKT".to_owned())),
        (
            "a query of brackets",
            400,
            query(format!("SELECT VALUE {}1{}", "[".repeat(50_000), "]".repeat(50_000))),
        ),
        ("a query of negations", 400, query(format!("SELECT VALUE {}true", "NOT ".repeat(50_000)))),
        ("a query of 1 MB", 400, query(format!("SELECT * FROM c -- {}", "x".repeat(1 << 20)))),
    ]
}

/// Requests with wrong or missing signatures.
fn callers(account: &Account) -> Vec<(&'static str, u16, Vec<u8>)> {
    let read = crate::hostile::good_read();
    let other = Account {
        key: Key::from_base64("b3RoZXIgb3RoZXIgb3RoZXI=").expect("base64"),
        ..account.clone()
    };
    let apart = Duration::from_secs(16 * 60);
    let at = |time| account.render_at(&read, &httpdate::fmt_http_date(time));
    let without = |name: &str| without_header(&account.render(&read), name);
    let now = SystemTime::now();
    vec![
        ("another key", 401, other.render(&read)),
        ("no authorization", 401, without("authorization")),
        ("no date", 401, without("x-ms-date")),
        ("a date that is none", 401, account.render_at(&read, "yesterday")),
        ("a date of a quarter of an hour ago", 403, at(now - apart)),
        ("a date in a quarter of an hour", 403, at(now + apart)),
        (
            "authorization of garbage",
            401,
            with_header(&without("authorization"), "authorization: %%%\u{fffd}"),
        ),
        (
            "another resource's signature",
            401,
            account.render(&read.clone().path("/dbs/hostile/colls/items/docs/evil")),
        ),
    ]
}

/// Requests that the builder can't make.
fn raw(account: &Account) -> Vec<(&'static str, u16, Vec<u8>)> {
    let path = |path: &str| account.render(&crate::hostile::good_read().path(path));
    let chunked = {
        let head = account.render(&create(""));
        let head =
            with_header(&without_header(&head, "content-length"), "transfer-encoding: chunked");
        let chunk = [b"10000\r\n".as_slice(), &[b'['; 0x10000], b"\r\n"].concat();
        [head, chunk.repeat(80), b"0\r\n\r\n".to_vec()].concat()
    };
    vec![
        ("an old version of the protocol", 400, {
            let request = account.render(&crate::hostile::good_read());
            with_header(&without_header(&request, "x-ms-version"), "x-ms-version: 2015-01-01")
        }),
        ("percent-encoded bytes that are no text", 400, path("/dbs/%ff%fe")),
        ("a resource type that does not exist", 400, path("/planets")),
        ("a chunked body of 5 MB", 413, chunked),
        (
            "a method that does not exist",
            405,
            account.render(&Draft::one("BREW", CONTAINER_LINK, "docs", "good").key("p")),
        ),
    ]
}

/// `request` without the header `name`.
fn without_header(request: &[u8], name: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let prefix = format!("{}:", name.to_ascii_lowercase());
    let kept = text.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with(&prefix));
    kept.collect::<Vec<_>>().join("\r\n").into_bytes()
}

/// `request` with one more header line.
fn with_header(request: &[u8], line: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    text.replacen("\r\n", &format!("\r\n{line}\r\n"), 1).into_bytes()
}
