//! Commands that talk to a running server.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::http::Request;
use testkit::server::TestServer;

use crate::support::{ask_admin, binary, builder, connect, fill, in_memory, run, stderr_of, write};

/// Runs a command against a server.
pub(crate) fn on(server: &TestServer, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}/", server.ready().admin.unwrap());
    let output = Command::new(binary())
        .args(arguments)
        .args(["--endpoint", &endpoint])
        .env_remove("LC_ALL")
        .env_remove("LC_CTYPE")
        .env("LANG", "C")
        .output();
    output.unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr_of(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_str(&said(output)).unwrap()
}

#[test]
fn partitions_are_shown_split_and_merged() {
    let server = in_memory(&[]);
    assert_eq!(said(&on(&server, &["partitions", "show"])), "There are no containers yet.\n");
    fill(&server);
    let shown = said(&on(&server, &["partitions", "show", "shop/orders", "--top", "100"]));
    for part in ["shop/orders", "partition key /pk", "skew 1.0, even", "Largest keys", "\"k7\""] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains('\x1b'), "colours are for terminals: {shown:?}");
    assert!(said(&on(&server, &["partitions", "show"])).contains("shop/orders"));

    let split = said(&on(&server, &["partitions", "split", "shop/orders", "0"]));
    assert!(split.starts_with("Split partition 0 into 1 and 2 in "), "{split}");
    assert!(split.contains("writers were blocked"), "{split}");
    let shown = json_of(&on(&server, &["partitions", "show", "shop/orders", "--json"]));
    assert_eq!(shown["container"]["partitions"], 2);
    let merge = on(&server, &["partitions", "merge", "shop/orders", "1", "2", "--json"]);
    let merge = json_of(&merge);
    assert_eq!((&merge["phase"], &merge["children"]), (&json!("succeeded"), &json!(["3"])));
    let jobs = said(&on(&server, &["partitions", "jobs"]));
    assert!(
        jobs.contains("0 -> 1+2") && jobs.contains("1+2 -> 3") && jobs.contains("done"),
        "{jobs}"
    );
}

#[test]
fn a_job_is_driven_by_hand() {
    let server = in_memory(&[]);
    fill(&server);
    assert!(said(&on(&server, &["partitions", "jobs"])).contains("No partition has been"));
    let begun = said(&on(&server, &["partitions", "split", "shop/orders", "0", "--manual"]));
    assert!(begun.contains("jobs 1 advance"), "{begun}");
    let step = |step: &str| said(&on(&server, &["partitions", "jobs", "1", step]));
    assert!(step("advance").contains("swapping (manual)"));
    assert!(step("advance").contains("done"));
    let over = on(&server, &["partitions", "jobs", "1", "cancel"]);
    assert_eq!(over.status.code(), Some(1));
    assert!(stderr_of(&over).contains("has finished"), "{}", stderr_of(&over));
}

#[test]
fn partitions_are_watched_while_they_change() {
    let server = in_memory(&[]);
    fill(&server);
    let once = said(&on(&server, &["partitions", "watch", "shop/orders", "--count", "1"]));
    assert!(once.contains("shop/orders") && once.contains("online"), "{once}");
    on(&server, &["partitions", "split", "shop/orders", "0", "--manual"]);
    let once = said(&on(&server, &["partitions", "watch", "shop/orders", "--count", "1"]));
    assert!(once.contains("splitting") && once.contains("copying (manual)"), "{once}");
    let frames =
        said(&on(&server, &["partitions", "watch", "shop/orders", "--count", "2", "--json"]));
    let frames: Vec<Value> =
        frames.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1]["jobs"][0]["kind"], "split");
}

#[cfg(unix)]
#[test]
fn watching_ends_when_nobody_reads_any_more() {
    let server = in_memory(&[]);
    fill(&server);
    let endpoint = format!("http://{}/", server.ready().admin.unwrap());
    let mut watching = Command::new(binary())
        .args(["partitions", "watch", "shop/orders", "--endpoint", &endpoint])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    assert!(watching.wait().unwrap().success());
}

#[test]
fn a_named_directory_without_a_server_is_not_taken_for_another() {
    let elsewhere = tempfile::tempdir().unwrap();
    let data = elsewhere.path().to_str().unwrap();
    let output = run(&["partitions", "show", "--data", data]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr_of(&output);
    assert!(said.contains("no server") && said.contains(data), "{said}");
}

#[test]
fn watching_ends_cleanly_when_it_is_interrupted() {
    let server = in_memory(&[]);
    fill(&server);
    let endpoint = format!("http://{}/", server.ready().admin.unwrap());
    let mut watch = Command::new(binary())
        .args(["partitions", "watch", "shop/orders", "--endpoint", &endpoint])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "shop/orders");
    let pid = rustix::process::Pid::from_raw(i32::try_from(watch.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(watch.wait().unwrap().success());
    lines.for_each(drop);
}

#[test]
fn throughput_is_shown_and_set() {
    let server = in_memory(&[]);
    fill(&server);
    let set = on(&server, &["throughput", "set", "shop/orders", "autoscale", "4000"]);
    let told = said(&set);
    assert!(told.contains("autoscale to 4,000 RU/s, now 400"), "{told}");
    assert!(told.contains("allowed: 1,000 to"), "{told}");
    let set =
        json_of(&on(&server, &["throughput", "set", "shop/orders", "manual", "700", "--json"]));
    assert_eq!((&set["mode"], &set["ru"]), (&json!("manual"), &json!(700)));
    assert!(said(&on(&server, &["throughput", "show", "shop/orders"])).contains("700 RU/s"));
    assert!(said(&on(&server, &["throughput", "show", "shop"])).contains("no provisioned"));
    let refused = on(&server, &["throughput", "set", "shop/orders", "manual", "150"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("minimum 400"), "{}", stderr_of(&refused));
}

#[test]
fn the_local_server_and_its_key_are_found_by_the_data_directory() {
    let server = builder().args(["--bind", "0.0.0.0"]).start().unwrap();
    fill(&server);
    let data = server.data_dir();
    let found = run(&["partitions", "show", "--data", data.to_str().unwrap()]);
    assert!(said(&found).contains("shop/orders"));
    // Without the data directory the key is not known.
    let refused = on(&server, &["partitions", "show", "--data", "/does/not/exist"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("--key-file"), "{}", stderr_of(&refused));
    let with_key = on(&server, &["partitions", "show", "--key", server.key()]);
    assert!(said(&with_key).contains("shop/orders"));
}

#[test]
fn the_nosql_port_and_https_will_do_too() {
    let server = builder().start().unwrap();
    fill(&server);
    let nosql = run(&["partitions", "show", "--endpoint", server.endpoint()]);
    assert!(said(&nosql).contains("shop/orders"));
    let https = server.endpoint().replace("http:", "https:");
    let untrusted = run(&["partitions", "show", "--endpoint", &https]);
    assert!(stderr_of(&untrusted).contains("--ca"), "{}", stderr_of(&untrusted));
    let data = server.data_dir();
    let exported = run(&[
        "cert",
        "--data",
        data.to_str().unwrap(),
        "--out",
        data.join("x.pem").to_str().unwrap(),
    ]);
    assert!(exported.status.success());
    let trusted = run(&[
        "partitions",
        "show",
        "--endpoint",
        &https,
        "--ca",
        data.join("x.pem").to_str().unwrap(),
    ]);
    assert!(said(&trusted).contains("shop/orders"));
}

#[test]
fn mistakes_are_explained() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = run(&["partitions", "show", "--endpoint", &format!("localhost:{port}")]);
    assert_eq!(nobody.status.code(), Some(1));
    let explained = stderr_of(&nobody);
    assert!(
        explained.contains("no server answers") && explained.contains("--endpoint"),
        "{explained}"
    );

    let server = in_memory(&[]);
    fill(&server);
    for (arguments, part) in [
        (vec!["partitions", "show", "shop/nothing"], "Available: orders"),
        (vec!["partitions", "show", "shop/odrers"], "Did you mean 'orders'?"),
        (vec!["partitions", "show", "shpo/orders"], "Did you mean 'shop'?"),
        (vec!["partitions", "show", "nothing/orders"], "Available: shop"),
        (vec!["partitions", "split", "shop/orders", "7"], "Available: 0"),
        (vec!["partitions", "split", "shop/orders", "0", "--at", "here"], "'at' must be"),
        (
            vec!["partitions", "merge", "shop/orders", "0", "1"],
            "Partition 1 does not exist in shop/orders",
        ),
        (vec!["partitions", "merge", "shop/orders", "0", "1"], "Available: 0"),
        (vec!["partitions", "jobs", "9"], "Job 9 does not exist"),
        (vec!["throughput", "show", "nothing"], "no database"),
        (vec!["throughput", "set", "shop", "manual", "400"], "without throughput"),
    ] {
        let output = on(&server, &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr_of(&output).contains(part), "{arguments:?}: {}", stderr_of(&output));
        assert!(output.stdout.is_empty());
    }
    for arguments in [
        vec!["partitions"],
        vec!["partitions", "show", "orders"],
        vec!["partitions", "merge", "shop/orders", "0"],
        vec!["partitions", "jobs", "1", "jump"],
        vec!["throughput", "set", "shop/orders", "fixed", "400"],
        vec!["throughput", "set", "shop/orders", "manual", "-400"],
    ] {
        assert_eq!(on(&server, &arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_help_teaches_with_examples() {
    for arguments in [
        vec!["partitions", "--help"],
        vec!["partitions", "show", "--help"],
        vec!["partitions", "split", "--help"],
        vec!["partitions", "merge", "--help"],
        vec!["partitions", "watch", "--help"],
        vec!["partitions", "jobs", "--help"],
        vec!["throughput", "--help"],
    ] {
        let help = said(&run(&arguments));
        assert!(help.contains("Example"), "{arguments:?}: {help}");
        assert!(help.contains(&format!("planisphere {}", arguments[0])), "{help}");
    }
}

#[test]
fn a_container_is_queried_over_its_partitions() {
    let server = in_memory(&[]);
    fill(&server);
    said(&on(&server, &["partitions", "split", "shop/orders", "0"]));
    let query = |arguments: &[&str]| on(&server, &[&["query", "shop/orders"], arguments].concat());
    let all = query(&["SELECT VALUE c.pk FROM c ORDER BY c.pk", "--page", "3"]);
    let rows: Vec<String> =
        said(&all).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 3 && rows.is_sorted(), "{rows:?}");
    assert!(stderr_of(&all).contains(" rows, ") && stderr_of(&all).contains(" RU"));
    let some = query(&["SELECT VALUE c.pk FROM c ORDER BY c.pk", "--max", "2"]);
    assert_eq!(said(&some).lines().count(), 2);
    assert!(stderr_of(&some).contains("2 rows") && stderr_of(&some).contains("--max 0"));
    let count = said(&query(&["SELECT VALUE COUNT(1) FROM c WHERE c.pk = @k", "-p", "k=\"k7\""]));
    assert_eq!(count, said(&query(&["SELECT VALUE COUNT(1) FROM c", "-k", "\"k7\""])));
    let wrong = query(&["SELECT"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr_of(&wrong).contains("Syntax error"), "{}", stderr_of(&wrong));
    for command in ["query", "explain"] {
        let wrong = on(&server, &[command, "shop/orders", "SELECT * FORM c"]);
        assert_eq!(wrong.status.code(), Some(1));
        assert_eq!(
            stderr_of(&wrong),
            "planisphere: Syntax error, incorrect syntax near 'FORM'. (SC1001)\n  \
             SELECT * FORM c\n           ^^^^\n"
        );
    }
    let wrong = query(&["SELECT c.id\nFROM c\nWHERE d.n = 1"]);
    assert_eq!(
        stderr_of(&wrong),
        "planisphere: Identifier 'd' could not be resolved. (SC2001)\nline 3:\n  \
         WHERE d.n = 1\n        ^\n"
    );
    // Mistakes without a position are reported as text, too.
    let wrong = stderr_of(&query(&["SELECT * FROM c ORDER BY LOWER(c.pk)"]));
    assert!(wrong.starts_with("planisphere: Unsupported ORDER BY clause."), "{wrong}");
    assert!(!wrong.contains('{'), "{wrong}");
    let wrong = query(&["SELECT 1", "-p", "k=text"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr_of(&wrong).contains("is not JSON"), "{}", stderr_of(&wrong));
}

/// A server with container `shop/large` of `items` items of 250 KB, created with `throughput` and
/// set to 400 RU/s afterwards.
fn with_large_items(items: u32, throughput: &str) -> TestServer {
    let server = in_memory(&["--throttling", "on"]);
    let mut stream = connect(&server);
    let database = write(&server, "/dbs", "dbs", "", &json!({"id": "shop"}));
    assert_eq!(database.send(&mut stream).unwrap().status, 201);
    let container = json!({"id": "large", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}});
    let container = write(&server, "/dbs/shop/colls", "colls", "dbs/shop", &container)
        .header("x-ms-offer-throughput", throughput);
    assert_eq!(container.send(&mut stream).unwrap().status, 201);
    for n in 0..items {
        let item = json!({"id": n.to_string(), "pk": n.to_string(), "text": "x".repeat(250_000)});
        let link = "dbs/shop/colls/large";
        let create = write(&server, "/dbs/shop/colls/large/docs", "docs", link, &item)
            .header("x-ms-documentdb-partitionkey", &format!("[\"{n}\"]"));
        assert_eq!(create.send(&mut stream).unwrap().status, 201);
    }
    said(&on(&server, &["throughput", "set", "shop/large", "manual", "400"]));
    server
}

#[test]
fn a_query_waits_for_request_units_and_returns_every_row() {
    let server = with_large_items(40, "10000");
    // Each page reads all items, which costs more than two seconds' throughput, so that the second
    // page is refused until the debt is paid back.
    let text = "SELECT DISTINCT VALUE c.pk FROM c";
    let all = on(&server, &["query", "shop/large", text, "--max", "0", "--page", "20"]);
    assert_eq!(said(&all).lines().count(), 40, "{}", stderr_of(&all));
    assert!(stderr_of(&all).contains("40 rows"), "{}", stderr_of(&all));
    // Programs get the structured error.
    let ask = Request::new("POST", "/_admin/v1/containers/shop/large/query");
    let refused = ask_admin(&server, &ask.body(json!({"query": text}).to_string()));
    assert_eq!(refused.status, 429);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("request units") && !message.contains("changes"), "{message}");
}

#[test]
fn a_query_whose_pages_cost_more_than_there_is_comes_to_its_end() {
    let server = with_large_items(24, "12000");
    for text in ["SELECT VALUE c.pk FROM c", "SELECT VALUE c.pk FROM c ORDER BY c.text"] {
        let all = on(&server, &["query", "shop/large", text, "--max", "0"]);
        assert_eq!(said(&all).lines().count(), 24, "{}", stderr_of(&all));
    }
    let text = "SELECT VALUE c.pk FROM c WHERE LENGTH(c.text) > 1";
    let told = said(&on(&server, &["explain", "shop/large", text, "--analyze"]));
    assert!(told.contains("Returned 24 rows"), "{told}");
}

#[test]
fn a_query_is_explained() {
    let server = in_memory(&[]);
    fill(&server);
    said(&on(&server, &["partitions", "split", "shop/orders", "0"]));
    let text = "SELECT c.pk, COUNT(1) AS n FROM c WHERE c.pk >= 'k2' GROUP BY c.pk";
    let explained = said(&on(&server, &["explain", "shop/orders", text]));
    for part in
        ["(ROOT.pk >= \"k2\")", "answered by index: /pk/? 1 range", "merged by key", "groupByItems"]
    {
        assert!(explained.contains(part), "{part} is not in {explained}");
    }
    let analyzed = said(&on(&server, &["explain", "shop/orders", text, "--analyze"]));
    assert!(analyzed.contains("SCANNED") && analyzed.contains("Returned "), "{analyzed}");
    let json = json_of(&on(&server, &["explain", "shop/orders", text, "--json"]));
    assert_eq!(json["partitions"].as_array().unwrap().len(), 2);
    assert_eq!(json["partitions"][0].get("partitionKey"), None);
    // With a filter or a command line that names one partition key, only that key is read.
    let all = "SELECT * FROM c WHERE IS_DEFINED(c.id)";
    let pinned = ["explain", "shop/orders", all, "-k", "\"k7\""];
    let filtered = ["explain", "shop/orders", "SELECT * FROM c WHERE c.pk = 'k7' AND c.x = c.y"];
    for arguments in [&pinned[..], &filtered[..]] {
        let explained = said(&on(&server, arguments));
        assert!(explained.contains("logical partition [\"k7\"]"), "{explained}");
        let json = json_of(&on(&server, &[arguments, &["--json", "--analyze"]].concat()));
        assert_eq!(json["partitions"].as_array().unwrap().len(), 1, "{json}");
        assert_eq!(json["partitions"][0]["partitionKey"], json!(["k7"]), "{json}");
    }
    let explained = said(&on(&server, &pinned));
    assert!(explained.contains("all items of the logical partition [\"k7\"]"), "{explained}");
}
