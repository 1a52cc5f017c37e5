//! Feeds of databases, containers and offers: listings, and queries in the same language as for
//! items.
//!
//! These resources are few enough to render and filter them one by one. A page continues after the
//! number of the last resource read, so a create or delete between two pages neither repeats nor
//! hides other resources.

use bytes::Bytes;
use lang::nosql::Environment;
use model::{ErrorKind, Value, json, limits};
use query::Plan;

use crate::Service;
use crate::errors::ApiError;
use crate::headers;
use crate::query_text::QueryText;
use crate::reply::Reply;
use crate::request::Request;

/// A resource of a feed, rendered only when a page reaches it.
pub(crate) struct Resource<'r> {
    /// Its position in the feed, which increases from one resource to the next.
    pub position: u64,
    /// Renders it as JSON.
    pub value: Render<'r>,
    /// Renders an alternative form that queries may match; they return `value` all the same.
    pub alias: Option<Render<'r>>,
}

pub(crate) type Render<'r> = Box<dyn Fn() -> Value + Send + 'r>;

/// All resources of one kind with the same parent.
pub(crate) struct ResourceFeed<I> {
    /// Resource id of the parent; empty for the account.
    pub parent_rid: String,
    /// Name of the array in the body.
    pub key: &'static str,
    /// The resources in order of their positions.
    pub resources: I,
}

/// Where a page begins: the first position to read, and the rows that OFFSET and LIMIT have already
/// used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Start {
    from: u64,
    skipped: u64,
    taken: u64,
}

impl<'r, I: Iterator<Item = Resource<'r>>> ResourceFeed<I> {
    /// Lists the feed or, if the request is a query, returns the matching rows.
    pub(crate) async fn answer(
        self,
        service: &Service,
        request: &Request,
    ) -> Result<Reply, ApiError> {
        let query = match request.is_query() {
            true => Some(QueryText::parse(request)?),
            false => None,
        };
        let page_max = headers::page_size(&request.headers)?
            .unwrap_or(limits::PAGE_ITEMS_DEFAULT)
            .min(limits::PAGE_ITEMS_MAX);
        let start = match request.continuation() {
            Some(token) => Start::parse(token.trim()).ok_or_else(invalid_continuation)?,
            None => Start::default(),
        };
        let Some(query) = query else { return self.page(None, start, page_max) };
        let plan = query
            .run_blocking_if_long(service, |query| query.compile(&Environment::default()))
            .await?;
        if plan.is_light() {
            return self.query(&plan, start, page_max);
        }
        // The resources must be rendered here, where they can be borrowed.
        let rendered = self.rendered(start);
        let engine = service.engine();
        engine.run_blocking(move || Ok(rendered.query(&plan, start, page_max))).await?
    }

    /// The same feed, with its resources from `start` on rendered now.
    fn rendered(self, start: Start) -> ResourceFeed<std::vec::IntoIter<Resource<'static>>> {
        let rendered = |render: &Render<'_>| -> Render<'static> {
            let value = render();
            Box::new(move || value.clone())
        };
        let resources = self.resources.filter(|resource| resource.position >= start.from);
        let resources: Vec<Resource<'static>> = resources
            .map(|resource| Resource {
                position: resource.position,
                value: rendered(&resource.value),
                alias: resource.alias.as_ref().map(rendered),
            })
            .collect();
        let Self { parent_rid, key, .. } = self;
        ResourceFeed { parent_rid, key, resources: resources.into_iter() }
    }

    fn query(self, plan: &Plan, start: Start, page_max: usize) -> Result<Reply, ApiError> {
        if !plan.is_row_by_row() {
            return Err(ApiError::bad_request_errors(match plan.clauses().order.is_empty() {
                true => {
                    "DISTINCT, GROUP BY and aggregates are not supported for the target resource \
                     type."
                }
                false => "Order-by is not supported for the target resource type.",
            }));
        }
        // Without FROM there is one row, whichever resources exist.
        if !plan.reads_items() {
            let rows = plan.rows_of(&Value::Null).map_err(failed)?;
            return Ok(reply(&self.parent_rid, self.key, &rows));
        }
        self.page(Some(plan), start, page_max)
    }

    fn page(self, plan: Option<&Plan>, mut at: Start, page_max: usize) -> Result<Reply, ApiError> {
        let wanted = plan.and_then(|p| p.top().or(p.limit())).unwrap_or(u64::MAX);
        let offset = plan.and_then(Plan::offset).unwrap_or_default();
        let from = at.from;
        let mut resources = self.resources.filter(|r| r.position >= from);
        let mut rows = Vec::new();
        while at.taken < wanted && rows.len() < page_max {
            let Some(resource) = resources.next() else { break };
            at.from = resource.position.saturating_add(1);
            for row in rows_of(plan, resource)? {
                if at.skipped < offset {
                    at.skipped += 1;
                } else if at.taken < wanted {
                    at.taken += 1;
                    rows.push(row);
                }
            }
        }
        // Clients take a token to mean that there is another row, so resources without rows are
        // passed over here.
        let mut has_more = false;
        while at.taken < wanted && !has_more {
            let Some(resource) = resources.next() else { break };
            let position = resource.position;
            has_more = plan.is_none() || !rows_of(plan, resource)?.is_empty();
            at.from = if has_more { position } else { position.saturating_add(1) };
        }
        let token = has_more.then(|| at.to_string());
        Ok(reply(&self.parent_rid, self.key, &rows).continuation(token))
    }
}

fn reply(parent_rid: &str, key: &str, rows: &[Value]) -> Reply {
    Reply::ok(feed_body(parent_rid, key, rows)).item_count(rows.len())
}

/// Writes `{"_rid": ..., "{key}": [...], "_count": n}`.
pub(crate) fn feed_body(parent_rid: &str, key: &str, rows: &[Value]) -> Bytes {
    let mut out = Vec::with_capacity(64 + 512 * rows.len());
    out.extend_from_slice(b"{\"_rid\":");
    json::write_str(parent_rid, &mut out);
    out.push(b',');
    json::write_str(key, &mut out);
    out.extend_from_slice(b":[");
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write(row, &mut out);
    }
    out.extend_from_slice(b"],\"_count\":");
    out.extend_from_slice(itoa::Buffer::new().format(rows.len()).as_bytes());
    out.push(b'}');
    out.into()
}

fn rows_of(plan: Option<&Plan>, resource: Resource<'_>) -> Result<Vec<Value>, ApiError> {
    let value = (resource.value)();
    let Some(plan) = plan else { return Ok(vec![value]) };
    let rows = plan.rows_of(&value).map_err(failed)?;
    match &resource.alias {
        // If only the alias matches, the row is shown as if the resource itself had matched.
        Some(alias) if rows.is_empty() && plan.matches(&alias()).map_err(failed)? => {
            plan.unfiltered().rows_of(&value).map_err(failed)
        }
        _ => Ok(rows),
    }
}

fn failed(error: query::EvalError) -> ApiError {
    ApiError::bad_request_errors(error.to_string())
}

impl Start {
    fn parse(token: &str) -> Option<Self> {
        let mut numbers = token.splitn(3, '.').map(|n| n.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { from: next()?, skipped: next()?, taken: next()? })
    }
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.from, self.skipped, self.taken)
    }
}

fn invalid_continuation() -> ApiError {
    ApiError::new(ErrorKind::BadRequest, "Invalid Continuation Token")
}

#[cfg(test)]
mod tests;
