//! Pages of items: plain feeds and queries, by scan in the order of the hash line.

use std::sync::Arc;
use std::time::Duration;

use model::{Charge, EpkRange, Lsn, epk, limits};
use storage::{Dir, KeyRange, View};

use crate::catalog::Container;
use crate::continuation::{Position, cut_digest};
use crate::engine::check_session;
use crate::keys::{self, EpkForm};
use crate::ops::{Page, PageRequest, Retrieved, Row, Scope};
use crate::partition::{self, ScanOutcome, ScanRequest};
use crate::planted::{Bug, is_planted};
use crate::prepare::{LogicalName, Place};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Engine, Error, Priority, RangeId, RequestContext, StoredItem, ru};

/// A page ends after this long, so that no view is held for long and no client waits for ever.
const PAGE_TIME_MAX: Duration = Duration::from_secs(1);
/// How many rows are looked at between two looks at the clock.
const ROWS_PER_CLOCK: u64 = 64;
/// Items erased per commit when a logical partition is deleted.
const ERASE_ITEMS_MAX: usize = 500;

/// One range's share of a walk.
struct Stretch {
    range: PartitionRange,
    lo: Vec<u8>,
    hi: Vec<u8>,
    /// The one logical partition it is about, if it is one.
    name: Option<LogicalName>,
}

/// A page under construction.
struct PageBuilder {
    plan: Option<query::Plan>,
    rows: Vec<Row>,
    rows_max: usize,
    bytes: usize,
    rows_seen: u64,
    bytes_seen: u64,
    /// What the ranges cost that are done.
    charge: Charge,
    /// What was looked at in the range under way.
    in_range: Retrieved,
    position: Position,
    touched: Vec<(RangeId, Lsn)>,
    session: Vec<(RangeId, Lsn)>,
    priority: Priority,
}

/// Why a walk stopped before the end of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The page is full or its time is over; there may be more.
    PageFull,
    /// The query wants no more rows.
    Satisfied,
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
        self.page(ctx, container, None, scope, page).await
    }

    /// Rows of a compiled query over a scope.
    pub async fn query(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: query::Plan,
        scope: Scope,
        page: PageRequest,
    ) -> Result<Page, Error> {
        self.page(ctx, container, Some(plan), scope, page).await
    }

    async fn page(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        plan: Option<query::Plan>,
        scope: Scope,
        request: PageRequest,
    ) -> Result<Page, Error> {
        let position = match &request.continuation {
            Some(token) => self.inner.token_key.open(container.rid, token)?,
            None => Position::default(),
        };
        let rows_max =
            request.items_max.unwrap_or(limits::PAGE_ITEMS_DEFAULT).min(limits::PAGE_ITEMS_MAX);
        let builder = PageBuilder {
            plan,
            rows: Vec::new(),
            rows_max,
            bytes: 0,
            rows_seen: 0,
            bytes_seen: 0,
            charge: Charge::ZERO,
            in_range: Retrieved::default(),
            position,
            touched: Vec::new(),
            session: ctx.session.clone(),
            priority: ctx.priority,
        };
        let engine = self.clone();
        let walked = Arc::clone(container);
        let (mut builder, walked) = self
            .run_blocking(move || {
                let mut builder = builder;
                let walked = engine.walk(&walked, &scope, &mut builder);
                Ok((builder, walked))
            })
            .await?;
        for (range, at) in &builder.touched {
            ctx.served.touch(*range, *at);
        }
        ctx.served.charge = match &walked {
            Err(Error::Throttled { .. }) if builder.charge == Charge::ZERO => ru::throttled(),
            _ => builder.charge,
        };
        let stop = walked?;
        let continuation = (stop == Some(Stop::PageFull)).then(|| {
            builder.cut_long_position(EpkForm::of(&container.spec.partition_key));
            self.inner.token_key.seal(container.rid, &builder.position)
        });
        let retrieved = Retrieved { rows: builder.rows_seen, bytes: builder.bytes_seen };
        Ok(Page { rows: builder.rows, continuation, retrieved })
    }

    fn walk(
        &self,
        container: &Container,
        scope: &Scope,
        builder: &mut PageBuilder,
    ) -> Result<Option<Stop>, Error> {
        let (view, stretches) = loop {
            let stretches = stretches(container, &container.routing(), scope, &builder.position)?;
            if let Some(view) = self.view_of(stretches.iter().map(|s| &s.range))? {
                break (view, stretches);
            }
        };
        let deadline = self.inner.components.clock.monotonic() + PAGE_TIME_MAX;
        if builder.is_satisfied() {
            return Ok(Some(Stop::Satisfied));
        }
        let start = builder.position.clone();
        for stretch in stretches {
            let admitted = self.try_admit(builder.priority, &stretch.range, ru::query(1, 0, 0));
            let paid = match admitted {
                Ok(paid) => paid,
                // The caller takes what there is and comes again for the rest.
                Err(_) if builder.position != start => return Ok(Some(Stop::PageFull)),
                Err(error) => return Err(error),
            };
            let meter = &stretch.range.partition.meter;
            builder.in_range = Retrieved::default();
            let walked = self.walk_stretch(container, view.as_ref(), &stretch, deadline, builder);
            let charge = builder.charge_in_range();
            meter.settle(paid, charge, stretch.name.as_ref());
            builder.charge += charge;
            if let Some(stop) = walked? {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    fn walk_stretch(
        &self,
        container: &Container,
        view: &dyn View,
        stretch: &Stretch,
        deadline: Duration,
        builder: &mut PageBuilder,
    ) -> Result<Option<Stop>, Error> {
        let clock = &self.inner.components.clock;
        let charge_max = stretch.range.partition.meter.page_charge_max();
        builder.enter(&stretch.range)?;
        let mut request = ScanRequest {
            partition: stretch.range.partition.id,
            form: EpkForm::of(&container.spec.partition_key),
            lo: stretch.lo.clone(),
            hi: stretch.hi.clone(),
            after: None,
        };
        resume_after(view, &builder.position, &mut request)?;
        let mut stop = None;
        let mut rows_passed = 0u64;
        let reader = self.reader(container);
        let outcome = partition::scan(view, &request, reader, &mut |key, item| {
            if builder.rows.len() >= builder.rows_max {
                if is_planted(Bug::PageEndPassed) {
                    builder.position.set_identity(&key[1..]);
                }
                stop = Some(Stop::PageFull);
                return Ok(false);
            }
            stop = builder.take(key, item)?;
            rows_passed += 1;
            let looks_at_clock = rows_passed.is_multiple_of(ROWS_PER_CLOCK);
            let is_late = || looks_at_clock && clock.monotonic() >= deadline;
            let is_costly = || charge_max.is_some_and(|max| builder.charge_in_range() >= max);
            if stop.is_none() && (is_costly() || is_late()) {
                stop = Some(Stop::PageFull);
            }
            Ok(stop.is_none())
        })?;
        Ok(stop.filter(|_| outcome == ScanOutcome::Stopped))
    }

    /// Ids of the next items of a logical partition to erase, after the key `after`, which is
    /// moved on.
    pub(crate) async fn ids_to_erase(
        &self,
        container: &Arc<Container>,
        place: &Place,
        not_after: Lsn,
        after: Option<Vec<u8>>,
    ) -> Result<(Vec<String>, Option<Vec<u8>>), Error> {
        let (lo, hi) = place.logical.row_bounds();
        let form = EpkForm::of(&container.spec.partition_key);
        let reader = self.reader(container);
        let (engine, container, epk) = (self.clone(), Arc::clone(container), place.epk.clone());
        self.run_blocking(move || {
            let (view, partition, charge_max) = loop {
                let routing = container.routing();
                let range = routing.locate(&epk);
                if let Some(view) = engine.view_of([range])? {
                    break (view, range.partition.id, range.partition.meter.page_charge_max());
                }
            };
            let mut charge = Charge::ZERO;
            let request = ScanRequest { partition, form, lo, hi, after };
            let mut ids = Vec::new();
            let mut last = None;
            partition::scan(view.as_ref(), &request, reader, &mut |key, item| {
                if let Some(item) = item.filter(|item| item.lsn() <= not_after) {
                    ids.push(item.id().to_owned());
                    charge += ru::delete(item.body().len());
                }
                let is_costly = charge_max.is_some_and(|max| charge >= max);
                if ids.len() == ERASE_ITEMS_MAX || is_costly {
                    last = Some(key.to_vec());
                }
                Ok(last.is_none())
            })?;
            Ok((ids, last))
        })
        .await
    }

    /// What a container holds, per range: items and bytes.
    pub fn statistics(&self, container: &Container) -> Vec<(RangeId, u64, u64)> {
        let routing = container.routing();
        let of = |r: &PartitionRange| (r.id, r.partition.items(), r.partition.bytes());
        routing.ranges().iter().map(of).collect()
    }
}

impl PageBuilder {
    /// Whether TOP or LIMIT has been reached.
    fn is_satisfied(&self) -> bool {
        let limit = self.plan.as_ref().and_then(row_limit);
        limit.is_some_and(|limit| self.position.returned >= limit)
    }

    /// Goes on to a range, which must not be behind what the caller has seen.
    fn enter(&mut self, range: &PartitionRange) -> Result<(), Error> {
        let at = range.partition.lsn();
        self.touched.push((range.id, at));
        check_session(&self.session, range, at)
    }

    /// What the range under way has cost so far.
    fn charge_in_range(&self) -> Charge {
        ru::query(1, self.in_range.rows, self.in_range.bytes)
    }

    fn cut_long_position(&mut self, form: EpkForm) {
        let row_key =
            keys::split_identity(form, &self.position.identity).map(|(_, _, id)| id.len());
        if let Some(row_key) = row_key {
            self.position.cut_long_row_key(row_key);
        }
    }

    /// Looks at one row; `None` is one whose time is over.
    fn take(&mut self, key: &[u8], item: Option<StoredItem>) -> Result<Option<Stop>, Error> {
        self.position.set_identity(&key[1..]);
        let Some(item) = item else { return Ok(None) };
        self.rows_seen += 1;
        self.bytes_seen += item.body().len() as u64;
        self.in_range.rows += 1;
        self.in_range.bytes += item.body().len() as u64;
        let row = match &self.plan {
            None => Some(Row::Item(item)),
            Some(plan) => project(plan, item)?,
        };
        let Some(row) = row else { return Ok(None) };
        let offset = self.plan.as_ref().and_then(query::Plan::offset).unwrap_or(0);
        if self.position.skipped < offset {
            self.position.skipped += 1;
            return Ok(None);
        }
        self.bytes += size_of_row(&row);
        self.rows.push(row);
        self.position.returned += 1;
        if self.is_satisfied() {
            return Ok(Some(Stop::Satisfied));
        }
        Ok((self.bytes >= limits::PAGE_BYTES_MAX).then_some(Stop::PageFull))
    }
}

fn row_limit(plan: &query::Plan) -> Option<u64> {
    match (plan.top(), plan.limit()) {
        (Some(top), Some(limit)) => Some(top.min(limit)),
        (one, other) => one.or(other),
    }
}

fn project(plan: &query::Plan, item: StoredItem) -> Result<Option<Row>, Error> {
    let failed = |e: query::EvalError| Error::BadRequest(e.to_string());
    if plan.is_select_all() && !plan.has_filter() {
        return Ok(Some(Row::Item(item)));
    }
    let value = item.to_value()?;
    if !plan.matches(&value).map_err(failed)? {
        return Ok(None);
    }
    if plan.is_select_all() {
        return Ok(Some(Row::Item(item)));
    }
    Ok(plan.project(&value).map_err(failed)?.map(Row::Value))
}

fn size_of_row(row: &Row) -> usize {
    match row {
        // System properties add about this much to what is stored.
        Row::Item(item) => item.body().len() + 200,
        Row::Value(value) => model::json::to_string(value).len(),
    }
}

/// Lets a scan go on behind `position`.
fn resume_after(
    view: &dyn View,
    position: &Position,
    request: &mut ScanRequest,
) -> Result<(), Error> {
    if position.identity.is_empty() {
        return Ok(());
    }
    let key = keys::row_of_identity(&position.identity).to_vec();
    let Some(cut) = position.cut else {
        request.after = Some(key);
        return Ok(());
    };
    // The token holds the beginning of a long key: look for the item among those that begin so.
    // Should it be gone, the walk goes on with all of them, since showing one twice loses nothing.
    if key < request.lo || key >= request.hi {
        request.after = Some(key);
        return Ok(());
    }
    let range = KeyRange::half_open(&key, &request.hi);
    let mut cursor = view.scan(request.partition, range, Dir::Fwd)?;
    while let Some((found, _)) = cursor.next()?.filter(|(found, _)| found.starts_with(&key)) {
        if cut_digest(&found[1..]) == cut {
            request.after = Some(found.to_vec());
            return Ok(());
        }
    }
    request.lo = key;
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
        return Ok(vec![Stretch { range, lo, hi, name: Some(place.into_name()) }]);
    }
    let Some(wanted) = covered(container, routing, scope)? else { return Ok(Vec::new()) };
    let done = keys::split_identity(form, &position.identity).map(|(epk, _, _)| epk);
    Ok(routing
        .ranges()
        .iter()
        .filter(|range| done.as_ref().is_none_or(|done| *done < range.epk.max))
        .filter_map(|range| {
            let common = range.epk.intersect(&wanted)?;
            let (lo, hi) = keys::row_bounds(form, &common);
            Some(Stretch { range: range.clone(), lo, hi, name: None })
        })
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
