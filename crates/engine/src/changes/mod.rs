//! The change feed: what happened to the items of a scope, in order.
//!
//! Latest version: each item that was created or changed since a position, once, as it is now.
//! All versions and deletes: every single change, for as long as the container keeps them.
//! Both read a log of the partitions that hold the scope, in the order of LSNs, and both end a page
//! only between two LSNs, so that what was committed together is read together.
//!
//! A reader that polls a scope where nothing has happened costs one check of the position of each
//! partition, nothing else.

mod log_reader;
mod position;
mod trim;
mod trimmed;

use std::sync::Arc;

use model::{Epk, Lsn, PartitionKey, limits};
use storage::View;

use crate::catalog::Container;
use crate::keys::{self, EpkForm, Log};
use crate::ops::Scope;
use crate::prepare::LogicalPartition;
use crate::query::scope_range;
use crate::read::check_session;
use crate::routing::{PartitionRange, RoutingMap};
use crate::{
    Engine, Error, InvalidRequest, RequestContext, RowKey, StoredItem, UnsupportedStart, row, ru,
};

use log_reader::{FeedRange, PageBuilder, PageRead};
use position::{FeedPosition, Mark};
pub(crate) use trim::TrimState;
pub(crate) use trimmed::Trimmed;

/// Which changes a feed shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesMode {
    /// The current version of every item that was created or changed.
    LatestVersion,
    /// Every version and every delete. Only for containers that keep them.
    AllVersionsAndDeletes,
}

/// Where a feed starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangesStart {
    /// With the first change there is.
    Beginning,
    /// With the next change to come.
    Now,
    /// With the first change after this second since the Unix epoch.
    Time(u64),
    /// After the page that ended with this position.
    After(String),
}

/// Which changes a client requests.
#[derive(Clone, Debug)]
pub struct ChangesRequest {
    /// Which changes.
    pub mode: ChangesMode,
    /// Where to start.
    pub start: ChangesStart,
    /// Most changes of a page; `None` lets the server choose. A page has more only where one
    /// transaction has more.
    pub items_max: Option<usize>,
}

/// Part of a feed.
#[derive(Clone, Debug)]
pub struct ChangesPage {
    /// The changes, in order within each range.
    pub changes: Vec<ItemChange>,
    /// Where to continue.
    pub position: String,
    /// Whether there was nothing more to read.
    pub is_caught_up: bool,
}

/// One change of a feed.
#[derive(Clone, Debug)]
pub enum ItemChange {
    /// An item that was created or changed, as it is now.
    Latest(StoredItem),
    /// A version of an item.
    Put {
        /// The version.
        item: StoredItem,
        /// Position of the version it replaced; `None` if it was created.
        previous: Option<Lsn>,
    },
    /// An item went away.
    Delete(DeletedItem),
}

/// What is known of an item that went away.
#[derive(Clone, Debug)]
pub struct DeletedItem {
    /// Its row key.
    pub id: RowKey,
    /// Position of the delete.
    pub lsn: Lsn,
    /// Seconds since the Unix epoch of the delete.
    pub ts: u64,
    /// Position of the last version.
    pub previous: Option<Lsn>,
    /// The last version, unless the item expired or an earlier build deleted it.
    pub last: Option<StoredItem>,
    /// Whether it expired.
    pub is_expired: bool,
    partition_key: Vec<u8>,
}

impl DeletedItem {
    /// Its partition key values.
    pub fn partition_key(&self) -> PartitionKey {
        row::decode_partition_key(&self.partition_key)
    }
}

impl ItemChange {
    /// Position of the change in its partition.
    pub fn lsn(&self) -> Lsn {
        match self {
            ItemChange::Latest(item) | ItemChange::Put { item, .. } => item.lsn(),
            ItemChange::Delete(deleted) => deleted.lsn,
        }
    }

    /// Bytes of the item's text.
    fn text_bytes(&self) -> usize {
        match self {
            ItemChange::Latest(item) | ItemChange::Put { item, .. } => item.body().len(),
            ItemChange::Delete(deleted) => {
                deleted.last.as_ref().map_or(0, |item| item.body().len())
            }
        }
    }

    /// About how many bytes it takes in an answer.
    fn bytes(&self) -> usize {
        // System properties and metadata.
        const AROUND: usize = 300;
        let named = match self {
            ItemChange::Latest(_) | ItemChange::Put { .. } => 0,
            ItemChange::Delete(deleted) => {
                deleted.id.as_bytes().len() + deleted.partition_key.len()
            }
        };
        self.text_bytes() + named + AROUND
    }
}

impl ChangesMode {
    fn log(self) -> Log {
        match self {
            ChangesMode::LatestVersion => Log::Changes,
            ChangesMode::AllVersionsAndDeletes => Log::Versions,
        }
    }
}

impl Engine {
    /// The next changes of a scope.
    pub async fn read_changes(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        scope: Scope,
        request: ChangesRequest,
    ) -> Result<ChangesPage, Error> {
        let timer = self.time_operation("read_changes");
        let now = self.inner.components.clock.now().seconds();
        let mode = request.mode;
        let start = self.starting_point(container, &request)?;
        let items_max =
            request.items_max.unwrap_or(limits::PAGE_ITEMS_DEFAULT).min(limits::PAGE_ITEMS_MAX);
        let page_read = loop {
            let feed_ranges = feed_ranges(container, &container.routing(), &scope, &start)?;
            ctx.served.ranges.clear();
            for feed_range in &feed_ranges {
                ctx.served.touch(feed_range.range.id, feed_range.at);
                check_session(&ctx.session, &feed_range.range, feed_range.at)?;
            }
            let turn = start.turn_among(feed_ranges.len());
            let form = EpkForm::of(&container.spec.partition_key);
            let page = PageBuilder::new(mode, form, items_max, ctx);
            let page_read = match feed_ranges.iter().any(FeedRange::is_behind) {
                true => {
                    let (engine, container) = (self.clone(), Arc::clone(container));
                    let read = move || engine.read_logs(&container, feed_ranges, turn, page);
                    self.run_blocking(read).await
                }
                false => self.unchanged_page(feed_ranges, turn, page),
            };
            if let Err(Error::Throttled { .. }) = page_read {
                ctx.served.charge = ru::throttled();
            }
            let page_read = page_read?;
            // A range that has just been split or merged is located again.
            if let Some(page_read) = page_read {
                break page_read;
            }
        };
        let PageRead { mut feed_ranges, page, turn } = page_read;
        ctx.served.charge = page.charge;
        self.end_operation(timer, ctx, container, None);
        let is_caught_up = !feed_ranges.iter().any(FeedRange::is_behind);
        let position = match start {
            // A scope that covers nothing advances no mark.
            ResolvedStart::After(position) if feed_ranges.is_empty() => position,
            ResolvedStart::Now | ResolvedStart::Time(_) | ResolvedStart::After(_) => {
                if feed_ranges.is_empty() {
                    feed_ranges =
                        self::feed_ranges(container, &container.routing(), &Scope::All, &start)?;
                }
                let settled = feed_ranges
                    .into_iter()
                    .map(|feed_range| feed_range.settled(mode, container, now));
                FeedPosition::of_ranges(turn, settled.collect())
            }
        };
        let position = position.print(mode, container.rid, &self.inner.token_key)?;
        Ok(ChangesPage { changes: page.into_changes(), position, is_caught_up })
    }

    /// Where a request starts, as far as that does not depend on the positions of partitions.
    fn starting_point(
        &self,
        container: &Container,
        request: &ChangesRequest,
    ) -> Result<ResolvedStart, Error> {
        let mode = request.mode;
        if mode == ChangesMode::AllVersionsAndDeletes {
            check_enabled(container)?;
        }
        let unsupported = |start| Err(InvalidRequest::VersionsStart(start).into());
        match (&request.start, mode) {
            (ChangesStart::Now, _) => Ok(ResolvedStart::Now),
            (ChangesStart::After(text), _) => {
                let key = &self.inner.token_key;
                FeedPosition::parse(text, mode, container.rid, key).map(ResolvedStart::After)
            }
            (ChangesStart::Beginning, ChangesMode::LatestVersion) => {
                Ok(ResolvedStart::After(FeedPosition::everywhere(Mark::default())))
            }
            (ChangesStart::Time(time), ChangesMode::LatestVersion) => {
                Ok(ResolvedStart::Time(*time))
            }
            (ChangesStart::Beginning, ChangesMode::AllVersionsAndDeletes) => {
                unsupported(UnsupportedStart::Beginning)
            }
            (ChangesStart::Time(_), ChangesMode::AllVersionsAndDeletes) => {
                unsupported(UnsupportedStart::Time)
            }
        }
    }
}

/// Where a request starts.
enum ResolvedStart {
    Now,
    Time(u64),
    After(FeedPosition),
}

impl ResolvedStart {
    /// The mark of a part of a range whose partition is at position `at`.
    fn mark(&self, given: Mark, at: Lsn) -> Mark {
        match self {
            ResolvedStart::Now => Mark { lsn: at, ..Mark::default() },
            ResolvedStart::Time(time) => Mark { lsn: Lsn(0), time: *time, until: at },
            ResolvedStart::After(_) => given,
        }
    }

    fn mark_at(&self, epk: &Epk) -> Mark {
        match self {
            ResolvedStart::After(position) => position.mark_at(epk),
            ResolvedStart::Now | ResolvedStart::Time(_) => Mark::default(),
        }
    }

    fn within(&self, range: &model::EpkRange) -> Vec<(model::EpkRange, Mark)> {
        match self {
            ResolvedStart::After(position) => position.within(range),
            ResolvedStart::Now | ResolvedStart::Time(_) => vec![(range.clone(), Mark::default())],
        }
    }

    fn turn_among(&self, count: usize) -> usize {
        match self {
            ResolvedStart::After(position) => position.turn_among(count),
            ResolvedStart::Now | ResolvedStart::Time(_) => 0,
        }
    }
}

/// The ranges of a scope, each within that of one partition and with one mark.
fn feed_ranges(
    container: &Container,
    routing: &RoutingMap,
    scope: &Scope,
    start: &ResolvedStart,
) -> Result<Vec<FeedRange>, Error> {
    let definition = &container.spec.partition_key;
    let form = EpkForm::of(definition);
    let feed_range =
        |range: &PartitionRange, min: Epk, (lo, hi): (Vec<u8>, Vec<u8>), mark: Mark| {
            let at = range.partition.lsn();
            FeedRange {
                range: range.clone(),
                logical_partition: None,
                at,
                min,
                lo,
                hi,
                mark: start.mark(mark, at),
            }
        };
    if let Scope::Key(key) = scope
        && (key.0.len() == definition.paths.len() || definition.is_system)
    {
        let logical_partition = LogicalPartition::of(container, key)?;
        let (range, mark) =
            (routing.locate(&logical_partition.epk), start.mark_at(&logical_partition.epk));
        let bounds = logical_partition.logical_key.row_bounds();
        let feed_range = feed_range(range, logical_partition.epk.clone(), bounds, mark);
        return Ok(vec![FeedRange {
            logical_partition: Some(logical_partition.into_id()),
            ..feed_range
        }]);
    }
    let Some(wanted) = scope_range(container, routing, scope)? else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    for range in routing.ranges() {
        let Some(common) = range.epk.intersect(&wanted) else { continue };
        for (epk_range, mark) in start.within(&common) {
            let bounds = keys::row_bounds(form, &epk_range);
            out.push(feed_range(range, epk_range.min, bounds, mark));
        }
    }
    Ok(out)
}

/// Refuses to continue from where something may be missing. `container` and `now` must be as they
/// are after the view was taken: what is missing from it was removed under an older description.
fn check_kept(container: &Container, mark: &Mark, now: u64) -> Result<(), Error> {
    check_enabled(container)?;
    match mark.time < container.versions_kept_from(now) {
        true => Err(InvalidRequest::VersionsRemoved.into()),
        false => Ok(()),
    }
}

/// Refuses to continue from where something is missing, whatever times say.
fn check_not_trimmed(view: &dyn View, feed_range: &FeedRange) -> Result<(), Error> {
    let Some(note) = view.get(feed_range.range.partition.id, keys::TRIMMED)? else { return Ok(()) };
    let trimmed = Trimmed::decode(&note)
        .ok_or_else(|| Error::Internal("what was trimmed can't be read".into()))?;
    let (lo, hi) = keys::identity_bounds(&feed_range.lo, &feed_range.hi);
    match trimmed.goes_beyond(feed_range.mark.lsn, &lo, &hi) {
        true => Err(InvalidRequest::VersionsRemoved.into()),
        false => Ok(()),
    }
}

fn check_enabled(container: &Container) -> Result<(), Error> {
    match container.spec.versions_minutes {
        0 => Err(InvalidRequest::VersionsNotKept.into()),
        _ => Ok(()),
    }
}

impl Container {
    /// The second since which no version or delete is missing.
    fn versions_kept_from(&self, now: u64) -> u64 {
        self.versions_since.max(now.saturating_sub(60 * u64::from(self.spec.versions_minutes)))
    }
}
