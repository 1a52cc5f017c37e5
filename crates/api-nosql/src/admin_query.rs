//! Queries of the admin API: the whole result over all partitions, and its execution plan.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Container;
use engine::gather::{GatherRequest, Gathered, MergeStrategy, QueryPartReport};
use engine::ops::{AccessPathKind, IndexOrder, PageReport, Row, Scope};
use model::{Charge, EpkRange, ErrorKind, PartitionKey, Value, json, limits};
use query::Plan;
use query::access::IndexSet;
use query::explain::{Conjunct, path_text};
use query::plan::SortOrder;

use crate::errors::ApiError;
use crate::index_metrics::{column_of, column_text};
use crate::query_text::QueryText;
use crate::script_functions::QueryFunctions;
use crate::{
    Service, partition_key_header, payload, policy, query as queries, query_plan, system_properties,
};

/// Longest filter that is shown.
const FILTER_CHARS_MAX: usize = 2_000;
const THROTTLED: &str = "The container has used up its request units. The query is answered once \
                         it has some again.";
/// Most levels of an error's envelope.
const ENVELOPE_DEPTH: usize = 8;
/// Most pages that are run to measure the cost of a query.
const ANALYZED_PAGES_MAX: usize = 100;

/// A query and the partition key it is confined to, if any.
#[derive(Debug)]
pub struct AdminQuery {
    query: QueryText,
    /// As JSON text.
    key: Option<String>,
}

/// Why a query fails.
#[derive(Clone, Debug)]
pub struct AdminQueryError {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// A text for people.
    pub message: String,
    /// How long to wait before a retry, if a retry helps.
    pub retry_after: Option<Duration>,
    /// The position of a mistake in the query, if it is known.
    pub query_error: Option<Box<QueryErrorSpan>>,
}

/// A mistake in a query.
#[derive(Clone, Debug)]
pub struct QueryErrorSpan {
    /// The service's code for it, such as `SC1001`, if it has one.
    pub code: Option<String>,
    /// Where it is, in UTF-16 code units.
    pub span: Range<usize>,
}

/// A page of a result over all partitions.
#[derive(Debug)]
pub struct AdminQueryPage {
    /// JSON texts.
    pub rows: Vec<Vec<u8>>,
    /// Token for the next page; absent when there is no more.
    pub continuation: Option<String>,
    /// Its request charge.
    pub charge: Charge,
}

/// The execution plan of a query, and its statistics if it was run.
#[derive(Debug)]
pub struct Explanation {
    /// The query plan that SDKs receive, as JSON, or why they receive none.
    pub client_plan: Result<Bytes, String>,
    /// The text that SDKs send to each partition; empty if it is the text of the query.
    pub rewritten: String,
    /// How the server merges the rows of partitions.
    pub merging: &'static str,
    /// The filter, with parameters replaced by their values.
    pub filter: Option<String>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// The items that the filter can match, as far as indexes can tell.
    pub access: String,
    /// The partitions that are queried, in the order of the hash line.
    pub partitions: Vec<PartitionExplanation>,
    /// The result statistics, if the query was run.
    pub outcome: Option<Outcome>,
}

/// A condition that all rows satisfy.
#[derive(Debug)]
pub struct Condition {
    /// The condition.
    pub text: String,
    /// Which items indexes select for it.
    pub access: String,
    /// Whether the index selects exactly the items that satisfy it.
    pub is_exact: bool,
    /// Paths that are not indexed and would help.
    pub unindexed: Vec<String>,
}

/// How one partition runs a query.
#[derive(Debug)]
pub struct PartitionExplanation {
    /// The physical partitions that hold it; more than one if it was split meanwhile.
    pub ids: Vec<String>,
    /// The range of the hash line that is read.
    pub epk: EpkRange,
    /// The logical partition that is read, as JSON, if the query reads only one.
    pub key: Option<String>,
    /// How items are found.
    pub access_path: String,
    /// Whether an index selects them.
    pub is_indexed: bool,
    /// Its work, if the query was run.
    pub work: Option<PartitionWork>,
    /// Index entries that were read.
    pub entries: u64,
}

/// The work of one partition.
#[derive(Debug)]
pub struct PartitionWork {
    /// How many pages it returned.
    pub pages: u64,
    /// Items it scanned.
    pub items_looked_at: u64,
    /// Items it read.
    pub items_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Rows or groups it returned.
    pub rows: u64,
    /// Its request charge.
    pub charge: Charge,
}

/// The result statistics of a query.
#[derive(Debug)]
pub struct Outcome {
    /// How many rows.
    pub rows: u64,
    /// In how many pages.
    pub pages: u64,
    /// Whether these are all rows.
    pub is_complete: bool,
    /// Their request charge.
    pub charge: Charge,
}

impl From<ApiError> for AdminQueryError {
    fn from(error: ApiError) -> Self {
        let retry_after = error.retry_after();
        let kind = error.kind();
        let ErrorText { message, query_error } = if kind == ErrorKind::Throttled {
            ErrorText::plain(THROTTLED)
        } else {
            ErrorText::of(error.message())
        };
        Self { kind, message, retry_after, query_error }
    }
}

/// An error without the envelope that client libraries expect around it.
struct ErrorText {
    message: String,
    query_error: Option<Box<QueryErrorSpan>>,
}

impl ErrorText {
    fn plain(message: &str) -> Self {
        Self { message: message.to_owned(), query_error: None }
    }

    fn of(message: &str) -> Self {
        Self::from_envelope(message).unwrap_or_else(|| Self::plain(message))
    }

    /// The error in `Message: {"errors":[{...}]}` or `Message: {"Errors":["..."]}`.
    fn from_envelope(message: &str) -> Option<Self> {
        let envelope = message.strip_prefix("Message: ")?;
        let envelope = json::parse(envelope.as_bytes(), ENVELOPE_DEPTH).ok()?.value;
        let errors = envelope.field("errors").or_else(|| envelope.field("Errors"))?;
        let [error] = errors.as_array()? else { return None };
        if let Some(message) = error.as_str() {
            return Some(Self::plain(message));
        }
        let code = error.field("code").and_then(Value::as_str).filter(|code| !code.is_empty());
        let span = error.field("location").and_then(|span| {
            let end = |name| span.field(name)?.as_i64().and_then(|at| usize::try_from(at).ok());
            Some(end("start")?..end("end")?)
        });
        let message = error.field("message")?.as_str()?.to_owned();
        let code = code.map(str::to_owned);
        Some(Self {
            message,
            query_error: span.map(|span| Box::new(QueryErrorSpan { code, span })),
        })
    }
}

impl From<engine::Error> for AdminQueryError {
    fn from(error: engine::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl AdminQuery {
    /// Reads `{"query": "...", "parameters": [...], "partitionKey": [...]}`.
    pub fn parse(body: &[u8]) -> Result<Self, AdminQueryError> {
        let query = QueryText::parse_json(body)?;
        let key = match payload::value(body)?.field("partitionKey") {
            None | Some(Value::Null) => None,
            Some(key @ Value::Array(_)) => Some(json::to_string(key)),
            Some(other) => Some(format!("[{}]", json::to_string(other))),
        };
        Ok(Self { query, key })
    }

    fn scope(&self, container: &Container) -> Result<Scope, ApiError> {
        let definition = &container.spec.partition_key;
        let Some(key) = &self.key else { return Ok(Scope::All) };
        Ok(Scope::Key(partition_key_header::scope_key_of(definition, key.as_bytes())?))
    }
}

/// A parsed and compiled admin query.
struct CompiledAdminQuery {
    plan: Plan,
    scope: Scope,
    functions: QueryFunctions,
}

impl Service {
    /// A page of the whole result of a query, over all partitions.
    pub async fn run_admin_query(
        &self,
        container: &Arc<Container>,
        admin_query: &AdminQuery,
        request: GatherRequest,
    ) -> Result<AdminQueryPage, AdminQueryError> {
        let CompiledAdminQuery { plan, scope, functions } =
            self.compile(container, admin_query).await?;
        let mut ctx = self.operator_context();
        let request = GatherRequest { runs_scripts: functions.is_used(), ..request };
        let page = self.engine().gather(&mut ctx, container, plan, scope, request).await;
        let page = page.map_err(|error| functions.explain(error))?;
        let Gathered { rows, continuation, .. } = page;
        let rows = rows.iter().map(text_of).collect();
        Ok(AdminQueryPage { rows, continuation, charge: ctx.served.charge })
    }

    /// The execution plan of a query. With `analyze` the query is run, so that its actual work is
    /// included.
    pub async fn explain(
        &self,
        container: &Arc<Container>,
        admin_query: &AdminQuery,
        analyze: bool,
    ) -> Result<Explanation, AdminQueryError> {
        let compiled = self.compile(container, admin_query).await?;
        let CompiledAdminQuery { plan, scope, functions } = &compiled;
        let (merging, parts) =
            self.engine().explain(&mut self.operator_context(), container, plan, scope).await?;
        let first = parts.first().and_then(|part| part.report.as_ref());
        let conditions = first.map(conditions_of).unwrap_or_default();
        let access = first.map_or_else(String::new, |report| index_set_text(&report.index_set));
        let (parts, outcome) = match analyze {
            true => self.analyze(container, &compiled).await?,
            false => (parts, None),
        };
        let (client_plan, rewritten) =
            self.client_plan(container, admin_query, scope, functions).await;
        Ok(Explanation {
            client_plan,
            rewritten,
            merging: merging_text(merging),
            filter: plan.filter_text(FILTER_CHARS_MAX),
            conditions,
            access,
            partitions: parts
                .iter()
                .map(|part| explain_partition(part, outcome.is_some()))
                .collect(),
            outcome,
        })
    }

    async fn compile(
        &self,
        container: &Arc<Container>,
        admin_query: &AdminQuery,
    ) -> Result<CompiledAdminQuery, AdminQueryError> {
        let functions = QueryFunctions::of(self, container);
        let environment = queries::environment(self, container, &functions);
        let owner = Arc::clone(container);
        let compile = move |query: QueryText| {
            let plan = query.compile(&environment)?;
            policy::check_order(&owner, &plan)?;
            Ok(plan)
        };
        let plan = admin_query.query.clone().run_blocking_if_long(self, compile).await?;
        let scope = admin_query.scope(container)?;
        Ok(CompiledAdminQuery { plan, scope, functions })
    }

    /// The query plan that SDKs receive, and the text they send to each partition.
    async fn client_plan(
        &self,
        container: &Arc<Container>,
        admin_query: &AdminQuery,
        scope: &Scope,
        functions: &QueryFunctions,
    ) -> (Result<Bytes, String>, String) {
        let definition = &container.spec.partition_key;
        let is_whole = |key: &PartitionKey| key.0.len() == definition.paths.len();
        let has_key = match scope {
            Scope::Key(key) => is_whole(key),
            Scope::All | Scope::Range { .. } | Scope::Epk(_) => false,
        };
        let environment = queries::environment(self, container, functions);
        let owner = Arc::clone(container);
        let plan = move |query: QueryText| {
            query_plan::plan_of(&query, &environment, &owner.spec.partition_key, has_key)
        };
        match admin_query.query.clone().run_blocking_if_long(self, plan).await {
            Ok(plan) => (Ok(query_plan::render(&plan, definition)), plan.rewritten_query),
            Err(error) => (Err(error.message().to_owned()), String::new()),
        }
    }

    /// Runs a query to its end, or up to the page limit.
    async fn analyze(
        &self,
        container: &Arc<Container>,
        CompiledAdminQuery { plan, scope, functions }: &CompiledAdminQuery,
    ) -> Result<(Vec<QueryPartReport>, Option<Outcome>), AdminQueryError> {
        let mut parts: Vec<QueryPartReport> = Vec::new();
        let mut outcome = Outcome { rows: 0, pages: 0, is_complete: false, charge: Charge::ZERO };
        let mut continuation = None;
        for _ in 0..ANALYZED_PAGES_MAX {
            let mut ctx = self.operator_context();
            let request = GatherRequest {
                items_max: Some(limits::PAGE_ITEMS_MAX),
                continuation,
                wants_report: true,
                runs_scripts: functions.is_used(),
                // Admission control applies to the first page only: a later refusal would force the
                // analysis to start over.
                is_admitted: outcome.pages > 0,
                ..GatherRequest::default()
            };
            let (plan, scope) = (plan.clone(), scope.clone());
            let page = self.engine().gather(&mut ctx, container, plan, scope, request).await;
            let page = page.map_err(|error| functions.explain(error))?;
            outcome.rows += page.rows.len() as u64;
            outcome.pages += 1;
            outcome.charge += ctx.served.charge;
            for part in page.parts {
                match parts.iter_mut().find(|known| known.epk == part.epk) {
                    Some(known) => known.add(part),
                    None => parts.push(part),
                }
            }
            continuation = page.continuation;
            if continuation.is_none() {
                outcome.is_complete = true;
                break;
            }
        }
        Ok((parts, Some(outcome)))
    }
}

fn text_of(row: &Row) -> Vec<u8> {
    match row {
        Row::Item(item) => {
            let mut out = Vec::new();
            system_properties::write_item(item, &mut out);
            out
        }
        Row::Json(text) => text.clone(),
    }
}

fn conditions_of(report: &PageReport) -> Vec<Condition> {
    let condition = |conjunct: &Conjunct| Condition {
        text: conjunct.text.clone(),
        access: index_set_text(&conjunct.index_set),
        is_exact: conjunct.index_set.is_exact(),
        unindexed: conjunct.unindexed.iter().map(|path| path_text(path) + "/?").collect(),
    };
    report.conjuncts.iter().map(condition).collect()
}

fn explain_partition(part: &QueryPartReport, is_run: bool) -> PartitionExplanation {
    let ranges = part.report.as_ref().map_or(&[][..], |report| report.ranges.as_slice());
    let sum = |figure: fn(&engine::ops::RangeReport) -> u64| ranges.iter().map(figure).sum();
    let is_indexed = ranges.iter().any(|range| range.is_indexed);
    let key = part.key.as_ref().map(key_text);
    let access_path =
        part.report.as_ref().map(|report| access_path_text(report, is_indexed, key.as_deref()));
    PartitionExplanation {
        ids: ranges.iter().map(|range| range.id.to_string()).collect(),
        epk: part.epk.clone(),
        key,
        access_path: access_path.unwrap_or_default(),
        is_indexed,
        work: is_run.then(|| PartitionWork {
            pages: part.pages,
            items_looked_at: sum(|range| range.scanned.rows),
            items_read: sum(|range| range.read.rows),
            bytes_read: sum(|range| range.read.bytes),
            rows: part.rows,
            charge: part.charge,
        }),
        entries: sum(|range| range.entries),
    }
}

fn merging_text(merging: MergeStrategy) -> &'static str {
    match merging {
        MergeStrategy::Concatenated => "partition after partition",
        MergeStrategy::Merged => "merged by sort key, equal ones partition after partition",
        MergeStrategy::Keyed => "merged by key, equal ones become one",
        MergeStrategy::Materialized => "all rows of all partitions are collected, then sorted",
        MergeStrategy::Derived => "all rows of the inner query are collected, then queried",
    }
}

/// A key as a JSON array, *undefined* as an empty object.
fn key_text(key: &PartitionKey) -> String {
    let undefined = || Value::Object(model::Object::new());
    let values = key.0.iter().map(|component| component.to_value().unwrap_or_else(undefined));
    json::to_string(&Value::Array(values.collect()))
}

fn access_path_text(report: &PageReport, is_indexed: bool, key: Option<&str>) -> String {
    let access_path = match &report.access_path {
        AccessPathKind::NoItems => "reads no items".to_owned(),
        AccessPathKind::InStorageOrder if is_indexed => match report.composite() {
            Some(composite) => {
                let columns: Vec<String> = composite.columns.iter().map(column_text).collect();
                format!("items that the composite index {} names", columns.join(", "))
            }
            None => "items that the index names".to_owned(),
        },
        AccessPathKind::InStorageOrder => match key {
            Some(key) => return format!("all items of the logical partition {key}"),
            None => "all items".to_owned(),
        },
        AccessPathKind::Sorted => "few items that the index names, then sorted".to_owned(),
        AccessPathKind::InIndexOrder(order) => format!("in the order of {}", order_text(order)),
        AccessPathKind::FirstInIndexOrder(order) => {
            format!("only the first of {}", order_text(order))
        }
        AccessPathKind::Counted => "counted, no item is read".to_owned(),
    };
    match key {
        Some(key) => format!("{access_path}, in the logical partition {key}"),
        None => access_path,
    }
}

fn order_text(order: &IndexOrder) -> String {
    let column = |(path, order): &(Vec<query::access::Step>, SortOrder)| column_of(path, *order);
    let columns = order.columns.iter().map(column).collect::<Vec<_>>().join(", ");
    let kind = if order.is_composite { "composite index" } else { "index" };
    let part = if order.is_bounded { ", only the values that the filter wants" } else { "" };
    format!("the {kind} {columns}{part}")
}

/// A set of index lookups as text: which paths are looked up, and how the results are combined.
fn index_set_text(access: &IndexSet) -> String {
    let joined = |parts: &[IndexSet], by: &str| {
        format!("({})", parts.iter().map(index_set_text).collect::<Vec<_>>().join(by))
    };
    match access {
        IndexSet::Everything => "everything".to_owned(),
        IndexSet::Nothing => "nothing".to_owned(),
        IndexSet::Terms(terms) => {
            let ranges = match terms.ranges.len() {
                1 => "1 range".to_owned(),
                more => format!("{more} ranges"),
            };
            let mark = if terms.is_exact { "" } else { ", and others" };
            format!("{}/? {ranges}{mark}", path_text(&terms.path))
        }
        IndexSet::All(parts) => joined(parts, " and "),
        IndexSet::Any(parts) => joined(parts, " or "),
    }
}
