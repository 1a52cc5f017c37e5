//! Cross-partition queries: which ranges they read, what they cost, when they end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::gather::{GatherRequest, Gathered};
use engine::ops::{AccessPathKind, Row, Scope};
use engine::{Container, Error, QueryLimit, RequestContext, Settings};
use storage::{MemoryStore, View};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, spec, string_key, test_context};
use testkit::hooked::{HookedStore, Hooks};

const ITEMS: usize = 80;

async fn fill(h: &Harness, ranges: u32) -> Arc<Container> {
    let c = h.container_with(spec("c"), ranges).await;
    for n in 0..ITEMS {
        let text = format!(r#"{{"id":"{n}","pk":"{n}","n":{n},"seventh":{}}}"#, n % 7);
        h.create(&c, &n.to_string(), &text).await.expect("an item");
    }
    c
}

async fn gather(
    h: &Harness,
    c: &Arc<Container>,
    text: &str,
    request: GatherRequest,
) -> Result<(Gathered, RequestContext), Error> {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let mut ctx = test_context();
    let page = h.engine.gather(&mut ctx, c, plan, Scope::All, request).await?;
    Ok((page, ctx))
}

fn texts(page: &Gathered) -> Vec<String> {
    let text = |row: &Row| match row {
        Row::Json(text) => String::from_utf8(text.clone()).expect("text"),
        Row::Item(item) => item.id().into_owned(),
    };
    page.rows.iter().map(text).collect()
}

#[tokio::test]
async fn only_ranges_that_can_have_rows_are_asked() {
    let h = Harness::in_memory();
    let c = fill(&h, 8).await;
    let asked = async |text: &str| {
        let (page, _) = gather(&h, &c, text, GatherRequest::default()).await.expect("a page");
        (page.parts.len(), page.rows.len())
    };
    assert_eq!(asked("SELECT * FROM c").await, (8, ITEMS));
    assert_eq!(asked("SELECT * FROM c WHERE c.pk = '7'").await, (1, 1));
    let (ranges, rows) = asked("SELECT * FROM c WHERE c.pk IN ('7', '8', '9')").await;
    assert!(ranges <= 3 && rows == 3, "{ranges} {rows}");
    // There is no range to read, but a count has a row all the same.
    let (page, _) =
        gather(&h, &c, "SELECT VALUE COUNT(1) FROM c WHERE false", GatherRequest::default())
            .await
            .expect("a page");
    assert_eq!(texts(&page), ["0"]);
    // A full page reads no further than it must.
    let few = GatherRequest { items_max: Some(2), ..GatherRequest::default() };
    let (page, _) = gather(&h, &c, "SELECT * FROM c", few).await.expect("a page");
    assert_eq!((page.parts.len(), page.rows.len()), (1, 2));
    let plan = lang::nosql::compile("SELECT VALUE c.id FROM c", &[]).expect("a query");
    let scope = Scope::Key(string_key("9"));
    let page = h
        .engine
        .gather(&mut test_context(), &c, plan, scope, GatherRequest::default())
        .await
        .expect("a page");
    assert_eq!(texts(&page), ["\"9\""]);
}

#[tokio::test]
async fn parts_say_what_they_did_and_charge_for_it() {
    let h = Harness::in_memory();
    let c = fill(&h, 4).await;
    let consumed =
        || h.engine.usage(&c).iter().map(|(_, usage)| usage.consumed).sum::<model::Charge>();
    for (text, way, rows) in [
        ("SELECT * FROM c WHERE c.seventh = 3", AccessPathKind::InStorageOrder, 11),
        ("SELECT VALUE COUNT(1) FROM c", AccessPathKind::Counted, 4),
    ] {
        let before = consumed();
        let request = GatherRequest { wants_report: true, ..GatherRequest::default() };
        let (page, ctx) = gather(&h, &c, text, request).await.expect("a page");
        assert_eq!(page.parts.iter().map(|part| part.rows).sum::<u64>(), rows, "{text}");
        for part in &page.parts {
            let report = part.report.as_ref().expect("a report");
            assert_eq!(report.access_path, way, "{text}");
            assert!(report.uses_index(), "{text}");
            let charge = report.ranges.iter().map(|range| range.charge).sum();
            assert_eq!(part.charge, charge, "{text}");
        }
        let charge = page.parts.iter().map(|part| part.charge).sum();
        assert_eq!(ctx.served.charge, charge, "{text}");
        assert_eq!(before + charge, consumed(), "{text}");
        assert_eq!(ctx.served.ranges.len(), 4, "{text}");
    }
}

#[tokio::test]
async fn explaining_reads_nothing_and_costs_nothing() {
    let h = Harness::in_memory();
    let c = fill(&h, 4).await;
    let plan = |text| lang::nosql::compile(text, &[]).expect("a query");
    let consumed =
        || h.engine.usage(&c).iter().map(|(_, usage)| usage.consumed).sum::<model::Charge>();
    let before = consumed();
    for text in ["SELECT * FROM c WHERE c.n > 7 ORDER BY c.n", "SELECT MAX(c.n) FROM c"] {
        let (_, parts) = h
            .engine
            .explain(&mut test_context(), &c, &plan(text), &Scope::All)
            .await
            .expect("a plan");
        assert_eq!(parts.len(), 4);
        for part in parts {
            let report = part.report.expect("a report");
            assert!(
                matches!(
                    report.access_path,
                    AccessPathKind::InIndexOrder(_) | AccessPathKind::FirstInIndexOrder(_)
                ),
                "{text}"
            );
            assert!(report.ranges.iter().all(|range| range.read.rows == 0));
        }
    }
    assert_eq!(consumed(), before);
}

#[tokio::test]
async fn tokens_of_others_are_refused() {
    let h = Harness::in_memory();
    let c = fill(&h, 2).await;
    let token = async |text: &str| {
        let request = GatherRequest { items_max: Some(1), ..GatherRequest::default() };
        let (page, _) = gather(&h, &c, text, request).await.expect("a page");
        page.continuation.expect("there is more")
    };
    let ordered = token("SELECT * FROM c ORDER BY c.n").await;
    let other = h.container_with(spec("other"), 2).await;
    for (container, token) in [(&other, ordered.clone()), (&c, ordered[1..].to_owned())] {
        let request = GatherRequest { continuation: Some(token), ..GatherRequest::default() };
        let refused = gather(&h, container, "SELECT * FROM c ORDER BY c.n", request).await;
        assert!(matches!(refused, Err(Error::InvalidRequest(_))), "{refused:?}");
    }
    // A token of another kind of query is not valid for this one, but does no harm.
    let request = GatherRequest { continuation: Some(ordered), ..GatherRequest::default() };
    let (page, _) = gather(&h, &c, "SELECT * FROM c", request).await.expect("a page");
    assert!(page.rows.len() <= ITEMS);
}

/// Lets time pass whenever a view of the store is taken.
#[derive(Default)]
struct SlowViews {
    clock: OnceLock<Arc<ManualClock>>,
    milliseconds: AtomicU64,
}

impl Hooks for SlowViews {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        if let Some(clock) = self.clock.get() {
            clock.advance(Duration::from_millis(self.milliseconds.load(Ordering::SeqCst)));
        }
        take()
    }
}

#[tokio::test]
async fn a_page_that_takes_long_goes_on_later_or_fails() {
    let store = HookedStore::new(MemoryStore::new(), SlowViews::default());
    let h = Harness::with_settings(store.clone(), Settings::default());
    let c = fill(&h, 8).await;
    assert!(store.hooks.clock.set(Arc::clone(&h.clock)).is_ok());
    store.hooks.milliseconds.store(2_000, Ordering::SeqCst);
    // Hardly any range has a row, and every range takes long.
    let text = "SELECT VALUE c.id FROM c WHERE c.n >= 78";
    let (mut rows, mut pages, mut token) = (Vec::new(), 0, None);
    loop {
        let request =
            GatherRequest { continuation: token, parallelism: Some(1), ..GatherRequest::default() };
        let (page, _) = gather(&h, &c, text, request).await.expect("a page");
        rows.extend(texts(&page));
        pages += 1;
        assert!(pages < 20, "pages come no further");
        token = page.continuation;
        if token.is_none() {
            break;
        }
    }
    assert!(pages > 1, "{pages}");
    rows.sort();
    assert_eq!(rows, ["\"78\"", "\"79\""]);
    store.hooks.milliseconds.store(20_000, Ordering::SeqCst);
    let request = GatherRequest { parallelism: Some(1), ..GatherRequest::default() };
    let buffered = GatherRequest { buffered_max: Some(1), ..request };
    let late = gather(&h, &c, "SELECT * FROM c ORDER BY c.n", buffered).await;
    assert!(matches!(late, Err(Error::QueryLimit(QueryLimit::Time))), "it goes on for ever");
}
