//! Pages of items: plain feeds and queries.
//!
//! [`way`] decides how the rows of a page are found, [`walk`] goes there and has it paid, [`report`]
//! tells of it.

mod access_path;
mod report;
mod scan;
mod search;

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use model::{Charge, EpkRange, Lsn, PartitionKey, epk, limits};
use query::exec::{self, At, End, Execution, Limits, Piece};
use query::stopwatch::Stopwatch;
use storage::{Dir, KeyRange, View};

use crate::catalog::Container;
use crate::commit::LogicalCounters;
use crate::continuation::{Position, cut_digest};
use crate::engine::check_session;
use crate::index::Indexes;
use crate::keys::{self, EpkForm};
use crate::ops::{Page, PageReport, PageRequest, PageTimes, Retrieved, Row, Scope};
use crate::partition::Seen;
use crate::prepare::{LogicalName, Place};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Admission, Engine, Error, RangeId, RequestContext, StoredItem, ru};

use scan::Walk;

/// A logical partition with no more items than this is walked rather than looked up by ranges.
const LITTLE_ITEMS: u64 = 128;
/// A page of a logical partition with more than this is filled on another thread.
const LITTLE_BYTES: u64 = 192 * 1024;

/// The counters of no more ranges are added up on the spot.
const COUNTED_RANGES_MAX: usize = 64;

/// A page's work and what came of it: its rows, and where the next page begins.
type Filled<T> = (PageWork, Result<(T, Option<exec::Position>), Error>);

/// One range's share of a walk.
struct Stretch {
    range: PartitionRange,
    /// Whether it is all of the range.
    is_whole: bool,
    /// Where the range's partition stood before the view was taken, which shows all up to there.
    at: Lsn,
    lo: Vec<u8>,
    hi: Vec<u8>,
    /// The one logical partition it is about, if it is one.
    name: Option<LogicalName>,
    /// What that holds, once somebody has looked.
    counters: OnceCell<Option<LogicalCounters>>,
}

impl Stretch {
    /// What the logical partition holds that it is about; `None` if it is about others too, or
    /// there is nothing. `view` is the same every time.
    fn counters(&self, view: &dyn View) -> Result<Option<LogicalCounters>, Error> {
        if self.name.is_none() {
            return Ok(None);
        }
        if let Some(counters) = self.counters.get() {
            return Ok(*counters);
        }
        let stored = view.get(self.range.partition.id, &keys::counters_of_rows(&self.lo))?;
        let counters = stored.and_then(|stored| LogicalCounters::decode(&stored));
        Ok(*self.counters.get_or_init(|| counters))
    }
}

/// What a scope covers, at one moment.
struct Land {
    view: Arc<dyn View>,
    stretches: Vec<Stretch>,
    indexes: Arc<Indexes>,
}

/// A logical partition in a state that is the caller's.
pub(crate) struct KeyGround<'g> {
    pub(crate) range: &'g PartitionRange,
    pub(crate) at: Lsn,
    pub(crate) place: &'g Place,
    pub(crate) indexes: &'g Indexes,
    pub(crate) view: &'g dyn View,
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
    admission: Admission,
    /// Whether it is part of a request that has been let in already.
    is_let_in: bool,
    /// How rows are found, if somebody wants to know.
    report: Option<PageReport>,
    /// Whether somebody wants to know what takes how long.
    wants_times: bool,
    /// What took how long, if so.
    times: Option<PageTimes>,
    /// Whether rows and groups are to be merged with those of other pages.
    keeps_pieces: bool,
    /// Whether functions are called that are not ours.
    runs_scripts: bool,
}

/// What is asked of a part of a query.
pub(crate) struct Part {
    pub(crate) plan: query::Plan,
    pub(crate) scope: Scope,
    pub(crate) start: At,
    pub(crate) limits: Limits,
    /// Whether the query has been let in already where the part lies.
    pub(crate) is_let_in: bool,
    pub(crate) wants_report: bool,
    pub(crate) runs_scripts: bool,
}

/// What a part answers.
pub(crate) struct PartPage {
    pub(crate) pieces: Vec<Piece<StoredItem>>,
    /// Where it goes on, if it does.
    pub(crate) next: Option<At>,
    pub(crate) report: Option<PageReport>,
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
        let work = self.page_work(container, plan, request)?;
        let work = PageWork { session: ctx.session.clone(), admission: ctx.admission, ..work };
        let (work, rows, next) =
            self.run_page(ctx, container, scope, work, Execution::into_rows).await?;
        let continuation = next.map(|next| self.token_of(container, next));
        let rows = rows.into_iter().map(Row::from).collect();
        let PageWork { retrieved, report, times, .. } = work;
        Ok(Page { rows, continuation, retrieved, report, times })
    }

    /// A page of a part of a query.
    pub(crate) async fn part_page(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        part: Part,
    ) -> Result<PartPage, Error> {
        let start = exec::Position { at: part.start, ..exec::Position::default() };
        let work = PageWork {
            limits: part.limits,
            position: Position { query: start, cut: None },
            session: ctx.session.clone(),
            admission: ctx.admission,
            is_let_in: part.is_let_in,
            report: part.wants_report.then(report::empty),
            keeps_pieces: true,
            runs_scripts: part.runs_scripts,
            ..PageWork::of(part.plan)
        };
        let (work, pieces, next) =
            self.run_page(ctx, container, part.scope, work, Execution::into_pieces).await?;
        Ok(PartPage { pieces, next: next.map(|next| next.at), report: work.report })
    }

    /// Fills a page where that may take long. Returns what `take` makes of it, and where the next
    /// one begins if there is one.
    async fn run_page<T: Send + 'static>(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        scope: Scope,
        work: PageWork,
        take: fn(Execution<StoredItem>) -> T,
    ) -> Result<(PageWork, T, Option<exec::Position>), Error> {
        let is_light = !work.runs_scripts && work.plan.is_light();
        let little = match is_light {
            true => self.little_land(container, &scope, &work.position)?,
            false if !work.runs_scripts => self.counted_land(container, &scope, &work)?,
            false => None,
        };
        let (work, page) = match little {
            Some(land) => self.fill_page_on(&land, container, work, take),
            None => {
                let (engine, walked) = (self.clone(), Arc::clone(container));
                let runs_scripts = work.runs_scripts;
                let fill = move || engine.fill_page(&walked, &scope, work, take);
                match runs_scripts {
                    true => self.run_script(fill).await?,
                    false => self.run_in_turn(move || Ok(fill())).await?,
                }
            }
        };
        for (range, at) in &work.touched {
            ctx.served.touch(*range, *at);
        }
        ctx.served.charge = match &page {
            Err(Error::Throttled { .. }) if work.charge == Charge::ZERO => ru::throttled(),
            _ => work.charge,
        };
        let (taken, next) = page?;
        Ok((work, taken, next))
    }

    /// How the first page of a query would be found.
    pub(crate) async fn explain_page(
        &self,
        container: &Arc<Container>,
        plan: query::Plan,
        scope: Scope,
    ) -> Result<PageReport, Error> {
        let (engine, walked) = (self.clone(), Arc::clone(container));
        let rows_max = limits::PAGE_ITEMS_DEFAULT;
        self.run_blocking(move || {
            let mut work = PageWork {
                limits: Limits { rows_max, bytes_max: limits::PAGE_BYTES_MAX },
                report: Some(report::empty()),
                ..PageWork::of(plan)
            };
            let land = engine.land(&walked, &scope, &work.position)?;
            engine.on_walk(&land, &walked, &mut work, |walk, work| walk.explain(work))?;
            Ok(work.report.unwrap_or_else(report::empty))
        })
        .await
    }

    fn fill_page<T>(
        &self,
        container: &Container,
        scope: &Scope,
        work: PageWork,
        take: fn(Execution<StoredItem>) -> T,
    ) -> Filled<T> {
        match self.land(container, scope, &work.position) {
            Ok(land) => self.fill_page_on(&land, container, work, take),
            Err(error) => (work, Err(error)),
        }
    }

    fn fill_page_on<T>(
        &self,
        land: &Land,
        container: &Container,
        mut work: PageWork,
        take: fn(Execution<StoredItem>) -> T,
    ) -> Filled<T> {
        let page = self.on_walk(land, container, &mut work, |walk, work| walk.run(work));
        let page = page.map(|(execution, (end, looked_at))| {
            let is_full = end == End::Full;
            let next = is_full.then(|| execution.position(looked_at.as_deref()));
            (take(execution), next)
        });
        (work, page)
    }

    /// What a scope covers, if it is a logical partition with so few items that going through them
    /// takes about as long as handing the work to another thread, as it does for a single item.
    fn little_land(
        &self,
        container: &Container,
        scope: &Scope,
        position: &Position,
    ) -> Result<Option<Land>, Error> {
        let is_one = matches!(scope, Scope::Key(key) if is_whole_key(container, key));
        if !is_one {
            return Ok(None);
        }
        let land = self.land(container, scope, position)?;
        let items_max = self.inner.settings.items_at_once_max;
        let is_little = |c: &LogicalCounters| c.items <= items_max && c.bytes <= LITTLE_BYTES;
        let [stretch] = land.stretches.as_slice() else { return Ok(None) };
        let counters = stretch.counters(land.view.as_ref())?;
        Ok(counters.as_ref().is_some_and(is_little).then_some(land))
    }

    /// What a scope covers, if a query only wants to know how many items that has, and counters
    /// say so. That takes less than handing the work to another thread.
    fn counted_land(
        &self,
        container: &Container,
        scope: &Scope,
        work: &PageWork,
    ) -> Result<Option<Land>, Error> {
        if container.spec.default_ttl.is_some() || !work.plan.is_count() {
            return Ok(None);
        }
        let land = self.land(container, scope, &work.position)?;
        let is_counted = |stretch: &Stretch| stretch.is_whole || stretch.name.is_some();
        let is_little = land.stretches.len() <= COUNTED_RANGES_MAX;
        Ok((is_little && land.stretches.iter().all(is_counted)).then_some(land))
    }

    /// A page of a query over one logical partition as `ground` shows it, and what it cost.
    pub(crate) fn query_key(
        &self,
        container: &Container,
        ground: &KeyGround<'_>,
        plan: query::Plan,
        request: PageRequest,
        admission: Admission,
    ) -> Result<(Page, Charge), Error> {
        let mut work =
            PageWork { admission, is_let_in: true, ..self.page_work(container, plan, request)? };
        let (lo, hi) = ground.place.logical.row_bounds();
        let stretches = [Stretch {
            range: ground.range.clone(),
            is_whole: false,
            at: ground.at,
            lo,
            hi,
            name: Some(ground.place.name()),
            counters: OnceCell::new(),
        }];
        complete_place(ground.view, &stretches, &mut work.position)?;
        let walk = self.walk_over(container, ground.indexes, ground.view, &stretches);
        let (execution, (end, looked_at)) = walk.run(&mut work)?;
        let next = (end == End::Full).then(|| execution.position(looked_at.as_deref()));
        let rows = execution.into_rows().into_iter().map(Row::from).collect();
        let continuation = next.map(|next| self.token_of(container, next));
        let PageWork { retrieved, report, times, charge, .. } = work;
        Ok((Page { rows, continuation, retrieved, report, times }, charge))
    }

    fn page_work(
        &self,
        container: &Container,
        plan: query::Plan,
        request: PageRequest,
    ) -> Result<PageWork, Error> {
        let mut position = match &request.continuation {
            Some(token) => self.inner.token_key.open(container.rid, token)?,
            None => Position::default(),
        };
        if let Some(start) = request.resume {
            position.query.resume_at(start);
        }
        let rows_max =
            request.items_max.unwrap_or(limits::PAGE_ITEMS_DEFAULT).min(limits::PAGE_ITEMS_MAX);
        Ok(PageWork {
            limits: Limits { rows_max, bytes_max: limits::PAGE_BYTES_MAX },
            ends_with_range: request.ends_with_range,
            position,
            report: request.wants_report.then(report::empty),
            wants_times: request.wants_times,
            runs_scripts: request.runs_scripts,
            ..PageWork::of(plan)
        })
    }

    fn token_of(&self, container: &Container, query: exec::Position) -> String {
        let mut position = Position { query, cut: None };
        let form = EpkForm::of(&container.spec.partition_key);
        let row_key =
            keys::split_identity(form, position.identity()).map_or(0, |(_, _, id)| id.len());
        position.cut_long_keys(row_key);
        self.inner.token_key.seal(container.rid, &position)
    }

    /// A token that says how many rows of a ranking were returned.
    pub fn token_after_rows(&self, container: &Container, rows: u64) -> String {
        self.token_of(container, exec::Position { returned: rows, ..exec::Position::default() })
    }

    /// How many rows were returned when a token was given out.
    pub fn rows_before(&self, container: &Container, token: &str) -> Result<u64, Error> {
        Ok(self.inner.token_key.open(container.rid, token)?.query.returned)
    }

    /// The indexes that a container has now, whatever the caller has seen.
    pub(crate) fn indexes_of(&self, container: &Container) -> Arc<Indexes> {
        let catalog = self.catalog();
        let now = catalog.container_by_rid(container.rid);
        Arc::clone(now.map_or(&container.indexes, |now| &now.indexes))
    }

    /// The ranges of a scope as they are now.
    fn land(
        &self,
        container: &Container,
        scope: &Scope,
        position: &Position,
    ) -> Result<Land, Error> {
        loop {
            // A view shows the entries that a policy wants only if the policy was known before the
            // view was taken and is the same after it.
            let indexes = self.indexes_of(container);
            let stretches = stretches(container, &container.routing(), scope, position)?;
            let view = self.view_of(stretches.iter().map(|s| &s.range))?;
            if let Some(view) = view
                && self.indexes_of(container).version == indexes.version
            {
                return Ok(Land { view, stretches, indexes });
            }
        }
    }

    /// Does something on a walk over what a scope covers.
    fn on_walk<T>(
        &self,
        land: &Land,
        container: &Container,
        work: &mut PageWork,
        run: impl FnOnce(&Walk<'_>, &mut PageWork) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Land { view, stretches, indexes } = land;
        complete_place(view.as_ref(), stretches, &mut work.position)?;
        let has_report = work.report.is_some();
        let stopwatch = work.wants_times.then(|| {
            let clock = Arc::clone(&self.inner.components.clock);
            Rc::new(Stopwatch::new(move || clock.monotonic()))
        });
        let walk = self.walk_over(container, indexes, view.as_ref(), stretches);
        let walk = Walk { has_report, stopwatch, ..walk };
        let done = run(&walk, work);
        work.times = walk.times();
        done
    }

    fn walk_over<'w>(
        &'w self,
        container: &'w Container,
        indexes: &'w Indexes,
        view: &'w dyn View,
        stretches: &'w [Stretch],
    ) -> Walk<'w> {
        Walk {
            engine: self,
            indexes,
            key_definition: &container.spec.partition_key,
            form: EpkForm::of(&container.spec.partition_key),
            reader: self.reader(container),
            view,
            stretches,
            started: self.inner.components.clock.monotonic(),
            has_report: false,
            stopwatch: None,
        }
    }

    /// What a container holds, per range: items and bytes.
    pub fn statistics(&self, container: &Container) -> Vec<(RangeId, u64, u64)> {
        let routing = container.routing();
        let of = |r: &PartitionRange| (r.id, r.partition.items(), r.partition.bytes());
        routing.ranges().iter().map(of).collect()
    }
}

impl PageWork {
    /// The first page of a plan, without a row.
    fn of(plan: query::Plan) -> Self {
        Self {
            plan,
            limits: Limits { rows_max: 0, bytes_max: 0 },
            ends_with_range: false,
            position: Position::default(),
            charge: Charge::ZERO,
            retrieved: Retrieved::default(),
            touched: Vec::new(),
            session: Vec::new(),
            admission: Admission::default(),
            is_let_in: false,
            report: None,
            wants_times: false,
            times: None,
            keeps_pieces: false,
            runs_scripts: false,
        }
    }

    /// Goes on to a range, which must not be behind what the caller has seen.
    fn enter(&mut self, stretch: &Stretch) -> Result<(), Error> {
        self.touched.push((stretch.range.id, stretch.at));
        check_session(&self.session, &stretch.range, stretch.at)
    }

    fn note_read(&mut self, seen: &Seen) {
        self.retrieved.add(seen.read.get());
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

/// Whether a key names one logical partition, not a part of the hash line.
fn is_whole_key(container: &Container, key: &PartitionKey) -> bool {
    let definition = &container.spec.partition_key;
    key.0.len() == definition.paths.len() || definition.is_system
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
        && is_whole_key(container, key)
    {
        let place = Place::of(container, key)?;
        let (lo, hi) = place.logical.row_bounds();
        let range = routing.locate(&place.epk).clone();
        let at = range.partition.lsn();
        let (is_whole, name) = (false, Some(place.into_name()));
        let counters = OnceCell::new();
        return Ok(vec![Stretch { range, is_whole, at, lo, hi, name, counters }]);
    }
    let Some(wanted) = scope_range(container, routing, scope)? else { return Ok(Vec::new()) };
    let done = keys::row_of_identity(position.identity());
    Ok(routing
        .ranges()
        .iter()
        .filter_map(|range| {
            let common = range.epk.intersect(&wanted)?;
            let (lo, hi) = keys::row_bounds(form, &common);
            let at = range.partition.lsn();
            let is_whole = common == range.epk;
            let (range, counters) = (range.clone(), OnceCell::new());
            Some(Stretch { range, is_whole, at, lo, hi, name: None, counters })
        })
        .filter(|stretch| done[..] < stretch.hi[..])
        .collect())
}

/// The stretch of the hash line that a scope covers; `None` if it covers nothing.
pub(crate) fn scope_range(
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

fn prefix_range(container: &Container, prefix: &PartitionKey) -> Result<EpkRange, Error> {
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
