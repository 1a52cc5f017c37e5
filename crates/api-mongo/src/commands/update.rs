//! `update` and `findAndModify`.

use std::sync::Arc;

use bytes::Bytes;
use engine::ops::{EtagCondition, ItemBody, ItemOp};
use engine::{Container, Error, RequestContext};
use lang::mongo::CompileOptions;
use lang::mongo::filter::FilterOptions;
use lang::mongo::pipeline::{self, PipelineOptions};
use lang::mongo::update::{self, UpdateOptions};
use lang::mongo::upsert;
use model::{Object, Value, bson};
use query::document::update::{Update, UpdateContext};

use super::delete::{ATTEMPTS_MAX, check_fields, remove};
use super::find::{check_collation, index_hint};
use super::insert::{check_batch, duplicate_id, new_object_id};
use super::write_concern;
use crate::client::Client;
use crate::collections::{check_writable, tree_of, whole};
use crate::command::{Command, is_true, type_name, wrong_type};
use crate::document::{count, document};
use crate::errors::codes as code;
use crate::find::{self, Filter, Found, Search, first};
use crate::reply::Reply;
use crate::throttle_wait::ThrottleWait;
use crate::{MongoError, Service};

/// The fields of a statement.
const FIELDS: &[&str] = &["q", "u", "c", "upsert", "multi", "collation", "arrayFilters", "hint"];

/// `update`.
pub(crate) async fn run(
    service: &Service,
    client: &Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let namespace = command.namespace()?;
    let statements = command.array("updates").unwrap_or_default();
    check_batch(statements.len())?;
    let is_ordered = command.flag("ordered").unwrap_or(true);
    let concern = write_concern::check(client, &command)?;
    for statement in statements {
        let fields = statement
            .as_object()
            .ok_or_else(|| wrong_type("update.updates", type_name(statement), "object"))?;
        check_fields("update.updates", fields, FIELDS)?;
    }
    let mut ctx = service.context(client, &command)?;
    let (mut matched, mut modified, mut upserted, mut errors) = (0, 0, Vec::new(), Vec::new());
    for (at, statement) in statements.iter().enumerate() {
        let statement = statement.as_object().cloned().unwrap_or_default();
        match update_statement(service, &mut ctx, &command, &statement).await {
            Ok(outcome) => {
                matched += outcome.matched;
                modified += outcome.modified;
                if let Some(id) = outcome.upserted {
                    matched += 1;
                    let at = i32::try_from(at).unwrap_or(i32::MAX);
                    upserted.push(document! { "index" => at, "_id" => id });
                }
            }
            Err(error) => {
                let error = error.in_collection(&namespace);
                errors.push(Value::Object(error.to_write_error(at)));
                if is_ordered {
                    break;
                }
            }
        }
    }
    let mut reply = document! { "n" => count(matched), "nModified" => count(modified) };
    if !upserted.is_empty() {
        reply
            .insert("upserted", upserted.into_iter().map(Value::Object).collect::<Vec<_>>().into());
    }
    if !errors.is_empty() {
        reply.insert("writeErrors", errors.into());
    }
    write_concern::report(concern, &mut reply);
    Ok(Reply { charge: ctx.served.charge, ..Reply::from(reply) })
}

/// What a statement did.
#[derive(Default)]
struct Outcome {
    matched: u64,
    modified: u64,
    upserted: Option<Value>,
}

async fn update_statement(
    service: &Service,
    ctx: &mut RequestContext,
    command: &Command,
    statement: &Object,
) -> Result<Outcome, MongoError> {
    let missing = |field: &str| {
        MongoError::new(
            code::MISSING_FIELD,
            format!("BSON field 'update.updates.{field}' is missing but a required field"),
        )
    };
    let filter = statement.get("q").ok_or_else(|| missing("q"))?;
    let filter = filter
        .as_object()
        .ok_or_else(|| wrong_type("update.updates.q", type_name(filter), "object"))?;
    let change = statement.get("u").ok_or_else(|| missing("u"))?;
    let is_set = |name| statement.get(name).is_some_and(is_true);
    let is_multi = is_set("multi");
    if is_multi && change.as_object().is_some_and(|it| !update::is_operators(it)) {
        return Err(MongoError::new(
            code::FAILED_TO_PARSE,
            "multi update is not supported for replacement-style update",
        ));
    }
    if is_multi && command.get("txnNumber").is_some() {
        return Err(MongoError::new(
            code::INVALID_OPTIONS,
            "Cannot use retryable writes with multi=true",
        ));
    }
    check_collation(statement.get("collation").and_then(Value::as_object))?;
    let hint = index_hint(service, command, statement.get("hint"))?;
    let array_filters = statement.get("arrayFilters").and_then(Value::as_array);
    let changing = Changing::new(service, command, (filter, hint), (change, array_filters))?;
    let container = match is_set("upsert") {
        true => {
            Some(service.collection_to_write(ctx, &command.database, command.collection()?).await?)
        }
        false => service.collection(&command.database, command.collection()?),
    };
    let Some(container) = container else { return Ok(Outcome::default()) };
    check_writable(&container)?;
    let mut outcome = Outcome::default();
    if is_multi {
        let mut search = Search::new(Arc::clone(&container), changing.filter.clone());
        while !search.is_over() {
            for found in search.page(service, ctx).await? {
                if let Some(changed) = changing.change(service, ctx, &container, found).await? {
                    outcome.matched += 1;
                    outcome.modified += u64::from(changed.is_modified());
                }
            }
        }
    } else if let Some(changed) = changing.change_first(service, ctx, &container, None).await? {
        outcome.matched = 1;
        outcome.modified = u64::from(changed.is_modified());
    }
    if outcome.matched == 0 && is_set("upsert") {
        for _ in 0..ATTEMPTS_MAX {
            match changing.insert(service, ctx, &container, command).await? {
                Some(document) => {
                    outcome.upserted = id_of(&document);
                    return Ok(outcome);
                }
                // Another command made it at this moment.
                None => {
                    if let Some(changed) =
                        changing.change_first(service, ctx, &container, None).await?
                    {
                        outcome.matched = 1;
                        outcome.modified = u64::from(changed.is_modified());
                        return Ok(outcome);
                    }
                }
            }
        }
        return Err(too_often());
    }
    Ok(outcome)
}

fn too_often() -> MongoError {
    MongoError::new(code::WRITE_CONFLICT, "the document is changed too often by other commands")
}

fn id_of(document: &Bytes) -> Option<Value> {
    bson::RawDocument::of_stored(document).get("_id")?.to_value().ok()
}

/// An update with its filter.
struct Changing {
    filter: Filter,
    update: Update,
}

/// A document before and after an update that matched it.
struct Changed {
    before: Bytes,
    /// `None` if it stayed as it was.
    after: Option<Bytes>,
}

impl Changed {
    fn is_modified(&self) -> bool {
        self.after.is_some()
    }
}

impl Changing {
    fn new(
        service: &Service,
        command: &Command,
        (query, hint): (&Object, Option<String>),
        (change, array_filters): (&Value, Option<&[Value]>),
    ) -> Result<Self, MongoError> {
        let (options, variables) = find::variables_of(service, command)?;
        let filter = Filter::new(query, &options, &variables)?.hinted(hint);
        let array_filters = array_filters.unwrap_or_default().iter();
        let array_filters = array_filters.filter_map(Value::as_object).cloned().collect::<Vec<_>>();
        let update = compile(service, command, change, &options, &array_filters)?;
        Ok(Self { filter, update })
    }

    /// The next version of a document that matches; `None` if it is the same.
    fn next(&self, found: &Found) -> Result<Option<Object>, MongoError> {
        let tree = match &found.tree {
            Some(tree) => tree.clone(),
            None => tree_of(&found.document)?,
        };
        let variables = &self.filter.variables;
        let position = match self.update.needs_position() {
            true => self.filter.predicate.matched_position(&tree, variables)?.flatten(),
            false => None,
        };
        let Value::Object(document) = tree else { return Ok(None) };
        Ok(self.update.apply(&document, &UpdateContext::new(variables, position))?)
    }

    /// Changes a document that was found; `None` if it is gone or does not match any more.
    async fn change(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        mut found: Found,
    ) -> Result<Option<Changed>, MongoError> {
        let mut throttle_wait = ThrottleWait::new(service, ctx);
        for _ in 0..ATTEMPTS_MAX {
            let before = found.document.clone();
            let Some(next) = self.next(&found)? else {
                return Ok(Some(Changed { before, after: None }));
            };
            let key = found.item.partition_key();
            let id = found.item.row_key().clone();
            let body = ItemBody::from_document(next)?;
            let after = Some(body.bytes().clone());
            let if_match = Some(EtagCondition::Is(found.item.etag().unquoted()));
            let op = ItemOp::Replace { id: id.clone(), body, if_match };
            match service.engine.write_item(ctx, container, Some(key.clone()), op).await {
                Ok(_) => return Ok(Some(Changed { before, after })),
                Err(Error::PreconditionFailed | Error::NotFound { .. }) => {
                    let again = service.engine.read_item(ctx, container, &key, &id, None);
                    let again = match again {
                        Ok(item) => self.filter.check(item)?,
                        Err(Error::NotFound { .. }) => None,
                        Err(error) => {
                            throttle_wait.wait(error).await?;
                            continue;
                        }
                    };
                    let Some(again) = again else { return Ok(None) };
                    found = again;
                }
                Err(error) => throttle_wait.wait(error).await?,
            }
        }
        Err(too_often())
    }

    /// Changes the first document that matches, in an order if one is given.
    async fn change_first(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        sort: Option<&Object>,
    ) -> Result<Option<Changed>, MongoError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(found) = first(service, ctx, container, &self.filter, sort).await? else {
                return Ok(None);
            };
            if let Some(changed) = self.change(service, ctx, container, found).await? {
                return Ok(Some(changed));
            }
        }
        Err(too_often())
    }

    /// Inserts the document that the filter and the update describe; `None` if another command did.
    async fn insert(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        command: &Command,
    ) -> Result<Option<Bytes>, MongoError> {
        let document = upsert::new_document(
            &self.filter.predicate,
            &self.update,
            &self.filter.variables,
            || Value::ObjectId(new_object_id(service)),
        )?;
        let id = document.get("_id").cloned().unwrap_or(Value::Null);
        let mut throttle_wait = ThrottleWait::new(service, ctx);
        loop {
            let body = ItemBody::from_document(document.clone())?;
            let bytes = body.bytes().clone();
            let key = container.spec.partition_key.is_system.then(whole);
            let op = ItemOp::Create { body };
            match service.engine.write_item(ctx, container, key, op).await {
                Ok(_) => return Ok(Some(bytes)),
                Err(Error::AlreadyExists { .. }) => {
                    // One that matches was made meanwhile, or one that does not match has the id.
                    return match first(service, ctx, container, &self.filter, None).await? {
                        Some(_) => Ok(None),
                        None => Err(duplicate_id(&command.namespace()?, &id)),
                    };
                }
                Err(error) => throttle_wait.wait(error).await?,
            }
        }
    }
}

fn compile(
    service: &Service,
    command: &Command,
    change: &Value,
    options: &CompileOptions,
    array_filters: &[Object],
) -> Result<Update, MongoError> {
    let filter = FilterOptions::new(options);
    let pipeline = PipelineOptions {
        expressions: options,
        database: &command.database,
        has_collection: true,
        compile_script: None,
        seed: service.random_number(),
    };
    let compile_pipeline = |stages: &[Value]| pipeline::compile_update(stages, &pipeline);
    let options = UpdateOptions {
        array_filters,
        compile_pipeline: Some(&compile_pipeline),
        ..UpdateOptions::new(filter)
    };
    Ok(update::compile(change, &options)?)
}

/// `findAndModify`.
pub(crate) async fn find_and_modify(
    service: &Service,
    client: &Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let namespace = command.namespace()?;
    let done = find_and_modify_one(service, client, command).await;
    done.map_err(|error| error.in_collection(&namespace))
}

async fn find_and_modify_one(
    service: &Service,
    client: &Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let concern = write_concern::check(client, &command)?;
    check_collation(command.object("collation"))?;
    let hint = index_hint(service, &command, command.get("hint"))?;
    let mut ctx = service.context(client, &command)?;
    let is_set = |name| command.flag(name) == Some(true);
    let bad = |message: &str| MongoError::new(code::FAILED_TO_PARSE, message);
    let (removes, upserts, wants_new) = (is_set("remove"), is_set("upsert"), is_set("new"));
    let change = command.get("update");
    match (removes, change) {
        (true, Some(_)) => {
            return Err(bad("Cannot specify both an update and remove=true"));
        }
        (false, None) => return Err(bad("Either an update or remove=true must be specified")),
        (true, None) if upserts => {
            return Err(bad("Cannot specify both upsert=true and remove=true"));
        }
        (true, None) if wants_new => {
            return Err(bad(
                "Cannot specify both new=true and remove=true; 'remove' always returns the \
                 deleted document",
            ));
        }
        (true, None) | (false, Some(_)) => {}
    }
    let empty = Object::new();
    let query = command.object("query").unwrap_or(&empty);
    let sort = command.object("sort").cloned();
    let (options, variables) = find::variables_of(service, &command)?;
    let filter = Filter::new(query, &options, &variables)?.hinted(hint.clone());
    let projection = find::projection(command.object("fields"), &filter.predicate, &options)?;
    let container = match upserts {
        true => {
            Some(service.collection_to_write(&ctx, &command.database, command.collection()?).await?)
        }
        false => service.collection(&command.database, command.collection()?),
    };
    let (mut last, mut value) = (document! { "n" => 0 }, None);
    if let Some(container) = container {
        check_writable(&container)?;
        if removes {
            value = remove_first(service, &mut ctx, &container, &filter, sort.as_ref()).await?;
            last = document! { "n" => i32::from(value.is_some()) };
        } else if let Some(change) = change {
            let changing = Changing::new(
                service,
                &command,
                (query, hint),
                (change, command.array("arrayFilters")),
            )?;
            let changed = changing.change_first(service, &mut ctx, &container, sort.as_ref());
            let mut changed = changed.await?;
            let mut upserted = None;
            while changed.is_none() && upserts && upserted.is_none() {
                upserted = changing.insert(service, &mut ctx, &container, &command).await?;
                if upserted.is_none() {
                    changed =
                        changing.change_first(service, &mut ctx, &container, sort.as_ref()).await?;
                }
            }
            (last, value) = match (changed, upserted) {
                (Some(changed), _) => {
                    let shown = match wants_new {
                        true => changed.after.unwrap_or(changed.before),
                        false => changed.before,
                    };
                    (document! { "n" => 1, "updatedExisting" => true }, Some(shown))
                }
                (None, Some(inserted)) => {
                    let id = id_of(&inserted).unwrap_or(Value::Null);
                    let last = document! { "n" => 1, "updatedExisting" => false, "upserted" => id };
                    (last, wants_new.then_some(inserted))
                }
                (None, None) => (document! { "n" => 0, "updatedExisting" => false }, None),
            };
        }
    }
    let value = match (value, &projection) {
        (None, _) => Value::Null,
        (Some(document), None) => tree_of(&document)?,
        (Some(document), Some(projection)) => {
            Value::Object(projection.apply(&tree_of(&document)?, &variables)?)
        }
    };
    let mut reply = document! { "lastErrorObject" => last, "value" => value };
    write_concern::report(concern, &mut reply);
    Ok(Reply { charge: ctx.served.charge, ..Reply::from(reply) })
}

async fn remove_first(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    filter: &Filter,
    sort: Option<&Object>,
) -> Result<Option<Bytes>, MongoError> {
    for _ in 0..ATTEMPTS_MAX {
        let Some(found) = first(service, ctx, container, filter, sort).await? else {
            return Ok(None);
        };
        if remove(service, ctx, container, &found).await? {
            return Ok(Some(found.document));
        }
    }
    Err(too_often())
}
