//! Dispatches requests to handlers.

use engine::RequestContext;

use crate::address::{Misplaced, Target};
use crate::errors::TableError;
use crate::observe::Operation;
use crate::options::Options;
use crate::reply::{Envelope, Reply};
use crate::request::{Request, Verb};
use crate::service::Service;
use crate::{Flavour, acl, batch, entities, names, properties, query, tables};

/// Handles an authorized request.
pub(crate) async fn route(
    service: &Service,
    ctx: &mut RequestContext,
    envelope: &Envelope<'_>,
    request: &Request,
) -> Result<Reply, TableError> {
    match (&request.target, request.verb) {
        (Target::Service, verb) => of_service(service, ctx, request, verb).await,
        (Target::Tables, Verb::Get) => tables::list(service, request),
        (Target::Tables, Verb::Post) => Box::pin(tables::create(service, ctx, request)).await,
        (Target::Table(table), Verb::Get) => tables::get(service, request, table),
        (Target::Table(table), Verb::Delete) => {
            Box::pin(tables::delete(service, ctx, request, table)).await
        }
        (Target::Entities(table), verb) if request.options.get("comp").is_some() => {
            Box::pin(of_component(service, ctx, request, table, verb)).await
        }
        (Target::Entities(table), Verb::Get) => {
            Box::pin(query::query(service, ctx, request, table)).await
        }
        (Target::Entities(table), Verb::Post) => {
            entities::write(service, ctx, request, table, None).await
        }
        (Target::Entity { table, keys }, Verb::Get) => {
            entities::get(service, ctx, request, (table, keys))
        }
        (Target::Entity { table, keys }, Verb::Put | Verb::Merge | Verb::Delete) => {
            entities::write(service, ctx, request, table, Some(keys)).await
        }
        (Target::Batch, Verb::Post) => Box::pin(batch::run(service, ctx, envelope, request)).await,
        (Target::Misplaced { table, what }, verb) => {
            Err(misplaced(service, request, table, *what, verb))
        }
        (Target::Tables | Target::Batch, _)
        | (Target::Table(_), _)
        | (Target::Entities(_), _)
        | (Target::Entity { .. }, Verb::Post) => Err(TableError::method_not_allowed()),
    }
}

async fn of_service(
    service: &Service,
    ctx: &RequestContext,
    request: &Request,
    verb: Verb,
) -> Result<Reply, TableError> {
    if !request.options.is("restype", "service") {
        return Err(TableError::invalid_query_parameter());
    }
    match (request.options.get("comp"), verb) {
        (Some("properties"), Verb::Get) => properties::get(service, request),
        (Some("properties"), Verb::Put) => Box::pin(properties::set(service, ctx, request)).await,
        (Some("stats"), Verb::Get) => {
            properties::stats(request, service.engine().components().clock.now())
        }
        (Some("properties" | "stats"), _) => Err(TableError::method_not_allowed()),
        _ => Err(TableError::invalid_query_parameter()),
    }
}

async fn of_component(
    service: &Service,
    ctx: &RequestContext,
    request: &Request,
    table: &str,
    verb: Verb,
) -> Result<Reply, TableError> {
    match (request.options.get("comp"), verb) {
        (Some("acl"), Verb::Get) => acl::get(service, request, table),
        (Some("acl"), Verb::Put) => acl::set(service, ctx, request, table).await,
        (Some("acl"), _) => Err(TableError::method_not_allowed()),
        _ if request.context.flavour == Flavour::Cosmos => Err(invalid_url()),
        _ => Err(TableError::invalid_query_parameter()),
    }
}

/// Handles service requests that were sent to a table's address.
fn misplaced(
    service: &Service,
    request: &Request,
    table: &str,
    what: Misplaced,
    verb: Verb,
) -> TableError {
    if request.context.flavour == Flavour::Cosmos {
        return invalid_url();
    }
    if let Err(error) = names::check_table(table, request.context.flavour) {
        return error;
    }
    match (what, verb) {
        (Misplaced::Tables, Verb::Post) => match service.find_table(&request.context, table) {
            Ok(_) => crate::edm::EntityError::KeyMissing.into(),
            Err(error) => error,
        },
        (Misplaced::Table, _) => match service.find_table(&request.context, table) {
            Ok(_) => TableError::invalid_input(
                "The number of keys specified in the URI does not match number of key properties \
                 for the resource 'Microsoft.Azure.Table.Tables'.",
            ),
            Err(error) => error,
        },
        (Misplaced::Batch, _) => TableError::media_type_not_supported(),
        (Misplaced::Tables | Misplaced::Other, _) => TableError::invalid_uri(),
    }
}

fn invalid_url() -> TableError {
    TableError::invalid_input("Request url is invalid.")
}

/// The kind under which a request is counted.
pub(crate) fn operation_of(verb: Verb, target: &Target, options: &Options) -> Operation {
    match (target, verb) {
        (Target::Service, _) => Operation::Service,
        (Target::Tables | Target::Table(_), Verb::Get) => Operation::ListTables,
        (Target::Tables, Verb::Post) => Operation::CreateTable,
        (Target::Table(_), Verb::Delete) => Operation::DeleteTable,
        (Target::Entities(_), _) if options.get("comp").is_some() => Operation::Policies,
        (Target::Entities(_), Verb::Get) => Operation::QueryEntities,
        (Target::Entities(_), Verb::Post) => Operation::InsertEntity,
        (Target::Entity { .. }, Verb::Get) => Operation::GetEntity,
        (Target::Entity { .. }, Verb::Put) => Operation::ReplaceEntity,
        (Target::Entity { .. }, Verb::Merge) => Operation::MergeEntity,
        (Target::Entity { .. }, Verb::Delete) => Operation::DeleteEntity,
        (Target::Batch, Verb::Post) => Operation::Batch,
        _ => Operation::Other,
    }
}
