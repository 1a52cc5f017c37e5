//! Where pages of the change feed end, and that every page makes progress.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use engine::changes::{ChangesMode, ChangesPage, ChangesStart};
use engine::ops::{ItemOp, Scope};
use engine::{Container, RangeId, Settings, Throttling};
use model::{EpkRange, PartitionId};
use storage::{Cursor, Dir, KeyRange, MemoryStore, StoreError, View};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, body, string_key, test_context};
use testkit::hooked::{HookedStore, Hooks};

const MANY: usize = 1_000;

fn item(id: &str, key: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"{key}"}}"#)
}

/// A key that lies in `range`.
fn key_in(c: &Container, range: &EpkRange) -> String {
    let in_range = |key: &String| {
        let place = model::epk::effective_partition_key(&c.spec.partition_key, &string_key(key));
        range.contains(&place)
    };
    (0..).map(|n: u32| n.to_string()).find(in_range).unwrap()
}

/// Creates items `{name}0`, `{name}1` and so on in one transaction.
async fn create_together(h: &Harness, c: &Arc<Container>, key: &str, name: &str, count: usize) {
    let ops = (0..count).map(|n| ItemOp::Create { body: body(&item(&format!("{name}{n}"), key)) });
    let ctx = &mut test_context();
    h.engine.write_batch(ctx, c, string_key(key), ops.collect()).await.unwrap();
}

async fn page(
    h: &Harness,
    c: &Arc<Container>,
    scope: Scope,
    start: &mut ChangesStart,
    items_max: usize,
) -> ChangesPage {
    let mode = ChangesMode::LatestVersion;
    let page = h.changes(c, scope, mode, start.clone(), items_max).await.unwrap();
    *start = ChangesStart::After(page.position.clone());
    page
}

#[tokio::test]
async fn a_transaction_larger_than_a_page_gets_its_turn_beside_a_busy_range() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let routing = c.routing();
    let [busy, other] = [0, 1].map(|at| key_in(&c, &routing.ranges()[at].epk));
    let mut start = ChangesStart::Now;
    page(&h, &c, Scope::All, &mut start, 3).await;
    create_together(&h, &c, &other, "t", 5).await;
    let mut sizes = Vec::new();
    for n in 0..4 {
        h.create(&c, &busy, &item(&n.to_string(), &busy)).await.unwrap();
        sizes.push(page(&h, &c, Scope::All, &mut start, 3).await.changes.len());
    }
    assert_eq!(sizes, [1, 5, 2, 1], "after the first page it is the transaction's turn");
}

#[tokio::test]
async fn a_feed_gets_on_with_a_share_that_one_look_uses_up() {
    let settings =
        Settings { throttling: Throttling::On, partition_ru_max: 1, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container("c", 1).await;
    for id in ["1", "2", "3"] {
        h.create(&c, "a", &item(id, "a")).await.unwrap();
        h.clock.advance(Duration::from_secs(60));
    }
    let mut start = ChangesStart::Beginning;
    for _ in 0..3 {
        assert_eq!(page(&h, &c, Scope::All, &mut start, MANY).await.changes.len(), 1);
        h.clock.advance(Duration::from_secs(60));
    }
    assert!(page(&h, &c, Scope::All, &mut start, MANY).await.is_caught_up);
}

#[tokio::test]
async fn a_scope_that_covers_nothing_leaves_a_position_as_it_is() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let routing = c.routing();
    for n in 0..10 {
        let key = n.to_string();
        h.create(&c, &key, &item(&key, &key)).await.unwrap();
    }
    let epk = Some(routing.ranges()[1].epk.clone());
    let nothing = || Scope::Range { id: RangeId(0), epk: epk.clone() };
    let mut start = ChangesStart::Beginning;
    page(&h, &c, Scope::All, &mut start, 3).await;
    let before = start.clone();
    let empty = page(&h, &c, nothing(), &mut start, MANY).await;
    assert!(empty.changes.is_empty() && empty.is_caught_up);
    assert_eq!(start, before);
    // A start from now stays one, wherever it is used again.
    let mut start = ChangesStart::Now;
    page(&h, &c, nothing(), &mut start, MANY).await;
    assert!(page(&h, &c, Scope::All, &mut start, MANY).await.changes.is_empty());
    h.create(&c, "new", &item("new", "new")).await.unwrap();
    assert_eq!(page(&h, &c, Scope::All, &mut start, MANY).await.changes.len(), 1);
}

/// Makes every point lookup take 50 ms.
#[derive(Default)]
struct SlowReads {
    clock: Arc<OnceLock<Arc<ManualClock>>>,
}

struct SlowView {
    inner: Arc<dyn View>,
    clock: Arc<OnceLock<Arc<ManualClock>>>,
}

impl View for SlowView {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if let Some(clock) = self.clock.get() {
            clock.advance(Duration::from_millis(50));
        }
        self.inner.get(p, k)
    }

    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError> {
        self.inner.scan(p, range, dir)
    }
}

impl Hooks for SlowReads {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        Arc::new(SlowView { inner: take(), clock: Arc::clone(&self.clock) })
    }
}

/// The clock is checked only every few entries; transactions must not let a page miss it every
/// time.
#[tokio::test]
async fn a_page_ends_after_a_second_whatever_sizes_transactions_have() {
    let store = HookedStore::new(MemoryStore::new(), SlowReads::default());
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let c = h.container("c", 1).await;
    h.create(&c, "a", &item("first", "a")).await.unwrap();
    for n in 0..100 {
        create_together(&h, &c, "a", &format!("t{n}-"), 2).await;
    }
    assert!(store.hooks.clock.set(Arc::clone(&h.clock)).is_ok());
    let mut start = ChangesStart::Beginning;
    let first = page(&h, &c, Scope::All, &mut start, MANY).await;
    assert!(first.changes.len() < 100, "{} changes at 50 ms each", first.changes.len());
    assert!(!first.is_caught_up);
}
