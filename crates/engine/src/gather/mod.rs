//! Cross-partition queries: each physical partition runs its part of the query, and the parts are
//! [merged](query::gather) here.
//!
//! Parts are ranges of the hash line. They run through [`Engine::run_query_part`], page by page,
//! several at a time. This module never reads a partition itself.

mod token;

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use model::{Charge, EpkRange, PartitionKey, epk, limits};
use query::exec::{Limits, PageEnd, Position, RowOrder, RowPosition};
pub use query::gather::MergeStrategy;
use query::gather::{Gather, RangeSide};
use query::{KeyScope, Plan};

use crate::catalog::Container;
use crate::governor::Reserved;
use crate::keys::{self, EpkForm};
use crate::ops::{PageReport, PageRequest, Row, Scope};
use crate::partition::too_late;
use crate::query::{QueryPart, QueryPartPage, scope_range};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Engine, Error, RequestContext, StoredItem, ru};

use token::{GatherPosition, SerialPosition};

/// Parts that run at the same time, unless the caller says otherwise.
const PARALLELISM: usize = 8;
/// Upper limit of the parallelism that a caller may request.
const PARALLELISM_MAX: usize = 64;
/// Rows that are buffered until they are merged, unless the caller says otherwise.
const BUFFERED_ROWS: usize = 20_000;
/// Bytes of the buffered rows.
const BUFFERED_BYTES: usize = 64 * 1024 * 1024;
/// The page of a part may hold at least this many bytes, whatever the number of parts.
const PART_BYTES_MIN: usize = 64 * 1024;

/// Settings of a query over several partitions.
#[derive(Clone, Debug, Default)]
pub struct GatherRequest {
    /// Most rows; `None` lets the server choose.
    pub items_max: Option<usize>,
    /// Token of the previous page.
    pub continuation: Option<String>,
    /// Most partitions that run their parts at the same time. The order of the rows does not depend
    /// on it.
    pub parallelism: Option<usize>,
    /// Most rows that are buffered until they are merged.
    pub buffered_max: Option<usize>,
    /// Whether the page reports how its rows were found.
    pub wants_report: bool,
    /// Whether the query calls user-defined functions, which may take long.
    pub runs_scripts: bool,
    /// Whether it continues a request that was admitted before, and so is not throttled.
    pub is_admitted: bool,
}

/// A page of a query over several partitions.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Token for the next page; absent when there is no more.
    pub continuation: Option<String>,
    /// The parts that ran, in the order of the hash line.
    pub parts: Vec<QueryPartReport>,
}

/// What a part of a query did.
#[derive(Clone, Debug)]
pub struct QueryPartReport {
    /// Its range of the hash line.
    pub epk: EpkRange,
    /// The logical partition that the part covers, if it is only one.
    pub key: Option<PartitionKey>,
    /// How many pages it ran.
    pub pages: u64,
    /// Rows or groups that it returned.
    pub rows: u64,
    /// What it cost.
    pub charge: Charge,
    /// How rows were found, on its first page; its figures are those of all pages.
    pub report: Option<PageReport>,
}

/// A range of the hash line that one part of the query covers.
struct PartRange {
    scope: Scope,
    epk: EpkRange,
    side: RangeSide,
}

impl Engine {
    /// A page of a query over all partitions of a scope.
    pub async fn gather(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: Plan,
        scope: Scope,
        request: GatherRequest,
    ) -> Result<Gathered, Error> {
        let plan = plan.in_type_order(container.spec.order);
        if !plan.reads_items() {
            return self.query_without_items(ctx, container, plan, request).await;
        }
        let serial = request
            .continuation
            .as_ref()
            .and_then(|token| token::open_serial(&self.inner.token_key, token));
        if serial.is_some() {
            return self.query_one_part(ctx, container, plan, &scope, request, serial).await;
        }
        let start = match &request.continuation {
            Some(token) => token::open(&self.inner.token_key, container.rid, token)?,
            None => GatherPosition::default(),
        };
        let mut part_ranges = part_ranges(container, &plan, &scope, start.stop.as_ref())?;
        let is_alone = request.continuation.is_none() && part_ranges.len() == 1;
        if is_alone && plan.row_order() == RowOrder::FirstItems {
            return self.query_one_part(ctx, container, plan, &scope, request, None).await;
        }
        if plan.row_order() == RowOrder::Items {
            drop_finished(container, &start, &mut part_ranges);
        }
        let rows_max = request.items_max.unwrap_or(limits::PAGE_ITEMS_DEFAULT);
        let rows_max = rows_max.min(limits::PAGE_ITEMS_MAX);
        let page = Limits { rows_max, bytes_max: limits::PAGE_BYTES_MAX };
        let sides: Vec<RangeSide> = part_ranges.iter().map(|part_range| part_range.side).collect();
        let gather = Gather::new(&plan, start.query, page, &sides);
        let reports = part_ranges.iter().map(QueryPartReport::of).collect();
        let mut work = GatherRun { engine: self, container, part_ranges, request, gather, reports };
        let timer = self.time_operation("gather");
        let run = work.run(ctx).await;
        self.end_operation(timer, ctx, container, run.as_ref().err());
        run?;
        let continuation = work.continuation()?;
        let rows = work.gather.into_rows().into_iter().map(Row::from).collect();
        let parts = work.reports.into_iter().filter(|report| report.pages > 0).collect();
        Ok(Gathered { rows, continuation, parts })
    }

    /// A page of groups or distinct rows of one part alone, which has them in the order in which
    /// they are first met. Nothing is merged.
    async fn query_one_part(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: Plan,
        scope: &Scope,
        request: GatherRequest,
        start: Option<SerialPosition>,
    ) -> Result<Gathered, Error> {
        let GatherRequest { items_max, wants_report, runs_scripts, is_admitted, .. } = request;
        let (epk, continuation) = match start {
            Some(SerialPosition { epk, token }) => (epk, Some(token)),
            None => (None, None),
        };
        let part_range = match epk {
            Some(epk) => {
                Some(PartRange { scope: Scope::Epk(epk.clone()), epk, side: RangeSide::Within })
            }
            None => part_ranges(container, &plan, scope, None)?.into_iter().next(),
        };
        let Some(part_range) = part_range else { return Ok(Gathered::default()) };
        let report = QueryPartReport::of(&part_range);
        let page = PageRequest {
            items_max,
            continuation,
            wants_report,
            runs_scripts,
            is_admitted,
            ..PageRequest::default()
        };
        let PartRange { scope, epk, .. } = part_range;
        let epk = report.key.is_none().then_some(epk);
        let page = self.query(ctx, container, plan, scope, page).await?;
        let continuation = page
            .continuation
            .map(|token| token::seal_serial(&self.inner.token_key, &SerialPosition { epk, token }));
        let rows = page.rows.len() as u64;
        let (charge, report_of_page) = (ctx.served.charge, page.report);
        let part = QueryPartReport { pages: 1, rows, charge, report: report_of_page, ..report };
        Ok(Gathered { rows: page.rows, continuation, parts: vec![part] })
    }

    /// How the first page of a query would be found in each part, and how the parts are merged.
    /// Reads index entries as the query would, but reads no items and charges nothing.
    pub async fn explain(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: &Plan,
        scope: &Scope,
    ) -> Result<(MergeStrategy, Vec<QueryPartReport>), Error> {
        let plan = &plan.clone().in_type_order(container.spec.order);
        if !plan.reads_items() {
            return Ok((MergeStrategy::Concatenated, Vec::new()));
        }
        let part_ranges = part_ranges(container, plan, scope, None)?;
        let sides: Vec<RangeSide> = part_ranges.iter().map(|part_range| part_range.side).collect();
        let page = Limits { rows_max: limits::PAGE_ITEMS_DEFAULT, bytes_max: 0 };
        let gather = Gather::<StoredItem>::new(plan, Position::default(), page, &sides);
        let mut parts = Vec::with_capacity(part_ranges.len());
        for part_range in part_ranges {
            let part = QueryPartReport::of(&part_range);
            let range_plan = gather.range_plan().clone();
            let report = self.explain_page(ctx, container, range_plan, part_range.scope).await?;
            parts.push(QueryPartReport { report: Some(report), ..part });
        }
        Ok((gather.merge_strategy(), parts))
    }

    /// The row of a query that reads no items.
    async fn query_without_items(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: Plan,
        request: GatherRequest,
    ) -> Result<Gathered, Error> {
        let GatherRequest { items_max, runs_scripts, .. } = request;
        let page = PageRequest { items_max, runs_scripts, ..PageRequest::default() };
        let page = self.query(ctx, container, plan, Scope::All, page).await?;
        Ok(Gathered { rows: page.rows, continuation: None, parts: Vec::new() })
    }
}

/// A page in progress.
struct GatherRun<'w> {
    engine: &'w Engine,
    container: &'w Arc<Container>,
    part_ranges: Vec<PartRange>,
    request: GatherRequest,
    gather: Gather<StoredItem>,
    reports: Vec<QueryPartReport>,
}

impl GatherRun<'_> {
    async fn run(&mut self, ctx: &mut RequestContext) -> Result<(), Error> {
        let clock = &self.engine.inner.components.clock;
        let started = clock.monotonic();
        let stop = ctx.stop_signal();
        let parallelism = self.request.parallelism.unwrap_or(PARALLELISM);
        let parallelism = parallelism.clamp(1, PARALLELISM_MAX);
        // Pages read ahead are wasted if the page is full before they are needed.
        let mut ahead = 1;
        let _reserved = self.reserve(ctx)?;
        while !self.advance().await? {
            let now = clock.monotonic();
            if stop.is_due(started + limits::GATHERED_PAGE_TIME_MAX, now) && self.pause() {
                return Ok(());
            }
            if stop.is_due(started + limits::GATHERED_QUERY_TIME_MAX, now) {
                return Err(too_late());
            }
            let wanted = self.gather.pages_needed(ahead);
            let limits = self.part_limits(wanted.len());
            for some in wanted.chunks(parallelism) {
                match self.run_parts(ctx, some, limits).await {
                    // The caller returns the rows there are, which are paid for, and the client
                    // retries.
                    Err(Error::Throttled { .. }) if self.advance().await? || self.pause() => {
                        return Ok(());
                    }
                    asked => asked?,
                }
            }
            ahead = (ahead * 2).min(parallelism);
        }
        Ok(())
    }

    /// Has all parts admit the query, if it needs them all for one row. From then on no part
    /// throttles it: the page would begin again and come to the same point, however much was paid.
    fn reserve(&mut self, ctx: &mut RequestContext) -> Result<Reserved, Error> {
        if self.gather.is_concatenation() || self.request.is_admitted {
            return Ok(Reserved::default());
        }
        let routing = self.container.routing();
        let is_asked = |range: &&PartitionRange| {
            self.part_ranges.iter().any(|part_range| part_range.epk.intersect(&range.epk).is_some())
        };
        let ranges: Vec<_> = routing.ranges().iter().filter(is_asked).cloned().collect();
        let reserved = self.engine.reserve(ctx.admission, &ranges, ru::query(1, 0, 0));
        if reserved.is_err() {
            ctx.served.charge = ru::throttled();
        }
        self.request.is_admitted = !ranges.is_empty();
        reserved
    }

    /// Merges the parts there are; returns whether the page is complete. Expressions evaluated on
    /// merged rows may call scripts, which have threads of their own.
    async fn advance(&mut self) -> Result<bool, Error> {
        if !self.request.runs_scripts {
            return Ok(self.gather.advance()?);
        }
        let page = Limits { rows_max: 0, bytes_max: 0 };
        let none = Gather::new(&Plan::all_items(), Position::default(), page, &[]);
        let mut gather = std::mem::replace(&mut self.gather, none);
        let work = move || {
            let is_done = gather.advance();
            (gather, is_done)
        };
        let (gather, is_done) = self.engine.run_script(work).await?;
        self.gather = gather;
        Ok(is_done?)
    }

    /// Limits of the page of a part, when `asked` parts are buffered at the same time.
    fn part_limits(&self, asked: usize) -> Limits {
        let together = match self.gather.is_concatenation() {
            true => asked,
            false => self.part_ranges.len(),
        };
        let together = together.max(1);
        let buffered = self.request.buffered_max.unwrap_or(BUFFERED_ROWS);
        let rows_max = match self.gather.rows_wanted() {
            usize::MAX => usize::MAX,
            wanted => wanted.min((buffered / together).max(1)),
        };
        let bytes_max = (BUFFERED_BYTES / together).clamp(PART_BYTES_MIN, limits::PAGE_BYTES_MAX);
        Limits { rows_max, bytes_max }
    }

    /// Runs some parts at the same time and takes their results in the order of parts.
    async fn run_parts(
        &mut self,
        ctx: &mut RequestContext,
        parts: &[(usize, RowPosition)],
        limits: Limits,
    ) -> Result<(), Error> {
        let plan = self.gather.range_plan();
        let asked = parts.iter().filter_map(|(at, start)| {
            let part = QueryPart {
                plan: plan.clone(),
                scope: self.part_ranges.get(*at)?.scope.clone(),
                epk: self.part_ranges.get(*at)?.epk.clone(),
                start: start.clone(),
                limits,
                is_admitted: self.request.is_admitted,
                wants_report: self.request.wants_report,
                runs_scripts: self.request.runs_scripts,
            };
            let mut ctx = ctx.part();
            let (engine, container) = (self.engine.clone(), Arc::clone(self.container));
            Some(async move {
                let page = engine.run_query_part(&mut ctx, &container, part).await;
                (*at, ctx.served, page)
            })
        });
        let mut failed = None;
        for (at, served, page) in join_all(asked.collect()).await {
            ctx.served.charge += served.charge;
            for (range, lsn) in served.ranges {
                ctx.served.touch(range, lsn);
            }
            match page {
                Ok(page) => self.take(at, served.charge, page),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn take(&mut self, part: usize, charge: Charge, page: QueryPartPage) {
        if let Some(report) = self.reports.get_mut(part) {
            report.pages += 1;
            report.rows += page.partial_results.len() as u64;
            report.charge += charge;
            report.note(page.report);
        }
        self.gather.accept_page(part, page.partial_results, page.next);
    }

    /// Ends the page early, if the query can continue later.
    fn pause(&mut self) -> bool {
        let form = EpkForm::of(&self.container.spec.partition_key);
        let part_ranges = &self.part_ranges;
        self.gather.pause(|part| {
            let end =
                part_ranges.get(part).map(|part_range| keys::row_bounds(form, &part_range.epk).1);
            end.and_then(|hi| hi.get(1..).map(<[u8]>::to_vec)).unwrap_or_default()
        })
    }

    /// The token of the next page, if there is one.
    fn continuation(&self) -> Result<Option<String>, Error> {
        if self.gather.end() != Some(PageEnd::Full) {
            return Ok(None);
        }
        let (query, part) = self.gather.position();
        let stop = part.and_then(|part| self.part_ranges.get(part)).map(|s| s.epk.clone());
        let position = GatherPosition { query, stop };
        token::seal(&self.engine.inner.token_key, self.container.rid, &position).map(Some)
    }
}

impl QueryPartReport {
    fn of(part_range: &PartRange) -> Self {
        let key = match &part_range.scope {
            Scope::Key(key) => Some(key.clone()),
            Scope::All | Scope::Range { .. } | Scope::Epk(_) => None,
        };
        let epk = part_range.epk.clone();
        Self { epk, key, pages: 0, rows: 0, charge: Charge::ZERO, report: None }
    }

    /// Adds what the same part did for a further page.
    pub fn add(&mut self, other: QueryPartReport) {
        self.pages += other.pages;
        self.rows += other.rows;
        self.charge += other.charge;
        self.note(other.report);
    }

    /// Adds the figures of a further page.
    fn note(&mut self, page: Option<PageReport>) {
        match (&mut self.report, page) {
            (Some(known), Some(page)) => {
                page.ranges.into_iter().for_each(|range| known.add_range(range));
            }
            (none @ None, page) => *none = page,
            (Some(_), None) => {}
        }
    }
}

/// The ranges of the hash line that a query over a scope runs on. The range at which the last page
/// stopped is cut at both ends.
fn part_ranges(
    container: &Container,
    plan: &Plan,
    scope: &Scope,
    stop: Option<&EpkRange>,
) -> Result<Vec<PartRange>, Error> {
    let definition = &container.spec.partition_key;
    let keys = keys_of(container, plan, scope);
    if let [key] = keys.as_deref().unwrap_or_default()
        && key.0.len() == definition.paths.len()
    {
        let epk = epk::key_range(definition, key);
        return Ok(vec![PartRange {
            scope: Scope::Key(key.clone()),
            epk,
            side: RangeSide::Within,
        }]);
    }
    let routing = container.routing();
    let wanted = scope_range(container, &routing, scope)?;
    let named = keys.map(|keys| {
        keys.iter().map(|key| epk::key_range(definition, key)).collect::<Vec<EpkRange>>()
    });
    let is_named = |range: &EpkRange| {
        named.as_ref().is_none_or(|named| named.iter().any(|n| n.intersect(range).is_some()))
    };
    let mut part_ranges = Vec::new();
    for range in routing.ranges() {
        let common = wanted.as_ref().and_then(|wanted| range.epk.intersect(wanted));
        let Some(common) = common.filter(is_named) else { continue };
        part_ranges.extend(cut(&common, stop));
    }
    if part_ranges.is_empty() {
        // Some queries return a row even without items.
        part_ranges.extend(empty_part(&routing));
    }
    Ok(part_ranges)
}

/// Leaves out ranges whose items are all before a page that begins at an item. The range at which
/// the last page stopped is one part, if its items come by number, however it was divided since.
fn drop_finished(container: &Container, start: &GatherPosition, part_ranges: &mut Vec<PartRange>) {
    match (&start.query.at, &start.stop) {
        (RowPosition::Start | RowPosition::Key { .. }, _) => return,
        (RowPosition::Item { identity, .. }, _) => {
            let form = EpkForm::of(&container.spec.partition_key);
            let reached = keys::row_of_identity(identity);
            part_ranges.retain(|part| keys::row_bounds(form, &part.epk).1[..] > reached[..]);
        }
        (RowPosition::Number { .. }, stop) => {
            let mut within = part_ranges.iter_mut().filter(|part| part.side == RangeSide::Within);
            if let (Some(part), Some(stop)) = (within.next(), stop)
                && !matches!(part.scope, Scope::Key(_))
            {
                let end = within.next_back().map(|last| last.epk.max.clone());
                part.epk.max = end.unwrap_or_else(|| part.epk.max.clone());
                part.scope = Scope::Epk(part.epk.clone());
                part.epk = stop.clone();
                let mut has_within = false;
                part_ranges.retain(|part| {
                    let is_within = part.side == RangeSide::Within;
                    !is_within || !std::mem::replace(&mut has_within, true)
                });
            }
        }
    }
    part_ranges.retain(|part| part.side != RangeSide::Before);
}

/// The partition keys whose items can match a query, if its scope and filter restrict them.
fn keys_of(container: &Container, plan: &Plan, scope: &Scope) -> Option<Vec<PartitionKey>> {
    if let Scope::Key(key) = scope {
        return Some(vec![key.clone()]);
    }
    let definition = &container.spec.partition_key;
    if definition.is_system {
        return None;
    }
    match plan.key_scope(&definition.paths) {
        KeyScope::All => None,
        KeyScope::Keys(keys) => keys.iter().map(|key| PartitionKey::from_values(key)).collect(),
    }
}

/// A range, cut where `stop` begins and ends.
fn cut(range: &EpkRange, stop: Option<&EpkRange>) -> Vec<PartRange> {
    let of = |part: Option<EpkRange>, side| {
        part.map(|epk| PartRange { scope: Scope::Epk(epk.clone()), epk, side })
    };
    let Some(stop) = stop else {
        return of(Some(range.clone()), RangeSide::Within).into_iter().collect();
    };
    let full = EpkRange::full();
    let before = EpkRange { min: full.min, max: stop.min.clone() };
    let behind = EpkRange { min: stop.max.clone(), max: full.max };
    [
        of(range.intersect(&before), RangeSide::Before),
        of(range.intersect(stop), RangeSide::Within),
        of(range.intersect(&behind), RangeSide::Behind),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A range without items.
fn empty_part(routing: &RoutingMap) -> Option<PartRange> {
    let first = routing.ranges().first()?;
    let epk = EpkRange { min: first.epk.min.clone(), max: first.epk.min.clone() };
    Some(PartRange { scope: Scope::Epk(epk.clone()), epk, side: RangeSide::Within })
}

/// Completes when all futures have, with their results in order.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut is_pending = false;
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_some() {
                continue;
            }
            match future.as_mut().poll(context) {
                Poll::Ready(done) => *output = Some(done),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
