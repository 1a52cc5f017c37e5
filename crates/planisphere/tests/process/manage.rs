//! `planisphere db` and `planisphere container`, and the admin API below them.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use testkit::http::Request;
use testkit::server::TestServer;

use crate::commands::{json_of, on, said};
use crate::support::{ask_admin, connect, in_memory, run, stderr_of};

fn keys_of(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The description that clients of the NoSQL API read.
fn read_container(server: &TestServer, link: &str) -> Value {
    let read = Request::new("GET", &format!("/{link}")).signed(server.key(), "colls", link);
    let read = read.send(&mut connect(server)).unwrap();
    assert_eq!(read.status, 200, "{}", read.text());
    read.json()
}

fn create_item(server: &TestServer, link: &str, key: &str, item: &Value) -> u16 {
    let create = Request::new("POST", &format!("/{link}/docs"))
        .signed(server.key(), "docs", link)
        .header("content-type", "application/json")
        .header("x-ms-documentdb-partitionkey", key)
        .body(item.to_string());
    create.send(&mut connect(server)).unwrap().status
}

fn failed(output: &Output, code: i32, part: &str) {
    let said = stderr_of(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(part), "'{part}' is not in {said}");
    assert!(!said.contains("Message: {"), "not in words: {said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn databases_and_containers_are_made_listed_shown_and_deleted() {
    let server = in_memory(&[]);
    let on = |arguments: &[&str]| said(&on(&server, arguments));
    assert!(on(&["db", "list"]).contains("There are no databases yet"));
    assert!(on(&["container", "list"]).contains("There are no containers yet"));
    assert_eq!(on(&["db", "create", "shop"]), "shop: no provisioned throughput\n");
    assert_eq!(on(&["db", "create", "shared", "--throughput", "800"]), "shared: 800 RU/s\n");
    let made = on(&["container", "create", "shop/orders", "--partition-key", "/customer"]);
    assert!(made.starts_with("shop/orders\n  partition key  /customer\n"), "{made}");
    let made = on(&["container", "create", "shared/a", "-k", "/pk"]);
    assert!(made.contains("shares its database's throughput"), "{made}");
    let databases = on(&["db", "list"]);
    assert!(databases.contains("shop") && databases.contains("800 RU/s"), "{databases}");
    let containers = on(&["container", "list"]);
    assert!(containers.contains("shop/orders") && containers.contains("shared/a"), "{containers}");
    let containers = on(&["container", "list", "shop"]);
    assert!(containers.contains("shop/orders") && !containers.contains("shared/a"), "{containers}");
    let shown = on(&["container", "show", "shop/orders"]);
    assert!(shown.contains("0 items") && shown.contains("indexing       /*"), "{shown}");
    assert_eq!(on(&["container", "delete", "shop/orders"]), "Deleted shop/orders.\n");
    assert_eq!(on(&["db", "delete", "shared"]), "Deleted shared.\n");
    assert_eq!(on(&["container", "list", "shop"]).lines().count(), 1);
}

#[test]
fn the_json_of_every_verb_keeps_its_shape() {
    const CONTAINER: [&str; 10] = [
        "bytes",
        "database",
        "definition",
        "id",
        "items",
        "partitionKey",
        "partitions",
        "rid",
        "skew",
        "throughput",
    ];
    let server = in_memory(&[]);
    let json = |arguments: &[&str]| json_of(&on(&server, &[arguments, &["--json"]].concat()));
    let database = json(&["db", "create", "shop", "--autoscale", "4000"]);
    assert_eq!(keys_of(&database), ["containers", "id", "rid", "throughput"]);
    assert_eq!(database["throughput"], json!({"mode": "autoscale", "ru": 4000, "currentRu": 400}));
    let created =
        json(&["container", "create", "shop/orders", "-k", "/customer", "--throughput", "500"]);
    assert_eq!(keys_of(&created), CONTAINER);
    assert_eq!(created["throughput"], json!({"mode": "manual", "ru": 500}));
    assert_eq!(json(&["container", "show", "shop/orders"]), created);
    let listed = json(&["db", "list"]);
    assert_eq!(listed["databases"][0]["containers"], 1);
    let listed = json(&["container", "list", "shop"]);
    assert_eq!(
        keys_of(&listed["containers"][0]),
        CONTAINER.map(|key| key).into_iter().filter(|key| *key != "definition").collect::<Vec<_>>()
    );
    assert_eq!(listed, json(&["container", "list"]));
    assert_eq!(
        json(&["container", "delete", "shop/orders"]),
        json!({"database": "shop", "container": "orders", "deleted": true})
    );
    assert_eq!(json(&["db", "delete", "shop"]), json!({"database": "shop", "deleted": true}));
    assert_eq!(json(&["db", "list"]), json!({"databases": []}));
    assert_eq!(json(&["container", "list"]), json!({"containers": []}));
}

#[test]
fn every_flag_is_in_the_container() {
    let server = in_memory(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &Value| {
        let path = dir.path().join(name);
        std::fs::write(&path, content.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let embeddings = json!([
        {"path": "/v", "dataType": "float32", "dimensions": 3, "distanceFunction": "cosine"},
    ]);
    let vectors = file("vectors.json", &json!({"vectorEmbeddings": embeddings}));
    let indexing = file(
        "indexing.json",
        &json!({
            "excludedPaths": [{"path": "/blob/*"}],
            "vectorIndexes": [{"path": "/v", "type": "flat"}],
        }),
    );
    said(&on(&server, &["db", "create", "shop"]));
    let made = on(
        &server,
        &[
            "container",
            "create",
            "shop/users",
            "--partition-key",
            "/tenant",
            "--partition-key",
            "/user",
            "--throughput",
            "1000",
            "--ttl",
            "-1",
            "--unique",
            "/email",
            "--unique",
            "/first,/last",
            "--indexing",
            &indexing,
            "--vectors",
            &vectors,
        ],
    );
    let shown = said(&made);
    for part in ["/tenant, then /user", "1,000 RU/s", "/email; /first with /last", "1 vector"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let link = "dbs/shop/colls/users";
    let read = read_container(&server, link);
    assert_eq!(
        read["partitionKey"],
        json!({"paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2})
    );
    assert_eq!(
        read["uniqueKeyPolicy"],
        json!({"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/first", "/last"]}]})
    );
    assert_eq!(
        (&read["defaultTtl"], &read["vectorEmbeddingPolicy"]["vectorEmbeddings"]),
        (&json!(-1), &embeddings)
    );
    let excluded = read["indexingPolicy"]["excludedPaths"].as_array().unwrap();
    assert!(excluded.contains(&json!({"path": "/blob/*"})), "{excluded:?}");
    // The command shows the same description that clients read.
    let shown = json_of(&on(&server, &["container", "show", "shop/users", "--json"]));
    assert_eq!(shown["definition"], read);
    let item = |id: &str, email: &str| json!({"id": id, "tenant": "t", "user": "u", "email": email, "first": id, "last": id});
    assert_eq!(create_item(&server, link, r#"["t","u"]"#, &item("1", "a")), 201);
    assert_eq!(create_item(&server, link, r#"["t","u"]"#, &item("2", "a")), 409);
    assert_eq!(create_item(&server, link, r#"["t","u"]"#, &item("2", "b")), 201);
}

#[test]
fn bad_input_is_explained() {
    let server = in_memory(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (broken, wrong) = (file("broken.json", "{"), file("wrong.json", r#"{"path": "/v"}"#));
    let modeless = file("modeless.json", r#"{"indexingMode": "sometimes"}"#);
    let large = file("large.json", &format!("[{}1]", "1,".repeat(600_000)));
    said(&on(&server, &["db", "create", "shop"]));
    said(&on(&server, &["container", "create", "shop/orders", "-k", "/pk"]));
    let new = |arguments: &[&str]| {
        on(&server, &[&["container", "create", "shop/new", "-k", "/pk"], arguments].concat())
    };
    for (arguments, code, part) in [
        (&["--throughput", "lots"][..], 2, "invalid value"),
        (&["--throughput", "300"], 1, "less than the minimum 400"),
        (&["--throughput", "450"], 1, "in steps of 100"),
        (&["--autoscale", "1500"], 1, "in steps of 1000"),
        (&["--throughput", "400", "--autoscale", "1000"], 2, "cannot be used with"),
        (&["--ttl", "soon"], 2, "invalid value"),
        (&["--ttl", "0"], 1, "ttl is invalid"),
        (&["--ttl", "-2"], 1, "ttl is invalid"),
        (&["--unique", "email"], 1, "unique key path is not valid"),
        (&["--unique", "/a", "--unique", "/a"], 1, "given twice"),
        (&["-k", "/pk"], 1, "given twice"),
        (&["-k", "/b", "-k", "/c", "-k", "/d"], 1, "Too many partition key paths"),
        (&["-k", "customer"], 1, "'customer' could not be accepted"),
        (&["--indexing", "/nowhere/x.json"], 1, "can't be read"),
        (&["--indexing", &broken], 1, "is not JSON"),
        (&["--indexing", &modeless], 1, "indexing"),
        (&["--indexing", &large], 1, "is larger than"),
        (&["--vectors", &broken], 1, "is not JSON"),
        (&["--vectors", &wrong], 1, "vectorEmbeddings"),
    ] {
        failed(&new(arguments), code, part);
    }
    for (arguments, code, part) in [
        (&["container", "create", "shop/new"][..], 2, "--partition-key"),
        (&["container", "create", "new", "-k", "/pk"], 2, "shop/orders"),
        (&["container", "create", "shop/orders", "-k", "/pk"], 1, "already exists"),
        (&["container", "create", "shpo/new", "-k", "/pk"], 1, "Did you mean 'shop'?"),
        (&["container", "create", "shop/a?b", "-k", "/pk"], 1, "a?b"),
        (&["container", "show", "shop/oders"], 1, "Did you mean 'orders'?"),
        (&["container", "delete", "shop/oders"], 1, "Did you mean 'orders'?"),
        (&["container", "list", "shpo"], 1, "Did you mean 'shop'?"),
        (&["db", "create", "shop"], 1, "already exists"),
        (&["db", "create", "shop/orders"], 2, "a database alone"),
        (&["db", "create", ""], 2, "a database alone"),
        (&["db", "create", "a\\b"], 1, "a\\b"),
        (&["db", "create", "new", "--throughput", "1"], 1, "less than the minimum 400"),
        (&["db", "delete", "shpo"], 1, "Did you mean 'shop'?"),
    ] {
        failed(&on(&server, arguments), code, part);
    }
    for command in ["db", "container"] {
        failed(&run(&[command]), 2, "Examples:");
    }
    let left = json_of(&on(&server, &["container", "list", "--json"]));
    assert_eq!(left["containers"].as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn scripts_can_run_again() {
    let server = in_memory(&[]);
    let on = |arguments: &[&str]| on(&server, arguments);
    let first = json_of(&on(&["db", "create", "shop", "--if-not-exists", "--json"]));
    assert_eq!(json_of(&on(&["db", "create", "shop", "--if-not-exists", "--json"])), first);
    let create = ["container", "create", "shop/orders", "--if-not-exists", "--json", "-k"];
    let first = json_of(&on(&[&create[..], &["/pk"]].concat()));
    assert_eq!(json_of(&on(&[&create[..], &["/pk"]].concat())), first);
    let other = on(&[&create[..], &["/other"]].concat());
    failed(&other, 1, r#"with the partition key ["/pk"], not ["/other"]"#);
    let delete =
        |arguments: &[&str]| json_of(&on(&[arguments, &["--if-exists", "--json"]].concat()));
    for expected in [true, false] {
        assert_eq!(delete(&["container", "delete", "shop/orders"])["deleted"], expected);
    }
    for expected in [true, false] {
        assert_eq!(delete(&["db", "delete", "shop"])["deleted"], expected);
    }
    // A container of a deleted database is missing too.
    assert_eq!(delete(&["container", "delete", "shop/orders"])["deleted"], false);
}

#[test]
fn a_throttled_command_waits_for_its_turn() {
    let server = in_memory(&["--fault-injection", "on"]);
    let throttle = |operation: &str| {
        let fault = json!({
            "answer": {"status": 429, "substatus": 3200, "retryAfterMs": 20},
            "operation": operation, "count": 3,
        });
        let fault = Request::new("POST", "/_admin/v1/faults").body(fault.to_string());
        assert_eq!(ask_admin(&server, &fault).status, 201);
    };
    for (operation, arguments) in [
        ("database", &["db", "create", "shop"][..]),
        ("container", &["container", "create", "shop/orders", "-k", "/pk"]),
        ("offer", &["throughput", "set", "shop/orders", "manual", "1000"]),
        ("container", &["container", "delete", "shop/orders"]),
        ("database", &["db", "delete", "shop"]),
    ] {
        throttle(operation);
        said(&on(&server, arguments));
        // The command received all of the injected faults.
        let left = ask_admin(&server, &Request::new("GET", "/_admin/v1/faults")).json();
        assert_eq!(left, json!({"faults": []}), "{arguments:?}");
    }
    throttle("database");
    let refused = Request::new("POST", "/_admin/v1/databases").body(r#"{"id":"a"}"#);
    let refused = ask_admin(&server, &refused);
    assert_eq!(
        (refused.status, refused.header("x-ms-retry-after-ms"), refused.header("retry-after")),
        (429, Some("20"), Some("1"))
    );
}

#[test]
fn programs_use_the_same_api() {
    let server = in_memory(&[]);
    let ask = |method: &str, path: &str, body: Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = ask_admin(&server, &Request::new(method, path).body(body));
        (answer.status, answer.header("location").map(str::to_owned), answer.json())
    };
    let (status, location, _) = ask("POST", "/_admin/v1/databases", json!({"id": "my shop"}));
    assert_eq!((status, location.as_deref()), (201, Some("/_admin/v1/databases/my%20shop")));
    assert_eq!(ask("GET", &location.unwrap(), Value::Null).0, 200);
    let orders = "/_admin/v1/containers/my%20shop/orders";
    let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
    let (status, location, made) = ask(
        "POST",
        "/_admin/v1/containers/my%20shop",
        json!({"id": "orders", "partitionKey": key, "throughput": {"manual": 600}}),
    );
    assert_eq!((status, location.as_deref()), (201, Some(orders)), "{made}");
    assert_eq!(ask("GET", orders, Value::Null), (200, None, made.clone()));
    // An exported description creates an equal container.
    let (status, _, same) = {
        let mut definition = made["definition"].clone();
        definition["id"] = "again".into();
        ask("POST", "/_admin/v1/containers/my%20shop", definition)
    };
    assert_eq!(
        (status, &same["definition"]["indexingPolicy"]),
        (201, &made["definition"]["indexingPolicy"])
    );
    for (body, status, part) in [
        (json!({"id": "x", "partitionkey": key}), 400, "no 'partitionkey'"),
        (json!({"id": "x"}), 400, "partitionKey"),
        (json!({"partitionKey": key}), 400, "id"),
        (json!({"id": "x", "partitionKey": key, "throughput": {}}), 400, "Give either"),
        (json!({"id": "x", "partitionKey": key, "throughput": 400}), 400, "throughput"),
        (json!({"id": "x", "partitionKey": key, "throughput": {"manual": 100}}), 400, "minimum"),
        (json!([]), 400, "JSON object"),
        (json!({"id": "orders", "partitionKey": key}), 409, "already exists"),
    ] {
        let (got, _, answer) = ask("POST", "/_admin/v1/containers/my%20shop", body.clone());
        assert_eq!(got, status, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{answer}");
    }
    assert_eq!(ask("PUT", orders, Value::Null).0, 405);
    assert_eq!(ask("DELETE", orders, Value::Null).0, 200);
    assert_eq!(ask("DELETE", orders, Value::Null).0, 404);
    assert_eq!(ask("POST", "/_admin/v1/databases", json!({"id": "a", "name": "b"})).0, 400);
    assert_eq!(ask("POST", "/_admin/v1/databases", json!({"id": ""})).0, 400);
}

#[test]
fn standard_input_is_a_file_too() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let server = in_memory(&[]);
    said(&on(&server, &["db", "create", "shop"]));
    let endpoint = format!("http://{}/", server.ready().admin.unwrap());
    let mut create = Command::new(crate::support::binary())
        .args(["container", "create", "shop/orders", "-k", "/pk", "--indexing", "-"])
        .args(["--endpoint", &endpoint])
        .current_dir(Path::new("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    create.stdin.take().unwrap().write_all(br#"{"indexingMode": "none"}"#).unwrap();
    assert!(create.wait().unwrap().success());
    let read = read_container(&server, "dbs/shop/colls/orders");
    assert_eq!(read["indexingPolicy"]["indexingMode"], "none");
}
