//! Random operations on the engine and on a plain map, compared at every step.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Container;
use engine::ops::{ItemOp, ItemOutcome, Scope};
use model::ErrorKind;
use proptest::prelude::*;
use storage::faulty::FaultyStore;
use testkit::harness::{Harness, body, string_key, test_context};

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8, u8),
    Upsert(u8, u8, u8),
    Replace(u8, u8, u8),
    Delete(u8, u8),
    Batch(u8, Vec<(u8, u8)>),
    ErasePartition(u8),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (key, id, n) = (0..5u8, 0..6u8, any::<u8>());
    let step = prop_oneof![
        4 => (key.clone(), id.clone(), n).prop_map(|(k, i, n)| Step::Create(k, i, n)),
        4 => (key.clone(), id.clone(), n).prop_map(|(k, i, n)| Step::Upsert(k, i, n)),
        2 => (key.clone(), id.clone(), n).prop_map(|(k, i, n)| Step::Replace(k, i, n)),
        3 => (key.clone(), id.clone()).prop_map(|(k, i)| Step::Delete(k, i)),
        2 => (key.clone(), prop::collection::vec((id, n), 1..5)).prop_map(|(k, v)| Step::Batch(k, v)),
        1 => key.prop_map(Step::ErasePartition),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

/// (partition key, id) -> text.
type Oracle = BTreeMap<(u8, u8), String>;

struct Run {
    harness: Harness,
    store: Arc<FaultyStore>,
    container: Arc<Container>,
    oracle: Oracle,
    lsn: u64,
}

fn text(key: u8, id: u8, n: u8) -> String {
    format!(r#"{{"id":"{id}","pk":"{key}","n":{n}}}"#)
}

impl Run {
    async fn start(ranges: u32) -> Self {
        let store = Arc::new(FaultyStore::in_memory());
        let harness = Harness::on(Arc::<FaultyStore>::clone(&store));
        let container = harness.container("c", ranges).await;
        Self { harness, store, container, oracle: Oracle::new(), lsn: 0 }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Create(k, i, n) => {
                let op = ItemOp::Create { body: body(&text(k, i, n)) };
                let expect = match self.oracle.contains_key(&(k, i)) {
                    true => Err(ErrorKind::AlreadyExists),
                    false => Ok(Some(text(k, i, n))),
                };
                self.one(k, i, op, expect).await;
            }
            Step::Upsert(k, i, n) => {
                let op = ItemOp::Upsert { body: body(&text(k, i, n)), if_match: None };
                self.one(k, i, op, Ok(Some(text(k, i, n)))).await;
            }
            Step::Replace(k, i, n) => {
                let op = ItemOp::Replace {
                    id: i.to_string().into(),
                    body: body(&text(k, i, n)),
                    if_match: None,
                };
                let expect = match self.oracle.contains_key(&(k, i)) {
                    true => Ok(Some(text(k, i, n))),
                    false => Err(ErrorKind::NotFound),
                };
                self.one(k, i, op, expect).await;
            }
            Step::Delete(k, i) => {
                let op = ItemOp::Delete { id: i.to_string().into(), if_match: None };
                let expect = match self.oracle.contains_key(&(k, i)) {
                    true => Ok(None),
                    false => Err(ErrorKind::NotFound),
                };
                self.one(k, i, op, expect).await;
            }
            Step::Batch(k, creates) => self.batch(k, &creates).await,
            Step::ErasePartition(k) => {
                let ctx = &mut test_context();
                let key = string_key(&k.to_string());
                self.harness.engine.delete_partition_key(ctx, &self.container, key).await.unwrap();
                self.oracle.retain(|(key, _), _| *key != k);
            }
            Step::Crash => self.crash(),
        }
    }

    async fn one(&mut self, k: u8, i: u8, op: ItemOp, expect: Result<Option<String>, ErrorKind>) {
        let key = string_key(&k.to_string());
        let ctx = &mut test_context();
        let got = self.harness.engine.write_item(ctx, &self.container, Some(key), op).await;
        match (got, expect) {
            (Ok(ItemOutcome::Deleted), Ok(None)) => {
                self.oracle.remove(&(k, i));
            }
            (Ok(outcome), Ok(Some(text))) => {
                assert_eq!(outcome.item().unwrap().body(), text.as_bytes());
                self.oracle.insert((k, i), text);
            }
            (Err(error), Err(kind)) => assert_eq!(error.kind(), kind),
            (got, expect) => panic!("got {got:?}, expected {expect:?}"),
        }
    }

    /// A batch of creates: all or none, by whether any id is taken or repeated.
    async fn batch(&mut self, k: u8, creates: &[(u8, u8)]) {
        let ops = creates.iter().map(|(i, n)| ItemOp::Create { body: body(&text(k, *i, *n)) });
        let ctx = &mut test_context();
        let key = string_key(&k.to_string());
        let results = self
            .harness
            .engine
            .write_batch(ctx, &self.container, key, ops.collect())
            .await
            .unwrap();
        let mut after = self.oracle.clone();
        let fits = creates.iter().all(|(i, n)| after.insert((k, *i), text(k, *i, *n)).is_none());
        assert_eq!(results.iter().all(|r| r.outcome.is_ok()), fits);
        if fits {
            self.oracle = after;
        }
    }

    fn crash(&mut self) {
        self.store = Arc::new(self.store.crash(0));
        self.harness = Harness::on(Arc::<FaultyStore>::clone(&self.store));
        self.container = self.harness.find("c");
    }

    async fn check(&mut self) {
        for k in 0..5u8 {
            for i in 0..6u8 {
                let read = self.harness.read(&self.container, &k.to_string(), &i.to_string());
                let found = read.ok().map(|item| String::from_utf8(item.body().to_vec()).unwrap());
                assert_eq!(found.as_ref(), self.oracle.get(&(k, i)));
            }
        }
        let listed = self.harness.list(&self.container, Scope::All, 4).await;
        assert_eq!(listed.len(), self.oracle.len());
        let counted: u64 =
            self.harness.engine.statistics(&self.container).iter().map(|(_, items, _)| items).sum();
        assert_eq!(counted, self.oracle.len() as u64);
        let ctx = &mut test_context();
        let page = Default::default();
        self.harness.engine.list_items(ctx, &self.container, Scope::All, page).await.unwrap();
        let lsn = ctx.served.ranges.iter().map(|(_, lsn)| lsn.0).sum();
        assert!(lsn >= self.lsn, "positions never go back");
        self.lsn = lsn;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_engine_agrees_with_a_map(steps in steps(), ranges in prop::sample::select(vec![1u32, 3, 8])) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut run = Run::start(ranges).await;
            for step in steps {
                run.step(step).await;
            }
            run.check().await;
            run.crash();
            run.check().await;
        });
    }
}
