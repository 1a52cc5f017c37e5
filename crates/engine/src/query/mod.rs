//! Pages of items: plain listings and queries.
//!
//! [`route`] decides in which order the items of a scope are visited, [`access_path`] how the rows
//! of a page are found. [`scan`] reads them and has them paid
//! for, [`report`] describes both. Pages in the order of keys, [`listing`], have access paths of
//! their own, in [`key_order`].

mod access_path;
mod document_access;
mod key_order;
pub mod listing;
mod report;
mod route;
mod scan;
mod scope;
mod search;
mod visit;

use std::rc::Rc;
use std::sync::Arc;

use model::{Charge, EpkRange, Lsn, limits};
use query::exec::{self, Execution, ItemOrder, Limits, PageEnd, PartialResult, RowPosition};
use query::stopwatch::Stopwatch;
use storage::{Dir, KeyRange, View};

use crate::cancellation::StopSignal;
use crate::catalog::Container;
use crate::commit::LogicalCounters;
use crate::context::WorkContext;
use crate::continuation::{PagePosition, Traversal, cut_digest};
use crate::index::Indexes;
use crate::item::{NoSystemProperties, SystemProperties};
use crate::keys::{self, EpkForm};
use crate::ops::{Page, PageReport, PageRequest, PageTimes, Retrieved, Row, Scope};
use crate::partition::{Reader, ScanStats};
use crate::prepare::LogicalPartition;
use crate::read::check_session;
use crate::routing::PartitionRange;
use crate::{Admission, Engine, Error, RangeId, RequestContext, StoredItem, ru};

use route::{Journey, Route};
use scan::Scan;
pub(crate) use scope::scope_range;
use scope::{ScanRange, is_whole_key};

/// A logical partition with no more items than this is scanned rather than looked up by ranges.
const SMALL_PARTITION_ITEMS: u64 = 128;
/// A page of a logical partition with more than this is filled on another thread.
const SMALL_PARTITION_BYTES: u64 = 192 * 1024;

/// The counters of at most this many ranges are added up without another thread.
const COUNTED_RANGES_MAX: usize = 64;

/// A page's work and its result: its rows, and where the next page begins.
type PageOutcome<T> = (PageWork, Result<(T, Option<PagePosition>), Error>);

/// The ranges and indexes of a scope, and a view of the store, at one moment.
struct ScanSnapshot {
    view: Arc<dyn View>,
    route: Route,
    indexes: Arc<Indexes>,
}

/// A logical partition in a view that the caller supplies.
pub(crate) struct LogicalPartitionView<'g> {
    pub(crate) range: &'g PartitionRange,
    pub(crate) at: Lsn,
    pub(crate) logical_partition: &'g LogicalPartition,
    pub(crate) indexes: &'g Indexes,
    pub(crate) view: &'g dyn View,
    /// Whether it may have items with provisional numbers.
    pub(crate) has_provisional: bool,
}

/// A page's plan and limits, and what was done for it so far.
struct PageWork {
    plan: query::Plan,
    limits: Limits,
    ends_with_range: bool,
    position: PagePosition,
    /// The charge of the ranges that are done.
    charge: Charge,
    /// Rows and bytes that were read.
    retrieved: Retrieved,
    touched: Vec<(RangeId, Lsn)>,
    session: Vec<(RangeId, Lsn)>,
    admission: Admission,
    system: &'static dyn SystemProperties,
    stop: StopSignal,
    /// Whether it is part of a request that was admitted before.
    is_admitted: bool,
    /// The ordered index that the client names.
    index_hint: Option<String>,
    /// How rows are found, if the client asked for a report.
    report: Option<PageReport>,
    /// Whether the client asked for query metrics.
    wants_times: bool,
    /// How long each phase took, if so.
    times: Option<PageTimes>,
    /// Whether rows and groups are to be merged with those of other pages.
    keeps_partial_results: bool,
    /// Whether the query calls user-defined functions.
    runs_scripts: bool,
}

/// One part of a query, as it is requested.
pub(crate) struct QueryPart {
    pub(crate) plan: query::Plan,
    pub(crate) scope: Scope,
    /// The part of the hash line that the scope covers.
    pub(crate) epk: EpkRange,
    pub(crate) start: RowPosition,
    pub(crate) limits: Limits,
    /// Whether the ranges of the part have admitted the query before.
    pub(crate) is_admitted: bool,
    pub(crate) wants_report: bool,
    pub(crate) runs_scripts: bool,
}

/// The result of one part of a query.
pub(crate) struct QueryPartPage {
    pub(crate) partial_results: Vec<PartialResult<StoredItem>>,
    /// Where the part continues, if it has more rows.
    pub(crate) next: Option<RowPosition>,
    pub(crate) report: Option<PageReport>,
}

impl Engine {
    /// Items of a scope.
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
        let is_admitted = request.is_admitted;
        let work = self.page_work(container, plan, request)?;
        let session = ctx.session.clone();
        let work = PageWork { is_admitted, session, ..work.on_behalf_of(ctx.work()) };
        let (work, rows, next) =
            self.run_page(ctx, container, scope, work, Execution::into_rows).await?;
        let continuation = next.map(|next| self.token_of(container, next));
        let rows = rows.into_iter().map(Row::from).collect();
        let PageWork { retrieved, report, times, .. } = work;
        Ok(Page { rows, continuation, retrieved, report, times })
    }

    /// A page of a part of a query.
    pub(crate) async fn run_query_part(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        part: QueryPart,
    ) -> Result<QueryPartPage, Error> {
        let traversal = Traversal::of_part(&part);
        let start = exec::Position { at: part.start, ..exec::Position::default() };
        let work = PageWork {
            limits: part.limits,
            position: PagePosition { query: start, cut: None, traversal },
            session: ctx.session.clone(),
            is_admitted: part.is_admitted,
            report: part.wants_report.then(report::empty),
            keeps_partial_results: true,
            runs_scripts: part.runs_scripts,
            ..PageWork::of(part.plan).on_behalf_of(ctx.work())
        };
        let (work, partial_results, next) = self
            .run_page(ctx, container, part.scope, work, Execution::into_partial_results)
            .await?;
        Ok(QueryPartPage {
            partial_results,
            next: next.map(|next| next.query.at),
            report: work.report,
        })
    }

    /// Fills a page, on another thread unless that takes no longer than handing the work over.
    /// Returns what `take` makes of the execution, and where the next page begins if there is one.
    async fn run_page<T: Send + 'static>(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        scope: Scope,
        work: PageWork,
        take: fn(Execution<StoredItem>) -> T,
    ) -> Result<(PageWork, T, Option<PagePosition>), Error> {
        let timer = self.time_operation("query");
        let is_light = !work.runs_scripts && work.plan.is_light();
        let inline_snapshot = match is_light {
            true => self.small_snapshot(container, &scope, &work)?,
            false if !work.runs_scripts => self.counted_snapshot(container, &scope, &work)?,
            false => None,
        };
        let (work, page) = match inline_snapshot {
            Some(snapshot) => self.fill_page_on(&snapshot, container, work, take),
            None => {
                let (engine, container) = (self.clone(), Arc::clone(container));
                let runs_scripts = work.runs_scripts;
                let fill = move || engine.fill_page(&container, &scope, work, take);
                match runs_scripts {
                    true => self.run_script(fill).await?,
                    false => self.run_fairly(move || Ok(fill())).await?,
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
        self.end_operation(timer, ctx, container, page.as_ref().err());
        let (taken, next) = page?;
        Ok((work, taken, next))
    }

    /// Reports how the first page of a query would be found.
    pub(crate) async fn explain_page(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: query::Plan,
        scope: Scope,
    ) -> Result<PageReport, Error> {
        let (engine, container) = (self.clone(), Arc::clone(container));
        let rows_max = limits::PAGE_ITEMS_DEFAULT;
        let context = ctx.work();
        self.run_blocking(move || {
            let mut work = PageWork {
                limits: Limits { rows_max, bytes_max: limits::PAGE_BYTES_MAX },
                report: Some(report::empty()),
                ..PageWork::of(plan).on_behalf_of(context)
            };
            work.stop.check(engine.inner.components.clock.monotonic())?;
            let snapshot = engine.snapshot(&container, &scope, &work)?;
            engine.with_scan(&snapshot, &container, &mut work, |scan, work| scan.explain(work))?;
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
    ) -> PageOutcome<T> {
        match self.snapshot(container, scope, &work) {
            Ok(snapshot) => self.fill_page_on(&snapshot, container, work, take),
            Err(error) => (work, Err(error)),
        }
    }

    fn fill_page_on<T>(
        &self,
        snapshot: &ScanSnapshot,
        container: &Container,
        mut work: PageWork,
        take: fn(Execution<StoredItem>) -> T,
    ) -> PageOutcome<T> {
        let page = self.with_scan(snapshot, container, &mut work, |scan, work| scan.run(work));
        let page = page.map(|(execution, (end, stop))| {
            let is_full = end == PageEnd::Full;
            let next =
                is_full.then(|| snapshot.route.next_position(&execution, &stop, &work.position));
            (take(execution), next)
        });
        (work, page)
    }

    /// The snapshot of a scope, if it is a logical partition with so few items that scanning them
    /// takes about as long as handing the work to another thread, as it does for a single item.
    fn small_snapshot(
        &self,
        container: &Container,
        scope: &Scope,
        work: &PageWork,
    ) -> Result<Option<ScanSnapshot>, Error> {
        let is_one = matches!(scope, Scope::Key(key) if is_whole_key(container, key));
        if !is_one {
            return Ok(None);
        }
        let snapshot = self.snapshot(container, scope, work)?;
        let items_max = self.inner.settings.items_at_once_max;
        let is_little =
            |c: &LogicalCounters| c.items <= items_max && c.bytes <= SMALL_PARTITION_BYTES;
        let [scan_range] = snapshot.route.scan_ranges.as_slice() else { return Ok(None) };
        let counters = scan_range.counters(snapshot.view.as_ref())?;
        Ok(counters.as_ref().is_some_and(is_little).then_some(snapshot))
    }

    /// The snapshot of a scope, if the query only counts the scope's items and counters have that
    /// number. Reading them takes less time than handing the work to another thread.
    fn counted_snapshot(
        &self,
        container: &Container,
        scope: &Scope,
        work: &PageWork,
    ) -> Result<Option<ScanSnapshot>, Error> {
        if !work.plan.is_count() || self.reader(container).has_ttl() {
            return Ok(None);
        }
        let snapshot = self.snapshot(container, scope, work)?;
        let is_counted =
            |scan_range: &ScanRange| scan_range.is_whole || scan_range.logical_partition.is_some();
        let scan_ranges = &snapshot.route.scan_ranges;
        let is_little = scan_ranges.len() <= COUNTED_RANGES_MAX;
        Ok((is_little && scan_ranges.iter().all(is_counted)).then_some(snapshot))
    }

    /// A page of a query over one logical partition as `partition_view` shows it, and what it cost.
    pub(crate) fn query_key(
        &self,
        container: &Container,
        partition_view: &LogicalPartitionView<'_>,
        plan: query::Plan,
        request: PageRequest,
        context: WorkContext,
    ) -> Result<(Page, Charge), Error> {
        let work = self.page_work(container, plan, request)?.on_behalf_of(context);
        let mut work = PageWork { is_admitted: true, ..work };
        let LogicalPartitionView { range, at, logical_partition, .. } = *partition_view;
        let mut route = Route::of_logical_partition(
            range,
            at,
            logical_partition,
            &work.journey(),
            partition_view.has_provisional,
        );
        route.decide(partition_view.view)?;
        complete_identity(partition_view.view, &route.scan_ranges, &mut work.position)?;
        let scan = self.scan_over(container, partition_view.indexes, partition_view.view, &route);
        let reader = Reader { system: work.system, ..scan.reader };
        let scan = Scan { reader, stop: work.stop.clone(), ..scan };
        let (execution, (end, stop)) = scan.run(&mut work)?;
        let next =
            (end == PageEnd::Full).then(|| route.next_position(&execution, &stop, &work.position));
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
            None => PagePosition::default(),
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
            index_hint: request.index_hint,
            report: request.wants_report.then(report::empty),
            wants_times: request.wants_times,
            runs_scripts: request.runs_scripts,
            ..PageWork::of(plan.in_type_order(container.spec.order))
        })
    }

    fn token_of(&self, container: &Container, mut position: PagePosition) -> String {
        let form = EpkForm::of(&container.spec.partition_key);
        let row_key =
            keys::split_identity(form, position.identity()).map_or(0, |(_, _, id)| id.len());
        position.cut_long_keys(row_key);
        self.inner.token_key.seal(container.rid, &position)
    }

    /// A continuation token that holds how many rows of a ranking were returned.
    pub fn token_after_rows(&self, container: &Container, rows: u64) -> String {
        let query = exec::Position { returned: rows, ..exec::Position::default() };
        self.token_of(container, PagePosition { query, ..PagePosition::default() })
    }

    /// How many rows were returned before a continuation token was issued.
    pub fn rows_before(&self, container: &Container, token: &str) -> Result<u64, Error> {
        Ok(self.inner.token_key.open(container.rid, token)?.query.returned)
    }

    /// The indexes that a container has now, which may be newer than those of `container`.
    pub(crate) fn indexes_of(&self, container: &Container) -> Arc<Indexes> {
        let catalog = self.catalog();
        let now = catalog.container_by_rid(container.rid);
        Arc::clone(now.map_or(&container.indexes, |now| &now.indexes))
    }

    /// The ranges of a scope, its indexes and a view, as they are now.
    fn snapshot(
        &self,
        container: &Container,
        scope: &Scope,
        work: &PageWork,
    ) -> Result<ScanSnapshot, Error> {
        loop {
            // A view has all entries of a policy only if the policy was known before the view was
            // taken and is the same after it.
            let indexes = self.indexes_of(container);
            let mut route = Route::of(container, &container.routing(), scope, &work.journey())?;
            let view = self.view_of(route.scan_ranges.iter().map(|s| &s.range))?;
            if let Some(view) = view
                && self.indexes_of(container).version == indexes.version
            {
                route.decide(view.as_ref())?;
                return Ok(ScanSnapshot { view, route, indexes });
            }
        }
    }

    /// Runs `run` on a scan of a snapshot.
    fn with_scan<T>(
        &self,
        snapshot: &ScanSnapshot,
        container: &Container,
        work: &mut PageWork,
        run: impl FnOnce(&Scan<'_>, &mut PageWork) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let ScanSnapshot { view, route, indexes } = snapshot;
        complete_identity(view.as_ref(), &route.scan_ranges, &mut work.position)?;
        let has_report = work.report.is_some();
        let stopwatch = work.wants_times.then(|| {
            let clock = Arc::clone(&self.inner.components.clock);
            Rc::new(Stopwatch::new(move || clock.monotonic()))
        });
        let scan = self.scan_over(container, indexes, view.as_ref(), route);
        let reader = Reader { system: work.system, ..scan.reader };
        let scan = Scan { reader, stop: work.stop.clone(), has_report, stopwatch, ..scan };
        let done = run(&scan, work);
        work.times = scan.times();
        done
    }

    fn scan_over<'w>(
        &'w self,
        container: &'w Container,
        indexes: &'w Indexes,
        view: &'w dyn View,
        route: &'w Route,
    ) -> Scan<'w> {
        Scan {
            engine: self,
            indexes,
            key_definition: &container.spec.partition_key,
            form: EpkForm::of(&container.spec.partition_key),
            reader: self.reader(container),
            view,
            scan_ranges: &route.scan_ranges,
            route,
            started: self.inner.components.clock.monotonic(),
            stop: StopSignal::default(),
            has_report: false,
            stopwatch: None,
        }
    }

    /// Items and bytes of a container, per range.
    pub fn statistics(&self, container: &Container) -> Vec<(RangeId, u64, u64)> {
        let routing = container.routing();
        let of = |r: &PartitionRange| (r.id, r.partition.items(), r.partition.bytes());
        routing.ranges().iter().map(of).collect()
    }
}

impl PageWork {
    /// The work for the first page of a plan, without rows.
    fn of(plan: query::Plan) -> Self {
        Self {
            plan,
            limits: Limits { rows_max: 0, bytes_max: 0 },
            ends_with_range: false,
            position: PagePosition::default(),
            charge: Charge::ZERO,
            retrieved: Retrieved::default(),
            touched: Vec::new(),
            session: Vec::new(),
            admission: Admission::default(),
            system: &NoSystemProperties,
            stop: StopSignal::default(),
            is_admitted: false,
            index_hint: None,
            report: None,
            wants_times: false,
            times: None,
            keeps_partial_results: false,
            runs_scripts: false,
        }
    }

    /// What the ranges of its scope are visited for.
    fn journey(&self) -> Journey<'_> {
        let Self { plan, position, keeps_partial_results, .. } = self;
        Journey { plan, position, is_part: *keeps_partial_results }
    }

    /// The same work for a request.
    fn on_behalf_of(self, WorkContext { admission, system, stop }: WorkContext) -> Self {
        Self { admission, system, stop, ..self }
    }

    /// Starts a range, which must not be behind what the client's session has seen.
    fn enter(&mut self, scan_range: &ScanRange) -> Result<(), Error> {
        self.touched.push((scan_range.range.id, scan_range.at));
        check_session(&self.session, &scan_range.range, scan_range.at)
    }

    fn note_read(&mut self, stats: &ScanStats) {
        self.retrieved.add(stats.read.get());
    }
}

impl Traversal {
    /// The traversal of a part of a query, which is about one range of the hash line.
    fn of_part(part: &QueryPart) -> Option<Self> {
        let order = match part.start {
            RowPosition::Item { .. } => ItemOrder::Identity,
            RowPosition::Number { .. } => ItemOrder::Number,
            RowPosition::Start | RowPosition::Key { .. } => return None,
        };
        Some(Self { from: part.epk.min.clone(), bounds: part.epk.clone(), order })
    }
}

/// Completes an identity of which a token holds only the beginning. If the item is gone, the page
/// begins with all items whose identity begins so: returning an item twice loses nothing.
fn complete_identity(
    view: &dyn View,
    scan_ranges: &[ScanRange],
    position: &mut PagePosition,
) -> Result<(), Error> {
    let (Some(cut), RowPosition::Item { identity, rows }) = (position.cut, &mut position.query.at)
    else {
        return Ok(());
    };
    let key = keys::row_of_identity(identity);
    for scan_range in scan_ranges.iter().filter(|s| s.lo[..] <= key[..] && key[..] < s.hi[..]) {
        let range = KeyRange::half_open(&key, &scan_range.hi);
        let mut cursor = view.scan(scan_range.range.partition.id, range, Dir::Fwd)?;
        while let Some((found, _)) = cursor.next()?.filter(|(found, _)| found.starts_with(&key)) {
            if cut_digest(&found[1..]) == cut {
                *identity = found[1..].to_vec();
                return Ok(());
            }
        }
    }
    *rows = 0;
    Ok(())
}
