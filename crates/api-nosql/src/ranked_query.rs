//! `ORDER BY RANK` for queries whose rows the client need not merge from several ranges.
//!
//! Otherwise the client queries statistics, then the best rows by each score, and merges the ranks.
//! Here the server runs the same queries one after the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::query::fusion::{self, Score};
use ::query::plan::{GatewayPlan, HybridPlan, SortOrder};
use ::query::{EvalError, KeyScope};
use engine::ops::{Page, PageRequest, PageTimes, Retrieved, Row, Scope};
use engine::{Container, RequestContext};
use lang::nosql::Environment;
use model::{Charge, PartitionKey, Value, json, limits};

use crate::Service;
use crate::errors::ApiError;
use crate::headers::name;
use crate::query_text::QueryText;
use crate::request::Request;
use crate::{query, query_plan, scope};

/// Most bytes of rows that are ranked; with more, the query fails.
const BYTES_MAX: usize = 64 * 1024 * 1024;
const FILTER_PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";
const SCORE_PLACEHOLDER: &str = "{documentdb-formattablehybridsearchquery-";

/// Whether a query may rank its rows. The check is a text search, so the words may also be part of
/// a string or a name.
pub(crate) fn may_rank(query: &QueryText) -> bool {
    let text = query.text.as_bytes();
    text.windows(4).any(|word| word.eq_ignore_ascii_case(b"RANK"))
}

/// A query that ranks its rows.
pub(crate) struct RankedQuery<'q> {
    query: &'q QueryText,
    environment: &'q Environment,
    plan: GatewayPlan,
    hybrid: HybridPlan,
}

/// A row and its scores.
struct Ranked {
    scores: Vec<f64>,
    /// The part of it that is returned.
    payload: Option<Value>,
}

impl<'q> RankedQuery<'q> {
    /// `None` if the query does not rank its rows.
    pub(crate) async fn of(
        service: &Service,
        container: &Arc<Container>,
        query: &'q QueryText,
        environment: &'q Environment,
    ) -> Result<Option<Self>, ApiError> {
        let (owner, around) = (Arc::clone(container), environment.clone());
        let plan = move |query: QueryText| {
            query_plan::plan_of(&query, &around, &owner.spec.partition_key, false)
        };
        let plan = query.clone().run_blocking_if_long(service, plan).await?;
        let hybrid = plan.hybrid.clone();
        Ok(hybrid.map(|hybrid| Self { query, environment, plan, hybrid }))
    }

    /// The scope of the query: within one key, or as the client says. Clients that query all ranges
    /// must query each range themselves.
    pub(crate) fn scope(
        &self,
        container: &Container,
        request: &Request,
    ) -> Result<Scope, ApiError> {
        let scope = scope::of(container, request)?;
        let definition = &container.spec.partition_key;
        if !matches!(scope, Scope::All) || definition.is_system {
            return Ok(scope);
        }
        if let KeyScope::Keys(keys) = &self.plan.keys
            && let [key] = keys.as_slice()
            && key.len() == definition.paths.len()
        {
            return Ok(PartitionKey::from_values(key).map_or(Scope::All, Scope::Key));
        }
        match request.flag(&name::ENABLE_CROSS_PARTITION) {
            true => {
                let rendered = query_plan::render(&self.plan, definition);
                Err(ApiError::needs_plan(String::from_utf8_lossy(&rendered).into_owned()))
            }
            false => Err(query::needs_key()),
        }
    }

    /// A page of the rows in rank order.
    pub(crate) async fn page(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        scope: Scope,
        request: PageRequest,
    ) -> Result<Page, ApiError> {
        let engine = service.engine();
        let done = match &request.continuation {
            Some(token) => engine.rows_before(container, token)?,
            None => 0,
        };
        let times = request.wants_times.then(PageTimes::default);
        let retrieved = Retrieved::default();
        let mut run = Run { service, ctx, container, scope, retrieved, times };
        let (rows, charge) = self.ranked(&mut run).await?;
        let Run { retrieved, times, .. } = run;
        ctx.served.charge = charge;
        let skip = self.hybrid.skip.unwrap_or(0).saturating_add(done);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let left = self.hybrid.take.map_or(u64::MAX, |take| take.saturating_sub(done));
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let rows_max = request.items_max.unwrap_or(limits::PAGE_ITEMS_DEFAULT);
        let mut rows = rows.into_iter().skip(skip).take(left).peekable();
        let mut page = Page { retrieved, times, ..Page::default() };
        let mut bytes = 0;
        while page.rows.len() < rows_max
            && bytes < limits::PAGE_BYTES_MAX
            && let Some(row) = rows.next()
        {
            let text = json::to_string(&row).into_bytes();
            bytes += text.len();
            page.rows.push(Row::Json(text));
        }
        if rows.peek().is_some() {
            let done = done + page.rows.len() as u64;
            page.continuation = Some(engine.token_after_rows(container, done));
        }
        Ok(page)
    }

    /// All rows in rank order, and their request charge.
    async fn ranked(&self, run: &mut Run<'_>) -> Result<(Vec<Value>, Charge), ApiError> {
        let mut charge = Charge::ZERO;
        let statistics = match self.hybrid.requires_global_statistics {
            true => {
                let text = &self.hybrid.global_statistics_query;
                let (rows, cost) = run.rows(self, text, BYTES_MAX).await?;
                charge += cost;
                rows.into_iter().next().unwrap_or(Value::Null)
            }
            false => Value::Null,
        };
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut found: Vec<Ranked> = Vec::new();
        let mut bytes_left = BYTES_MAX;
        for component in &self.hybrid.components {
            let text = filled_in(&component.rewritten_query, &statistics);
            let (rows, cost) = run.rows(self, &text, bytes_left).await?;
            charge += cost;
            for row in rows {
                let Some((rid, row)) = read_row(row) else { continue };
                let bytes = rid.len() + size_of::<Ranked>();
                if known.insert(rid) {
                    bytes_left = bytes_left.saturating_sub(bytes);
                    found.push(row);
                }
            }
        }
        let scores: Vec<Vec<f64>> = found.iter().map(|row| row.scores.clone()).collect();
        let order = fusion::ranked(&self.scores(), &scores);
        let rows = order.into_iter().filter_map(|at| found[at].payload.take());
        Ok((rows.collect(), charge))
    }

    fn scores(&self) -> Vec<Score> {
        let score = |(at, component): (usize, &GatewayPlan)| Score {
            order: component.order_by.first().copied().unwrap_or(SortOrder::Descending),
            weight: self.hybrid.weights.get(at).copied().unwrap_or(1.0),
        };
        self.hybrid.components.iter().enumerate().map(score).collect()
    }
}

/// The context in which the queries run.
struct Run<'r> {
    service: &'r Service,
    ctx: &'r mut RequestContext,
    container: &'r Arc<Container>,
    scope: Scope,
    retrieved: Retrieved,
    /// Time measurements, if the client asked for query metrics.
    times: Option<PageTimes>,
}

impl Run<'_> {
    /// All rows of a query, and their request charge.
    async fn rows(
        &mut self,
        ranked: &RankedQuery<'_>,
        text: &str,
        bytes_max: usize,
    ) -> Result<(Vec<Value>, Charge), ApiError> {
        let query = ranked.query.with_text(text.to_owned());
        let around = ranked.environment.clone();
        let plan =
            query.run_blocking_if_long(self.service, move |query| query.compile(&around)).await?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut charge = Charge::ZERO;
        let mut continuation = None;
        loop {
            let engine = self.service.engine();
            let (plan, scope) = (plan.clone(), self.scope.clone());
            let request = PageRequest {
                items_max: Some(limits::PAGE_ITEMS_MAX),
                continuation,
                wants_times: self.times.is_some(),
                ..PageRequest::default()
            };
            let page = engine.query(self.ctx, self.container, plan, scope, request).await?;
            charge += self.ctx.served.charge;
            self.retrieved.rows += page.retrieved.rows;
            self.retrieved.bytes += page.retrieved.bytes;
            if let (Some(times), Some(more)) = (&mut self.times, page.times) {
                times.add(more);
            }
            for row in &page.rows {
                let Row::Json(text) = row else { continue };
                bytes += text.len();
                if bytes > bytes_max {
                    return Err(engine::Error::from(EvalError::MemoryExceeded).into());
                }
                rows.extend(json::parse(text, limits::JSON_DEPTH_MAX).map(|parsed| parsed.value));
            }
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok((rows, charge));
            }
        }
    }
}

/// Parses `{"_rid": ..., "payload": {"payload": ..., "componentScores": [...]}}`.
fn read_row(row: Value) -> Option<(String, Ranked)> {
    let rid = row.field("_rid")?.as_str()?.to_owned();
    let payload = row.field("payload")?;
    let scores = payload.field("componentScores")?.as_array()?;
    let scores = scores.iter().map(|score| score.as_f64().unwrap_or(f64::NAN)).collect();
    Some((rid, Ranked { scores, payload: payload.field("payload").cloned() }))
}

/// The query for a score with the statistics filled in.
fn filled_in(text: &str, statistics: &Value) -> String {
    let number = |value: Option<&Value>| json::to_string(value.unwrap_or(&Value::Int64(0)));
    let documents = number(statistics.field("documentCount"));
    let mut text = text.replace(FILTER_PLACEHOLDER, "true");
    text = text.replace(&format!("{SCORE_PLACEHOLDER}totaldocumentcount}}"), &documents);
    let texts = statistics.field("fullTextStatistics").and_then(Value::as_array);
    for (at, of_text) in texts.unwrap_or_default().iter().enumerate() {
        let words = number(of_text.field("totalWordCount"));
        let hits = number(of_text.field("hitCounts"));
        text = text.replace(&format!("{SCORE_PLACEHOLDER}totalwordcount-{at}}}"), &words);
        text = text.replace(&format!("{SCORE_PLACEHOLDER}hitcountsarray-{at}}}"), &hits);
    }
    text
}
