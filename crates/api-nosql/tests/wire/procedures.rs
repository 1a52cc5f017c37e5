//! Execution of stored procedures, triggers and functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api_nosql::{AdminQuery, Hooks, ScriptLimits, Service};
use engine::components::{Clock, SystemClock, SystemRandom, TokioSpawner};
use engine::gather::GatherRequest;
use engine::{Components, Engine, Settings};
use front_http::RequestLimits;
use serde_json::{Value, json};
use storage::MemoryStore;
use testkit::harness::Harness;

use crate::support::{Answer, TestService, account};

const C: &str = "/dbs/d/colls/c";

async fn service() -> TestService {
    TestService::new().with_container().await
}

async fn define(s: &TestService, kind: &str, id: &str, body: &str) {
    s.post(&format!("{C}/{kind}"), &json!({"id": id, "body": body}).to_string()).await.expect(201);
}

async fn define_trigger(s: &TestService, id: &str, time: &str, operation: &str, body: &str) {
    let trigger =
        json!({"id": id, "body": body, "triggerType": time, "triggerOperation": operation});
    s.post(&format!("{C}/triggers"), &trigger.to_string()).await.expect(201);
}

async fn call(s: &TestService, id: &str, args: &str) -> Answer {
    let call = s.call("POST", &format!("{C}/sprocs/{id}"));
    call.header("x-ms-documentdb-partitionkey", r#"["k"]"#).body(args).send().await
}

async fn run(s: &TestService, body: &str, args: &str) -> Answer {
    define(s, "sprocs", "p", body).await;
    let answer = call(s, "p", args).await;
    s.call("DELETE", &format!("{C}/sprocs/p")).send().await.expect(204);
    answer
}

async fn create(s: &TestService, body: &str) -> Answer {
    let call = s.call("POST", &format!("{C}/docs"));
    call.header("x-ms-documentdb-partitionkey", r#"["k"]"#).body(body).send().await
}

async fn query(s: &TestService, text: &str) -> Answer {
    let call = s.call("POST", &format!("{C}/docs")).header("x-ms-documentdb-isquery", "True");
    let call = call.header("content-type", "application/query+json");
    let body = json!({ "query": text }).to_string();
    call.header("x-ms-documentdb-partitionkey", r#"["k"]"#).body(body).send().await
}

async fn ids(s: &TestService) -> Value {
    query(s, "SELECT VALUE c.id FROM c ORDER BY c.id").await.expect(200).json()["Documents"].clone()
}

#[tokio::test]
async fn a_procedure_gets_arguments_and_answers() {
    let s = service().await;
    define(&s, "sprocs", "p", "function (a, b) { getContext().getResponse().setBody([a, b]); }")
        .await;
    for (args, wanted) in [
        (r#"["x", {"y": 1}]"#, json!(["x", {"y": 1}])),
        ("", json!([null, null])),
        ("null", json!([null, null])),
        (r#"{"only": 1}"#, json!([{"only": 1}, null])),
    ] {
        assert_eq!(call(&s, "p", args).await.expect(200).json(), wanted, "{args}");
    }
    s.call("DELETE", &format!("{C}/sprocs/p")).send().await.expect(204);
    let silent = run(&s, "function () {}", "[]").await.expect(200);
    assert_eq!(silent.body, "\"\"");
    assert!(silent.header("x-ms-session-token").is_some());
    assert!(silent.header("x-ms-documentdb-script-log-results").is_none());
    assert_eq!(call(&s, "__.sys.echo", r#"["me"]"#).await.expect(200).json(), "me");
    call(&s, "none", "[]").await.expect(404);
    call(&s, "p", "[").await.expect(404);
    define(&s, "sprocs", "p", "function () {}").await;
    call(&s, "p", "[").await.expect(400);
    s.call("POST", &format!("{C}/sprocs/p")).body("[]").send().await.expect(400);
    let read_only = Some(account::Key::from_bytes(&[3; 64]));
    let call = s.call("POST", &format!("{C}/sprocs/p")).key(read_only);
    call.header("x-ms-documentdb-partitionkey", r#"["k"]"#).send().await.expect(403);
}

#[tokio::test]
async fn a_log_is_returned_when_asked_for() {
    let s = service().await;
    define(&s, "sprocs", "p", "function () { console.log('a %s', 'b c'); console.log('/é-_.~'); }")
        .await;
    let with = s.call("POST", &format!("{C}/sprocs/p"));
    let with = with.header("x-ms-documentdb-partitionkey", r#"["k"]"#);
    let answer = with.header("x-ms-documentdb-script-enable-logging", "True").send().await;
    let log = answer.expect(200);
    let log = log.header("x-ms-documentdb-script-log-results").unwrap();
    let text = percent_encoding::percent_decode_str(log).decode_utf8().unwrap();
    assert_eq!(text, "a b c/é-_.~");
    assert!(log.ends_with("%2F%C3%A9-_.~"), "{log}");
}

#[tokio::test]
async fn a_procedure_works_on_documents() {
    let s = service().await;
    let answer = run(
        &s,
        "function () {
            var c = getContext().getCollection(), r = getContext().getResponse();
            c.createDocument(c.getSelfLink(), { id: 'a', pk: 'k', n: 1 }, function (err, a) {
                if (err) throw err;
                c.createDocument(c.getAltLink(), { pk: 'k', n: 2 }, function (err, made) {
                    if (err) throw err;
                    a.n = 10;
                    c.replaceDocument(a._self, a, { etag: a._etag }, function (err, replaced) {
                        if (err) throw err;
                        c.readDocument(c.getAltLink() + '/docs/a', function (err, read) {
                            if (err) throw err;
                            c.queryDocuments(c.getSelfLink(), 'SELECT VALUE c.n FROM c ORDER BY c.n', function (err, rows) {
                                if (err) throw err;
                                c.deleteDocument(made._self, {}, function (err) {
                                    if (err) throw err;
                                    r.setBody({ replaced: replaced, read: read.n, rows: rows, generated: made.id.length });
                                });
                            });
                        });
                    });
                });
            });
        }",
        "[]",
    )
    .await
    .expect(200);
    let body = answer.json();
    assert_eq!((&body["read"], &body["rows"]), (&json!(10), &json!([2, 10])));
    assert_eq!(body["generated"], 36);
    assert_eq!(ids(&s).await, json!(["a"]));
    // The properties that a script saw before the commit are those of the committed item.
    let get = s.call("GET", &format!("{C}/docs/a"));
    let stored = get.header("x-ms-documentdb-partitionkey", r#"["k"]"#).send().await.expect(200);
    for name in ["_etag", "_rid", "_self", "n"] {
        assert_eq!(stored.json()[name], body["replaced"][name], "{name}");
    }
    assert!(answer.header("x-ms-request-charge").unwrap().parse::<f64>().unwrap() > 10.0);
}

#[tokio::test]
async fn nothing_stays_of_a_procedure_that_fails() {
    let s = service().await;
    create(&s, r#"{"id":"old","pk":"k"}"#).await.expect(201);
    let begin = "__.createDocument(__.getSelfLink(), {id:'new', pk:'k'}); \
                 __.deleteDocument(__.getAltLink() + '/docs/old');";
    for (rest, status, substatus) in [
        ("throw new Error(1234, 'why');", 400, Some("1234")),
        ("throw new Error('why');", 400, None),
        ("throw 'why';", 400, None),
        ("nothing();", 400, None),
        ("__.createDocument(__.getSelfLink(), {id:'x', pk:'other'});", 400, Some("400")),
        ("__.createDocument(__.getSelfLink(), {id:'new', pk:'k'});", 400, Some("409")),
        ("__.readDocument(__.getAltLink() + '/docs/none');", 400, Some("404")),
        ("__.readDocument('dbs/x/colls/y/docs/z');", 400, Some("400")),
        ("__.queryDocuments(__.getSelfLink(), 'SELECT FROM');", 400, Some("400")),
        ("getContext().abort(new Error(7, 'stop'));", 400, Some("7")),
    ] {
        let answer = run(&s, &format!("function () {{ {begin} {rest} }}"), "[]").await;
        let answer = answer.expect(status);
        assert_eq!(answer.header("x-ms-substatus"), substatus, "{rest}");
        let wanted = "Encountered exception while executing function. Exception = ";
        assert!(answer.message().contains(wanted), "{}", answer.message());
        assert_eq!(ids(&s).await, json!(["old"]), "{rest}");
    }
    let broken = run(&s, "function ( {", "[]").await.expect(400);
    assert_eq!(broken.header("x-ms-substatus"), Some("65535"));
    assert!(broken.message().contains("Encountered exception while compiling Javascript."));
}

#[tokio::test]
async fn options_of_calls_are_honoured() {
    let s = service().await;
    for n in 0..5 {
        create(&s, &format!(r#"{{"id":"{n}","pk":"k","n":{n}}}"#)).await.expect(201);
    }
    let body = async |script: &str| run(&s, script, "[]").await.expect(200).json();
    let pages = "function () { var all = []; next(); function next(token) {
        __.queryDocuments(__.getSelfLink(), { query: 'SELECT VALUE c.n FROM c WHERE c.n >= @n', parameters: [{ name: '@n', value: 1 }] },
            { pageSize: 3, continuation: token }, function (err, rows, options) {
                if (err) throw err;
                all.push(rows);
                options.continuation ? next(options.continuation) : __.response.setBody(all);
            }); } }";
    assert_eq!(body(pages).await, json!([[1, 2, 3], [4]]));
    let listed = "function () { __.readDocuments(__.getSelfLink(), { pageSize: -1 }, function (e, rows) { __.response.setBody(rows.length); }); }";
    assert_eq!(body(listed).await, 5);
    let conditional = "function () {
        var link = __.getAltLink() + '/docs/0';
        __.readDocument(link, function (err, item) {
            __.readDocument(link, { ifNoneMatch: item._etag }, function (err, same, options) {
                __.deleteDocument(link, { etag: 'other' }, function (err) {
                    __.upsertDocument(__.getSelfLink(), { id: 'u', pk: 'k' }, function (e, made) {
                        __.createDocument(__.getSelfLink(), { pk: 'k' }, { disableAutomaticIdGeneration: true }, function (none) {
                            __.response.setBody([options.notModified, err.number, made.id, none.number]);
                        });
                    });
                });
            });
        }); }";
    assert_eq!(body(conditional).await, json!([true, 412, "u", 400]));
    let by_rid =
        query(&s, "SELECT * FROM c WHERE c.id = '3'").await.json()["Documents"][0]["_self"].clone();
    let read = format!(
        "function () {{ __.readDocument({by_rid}, function (e, item) {{ __.response.setBody(item.id); }}); }}"
    );
    assert_eq!(body(&read).await, "3");
    let chained = "function () { __.chain().filter(d => d.n > 2).pluck('n').value(); }";
    assert_eq!(body(chained).await, json!([3, 4]));
}

#[tokio::test]
async fn pre_triggers_change_what_is_written() {
    let s = service().await;
    let change = "function () { var r = getContext().getRequest(), b = r.getBody(); \
                  b.by = r.getOperationType(); r.setBody(b); }";
    define_trigger(&s, "change", "Pre", "All", change).await;
    define_trigger(
        &s,
        "rename",
        "pre",
        "Create",
        "function () { var r = __.request; var b = r.getBody(); b.id = 'renamed'; r.setBody(b); }",
    )
    .await;
    define_trigger(&s, "refuse", "Pre", "Delete", "function () { throw new Error(77, 'no'); }")
        .await;
    let write = |method: &'static str, path: &str, trigger: &str, body: &str| {
        let call = s.call(method, path).header("x-ms-documentdb-pre-trigger-include", trigger);
        call.header("x-ms-documentdb-partitionkey", r#"["k"]"#).body(body).send()
    };
    let docs = format!("{C}/docs");
    let created = write("POST", &docs, "change", r#"{"id":"a","pk":"k"}"#).await.expect(201);
    assert_eq!(created.json()["by"], "Create");
    assert_eq!(created.header("etag"), created.json()["_etag"].as_str());
    let replaced = write("PUT", &format!("{docs}/a"), "change", r#"{"id":"a","pk":"k","n":1}"#);
    assert_eq!(replaced.await.expect(200).json()["by"], "Replace");
    let renamed = write("POST", &docs, "rename", r#"{"id":"b","pk":"k"}"#).await.expect(201);
    assert_eq!(renamed.json()["id"], "renamed");
    let refused = write("DELETE", &format!("{docs}/a"), "refuse", "").await.expect(400);
    assert_eq!(refused.header("x-ms-substatus"), Some("77"));
    assert_eq!(ids(&s).await, json!(["a", "renamed"]));
    for (method, path, trigger) in [
        ("POST", docs.clone(), "none"),
        ("POST", docs.clone(), "change,rename"),
        ("POST", docs.clone(), "refuse"),
        ("DELETE", format!("{docs}/a"), "rename"),
    ] {
        write(method, &path, trigger, r#"{"id":"x","pk":"k"}"#).await.expect(400);
    }
    let post = s.call("POST", &docs).header("x-ms-documentdb-post-trigger-include", "change");
    let post = post.header("x-ms-documentdb-partitionkey", r#"["k"]"#);
    post.body(r#"{"id":"x","pk":"k"}"#).send().await.expect(400);
    define_trigger(&s, "look", "Pre", "Delete", "function () { if (__.request.getOperationType() !== 'Delete' || __.request.getBody()) throw 1; }").await;
    write("DELETE", &format!("{docs}/a"), "look", "").await.expect(204);
    assert_eq!(ids(&s).await, json!(["renamed"]));
}

#[tokio::test]
async fn post_triggers_are_part_of_the_write() {
    let s = service().await;
    let count = "function () {
        var c = getContext().getCollection(), made = getContext().getResponse().getBody();
        c.readDocument(c.getAltLink() + '/docs/meta', function (err, meta) {
            if (err) throw err;
            meta.n++;
            meta.last = made.id;
            c.replaceDocument(meta._self, meta, function (err) { if (err) throw err; });
        }); }";
    define_trigger(&s, "count", "Post", "All", count).await;
    define_trigger(
        &s,
        "answer",
        "Post",
        "Create",
        "function () { __.response.setBody({ instead: __.response.getBody().id }); }",
    )
    .await;
    let write = |trigger: &str, id: &str| {
        let call = s.call("POST", &format!("{C}/docs"));
        let call = call.header("x-ms-documentdb-post-trigger-include", trigger);
        let call = call.header("x-ms-documentdb-partitionkey", r#"["k"]"#);
        call.body(json!({"id": id, "pk": "k"}).to_string()).send()
    };
    let failed = write("count", "early").await.expect(400);
    assert_eq!(failed.header("x-ms-substatus"), Some("404"));
    assert_eq!(ids(&s).await, json!([]));
    create(&s, r#"{"id":"meta","pk":"k","n":0}"#).await.expect(201);
    for id in ["a", "b"] {
        assert_eq!(write("count", id).await.expect(201).json()["id"], id);
    }
    write("count", "a").await.expect(409);
    let meta = query(&s, "SELECT c.n, c.last FROM c WHERE c.id = 'meta'").await.json();
    assert_eq!(meta["Documents"], json!([{"n": 2, "last": "b"}]));
    let answered = write("answer", "c").await.expect(201);
    assert_eq!(answered.json(), json!({"instead": "c"}));
}

#[tokio::test]
async fn patches_run_the_triggers_of_updates() {
    let s = service().await;
    create(&s, r#"{"id":"a","pk":"k","n":1}"#).await.expect(201);
    let more = "function () {
        var r = getContext().getRequest(), b = r.getBody();
        b.operations.push({ op: 'set', path: '/by', value: r.getOperationType() });
        r.setBody(b); }";
    define_trigger(&s, "more", "Pre", "Update", more).await;
    define_trigger(&s, "creates", "Pre", "Create", more).await;
    let spoil = "function () { __.request.setBody({ operations: [{ op: 'nonsense' }] }); }";
    define_trigger(&s, "spoil", "Pre", "All", spoil).await;
    let check = "function () {
        var now = getContext().getResponse().getBody();
        if (now.n > 2) throw new Error(55, 'too much');
        if (getContext().getRequest().getBody().operations[0].path !== '/n') throw 'no patch'; }";
    define_trigger(&s, "check", "Post", "Replace", check).await;
    let patch = |pre: &'static str, post: &'static str| {
        let call = s.call("PATCH", &format!("{C}/docs/a"));
        let call = call.header("x-ms-documentdb-pre-trigger-include", pre);
        let call = call.header("x-ms-documentdb-post-trigger-include", post);
        let call = call.header("x-ms-documentdb-partitionkey", r#"["k"]"#);
        call.body(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#).send()
    };
    let patched = patch("more", "check").await.expect(200);
    assert_eq!((&patched.json()["n"], &patched.json()["by"]), (&json!(2), &json!("Patch")));
    let refused = patch("more", "check").await.expect(400);
    assert_eq!(refused.header("x-ms-substatus"), Some("55"));
    patch("creates", "").await.expect(400);
    patch("spoil", "").await.expect(400);
    let stored = query(&s, "SELECT c.n, c[\"by\"] FROM c").await.json();
    assert_eq!(stored["Documents"], json!([{"n": 2, "by": "Patch"}]));
}

#[tokio::test]
async fn scripts_measure_geometries() {
    let s = service().await;
    let body = "function (a, b, box) {
        var s = __.spatial;
        __.response.setBody({
            far: Math.round(s.distance(a, b)), here: s.within(a, box), there: s.within(b, box),
            meet: s.intersects(a, box), valid: [s.isValid(a), s.isValid({ type: 'Point' })],
            why: s.isValidDetailed({ type: 'Point', coordinates: [0, 91] }),
            none: typeof s.distance(a, 'x') }); }";
    let args = json!([
        {"type": "Point", "coordinates": [0, 0]},
        {"type": "Point", "coordinates": [1, 0]},
        {"type": "Polygon", "coordinates": [[[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]]]},
    ]);
    let found = run(&s, body, &args.to_string()).await.expect(200).json();
    assert_eq!(found["far"], 111_319);
    let truths = json!([found["here"], found["there"], found["meet"], found["valid"]]);
    assert_eq!(truths, json!([true, false, true, [true, false]]));
    assert_eq!((&found["why"]["valid"], &found["none"]), (&json!(false), &json!("undefined")));
    assert!(found["why"]["reason"].as_str().unwrap().contains("Latitude"), "{found}");
    let lacking = run(&s, "function () { __.spatial.distance(1); }", "[]").await.expect(400);
    assert_eq!(lacking.header("x-ms-substatus"), Some("400"));
}

#[tokio::test]
async fn metrics_tell_the_time_of_functions() {
    let s = service().await;
    for n in 0..4 {
        create(&s, &format!(r#"{{"id":"{n}","pk":"k","n":{n}}}"#)).await.expect(201);
    }
    define(&s, "udfs", "double", "function (x) { return x * 2; }").await;
    s.harness.clock.slow_down(Duration::from_millis(1));
    let call = s.call("POST", &format!("{C}/docs")).header("x-ms-documentdb-isquery", "true");
    let call = call.header("content-type", "application/query+json");
    let call = call.header("x-ms-documentdb-partitionkey", r#"["k"]"#);
    let call = call.header("x-ms-documentdb-populatequerymetrics", "True");
    let query = r#"{"query":"SELECT VALUE udf.double(c.n) FROM c"}"#;
    let answer = call.body(query).send().await.expect(200);
    let metrics = answer.header("x-ms-documentdb-query-metrics").unwrap();
    let time =
        metrics.split(';').find_map(|part| part.strip_prefix("userFunctionExecuteTimeInMs="));
    assert!(time.unwrap().parse::<f64>().unwrap() >= 4.0, "{metrics}");
    assert!(metrics.contains("systemFunctionExecuteTimeInMs=0.00;"), "{metrics}");
}

#[tokio::test]
async fn the_server_itself_calls_functions_over_all_ranges() {
    let s = service().await;
    for n in 0..4 {
        create(&s, &format!(r#"{{"id":"{n}","pk":"k","n":{n}}}"#)).await.expect(201);
    }
    define(&s, "udfs", "double", "function (x) { return x * 2; }").await;
    define(&s, "udfs", "fails", "function (x) { throw new Error(9, 'bad ' + x); }").await;
    let catalog = s.harness.engine.catalog();
    let database = catalog.database("d").unwrap();
    let container = Arc::clone(catalog.container(database.rid, "c").unwrap());
    let ask = async |text: &str| {
        let admin_query =
            AdminQuery::parse(json!({ "query": text }).to_string().as_bytes()).unwrap();
        s.service.run_admin_query(&container, &admin_query, GatherRequest::default()).await.map(
            |answer| {
                let rows = answer.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned());
                rows.collect::<Vec<_>>().join(",")
            },
        )
    };
    let doubled = "SELECT VALUE udf.double(c.n) FROM c WHERE udf.double(c.n) > 1 ORDER BY c.n DESC";
    assert_eq!(ask(doubled).await.unwrap(), "6,4,2");
    assert_eq!(ask("SELECT VALUE SUM(udf.double(c.n)) FROM c").await.unwrap(), "12");
    assert_eq!(ask("SELECT VALUE udf.double(2)").await.unwrap(), "4");
    let outer = "SELECT VALUE udf.double(x) FROM (SELECT VALUE COUNT(1) FROM c) x";
    assert_eq!(ask(outer).await.unwrap(), "8");
    let refused = ask("SELECT VALUE udf.fails(c.n) FROM c").await.unwrap_err();
    assert!(refused.message.contains("bad 0"), "{}", refused.message);
    assert!(ask("SELECT VALUE udf.none(c.n) FROM c").await.is_err());
    let admin_query =
        AdminQuery::parse(json!({ "query": doubled }).to_string().as_bytes()).unwrap();
    let explained = s.service.explain(&container, &admin_query, true).await.unwrap();
    assert_eq!(explained.outcome.map(|outcome| outcome.rows), Some(3));
}

#[tokio::test]
async fn functions_are_called_by_queries() {
    let s = service().await;
    for n in 0..4 {
        create(&s, &format!(r#"{{"id":"{n}","pk":"k","n":{n},"tags":["x"]}}"#)).await.expect(201);
    }
    define(&s, "udfs", "double", "function (x) { return x * 2; }").await;
    define(&s, "udfs", "odd", "function (x) { return x % 2 === 1; }").await;
    define(
        &s,
        "udfs",
        "some",
        "function (x) { if (x > 1) return { x: x, seen: typeof y }; var y; }",
    )
    .await;
    define(&s, "udfs", "fails", "function (x) { throw new Error(9, 'bad ' + x); }").await;
    define(&s, "udfs", "broken", "function (").await;
    let rows = async |text: &str| query(&s, text).await.expect(200).json()["Documents"].clone();
    assert_eq!(rows("SELECT VALUE udf.double(c.n) FROM c").await, json!([0, 2, 4, 6]));
    assert_eq!(rows("SELECT VALUE c.n FROM c WHERE udf.odd(c.n)").await, json!([1, 3]));
    assert_eq!(
        rows("SELECT VALUE udf.some(c.n) FROM c").await,
        json!([{"x":2,"seen":"undefined"},{"x":3,"seen":"undefined"}])
    );
    assert_eq!(rows("SELECT VALUE SUM(udf.double(c.n)) FROM c").await, json!([12]));
    assert_eq!(rows("SELECT VALUE udf.double(udf.double(2))").await, json!([8]));
    let failed = query(&s, "SELECT VALUE udf.fails(c.n) FROM c").await.expect(400);
    assert_eq!(failed.header("x-ms-substatus"), Some("9"));
    assert!(failed.message().contains("bad 0"), "{}", failed.message());
    let broken = query(&s, "SELECT VALUE udf.broken(c.n) FROM c").await.expect(400);
    assert_eq!(broken.header("x-ms-substatus"), Some("65535"));
    let unknown = query(&s, "SELECT VALUE udf.none(c.n) FROM c").await.expect(400);
    assert!(unknown.message().contains("udf.none"), "{}", unknown.message());
    let eleven = ["udf.double(1)"; 11].join(",");
    let many = query(&s, &format!("SELECT {eleven} FROM c")).await.expect(400);
    assert!(many.message().contains("SC3005"), "{}", many.message());
    let plan =
        s.call("POST", &format!("{C}/docs")).header("x-ms-cosmos-is-query-plan-request", "True");
    let plan = plan.header("x-ms-cosmos-supported-query-features", "OrderBy, Aggregate");
    let plan = plan.body(r#"{"query":"SELECT VALUE udf.double(c.n) FROM c WHERE udf.odd(c.n)"}"#);
    plan.send().await.expect(200);
    let in_procedure = "function () { __.queryDocuments(__.getSelfLink(), 'SELECT VALUE udf.double(c.n) FROM c', function (e, rows) { if (e) throw e; __.response.setBody(rows); }); }";
    assert_eq!(run(&s, in_procedure, "[]").await.expect(200).json(), json!([0, 2, 4, 6]));
}

/// A service with a real clock and a short time limit for scripts.
async fn hurried(time: Duration) -> TestService {
    watched(time, Arc::default()).await
}

/// The same, with one thread for scripts. Counts how often the clock is read.
async fn watched(time: Duration, readings: Arc<AtomicU64>) -> TestService {
    let components = Components {
        clock: Arc::new(SignedClock(SystemClock::start(), readings)),
        random: Arc::new(SystemRandom),
        spawner: Arc::new(TokioSpawner::new(tokio::runtime::Handle::current())),
    };
    let settings = Settings { script_threads: 1, ..Settings::default() };
    let engine = Engine::open(Arc::new(MemoryStore::new()), components, settings);
    let scripts = ScriptLimits { time, ..ScriptLimits::default() };
    let service = Service::with_limits(
        engine.expect("an engine"),
        account(),
        RequestLimits::default(),
        scripts,
        Hooks::default(),
    );
    TestService { harness: Harness::in_memory(), service }.with_container().await
}

/// A real clock that begins at the time of the tests' signatures.
struct SignedClock(SystemClock, Arc<AtomicU64>);

impl Clock for SignedClock {
    fn now(&self) -> model::Timestamp {
        let passed = u64::try_from(self.0.monotonic().as_millis()).unwrap_or(u64::MAX);
        model::Timestamp(testkit::harness::START_SECONDS * 1000 + passed)
    }

    fn monotonic(&self) -> Duration {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> engine::components::Task {
        self.0.sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_takes_too_long_is_stopped_and_leaves_nothing() {
    let s = hurried(Duration::from_millis(200)).await;
    let endless =
        "function () { __.createDocument(__.getSelfLink(), {id:'a', pk:'k'}); for (;;) {} }";
    let stopped = run(&s, endless, "[]").await.expect(408);
    assert!(stopped.message().contains("exceeded maximum alloted time"), "{}", stopped.message());
    assert_eq!(ids(&s).await, json!([]));
    define(&s, "udfs", "spin", "function () { for (;;) {} }").await;
    create(&s, r#"{"id":"x","pk":"k"}"#).await.expect(201);
    query(&s, "SELECT VALUE udf.spin() FROM c").await.expect(408);
    define_trigger(&s, "spin", "Post", "All", "function () { for (;;) {} }").await;
    let write = s.call("POST", &format!("{C}/docs"));
    let write = write.header("x-ms-documentdb-post-trigger-include", "spin");
    let write = write.header("x-ms-documentdb-partitionkey", r#"["k"]"#);
    write.body(r#"{"id":"y","pk":"k"}"#).send().await.expect(408);
    assert_eq!(ids(&s).await, json!(["x"]));
    let patient = "function () { var n = 0; go(); function go() { \
                   if (!__.createDocument(__.getSelfLink(), { id: 'n' + n, pk: 'k' }, function () { n++; go(); })) __.response.setBody(n); } }";
    let made = run(&s, patient, "[]").await.expect(200).json().as_u64().unwrap();
    let kept = query(&s, "SELECT VALUE COUNT(1) FROM c").await.json()["Documents"][0].as_u64();
    assert_eq!(kept, Some(made + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_ends_when_its_client_goes_away() {
    let readings = Arc::new(AtomicU64::new(0));
    let s = watched(Duration::from_secs(3600), Arc::clone(&readings)).await;
    let endless =
        "function () { __.createDocument(__.getSelfLink(), {id:'a', pk:'k'}); for (;;) {} }";
    define(&s, "sprocs", "endless", endless).await;
    let before = readings.load(Ordering::SeqCst);
    // A script that runs reads the clock again and again.
    let runs = async {
        while readings.load(Ordering::SeqCst) < before + 1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = call(&s, "endless", "[]") => panic!("{}", answer.message()),
        () = runs => {}
    }
    // There is one thread, and it is free again.
    run(&s, "function () {}", "[]").await.expect(200);
    assert_eq!(ids(&s).await, json!([]));
}

#[expect(clippy::disallowed_methods, reason = "several calls at once need tasks")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn procedures_that_count_together_lose_nothing() {
    let s = Arc::new(hurried(Duration::from_secs(5)).await);
    create(&s, r#"{"id":"count","pk":"k","n":0}"#).await.expect(201);
    let add = "function () { __.readDocument(__.getAltLink() + '/docs/count', function (err, item) { \
               if (err) throw err; item.n++; __.replaceDocument(item._self, item, function (err) { if (err) throw err; }); }); }";
    define(&s, "sprocs", "add", add).await;
    let mut counting = Vec::new();
    for _ in 0..4 {
        let s = Arc::clone(&s);
        counting.push(tokio::spawn(async move {
            let mut counted = 0;
            for _ in 0..10 {
                let answer = Box::pin(call(&s, "add", "[]")).await;
                assert!(matches!(answer.status, 200 | 449), "{}", answer.message());
                counted += u64::from(answer.status == 200);
            }
            counted
        }));
    }
    let mut counted = 0;
    for one in counting {
        counted += one.await.unwrap();
    }
    let n = query(&s, "SELECT VALUE c.n FROM c").await.json()["Documents"][0].as_u64();
    assert_eq!(n, Some(counted));
    assert!(counted >= 30, "of 40 only {counted} got through");
}

#[tokio::test]
async fn the_trigger_before_a_replace_sees_the_system_properties_of_the_item() {
    let s = service().await;
    let item = create(&s, r#"{"id":"1","pk":"k","n":1}"#).await.expect(201).json();
    let body = "function () {
        const c = getContext(), request = c.getRequest(), item = request.getBody();
        c.getCollection().readDocument(item._self, {}, (error, old) => {
            if (error) throw error;
            request.setBody({ ...item, was: old.n, self: item._self, etag: item._etag });
        });
    }";
    define_trigger(&s, "t", "Pre", "Replace", body).await;
    let replace = |id: &str| {
        let call = s.call("PUT", &format!("{C}/docs/{id}"));
        let call = call.header("x-ms-documentdb-pre-trigger-include", "t");
        call.header("x-ms-documentdb-partitionkey", r#"["k"]"#)
            .body(r#"{"id":"2","pk":"k","n":2,"_self":"forged"}"#)
            .send()
    };
    let replaced = replace("1").await.expect(200).json();
    assert_eq!((&replaced["was"], &replaced["n"]), (&json!(1), &json!(2)));
    assert_eq!((&replaced["self"], &replaced["etag"]), (&item["_self"], &item["_etag"]));
    assert_ne!(replaced["_etag"], item["_etag"]);
    replace("1").await.expect(400);
}

#[tokio::test]
async fn index_actions_have_names() {
    let s = service().await;
    let body = "function (action) {
        const c = getContext().getCollection();
        c.createDocument(c.getSelfLink(), { pk: 'k' }, { indexAction: action }, error => {
            if (error) throw new Error('not created: ' + error.message);
        });
    }";
    define(&s, "sprocs", "p", body).await;
    for good in [r#"["exclude"]"#, r#"["Include"]"#, r#"["default"]"#, "[null]", "[]"] {
        call(&s, "p", good).await.expect(200);
    }
    for bad in [r#"["Invalid Value"]"#, "[1]", r#"[""]"#] {
        let refused = call(&s, "p", bad).await.expect(400);
        assert!(refused.message().contains("indexAction"), "{}", refused.message());
    }
}

#[tokio::test]
async fn a_script_that_takes_too_much_again_and_again_is_blocked() {
    let (time, millis) = (Duration::from_millis(400), 200);
    let busy = format!("const end = Date.now() + {millis}; while (Date.now() < end) {{}}");
    let s = hurried(time).await;
    define(&s, "sprocs", "slow", &format!("function (go) {{ if (go) {{ {busy} }} }}")).await;
    define(&s, "sprocs", "other", "function () {}").await;
    for _ in 0..5 {
        call(&s, "slow", "[true]").await.expect(200);
    }
    // A run that is short enough starts the count anew.
    call(&s, "slow", "[false]").await.expect(200);
    for _ in 0..6 {
        call(&s, "slow", "[true]").await.expect(200);
    }
    let blocked = call(&s, "slow", "[false]").await.expect(403);
    let text = "is blocked for execution because it has violated its allowed resource limit \
                several times.";
    assert!(blocked.message().contains(text), "{}", blocked.message());
    call(&s, "other", "[]").await.expect(200);
    // A changed script is another one.
    let changed = json!({"id": "slow", "body": "function () {}"}).to_string();
    s.call("PUT", &format!("{C}/sprocs/slow")).body(changed).send().await.expect(200);
    call(&s, "slow", "[]").await.expect(200);

    create(&s, r#"{"id":"1","pk":"k"}"#).await.expect(201);
    define(&s, "udfs", "f", &format!("function () {{ {busy} return 1; }}")).await;
    for _ in 0..6 {
        query(&s, "SELECT VALUE udf.f() FROM c").await.expect(200);
    }
    let blocked = query(&s, "SELECT VALUE udf.f() FROM c").await.expect(403);
    let text = "it has violated its allowed resources limit several times.";
    assert!(blocked.message().contains(text), "{}", blocked.message());
}

#[tokio::test]
async fn the_old_bulk_executor_inserts_into_a_range() {
    let s = service().await;
    let insert = |id: &str, range: &str, body: &Value| {
        let call = s.call("POST", &format!("{C}/sprocs/{id}"));
        call.header("x-ms-documentdb-partitionkeyrangeid", range).body(body.to_string()).send()
    };
    let name = "__.sys.commonBulkInsert";
    let items = json!([{"id": "1", "pk": "a"}, {"id": "2", "pk": "b"}, r#"{"id":"3","pk":"c"}"#]);
    let options = json!({"softStopOnConflict": true});
    let done = insert(name, "0", &json!([items, options])).await.expect(200);
    assert_eq!(done.json(), json!({"count": 3, "errorCode": 0}));
    assert_eq!(s.get(&format!("{C}/docs")).await.json()["_count"], 3);
    let again = json!([{"id": "4", "pk": "d"}, {"id": "1", "pk": "a"}, {"id": "5", "pk": "a"}]);
    let stopped = insert(name, "0", &json!([again, options])).await.expect(200);
    assert_eq!(stopped.json(), json!({"count": 1, "errorCode": 409}));
    insert(name, "0", &json!([again])).await.expect(409);
    let upsert = insert(name, "0", &json!([again, {"enableUpsert": true}])).await.expect(200);
    assert_eq!(upsert.json(), json!({"count": 3, "errorCode": 0}));
    insert(name, "7", &json!([items])).await.expect(410);
    for bad in
        [json!([]), json!({}), json!([1]), json!([[1]]), json!([[{"pk": "a"}]]), json!([[], {}, 1])]
    {
        insert(name, "0", &bad).await.expect(400);
    }
    insert("__.sys.other", "0", &json!([items])).await.expect(404);
}
