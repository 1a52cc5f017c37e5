//! `insert`.

#![expect(clippy::little_endian_bytes, reason = "BSON's byte order")]

use std::sync::Arc;

use bytes::Bytes;
use engine::ops::{ItemBody, ItemOp, OpResult};
use engine::{Container, Error, RequestContext};
use model::bson::{ElementType, RawDocument};
use model::{Object, Value};
use query::document::print::Printed;

use super::write_concern;
use crate::client::Client;
use crate::collections::whole;
use crate::command::{Command, DOCUMENT_BYTES_MAX, type_name};
use crate::document::{count, document};
use crate::errors::codes as code;
use crate::reply::Reply;
use crate::throttle_wait::ThrottleWait;
use crate::wire::SEQUENCE_DOCUMENTS_MAX;
use crate::{MongoError, Service};

/// Most documents of one commit.
const GROUP_MAX: usize = 256;
/// Most bytes of the documents of one commit, unless it is one document.
const GROUP_BYTES_MAX: usize = 4 << 20;

pub(crate) async fn run(
    service: &Service,
    client: &Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let (database, name) = (command.database.clone(), command.collection()?.to_owned());
    check_batch(command.documents.count)?;
    let is_ordered = command.flag("ordered").unwrap_or(true);
    let concern = write_concern::check(client, &command)?;
    let mut ctx = service.context(client, &command)?;
    let container = service.collection_to_write(&ctx, &database, &name).await?;
    let mut inserting = Inserting {
        service,
        ctx: &mut ctx,
        container,
        namespace: format!("{database}.{name}"),
        inserted: 0,
        errors: Vec::new(),
    };
    let documents = command.documents.kept.iter().map(|document| with_id(service, document));
    let documents = documents.collect::<Vec<_>>();
    match is_ordered {
        true => inserting.in_order(documents).await?,
        false => inserting.all(documents).await?,
    }
    let (inserted, errors) = (inserting.inserted, inserting.errors);
    let mut reply = document! { "n" => count(inserted) };
    if !errors.is_empty() {
        reply.insert(
            "writeErrors",
            errors.into_iter().map(Value::Object).collect::<Vec<_>>().into(),
        );
    }
    write_concern::report(concern, &mut reply);
    Ok(Reply { charge: ctx.served.charge, ..Reply::from(reply) })
}

/// Refuses commands without statements, and with too many.
pub(crate) fn check_batch(count: usize) -> Result<(), MongoError> {
    if (1..=SEQUENCE_DOCUMENTS_MAX).contains(&count) {
        return Ok(());
    }
    Err(MongoError::new(
        code::INVALID_LENGTH,
        format!(
            "Write batch sizes must be between 1 and {SEQUENCE_DOCUMENTS_MAX}. Got {count} \
             operations."
        ),
    ))
}

type Prepared = Result<Bytes, MongoError>;

struct Inserting<'s> {
    service: &'s Service,
    ctx: &'s mut RequestContext,
    container: Arc<Container>,
    namespace: String,
    inserted: u64,
    errors: Vec<Object>,
}

impl Inserting<'_> {
    /// Inserts until one fails. Those of a group are inserted by one commit or, if one of them
    /// fails, those before it are.
    async fn in_order(&mut self, documents: Vec<Prepared>) -> Result<(), MongoError> {
        let mut rest = documents.as_slice();
        let mut at = 0;
        while !rest.is_empty() {
            let size = self.group_size(rest);
            let (group, after) = rest.split_at(size);
            let done = self.group_in_order(group).await?;
            self.inserted += done as u64;
            at += done;
            if done < group.len() {
                let failure = group.get(done);
                let failure = failure.and_then(|failed| failed.as_ref().err().cloned());
                let error = match failure {
                    Some(error) => error,
                    None => self.failure_of(group.get(done)).await?,
                };
                self.errors.push(error.to_write_error(at));
                return Ok(());
            }
            rest = after;
        }
        Ok(())
    }

    /// How many documents the next commit has. A collection that is sharded is written document by
    /// document, as they may be of several partitions.
    fn group_size(&self, rest: &[Prepared]) -> usize {
        if !self.container.spec.partition_key.is_system {
            return 1;
        }
        let mut bytes = 0;
        let fits = |document: &&Prepared| {
            bytes += document.as_ref().map_or(0, Bytes::len);
            bytes <= GROUP_BYTES_MAX
        };
        rest.iter().take(GROUP_MAX).take_while(fits).count().max(1)
    }

    /// Inserts the documents of a group up to the first that fails; returns how many.
    async fn group_in_order(&mut self, group: &[Prepared]) -> Result<usize, MongoError> {
        let valid = group.iter().take_while(|document| document.is_ok()).count();
        let mut wanted = valid;
        while wanted > 0 {
            let documents = group.iter().take(wanted).filter_map(|it| it.as_ref().ok());
            let results = self.commit(&documents.cloned().collect::<Vec<_>>()).await?;
            match results.iter().position(is_cause) {
                None => return Ok(wanted),
                // Nothing was written. Those before it can be.
                Some(failed) => wanted = failed,
            }
        }
        Ok(0)
    }

    /// Creates these documents, all or none.
    async fn commit(&mut self, documents: &[Bytes]) -> Result<Vec<OpResult>, MongoError> {
        let mut throttle_wait = ThrottleWait::new(self.service, self.ctx);
        loop {
            let mut ops = Vec::with_capacity(documents.len());
            for document in documents {
                ops.push(ItemOp::Create { body: ItemBody::from_bson(document.clone())? });
            }
            let engine = &self.service.engine;
            let done = match self.container.spec.partition_key.is_system {
                true => engine.write_batch(self.ctx, &self.container, whole(), ops).await,
                false => {
                    let ops = ops.into_iter().map(|op| (None, op)).collect();
                    engine.bulk(self.ctx, &self.container, None, ops).await
                }
            };
            match done {
                Err(error) => throttle_wait.wait(error).await?,
                Ok(results) => return Ok(results),
            }
        }
    }

    /// Why a document that is valid could not be inserted.
    async fn failure_of(&mut self, document: Option<&Prepared>) -> Result<MongoError, MongoError> {
        let Some(Ok(document)) = document else { return Err(overtaken()) };
        let results = self.commit(std::slice::from_ref(document)).await?;
        match results.into_iter().next().map(|result| result.outcome) {
            Some(Err(error)) => Ok(self.error(error, document)),
            // What was in its way is gone meanwhile, and it is there now.
            Some(Ok(_)) => {
                self.inserted += 1;
                Err(overtaken())
            }
            None => Err(overtaken()),
        }
    }

    /// Inserts those that can be.
    async fn all(&mut self, documents: Vec<Prepared>) -> Result<(), MongoError> {
        for (group_at, group) in (0..).step_by(GROUP_MAX).zip(documents.chunks(GROUP_MAX)) {
            let mut waiting = Vec::new();
            for (at, document) in (group_at..).zip(group) {
                match document {
                    Ok(document) => waiting.push((at, document.clone())),
                    Err(error) => self.errors.push(error.to_write_error(at)),
                }
            }
            let mut throttle_wait = ThrottleWait::new(self.service, self.ctx);
            while !waiting.is_empty() {
                let mut ops = Vec::with_capacity(waiting.len());
                for (_, document) in &waiting {
                    let body = ItemBody::from_bson(document.clone())?;
                    let key = self.container.spec.partition_key.is_system.then(whole);
                    ops.push((key, ItemOp::Create { body }));
                }
                let engine = &self.service.engine;
                let results = engine.bulk(self.ctx, &self.container, None, ops).await?;
                let mut refused = None;
                let mut again = Vec::new();
                for ((at, document), result) in waiting.into_iter().zip(results) {
                    match result.outcome {
                        Ok(_) => self.inserted += 1,
                        Err(error @ Error::Throttled { .. }) => {
                            refused = Some(error);
                            again.push((at, document));
                        }
                        Err(error) => {
                            let error = self.error(error, &document);
                            self.errors.push(error.to_write_error(at));
                        }
                    }
                }
                waiting = again;
                if let Some(error) = refused
                    && let Err(error) = throttle_wait.wait(error).await
                {
                    for (at, _) in waiting.drain(..) {
                        self.errors.push(error.to_write_error(at));
                    }
                }
            }
        }
        let at = |entry: &Object| entry.get("index").and_then(Value::as_i64);
        self.errors.sort_by_key(at);
        Ok(())
    }

    fn error(&self, error: Error, document: &Bytes) -> MongoError {
        if !matches!(error, Error::AlreadyExists { .. }) {
            return MongoError::from(error).in_collection(&self.namespace);
        }
        let id = RawDocument::of_stored(document).get("_id");
        let id = id.and_then(|id| id.to_value().ok()).unwrap_or(Value::Null);
        duplicate_id(&self.namespace, &id)
    }
}

fn is_cause(result: &OpResult) -> bool {
    !matches!(&result.outcome, Ok(_) | Err(Error::FailedDependency))
}

fn overtaken() -> MongoError {
    MongoError::new(code::WRITE_CONFLICT, "another command wrote the same document at this moment")
}

/// The failure that another document has this id.
pub(crate) fn duplicate_id(namespace: &str, id: &Value) -> MongoError {
    let printed = Printed(id);
    MongoError::new(
        code::DUPLICATE_KEY,
        format!(
            "E11000 duplicate key error collection: {namespace} index: _id_ dup key: \
             {{ _id: {printed} }}"
        ),
    )
    .with("keyPattern", document! { "_id" => 1 })
    .with("keyValue", document! { "_id" => id.clone() })
}

/// A document whose first field is its id; one without gets an id.
pub(crate) fn with_id(service: &Service, document: &Bytes) -> Result<Bytes, MongoError> {
    let raw = RawDocument::of_stored(document);
    let mut first = raw.iter();
    let first = first.next();
    let Some(id) = raw.get("_id") else {
        let id = new_object_id(service);
        return sized(rebuilt(ElementType::ObjectId, &id, raw));
    };
    check_id(&id.to_value().unwrap_or(Value::Null))?;
    match first.is_some_and(|field| field.name() == "_id") {
        true => sized(document.clone()),
        false => sized(rebuilt(id.element_type(), id.as_bytes(), raw)),
    }
}

fn sized(document: Bytes) -> Result<Bytes, MongoError> {
    let bytes = document.len();
    match bytes <= DOCUMENT_BYTES_MAX {
        true => Ok(document),
        false => Err(MongoError::new(
            code::BSON_OBJECT_TOO_LARGE,
            format!(
                "object to insert too large. size in bytes: {bytes}, max size: {DOCUMENT_BYTES_MAX}"
            ),
        )),
    }
}

/// The document with this id in front of its other fields.
fn rebuilt(id_type: ElementType, id: &[u8], raw: RawDocument<'_>) -> Bytes {
    let mut out = Vec::with_capacity(raw.as_bytes().len() + id.len() + 5);
    out.extend_from_slice(&[0; 4]);
    let mut push = |element_type: ElementType, name: &[u8], value: &[u8]| {
        out.push(element_type.code());
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
    };
    push(id_type, b"_id", id);
    for field in raw.iter().filter(|field| field.name() != "_id") {
        let value = field.value();
        push(value.element_type(), field.name_bytes(), value.as_bytes());
    }
    out.push(0);
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(field) = out.first_chunk_mut() {
        *field = length;
    }
    out.into()
}

/// A new id: seconds, and random bytes that no other has in the same second.
pub(crate) fn new_object_id(service: &Service) -> [u8; 12] {
    let components = service.engine.components();
    let mut id = [0; 12];
    components.random.fill(&mut id);
    let seconds = u32::try_from(components.clock.now().seconds()).unwrap_or(u32::MAX);
    for (byte, value) in id.iter_mut().zip(seconds.to_be_bytes()) {
        *byte = value;
    }
    id
}

/// Refuses what can't be an id.
pub(crate) fn check_id(id: &Value) -> Result<(), MongoError> {
    if matches!(id, Value::Array(_) | Value::Regex { .. } | Value::Undefined) {
        return Err(MongoError::new(
            code::INVALID_ID_FIELD,
            format!("The '_id' value cannot be of type {}", type_name(id)),
        ));
    }
    let mut names = id.as_object().into_iter().flat_map(Object::iter).map(|(name, _)| name);
    match names.find(|name| name.starts_with('$')) {
        Some(name) => Err(MongoError::new(
            code::DOLLAR_PREFIXED_FIELD_NAME,
            format!(
                "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."
            ),
        )),
        None => Ok(()),
    }
}
