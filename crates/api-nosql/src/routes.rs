//! One match from method and address to handler.

use std::sync::Arc;

use engine::{Container, RequestContext};
use hyper::Method;

use crate::address::Target;
use crate::errors::ApiError;
use crate::headers::name;
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, account, batch, bulk, feed, items, query, query_plan};

/// Hands the request to its handler.
pub(crate) async fn route(
    service: &Arc<Service>,
    ctx: &mut RequestContext,
    container: Option<&Arc<Container>>,
    request: &Request,
) -> Result<Reply, ApiError> {
    match (&request.target, container) {
        (Target::Account, _) => account::read(service, ctx, request).await,
        (Target::Items(_), Some(container)) => items_feed(service, ctx, container, request).await,
        (Target::Item(_, id), Some(container)) => item(service, ctx, container, id, request).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// `docs`: the order in which the flags of a POST are looked at is part of the protocol.
async fn items_feed(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.method {
        Method::GET => feed::list(service, ctx, container, request).await,
        Method::POST if request.flag(&name::IS_QUERY_PLAN) => {
            query_plan::execute(service, ctx, container, request).await
        }
        Method::POST if request.is_query() => {
            query::execute(service, ctx, container, request).await
        }
        Method::POST if request.flag(&name::IS_BATCH) => {
            // Absent means atomic: only bulk requests say that they are not.
            let atomic =
                request.header(&name::BATCH_ATOMIC).is_none_or(|v| v.eq_ignore_ascii_case("true"));
            if atomic {
                batch::execute(service, ctx, container, request).await
            } else {
                bulk::execute(service, ctx, container, request).await
            }
        }
        Method::POST if request.flag(&name::IS_UPSERT) => {
            items::upsert(service, ctx, container, request).await
        }
        Method::POST => items::create(service, ctx, container, request).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn item(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.method {
        Method::GET => items::read(service, ctx, container, id, request).await,
        Method::PUT => items::replace(service, ctx, container, id, request).await,
        Method::PATCH => items::patch(service, ctx, container, id, request).await,
        Method::DELETE => items::delete(service, ctx, container, id, request).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}
