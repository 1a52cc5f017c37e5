//! Followers of change feeds: each continues where its last page ended, through restarts, splits
//! and merges, and must be shown everything in order.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesPage, ChangesRequest, ChangesStart, ItemChange};
use engine::components::Clock;
use engine::ops::Scope;
use engine::{Container, Error, InvalidRequest};
use model::{ContainerRid, Lsn, PartitionKeyComponent};

use crate::client::{Client, Reply};
use crate::item::{Content, ItemName, WriteId};
use crate::random::Stream;
use crate::record::{FeedStart, Moment, Wait};
use crate::world::World;

/// How often a position can be too old before its follower gives up: the clock may be set again.
const TOO_OLD_MAX: u64 = 20;
const PAUSE_WHEN_TOO_OLD: Duration = Duration::from_millis(300);

/// The feed that a follower reads, and what it has seen of it.
struct Feed {
    container: ContainerRid,
    /// One key of the container, or all of it.
    key: Option<String>,
    mode: ChangesMode,
    from: ChangesStart,
    /// When the first page came.
    since: Option<Moment>,
    observed: ObservedChanges,
    /// How often its position was too old.
    too_old: u64,
}

/// What was shown so far.
#[derive(Default)]
pub(crate) struct ObservedChanges {
    /// The last change of each item.
    pub(crate) last: BTreeMap<ItemName, LastChange>,
    /// Writes whose versions were shown.
    pub(crate) writes: BTreeSet<WriteId>,
    /// How often each item was shown as deleted by a client.
    pub(crate) deletes: BTreeMap<ItemName, u64>,
}

/// A change that was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastChange {
    pub(crate) lsn: Lsn,
    pub(crate) is_delete: bool,
}

/// Reads feeds for as long as clients work.
pub(crate) struct FeedReader {
    world: Rc<World>,
    name: String,
    chance: Stream,
    client: Client,
}

impl FeedReader {
    pub(crate) fn new(world: Rc<World>, name: String, chance: Stream) -> Self {
        let client = Client::new(Rc::clone(&world), name.clone(), chance.fork("requests"));
        Self { world, name, chance, client }
    }

    /// Follows one feed after the other. Once the disasters have ended, the last one is read to its
    /// end.
    pub(crate) async fn run(mut self) {
        while !self.world.has_failed() {
            let Some(feed) = self.choose_feed().await else { return };
            let is_over = self.follow(feed).await;
            if is_over {
                return;
            }
        }
    }

    async fn choose_feed(&mut self) -> Option<Feed> {
        let container = self.client.choose_container().await?;
        let keeps_versions = self.world.catalog().is_some_and(|catalog| {
            let found = catalog.container_by_rid(container);
            found.is_some_and(|c| c.spec.versions_minutes > 0)
        });
        let mode = match keeps_versions && self.chance.percent(60) {
            true => ChangesMode::AllVersionsAndDeletes,
            false => ChangesMode::LatestVersion,
        };
        let from = match (mode, self.chance.below(4)) {
            (ChangesMode::AllVersionsAndDeletes, _) | (_, 0) => ChangesStart::Now,
            (ChangesMode::LatestVersion, 1) => {
                let now = self.world.now().seconds;
                ChangesStart::Time(now - self.chance.below(3))
            }
            (ChangesMode::LatestVersion, _) => ChangesStart::Beginning,
        };
        let key = self.chance.percent(25).then(|| self.client.choose_key());
        let feed = Feed {
            container,
            key,
            mode,
            from,
            since: None,
            observed: ObservedChanges::default(),
            too_old: 0,
        };
        self.world.note(format_args!(
            "{}: follows {container}, key {:?}, {mode:?} from {:?}",
            self.name, feed.key, feed.from
        ));
        Some(feed)
    }

    /// Reads until the feed can't be read any more, or is read to its end for the last time.
    async fn follow(&mut self, mut feed: Feed) -> bool {
        let losses = self.world.losses();
        let mut position = feed.from.clone();
        loop {
            let was_calm = self.world.is_calm();
            let Some(reply) = self.read_page(&feed, position.clone()).await else {
                self.world.clock.sleep(Duration::from_millis(20)).await;
                continue;
            };
            // Changes that were lost may have been shown already, and their positions are assigned
            // again.
            if self.world.losses() != losses {
                self.client.forget(feed.container);
                return false;
            }
            let page = match reply.result {
                Ok(page) => page,
                Err(error) => match self.take_error(&mut feed, &error, reply.wait) {
                    Next::Retry => continue,
                    Next::Wait => {
                        self.world.clock.sleep(PAUSE_WHEN_TOO_OLD).await;
                        continue;
                    }
                    Next::GiveUp => return false,
                },
            };
            self.client.learn_session(feed.container, &reply.served);
            self.take_page(&mut feed, &page, reply.wait);
            position = ChangesStart::After(page.position);
            if page.is_caught_up && was_calm {
                return true;
            }
            if page.is_caught_up || self.chance.percent(20) {
                let pause = Duration::from_micros(self.chance.below(400_000));
                self.world.clock.sleep(pause).await;
            }
            if self.chance.percent(2) && !self.world.is_calm() {
                return false;
            }
        }
    }

    async fn read_page(&mut self, feed: &Feed, start: ChangesStart) -> Option<Reply<ChangesPage>> {
        let scope = match &feed.key {
            Some(key) => Scope::Key(self.world.plan.partition_key(key)),
            None => Scope::All,
        };
        let items_max = Some(self.chance.index(4) + 1);
        let request = ChangesRequest { mode: feed.mode, start, items_max };
        let ask = async move |engine: engine::Engine,
                              container: Arc<Container>,
                              mut ctx: engine::RequestContext| {
            (engine.read_changes(&mut ctx, &container, scope, request).await, ctx)
        };
        self.client.ask("changes", feed.container, ask).await
    }

    fn take_error(&mut self, feed: &mut Feed, error: &Error, wait: Wait) -> Next {
        self.world.note(format_args!("{}: changes of {}: {error:?}", self.name, feed.container));
        match error {
            Error::RangeMoving | Error::Throttled { .. } | Error::Unavailable(_) => Next::Retry,
            // After the clock was set, positions may be too old, or versions may have been removed.
            Error::InvalidRequest(why)
                if **why == InvalidRequest::VersionsRemoved
                    && feed.mode == ChangesMode::AllVersionsAndDeletes
                    && self.world.record.borrow().was_clock_set() =>
            {
                feed.too_old += 1;
                if feed.too_old < TOO_OLD_MAX { Next::Wait } else { Next::GiveUp }
            }
            _ => {
                self.client.take_error(feed.container, error, wait);
                Next::GiveUp
            }
        }
    }

    fn take_page(&mut self, feed: &mut Feed, page: &ChangesPage, wait: Wait) {
        self.world.note(format_args!(
            "{}: {} changes of {}, caught up: {}",
            self.name,
            page.changes.len(),
            feed.container,
            page.is_caught_up
        ));
        for change in &page.changes {
            let taken = self.take_change(feed, change, wait);
            self.world.fail_on_violation(taken);
        }
        let since = *feed.since.get_or_insert(wait.to);
        if page.is_caught_up {
            let start = match feed.from {
                ChangesStart::Beginning => FeedStart::Beginning,
                ChangesStart::Time(seconds) => FeedStart::Seconds(seconds),
                ChangesStart::Now | ChangesStart::After(_) => FeedStart::Turn(since.step),
            };
            let (container, key) = (feed.container, feed.key.as_deref());
            let record = self.world.record.borrow();
            let checked = match feed.mode {
                ChangesMode::LatestVersion => {
                    record.check_latest_shown(container, key, start, &feed.observed, wait)
                }
                ChangesMode::AllVersionsAndDeletes => {
                    record.check_all_shown(container, key, since.step, &feed.observed, wait)
                }
            };
            self.world.fail_on_violation(checked.map_err(|why| format!("{}: {why}", self.name)));
        }
    }

    /// Checks one change, and that it comes after those of the same item before it.
    fn take_change(
        &mut self,
        feed: &mut Feed,
        change: &ItemChange,
        wait: Wait,
    ) -> Result<(), String> {
        let (name, previous) = match change {
            ItemChange::Latest(item) | ItemChange::Put { item, .. } => {
                let parsed = Content::parse(item.body());
                let Some((key, id, content)) = parsed else {
                    return Err(format!("{} was shown {:?}", self.name, item.body()));
                };
                feed.observed.writes.insert(content.last());
                let name = ItemName { container: feed.container, key, id };
                let record = self.world.record.borrow();
                match change {
                    ItemChange::Put { previous, .. } => {
                        record.check_version(&name, &content, wait)?;
                        (name, Some(*previous))
                    }
                    ItemChange::Latest(_) | ItemChange::Delete(_) => {
                        record.check_shown(&name, item, wait)?;
                        (name, None)
                    }
                }
            }
            ItemChange::Delete(deleted) => {
                let key = match deleted.partition_key().0.as_slice() {
                    [PartitionKeyComponent::String(key), ..] => key.clone(),
                    other => return Err(format!("{} was shown the key {other:?}", self.name)),
                };
                let id = deleted.id.as_text().into_owned();
                let name = ItemName { container: feed.container, key, id };
                *feed.observed.deletes.entry(name.clone()).or_default() +=
                    u64::from(!deleted.is_expired);
                (name, Some(deleted.previous))
            }
        };
        if feed.key.as_ref().is_some_and(|key| *key != name.key) {
            return Err(format!("{} follows {:?} and was shown {name}", self.name, feed.key));
        }
        let now =
            LastChange { lsn: change.lsn(), is_delete: matches!(change, ItemChange::Delete(_)) };
        let before = feed.observed.last.insert(name.clone(), now);
        check_order(&name, before, now, previous).map_err(|why| format!("{}: {why}", self.name))
    }
}

/// What to do after an error.
enum Next {
    Retry,
    Wait,
    GiveUp,
}

/// Whether a change may follow the last one shown for its item. `previous` is the previous version
/// that the change itself contains, in feeds that have it.
fn check_order(
    name: &ItemName,
    before: Option<LastChange>,
    now: LastChange,
    previous: Option<Option<Lsn>>,
) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    // An item that replaces an expired one has the same LSN as the expiry.
    let replaces = before.is_delete && !now.is_delete && before.lsn == now.lsn;
    if now.lsn <= before.lsn && !replaces {
        return Err(format!("{name} was shown at {:?} after {:?}", now.lsn, before.lsn));
    }
    let expected = (!before.is_delete).then_some(before.lsn);
    match previous {
        Some(previous) if previous != expected => Err(format!(
            "{name} at {:?} comes after {previous:?}, but {before:?} was shown before",
            now.lsn
        )),
        _ => Ok(()),
    }
}
