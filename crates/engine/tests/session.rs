//! The LSNs that answers report are never ahead of what they show.

use std::sync::{Arc, Mutex};

use engine::ops::{PageRequest, Scope};
use storage::{MemoryStore, View};
use testkit::harness::{Harness, test_context};
use testkit::hooked::{HookedStore, Hooks};

type Work = Box<dyn FnOnce() + Send>;

/// Runs some work right after the next view was taken.
#[derive(Default)]
struct AfterView {
    work: Mutex<Option<Work>>,
}

impl Hooks for AfterView {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        let view = take();
        let work = self.work.lock().expect("no panic holds it").take();
        if let Some(work) = work {
            work();
        }
        view
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_names_no_position_that_it_does_not_show() {
    let store = HookedStore::new(MemoryStore::new(), AfterView::default());
    let h = Arc::new(Harness::on(Arc::<HookedStore<_, _>>::clone(&store)));
    let c = h.container("c", 1).await;
    h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    let shown = c.routing().ranges()[0].lsn();
    let (writer, to, runtime) = (Arc::clone(&h), Arc::clone(&c), tokio::runtime::Handle::current());
    let write = move || {
        let created = runtime.block_on(writer.create(&to, "a", r#"{"id":"2","pk":"a"}"#));
        created.expect("an item");
    };
    *store.hooks.work.lock().unwrap() = Some(Box::new(write));
    let ctx = &mut test_context();
    let page = h.engine.list_items(ctx, &c, Scope::All, PageRequest::default()).await.unwrap();
    assert_eq!(page.rows.len(), 1);
    assert_eq!(c.routing().ranges()[0].lsn(), shown.next());
    assert_eq!(ctx.served.ranges, [(c.routing().ranges()[0].id, shown)]);
}
