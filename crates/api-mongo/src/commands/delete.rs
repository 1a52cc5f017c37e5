//! `delete`.

use std::sync::Arc;

use engine::ops::{EtagCondition, ItemOp};
use engine::{Container, Error, RequestContext};
use model::{Object, Value};

use super::find::{check_collation, index_hint};
use super::insert::check_batch;
use super::write_concern;
use crate::client::Client;
use crate::collections::check_writable;
use crate::command::{Command, type_name, whole_number, wrong_type};
use crate::document::{count, document};
use crate::errors::codes as code;
use crate::find::{self, Filter, Found, Search};
use crate::reply::Reply;
use crate::throttle_wait::ThrottleWait;
use crate::{MongoError, Service};

/// How often a document is looked for again that another command changed.
pub(crate) const ATTEMPTS_MAX: usize = 100;

/// The fields of a statement.
const FIELDS: &[&str] = &["q", "limit", "collation", "hint"];

pub(crate) async fn run(
    service: &Service,
    client: &Client,
    command: Command,
) -> Result<Reply, MongoError> {
    command.collection()?;
    let statements = command.array("deletes").unwrap_or_default();
    check_batch(statements.len())?;
    let is_ordered = command.flag("ordered").unwrap_or(true);
    let concern = write_concern::check(client, &command)?;
    let parsed =
        statements.iter().enumerate().map(|(at, statement)| Statement::read(at, statement));
    let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
    let mut ctx = service.context(client, &command)?;
    let (mut deleted, mut errors) = (0, Vec::new());
    for (at, statement) in parsed.iter().enumerate() {
        match delete(service, &mut ctx, &command, statement).await {
            Ok(more) => deleted += more,
            Err(error) => {
                errors.push(Value::Object(error.to_write_error(at)));
                if is_ordered {
                    break;
                }
            }
        }
    }
    let mut reply = document! { "n" => count(deleted) };
    if !errors.is_empty() {
        reply.insert("writeErrors", errors.into());
    }
    write_concern::report(concern, &mut reply);
    Ok(Reply { charge: ctx.served.charge, ..Reply::from(reply) })
}

struct Statement<'c> {
    filter: &'c Object,
    is_single: bool,
    collation: Option<&'c Object>,
    hint: Option<&'c Value>,
}

impl<'c> Statement<'c> {
    fn read(at: usize, statement: &'c Value) -> Result<Self, MongoError> {
        let name = |field: &str| format!("delete.deletes.{at}.{field}");
        let statement = statement.as_object().ok_or_else(|| {
            wrong_type(&format!("delete.deletes.{at}"), type_name(statement), "object")
        })?;
        check_fields("delete.deletes", statement, FIELDS)?;
        let missing = |field: &str| {
            MongoError::new(
                code::MISSING_FIELD,
                format!("BSON field 'delete.deletes.{field}' is missing but a required field"),
            )
        };
        let filter = statement.get("q").ok_or_else(|| missing("q"))?;
        let filter = filter
            .as_object()
            .ok_or_else(|| wrong_type(&name("q"), type_name(filter), "object"))?;
        let limit = statement.get("limit").ok_or_else(|| missing("limit"))?;
        let is_single = match whole_number(limit) {
            Some(0) => false,
            Some(1) => true,
            Some(_) | None => {
                return Err(MongoError::new(
                    code::FAILED_TO_PARSE,
                    "The limit field in delete objects must be 0 or 1.",
                ));
            }
        };
        let collation = statement.get("collation").and_then(Value::as_object);
        Ok(Self { filter, is_single, collation, hint: statement.get("hint") })
    }
}

/// Refuses fields that a statement does not have.
pub(crate) fn check_fields(of: &str, statement: &Object, known: &[&str]) -> Result<(), MongoError> {
    match statement.iter().find(|(name, _)| !known.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(MongoError::new(
            code::UNKNOWN_FIELD,
            format!("BSON field '{of}.{name}' is an unknown field."),
        )),
    }
}

async fn delete(
    service: &Service,
    ctx: &mut RequestContext,
    command: &Command,
    statement: &Statement<'_>,
) -> Result<u64, MongoError> {
    check_collation(statement.collation)?;
    let hint = index_hint(service, command, statement.hint)?;
    let (options, variables) = find::variables_of(service, command)?;
    let filter = Filter::new(statement.filter, &options, &variables)?.hinted(hint);
    let Some(container) = service.collection(&command.database, command.collection()?) else {
        return Ok(0);
    };
    check_writable(&container)?;
    let mut deleted = 0;
    for _ in 0..ATTEMPTS_MAX {
        let mut search = Search::new(container.clone(), filter.clone());
        let mut overtaken = false;
        while !search.is_over() {
            for found in search.page(service, ctx).await? {
                match remove(service, ctx, &container, &found).await? {
                    true if statement.is_single => return Ok(1),
                    true => deleted += 1,
                    false => overtaken = true,
                }
            }
        }
        if !overtaken {
            return Ok(deleted);
        }
    }
    Err(MongoError::new(code::WRITE_CONFLICT, "the documents are changed too often"))
}

/// Removes a document; false if another command changed or removed it since it was found.
pub(crate) async fn remove(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    found: &Found,
) -> Result<bool, MongoError> {
    let mut throttle_wait = ThrottleWait::new(service, ctx);
    loop {
        let key = found.item.partition_key();
        let id = found.item.row_key().clone();
        let if_match = Some(EtagCondition::Is(found.item.etag().unquoted()));
        let op = ItemOp::Delete { id, if_match };
        match service.engine.write_item(ctx, container, Some(key), op).await {
            Ok(_) => return Ok(true),
            Err(Error::PreconditionFailed | Error::NotFound { .. }) => return Ok(false),
            Err(error) => throttle_wait.wait(error).await?,
        }
    }
}
