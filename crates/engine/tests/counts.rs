//! Queries that only count read no items, however many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use engine::gather::GatherRequest;
use engine::ops::{AccessPathKind, PageRequest, Row, Scope};
use engine::{Container, ContainerSpec};
use model::PartitionId;
use storage::{Cursor, Dir, KeyRange, MemoryStore, StoreError, View};
use testkit::harness::{Harness, spec, string_key, test_context};
use testkit::hooked::{HookedStore, Hooks};

/// The texts that clients send, and those that SDKs send to ranges, with what their answers have
/// before and after the number.
const FORMS: [(&str, &str, &str); 6] = [
    ("SELECT VALUE COUNT(1) FROM c", "", ""),
    ("SELECT COUNT(1) AS n FROM c", "{\"n\":", "}"),
    ("SELECT VALUE COUNT(\"any\") FROM c", "", ""),
    ("SELECT VALUE COUNT(false) FROM c", "", ""),
    ("SELECT VALUE [{\"item\": COUNT(1)}] FROM c", "[{\"item\":", "}]"),
    (
        "SELECT VALUE {\"payload\": {\"n\": {\"item\": COUNT(1)}}} FROM c",
        "{\"payload\":{\"n\":{\"item\":",
        "}}}",
    ),
];

/// Counts the reads of a store.
#[derive(Default)]
struct Looks(Arc<Figures>);

#[derive(Default)]
struct Figures {
    /// Keys that were looked up.
    gets: AtomicU64,
    /// Keys that were scanned.
    walked: AtomicU64,
    /// How many items each counter reports, instead of the real number.
    pretended: AtomicU64,
}

/// The work that a query took.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    gets: u64,
    walked: u64,
    /// Pieces of work that ran on other threads.
    handed_over: u64,
    /// How often it gave way to other tasks, as long work does.
    gave_way: u64,
}

impl Taken {
    fn so_far(h: &Harness, figures: &Figures) -> Self {
        Self {
            gets: figures.gets.load(Ordering::SeqCst),
            walked: figures.walked.load(Ordering::SeqCst),
            handed_over: h.spawner.blocking(),
            gave_way: h.spawner.given_way(),
        }
    }

    fn since(self, before: &Self) -> Self {
        Self {
            gets: self.gets - before.gets,
            walked: self.walked - before.walked,
            handed_over: self.handed_over - before.handed_over,
            gave_way: self.gave_way - before.gave_way,
        }
    }
}

impl Hooks for Looks {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        Arc::new(Watched { inner: take(), figures: Arc::clone(&self.0) })
    }
}

struct Watched {
    inner: Arc<dyn View>,
    figures: Arc<Figures>,
}

impl View for Watched {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.figures.gets.fetch_add(1, Ordering::SeqCst);
        let value = self.inner.get(p, k)?;
        let pretended = self.figures.pretended.load(Ordering::SeqCst);
        // Counters of a logical partition end with the number of items, those of a partition with
        // that number and 40 bytes behind it; `docs/format.md` has both.
        let from_end = match k {
            [0x12, ..] => 8,
            [_, rest @ ..] if rest == b"state" => 48,
            _ => return Ok(value),
        };
        Ok(value.filter(|_| pretended > 0).map_or(self.inner.get(p, k)?, |value| {
            let mut changed = value.to_vec();
            let at = changed.len() - from_end;
            changed[at..at + 8].copy_from_slice(&pretended.to_be_bytes());
            Some(changed.into())
        }))
    }

    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError> {
        let inner = self.inner.scan(p, range, dir)?;
        Ok(Box::new(Walked { inner, figures: Arc::clone(&self.figures) }))
    }
}

struct Walked<'v> {
    inner: Box<dyn Cursor + Send + 'v>,
    figures: Arc<Figures>,
}

impl Cursor for Walked<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StoreError> {
        self.figures.walked.fetch_add(1, Ordering::SeqCst);
        self.inner.next()
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.inner.row()
    }

    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError> {
        self.inner.seek(k)
    }
}

/// An engine, and the read counts of its store.
fn watched() -> (Harness, Arc<Figures>) {
    let looks = Looks::default();
    let figures = Arc::clone(&looks.0);
    (Harness::on(HookedStore::new(MemoryStore::new(), looks)), figures)
}

/// The number in the only row of a gathered query.
async fn gathered(h: &Harness, c: &Arc<Container>, text: &str) -> String {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let (mut ctx, request) = (test_context(), GatherRequest::default());
    let gathered = h.engine.gather(&mut ctx, c, plan, Scope::All, request).await;
    let gathered = gathered.expect("a page");
    let [Row::Json(row)] = gathered.rows.as_slice() else { panic!("{gathered:?}") };
    String::from_utf8(row.clone()).expect("text")
}

async fn fill(h: &Harness, c: &Arc<Container>, items: std::ops::Range<u32>) {
    for n in items {
        let key = if n % 2 == 0 { "even".to_owned() } else { n.to_string() };
        h.create(c, &key, &format!(r#"{{"id":"{n}","pk":"{key}"}}"#)).await.expect("an item");
    }
}

/// The row, its charge and whether it was made without items.
async fn page(h: &Harness, c: &Arc<Container>, text: &str, scope: Scope) -> (String, String, bool) {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let mut ctx = test_context();
    let request = PageRequest { items_max: Some(10), wants_report: true, ..PageRequest::default() };
    let page = h.engine.query(&mut ctx, c, plan, scope, request).await.expect("a page");
    let [Row::Json(text)] = page.rows.as_slice() else { panic!("{:?}", page.rows) };
    let is_counted = page.report.expect("a report").access_path == AccessPathKind::Counted;
    let text = String::from_utf8(text.clone()).expect("text");
    (text, ctx.served.charge.to_string(), is_counted)
}

#[tokio::test]
async fn a_count_looks_at_no_item_and_costs_the_same_however_many_there_are() {
    let h = Harness::in_memory();
    let c = h.container_with(spec("c"), 3).await;
    for items in [0..6, 6..40, 40..100] {
        let count = items.end;
        fill(&h, &c, items).await;
        for (text, before, after) in FORMS {
            let expected = format!("{before}{count}{after}");
            let all = page(&h, &c, text, Scope::All).await;
            assert_eq!(all, (expected.clone(), "6.75".to_owned(), true), "{text}");
            let key = page(&h, &c, text, Scope::Key(string_key("even"))).await;
            let half = format!("{before}{}{after}", count / 2);
            assert_eq!(key, (half, "2.25".to_owned(), true), "{text}");
            let none = page(&h, &c, text, Scope::Key(string_key("nothing"))).await;
            assert_eq!(none, (format!("{before}0{after}"), "2.25".to_owned(), true), "{text}");
            let plan = lang::nosql::compile(text, &[]).expect("a query");
            let mut ctx = test_context();
            let request = GatherRequest { wants_report: true, ..GatherRequest::default() };
            let gathered = h.engine.gather(&mut ctx, &c, plan, Scope::All, request).await;
            let gathered = gathered.expect("a page");
            let [Row::Json(row)] = gathered.rows.as_slice() else { panic!("{gathered:?}") };
            assert_eq!(row, expected.as_bytes(), "{text}");
            assert_eq!(ctx.served.charge.to_string(), "6.75", "{text}");
            for part in &gathered.parts {
                let report = part.report.as_ref().expect("a report");
                assert_eq!(report.access_path, AccessPathKind::Counted, "{text}");
            }
        }
    }
}

#[tokio::test]
async fn items_that_may_have_expired_are_looked_at() {
    let h = Harness::in_memory();
    let c = h.container_with(ContainerSpec { default_ttl: Some(-1), ..spec("c") }, 1).await;
    fill(&h, &c, 0..10).await;
    let body = r#"{"id":"short","pk":"even","ttl":1}"#;
    h.create(&c, "even", body).await.expect("an item");
    for (text, before, after) in FORMS {
        let all = page(&h, &c, text, Scope::All).await;
        assert_eq!(all, (format!("{before}11{after}"), "2.58".to_owned(), false), "{text}");
    }
    h.clock.advance(std::time::Duration::from_secs(5));
    for (text, before, after) in FORMS {
        let (row, _, is_counted) = page(&h, &c, text, Scope::All).await;
        assert_eq!((row, is_counted), (format!("{before}10{after}"), false), "{text}");
    }
}

/// More items than may be counted one by one without giving way, and few enough that the test ends
/// soon if they are.
const PRETENDED: u64 = 200_000;

#[tokio::test]
async fn a_count_takes_as_much_work_however_many_items_there_are() {
    let (h, figures) = watched();
    let c = h.container_with(spec("c"), 3).await;
    let mut first: Vec<Taken> = Vec::new();
    for (items, pretended) in [(0..6, 0), (6..100, 0), (100..100, PRETENDED)] {
        let count = items.end;
        fill(&h, &c, items).await;
        figures.pretended.store(pretended, Ordering::SeqCst);
        let (all, key) = match pretended {
            0 => (u64::from(count), u64::from(count / 2)),
            each => (3 * each, each),
        };
        let mut all_taken = Vec::new();
        for (text, before, after) in FORMS {
            let row = |number: u64| format!("{before}{number}{after}");
            let start = Taken::so_far(&h, &figures);
            assert_eq!(page(&h, &c, text, Scope::All).await.0, row(all), "{text}");
            let whole = Taken::so_far(&h, &figures);
            let of_key = page(&h, &c, text, Scope::Key(string_key("even"))).await;
            assert_eq!(of_key.0, row(key), "{text}");
            let keyed = Taken::so_far(&h, &figures);
            assert_eq!(gathered(&h, &c, text).await, row(all), "{text}");
            let end = Taken::so_far(&h, &figures);
            let taken = [
                Taken::so_far(&h, &figures).since(&keyed),
                keyed.since(&whole),
                whole.since(&start),
            ];
            assert_eq!(end.handed_over, start.handed_over, "{text}");
            for (taken, counters) in taken.iter().zip([3, 1, 3]) {
                assert!(taken.gets <= 2 * counters && taken.walked == 0, "{text} {taken:?}");
                assert_eq!(taken.handed_over, 0, "{text}");
            }
            all_taken.extend(taken);
        }
        match first.is_empty() {
            true => first = all_taken,
            false => assert_eq!(all_taken, first, "{count} items, {pretended} pretended"),
        }
    }
}

#[tokio::test]
async fn items_that_may_have_expired_are_counted_one_by_one() {
    let (h, figures) = watched();
    let c = h.container_with(ContainerSpec { default_ttl: Some(-1), ..spec("c") }, 3).await;
    fill(&h, &c, 0..40).await;
    figures.pretended.store(PRETENDED, Ordering::SeqCst);
    for (text, before, after) in FORMS {
        let row = |number: u64| format!("{before}{number}{after}");
        let start = Taken::so_far(&h, &figures);
        assert_eq!(page(&h, &c, text, Scope::All).await.0, row(40), "{text}");
        let whole = Taken::so_far(&h, &figures);
        let key = page(&h, &c, text, Scope::Key(string_key("even"))).await;
        assert_eq!(key.0, row(20), "{text}");
        let keyed = Taken::so_far(&h, &figures);
        assert_eq!(gathered(&h, &c, text).await, row(40), "{text}");
        let end = Taken::so_far(&h, &figures);
        assert!(end.since(&keyed).walked >= 40, "{text}");
        assert!(keyed.since(&whole).walked >= 20, "{text}");
        assert!(whole.since(&start).walked >= 40, "{text}");
    }
}
