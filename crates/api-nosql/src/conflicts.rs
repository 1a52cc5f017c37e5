//! Conflicts: writes of one region never conflict, so reads and queries of conflicts find none.

use engine::ops::Scope;
use engine::{Container, RequestContext};
use model::ErrorKind;

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::Reply;
use crate::request::{Request, Verb};
use crate::resource_query::ResourceFeed;
use crate::{Service, query, resource, scope};

/// `.../conflicts`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Container,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Get => {}
        Verb::Post if request.is_query() => check_scope(container, request)?,
        Verb::Head | Verb::Post | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => {
            return Err(ApiError::method_not_allowed());
        }
    }
    ctx.served.charge += resource::LIST_CHARGE;
    let resources = std::iter::empty();
    ResourceFeed { parent_rid: container.rid.to_string(), key: "Conflicts", resources }
        .answer(service, request)
        .await
}

/// `.../conflicts/{id}`
pub(crate) fn conflict(request: &Request) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Get | Verb::Delete => Err(ApiError::missing(ErrorKind::NotFound)),
        Verb::Head | Verb::Post | Verb::Put | Verb::Patch | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

/// Queries of all conflicts must allow cross-partition execution, as queries of items must.
fn check_scope(container: &Container, request: &Request) -> Result<(), ApiError> {
    let is_everywhere = matches!(scope::of(container, request)?, Scope::All);
    let may_be =
        container.spec.partition_key.is_system || request.flag(HeaderName::EnableCrossPartition);
    if is_everywhere && !may_be { Err(query::needs_key()) } else { Ok(()) }
}
