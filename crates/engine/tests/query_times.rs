//! The times that a page reports.

use std::sync::Arc;
use std::time::Duration;

use engine::Container;
use engine::ops::{PageRequest, PageTimes, Scope};
use testkit::harness::{Harness, test_context};

/// How long a read of the clock takes here. Each phase measured once takes as long.
const LOOK: Duration = Duration::from_micros(10);
/// So few that each of them is measured.
const ITEMS: u32 = 16;

async fn filled() -> (Harness, Arc<Container>) {
    let harness = Harness::in_memory();
    let container = harness.container("c", 1).await;
    for n in 0..ITEMS {
        let text = format!(r#"{{"id":"{n}","pk":"{}","n":{n},"s":"a{n}"}}"#, n % 7);
        harness.create(&container, &(n % 7).to_string(), &text).await.expect("an item");
    }
    harness.clock.slow_down(LOOK);
    (harness, container)
}

async fn times_of(
    (harness, container): &(Harness, Arc<Container>),
    text: &str,
    wants_times: bool,
) -> Option<PageTimes> {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let request = PageRequest { items_max: Some(1000), wants_times, ..PageRequest::default() };
    let mut ctx = test_context();
    let page = harness.engine.query(&mut ctx, container, plan, Scope::All, request).await;
    page.expect("a page").times
}

/// The times of a page's phases that do not contain each other.
fn parts(times: &PageTimes) -> Duration {
    times.optimizing + times.choosing + times.index_lookup + times.loading
}

#[tokio::test]
async fn nothing_is_measured_unless_somebody_wants_to_know() {
    let fixture = filled().await;
    assert_eq!(times_of(&fixture, "SELECT * FROM c", false).await, None);
}

#[tokio::test]
async fn a_walk_over_all_items_loads_them_and_looks_nothing_up() {
    let fixture = filled().await;
    let times = times_of(&fixture, "SELECT * FROM c", true).await.expect("times");
    // So few items are loaded in one step.
    assert_eq!(times.loading, LOOK, "{times:?}");
    assert_eq!(times.index_lookup, Duration::ZERO, "{times:?}");
    assert_eq!((times.system_functions, times.user_functions), Default::default());
    assert!(times.optimizing > Duration::ZERO && times.choosing > Duration::ZERO, "{times:?}");
    assert!(times.total > Duration::ZERO, "{times:?}");
}

#[tokio::test]
async fn what_an_index_names_is_looked_up_and_then_loaded() {
    let fixture = filled().await;
    for text in [
        "SELECT * FROM c WHERE c.n = 7",
        "SELECT * FROM c WHERE c.n > 9 AND STARTSWITH(c.s, 'a1')",
        "SELECT TOP 5 * FROM c ORDER BY c.n",
    ] {
        let times = times_of(&fixture, text, true).await.expect("times");
        assert!(times.index_lookup > Duration::ZERO, "{text}: {times:?}");
        assert!(times.loading > Duration::ZERO, "{text}: {times:?}");
        assert!(parts(&times) <= times.total, "{text}: {times:?}");
    }
    let counted = times_of(&fixture, "SELECT VALUE COUNT(1) FROM c WHERE c.n > 5", true).await;
    let counted = counted.expect("times");
    assert!(counted.index_lookup > Duration::ZERO, "{counted:?}");
    assert_eq!(counted.loading, Duration::ZERO, "{counted:?}");
}

#[tokio::test]
async fn functions_are_told_from_what_calls_them() {
    let fixture = filled().await;
    for text in [
        "SELECT VALUE UPPER(c.s) FROM c",
        "SELECT VALUE c.id FROM c WHERE LENGTH(c.s) = 2",
        "SELECT VALUE LOWER(c.s) FROM c ORDER BY c.n",
        "SELECT LENGTH(c.s) AS l, COUNT(1) AS n FROM c GROUP BY LENGTH(c.s)",
        "SELECT DISTINCT VALUE LENGTH(c.s) FROM c",
    ] {
        let times = times_of(&fixture, text, true).await.expect("times");
        assert!(times.system_functions >= LOOK * ITEMS, "{text}: {times:?}");
        assert_eq!(times.user_functions, Duration::ZERO, "{text}: {times:?}");
    }
}
