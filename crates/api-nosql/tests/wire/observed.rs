//! What a service's observer receives.

use std::sync::{Arc, Mutex};

use account::Observer;
use api_nosql::{Observation, Operation, RequestedConsistency};

use crate::support::TestService;

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<Observation>>);

impl Observer<Observation> for RecordingObserver {
    fn answered(&self, observation: &Observation) {
        self.0.lock().expect("a lock").push(*observation);
    }
}

impl RecordingObserver {
    fn last(&self) -> Observation {
        *self.0.lock().expect("a lock").last().expect("a request")
    }
}

const DOCS: &str = "/dbs/d/colls/c/docs";

async fn with_container() -> (TestService, Arc<RecordingObserver>) {
    let observer = Arc::new(RecordingObserver::default());
    let service = TestService::observed(Arc::<RecordingObserver>::clone(&observer));
    let service = service.with_container().await;
    let observed: Vec<_> = observer.0.lock().expect("a lock").iter().map(|o| o.operation).collect();
    assert_eq!(observed, [Operation::Database, Operation::Container]);
    (service, observer)
}

#[tokio::test]
async fn every_kind_of_request_is_told_apart() {
    let (service, observer) = with_container().await;
    let item = r#"{"id":"1","pk":"a"}"#;
    let one = "/dbs/d/colls/c/docs/1";
    let patch = r#"[{"op":"set","path":"/x","value":1}]"#;
    let query = r#"{"query":"SELECT * FROM c"}"#;
    let batch = r#"[{"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}]"#;
    let is = |name: &'static str| Some((name, "True"));
    let cases = [
        ("POST", DOCS, None, item, Operation::CreateItem, 201),
        ("POST", DOCS, is("x-ms-documentdb-is-upsert"), item, Operation::UpsertItem, 200),
        ("GET", one, None, "", Operation::ReadItem, 200),
        ("PUT", one, None, item, Operation::ReplaceItem, 200),
        ("PATCH", one, None, patch, Operation::PatchItem, 200),
        ("GET", DOCS, None, "", Operation::ListItems, 200),
        ("GET", DOCS, Some(("a-im", "Incremental Feed")), "", Operation::ChangeFeed, 200),
        ("POST", DOCS, is("x-ms-documentdb-isquery"), query, Operation::Query, 200),
        ("POST", DOCS, is("x-ms-cosmos-is-query-plan-request"), query, Operation::QueryPlan, 200),
        ("POST", DOCS, is("x-ms-cosmos-is-batch-request"), batch, Operation::Batch, 200),
        ("DELETE", one, None, "", Operation::DeleteItem, 204),
        ("GET", one, None, "", Operation::ReadItem, 404),
        ("GET", "/dbs/d/colls/c/pkranges", None, "", Operation::PartitionKeyRanges, 200),
        ("GET", "/offers", None, "", Operation::Offer, 200),
        ("GET", "/", None, "", Operation::Account, 200),
        ("GET", "/dbs/d/colls/c/conflicts", None, "", Operation::Other, 200),
    ];
    for (method, path, header, body, operation, status) in cases {
        let mut call = service.call(method, path).header("x-ms-documentdb-partitionkey", "[\"a\"]");
        if let Some((name, value)) = header {
            call = call.header(name, value);
        }
        let answer = call.body(body).send().await;
        let observed = observer.last();
        assert_eq!((observed.operation, observed.status), (operation, status), "{method} {path}");
        assert_eq!(observed.status, answer.status);
    }
    let bulk = service.call("POST", DOCS).header("x-ms-cosmos-is-batch-request", "True");
    bulk.header("x-ms-cosmos-batch-atomic", "False").body("[]").send().await;
    assert_eq!(observer.last().operation, Operation::Bulk);
    let erase = service.call("POST", "/dbs/d/colls/c/operations/partitionkeydelete");
    erase.header("x-ms-documentdb-partitionkey", "[\"a\"]").send().await;
    assert_eq!(observer.last().operation, Operation::DeletePartitionKey);
}

#[tokio::test]
async fn forms_are_told() {
    let (service, observer) = with_container().await;
    let create = service.call("POST", DOCS).header("x-ms-documentdb-partitionkey", "[\"a\"]");
    create.body(r#"{"id":"1","pk":"a"}"#).send().await;
    assert_eq!(observer.last().format, api_nosql::WireFormat::default());
    let read = service
        .call("GET", "/dbs/d/colls/c/docs/1")
        .header("x-ms-documentdb-partitionkey", "[\"a\"]")
        .header("x-ms-consistency-level", "Eventual")
        .header("x-ms-cosmos-supported-serialization-formats", "CosmosBinary");
    let binary = read.send().await;
    let format = observer.last().format;
    assert!(format.accepts_binary && format.reply_is_binary && !format.request_is_binary);
    assert_eq!(format.consistency, RequestedConsistency::Eventual);
    let send = service.call("POST", DOCS).header("x-ms-documentdb-partitionkey", "[\"a\"]");
    send.header("x-ms-documentdb-is-upsert", "True").body(binary.body).send().await;
    assert!(observer.last().format.request_is_binary);
    let strategy =
        service.call("GET", "/").header("x-ms-cosmos-read-consistency-strategy", "Session");
    strategy.header("x-ms-consistency-level", "Eventual").send().await;
    assert_eq!(observer.last().format.consistency, RequestedConsistency::Session);
}

#[tokio::test]
async fn what_is_refused_at_the_door_is_told_too() {
    let (service, observer) = with_container().await;
    service.call("GET", "/dbs/d").key(None).send().await;
    assert_eq!((observer.last().operation, observer.last().status), (Operation::Other, 401));
}
