//! Entities by their keys: read, insert, replace, merge and delete.

use std::sync::Arc;

use engine::ops::{EtagCondition, ItemOp, ItemOutcome};
use engine::{Container, RequestContext, StoredItem};
use hyper::StatusCode;
use lang::odata::Selection;
use model::edm::item_id_of;

use crate::address::Keys;
use crate::auth::RequiredPermission;
use crate::edm::{self, Entity, Form, Metadata, Output, SentEntity, check_key};
use crate::errors::TableError;
use crate::headers::name;
use crate::names;
use crate::reply::Reply;
use crate::request::{Preference, Request, TableContext, Verb};
use crate::service::Service;
use crate::stored;
use crate::tables::applied;

/// A write of an entity, ready for the engine.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) keys: Keys,
    pub(crate) op: ItemOp,
    pub(crate) kind: WriteKind,
}

/// The kind of a write, for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Insert,
    Change,
    Delete,
}

/// `GET /T(PartitionKey='p',RowKey='r')`.
pub(crate) fn get(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
    (table, keys): (&str, &Keys),
) -> Result<Reply, TableError> {
    let context = &request.context;
    names::check_table(table, context.flavour)?;
    context.identity.check(RequiredPermission::ReadEntities, Some(table))?;
    context.identity.check_keys(keys)?;
    crate::query::check_options(&request.options)?;
    let metadata = request.metadata()?;
    let selection = Selection::parse(request.options.get("$select").unwrap_or_default())?;
    let container = service.find_table(context, table)?;
    check_keys(context, keys)?;
    let item = read(service, ctx, context, &container, keys)?;
    let entity = stored::entity_of(&item)?;
    Ok(shown(context, (table, metadata, &selection), &entity, StatusCode::OK))
}

/// The item that holds an entity.
pub(crate) fn read(
    service: &Service,
    ctx: &mut RequestContext,
    context: &TableContext,
    container: &Container,
    keys: &Keys,
) -> Result<StoredItem, TableError> {
    let key = stored::partition_key(&keys.partition);
    let id = item_id_of(&keys.row);
    let read = service.engine().read_item(ctx, container, &key, id.as_bytes(), None);
    read.map_err(|error| TableError::of_entity(error, context.flavour))
}

/// Writes of one entity outside of a batch.
pub(crate) async fn write(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
    table: &str,
    keys: Option<&Keys>,
) -> Result<Reply, TableError> {
    let context = &request.context;
    names::check_table(table, context.flavour)?;
    let metadata = request.metadata()?;
    let condition = request.condition()?;
    check_permission(context, request.verb, condition.as_ref(), table)?;
    let container = service.find_table(context, table)?;
    let write = prepare(context, request.verb, keys, condition, &request.body)?;
    context.identity.check_keys(&write.keys)?;
    let (kind, keys) = (write.kind, write.keys);
    let written = commit(service, ctx, context, &container, &keys, write.op).await?;
    let Some(item) = written.item() else { return Ok(Reply::no_content()) };
    reply_to_write(context, (table, &keys), kind, item, request.preference(), metadata)
}

async fn commit(
    service: &Service,
    ctx: &mut RequestContext,
    context: &TableContext,
    container: &Arc<Container>,
    keys: &Keys,
    op: ItemOp,
) -> Result<ItemOutcome, TableError> {
    let key = stored::partition_key(&keys.partition);
    let written = service.engine().write_item(ctx, container, Some(key), op).await;
    written.map_err(|error| TableError::of_entity(error, context.flavour))
}

/// The permission that a write needs: a pure update needs less than a write that may also insert.
pub(crate) fn check_permission(
    context: &TableContext,
    verb: Verb,
    condition: Option<&EtagCondition>,
    table: &str,
) -> Result<(), TableError> {
    let required = match (verb, condition) {
        (Verb::Post, _) => RequiredPermission::Insert,
        (Verb::Put | Verb::Merge, Some(_)) => RequiredPermission::Update,
        (Verb::Put | Verb::Merge, None) => RequiredPermission::Upsert,
        (Verb::Delete, _) => RequiredPermission::DeleteEntity,
        (Verb::Get, _) => RequiredPermission::ReadEntities,
    };
    context.identity.check(required, Some(table))
}

/// The operation for the engine. Without keys in the address those of the body are used.
pub(crate) fn prepare(
    context: &TableContext,
    verb: Verb,
    keys: Option<&Keys>,
    condition: Option<EtagCondition>,
    body: &[u8],
) -> Result<Write, TableError> {
    match (verb, keys) {
        (Verb::Post, None) => prepare_insert(context, body),
        (Verb::Put | Verb::Merge, Some(keys)) => {
            prepare_change(context, verb, keys, condition, body)
        }
        (Verb::Delete, Some(keys)) => prepare_delete(context, keys, condition),
        _ => Err(TableError::method_not_allowed()),
    }
}

fn prepare_insert(context: &TableContext, body: &[u8]) -> Result<Write, TableError> {
    let rules = context.rules();
    let sent = SentEntity::parse(body, rules)?;
    let (partition, row) = sent.keys()?;
    let keys = Keys { partition: partition.to_owned(), row: row.to_owned() };
    let entity = Entity::new(&keys.partition, &keys.row, sent, rules)?;
    let op = ItemOp::Create { body: stored::item_of(&entity)? };
    Ok(Write { keys, op, kind: WriteKind::Insert })
}

fn prepare_change(
    context: &TableContext,
    verb: Verb,
    keys: &Keys,
    if_match: Option<EtagCondition>,
    body: &[u8],
) -> Result<Write, TableError> {
    let rules = context.rules();
    let sent = SentEntity::parse(body, rules)?;
    sent.check_sent_keys(rules)?;
    let entity = Entity::new(&keys.partition, &keys.row, sent, rules)?;
    let body = stored::item_of(&entity)?;
    let op = match (verb, if_match) {
        (Verb::Merge, if_match) => ItemOp::Merge {
            body,
            creates: if_match.is_none(),
            if_match,
            check: Some(stored::check_of(context.flavour)),
        },
        (_, None) => ItemOp::Upsert { body, if_match: None },
        (_, if_match) => {
            ItemOp::Replace { id: entity.item_id().into_owned().into(), body, if_match }
        }
    };
    Ok(Write { keys: keys.clone(), op, kind: WriteKind::Change })
}

fn prepare_delete(
    context: &TableContext,
    keys: &Keys,
    condition: Option<EtagCondition>,
) -> Result<Write, TableError> {
    check_keys(context, keys)?;
    let Some(if_match) = condition else {
        return Err(TableError::invalid_input(
            "The If-Match header is required to delete an entity; use * for any version.",
        ));
    };
    let id = item_id_of(&keys.row).into_owned();
    let op = ItemOp::Delete { id: id.into(), if_match: Some(if_match) };
    Ok(Write { keys: keys.clone(), op, kind: WriteKind::Delete })
}

fn check_keys(context: &TableContext, keys: &Keys) -> Result<(), TableError> {
    check_key("PartitionKey", &keys.partition, context.rules())?;
    check_key("RowKey", &keys.row, context.rules())?;
    Ok(())
}

/// The reply to a write that stored an entity.
pub(crate) fn reply_to_write(
    context: &TableContext,
    (table, keys): (&str, &Keys),
    kind: WriteKind,
    item: &StoredItem,
    preference: Option<Preference>,
    metadata: Metadata,
) -> Result<Reply, TableError> {
    let etag = edm::etag_of(stored::date_of(item.ticks()));
    if kind != WriteKind::Insert {
        return Ok(Reply::no_content().etag(&etag));
    }
    let url = url_of(context, table, keys);
    let reply = match preference {
        Some(Preference::NoContent) => {
            Reply::no_content().etag(&etag).header(name::DATA_SERVICE_ID, &url)
        }
        Some(Preference::Content) | None => {
            let entity = stored::entity_of(item)?;
            shown(context, (table, metadata, &Selection::All), &entity, StatusCode::CREATED)
        }
    };
    Ok(applied(reply.located(&url), preference))
}

/// The address of an entity.
pub(crate) fn url_of(context: &TableContext, table: &str, keys: &Keys) -> String {
    let link = Output::edit_link(table, &keys.partition, &keys.row);
    format!("{}/{link}", context.service_url)
}

/// A reply with one entity.
pub(crate) fn shown(
    context: &TableContext,
    (table, metadata, selection): (&str, Metadata, &Selection),
    entity: &Entity,
    status: StatusCode,
) -> Reply {
    let (service_url, account) = (context.service_url.as_str(), context.account.as_str());
    let output = Output { metadata, selection, service_url, account, table };
    let mut body = Vec::with_capacity(512);
    output.write(entity, Form::Single, &mut body);
    Reply::json(status, metadata, body).etag(&edm::etag_of(entity.timestamp))
}
