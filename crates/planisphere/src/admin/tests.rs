use std::pin::Pin;
use std::task::Poll;

use account::{Key, KeyRing};
use api_nosql::{Account, Consistency};
use engine::ops::{ItemBody, ItemOp};
use engine::{Components, Container, Settings};
use http_body_util::BodyExt;
use model::{PartitionKey, PartitionKeyComponent};
use serde_json::{Value, json};
use storage::MemoryStore;
use testkit::harness::test_context;

use super::*;
use crate::connections::{ConnectionLimits, Connections};
use crate::health::Health;
use crate::listen::named;
use crate::metrics::Requests;

const PARTITIONS: &str = "/_admin/v1/containers/db/c/partitions";

struct Fixture {
    admin: Arc<Admin>,
    engine: Engine,
    container: Arc<Container>,
}

/// An admin API over a container `db/c` with `ranges` ranges and items of 20 keys.
async fn fixture(ranges: u32) -> Fixture {
    let components = Components::system(tokio::runtime::Handle::current());
    let settings = Settings { default_ranges: ranges, ..Settings::default() };
    let engine = Engine::open(Arc::new(MemoryStore::new()), components, settings).unwrap();
    let database = engine.create_database(&test_context(), "db", None).await.unwrap();
    let spec = testkit::harness::spec("c");
    let container =
        engine.create_container(&test_context(), database.rid, spec, None).await.unwrap();
    for key in 0..20 {
        let text = format!(r#"{{"id":"1","pk":"k{key}","fill":"{}"}}"#, "x".repeat(10 * key));
        let body = ItemBody::from_json(text.into()).unwrap();
        let mut ctx = test_context();
        let key = PartitionKeyComponent::String(format!("k{key}"));
        let key = Some(PartitionKey([key].into_iter().collect()));
        engine.write_item(&mut ctx, &container, key, ItemOp::Create { body }).await.unwrap();
    }
    let account = Account {
        name: "test".to_owned(),
        keys: KeyRing::single(Key::well_known()),
        public_endpoint: None,
        region: "Local".to_owned(),
        consistency: Consistency::Session,
        local_auth: true,
        direct: api_nosql::Direct::default(),
    };
    let requests = Arc::new(Requests::default());
    let observer: Arc<dyn account::Observer<api_nosql::Observation>> =
        Arc::<Requests>::clone(&requests);
    let limits = front_http::RequestLimits::default();
    let faults = Arc::new(Faults::default());
    let hooks = api_nosql::Hooks {
        observer: Some(observer),
        faults: Some(Arc::<Faults>::clone(&faults)),
        ..api_nosql::Hooks::default()
    };
    let service = Service::with_limits(engine.clone(), account, limits, Default::default(), hooks);
    let apis = (
        Arc::clone(&service),
        crate::gateway::tests::tables(&engine),
        crate::gateway::tests::mongo(&engine),
    );
    let keys = KeyStore::new(apis, KeyRing::single(Key::well_known()), None);
    let long = Duration::from_secs(3600);
    let limits = ConnectionLimits { open_max: 1, head: long, body: long };
    let health = Arc::new(Health::new(engine.clone()));
    let metrics = Metrics::new(&engine, requests, Connections::new(limits), health);
    let timeout = Duration::from_secs(60);
    let admin = Admin::new(engine.clone(), service, keys, metrics, Some(faults), timeout, true);
    Fixture { admin, engine, container }
}

impl Fixture {
    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        let peer = Peer {
            listener: named("admin").unwrap(),
            is_local: true,
            address: [127, 0, 0, 1].into(),
        };
        let response = self.admin.answer(request, peer).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "").await;
        assert_eq!(status, 200, "{body}");
        body
    }

    async fn finished(&self, job: &Value) -> Value {
        let id = u32::try_from(job["id"].as_u64().unwrap()).unwrap();
        self.engine.finish_job(engine::repartition::JobId(id)).await.unwrap();
        self.get(&format!("/_admin/v1/jobs/{id}")).await
    }
}

#[tokio::test]
async fn a_container_is_shown_with_its_partitions() {
    let fixture = fixture(2).await;
    let list = fixture.get("/_admin/v1/containers").await;
    let summary = &list["containers"][0];
    assert_eq!((&summary["database"], &summary["id"]), (&json!("db"), &json!("c")));
    assert_eq!((&summary["partitions"], &summary["items"]), (&json!(2), &json!(20)));
    assert_eq!(summary["partitionKey"], json!(["/pk"]));

    let shown = fixture.get(PARTITIONS).await;
    assert_eq!(&shown["container"], summary);
    let partitions = shown["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 2);
    assert_eq!((&partitions[0]["epkMin"], &partitions[1]["epkMax"]), (&json!(""), &json!("FF")));
    assert_eq!(partitions[0]["epkMax"], partitions[1]["epkMin"]);
    let sum = |field: &str| partitions.iter().map(|p| p[field].as_f64().unwrap()).sum::<f64>();
    assert_eq!(sum("items"), 20.0);
    assert!((sum("share") - 1.0).abs() < 1e-9 && (sum("skew") - 2.0).abs() < 1e-9);
    let largest = partitions.iter().map(|p| p["skew"].as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(summary["skew"].as_f64().unwrap(), largest);
    for partition in partitions {
        let keys = partition["largestKeys"]["keys"].as_array().unwrap();
        assert_eq!(keys.len(), 5);
        let bytes: Vec<_> = keys.iter().map(|key| key["bytes"].as_u64().unwrap()).collect();
        assert!(bytes.is_sorted_by(|a, b| a >= b), "{bytes:?}");
        assert_eq!(partition["largestKeys"]["counted"], partition["items"]);
        assert_eq!(partition["status"], "online");
        assert!(partition["ru"]["consumed"].as_f64().unwrap() > 0.0);
        assert_eq!(partition["busiestKeys"].as_array().unwrap().len(), 5);
    }
    let all = partitions.iter().flat_map(|p| p["largestKeys"]["keys"].as_array().unwrap());
    assert!(all.into_iter().any(|key| key["key"] == json!(["k19"])));
}

#[tokio::test]
async fn the_request_says_how_many_keys_are_shown() {
    let fixture = fixture(1).await;
    let shown = fixture.get(&format!("{PARTITIONS}?top=0")).await;
    assert_eq!(shown["partitions"][0].get("largestKeys"), None);
    assert_eq!(shown["partitions"][0]["busiestKeys"], json!([]));
    let shown = fixture.get(&format!("{PARTITIONS}?top=7")).await;
    assert_eq!(shown["partitions"][0]["largestKeys"]["keys"].as_array().unwrap().len(), 7);
    for wrong in ["101", "-1", "x", ""] {
        let (status, body) = fixture.ask("GET", &format!("{PARTITIONS}?top={wrong}"), "").await;
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test]
async fn keys_of_all_partitions_are_looked_at_however_many_the_first_has() {
    let mut fixture = fixture(4).await;
    let counted_max = |fixture: &mut Fixture, max| {
        Arc::get_mut(&mut fixture.admin).unwrap().key_scans.counted_max = max;
    };
    let counts = |shown: &Value| -> Vec<(u64, u64, bool)> {
        let partitions = shown["partitions"].as_array().unwrap().iter();
        let counts = partitions.map(|partition| {
            let largest = &partition["largestKeys"];
            let complete = largest["complete"].as_bool().unwrap();
            assert_eq!(largest["keys"].as_array().unwrap().is_empty(), largest["counted"] == 0);
            (partition["items"].as_u64().unwrap(), largest["counted"].as_u64().unwrap(), complete)
        });
        counts.collect()
    };
    // Reading as many counters as there are keys is enough, wherever the keys are.
    counted_max(&mut fixture, 20);
    for (items, counted, complete) in counts(&fixture.get(PARTITIONS).await) {
        assert!(items > 0 && counted == items && complete);
    }
    counted_max(&mut fixture, 8);
    let some = counts(&fixture.get(PARTITIONS).await);
    assert_eq!(some.iter().map(|(_, counted, _)| counted).sum::<u64>(), 8);
    for (items, counted, complete) in some {
        assert!(counted >= items.min(2), "{counted} of {items}");
        assert_eq!(complete, counted == items);
    }
    // The reply reports that not all counters were read.
    counted_max(&mut fixture, 0);
    for (_, counted, complete) in counts(&fixture.get(PARTITIONS).await) {
        assert!(counted == 0 && !complete);
    }
}

/// Polls a request once; true if it has no answer yet.
async fn waits<F: Future + Unpin>(asking: &mut F) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *asking).poll(cx).is_pending())).await
}

/// Lets other tasks run until `is_so`; gives up after many rounds.
async fn becomes(is_so: impl Fn() -> bool) -> bool {
    for _ in 0..1000 {
        if is_so() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test]
async fn what_only_looks_ends_with_its_caller() {
    let fixture = fixture(1).await;
    let at_rest = Arc::strong_count(&fixture.admin);
    // The test holds the permit, so every request that needs a scan waits.
    let _turn = fixture.admin.key_scans.acquire().await.unwrap();
    let split = format!("{PARTITIONS}/0/split");
    let operation = "/databases/db/containers/c/partitions/0/split";
    for (method, path) in [("GET", PARTITIONS), ("POST", &split), ("POST", operation)] {
        let mut asking = Box::pin(fixture.ask(method, path, ""));
        assert!(waits(&mut asking).await, "{method} {path} waits for its turn");
        assert!(becomes(|| Arc::strong_count(&fixture.admin) > at_rest).await);
        drop(asking);
        assert!(becomes(|| Arc::strong_count(&fixture.admin) == at_rest).await, "{method} {path}");
    }
    assert_eq!(fixture.get("/_admin/v1/jobs").await["jobs"], json!([]));
    // A given split point needs no search.
    let (status, _) = fixture.ask("POST", &split, r#"{"at":"midpoint"}"#).await;
    assert_eq!(status, 202);
}

#[tokio::test]
async fn what_changes_something_goes_on_without_its_caller() {
    let fixture = fixture(2).await;
    let merge = format!("{PARTITIONS}/merge");
    let mut asking = Box::pin(fixture.ask("POST", &merge, r#"{"ids":[0,1],"manual":true}"#));
    assert!(waits(&mut asking).await);
    drop(asking);
    let begun = async {
        while fixture.engine.jobs().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), begun).await.unwrap();
}

#[tokio::test]
async fn a_partition_is_split_and_merged_again() {
    let fixture = fixture(1).await;
    let (status, job) = fixture.ask("POST", &format!("{PARTITIONS}/0/split"), "").await;
    assert_eq!((status, &job["kind"], &job["reason"]), (202, &json!("split"), &json!("asked")));
    let job = fixture.finished(&job).await;
    assert_eq!((&job["phase"], &job["children"]), (&json!("succeeded"), &json!(["1", "2"])));
    assert!(job["tookMs"].is_number() && job["heldMs"].is_number());
    assert_eq!((&job["progress"], &job["container"]), (&json!(1.0), &json!("c")));

    let (status, job) =
        fixture.ask("POST", &format!("{PARTITIONS}/merge"), r#"{"ids":["1",2]}"#).await;
    assert_eq!((status, &job["kind"]), (202, &json!("merge")));
    let job = fixture.finished(&job).await;
    assert_eq!((&job["phase"], &job["children"]), (&json!("succeeded"), &json!(["3"])));
    let shown = fixture.get(PARTITIONS).await;
    assert_eq!(shown["partitions"][0]["parents"], json!(["0", "1", "2"]));
    let jobs = fixture.get("/_admin/v1/jobs").await;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
    // Finished jobs are no longer listed with the container.
    assert_eq!(shown["jobs"], json!([]));
}

#[tokio::test]
async fn a_job_is_driven_by_hand() {
    let fixture = fixture(1).await;
    let params = r#"{"at":"midpoint","manual":true}"#;
    let (_, job) = fixture.ask("POST", &format!("{PARTITIONS}/0/split"), params).await;
    assert_eq!(job["manual"], true);
    let path = |step: &str| format!("/_admin/v1/jobs/{}/{step}", job["id"]);
    let (status, swapping) = fixture.ask("POST", &path("advance"), "").await;
    assert_eq!((status, &swapping["phase"]), (200, &json!("swapping")));
    let shown = fixture.get(PARTITIONS).await;
    assert_eq!(shown["partitions"][0]["status"], "swapping");
    assert_eq!((&shown["partitions"][0]["job"], &shown["jobs"][0]["id"]), (&job["id"], &job["id"]));
    let (status, done) = fixture.ask("POST", &path("advance"), "").await;
    assert_eq!((status, &done["phase"]), (200, &json!("succeeded")));
    let (status, _) = fixture.ask("POST", &path("advance"), "").await;
    assert_eq!(status, 409);
    assert_eq!(fixture.container.routing().ranges().len(), 2);
}

#[tokio::test]
async fn a_job_is_paused_resumed_and_cancelled() {
    let fixture = fixture(1).await;
    let params = r#"{"manual":true}"#;
    let (_, job) = fixture.ask("POST", &format!("{PARTITIONS}/0/split"), params).await;
    let path = |step: &str| format!("/_admin/v1/jobs/{}/{step}", job["id"]);
    assert_eq!(fixture.ask("POST", &path("pause"), "").await.1["paused"], true);
    assert_eq!(fixture.ask("POST", &path("resume"), "").await.1["paused"], false);
    // A partition has at most one job.
    let (status, again) = fixture.ask("POST", &format!("{PARTITIONS}/0/split"), "").await;
    assert_eq!(status, 409, "{again}");
    let (status, over) = fixture.ask("POST", &path("cancel"), "").await;
    assert_eq!((status, &over["phase"]), (200, &json!("cancelled")));
    assert_eq!(fixture.ask("POST", &path("cancel"), "").await.0, 409);
    assert_eq!(fixture.container.routing().ranges().len(), 1);
}

#[tokio::test]
async fn every_path_explains_what_is_wrong_with_a_request() {
    let fixture = fixture(1).await;
    let merge = format!("{PARTITIONS}/merge");
    let split = format!("{PARTITIONS}/0/split");
    let many = json!({"ids": (0..101).collect::<Vec<_>>()}).to_string();
    let cases = [
        ("GET", "/_admin/v2", "", 404, "nothing at this path"),
        ("GET", "/_admin/v1/containers/no/c/partitions", "", 404, "no database 'no'"),
        ("GET", "/_admin/v1/containers/db/no/partitions", "", 404, "no container 'no'"),
        ("PUT", "/_admin/v1/containers", "", 405, "GET"),
        ("DELETE", PARTITIONS, "", 405, "GET"),
        ("GET", &split, "", 405, "POST"),
        ("POST", &format!("{PARTITIONS}/7/split"), "", 404, "does not exist in db/c; it may"),
        ("POST", &format!("{PARTITIONS}/x/split"), "", 400, "number"),
        ("POST", "/_admin/v1/containers/db/no/partitions/0/split", "", 404, "no container"),
        ("POST", &split, "{", 400, "is invalid"),
        ("POST", &split, r#"{"where":"median"}"#, 400, "unknown field `where`"),
        ("POST", &split, r#"{"at":"middle"}"#, 400, "'at' must be"),
        ("POST", &split, r#"{"at":"FF"}"#, 400, "inside the range"),
        ("POST", &split, r#"{"manual":"yes"}"#, 400, "boolean"),
        ("GET", &merge, "", 405, "POST"),
        ("POST", &merge, "", 400, "`ids`"),
        ("POST", &merge, r#"{"ids":[0]}"#, 400, "two ranges"),
        ("POST", &merge, r#"{"ids":[0,9]}"#, 404, "does not exist in db/c; it may"),
        ("POST", &merge, r#"{"ids":["a","b"]}"#, 400, "number"),
        ("POST", &merge, r#"{"ids":[-1]}"#, 400, "is invalid"),
        ("POST", &merge, &many, 400, "at most 100"),
        ("POST", "/_admin/v1/jobs", "", 405, "GET"),
        ("GET", "/_admin/v1/jobs/9", "", 404, "Job 9 does not exist"),
        ("GET", "/_admin/v1/jobs/nine", "", 400, "number"),
        ("POST", "/_admin/v1/jobs/9/advance", "", 404, "Job 9 does not exist"),
        ("POST", "/_admin/v1/jobs/9/jump", "", 404, "nothing at this path"),
        ("GET", "/_admin/v1/jobs/9/pause", "", 405, "POST"),
    ];
    for (method, path, body, status, part) in cases {
        let (found, answer) = fixture.ask(method, path, body).await;
        assert_eq!(found, status, "{method} {path} {body}: {answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(part), "{method} {path} {body}: {message}");
    }
    let (status, _) = fixture.ask("POST", &split, &"x".repeat(65 << 10)).await;
    assert_eq!(status, 413);
}

#[tokio::test]
async fn an_unknown_path_lists_what_there_is() {
    let fixture = fixture(1).await;
    let (status, body) = fixture.ask("GET", "/_admin/v1/containers/db/c/items", "").await;
    assert_eq!(status, 404);
    let help = body["help"].as_array().unwrap();
    assert!(help.contains(&json!("GET /_admin/v1/containers")), "{help:?}");
    let index = fixture.get("/").await;
    assert_eq!(index["paths"].as_array().unwrap().len(), help.len());
    let (_, body) = fixture.ask("GET", "/_admin/v1/containers/no/c/partitions", "").await;
    assert_eq!(body["help"], json!(["db"]));
}

#[tokio::test]
async fn the_management_api_says_what_there_is_and_what_was_counted() {
    let fixture = fixture(1).await;
    let capabilities = fixture.get("/capabilities").await;
    assert_eq!(
        (&capabilities["apiVersion"], &capabilities["protocols"]["gatewayV2"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(capabilities["managementActions"], json!(["partitionSplit", "partitionMerge"]));
    let health = fixture.get("/health").await;
    assert_eq!(
        (&health["gateway20Enabled"], &health["binaryPayloadRequests"]),
        (&json!(false), &json!(0))
    );
    let request = hyper::Request::builder()
        .uri("/dbs")
        .header("x-ms-consistency-level", "Eventual")
        .body(Full::new(Bytes::new()))
        .unwrap();
    // Refused for its missing signature before any other check.
    fixture.admin.service.serve(request, account::Scheme::Http).await;
    let after = fixture.get("/health").await;
    assert_eq!(after["defaultConsistencyRequests"], json!(1));
}

#[tokio::test]
async fn an_operation_runs_by_itself_or_step_by_step() {
    let fixture = fixture(4).await;
    let partitions = "/databases/db/containers/c/partitions";
    let merge = json!({"partitionIds": [0, 1], "progressionMode": "manual"}).to_string();
    let (status, begun) = fixture.ask("POST", &format!("{partitions}/merge"), &merge).await;
    assert_eq!((status, &begun["phase"]), (202, &json!("Preparing")), "{begun}");
    let operation = format!("/operations/{}", begun["operationId"].as_str().unwrap());
    let advance = format!("{operation}/advance");
    assert_eq!(fixture.ask("POST", &advance, "").await.1["phase"], "Swapping");
    // The reply shows the last step before it is taken.
    assert_eq!(fixture.ask("POST", &advance, "").await.1["phase"], "Swapping");
    let id = begun["operationId"].as_str().unwrap().parse().unwrap();
    fixture.engine.finish_job(engine::repartition::JobId(id)).await.unwrap();
    let done = fixture.get(&operation).await;
    let expected = json!({
        "operationId": begun["operationId"], "phase": "Succeeded", "children": [],
        "merged": [0, 1], "into": 4, "error": null,
    });
    assert_eq!(done, expected);

    let split = json!({"mode": "midpoint"}).to_string();
    let (_, begun) = fixture.ask("POST", &format!("{partitions}/4/split"), &split).await;
    let id = begun["operationId"].as_str().unwrap().parse().unwrap();
    fixture.engine.finish_job(engine::repartition::JobId(id)).await.unwrap();
    let done = fixture.get(&format!("/operations/{id}")).await;
    assert_eq!((&done["phase"], &done["children"]), (&json!("Succeeded"), &json!([5, 6])));
    assert_eq!(fixture.ask("POST", &format!("/operations/{id}/advance"), "").await.0, 409);
}

#[tokio::test]
async fn an_operation_is_cancelled() {
    let fixture = fixture(1).await;
    let split = "/databases/db/containers/c/partitions/0/split";
    let manual = json!({"progressionMode": "manual"}).to_string();
    let (_, begun) = fixture.ask("POST", split, &manual).await;
    let operation = format!("/operations/{}", begun["operationId"].as_str().unwrap());
    let (status, over) = fixture.ask("POST", &format!("{operation}/cancel"), "").await;
    assert_eq!((status, &over["phase"]), (200, &json!("Failed")));
    assert!(over["error"].as_str().unwrap().contains("cancelled"));
    assert_eq!(fixture.ask("POST", &format!("{operation}/cancel"), "").await.0, 409);
}

#[tokio::test]
async fn the_management_api_explains_what_is_wrong_too() {
    let fixture = fixture(1).await;
    let partitions = "/databases/db/containers/c/partitions";
    let split = format!("{partitions}/0/split");
    let merge = format!("{partitions}/merge");
    for (method, path, body, status) in [
        ("POST", "/capabilities", "", 405),
        ("PUT", "/health", "", 405),
        ("GET", &split, "", 405),
        ("POST", &split, r#"{"mode":"random"}"#, 400),
        ("POST", &split, r#"{"mod":"midpoint"}"#, 400),
        ("POST", &merge, r#"{"partitionIds":[0,1],"progresionMode":"manual"}"#, 400),
        ("POST", &split, r#"{"progressionMode":"now"}"#, 400),
        ("POST", &split, "[]", 400),
        ("POST", &merge, "{}", 400),
        ("POST", &merge, r#"{"partitionIds":[0,"x"]}"#, 400),
        ("POST", &merge, r#"{"partitionIds":[0,0]}"#, 400),
        ("POST", &format!("{partitions}/9/split"), "", 404),
        ("POST", "/databases/no/containers/c/partitions/0/split", "", 404),
        ("POST", "/databases/db/containers/no/partitions/merge", r#"{"partitionIds":[0,1]}"#, 404),
        ("GET", "/operations/7", "", 404),
        ("GET", "/operations/seven", "", 400),
        ("POST", "/operations/7/advance", "", 404),
        ("POST", "/operations/7/cancel", "", 404),
        ("POST", "/operations/7/undo", "", 404),
        ("GET", "/account", "", 404),
    ] {
        let (found, answer) = fixture.ask(method, path, body).await;
        assert_eq!(found, status, "{method} {path} {body}: {answer}");
        let message = answer["message"].as_str().unwrap();
        for misspelt in ["mod", "progresionMode"] {
            let is_there = body.contains(&format!("\"{misspelt}\""));
            assert_eq!(message.contains(&format!("unknown field `{misspelt}`")), is_there);
        }
    }
}

#[tokio::test]
async fn throughput_is_shown_and_changed() {
    let fixture = fixture(1).await;
    let database = fixture.engine.create_database(&test_context(), "own", None).await.unwrap();
    let manual = Some(engine::Throughput::Manual(400));
    let spec = testkit::harness::spec("c");
    fixture.engine.create_container(&test_context(), database.rid, spec, manual).await.unwrap();
    let path = "/_admin/v1/containers/own/c/throughput";
    let shown = fixture.get(path).await;
    let expected = json!({
        "database": "own", "container": "c", "mode": "manual", "ru": 400,
        "minimumRu": 400, "maximumRu": shown["maximumRu"], "stepRu": 100,
    });
    assert_eq!(shown, expected);
    let (status, shown) = fixture.ask("PUT", path, r#"{"manual":900}"#).await;
    assert_eq!((status, &shown["ru"]), (200, &json!(900)));
    let (status, shown) = fixture.ask("PUT", path, r#"{"autoscaleMax":4000}"#).await;
    assert_eq!((status, &shown["mode"], &shown["ru"]), (200, &json!("autoscale"), &json!(4000)));
    assert_eq!(shown["currentRu"], 400);
    assert_eq!(fixture.get(path).await, shown);
    let list = fixture.get("/_admin/v1/containers").await;
    assert_eq!(list["containers"][1]["throughput"]["ru"], 4000);

    // Twice the throughput of two partitions needs more partitions.
    let (_, shown) = fixture.ask("PUT", path, r#"{"manual":20000}"#).await;
    assert_eq!(shown["pending"], true);
}

#[tokio::test]
async fn another_maximum_keeps_how_autoscale_goes() {
    let fixture = fixture(1).await;
    let autoscale = |max| engine::Throughput::Autoscale { max, increment_percent: 7 };
    let database = fixture
        .engine
        .create_database(&test_context(), "auto", Some(autoscale(4000)))
        .await
        .unwrap();
    let path = "/_admin/v1/databases/auto/throughput";
    let (status, shown) = fixture.ask("PUT", path, r#"{"autoscaleMax":6000}"#).await;
    assert_eq!((status, &shown["ru"]), (200, &json!(6000)));
    let catalog = fixture.engine.catalog();
    let target = engine::catalog::OfferTarget::Database(database.rid);
    assert_eq!(catalog.offer_of(target).unwrap().throughput, autoscale(6000));
}

#[tokio::test]
async fn shared_throughput_is_the_databases() {
    let fixture = fixture(1).await;
    let shared = Some(engine::Throughput::Manual(500));
    let database = fixture.engine.create_database(&test_context(), "shared", shared).await.unwrap();
    let spec = testkit::harness::spec("c");
    fixture.engine.create_container(&test_context(), database.rid, spec, None).await.unwrap();
    let of_database = fixture.get("/_admin/v1/databases/shared/throughput").await;
    assert_eq!((&of_database["mode"], &of_database["ru"]), (&json!("manual"), &json!(500)));
    assert_eq!(of_database.get("container"), None);
    let of_container = fixture.get("/_admin/v1/containers/shared/c/throughput").await;
    assert_eq!(of_container, json!({"database": "shared", "container": "c", "mode": "shared"}));
    let change = r#"{"manual":600}"#;
    let (status, shown) =
        fixture.ask("PUT", "/_admin/v1/databases/shared/throughput", change).await;
    assert_eq!((status, &shown["ru"]), (200, &json!(600)));
    for (path, status, part) in [
        ("/_admin/v1/containers/shared/c/throughput", 409, "shares"),
        ("/_admin/v1/databases/db/throughput", 409, "without throughput"),
        ("/_admin/v1/databases/no/throughput", 404, "no database"),
        ("/_admin/v1/containers/shared/no/throughput", 404, "no container"),
    ] {
        let (found, answer) = fixture.ask("PUT", path, change).await;
        assert_eq!(found, status, "{path}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{path}: {answer}");
    }
}

#[tokio::test]
async fn throughput_that_can_not_be_is_refused_with_the_reason() {
    let fixture = fixture(1).await;
    let shared = Some(engine::Throughput::Manual(500));
    fixture.engine.create_database(&test_context(), "d", shared).await.unwrap();
    let path = "/_admin/v1/databases/d/throughput";
    for (body, part) in [
        ("", "either 'manual'"),
        (r#"{"manual":500,"autoscaleMax":4000}"#, "either 'manual'"),
        (r#"{"manual":300}"#, "minimum 400"),
        (r#"{"manual":450}"#, "steps of 100"),
        (r#"{"autoscaleMax":500}"#, "minimum 1000"),
        (r#"{"autoscaleMax":1500}"#, "steps of 1000"),
        (r#"{"manual":-400}"#, "is invalid"),
        (r#"{"manual":"lots"}"#, "is invalid"),
        (r#"{"throughput":400}"#, "unknown field"),
    ] {
        let (status, answer) = fixture.ask("PUT", path, body).await;
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{body}: {answer}");
    }
    assert_eq!(fixture.ask("POST", path, "{}").await.0, 405);
}

#[tokio::test]
async fn faults_are_asked_for_listed_and_ended() {
    let fixture = fixture(1).await;
    let path = "/_admin/v1/faults";
    let params = json!({
        "answer": {"status": 410, "substatus": 1008, "retryAfterMs": 5}, "database": "db",
        "container": "c", "partition": "0", "operation": "read_item", "count": 3,
    });
    let (status, fault) = fixture.ask("POST", path, &params.to_string()).await;
    assert_eq!(status, 201, "{fault}");
    let mut expected = params.clone();
    expected["id"] = json!(1);
    expected["fired"] = json!(0);
    expected["partition"] = json!(0);
    assert_eq!(fault, expected);
    let (status, _) = fixture.ask("POST", path, r#"{"delayCommitsMs":20,"seconds":60}"#).await;
    assert_eq!(status, 201);
    let list = fixture.get(path).await;
    assert_eq!(list["faults"][0], expected);
    assert_eq!(list["faults"][1]["delayCommitsMs"], 20);
    let (status, left) = fixture.ask("DELETE", "/_admin/v1/faults/1", "").await;
    assert_eq!((status, left["faults"].as_array().unwrap().len()), (200, 1));
    assert_eq!(fixture.ask("DELETE", "/_admin/v1/faults/1", "").await.0, 404);
    assert_eq!(fixture.ask("DELETE", path, "").await.1, json!({"faults": []}));
}

#[tokio::test]
async fn faults_that_make_no_sense_are_refused() {
    let fixture = fixture(1).await;
    for (body, part) in [
        ("", "either 'answer'"),
        (r#"{"answer":{"status":503},"delayCommitsMs":1,"count":1}"#, "either 'answer'"),
        (r#"{"answer":{"status":503}}"#, "Give 'count', 'seconds' or both"),
        (r#"{"answer":{"status":200},"count":1}"#, "400 to 599"),
        (r#"{"answer":{"status":600},"count":1}"#, "400 to 599"),
        (r#"{"answer":{"status":429,"retryAfterMs":60001},"count":1}"#, "at most 60000"),
        (r#"{"answer":{"status":503},"count":0}"#, "'count' is 1"),
        (r#"{"answer":{"status":503},"seconds":3601}"#, "from 1 to 3600"),
        (r#"{"answer":{"status":503},"count":1,"container":"c"}"#, "'database'"),
        (r#"{"answer":{"status":503},"count":1,"database":"d","partition":0}"#, "'container'"),
        (r#"{"answer":{"status":503},"count":1,"operation":"dance"}"#, "no operation"),
        (r#"{"delayCommitsMs":0,"count":1}"#, "from 1 to 10000"),
        (r#"{"delayCommitsMs":10001,"count":1}"#, "from 1 to 10000"),
        (r#"{"delayCommitsMs":1,"count":1,"database":"db"}"#, "applies to all containers"),
        (r#"{"answer":{},"count":1}"#, "is invalid"),
        (r#"{"answer":{"status":503},"times":1}"#, "unknown field"),
    ] {
        let (status, answer) = fixture.ask("POST", "/_admin/v1/faults", body).await;
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{body}: {answer}");
    }
    assert_eq!(fixture.ask("PUT", "/_admin/v1/faults", "{}").await.0, 405);
    assert_eq!(fixture.ask("GET", "/_admin/v1/faults/1", "").await.0, 405);
}

const QUERY: &str = "/_admin/v1/containers/db/c/query";
const EXPLAIN: &str = "/_admin/v1/containers/db/c/explain";

impl Fixture {
    async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// All rows of a query, page by page.
    async fn rows(&self, mut body: Value) -> Vec<Value> {
        let mut rows = Vec::new();
        loop {
            let page = self.post(QUERY, &body).await;
            assert!(page["requestCharge"].as_f64().unwrap() > 0.0);
            rows.extend(page["rows"].as_array().unwrap().iter().cloned());
            match page.get("continuation") {
                Some(token) => body["continuation"] = token.clone(),
                None => return rows,
            }
        }
    }
}

#[tokio::test]
async fn queries_are_answered_over_all_partitions() {
    let fixture = fixture(3).await;
    let ordered = json!({"query": "SELECT VALUE c.pk FROM c ORDER BY c.pk DESC", "maxItems": 3});
    let rows = fixture.rows(ordered).await;
    assert_eq!(rows.len(), 20);
    assert!(rows.is_sorted_by(|a, b| a.as_str() > b.as_str()), "{rows:?}");
    let count = json!({
        "query": "SELECT COUNT(1) AS n, MAX(LENGTH(c.fill)) AS m FROM c WHERE LENGTH(c.fill) > @min",
        "parameters": [{"name": "@min", "value": 99}],
        "parallelism": 2,
        "buffered": 10,
    });
    assert_eq!(fixture.rows(count).await, [json!({"n": 10, "m": 190})]);
    let distinct = json!({"query": "SELECT DISTINCT VALUE LENGTH(c.fill) > 99 FROM c"});
    assert_eq!(fixture.rows(distinct).await, [json!(false), json!(true)]);
    for key in [json!(["k7"]), json!("k7")] {
        let one = json!({"query": "SELECT VALUE c.pk FROM c", "partitionKey": key});
        assert_eq!(fixture.rows(one).await, [json!("k7")]);
    }
    assert_eq!(fixture.rows(json!({"query": "SELECT VALUE 1"})).await, [json!(1)]);
}

#[tokio::test]
async fn a_query_is_explained_and_run_if_wanted() {
    let fixture = fixture(3).await;
    let body = json!({
        "query": "SELECT * FROM c WHERE c.pk = @key AND LENGTH(c.fill) > 5 ORDER BY c.id",
        "parameters": [{"name": "@key", "value": "k7"}],
    });
    let explained = fixture.post(EXPLAIN, &body).await;
    assert_eq!(explained["filter"], "((ROOT.pk = \"k7\") AND (LENGTH(ROOT.fill) > 5))");
    let conditions = explained["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["index"], "/pk/? 1 range");
    assert_eq!((&conditions[0]["exact"], &conditions[1]["exact"]), (&json!(true), &json!(false)));
    assert_eq!(conditions[1]["index"], "everything");
    let partitions = explained["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 1, "only the partition of the key is asked");
    assert!(partitions[0].get("work").is_none() && explained.get("outcome").is_none());
    assert!(explained["rewritten"].as_str().unwrap().contains("orderByItems"));
    assert_eq!(explained["clientPlan"]["queryInfo"]["orderBy"], json!(["Ascending"]));

    let body = json!({"query": "SELECT * FROM c WHERE STARTSWITH(c.pk, 'k1')", "analyze": true});
    let before: Value = fixture.get(PARTITIONS).await;
    let explained = fixture.post(EXPLAIN, &body).await;
    assert_eq!(explained["outcome"]["rows"], 11);
    assert_eq!(explained["outcome"]["complete"], true);
    let partitions = explained["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 3);
    let sum =
        |field: &str| partitions.iter().map(|p| p["work"][field].as_f64().unwrap()).sum::<f64>();
    assert_eq!((sum("rows"), sum("itemsRead")), (11.0, 11.0));
    assert!(
        partitions.iter().all(|p| p["indexed"] == true && p["way"] == "items that the index names")
    );
    let charge = explained["outcome"]["requestCharge"].as_f64().unwrap();
    assert!((sum("requestCharge") - charge).abs() < 1e-9);
    // The reported charge is what the partitions have counted.
    let consumed = |shown: &Value| -> f64 {
        let partitions = shown["partitions"].as_array().unwrap();
        partitions.iter().map(|p| p["ru"]["consumed"].as_f64().unwrap()).sum()
    };
    let after: Value = fixture.get(PARTITIONS).await;
    assert!((consumed(&after) - consumed(&before) - charge).abs() < 1e-6);
}

#[tokio::test]
async fn queries_that_make_no_sense_are_refused() {
    let fixture = fixture(2).await;
    for (body, message) in [
        ("{}", "'query' is missing"),
        ("[]", "a JSON object"),
        (r#"{"query":1}"#, "must be a string"),
        (r#"{"query":"SELECT"}"#, "Syntax error"),
        (r#"{"query":"SELECT 1","parameters":[{"name":"x","value":1}]}"#, "Parameter names"),
        (r#"{"query":"SELECT * FROM c","continuation":"x"}"#, "Invalid Continuation Token"),
        (r#"{"query":"SELECT * FROM c","partitionKey":["a","b"]}"#, "Partition key"),
        (r#"{"query":"SELECT * FROM c","maxItems":-1}"#, "is invalid"),
        (r#"{"query":"SELECT * FROM c ORDER BY c.a, c.b"}"#, "composite index"),
    ] {
        for path in [QUERY, EXPLAIN] {
            if path == EXPLAIN && body.contains("continuation") {
                continue;
            }
            let (status, answer) = fixture.ask("POST", path, body).await;
            assert_eq!(status, 400, "{path} {body}: {answer}");
            assert!(answer["message"].as_str().unwrap().contains(message), "{body}: {answer}");
        }
    }
    let other = QUERY.replace("/c/", "/d/");
    assert_eq!(fixture.ask("POST", &other, r#"{"query":"SELECT 1"}"#).await.0, 404);
    assert_eq!(fixture.ask("GET", QUERY, "").await.0, 405);
    let long = format!(r#"{{"query":"SELECT '{}'"}}"#, "x".repeat(3 << 20));
    assert_eq!(fixture.ask("POST", QUERY, &long).await.0, 413);
}
