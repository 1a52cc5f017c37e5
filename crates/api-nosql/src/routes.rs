//! One match from method and address to the handler.

use std::sync::Arc;

use engine::{Container, RequestContext};
use model::ErrorKind;

use crate::address::Target;
use crate::errors::ApiError;
use crate::operation::Operation;
use crate::reply::Reply;
use crate::request::{Request, Verb};
use crate::{
    Service, account, batch, bulk, conflicts, containers, databases, encryption_keys, execute,
    feed, items, offers, partition_key_ranges, permissions, query, query_plan, scripts, users,
};

/// Calls the handler of the request. `container` is the resolved container of the target. Handlers
/// that change the catalog are boxed, because they would enlarge the future of every request.
pub(crate) async fn route(
    service: &Service,
    ctx: &mut RequestContext,
    container: Option<&Arc<Container>>,
    operation: Operation,
    request: &Request,
) -> Result<Reply, ApiError> {
    match (&request.target, container) {
        (Target::Account, _) => account::read(service, ctx, request),
        (Target::Databases, _) => Box::pin(databases::feed(service, ctx, request)).await,
        (Target::Database(address), _) => {
            Box::pin(databases::database(service, ctx, address, request)).await
        }
        (Target::Containers(address), _) => {
            Box::pin(containers::feed(service, ctx, address, request)).await
        }
        (Target::Users(address), _) => Box::pin(users::feed(service, ctx, address, request)).await,
        (Target::User(address), _) => Box::pin(users::user(service, ctx, address, request)).await,
        (Target::Permissions(address), _) => {
            Box::pin(permissions::feed(service, ctx, address, request)).await
        }
        (Target::Permission(address, id), _) => {
            Box::pin(permissions::permission(service, ctx, address, id, request)).await
        }
        (Target::EncryptionKeys(address), _) => {
            Box::pin(encryption_keys::feed(service, ctx, address, request)).await
        }
        (Target::EncryptionKey(address, id), _) => {
            Box::pin(encryption_keys::key(service, ctx, address, id, request)).await
        }
        (Target::Offers, _) => Box::pin(offers::feed(service, ctx, request)).await,
        (Target::Offer(id), _) => Box::pin(offers::offer(service, ctx, id, request)).await,
        (Target::Container(_), Some(container)) => {
            Box::pin(containers::container(service, ctx, container, request)).await
        }
        (Target::PartitionKeyRanges(_), Some(container)) => {
            partition_key_ranges::feed(ctx, container, request)
        }
        (Target::Items(_) | Target::Item(..), Some(container)) => {
            items(service, ctx, container, operation, request).await
        }
        (Target::PartitionKeyDelete(_), Some(container)) if request.verb == Verb::Post => {
            items::delete_partition_key(service, ctx, container, request).await
        }
        (Target::Conflicts(_), Some(container)) => {
            Box::pin(conflicts::feed(service, ctx, container, request)).await
        }
        (Target::Conflict(_), Some(_)) => conflicts::conflict(request),
        (Target::Scripts(_, kind), Some(container)) => {
            Box::pin(scripts::feed(service, ctx, container, *kind, request)).await
        }
        (Target::Script(_, _, id), Some(container)) if operation == Operation::ExecuteProcedure => {
            Box::pin(execute::procedure(service, ctx, container, id, request)).await
        }
        (Target::Script(_, kind, id), Some(container)) => {
            Box::pin(scripts::script(service, ctx, container, *kind, id, request)).await
        }
        (Target::NotSupported(what), _) => Err(ApiError::not_supported(what)),
        (Target::PartitionKeyDelete(_), Some(_)) => Err(ApiError::method_not_allowed()),
        (
            Target::Container(_)
            | Target::Items(_)
            | Target::Item(..)
            | Target::PartitionKeyRanges(_)
            | Target::PartitionKeyDelete(_)
            | Target::Conflicts(_)
            | Target::Conflict(_)
            | Target::Scripts(..)
            | Target::Script(..),
            None,
        ) => Err(ApiError::missing(ErrorKind::OwnerNotFound)),
    }
}

/// `docs`: [`Operation::of`] has decided the operation. Handlers that read or write many items are
/// boxed, because they would enlarge the future of every request.
async fn items(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    operation: Operation,
    request: &Request,
) -> Result<Reply, ApiError> {
    let id = if let Target::Item(_, id) = &request.target { id.as_str() } else { "" };
    match operation {
        Operation::ReadItem => items::read(service, ctx, container, id, request).await,
        Operation::CreateItem => items::create(service, ctx, container, request).await,
        Operation::UpsertItem => items::upsert(service, ctx, container, request).await,
        Operation::ReplaceItem => items::replace(service, ctx, container, id, request).await,
        Operation::PatchItem => items::patch(service, ctx, container, id, request).await,
        Operation::DeleteItem => items::delete(service, ctx, container, id, request).await,
        Operation::ListItems | Operation::ChangeFeed => {
            Box::pin(feed::list(service, ctx, container, request)).await
        }
        Operation::Query => Box::pin(query::execute(service, ctx, container, request)).await,
        Operation::QueryPlan => query_plan::execute(service, ctx, container, request).await,
        Operation::Batch => Box::pin(batch::execute(service, ctx, container, request)).await,
        Operation::Bulk => Box::pin(bulk::execute(service, ctx, container, request)).await,
        Operation::Account
        | Operation::Database
        | Operation::Container
        | Operation::Offer
        | Operation::PartitionKeyRanges
        | Operation::DeletePartitionKey
        | Operation::Script
        | Operation::ExecuteProcedure
        | Operation::Other => Err(ApiError::method_not_allowed()),
    }
}
