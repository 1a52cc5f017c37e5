//! What the log says of single operations.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use engine::ops::{PageRequest, Scope};
use engine::{Caller, RequestContext, Source};
use storage::{MemoryStore, View};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, string_key};
use testkit::hooked::{HookedStore, Hooks};

/// Makes each view of a store take long, once the test says so.
#[derive(Default)]
struct SlowViews {
    clock: OnceLock<Arc<ManualClock>>,
}

impl Hooks for SlowViews {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        if let Some(clock) = self.clock.get() {
            clock.advance(Duration::from_secs(3));
        }
        take()
    }
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<String>>>);

impl LogLines {
    /// The log of all tests. Each test begins with it: an event that was first met without a
    /// subscriber may be left out later.
    fn of_process() -> &'static Self {
        static LINES: OnceLock<LogLines> = OnceLock::new();
        LINES.get_or_init(|| {
            let lines = LogLines::default();
            tracing::subscriber::set_global_default(lines.clone()).expect("the first subscriber");
            lines
        })
    }

    /// Lines about requests with this activity.
    fn of(&self, activity: &str) -> Vec<String> {
        let part = format!("activity={activity} ");
        let lines = self.0.lock().expect("a lock that no test poisons");
        lines.iter().filter(|line| line.contains(&part)).cloned().collect()
    }
}

impl tracing::Subscriber for LogLines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            line.push_str(&format!("{field}={value:?} "));
        });
        self.0.lock().expect("a lock that no test poisons").push(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn an_operation_that_took_long_is_logged_with_activity_and_caller() {
    let lines = LogLines::of_process();
    let store = HookedStore::new(MemoryStore::new(), SlowViews::default());
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let c = h.container("c", 1).await;
    h.create(&c, "k", r#"{"id":"1","pk":"k"}"#).await.expect("an item");
    let list = async || {
        let caller = Caller::Principal("p-1".into());
        let mut ctx = RequestContext::new(caller, Source::NoSql, "activity-7");
        let scope = Scope::Key(string_key("k"));
        let page = h.engine.list_items(&mut ctx, &c, scope, PageRequest::default()).await;
        page.expect("a page");
    };
    list().await;
    assert_eq!(lines.of("activity-7"), Vec::<String>::new());
    store.hooks.clock.get_or_init(|| Arc::clone(&h.clock));
    list().await;
    let lines = lines.of("activity-7");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    let parts = [
        "message=an operation took long",
        r#"operation="query""#,
        r#"container="c""#,
        r#"caller=Principal("p-1")"#,
        "source=NoSql",
        "took=3s",
    ];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
}

#[tokio::test]
async fn a_change_of_the_catalog_is_logged_with_activity_and_caller() {
    let lines = LogLines::of_process();
    let h = Harness::in_memory();
    let caller = Caller::Grantee("token".into());
    let ctx = RequestContext::new(caller, Source::Table, "activity-8");
    let database = h.engine.create_database(&ctx, "d", None).await.expect("a database");
    h.engine.delete_database(&ctx, database.rid, None).await.expect("a delete");
    h.engine.delete_database(&ctx, database.rid, None).await.expect_err("it is gone");
    let lines = lines.of("activity-8");
    let [created, deleted] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(created.contains(r#"operation="create_database""#), "{created}");
    assert!(deleted.contains(r#"operation="delete_database""#), "{deleted}");
    let parts = ["a change was made", "subject=d", r#"caller=Grantee("token")"#, "source=Table"];
    assert!(parts.iter().all(|part| created.contains(part) && deleted.contains(part)), "{lines:?}");
}
