//! Index entries follow their items: the audit compares every entry with what the items say.

use std::sync::Arc;

use engine::index::{Composite, CompositeColumn, PathPattern};
use engine::ops::{ItemOp, Scope};
use engine::repartition::{Progression, SplitPoint};
use engine::{Container, ContainerSpec, IndexingPolicy, RangeId};
use testkit::harness::{Harness, body, spec};

const KEYS: usize = 8;

fn text(key: usize, id: usize, version: usize) -> String {
    format!(
        r#"{{"id":"{id}","pk":"{key}","n":{version},"tags":["a","b{id}","a"],"deep":{{"x":[{{"y":{key}}},null],"s":"{}"}},"only{id}":true}}"#,
        "long".repeat(version * 200)
    )
}

async fn fill(h: &Harness, c: &Arc<Container>, version: usize) {
    for key in 0..KEYS {
        for id in 0..5 {
            let op = ItemOp::Upsert { body: body(&text(key, id, version)), if_match: None };
            h.write(c, &key.to_string(), op).await.expect("an item");
        }
    }
}

fn audit(h: &Harness) {
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}

fn policy(included: &[&[&str]], excluded: &[&[&str]], composites: &[&[&str]]) -> IndexingPolicy {
    let pattern = |steps: &&[&str]| PathPattern {
        steps: steps.iter().map(|s| (*s != "[]").then(|| (*s).to_owned())).collect(),
        is_subtree: true,
    };
    let column = |(at, name): (usize, &&str)| CompositeColumn {
        path: vec![(*name).to_owned()],
        is_descending: at % 2 == 1,
    };
    let composite =
        |names: &&[&str]| Composite { columns: names.iter().enumerate().map(column).collect() };
    IndexingPolicy {
        is_on: true,
        included: included.iter().map(pattern).collect(),
        excluded: excluded.iter().map(pattern).collect(),
        composites: composites.iter().map(composite).collect(),
    }
}

async fn change_policy(h: &Harness, c: &Container, indexing: IndexingPolicy) -> Arc<Container> {
    let spec = ContainerSpec { indexing, ..c.spec.clone() };
    h.engine.replace_container(c.rid, spec, None).await.expect("a new policy")
}

/// Waits until the entries fit the policy.
async fn rebuilt(h: &Harness, c: &Container) -> Arc<Container> {
    loop {
        let now = h.engine.catalog().container_by_rid(c.rid).expect("the container").clone();
        if h.engine.index_progress(&now).expect("a percentage") == 100 {
            return now;
        }
        // It rests between two steps when others write.
        h.clock.advance(std::time::Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn entries_follow_writes() {
    let h = Harness::in_memory();
    let all = policy(&[&[]], &[&["deep", "s"]], &[&["n", "id"], &["pk", "_ts", "n"]]);
    let c = h.container_with(ContainerSpec { indexing: all, ..spec("c") }, 2).await;
    for version in [1, 2, 2, 0] {
        fill(&h, &c, version).await;
        audit(&h);
        h.clock.advance(std::time::Duration::from_secs(3));
    }
    let rename = |id: &str| ItemOp::Replace {
        id: id.to_owned(),
        body: body(r#"{"id":"renamed","pk":"1","n":null}"#),
        if_match: None,
    };
    h.write(&c, "1", rename("2")).await.expect("another name");
    audit(&h);
    for id in ["0", "1", "renamed"] {
        let delete = ItemOp::Delete { id: id.to_owned(), if_match: None };
        h.write(&c, "1", delete).await.expect("a delete");
    }
    audit(&h);
}

#[tokio::test]
async fn a_new_policy_is_applied_to_what_is_stored() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    fill(&h, &c, 1).await;
    let policies = [
        IndexingPolicy::none(),
        policy(&[&[]], &[&["deep"]], &[&["n", "id"]]),
        policy(&[&["deep", "x", "[]"], &["tags"]], &[&[]], &[&["id", "n"]]),
        IndexingPolicy::default(),
    ];
    for (version, policy) in policies.into_iter().enumerate() {
        let now = change_policy(&h, &c, policy).await;
        // Written in the midst of it.
        fill(&h, &now, version).await;
        rebuilt(&h, &c).await;
        audit(&h);
    }
}

#[tokio::test]
async fn policies_that_follow_each_other_at_once_end_with_the_last() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c, 1).await;
    for _ in 0..3 {
        change_policy(&h, &c, policy(&[&["n"]], &[&[]], &[])).await;
        change_policy(&h, &c, IndexingPolicy::none()).await;
        change_policy(&h, &c, policy(&[&["tags"]], &[&[]], &[&["n", "pk"]])).await;
    }
    let now = rebuilt(&h, &c).await;
    assert_eq!(now.spec.indexing, policy(&[&["tags"]], &[&[]], &[&["n", "pk"]]));
    audit(&h);
}

#[tokio::test]
async fn entries_move_with_their_items() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c, 1).await;
    let how = Progression::Automatic;
    let job = h.engine.start_split(c.rid, RangeId(0), SplitPoint::ByteMedian, how).await;
    let changed =
        change_policy(&h, &c, policy(&[&["tags"], &["n"]], &[&[]], &[&["n", "id"]])).await;
    fill(&h, &changed, 2).await;
    h.engine.finish_job(job.expect("a split").id).await.expect("a job");
    rebuilt(&h, &c).await;
    audit(&h);
    let ranges: Vec<_> = c.routing().ranges().iter().map(|r| r.id).collect();
    assert_eq!(ranges.len(), 2);
    let job = h.engine.start_merge(c.rid, &ranges, how).await.expect("a merge");
    fill(&h, &changed, 3).await;
    h.engine.finish_job(job.id).await.expect("a job");
    audit(&h);
    assert_eq!(h.list(&c, Scope::All, 10).await.len(), KEYS * 5);
}
