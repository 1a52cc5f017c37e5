//! Queries whose rows of all ranges the server merges: preview clients of .NET leave that to it
//! instead of asking for a plan.

use std::sync::Arc;

use engine::gather::{GatherRequest, Gathered};
use engine::ops::{Page, PageRequest, Scope};
use engine::{Container, RequestContext};
use lang::nosql::Environment;
use query::Plan;

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::query_text::QueryText;
use crate::request::Request;
use crate::script_functions::QueryFunctions;
use crate::{Service, policy};

/// Whether a client sends a query to no range in particular and reads its rows as they come. No
/// header says so: it is the one client that expects a continuation and does not flag the query.
/// Others query each range by the plan, or are told to.
pub(crate) fn is_wanted(request: &Request, scope: &Scope) -> bool {
    let all = matches!(scope, Scope::All) && request.flag(HeaderName::EnableCrossPartition);
    all && request.flag(HeaderName::IsContinuationExpected) && !request.flag(HeaderName::IsQuery)
}

/// A page of the merged rows, and the plan of the query.
pub(crate) async fn page(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
    (query, environment, functions): (QueryText, Environment, &QueryFunctions),
) -> Result<(Page, Plan), ApiError> {
    let owner = Arc::clone(container);
    let compile = move |query: QueryText| {
        let plan = query.compile(&environment)?;
        policy::check_order(&owner, &plan)?;
        Ok(plan)
    };
    let plan: Plan = query.run_blocking_if_long(service, compile).await?;
    let PageRequest { items_max, continuation, .. } = request.page()?;
    let options = GatherRequest {
        items_max,
        continuation,
        runs_scripts: functions.is_used(),
        ..GatherRequest::default()
    };
    let gathered = service.engine().gather(ctx, container, plan.clone(), Scope::All, options).await;
    let Gathered { rows, continuation, .. } = gathered.map_err(|error| functions.explain(error))?;
    Ok((Page { rows, continuation, ..Page::default() }, plan))
}
