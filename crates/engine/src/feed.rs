//! Pages of items: plain feeds and queries, by a walk over rows in the order of the hash line.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use model::{Charge, Epk, EpkRange, Lsn, PartitionId, epk, limits};
use query::exec::{self, At, End, Execution, Limits};
use storage::{Dir, KeyRange, View};

use crate::catalog::Container;
use crate::continuation::{Position, cut_digest};
use crate::engine::check_session;
use crate::governor::Paid;
use crate::keys::{self, EpkForm};
use crate::ops::{Page, PageRequest, Retrieved, Row, Scope};
use crate::partition::{Reader, RowBounds, RowScan, RowShelf, ScanLimits, Seen};
use crate::prepare::{LogicalName, Place};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Engine, Error, Priority, RangeId, RequestContext, StoredItem, ru};

/// A page ends after this long, so that no view is held for long and no client waits for ever.
const PAGE_TIME_MAX: Duration = Duration::from_secs(1);
/// A query that must see all rows before it returns the first fails after this long.
const QUERY_TIME_MAX: Duration = Duration::from_secs(30);

/// One range's share of a walk.
struct Stretch {
    range: PartitionRange,
    /// Where the range's partition stood before the view was taken, which shows all up to there.
    at: Lsn,
    lo: Vec<u8>,
    hi: Vec<u8>,
    /// The one logical partition it is about, if it is one.
    name: Option<LogicalName>,
}

/// What a page is to be made of, and what was done for it so far.
struct PageWork {
    plan: query::Plan,
    limits: Limits,
    ends_with_range: bool,
    position: Position,
    /// What the ranges cost that are done.
    charge: Charge,
    /// What was read.
    retrieved: Retrieved,
    touched: Vec<(RangeId, Lsn)>,
    session: Vec<(RangeId, Lsn)>,
    priority: Priority,
}

impl Engine {
    /// Items of a scope, in the order of the hash line.
    pub async fn list_items(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        scope: Scope,
        page: PageRequest,
    ) -> Result<Page, Error> {
        self.query(ctx, container, query::Plan::all_items(), scope, page).await
    }

    /// Rows of a compiled query over a scope.
    pub async fn query(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: query::Plan,
        scope: Scope,
        request: PageRequest,
    ) -> Result<Page, Error> {
        let mut position = match &request.continuation {
            Some(token) => self.inner.token_key.open(container.rid, token)?,
            None => Position::default(),
        };
        if let Some(start) = request.resume {
            position.query.at = position.query.at.max(start);
        }
        let rows_max =
            request.items_max.unwrap_or(limits::PAGE_ITEMS_DEFAULT).min(limits::PAGE_ITEMS_MAX);
        let work = PageWork {
            plan,
            limits: Limits { rows_max, bytes_max: limits::PAGE_BYTES_MAX },
            ends_with_range: request.ends_with_range,
            position,
            charge: Charge::ZERO,
            retrieved: Retrieved::default(),
            touched: Vec::new(),
            session: ctx.session.clone(),
            priority: ctx.priority,
        };
        let engine = self.clone();
        let walked = Arc::clone(container);
        let (work, page) = self
            .run_blocking(move || {
                let mut work = work;
                let page = engine.walk(&walked, &scope, &mut work);
                Ok((work, page))
            })
            .await?;
        for (range, at) in &work.touched {
            ctx.served.touch(*range, *at);
        }
        ctx.served.charge = match &page {
            Err(Error::Throttled { .. }) if work.charge == Charge::ZERO => ru::throttled(),
            _ => work.charge,
        };
        let (rows, next) = page?;
        let continuation = next.map(|next| self.token_of(container, next));
        Ok(Page { rows, continuation, retrieved: work.retrieved })
    }

    fn token_of(&self, container: &Container, query: exec::Position) -> String {
        let mut position = Position { query, cut: None };
        let form = EpkForm::of(&container.spec.partition_key);
        let row_key =
            keys::split_identity(form, position.identity()).map_or(0, |(_, _, id)| id.len());
        position.cut_long_keys(row_key);
        self.inner.token_key.seal(container.rid, &position)
    }

    /// The rows of a page, and where the next one begins if there is one.
    fn walk(
        &self,
        container: &Container,
        scope: &Scope,
        work: &mut PageWork,
    ) -> Result<(Vec<Row>, Option<exec::Position>), Error> {
        let (view, stretches) = loop {
            let stretches = stretches(container, &container.routing(), scope, &work.position)?;
            if let Some(view) = self.view_of(stretches.iter().map(|s| &s.range))? {
                break (view, stretches);
            }
        };
        complete_place(view.as_ref(), &stretches, &mut work.position)?;
        let position = work.position.query.clone();
        let mut execution = Execution::new(work.plan.clone(), position, work.limits);
        let walk = Walk {
            engine: self,
            form: EpkForm::of(&container.spec.partition_key),
            reader: self.reader(container),
            view: view.as_ref(),
            stretches: &stretches,
            started: self.inner.components.clock.monotonic(),
        };
        let (end, looked_at) = walk.run(&mut execution, work)?;
        let next = (end == End::Full).then(|| execution.position(looked_at.as_deref()));
        let rows = execution.into_rows().into_iter();
        let rows = rows.map(|row| match row {
            exec::Row::Whole(item) => Row::Item(item),
            exec::Row::Json(text) => Row::Json(text),
        });
        Ok((rows.collect(), next))
    }

    /// What a container holds, per range: items and bytes.
    pub fn statistics(&self, container: &Container) -> Vec<(RangeId, u64, u64)> {
        let routing = container.routing();
        let of = |r: &PartitionRange| (r.id, r.partition.items(), r.partition.bytes());
        routing.ranges().iter().map(of).collect()
    }
}

/// A page's way through the ranges of its scope.
struct Walk<'w> {
    engine: &'w Engine,
    form: EpkForm,
    reader: Reader,
    view: &'w dyn View,
    stretches: &'w [Stretch],
    started: Duration,
}

/// How a walk ended, and the place it looked at last if it ended before its time.
type Ended = (End, Option<Vec<u8>>);

impl Walk<'_> {
    fn run(
        &self,
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
    ) -> Result<Ended, Error> {
        if execution.is_satisfied() {
            return Ok((End::Satisfied, None));
        }
        let can_pause = execution.can_pause();
        let stretches = if execution.reads_items() { self.stretches } else { &[] };
        let mut advances = match can_pause {
            true => Advances::default(),
            false => self.pay_in_advance(stretches, work)?,
        };
        if execution.must_look_up() {
            for stretch in self.stretches {
                let paid = self.admit(stretch, work)?;
                let found =
                    self.pull(stretch, work, false, paid, |scan| execution.look_up(scan))?;
                if found.0 {
                    break;
                }
            }
        }
        let mut looked_at = None;
        let Some(last) = stretches.last() else {
            work.charge += charge_of(Retrieved::default());
            return Ok((execution.finish(&mut self.shelf(&Seen::default()))?, None));
        };
        for stretch in stretches {
            let paid = match advances.next() {
                Some(paid) => Ok(paid),
                None => self.admit(stretch, work),
            };
            let paid = match paid {
                // The caller takes what there is and comes again for the rest.
                Err(_) if looked_at.is_some() => return Ok((End::Full, looked_at)),
                paid => paid?,
            };
            let (end, place) =
                self.pull(stretch, work, can_pause, paid, |scan| execution.pull(scan))?;
            if end != End::Exhausted {
                return Ok((end, place.or(looked_at)));
            }
            if can_pause {
                // Beyond everything of this range, also if there was nothing.
                looked_at = stretch.hi.get(1..).map(<[u8]>::to_vec);
                if work.ends_with_range && !std::ptr::eq(stretch, last) {
                    return Ok((End::Full, looked_at));
                }
            }
        }
        let seen = Seen::default();
        let end = execution.finish(&mut self.shelf(&seen));
        work.note_read(&seen);
        Ok((end?, None))
    }

    fn admit(&self, stretch: &Stretch, work: &PageWork) -> Result<Paid, Error> {
        self.engine.try_admit(work.priority, &stretch.range, ru::query(1, 0, 0))
    }

    /// Has all stretches let the walk in, or none of them paid.
    fn pay_in_advance<'s>(
        &self,
        stretches: &'s [Stretch],
        work: &PageWork,
    ) -> Result<Advances<'s>, Error> {
        let mut advances = Advances::default();
        for stretch in stretches {
            advances.paid.push_back((stretch, self.admit(stretch, work)?));
        }
        Ok(advances)
    }

    /// Lets `pull` take rows of a stretch that has let it in, and has them paid. Returns what it
    /// made of them, and the place looked at last.
    fn pull<T>(
        &self,
        stretch: &Stretch,
        work: &mut PageWork,
        can_pause: bool,
        paid: Paid,
        pull: impl FnOnce(&mut RowScan<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<Vec<u8>>), Error> {
        let meter = &stretch.range.partition.meter;
        let seen = Seen::default();
        let pulled = self.scan(stretch, work, can_pause, &seen, pull);
        let charge = charge_of(seen.walked.get());
        meter.settle(paid, charge, stretch.name.as_ref());
        work.charge += charge;
        work.note_read(&seen);
        pulled
    }

    fn scan<T>(
        &self,
        stretch: &Stretch,
        work: &mut PageWork,
        can_pause: bool,
        seen: &Seen,
        pull: impl FnOnce(&mut RowScan<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<Vec<u8>>), Error> {
        work.enter(stretch)?;
        let start = start_of(&work.position, stretch);
        let lo = match &start {
            Bound::Included(key) => Bound::Included(key.as_slice()),
            Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
            Bound::Unbounded => Bound::Included(stretch.lo.as_slice()),
        };
        let bounds = RowBounds { partition: stretch.range.partition.id, lo, hi: &stretch.hi };
        let charge_max = stretch.range.partition.meter.page_charge_max();
        let limits = ScanLimits {
            clock: self.engine.inner.components.clock.as_ref(),
            pause_at: can_pause.then(|| self.started + PAGE_TIME_MAX),
            fail_at: self.started + QUERY_TIME_MAX,
            is_costly: &|seen| charge_max.is_some_and(|max| charge_of(seen) >= max),
        };
        let mut scan = RowScan::new(self.view, &bounds, self.form, self.reader, limits, seen)?;
        let pulled = pull(&mut scan)?;
        Ok((pulled, scan.place().map(<[u8]>::to_vec)))
    }

    fn shelf<'s>(&'s self, seen: &'s Seen) -> RowShelf<'s, impl Fn(&Epk) -> Option<PartitionId>> {
        RowShelf {
            view: self.view,
            form: self.form,
            reader: self.reader,
            partition_of: |epk: &Epk| self.partition_of(epk),
            seen,
        }
    }

    fn partition_of(&self, epk: &Epk) -> Option<PartitionId> {
        let holds = |stretch: &&Stretch| stretch.range.epk.contains(epk);
        self.stretches.iter().find(holds).map(|stretch| stretch.range.partition.id)
    }
}

/// What was paid for stretches that are still to be walked, in their order. Where the walk does
/// not get to, it is paid back.
#[derive(Default)]
struct Advances<'s> {
    paid: VecDeque<(&'s Stretch, Paid)>,
}

impl Advances<'_> {
    /// What was paid for the next stretch, if anything was.
    fn next(&mut self) -> Option<Paid> {
        self.paid.pop_front().map(|(_, paid)| paid)
    }
}

impl Drop for Advances<'_> {
    fn drop(&mut self) {
        for (stretch, paid) in self.paid.drain(..) {
            stretch.range.partition.meter.settle(paid, Charge::ZERO, None);
        }
    }
}

impl PageWork {
    /// Goes on to a range, which must not be behind what the caller has seen.
    fn enter(&mut self, stretch: &Stretch) -> Result<(), Error> {
        self.touched.push((stretch.range.id, stretch.at));
        check_session(&self.session, &stretch.range, stretch.at)
    }

    fn note_read(&mut self, seen: &Seen) {
        let read = seen.read.get();
        self.retrieved.rows += read.rows;
        self.retrieved.bytes += read.bytes;
    }
}

/// What looking at rows of one range costs.
fn charge_of(walked: Retrieved) -> Charge {
    ru::query(1, walked.rows, walked.bytes)
}

/// The row that a page from `position` on begins with in a stretch.
fn start_of(position: &Position, stretch: &Stretch) -> Bound<Vec<u8>> {
    let At::Item { place, rows } = &position.query.at else { return Bound::Unbounded };
    let key = keys::row_of_identity(place).to_vec();
    match (key >= stretch.lo, *rows) {
        (false, _) => Bound::Unbounded,
        (true, u64::MAX) => Bound::Excluded(key),
        (true, _) => Bound::Included(key),
    }
}

/// Finds the rest of a place that a token holds only the beginning of. Should the item be gone, the
/// page begins with all items that begin so: showing one twice loses nothing.
fn complete_place(
    view: &dyn View,
    stretches: &[Stretch],
    position: &mut Position,
) -> Result<(), Error> {
    let (Some(cut), At::Item { place, rows }) = (position.cut, &mut position.query.at) else {
        return Ok(());
    };
    let key = keys::row_of_identity(place);
    for stretch in stretches.iter().filter(|s| s.lo[..] <= key[..] && key[..] < s.hi[..]) {
        let range = KeyRange::half_open(&key, &stretch.hi);
        let mut cursor = view.scan(stretch.range.partition.id, range, Dir::Fwd)?;
        while let Some((found, _)) = cursor.next()?.filter(|(found, _)| found.starts_with(&key)) {
            if cut_digest(&found[1..]) == cut {
                *place = found[1..].to_vec();
                return Ok(());
            }
        }
    }
    *rows = 0;
    Ok(())
}

/// The ranges a scope names, each cut to what the scope covers and to what is not yet behind
/// `position`.
fn stretches(
    container: &Container,
    routing: &RoutingMap,
    scope: &Scope,
    position: &Position,
) -> Result<Vec<Stretch>, Error> {
    let definition = &container.spec.partition_key;
    let form = EpkForm::of(definition);
    if let Scope::Key(key) = scope
        && (key.0.len() == definition.paths.len() || definition.is_system)
    {
        let place = Place::of(container, key)?;
        let (lo, hi) = place.logical.row_bounds();
        let range = routing.locate(&place.epk).clone();
        let at = range.partition.lsn();
        return Ok(vec![Stretch { range, at, lo, hi, name: Some(place.into_name()) }]);
    }
    let Some(wanted) = covered(container, routing, scope)? else { return Ok(Vec::new()) };
    let done = keys::row_of_identity(position.identity());
    Ok(routing
        .ranges()
        .iter()
        .filter_map(|range| {
            let common = range.epk.intersect(&wanted)?;
            let (lo, hi) = keys::row_bounds(form, &common);
            let at = range.partition.lsn();
            Some(Stretch { range: range.clone(), at, lo, hi, name: None })
        })
        .filter(|stretch| done[..] < stretch.hi[..])
        .collect())
}

/// The stretch of the hash line that a scope covers; `None` if it covers nothing.
pub(crate) fn covered(
    container: &Container,
    routing: &RoutingMap,
    scope: &Scope,
) -> Result<Option<EpkRange>, Error> {
    Ok(match scope {
        Scope::All => Some(EpkRange::full()),
        Scope::Epk(range) => Some(range.clone()),
        Scope::Range { id, epk } => {
            let range = routing.by_id(*id).ok_or(Error::RangeGone)?;
            match epk {
                Some(part) => range.epk.intersect(part),
                None => Some(range.epk.clone()),
            }
        }
        Scope::Key(prefix) => Some(prefix_range(container, prefix)?),
    })
}

fn prefix_range(container: &Container, prefix: &model::PartitionKey) -> Result<EpkRange, Error> {
    let definition = &container.spec.partition_key;
    if prefix.0.is_empty() || prefix.0.len() > definition.paths.len() {
        return Err(Error::PartitionKeyMismatch(
            "The partition key supplied has more or fewer components than the container's \
             definition allows."
                .into(),
        ));
    }
    Ok(epk::key_range(definition, prefix))
}
