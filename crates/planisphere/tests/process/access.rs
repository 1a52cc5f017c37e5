//! Authorization over the wire: every operation on every resource with every kind of token.

use std::net::TcpStream;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use testkit::http::{Request, Response};
use testkit::server::TestServer;

use crate::support::{connect, in_memory};

const KEY: &str = "x-ms-documentdb-partitionkey";

/// The effect of a request on its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
}
use Effect::{Read, Write};

/// The resource of a request. Keys are those of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The account's own description.
    Account,
    /// Databases, users, permissions, offers: nothing in a container.
    Elsewhere,
    /// Container `other` and its items.
    Other,
    /// The description of container `c` and its ranges.
    Description,
    /// The query plan of a query of container `c`.
    Plan,
    /// Container `c` itself.
    Container,
    /// Items of `c` with one key, or with all.
    Items(Option<&'static str>),
    /// One item of `c`, by key and id.
    Item(&'static str, &'static str),
    /// All scripts of `c`.
    Scripts,
    /// One script of `c`.
    Script(&'static str),
    /// A run of a procedure within a key.
    Run(&'static str, &'static str),
}
use Subject::{
    Account, Container, Description, Elsewhere, Item, Items, Other, Plan, Run, Script, Scripts,
};

struct Operation {
    name: &'static str,
    effect: Effect,
    subject: Subject,
    request: Request,
}

/// The scope of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Container(&'static str),
    Key(&'static str),
    Item(&'static str, &'static str),
    Script(&'static str),
    /// A token whose permission was deleted after it was issued.
    Revoked,
    /// A modified token.
    Forged,
}

#[derive(Debug)]
struct Token {
    scope: Scope,
    mode: Effect,
    text: String,
}

/// The expected status of a refusal, or `None` if the request is allowed. Written from the
/// documents, not from the server.
fn refusal(token: &Token, operation: &Operation) -> Option<u16> {
    if matches!(token.scope, Scope::Revoked | Scope::Forged) {
        return Some(401);
    }
    let is_within = match (token.scope, operation.subject) {
        (_, Account) => operation.effect == Read,
        (Scope::Container("other"), Other) => true,
        (
            Scope::Container("c") | Scope::Key(_) | Scope::Item(..) | Scope::Script(_),
            Description,
        ) => true,
        (Scope::Container("c"), Scripts | Script(_) | Run(..)) => true,
        (Scope::Key(key), Run(_, touched)) => key == touched,
        (Scope::Script(id), Script(touched) | Run(touched, _)) => id == touched,
        (Scope::Container("c") | Scope::Key(_), Plan) => true,
        (Scope::Container("c"), Container | Items(_) | Item(..)) => true,
        (Scope::Key(key), Items(Some(touched)) | Item(touched, _)) => key == touched,
        (Scope::Item(key, id), Item(touched, touched_id)) => (key, id) == (touched, touched_id),
        _ => false,
    };
    let may_do = token.mode == Write || operation.effect == Read;
    (!(is_within && may_do)).then_some(403)
}

fn item(id: &str, key: &str) -> String {
    json!({"id": id, "pk": key, "n": 1}).to_string()
}

fn procedure(id: &str) -> String {
    let body = "function () { getContext().getResponse().setBody('done'); }";
    json!({"id": id, "body": body}).to_string()
}

fn keyed(request: Request, key: &str) -> Request {
    request.header(KEY, &json!([key]).to_string())
}

fn posted(path: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", path).header("content-type", "application/json").body(body)
}

fn queried(path: &str) -> Request {
    Request::new("POST", path)
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .body(r#"{"query":"SELECT * FROM c"}"#)
}

fn batch(operations: &Value) -> Request {
    posted("/dbs/d/colls/c/docs", operations.to_string())
        .header("x-ms-cosmos-is-batch-request", "True")
}

fn bulk(keys: &[&str]) -> Request {
    let operations: Vec<_> = keys
        .iter()
        .map(|key| {
            let body = json!({"id": "bulk", "pk": key});
            let key = json!([key]).to_string();
            json!({"operationType": "Upsert", "partitionKey": key, "resourceBody": body})
        })
        .collect();
    batch(&json!(operations))
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-documentdb-partitionkeyrangeid", "0")
}

/// Every possible operation, with its subject.
fn operations() -> Vec<Operation> {
    let (docs, sprocs) = ("/dbs/d/colls/c/docs", "/dbs/d/colls/c/sprocs");
    let get = |path: &str| Request::new("GET", path);
    let delete = |path: &str| Request::new("DELETE", path);
    let put = |path: &str, body: String| Request::new("PUT", path).body(body);
    let doc = |id: &str| format!("{docs}/{id}");
    let patch = json!({"operations": [{"op": "set", "path": "/n", "value": 2}]}).to_string();
    let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let other = r#"{"id":"e","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let plan = queried(docs)
        .header("x-ms-cosmos-is-query-plan-request", "True")
        .header("x-ms-cosmos-supported-query-features", "None")
        .header("x-ms-cosmos-query-version", "1.0");
    let create = json!([{"operationType": "Read", "id": "x"}]);
    let permission = r#"{"id":"mine","permissionMode":"All","resource":"dbs/d/colls/c"}"#;
    let list = vec![
        ("read the account", Read, Account, get("/")),
        ("list databases", Read, Elsewhere, get("/dbs")),
        ("query databases", Read, Elsewhere, queried("/dbs")),
        ("create a database", Write, Elsewhere, posted("/dbs", r#"{"id":"new"}"#)),
        ("read the database", Read, Elsewhere, get("/dbs/d")),
        ("delete the database", Write, Elsewhere, delete("/dbs/d")),
        ("list containers", Read, Elsewhere, get("/dbs/d/colls")),
        ("create a container", Write, Elsewhere, posted("/dbs/d/colls", other)),
        ("read the other container", Read, Other, get("/dbs/d/colls/other")),
        ("read a missing container", Read, Elsewhere, get("/dbs/d/colls/missing")),
        ("list the other items", Read, Other, get("/dbs/d/colls/other/docs")),
        ("read another's item", Read, Other, keyed(get("/dbs/d/colls/other/docs/x"), "a")),
        (
            "create another's item",
            Write,
            Other,
            keyed(posted("/dbs/d/colls/other/docs", item("z", "a")), "a"),
        ),
        ("read a missing database", Read, Elsewhere, get("/dbs/missing/colls/c")),
        ("list users", Read, Elsewhere, get("/dbs/d/users")),
        ("create a user", Write, Elsewhere, posted("/dbs/d/users", r#"{"id":"me"}"#)),
        ("read the user", Read, Elsewhere, get("/dbs/d/users/u")),
        ("delete the user", Write, Elsewhere, delete("/dbs/d/users/u")),
        ("list permissions", Read, Elsewhere, get("/dbs/d/users/u/permissions")),
        ("create a permission", Write, Elsewhere, posted("/dbs/d/users/u/permissions", permission)),
        ("read a permission", Read, Elsewhere, get("/dbs/d/users/u/permissions/c-Write")),
        ("list keys", Read, Elsewhere, get("/dbs/d/clientencryptionkeys")),
        ("list offers", Read, Elsewhere, get("/offers")),
        ("read the container", Read, Description, get("/dbs/d/colls/c")),
        ("list ranges", Read, Description, get("/dbs/d/colls/c/pkranges")),
        ("replace the container", Write, Container, put("/dbs/d/colls/c", container.into())),
        ("list conflicts", Read, Container, get("/dbs/d/colls/c/conflicts")),
        ("list all items", Read, Items(None), get(docs)),
        ("list items of a", Read, Items(Some("a")), keyed(get(docs), "a")),
        ("list items of b", Read, Items(Some("b")), keyed(get(docs), "b")),
        ("follow all changes", Read, Items(None), get(docs).header("a-im", "Incremental Feed")),
        (
            "follow changes of a",
            Read,
            Items(Some("a")),
            keyed(get(docs), "a").header("a-im", "Incremental Feed"),
        ),
        (
            "follow changes of b",
            Read,
            Items(Some("b")),
            keyed(get(docs), "b").header("a-im", "Incremental Feed"),
        ),
        ("query all items", Read, Items(None), queried(docs)),
        (
            "query range 0",
            Read,
            Items(None),
            queried(docs).header("x-ms-documentdb-partitionkeyrangeid", "0"),
        ),
        ("query items of a", Read, Items(Some("a")), keyed(queried(docs), "a")),
        ("query items of b", Read, Items(Some("b")), keyed(queried(docs), "b")),
        ("create in a", Write, Items(Some("a")), keyed(posted(docs, item("new", "a")), "a")),
        ("create in b", Write, Items(Some("b")), keyed(posted(docs, item("new", "b")), "b")),
        ("create in a, not said", Write, Items(None), posted(docs, item("new", "a"))),
        (
            "upsert in a",
            Write,
            Items(Some("a")),
            keyed(posted(docs, item("x", "a")), "a").header("x-ms-documentdb-is-upsert", "True"),
        ),
        (
            "upsert in b",
            Write,
            Items(Some("b")),
            keyed(posted(docs, item("x", "b")), "b").header("x-ms-documentdb-is-upsert", "True"),
        ),
        ("batch in a", Write, Items(Some("a")), keyed(batch(&create), "a")),
        ("batch in b", Write, Items(Some("b")), keyed(batch(&create), "b")),
        ("bulk in a", Write, Items(Some("a")), bulk(&["a", "a"])),
        ("bulk in a and b", Write, Items(None), bulk(&["a", "b"])),
        (
            "delete all of a",
            Write,
            Items(Some("a")),
            keyed(posted("/dbs/d/colls/c/operations/partitionkeydelete", ""), "a"),
        ),
        (
            "delete all of b",
            Write,
            Items(Some("b")),
            keyed(posted("/dbs/d/colls/c/operations/partitionkeydelete", ""), "b"),
        ),
        ("read a/x", Read, Item("a", "x"), keyed(get(&doc("x")), "a")),
        ("read a/y", Read, Item("a", "y"), keyed(get(&doc("y")), "a")),
        ("read b/x", Read, Item("b", "x"), keyed(get(&doc("x")), "b")),
        ("replace a/x", Write, Item("a", "x"), keyed(put(&doc("x"), item("x", "a")), "a")),
        ("replace a/y", Write, Item("a", "y"), keyed(put(&doc("y"), item("y", "a")), "a")),
        ("replace b/x", Write, Item("b", "x"), keyed(put(&doc("x"), item("x", "b")), "b")),
        (
            "patch a/x",
            Write,
            Item("a", "x"),
            keyed(Request::new("PATCH", &doc("x")).body(patch.clone()), "a"),
        ),
        (
            "patch b/x",
            Write,
            Item("b", "x"),
            keyed(Request::new("PATCH", &doc("x")).body(patch), "b"),
        ),
        ("delete a/x", Write, Item("a", "x"), keyed(delete(&doc("x")), "a")),
        ("delete a/y", Write, Item("a", "y"), keyed(delete(&doc("y")), "a")),
        ("delete b/x", Write, Item("b", "x"), keyed(delete(&doc("x")), "b")),
        ("plan a query", Read, Plan, plan.clone()),
        ("plan a query of b", Read, Plan, keyed(plan, "b")),
        ("list procedures", Read, Scripts, get(sprocs)),
        ("create a procedure", Write, Scripts, posted(sprocs, procedure("new"))),
        ("read s", Read, Script("s"), get("/dbs/d/colls/c/sprocs/s")),
        ("read t", Read, Script("t"), get("/dbs/d/colls/c/sprocs/t")),
        ("replace s", Write, Script("s"), put("/dbs/d/colls/c/sprocs/s", procedure("s"))),
        ("run s in a", Write, Run("s", "a"), keyed(posted("/dbs/d/colls/c/sprocs/s", "[]"), "a")),
        ("run s in b", Write, Run("s", "b"), keyed(posted("/dbs/d/colls/c/sprocs/s", "[]"), "b")),
        ("run t in a", Write, Run("t", "a"), keyed(posted("/dbs/d/colls/c/sprocs/t", "[]"), "a")),
        ("delete s", Write, Script("s"), delete("/dbs/d/colls/c/sprocs/s")),
        ("list triggers", Read, Scripts, get("/dbs/d/colls/c/triggers")),
        ("list functions", Read, Scripts, get("/dbs/d/colls/c/udfs")),
        // Last, because it succeeds for authorized callers.
        ("delete the container", Write, Container, delete("/dbs/d/colls/c")),
    ];
    list.into_iter()
        .map(|(name, effect, subject, request)| Operation { name, effect, subject, request })
        .collect()
}

/// A request signed with the account's key.
fn owner(
    server: &TestServer,
    stream: &mut TcpStream,
    (method, path, kind, link): (&str, &str, &str, &str),
    headers: &[(&str, &str)],
    body: &Value,
) -> Response {
    let mut request = Request::new(method, path).signed(server.key(), kind, link);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request
        .body(if body.is_null() { String::new() } else { body.to_string() })
        .send(stream)
        .unwrap()
}

fn restore(server: &TestServer, stream: &mut TcpStream) {
    for (id, key) in [("x", "a"), ("y", "a"), ("x", "b")] {
        let body = json!({"id": id, "pk": key});
        let headers = [(KEY, &*json!([key]).to_string()), ("x-ms-documentdb-is-upsert", "True")];
        let address = ("POST", "/dbs/d/colls/c/docs", "docs", "dbs/d/colls/c");
        let answer = owner(server, stream, address, &headers, &body);
        assert!(answer.status < 300, "{}", answer.text());
    }
    for id in ["s", "t"] {
        let body: Value = serde_json::from_str(&procedure(id)).unwrap();
        let headers = [("x-ms-documentdb-is-upsert", "True")];
        let address = ("POST", "/dbs/d/colls/c/sprocs", "sprocs", "dbs/d/colls/c");
        let answer = owner(server, stream, address, &headers, &body);
        assert!(answer.status < 300, "{}", answer.text());
    }
}

fn set_up(server: &TestServer, stream: &mut TcpStream) -> Vec<Token> {
    let container = |id: &str| json!({"id": id, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let mut make = |method, path: &str, kind, link: &str, body: &Value| {
        let answer = owner(server, stream, (method, path, kind, link), &[], body);
        assert!(answer.status < 300, "{method} {path}: {}", answer.text());
        answer.json()
    };
    make("POST", "/dbs", "dbs", "", &json!({"id": "d"}));
    make("POST", "/dbs/d/colls", "colls", "dbs/d", &container("c"));
    make("POST", "/dbs/d/colls", "colls", "dbs/d", &container("other"));
    let scopes = [
        (Scope::Key("a"), json!("dbs/d/colls/c"), json!(["a"])),
        (Scope::Item("a", "x"), json!("dbs/d/colls/c/docs/x"), json!(["a"])),
        (Scope::Script("s"), json!("dbs/d/colls/c/sprocs/s"), Value::Null),
        (Scope::Container("other"), json!("dbs/d/colls/other"), Value::Null),
        (Scope::Revoked, json!("dbs/d/colls/c"), json!(["gone"])),
        (Scope::Container("c"), json!("dbs/d/colls/c"), Value::Null),
    ];
    let mut tokens = Vec::new();
    // A user may have one permission for a resource, so the permissions to write belong to another
    // user.
    for (mode, user) in [(Read, "reader"), (Write, "u")] {
        make("POST", "/dbs/d/users", "users", "dbs/d", &json!({"id": user}));
        let link = format!("dbs/d/users/{user}");
        for (scope, resource, key) in &scopes {
            let name = format!("{scope:?}-{mode:?}").replace(['"', '(', ')', ',', ' '], "");
            let id = if *scope == Scope::Container("c") { format!("c-{mode:?}") } else { name };
            let mode_name = if mode == Read { "Read" } else { "All" };
            let mut body = json!({"id": id, "permissionMode": mode_name, "resource": resource});
            if !key.is_null() {
                body["resourcePartitionKey"] = key.clone();
            }
            let path = format!("/{link}/permissions");
            let made = make("POST", &path, "permissions", &link, &body);
            let text = made["_token"].as_str().unwrap().to_owned();
            if *scope == Scope::Revoked {
                make(
                    "DELETE",
                    &format!("{path}/{id}"),
                    "permissions",
                    &format!("{link}/permissions/{id}"),
                    &Value::Null,
                );
            }
            tokens.push(Token { scope: *scope, mode, text });
        }
    }
    let whole = &tokens.last().unwrap().text;
    let forged = whole.replacen("sig=", "sig=A", 1);
    tokens.insert(0, Token { scope: Scope::Forged, mode: Write, text: forged });
    tokens
}

#[test]
fn a_token_allows_what_its_permission_says_and_nothing_else() {
    let server = in_memory(&["--throttling", "off"]);
    let stream = &mut connect(&server);
    let tokens = set_up(&server, stream);
    let (mut allowed, mut denied) = (0, 0);
    for operation in operations() {
        for token in &tokens {
            restore(&server, stream);
            let encoded = utf8_percent_encode(&token.text, NON_ALPHANUMERIC).to_string();
            let request = operation.request.clone().header("x-ms-version", "2020-07-15");
            let answer = request.header("authorization", &encoded).send(stream).unwrap();
            let seen = format!(
                "{} with {:?} {:?}: {} {}",
                operation.name,
                token.scope,
                token.mode,
                answer.status,
                answer.text()
            );
            match refusal(token, &operation) {
                Some(status) => {
                    denied += 1;
                    assert_eq!(answer.status, status, "{seen}");
                    let code = if status == 401 { "Unauthorized" } else { "Forbidden" };
                    assert_eq!(answer.json()["code"], code, "{seen}");
                    assert_eq!(answer.header("x-ms-substatus"), None, "{seen}");
                }
                None => {
                    allowed += 1;
                    let is_done = answer.status < 300
                        || answer.status == 304
                        || (answer.status == 404 && operation.name == "read another's item")
                        || (answer.status == 409 && operation.name.starts_with("create"));
                    assert!(is_done, "{seen}");
                }
            }
        }
    }
    assert!(denied >= 200 && allowed >= 100, "{denied} denied, {allowed} allowed");
}

#[test]
fn debug_logs_say_what_was_asked_and_what_it_cost() {
    let server = in_memory(&["--log", "api_nosql=debug,api_table=debug,planisphere=debug"]);
    crate::support::fill(&server);
    let link = "dbs/shop/colls/orders/docs/1";
    let read = Request::new("GET", &format!("/{link}"))
        .signed(server.key(), "docs", link)
        .header(KEY, r#"["k1"]"#)
        .header("x-ms-activity-id", "debugged");
    assert_eq!(read.send(&mut connect(&server)).unwrap().status, 200);
    let jobs = Request::new("GET", "/_admin/v1/jobs");
    assert_eq!(crate::support::ask_admin(&server, &jobs).status, 200);
    let table = Request::new("GET", "/devstoreaccount1/Tables?sig=confidential");
    let table = table.signed_for_tables("devstoreaccount1", server.key(), "");
    let address = server.ready().table_storage.unwrap();
    assert_eq!(table.send(&mut TcpStream::connect(address).unwrap()).unwrap().status, 200);
    let entities = Request::new("GET", "/devstoreaccount1/visits()");
    let entities = entities.signed_for_tables("devstoreaccount1", server.key(), "");
    assert_eq!(entities.send(&mut TcpStream::connect(address).unwrap()).unwrap().status, 404);
    let log = server.stderr();
    let line = |part: &str| log.lines().find(|line| line.contains(part)).unwrap_or_default();
    for (found, parts) in [
        (
            line("debugged"),
            &[
                "DEBUG",
                "GET",
                "path=\"/dbs/shop/colls/orders/docs/1\"",
                "operation=Read",
                "container=\"shop/orders\"",
                "status=200",
                "charge=1",
            ][..],
        ),
        (line("admin request served"), &["GET", "/_admin/v1/jobs", "status=200"][..]),
        (line("table request served"), &["GET", "/devstoreaccount1/Tables", "ListTables"][..]),
        (line("/devstoreaccount1/visits"), &["container=\"TablesDB/visits\"", "status=404"][..]),
    ] {
        for part in parts {
            assert!(found.contains(part), "{part} in {found:?}; the log:\n{log}");
        }
    }
    assert!(!log.contains("confidential") && !log.contains(server.key()), "{log}");
}

#[test]
fn every_refusal_is_in_the_log_without_secrets() {
    let server = in_memory(&["--throttling", "off"]);
    let stream = &mut connect(&server);
    let tokens = set_up(&server, stream);
    let reader = tokens.iter().find(|t| t.scope == Scope::Container("c")).unwrap();
    let encoded = utf8_percent_encode(&reader.text, NON_ALPHANUMERIC).to_string();
    let refused = keyed(posted("/dbs/d/colls/c/docs", item("new", "a")), "a")
        .header("authorization", &encoded)
        .header("x-ms-activity-id", "refused-for-its-mode");
    assert_eq!(refused.send(stream).unwrap().status, 403);
    let unsigned = Request::new("GET", "/dbs/d%0Ad").header("x-ms-activity-id", "not-signed");
    assert_eq!(unsigned.send(stream).unwrap().status, 401);
    let log = server.stderr();
    let line = |text: &str| {
        let found: Vec<_> = log.lines().filter(|line| line.contains(text)).collect();
        assert_eq!(found.len(), 1, "{text} in {log}");
        found[0].to_owned()
    };
    let refused = line("refused-for-its-mode");
    for part in
        ["audit", "127.0.0.1", "POST", "/dbs/d/colls/c/docs", "403", "resource token of permission"]
    {
        assert!(refused.contains(part), "{part} in {refused}");
    }
    assert!(line("not-signed").contains("/dbs/d%0Ad"));
    let secret = reader.text.rsplit("sig=").next().unwrap().split(';').next().unwrap();
    assert!(!log.contains(secret) && !log.contains(server.key()), "{log}");
}
