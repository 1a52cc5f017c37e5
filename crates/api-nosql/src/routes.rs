//! From operation and address to the handler.

use std::sync::Arc;

use engine::{Container, RequestContext};
use model::ErrorKind;

use crate::address::Target;
use crate::errors::ApiError;
use crate::operation::Operation;
use crate::reply::Reply;
use crate::request::{Request, Verb};
use crate::{
    Service, account, addresses, batch, bulk, conflicts, containers, databases, encryption_keys,
    execute, feed, items, offers, partition_key_ranges, permissions, query, query_plan, scripts,
    users,
};

/// Calls the handler of the request. `container` is the resolved container of the target. Handlers
/// that read or write many items or change the catalog are boxed, because they would enlarge the
/// future of every request.
pub(crate) async fn route(
    service: &Service,
    ctx: &mut RequestContext,
    container: Option<&Arc<Container>>,
    operation: Operation,
    request: &Request,
) -> Result<Reply, ApiError> {
    let Some(container) = container else {
        return Box::pin(resource_of_account(service, ctx, request)).await;
    };
    let id =
        if let Target::Item(_, id) | Target::Script(_, _, id) = &request.target { id } else { "" };
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
        Operation::ExecuteProcedure => {
            Box::pin(execute::procedure(service, ctx, container, id, request)).await
        }
        Operation::Account
        | Operation::Database
        | Operation::Container
        | Operation::Offer
        | Operation::PartitionKeyRanges
        | Operation::DeletePartitionKey
        | Operation::Script
        | Operation::Addresses
        | Operation::Other => {
            Box::pin(resource_of_container(service, ctx, container, request)).await
        }
    }
}

/// Handlers of a container and of what is in it, besides operations on items.
async fn resource_of_container(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    match &request.target {
        Target::Container(_) => containers::container(service, ctx, container, request).await,
        Target::PartitionKeyRanges(_) => partition_key_ranges::feed(ctx, container, request),
        Target::Addresses(_, ranges) => addresses::of(service, ctx, container, ranges, request),
        Target::PartitionKeyDelete(_) if request.verb == Verb::Post => {
            items::delete_partition_key(service, ctx, container, request).await
        }
        Target::Conflicts(_) => conflicts::feed(service, ctx, container, request).await,
        Target::Conflict(_) => conflicts::conflict(request),
        Target::Scripts(_, kind) => scripts::feed(service, ctx, container, *kind, request).await,
        Target::Script(_, kind, id) => {
            scripts::script(service, ctx, container, *kind, id, request).await
        }
        Target::PartitionKeyDelete(_) | Target::Items(_) | Target::Item(..) => {
            Err(ApiError::method_not_allowed())
        }
        Target::Account
        | Target::MasterAddresses
        | Target::Databases
        | Target::Database(_)
        | Target::Containers(_)
        | Target::Users(_)
        | Target::User(_)
        | Target::Permissions(_)
        | Target::Permission(..)
        | Target::EncryptionKeys(_)
        | Target::EncryptionKey(..)
        | Target::Offers
        | Target::Offer(_)
        | Target::NotSupported(_) => Err(ApiError::internal()),
    }
}

/// Handlers of what is in no container.
async fn resource_of_account(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    match &request.target {
        Target::Account => account::read(service, ctx, request),
        Target::MasterAddresses => addresses::of_master(service, ctx, request),
        Target::Databases => databases::feed(service, ctx, request).await,
        Target::Database(address) => databases::database(service, ctx, address, request).await,
        Target::Containers(address) => containers::feed(service, ctx, address, request).await,
        Target::Users(address) => users::feed(service, ctx, address, request).await,
        Target::User(address) => users::user(service, ctx, address, request).await,
        Target::Permissions(address) => permissions::feed(service, ctx, address, request).await,
        Target::Permission(address, id) => {
            permissions::permission(service, ctx, address, id, request).await
        }
        Target::EncryptionKeys(address) => {
            encryption_keys::feed(service, ctx, address, request).await
        }
        Target::EncryptionKey(address, id) => {
            encryption_keys::key(service, ctx, address, id, request).await
        }
        Target::Offers => offers::feed(service, ctx, request).await,
        Target::Offer(id) => offers::offer(service, ctx, id, request).await,
        Target::NotSupported(what) => Err(ApiError::not_supported(what)),
        Target::Container(_)
        | Target::Items(_)
        | Target::Item(..)
        | Target::PartitionKeyRanges(_)
        | Target::PartitionKeyDelete(_)
        | Target::Conflicts(_)
        | Target::Conflict(_)
        | Target::Scripts(..)
        | Target::Script(..)
        | Target::Addresses(..) => Err(ApiError::missing(ErrorKind::OwnerNotFound)),
    }
}
