//! Items: create, upsert, read, replace, patch, delete.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use engine::ops::{ItemBody, ItemOp, ItemOutcome, PageRequest, Row, Scope};
use engine::{Container, RequestContext, StoredItem};
use model::{DocumentRid, ErrorKind, PartitionKey, Value, json};
use script::Operation;

use crate::address::Target;
use crate::errors::ApiError;
use crate::execute::{self, TriggeredWrite, Triggers};
use crate::reply::{Reply, Status};
use crate::request::Request;
use crate::{Service, partition_key_header, patch, payload, resolve, session};

pub(crate) async fn create(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    check_write(service, ctx, request)?;
    let body = payload::item(&request.body)?;
    let key = partition_key_header::item_key(container, request)?;
    let op = ItemOp::Create { body };
    write(service, ctx, container, key, op, request).await
}

pub(crate) async fn upsert(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    check_write(service, ctx, request)?;
    let body = payload::item(&request.body)?;
    let key = partition_key_header::item_key(container, request)?;
    let op = ItemOp::Upsert { body, if_match: request.if_match() };
    write(service, ctx, container, key, op, request).await
}

pub(crate) async fn read(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    let key = partition_key_header::required_item_key(container, request)?;
    let id = name_of(service, ctx, container, &key, id, request).await?;
    let if_none_match = request.if_none_match();
    let item =
        service.engine().read_item(ctx, container, &key, id.as_bytes(), if_none_match.as_ref())?;
    Ok(Reply::ok(payload::of_item(&item, request)?).etag(item.etag().to_string()))
}

pub(crate) async fn replace(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    check_write(service, ctx, request)?;
    let body = payload::item(&request.body)?;
    let key = key_of_replace(container, request, &body)?;
    let id = name_of(service, ctx, container, &key, id, request).await?.into_owned();
    let op = ItemOp::Replace { id: id.into(), body, if_match: request.if_match() };
    let replaced = write(service, ctx, container, Some(key), op, request).await;
    match replaced {
        Err(error) if error.kind() == ErrorKind::PartitionKeyMismatch => {
            Err(unless_missing(service, ctx, container, request, error))
        }
        replaced => replaced,
    }
}

/// `error`, if the item that a request addresses is there: for one that is missing, its body does
/// not matter.
fn unless_missing(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Container,
    request: &Request,
    error: ApiError,
) -> ApiError {
    let (Target::Item(_, id), Ok(Some(key))) =
        (&request.target, partition_key_header::item_key(container, request))
    else {
        return error;
    };
    if resolve::is_by_rid(&service.engine().catalog(), request) {
        // The search for the item by its resource id has found it.
        return error;
    }
    match service.engine().read_item(ctx, container, &key, id, None) {
        Err(missing @ engine::Error::NotFound { .. }) => missing.into(),
        Ok(_) | Err(_) => error,
    }
}

/// The key of an item to replace: that of the request, or else that of the new item.
pub(crate) fn key_of_replace(
    container: &Container,
    request: &Request,
    body: &ItemBody,
) -> Result<PartitionKey, ApiError> {
    match partition_key_header::item_key(container, request)? {
        Some(key) => Ok(key),
        None => key_in(container, body.value()),
    }
}

pub(crate) async fn patch(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    check_write(service, ctx, request)?;
    patch::check_content_type(request)?;
    let patch = patch::from_value(&container.spec.partition_key, payload::value(&request.body)?)?;
    let key = partition_key_header::required_item_key(container, request)?;
    let id = name_of(service, ctx, container, &key, id, request).await?.into_owned();
    let op = ItemOp::Patch { id: id.into(), patch, if_match: request.if_match() };
    write(service, ctx, container, Some(key), op, request).await
}

pub(crate) async fn delete(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    check_write(service, ctx, request)?;
    let key = partition_key_header::required_item_key(container, request)?;
    let id = name_of(service, ctx, container, &key, id, request).await?.into_owned();
    let op = ItemOp::Delete { id: id.into(), if_match: request.if_match() };
    write(service, ctx, container, Some(key), op, request).await
}

pub(crate) async fn delete_partition_key(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    check_write(service, ctx, request)?;
    let key = partition_key_header::required_item_key(container, request)?;
    service.engine().delete_partition_key(ctx, container, key).await?;
    // A search for items costs at least as much as a read, even if it finds none.
    ctx.served.charge = ctx.served.charge.max(engine::ru::point_read(0));
    Ok(Reply::ok(Bytes::new()))
}

/// Checks that are common to all writes, before the engine is called.
fn check_write(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<(), ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    Ok(())
}

async fn write(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    key: Option<PartitionKey>,
    op: ItemOp,
    request: &Request,
) -> Result<Reply, ApiError> {
    if Triggers::are_named(request) {
        // Boxed, because it is rare and would enlarge the future of every request.
        return Box::pin(write_triggered(service, ctx, container, key, op, request)).await;
    }
    // Boxed, so that the futures of reads do not hold the state of writes.
    let outcome = Box::pin(service.engine().write_item(ctx, container, key, op)).await?;
    reply(&outcome, request)
}

/// A write with triggers.
async fn write_triggered(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    key: Option<PartitionKey>,
    op: ItemOp,
    request: &Request,
) -> Result<Reply, ApiError> {
    let (operation, body) = match &op {
        ItemOp::Create { body } => (Operation::Create, Some(body.value())),
        ItemOp::Upsert { body, .. } => (Operation::Upsert, Some(body.value())),
        ItemOp::Replace { body, .. } => (Operation::Replace, Some(body.value())),
        ItemOp::Patch { .. } => (Operation::Patch, None),
        ItemOp::Delete { .. } => (Operation::Delete, None),
        ItemOp::Merge { .. } | ItemOp::Update { .. } | ItemOp::Read { .. } => {
            return Err(ApiError::internal());
        }
    };
    let key = match (key, body) {
        (Some(key), _) => key,
        (None, Some(body)) => key_in(container, body)?,
        (None, None) => return Err(ApiError::internal()),
    };
    match Triggers::of(service, container, request, operation)? {
        Some(triggers) => {
            // For a patch, a trigger sees the body that the client sent.
            let body = match operation == Operation::Patch {
                true => Some(json::to_string(&payload::value(&request.body)?)),
                false => body.map(json::to_string),
            };
            let write = TriggeredWrite { key, op, operation, body, triggers };
            execute::write(service, ctx, container, write, request).await
        }
        None => {
            let outcome = service.engine().write_item(ctx, container, Some(key), op).await?;
            reply(&outcome, request)
        }
    }
}

/// The response to a write, from its outcome.
pub(crate) fn reply(outcome: &ItemOutcome, request: &Request) -> Result<Reply, ApiError> {
    match outcome {
        ItemOutcome::Created(item) => written(Status::CREATED, item, request),
        ItemOutcome::Replaced(item) | ItemOutcome::Read(item) => written(Status::OK, item, request),
        ItemOutcome::Deleted => Ok(Reply::no_content()),
        // This API has no updates that are code, and no sessions that send statements again.
        ItemOutcome::Updated { .. } | ItemOutcome::Repeated(_) => Err(ApiError::internal()),
    }
}

fn written(status: Status, item: &StoredItem, request: &Request) -> Result<Reply, ApiError> {
    let body = match request.wants_minimal() {
        true => Bytes::new(),
        false => payload::of_item(item, request)?,
    };
    Ok(Reply::new(status, body).etag(item.etag().to_string()))
}

/// The key in an item's body.
fn key_in(container: &Container, item: &Value) -> Result<PartitionKey, ApiError> {
    let key = container.spec.partition_key.extract(item);
    key.map_err(|error| ApiError::bad_request(format!("The partition key is invalid: {error}.")))
}

/// The id of the item that an address names: the id in the address, or the id of the item with that
/// resource id.
///
/// Items are not indexed by resource id, so such an address costs a scan of the logical partition.
pub(crate) async fn name_of<'r>(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    key: &PartitionKey,
    id: &'r str,
    request: &Request,
) -> Result<Cow<'r, str>, ApiError> {
    if !resolve::is_by_rid(&service.engine().catalog(), request) {
        return Ok(Cow::Borrowed(id));
    }
    let rid = DocumentRid::parse(id)
        .filter(|rid| rid.container == container.rid)
        .ok_or_else(|| resolve::not_a_rid(id))?;
    // Boxed, because it is rare and would enlarge the future of every request.
    let id = Box::pin(id_behind(service, ctx, container, key, rid)).await?;
    Ok(Cow::Owned(id))
}

/// Scans a logical partition for the item with this resource id.
async fn id_behind(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    key: &PartitionKey,
    rid: DocumentRid,
) -> Result<String, ApiError> {
    let mut page = PageRequest::default();
    loop {
        let scope = Scope::Key(key.clone());
        let found = service.engine().list_items(ctx, container, scope, page).await?;
        for row in found.rows {
            if let Row::Item(item) = row
                && item.rid() == rid
            {
                return Ok(item.id().into_owned());
            }
        }
        if found.continuation.is_none() {
            return Err(ApiError::missing(ErrorKind::NotFound));
        }
        page = PageRequest { continuation: found.continuation, ..PageRequest::default() };
    }
}
