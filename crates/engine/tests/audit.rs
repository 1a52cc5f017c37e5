//! The audit finds nothing in a consistent store, and reports every inconsistency.

use std::sync::Arc;

use bytes::Bytes;
use engine::audit::StoredRow;
use engine::ops::ItemOp;
use model::PartitionId;
use storage::{Dir, Durability, KeyRange, LocalStore, MemoryStore, Op, WriteBatch};
use testkit::harness::{Harness, body, path, spec, test_context};

/// A container with a unique key over two ranges, some items, and traces of deleted ones.
async fn filled() -> (Harness, Arc<dyn LocalStore>) {
    let store: Arc<dyn LocalStore> = Arc::new(MemoryStore::new());
    let h = Harness::on(Arc::clone(&store));
    let mut spec = spec("c");
    spec.unique_keys = vec![vec![path("/u")]];
    let c = h.container_with(spec, 2).await;
    for n in 0..12 {
        let key = format!("k{}", n % 4);
        let text = format!(r#"{{"id":"{n}","pk":"{key}","u":{n}}}"#);
        h.create(&c, &key, &text).await.expect("it works");
    }
    for n in 0..4 {
        let delete = ItemOp::Delete { id: n.to_string().into(), if_match: None };
        h.write(&c, &format!("k{n}"), delete).await.expect("it works");
        let again = ItemOp::Upsert {
            body: body(&format!(r#"{{"id":"{}","pk":"k{n}","u":"x"}}"#, n + 4)),
            if_match: None,
        };
        h.write(&c, &format!("k{n}"), again).await.expect("it works");
    }
    h.container("other", 1).await;
    (h, store)
}

fn all_of(store: &dyn LocalStore, p: PartitionId) -> Vec<(Bytes, Bytes)> {
    let view = store.view();
    let mut cursor = view.scan(p, KeyRange::ALL, Dir::Fwd).expect("it works");
    let mut all = Vec::new();
    while let Some((k, v)) = cursor.next().expect("it works") {
        all.push((Bytes::copy_from_slice(k), Bytes::copy_from_slice(v)));
    }
    all
}

#[tokio::test]
async fn a_store_that_was_only_used_is_in_order() {
    let (h, _) = filled().await;
    let audit = h.engine.audit().unwrap();
    assert_eq!((audit.partitions, audit.items), (3, 8));
    assert_eq!(audit.findings, Vec::<String>::new());
}

#[tokio::test]
async fn whatever_is_lost_is_missed() {
    let (h, store) = filled().await;
    let tombstones = 4;
    let mut unnoticed = 0;
    for p in [PartitionId(1), PartitionId(2)] {
        for (k, v) in all_of(store.as_ref(), p) {
            let write = |op| store.write(WriteBatch { ops: vec![op] }, Durability::Synced).unwrap();
            write(Op::Del { p, k: k.clone() });
            unnoticed += usize::from(h.engine.audit().unwrap().findings.is_empty());
            write(Op::Put { p, k, v });
        }
    }
    // Tombstones exist for readers of the log; they may be removed at any time.
    assert_eq!(unnoticed, tombstones);
    assert!(h.engine.audit().unwrap().findings.is_empty());
}

#[tokio::test]
async fn what_lies_in_another_partition_is_noticed() {
    let (h, store) = filled().await;
    let rows = all_of(store.as_ref(), PartitionId(1));
    let (k, v) = rows.into_iter().find(|(k, v)| StoredRow::read(k, v).is_some()).unwrap();
    // The neighbour does not serve that range of the hash line, another container does.
    for (p, why) in [(PartitionId(2), "outside the range"), (PartitionId(3), "counted as")] {
        let put = Op::Put { p, k: k.clone(), v: v.clone() };
        store.write(WriteBatch { ops: vec![put] }, Durability::Synced).unwrap();
        let findings = h.engine.audit().unwrap().findings;
        assert!(findings.iter().any(|f| f.contains(why)), "{findings:?}");
        let delete = Op::Del { p, k: k.clone() };
        store.write(WriteBatch { ops: vec![delete] }, Durability::Synced).unwrap();
    }
}

#[tokio::test]
async fn a_deleted_container_leaves_nothing_but_a_note() {
    let (h, store) = filled().await;
    h.engine.delete_container(&test_context(), h.find("c").rid, None).await.unwrap();
    let findings = h.engine.audit().unwrap().findings;
    assert_eq!(findings, Vec::<String>::new());
    while !all_of(store.as_ref(), PartitionId(1)).is_empty() {
        tokio::task::yield_now().await;
    }
    let put = Op::Put { p: PartitionId(1), k: Bytes::from("x"), v: Bytes::new() };
    // A retired partition takes no more writes, so it stays empty.
    store.write(WriteBatch { ops: vec![put] }, Durability::Synced).unwrap();
    assert_eq!(h.engine.audit().unwrap().findings, Vec::<String>::new());
}
