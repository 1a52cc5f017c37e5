//! Ranges between two steps of a split or merge that is driven by hand: clients that can't know of
//! it wait.

use std::time::Duration;

use engine::RangeId;
use engine::repartition::{JobId, JobPhase, Progression, SplitPoint};
use serde_json::json;
use testkit::harness::test_context;

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const PK: &str = "x-ms-documentdb-partitionkey";

/// A container whose only range moves, with an item and a procedure.
async fn moving() -> (TestService, JobId) {
    let s = TestService::new().with_container().await;
    s.post(DOCS, r#"{"id":"1","pk":"a"}"#).await.expect(201);
    let body = json!({"id": "p", "body": "function () { getContext().getResponse().setBody(1); }"});
    s.post("/dbs/d/colls/c/sprocs", &body.to_string()).await.expect(201);
    let engine = &s.harness.engine;
    let catalog = engine.catalog();
    let database = catalog.database("d").expect("the test's own data").rid;
    let container = catalog.container(database, "c").expect("the test's own data").rid;
    let at = SplitPoint::Midpoint;
    let job = engine
        .start_split(&test_context(), container, RangeId(0), at, Progression::Manual)
        .await
        .expect("the test's own data");
    assert_eq!(
        engine.advance_job(&test_context(), job.id).await.expect("the test's own data").phase,
        JobPhase::Swapping
    );
    (s, job.id)
}

/// Every request that a client addresses by key, or to all of the container.
fn calls(s: &TestService) -> Vec<(Call<'_>, u16)> {
    let keyed = |method, path: &str| s.call(method, path).header(PK, r#"["a"]"#);
    let batch = json!([{"operationType": "Upsert", "resourceBody": {"id": "b", "pk": "a"}},
                       {"operationType": "Read", "id": "1"}]);
    let query = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True");
    let query = query.header("content-type", "application/query+json");
    let query = query.header("x-ms-documentdb-query-enablecrosspartition", "True");
    vec![
        (keyed("GET", "/dbs/d/colls/c/docs/1"), 200),
        (keyed("POST", DOCS).body(r#"{"id":"2","pk":"a"}"#), 201),
        (keyed("PUT", "/dbs/d/colls/c/docs/1").body(r#"{"id":"1","pk":"a","n":1}"#), 200),
        (
            keyed("PATCH", "/dbs/d/colls/c/docs/1")
                .body(r#"{"operations":[{"op":"incr","path":"/m","value":1}]}"#),
            200,
        ),
        (keyed("DELETE", "/dbs/d/colls/c/docs/none"), 404),
        (
            keyed("POST", DOCS)
                .header("x-ms-cosmos-is-batch-request", "True")
                .header("x-ms-cosmos-batch-atomic", "True")
                .body(batch.to_string()),
            200,
        ),
        (keyed("POST", "/dbs/d/colls/c/sprocs/p").body("[]"), 200),
        (query.body(r#"{"query":"SELECT * FROM c WHERE c.id = '1'"}"#), 200),
        (s.call("GET", DOCS), 200),
    ]
}

async fn answers(calls: Vec<(Call<'_>, u16)>) -> Vec<(Answer, u16)> {
    let sent = calls.into_iter().map(|(call, status)| async move { (call.send().await, status) });
    futures_of(sent.collect()).await
}

/// Runs futures together on this task.
async fn futures_of<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in &mut waiting {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        match waiting.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}

#[tokio::test]
async fn requests_wait_until_the_range_has_moved() {
    let (s, job) = moving().await;
    let mut waiting = Box::pin(answers(calls(&s)));
    // All of them are under way before the range moves on.
    for _ in 0..100 {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(waiting.as_mut().poll(context).is_ready())
        });
        assert!(!polled.await, "nothing is answered yet");
        tokio::task::yield_now().await;
    }
    assert_eq!(
        s.harness.engine.advance_job(&test_context(), job).await.unwrap().phase,
        JobPhase::Succeeded
    );
    for (answer, status) in waiting.await {
        answer.expect(status);
    }
    let read = s.call("GET", "/dbs/d/colls/c/docs/1").header(PK, r#"["a"]"#);
    assert_eq!(read.send().await.expect(200).json()["m"], 1);
}

#[tokio::test]
async fn they_wait_until_the_move_is_cancelled() {
    let (s, job) = moving().await;
    let cancel = async { s.harness.engine.cancel_job(&test_context(), job).await.unwrap().phase };
    let (answers, phase) = tokio::join!(answers(calls(&s)), cancel);
    assert_eq!(phase, JobPhase::Cancelled);
    for (answer, status) in answers {
        answer.expect(status);
    }
}

#[tokio::test]
async fn they_do_not_wait_forever() {
    let (s, _) = moving().await;
    // Until all are answered: some begin to wait only after work on other threads.
    let pass = async {
        loop {
            tokio::task::yield_now().await;
            s.harness.clock.advance(Duration::from_millis(500));
        }
    };
    let answers = tokio::select! {
        answers = answers(calls(&s)) => answers,
        () = pass => unreachable!("time passes without an end"),
    };
    for (answer, _) in answers {
        assert_eq!(answer.expect(410).header("x-ms-substatus"), Some("1007"));
    }
}

#[tokio::test]
async fn requests_that_name_the_range_are_told() {
    let (s, job) = moving().await;
    let query = || {
        s.call("POST", DOCS)
            .header("x-ms-documentdb-isquery", "True")
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-partitionkeyrangeid", "0")
            .body(r#"{"query":"SELECT * FROM c"}"#)
    };
    let bulk = || {
        let operations = json!([{"operationType": "Upsert", "partitionKey": "[\"a\"]",
                                 "resourceBody": {"id": "b", "pk": "a"}}]);
        s.call("POST", DOCS)
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "False")
            .header("x-ms-documentdb-partitionkeyrangeid", "0")
            .body(operations.to_string())
    };
    assert_eq!(query().send().await.expect(410).header("x-ms-substatus"), Some("1007"));
    let moving = bulk().send().await.expect(207);
    assert_eq!(moving.json()[0]["statusCode"], 410);
    assert_eq!(moving.json()[0]["subStatusCode"], 1007);
    s.harness.engine.advance_job(&test_context(), job).await.unwrap();
    for gone in [query(), bulk()] {
        assert_eq!(gone.send().await.expect(410).header("x-ms-substatus"), Some("1002"));
    }
}
