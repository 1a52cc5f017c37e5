//! `$out` and `$merge`: the documents of a pipeline go to a collection.

use std::sync::Arc;

use engine::ops::{EtagCondition, ItemBody, ItemOp};
use engine::{Container, Error, RequestContext};
use model::{Object, Value};
use query::document::Variables;
use query::document::pipeline::{MergeOutput, Namespace, Output, WhenMatched, WhenNotMatched};

use crate::collections::{size_of, whole};
use crate::commands::delete::ATTEMPTS_MAX;
use crate::commands::insert::{duplicate_id, new_object_id};
use crate::document::document;
use crate::errors::codes as code;
use crate::find::{Filter, Found, first, variables_of};
use crate::throttle_wait::ThrottleWait;
use crate::{Command, MongoError, Service};

/// MergeStageNoMatchingDocument.
const NO_MATCHING_DOCUMENT: i32 = 13_113;

/// Begins to write to a collection.
pub(crate) async fn begin(
    service: &Service,
    ctx: &RequestContext,
    output: &Output,
) -> Result<Arc<Container>, MongoError> {
    let (Output::Replace(namespace) | Output::Merge(MergeOutput { into: namespace, .. })) = output;
    let Namespace { database, collection } = namespace;
    let container = service.collection_to_write(ctx, database, collection).await?;
    if matches!(output, Output::Replace(_)) && size_of(&service.engine, &container).0 > 0 {
        return Err(MongoError::new(
            code::COMMAND_NOT_SUPPORTED,
            format!(
                "$out to {database}.{collection}, which has documents, is not supported: remove \
                 them, or use $merge"
            ),
        ));
    }
    Ok(container)
}

/// Writes one document.
pub(crate) async fn write(
    service: &Service,
    ctx: &mut RequestContext,
    (container, output): (&Arc<Container>, &Output),
    new: Value,
    variables: &Variables,
) -> Result<(), MongoError> {
    let Value::Object(mut new) = new else {
        return Err(MongoError::new(code::INTERNAL_ERROR, "a stage made no document"));
    };
    if new.get("_id").is_none() {
        let mut with_id = document! { "_id" => Value::ObjectId(new_object_id(service)) };
        for (name, value) in new {
            with_id.insert(name, value);
        }
        new = with_id;
    }
    for _ in 0..ATTEMPTS_MAX {
        let merge = match output {
            Output::Replace(_) => None,
            Output::Merge(merge) => Some(merge),
        };
        let existing = match merge {
            None => None,
            Some(merge) => {
                let filter = same_as(service, &new, merge)?;
                first(service, ctx, container, &filter, None).await?
            }
        };
        let is_done = match (existing, merge) {
            (Some(found), Some(merge)) => {
                merge_into(service, ctx, container, (found, merge), (&new, variables)).await?
            }
            (_, Some(merge)) if merge.when_not_matched == WhenNotMatched::Discard => true,
            (_, Some(merge)) if merge.when_not_matched == WhenNotMatched::Fail => {
                return Err(MongoError::new(
                    NO_MATCHING_DOCUMENT,
                    "$merge could not find a matching document in the target collection for at \
                     least one document in the source collection",
                ));
            }
            (_, merge) => insert(service, ctx, container, &new, merge.is_some()).await?,
        };
        if is_done {
            return Ok(());
        }
    }
    Err(MongoError::new(code::WRITE_CONFLICT, "the documents are changed too often"))
}

/// The filter of the document that is the same as this one.
fn same_as(service: &Service, new: &Object, merge: &MergeOutput) -> Result<Filter, MongoError> {
    let by_id = ["_id".to_owned()];
    let on = merge.on.as_deref().unwrap_or(&by_id);
    let mut filter = Object::new();
    for path in on {
        let mut names = path.split('.');
        let value = names.next().and_then(|name| new.get(name));
        let value = names.fold(value, |value, name| value?.field(name));
        let value = value.cloned().unwrap_or(Value::Null);
        filter.insert(path.as_str(), document! { "$eq" => value }.into());
    }
    let (options, variables) = variables_of(service, &Command::default())?;
    Filter::new(&filter, &options, &variables)
}

/// Changes the document that is there; false if another command was faster.
async fn merge_into(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    (found, merge): (Found, &MergeOutput),
    (new, variables): (&Object, &Variables),
) -> Result<bool, MongoError> {
    if matches!(merge.when_matched, WhenMatched::Fail) {
        let namespace = format!("{}.{}", merge.into.database, merge.into.collection);
        return Err(duplicate_id(&namespace, new.get("_id").unwrap_or(&Value::Null)));
    }
    let key = found.item.partition_key();
    let id = found.item.row_key().clone();
    let etag = found.item.etag().unquoted();
    let before = found.into_tree()?;
    let merged = merge.merged(&before, &Value::Object(new.clone()), variables)?;
    let Some(Value::Object(merged)) = merged else { return Ok(true) };
    let mut next = Object::new();
    if let Some(id) = before.field("_id") {
        next.insert("_id", id.clone());
    }
    for (name, value) in merged {
        if name != "_id" {
            next.insert(name, value);
        }
    }
    let mut throttle_wait = ThrottleWait::new(service, ctx);
    loop {
        let body = ItemBody::from_document(next.clone())?;
        let if_match = Some(EtagCondition::Is(etag.clone()));
        let op = ItemOp::Replace { id: id.clone(), body, if_match };
        match service.engine.write_item(ctx, container, Some(key.clone()), op).await {
            Ok(_) => return Ok(true),
            Err(Error::PreconditionFailed | Error::NotFound { .. }) => return Ok(false),
            Err(error) => throttle_wait.wait(error).await?,
        }
    }
}

/// Inserts a document; false if another command did and that one may be changed.
async fn insert(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    new: &Object,
    may_change: bool,
) -> Result<bool, MongoError> {
    let mut throttle_wait = ThrottleWait::new(service, ctx);
    loop {
        let body = ItemBody::from_document(new.clone())?;
        let key = container.spec.partition_key.is_system.then(whole);
        match service.engine.write_item(ctx, container, key, ItemOp::Create { body }).await {
            Ok(_) => return Ok(true),
            Err(Error::AlreadyExists { .. }) if may_change => return Ok(false),
            Err(Error::AlreadyExists { .. }) => {
                let namespace = format!("{}.{}", container.database_id, container.spec.id);
                return Err(duplicate_id(&namespace, new.get("_id").unwrap_or(&Value::Null)));
            }
            Err(error) => throttle_wait.wait(error).await?,
        }
    }
}
