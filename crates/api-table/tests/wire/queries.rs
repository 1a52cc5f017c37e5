//! Entities by a filter, in the order of their keys, page by page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api_table::Flavour;
use engine::RangeId;
use engine::repartition::{Progression, SplitPoint};
use storage::{MemoryStore, View};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, test_context};
use testkit::hooked::{HookedStore, Hooks};

use crate::support::TestService;

async fn filled(service: TestService) -> TestService {
    service.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
    for key in ["d", "a", "c", "b"] {
        for row in ["3", "1", "2"] {
            let rest = format!(r#""n":{row},"k":"{key}""#);
            service.insert(key, row, &rest).await.expect(201);
        }
    }
    service
}

fn all() -> Vec<(String, String)> {
    let keys = ["a", "b", "c", "d"].into_iter();
    keys.flat_map(|k| ["1", "2", "3"].map(|r| (k.to_owned(), r.to_owned()))).collect()
}

#[tokio::test]
async fn entities_come_in_the_order_of_their_keys_at_any_page_size() {
    for ranges in [1, 4] {
        let s = filled(TestService::with_ranges(ranges)).await;
        for (top, pages) in [(1, 12), (5, 3), (6, 2), (12, 1), (1000, 1)] {
            assert_eq!(s.keys(&format!("$top={top}")).await, (all(), pages), "{top} of {ranges}");
        }
    }
}

#[tokio::test]
async fn filters_on_keys_are_stretches_and_the_rest_is_tested() {
    let s = filled(TestService::with_ranges(3)).await;
    let found = async |filter: &str| {
        let encoded = filter.replace(' ', "%20");
        s.keys(&format!("$filter={encoded}&$top=2")).await.0
    };
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(k, r)| ((*k).to_owned(), (*r).to_owned())).collect()
    };
    assert_eq!(found("PartitionKey eq 'b'").await, pairs(&[("b", "1"), ("b", "2"), ("b", "3")]));
    let range = "PartitionKey eq 'b' and RowKey gt '1'";
    assert_eq!(found(range).await, pairs(&[("b", "2"), ("b", "3")]));
    assert_eq!(found("RowKey eq '2' and PartitionKey eq 'c'").await, pairs(&[("c", "2")]));
    assert_eq!(
        found("PartitionKey ge 'c' and RowKey eq '1'").await,
        pairs(&[("c", "1"), ("d", "1")])
    );
    assert_eq!(found("n ge 3").await, pairs(&[("a", "3"), ("b", "3"), ("c", "3"), ("d", "3")]));
    let either = "PartitionKey eq 'd' or PartitionKey eq 'a' and n lt 2L";
    assert_eq!(found(either).await, pairs(&[("a", "1"), ("d", "1"), ("d", "2"), ("d", "3")]));
    assert_eq!(
        found("not (k eq 'a' or k eq 'b' or k eq 'c') and n ne 2").await,
        pairs(&[("d", "1"), ("d", "3")])
    );
    assert_eq!(found("Timestamp lt datetime'2020-01-01T00:00:00Z'").await, pairs(&[]));
    assert_eq!(
        found("Timestamp gt datetime'2020-01-01T00:00:00Z' and RowKey lt '2'").await.len(),
        4
    );
    assert_eq!(found("missing ne 1").await, pairs(&[]));
}

#[tokio::test]
async fn how_entities_were_found_is_told() {
    let s = filled(TestService::with_ranges(3)).await;
    let plan = async |filter: &str| {
        let answer = s.get(&format!("/demo()?$filter={}", filter.replace(' ', "%20"))).await;
        answer.header("x-ps-plan").unwrap().to_owned()
    };
    assert_eq!(
        plan("PartitionKey eq 'b' and RowKey eq '1'").await,
        "points=1;stretches=0;ranges=0"
    );
    assert_eq!(plan("PartitionKey eq 'b'").await, "points=0;stretches=1;ranges=1");
    assert_eq!(plan("n eq 1").await, "points=0;stretches=1;ranges=3");
}

#[tokio::test]
async fn a_split_between_two_pages_is_not_noticed() {
    let s = filled(TestService::with_ranges(1)).await;
    let first = s.get("/demo()?$top=5").await;
    let table = s.demo();
    let how = Progression::Automatic;
    let (ctx, at) = (test_context(), SplitPoint::ByteMedian);
    let job = s.harness.engine.start_split(&ctx, table.rid, RangeId(0), at, how).await;
    let job = job.expect("a split");
    s.harness.engine.finish_job(job.id).await.expect("a job");
    assert_eq!(table.routing().ranges().len(), 2);
    let mut keys = first.keys();
    let mut next = first.continuation();
    while let Some(token) = next {
        let page = s.get(&format!("/demo()?$top=5{token}")).await;
        keys.extend(page.keys());
        next = page.continuation();
    }
    assert_eq!(keys, all());
}

#[tokio::test]
async fn a_list_shows_what_a_single_entity_does() {
    let s = TestService::with_table().await;
    s.insert("p", "r", r#""big@odata.type":"Edm.Int64","big":"5""#).await.expect(201);
    let list = s.get("/demo()").await;
    let single = s.get("/demo(PartitionKey='p',RowKey='r')").await.text();
    let url = "http://example.test:10002/devstoreaccount1/$metadata#demo";
    let inner = single.replacen(&format!(r#""odata.metadata":"{url}/@Element","#), "", 1);
    assert_eq!(list.text(), format!(r#"{{"odata.metadata":"{url}","value":[{inner}]}}"#));
    assert_eq!(list.header("etag"), None);
}

#[tokio::test]
async fn a_long_list_is_whole() {
    let s = TestService::with_table().await;
    let text = "x".repeat(30_000);
    for n in 0..20 {
        s.insert("p", &format!("{n:02}"), &format!(r#""s":"{text}""#)).await.expect(201);
    }
    let list = s.get("/demo()").await;
    assert_eq!((list.keys().len(), list.continuation()), (20, None));
    assert!(list.body.len() > 600_000);
}

#[tokio::test]
async fn options_that_are_wrong_or_not_there_are_refused() {
    let s = TestService::with_table().await;
    for (query, status, code) in [
        ("$top=-1", 400, "InvalidInput"),
        ("$top=1001", 400, "InvalidInput"),
        ("$top=x", 400, "InvalidInput"),
        ("$filter=a%20eq", 400, "InvalidInput"),
        ("$filter=1%20eq%201", 400, "InvalidInput"),
        ("$filter=startswith(a,'b')", 501, "NotImplemented"),
        ("$orderby=a", 501, "NotImplemented"),
        ("$skip=1", 501, "NotImplemented"),
        ("NextPartitionKey=garbage&NextRowKey=1", 400, "InvalidInput"),
        ("$filter=%FF", 400, "InvalidQueryParameterValue"),
    ] {
        s.get(&format!("/demo()?{query}")).await.refused(status, code);
    }
    let none = s.get("/demo()?$top=0").await;
    assert_eq!((none.keys().len(), none.continuation()), (0, None));
    s.get("/demo()?$filter=").await.expect(200);
    s.get("/demo()?timeout=30").await.expect(200);
}

/// Makes the next view of a store take long where the test says so. Only that one: the time that
/// passes wakes the engine's own tasks, whose views would make more time pass.
#[derive(Default)]
struct SlowViews {
    clock: OnceLock<Arc<ManualClock>>,
    is_next_slow: AtomicBool,
}

impl Hooks for SlowViews {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        if let Some(clock) = self.clock.get()
            && self.is_next_slow.swap(false, Ordering::SeqCst)
        {
            clock.advance(Duration::from_secs(3));
        }
        take()
    }
}

#[tokio::test]
async fn a_page_ends_when_the_client_has_waited_as_long_as_it_said() {
    let store = HookedStore::new(MemoryStore::new(), SlowViews::default());
    let harness = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let s = TestService::over(harness, Flavour::Storage);
    s.post("/Tables", r#"{"TableName":"demo"}"#).await.expect(201);
    for n in 0..300 {
        s.insert("p", &format!("{n:03}"), r#""n":1"#).await.expect(201);
    }
    store.hooks.clock.get_or_init(|| Arc::clone(&s.harness.clock));
    let query = "/demo()?$filter=PartitionKey%20eq%20'p'";
    for unhurried in ["", "&timeout=60", "&timeout=0", "&timeout=soon"] {
        store.hooks.is_next_slow.store(true, Ordering::SeqCst);
        let all = s.get(&format!("{query}{unhurried}")).await;
        assert_eq!((all.keys().len(), all.continuation()), (300, None), "{unhurried}");
    }
    store.hooks.is_next_slow.store(true, Ordering::SeqCst);
    let some = s.get(&format!("{query}&timeout=1")).await;
    assert!((1..300).contains(&some.keys().len()) && some.continuation().is_some());
}
