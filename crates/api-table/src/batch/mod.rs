//! Entity group transactions: changes of entities of one partition that are committed together or
//! not at all. The engine commits them as one batch.

pub(crate) mod multipart;
mod response;

use std::collections::BTreeSet;

use engine::RequestContext;
use engine::ops::ItemOp;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::Flavour;
use crate::address::{Address, Keys, Target};
use crate::auth::RequiredPermission;
use crate::edm::Metadata;
use crate::entities::{self, Write};
use crate::errors::TableError;
use crate::names;
use crate::options::Options;
use crate::reply::{Envelope, Reply};
use crate::request::{Preference, Request, TableContext, Verb, condition_of};
use crate::service::Service;
use crate::stored;

use multipart::{Batch, Part};
use response::Response;

/// Most operations of a changeset.
const OPERATIONS_MAX: usize = 100;
/// Largest batch of Cosmos DB.
const COSMOS_BYTES_MAX: usize = 2 * 1024 * 1024;

/// An operation of a changeset, and the form of its reply.
struct Change {
    table: String,
    write: Write,
    content_id: Option<String>,
    preference: Option<Preference>,
    metadata: Metadata,
}

/// Why a changeset fails, and at which operation.
struct Failure {
    index: usize,
    error: TableError,
}

/// `POST /$batch`.
pub(crate) async fn run(
    service: &Service,
    ctx: &mut RequestContext,
    envelope: &Envelope<'_>,
    request: &Request,
) -> Result<Reply, TableError> {
    let context = &request.context;
    if context.flavour == Flavour::Cosmos && request.body.len() > COSMOS_BYTES_MAX {
        return Err(TableError::body_too_large());
    }
    let media_type = request.header(&CONTENT_TYPE).unwrap_or_default();
    let boundary = multipart::boundary_of(media_type);
    let boundary = boundary.ok_or_else(TableError::media_type_not_supported)?;
    let batch = multipart::parse(&request.body, boundary).ok_or_else(TableError::invalid_inputs)?;
    match batch {
        Batch::Changeset(parts) if parts.is_empty() => Err(TableError::invalid_inputs()),
        Batch::Changeset(parts) => {
            let response = Response::new(envelope, true);
            match changes(service, ctx, context, &parts).await {
                Ok(replies) => Ok(response.of_replies(replies)),
                // Clients retry a batch that was refused as a whole, but not one in which an
                // operation failed.
                Err(Failure { error, .. }) if error.retry_after().is_some() => Err(error),
                Err(Failure { index, error }) => {
                    let id = parts.get(index).and_then(|part| part.header("content-id"));
                    Ok(response.of_error(index, id, &error))
                }
            }
        }
        Batch::Individual(parts) => {
            let [part] = parts.as_slice() else { return Err(TableError::invalid_inputs()) };
            let response = Response::new(envelope, false);
            let id = part.header("content-id").map(str::to_owned);
            match get(service, ctx, request, part) {
                Ok(reply) => Ok(response.of_replies(vec![(id, reply)])),
                Err(error) => Ok(response.of_error(0, id.as_deref(), &error)),
            }
        }
    }
}

/// The only request allowed outside of a changeset: a read of one entity.
fn get(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
    part: &Part<'_>,
) -> Result<Reply, TableError> {
    if part.method != "GET" {
        return Err(TableError::invalid_inputs());
    }
    let (target, query) = target_of(&request.context, part.url)?;
    let Target::Entity { table, keys } = &target else { return Err(TableError::invalid_inputs()) };
    let context = &request.context;
    names::check_table(table, context.flavour)?;
    context.identity.check(RequiredPermission::ReadEntities, Some(table))?;
    context.identity.check_keys(keys)?;
    let selection = lang::odata::Selection::parse(query.get("$select").unwrap_or_default())?;
    let container = service.find_table(context, table)?;
    let item = entities::read(service, ctx, context, &container, keys)?;
    let metadata = metadata_of(part)?;
    let entity = stored::entity_of(&item)?;
    let status = hyper::StatusCode::OK;
    Ok(entities::shown(context, (table, metadata, &selection), &entity, status))
}

/// Commits a changeset.
async fn changes(
    service: &Service,
    ctx: &mut RequestContext,
    context: &TableContext,
    parts: &[Part<'_>],
) -> Result<Vec<(Option<String>, Reply)>, Failure> {
    if parts.len() > OPERATIONS_MAX {
        return Err(Failure {
            index: OPERATIONS_MAX,
            error: TableError::invalid_input(
                "The batch request operation exceeds the maximum 100 changes per change set.",
            ),
        });
    }
    let mut all = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let failed = |error| Failure { index, error };
        all.push(change_of(context, part).map_err(failed)?);
    }
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let at_first = |error| Failure { index: 0, error };
    let table = first.table.clone();
    let container = service.find_table(context, &table).map_err(|error| match context.flavour {
        Flavour::Storage => at_first(error),
        Flavour::Cosmos => at_first(TableError::resource_not_found()),
    })?;
    check_group(context.flavour, &all)?;

    let key = stored::partition_key(&first.write.keys.partition);
    let (ops, infos): (Vec<ItemOp>, Vec<ChangeInfo>) =
        all.into_iter().map(ChangeInfo::take_op).unzip();
    let results = service.engine().write_batch(ctx, &container, key, ops).await;
    let results =
        results.map_err(|error| at_first(TableError::of_entity(error, context.flavour)))?;
    let mut replies = Vec::with_capacity(infos.len());
    for (index, (change, result)) in infos.into_iter().zip(results).enumerate() {
        let failed = |error| Failure { index, error };
        let outcome = match result.outcome {
            // A later operation is the one that failed.
            Err(engine::Error::FailedDependency) => continue,
            Err(error) => return Err(failed(TableError::of_entity(error, context.flavour))),
            Ok(outcome) => outcome,
        };
        let reply = change.reply(context, outcome.item()).map_err(failed)?;
        replies.push((change.content_id, reply));
    }
    Ok(replies)
}

/// A change whose operation was handed to the engine.
struct ChangeInfo {
    table: String,
    keys: Keys,
    kind: entities::WriteKind,
    content_id: Option<String>,
    preference: Option<Preference>,
    metadata: Metadata,
}

impl ChangeInfo {
    fn take_op(change: Change) -> (ItemOp, Self) {
        let Change { table, write, content_id, preference, metadata } = change;
        let Write { keys, op, kind } = write;
        (op, Self { table, keys, kind, content_id, preference, metadata })
    }

    /// The reply to a committed operation. Clients read the keys from its address.
    fn reply(
        &self,
        context: &TableContext,
        item: Option<&engine::StoredItem>,
    ) -> Result<Reply, TableError> {
        let Some(item) = item else { return Ok(Reply::no_content()) };
        let address = (self.table.as_str(), &self.keys);
        let reply = entities::reply_to_write(
            context,
            address,
            self.kind,
            item,
            self.preference,
            self.metadata,
        )?;
        let url = entities::url_of(context, &self.table, &self.keys);
        Ok(reply.located(&url).header(crate::headers::name::DATA_SERVICE_ID, &url))
    }
}

/// Checks that all operations address one partition of one table, and each another entity.
fn check_group(flavour: Flavour, changes: &[Change]) -> Result<(), Failure> {
    let Some(first) = changes.first() else { return Ok(()) };
    let mut rows = BTreeSet::new();
    for (index, change) in changes.iter().enumerate() {
        let failed = |error| Err(Failure { index, error });
        let is_same_table = match flavour {
            Flavour::Storage => change.table.eq_ignore_ascii_case(&first.table),
            Flavour::Cosmos => change.table == first.table,
        };
        if !is_same_table {
            return failed(TableError::invalid_inputs());
        }
        let Keys { partition, row } = &change.write.keys;
        if *partition != first.write.keys.partition {
            return failed(TableError::new(
                400,
                "CommandsInBatchActOnDifferentPartitions",
                "All commands in a batch must operate on same entity group.",
            ));
        }
        if !rows.insert(row.as_str()) {
            return failed(TableError::new(
                400,
                "InvalidDuplicateRow",
                format!(
                    "A command with RowKey '{row}' is already present in the batch. An entity can \
                     appear only once in a batch. "
                ),
            ));
        }
    }
    Ok(())
}

/// The change that a part requests, if the caller may make it.
fn change_of(context: &TableContext, part: &Part<'_>) -> Result<Change, TableError> {
    let headers = headers_of(part);
    let verb = match hyper::Method::from_bytes(part.method.as_bytes()) {
        Ok(method) => Verb::of(&method, &headers)?,
        Err(_) => return Err(TableError::invalid_inputs()),
    };
    if verb == Verb::Get {
        return Err(TableError::invalid_inputs());
    }
    let (target, _) = target_of(context, part.url)?;
    let (table, keys) = match target {
        Target::Entities(table) => (table, None),
        Target::Entity { table, keys } => (table, Some(keys)),
        Target::Misplaced { table, .. } => {
            // A slash behind a table's name counts as part of the name, as its author meant it.
            names::check_table(&format!("{table}/"), context.flavour)?;
            return Err(TableError::invalid_inputs());
        }
        Target::Service | Target::Tables | Target::Table(_) | Target::Batch => {
            return Err(TableError::invalid_inputs());
        }
    };
    names::check_table(&table, context.flavour)?;
    let condition = condition_of(&headers)?;
    entities::check_permission(context, verb, condition.as_ref(), &table)?;
    let write = entities::prepare(context, verb, keys.as_ref(), condition, part.body)?;
    context.identity.check_keys(&write.keys)?;
    let preference = match part.header("prefer") {
        Some(text) if text.eq_ignore_ascii_case("return-no-content") => Some(Preference::NoContent),
        Some(text) if text.eq_ignore_ascii_case("return-content") => Some(Preference::Content),
        Some(_) | None => None,
    };
    let content_id = part.header("content-id").map(str::to_owned);
    Ok(Change { table, write, content_id, preference, metadata: metadata_of(part)? })
}

/// The headers of a part that affect its operation.
fn headers_of(part: &Part<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in ["if-match", "if-none-match", "x-http-method"] {
        if let Some(value) = part.header(name)
            && let Ok(value) = HeaderValue::from_str(value)
        {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

fn metadata_of(part: &Part<'_>) -> Result<Metadata, TableError> {
    crate::request::metadata_of(part.header("accept").unwrap_or_default())
}

/// The resource that the address of a part names. Hosts may differ from that of the batch, and some
/// clients omit host and account.
fn target_of(context: &TableContext, url: &str) -> Result<(Target, Options), TableError> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => path,
    };
    let path = path.trim_start_matches('/');
    let below = match context.flavour {
        Flavour::Cosmos => path,
        Flavour::Storage => below_account(path, &context.account),
    };
    let whole = format!("/{}/{below}", context.account);
    let address = Address::parse(Flavour::Storage, "", &whole)?;
    Ok((address.target, Options::parse(query)?))
}

/// A path without the leading account, if it has one.
fn below_account<'p>(path: &'p str, account: &str) -> &'p str {
    match path.split_once('/') {
        Some((first, rest)) if first == account => rest,
        _ => path,
    }
}
