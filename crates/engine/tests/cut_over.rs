//! The moment at which new partitions replace old ones.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::components::{Clock, SystemRandom, Task, TokioSpawner};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Components, Container, Engine, RangeId, Settings, Throttling, Throughput};
use model::Timestamp;
use storage::MemoryStore;
use testkit::clock::ManualClock;
use testkit::harness::{Harness, START_SECONDS, spec, string_key, test_context};
use testkit::hooked::{HookedStore, Hooks};
use tokio::sync::oneshot;

/// Checks the ranges of a container whenever the clock is read, which the committer does at every
/// step of a cut-over.
struct WatchingClock {
    inner: ManualClock,
    watched: OnceLock<(Engine, Arc<Container>)>,
    looks: AtomicU64,
    /// How often a range was found without a share of the throughput.
    without_share: AtomicU64,
}

thread_local! {
    static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
}

impl Clock for WatchingClock {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn monotonic(&self) -> Duration {
        // The check itself reads the clock.
        if let Some((engine, container)) = self.watched.get()
            && !IS_LOOKING.replace(true)
        {
            self.looks.fetch_add(1, Ordering::SeqCst);
            let bare = engine.usage(container).iter().filter(|(_, u)| u.limit.is_none()).count();
            self.without_share.fetch_add(bare as u64, Ordering::SeqCst);
            IS_LOOKING.set(false);
        }
        self.inner.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Task {
        self.inner.sleep(duration)
    }
}

#[tokio::test]
async fn new_partitions_have_their_share_before_anybody_can_reach_them() {
    let clock = Arc::new(WatchingClock {
        inner: ManualClock::at(START_SECONDS),
        watched: OnceLock::new(),
        looks: AtomicU64::new(0),
        without_share: AtomicU64::new(0),
    });
    let components = Components {
        clock: Arc::<WatchingClock>::clone(&clock),
        random: Arc::new(SystemRandom),
        spawner: Arc::new(TokioSpawner::new(tokio::runtime::Handle::current())),
    };
    let settings = Settings { throttling: Throttling::On, ..Settings::default() };
    let engine = Engine::open(Arc::new(MemoryStore::new()), components, settings).unwrap();
    let rid = engine.create_database(&test_context(), "db", None).await.unwrap().rid;
    let throughput = Some(Throughput::Manual(400));
    let c = engine.create_container(&test_context(), rid, spec("c"), throughput).await.unwrap();
    assert!(clock.watched.set((engine.clone(), Arc::clone(&c))).is_ok());
    let how = Progression::Automatic;
    let job = engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::Midpoint, how)
        .await
        .unwrap();
    assert_eq!(engine.finish_job(job.id).await.unwrap().phase, JobPhase::Succeeded);
    let both: Vec<_> = c.routing().ranges().iter().map(|r| r.id).collect();
    let job = engine.start_merge(&test_context(), c.rid, &both, how).await.unwrap();
    assert_eq!(engine.finish_job(job.id).await.unwrap().phase, JobPhase::Succeeded);
    assert!(clock.looks.load(Ordering::SeqCst) > 0);
    assert_eq!(clock.without_share.load(Ordering::SeqCst), 0);
}

/// Holds up one of the next writes.
#[derive(Default)]
struct HeldWrite {
    held: Mutex<Option<Held>>,
}

struct Held {
    /// Writes that pass before that one.
    pass: usize,
    reached: oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

impl Hooks for HeldWrite {
    fn before_write(&self) {
        let mut slot = self.held.lock().expect("no panic holds it");
        match slot.as_mut() {
            Some(held) if held.pass > 0 => held.pass -= 1,
            Some(_) => {
                let held = slot.take();
                drop(slot);
                let Some(Held { reached, opened, .. }) = held else { return };
                let _ = (reached.send(()), opened.recv());
            }
            None => {}
        }
    }
}

fn poll<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_deleted_where_it_is_by_then() {
    let store = HookedStore::new(MemoryStore::new(), HeldWrite::default());
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let c = h.container("c", 1).await;
    for n in 0..10 {
        h.create(&c, "a", &format!(r#"{{"id":"{n}","pk":"a"}}"#)).await.unwrap();
        h.create(&c, "b", &format!(r#"{{"id":"{n}","pk":"b"}}"#)).await.unwrap();
    }
    // The first write starts the job, the second copies everything, and the third cuts over.
    let (reached, is_reached) = oneshot::channel();
    let (open, opened) = mpsc::channel();
    *store.hooks.held.lock().unwrap() = Some(Held { pass: 2, reached, opened });
    let how = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::ByteMedian, how)
        .await
        .unwrap();
    is_reached.await.unwrap();

    let ctx = &mut test_context();
    let before = h.spawner.blocking_ended();
    let mut deleting = Box::pin(h.engine.delete_partition_key(ctx, &c, string_key("a")));
    assert!(poll(&mut deleting).is_pending());
    // The ids are read from the old partition; the deletes wait behind the cut-over.
    while h.spawner.blocking_ended() == before {
        tokio::task::yield_now().await;
    }
    assert!(poll(&mut deleting).is_pending());
    assert_eq!(c.routing().ranges().len(), 1);
    open.send(()).unwrap();
    assert_eq!(h.engine.finish_job(job.id).await.unwrap().phase, JobPhase::Succeeded);
    deleting.await.unwrap();

    let routing = c.routing();
    let definition = &c.spec.partition_key;
    let place = model::epk::effective_partition_key(definition, &string_key("a"));
    let now = routing.ranges().iter().find(|r| r.epk.contains(&place)).unwrap();
    assert_eq!(ctx.served.ranges, [(now.id, now.lsn())]);
    let items: Vec<_> = h.engine.statistics(&c).iter().map(|(_, items, _)| *items).collect();
    assert_eq!(items.iter().sum::<u64>(), 10, "{items:?}");
    assert!(h.read(&c, "a", "1").is_err() && h.read(&c, "b", "1").is_ok());
}
