//! Queries over the items of a container.

use std::sync::Arc;
use std::time::Duration;

use engine::components::Clock;
use engine::ops::{Page, PageRequest, Scope};
use engine::{Container, RequestContext};
use lang::nosql::Environment;
use model::{PartitionKey, PartitionKeyDefinition};
use percent_encoding::NON_ALPHANUMERIC;
use query::exec::RowPosition;

use crate::errors::ApiError;
use crate::feed::{self, TokenLimit};
use crate::headers::HeaderName;
use crate::index_metrics::{self, IndexMetrics};
use crate::query_metrics::{CompileTimes, Metrics};
use crate::query_text::QueryText;
use crate::ranked_query::{self, RankedQuery};
use crate::reply::{Reply, ReplyHeader};
use crate::request::Request;
use crate::script_functions::QueryFunctions;
use crate::{Service, merged_query, payload, policy, query_plan, scope, session};

/// How rows with equal sort keys are ordered by the numbers of their items.
#[derive(Clone, Copy)]
enum Ties {
    Rising,
    Falling,
}

impl Ties {
    fn of(plan: &query::Plan) -> Self {
        match plan.has_falling_ties() {
            true => Ties::Falling,
            false => Ties::Rising,
        }
    }

    /// What clients are told, which skip rows with equal sort keys by their resource ids.
    fn execution_info(self) -> &'static str {
        match self {
            Ties::Rising => r#"{"reverseRidEnabled":false,"reverseIndexScan":false}"#,
            Ties::Falling => r#"{"reverseRidEnabled":false,"reverseIndexScan":true}"#,
        }
    }
}

pub(crate) async fn execute(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    let clock = &service.engine().components().clock;
    let mut query_timer = QueryTimer::begin(clock, request);
    let query = QueryText::parse(request)?;
    let functions = QueryFunctions::of(service, container);
    let environment = environment(service, container, &functions);
    // Boxed, because few queries need the memory of this future.
    if ranked_query::may_rank(&query)
        && let Some(reply) =
            Box::pin(rank(service, ctx, container, request, (&query, &environment))).await?
    {
        return Ok(reply);
    }
    let limit = TokenLimit::of(request)?;
    let options = QueryOptions {
        scope: scope::of(container, request)?,
        is_cross: request.flag(HeaderName::EnableCrossPartition),
        has_advice: request.flag(HeaderName::PopulateQueryAdvice),
    };
    if merged_query::is_wanted(request, &options.scope) {
        let query = (query, environment, &functions);
        let merged = Box::pin(merged_query::page(service, ctx, container, request, query));
        let (page, plan) = merged.await?;
        limit.check(&page)?;
        let page = (&page, Ties::of(&plan));
        return Ok(answer(container, request, (None, &options.scope), page, &query_timer));
    }
    let (owner, timer) = (Arc::clone(container), Arc::clone(clock));
    let compile = move |query| compile(&owner, query, options, &environment, timer.as_ref());
    let CompiledQuery { plan, scope, resume, advice, times } =
        query.run_blocking_if_long(service, compile).await?;
    query_timer.compiling = times;
    // Clients rely on each page of a query over several ranges coming from a single range.
    let ends_with_range = matches!(scope, Scope::All);
    let page = PageRequest {
        resume,
        ends_with_range,
        runs_scripts: functions.is_used(),
        wants_report: index_metrics::are_wanted(request),
        wants_times: query_timer.is_requested,
        ..request.page()?
    };
    let ties = Ties::of(&plan);
    let page = service.engine().query(ctx, container, plan, scope.clone(), page).await;
    let mut page = page.map_err(|error| functions.explain(error))?;
    limit.check(&page)?;
    if matches!(scope, Scope::All) {
        page.continuation = page.continuation.map(|token| feed::fan_out_token(token, &limit));
    }
    Ok(answer(container, request, (advice, &scope), (&page, ties), &query_timer))
}

/// The response to a query that ranks its rows; `None` if it does not.
async fn rank(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
    (query, environment): (&QueryText, &Environment),
) -> Result<Option<Reply>, ApiError> {
    let mut query_timer = QueryTimer::begin(&service.engine().components().clock, request);
    let has_advice = request.flag(HeaderName::PopulateQueryAdvice);
    let began = query_timer.clock.monotonic();
    let ranked = RankedQuery::of(service, container, query, environment).await?;
    let Some(ranked) = ranked else { return Ok(None) };
    query_timer.compiling.lowering = query_timer.clock.monotonic().saturating_sub(began);
    let advice = match has_advice {
        true => {
            Some(query.clone().run_blocking_if_long(service, |query| advice_text(&query)).await?)
        }
        false => None,
    };
    let scope = ranked.scope(container, request)?;
    let limit = TokenLimit::of(request)?;
    let options = PageRequest { wants_times: query_timer.is_requested, ..request.page()? };
    let page = ranked.page(service, ctx, container, scope.clone(), options).await?;
    limit.check(&page)?;
    let page = (&page, Ties::Rising);
    Ok(Some(answer(container, request, (advice, &scope), page, &query_timer)))
}

/// The time measurements of a query, if the client asked for query metrics.
struct QueryTimer<'c> {
    clock: &'c Arc<dyn Clock>,
    is_requested: bool,
    began: Duration,
    compiling: CompileTimes,
}

impl<'c> QueryTimer<'c> {
    fn begin(clock: &'c Arc<dyn Clock>, request: &Request) -> Self {
        let is_requested = request.flag(HeaderName::PopulateQueryMetrics);
        Self { clock, is_requested, began: clock.monotonic(), compiling: CompileTimes::default() }
    }
}

/// The response with a page of a query's result.
fn answer(
    container: &Container,
    request: &Request,
    (advice, scope): (Option<String>, &Scope),
    (page, ties): (&Page, Ties),
    query_timer: &QueryTimer<'_>,
) -> Reply {
    let filled = query_timer.clock.monotonic();
    let (mut reply, rows_bytes) = feed::reply(container, page, payload::demands_binary(request));
    reply = reply.header(ReplyHeader::ExecutionInfo, ties.execution_info());
    if request.flag(HeaderName::OptimisticDirectExecute) {
        reply = reply.header(ReplyHeader::RequiresDistribution, "False");
    }
    if query_timer.is_requested {
        let written = query_timer.clock.monotonic();
        let metrics = Metrics {
            total: written.saturating_sub(query_timer.began),
            compiling: query_timer.compiling,
            page: page.times.unwrap_or_default(),
            writing: written.saturating_sub(filled),
            retrieved: page.retrieved,
            rows: page.rows.len(),
            rows_bytes,
        };
        reply = reply.header(ReplyHeader::QueryMetrics, metrics.to_text());
    }
    if let Some(report) = &page.report {
        reply = IndexMetrics::of(container, scope, report).add_to(reply, request);
    }
    if let Some(advice) = advice {
        reply = reply.header(ReplyHeader::QueryAdvice, advice);
    }
    reply
}

/// The query options of a request.
struct QueryOptions {
    scope: Scope,
    is_cross: bool,
    has_advice: bool,
}

/// The compiled forms of a query's text.
struct CompiledQuery {
    plan: query::Plan,
    scope: Scope,
    resume: Option<RowPosition>,
    advice: Option<String>,
    times: CompileTimes,
}

fn compile(
    container: &Container,
    query: QueryText,
    options: QueryOptions,
    environment: &Environment,
    clock: &dyn Clock,
) -> Result<CompiledQuery, ApiError> {
    let began = clock.monotonic();
    let parsed = query.parsed()?;
    let understood = clock.monotonic();
    let plan = query.lowered(&parsed, environment)?.in_type_order(container.spec.order);
    let times = CompileTimes {
        parsing: understood.saturating_sub(began),
        lowering: clock.monotonic().saturating_sub(understood),
    };
    let advice = options.has_advice.then(|| advice_text(&query)).transpose()?;
    let scope = scope_of(container, options, &query, &plan, environment)?;
    policy::check_order(container, &plan)?;
    Ok(CompiledQuery { resume: query.resume(&plan)?, plan, scope, advice, times })
}

/// Advice on the query text, in the form that clients read.
fn advice_text(query: &QueryText) -> Result<String, ApiError> {
    let advice = lang::nosql::advice(&query.text)?;
    let entry = |advice: lang::nosql::Advice| format!(r#"{{"Id":"{}","Params":[]}}"#, advice.id());
    let list = advice.into_iter().map(entry).collect::<Vec<_>>().join(",");
    Ok(percent_encoding::utf8_percent_encode(&format!("[{list}]"), NON_ALPHANUMERIC).to_string())
}

/// The environment in which a query's expressions are evaluated.
pub(crate) fn environment(
    service: &Service,
    container: &Container,
    functions: &QueryFunctions,
) -> Environment {
    let components = service.engine().components();
    let now_ms = i64::try_from(components.clock.now().0).unwrap_or(i64::MAX);
    let mut seed = [0; 8];
    components.random.fill(&mut seed);
    let texts = policy::full_text(container);
    Environment {
        now_ticks: now_ms.saturating_mul(10_000),
        seed: u64::from_be_bytes(seed),
        geospatial: policy::geospatial(container),
        computed: policy::computed_properties(container),
        vectors: policy::vectors(container),
        texts: texts.paths,
        language: texts.language,
        user_functions: functions.shared(),
    }
}

/// The scope of the query. Without a scope in the request, it is the one that the filter confines
/// it to. Otherwise the query runs in all ranges, if the client allows that and does not need to
/// merge rows of several ranges.
fn scope_of(
    container: &Container,
    options: QueryOptions,
    query: &QueryText,
    plan: &query::Plan,
    environment: &Environment,
) -> Result<Scope, ApiError> {
    let QueryOptions { scope, is_cross, .. } = options;
    if !matches!(scope, Scope::All) {
        return Ok(scope);
    }
    let definition = &container.spec.partition_key;
    if definition.is_system || !plan.reads_items() {
        return Ok(Scope::All);
    }
    let key = plan.partition_key_filter(&definition.paths);
    if is_cross {
        check_servable(query, environment, definition, key.is_some())?;
    }
    if let Some(key) = key {
        return Ok(PartitionKey::from_values(&key).map_or(Scope::All, Scope::Key));
    }
    match is_cross {
        true => Ok(Scope::All),
        false => Err(needs_key()),
    }
}

/// 400 for a query that names no key although the request requires one.
pub(crate) fn needs_key() -> ApiError {
    ApiError::bad_request(
        "Cross partition query is required but disabled. Please set \
         x-ms-documentdb-query-enablecrosspartition to true, specify \
         x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
    )
}

/// Checks that the result is the concatenation of the rows of all ranges; a filter on a whole key
/// leaves one range. Otherwise the error tells the client to query each range itself, with the
/// query plan.
fn check_servable(
    query: &QueryText,
    environment: &Environment,
    definition: &PartitionKeyDefinition,
    has_key: bool,
) -> Result<(), ApiError> {
    let plan = query_plan::plan_of(query, environment, definition, false)?;
    let has_grouped_aggregates = plan.has_grouped_aggregates();
    if plan.is_concatenation() || (has_key && !has_grouped_aggregates) {
        return Ok(());
    }
    if has_grouped_aggregates {
        return Err(ApiError::bad_request_errors(
            "Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates.",
        ));
    }
    let rendered = query_plan::render(&plan, definition);
    Err(ApiError::needs_plan(String::from_utf8_lossy(&rendered).into_owned()))
}
