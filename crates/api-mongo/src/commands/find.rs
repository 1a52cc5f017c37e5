//! `find`, `getMore` and `killCursors`, and `count` and `distinct`.

use bytes::Bytes;
use engine::RequestContext;
use model::{Object, Value};
use query::document::types::compare;
use query::document::{FieldPath, PathPart};

use super::indexes::{ID_INDEX, read_columns};
use crate::client::Client;
use crate::collections::size_of;
use crate::command::{Command, DOCUMENT_BYTES_MAX, is_true, whole_number};
use crate::cursors::{Cursor, Rest};
use crate::document::{count, document};
use crate::errors::codes as code;
use crate::find::{self, Filter, Outcome, Search, Shape};
use crate::reply::{Batch, Reply};
use crate::sessions::SessionId;
use crate::{MongoError, Service};

/// Documents of a first batch, if the client asks for no number.
pub(crate) const FIRST_BATCH: u64 = 101;

/// `find`.
pub(crate) async fn run(
    service: &Service,
    client: &mut Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let namespace = command.namespace()?;
    check_options(&command)?;
    let mut ctx = service.context(client, &command)?;
    let (options, variables) = find::variables_of(service, &command)?;
    let empty = Object::new();
    let hint = index_hint(service, &command, command.get("hint"))?;
    let filter = command.object("filter").unwrap_or(&empty);
    let filter = Filter::new(filter, &options, &variables)?.hinted(hint);
    let projection = find::projection(command.object("projection"), &filter.predicate, &options)?;
    let sort = command.object("sort").cloned();
    let skip = command.natural("skip")?.unwrap_or_default();
    // A negative limit asks for one batch.
    let limit = command.integer("limit")?.unwrap_or_default();
    let is_single = limit < 0 || command.flag("singleBatch") == Some(true);
    let limit = Some(limit.unsigned_abs()).filter(|limit| *limit > 0);
    let batch_size = command.natural("batchSize")?;
    let container = service.collection(&command.database, command.collection()?);
    let outcome = match container {
        None => Outcome::Documents(std::collections::VecDeque::new()),
        Some(container) => {
            let shape = Shape { projection, sort, skip, limit };
            find::find(service, &mut ctx, Search::new(container, filter), shape).await?
        }
    };
    let wanted = batch_size.unwrap_or(FIRST_BATCH);
    let opening = Opening { namespace, wanted, is_single, command: &command };
    opening.reply(service, client, &mut ctx, outcome).await
}

/// A cursor that a command opens.
pub(crate) struct Opening<'c> {
    pub(crate) namespace: String,
    pub(crate) wanted: u64,
    pub(crate) is_single: bool,
    pub(crate) command: &'c Command,
}

impl Opening<'_> {
    /// The reply with the first batch. The rest waits in a cursor.
    pub(crate) async fn reply(
        self,
        service: &Service,
        client: &mut Client,
        ctx: &mut RequestContext,
        outcome: Outcome,
    ) -> Result<Reply, MongoError> {
        let mut rest = match outcome {
            Outcome::Scan(scan) => Rest::Scan(scan),
            Outcome::Documents(documents) => Rest::Documents(documents),
        };
        let (documents, is_over) = take(service, ctx, &mut rest, self.wanted).await?;
        let cursor = match is_over || self.is_single {
            true => 0,
            false => {
                let session = self.command.object("lsid");
                let session = session.map(|lsid| SessionId::read(lsid, client.owner()));
                let cursor = Cursor {
                    namespace: self.namespace.clone(),
                    session: session.transpose()?,
                    owner: client.owner(),
                    rest,
                    never_expires: self.command.flag("noCursorTimeout") == Some(true),
                    used: service.engine.components().clock.monotonic(),
                };
                let random = &*service.engine.components().random;
                let number = service.cursors.open(cursor, random)?;
                client.note_unread(number);
                number
            }
        };
        let batch = Batch { cursor, namespace: self.namespace, is_first: true, documents };
        Ok(Reply { charge: ctx.served.charge, ..Reply::from(batch) })
    }
}

/// The next documents, as many as are wanted and fit, and whether they are the last.
async fn take(
    service: &Service,
    ctx: &mut RequestContext,
    rest: &mut Rest,
    wanted: u64,
) -> Result<(Vec<Bytes>, bool), MongoError> {
    let (mut documents, mut bytes) = (Vec::new(), 0);
    let fits = |documents: &Vec<Bytes>, bytes: usize, next: usize| {
        (documents.len() as u64) < wanted
            && (documents.is_empty() || bytes + next <= DOCUMENT_BYTES_MAX)
    };
    match rest {
        Rest::Documents(waiting) => {
            while let Some(next) = waiting.front()
                && fits(&documents, bytes, next.len())
            {
                bytes += next.len();
                documents.extend(waiting.pop_front());
            }
            Ok((documents, waiting.is_empty()))
        }
        Rest::Scan(scan) => {
            if wanted == 0 {
                return Ok((documents, false));
            }
            loop {
                scan.fill(service, ctx).await?;
                let Some(next) = scan.next_bytes() else { return Ok((documents, true)) };
                if !fits(&documents, bytes, next) {
                    return Ok((documents, false));
                }
                bytes += next;
                documents.extend(scan.next_ready());
                if scan.is_over() {
                    return Ok((documents, true));
                }
                if documents.len() as u64 >= wanted {
                    return Ok((documents, false));
                }
            }
        }
    }
}

/// `getMore`.
pub(crate) async fn more(
    service: &Service,
    client: &mut Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let number = whole_number(command.target())
        .filter(|_| !matches!(command.target(), Value::Double(_)))
        .ok_or_else(|| {
            let found = crate::command::type_name(command.target());
            crate::command::wrong_type("getMore.getMore", found, "long")
        })?;
    let collection = command.text("collection").unwrap_or_default();
    let namespace = format!("{}.{collection}", command.database);
    let now = service.engine.components().clock.monotonic();
    let wanted = command.natural("batchSize")?.filter(|size| *size > 0).unwrap_or(u64::MAX);
    let mut ctx = service.context(client, &command)?;
    let mut cursor = service.cursors.take(number, &namespace, client.owner(), now)?;
    client.note_read(number);
    let (documents, is_over) = take(service, &mut ctx, &mut cursor.rest, wanted).await?;
    let mut next = None;
    let id = if is_over {
        0
    } else {
        cursor.used = service.engine.components().clock.monotonic();
        service.cursors.put_back(number, cursor);
        next = command.manner.allows_exhaust.then(|| Box::new(command));
        number
    };
    let batch = Batch { cursor: id, namespace, is_first: false, documents };
    Ok(Reply { charge: ctx.served.charge, next, ..Reply::from(batch) })
}

/// `killCursors`.
pub(crate) fn kill(
    service: &Service,
    client: &mut Client,
    command: &Command,
) -> Result<Object, MongoError> {
    command.collection()?;
    let (mut killed, mut unknown) = (Vec::new(), Vec::new());
    for number in command.array("cursors").unwrap_or_default() {
        let id = whole_number(number).ok_or_else(|| command.wrong_type("cursors", "long"))?;
        client.note_read(id);
        match service.cursors.close(id, client.owner()) {
            true => killed.push(Value::Int64(id)),
            false => unknown.push(Value::Int64(id)),
        }
    }
    Ok(document! {
        "cursorsKilled" => killed,
        "cursorsNotFound" => unknown,
        "cursorsAlive" => Vec::<Value>::new(),
        "cursorsUnknown" => Vec::<Value>::new(),
    })
}

/// Refuses options that would change the result and are not supported.
fn check_options(command: &Command) -> Result<(), MongoError> {
    if command.flag("tailable") == Some(true) {
        return Err(MongoError::new(
            code::BAD_VALUE,
            "error processing query: tailable cursor requested on non capped collection",
        ));
    }
    if command.flag("awaitData") == Some(true) {
        return Err(MongoError::new(
            code::FAILED_TO_PARSE,
            "Cannot set 'awaitData' without also setting 'tailable'",
        ));
    }
    for name in ["min", "max", "returnKey", "showRecordId"] {
        let is_asked = command.get(name).is_some_and(|value| {
            is_true(value) && value.as_object().is_none_or(|object| !object.is_empty())
        });
        if is_asked {
            return Err(not_supported(name));
        }
    }
    check_collation(command.object("collation"))
}

pub(crate) fn not_supported(what: &str) -> MongoError {
    MongoError::new(code::NOT_IMPLEMENTED, format!("{what} is not supported"))
}

/// Accepts the collation that compares bytes.
pub(crate) fn check_collation(collation: Option<&Object>) -> Result<(), MongoError> {
    let Some(collation) = collation.filter(|it| !it.is_empty()) else { return Ok(()) };
    match collation.get("locale").and_then(Value::as_str) {
        Some("simple") => Ok(()),
        _ => Err(not_supported("collation")),
    }
}

/// The index that a client wants to be used, where it is one beside that of ids.
pub(crate) fn index_hint(
    service: &Service,
    command: &Command,
    hint: Option<&Value>,
) -> Result<Option<String>, MongoError> {
    let container = service.collection(&command.database, command.collection()?);
    let Some((hint, container)) = hint.zip(container) else { return Ok(None) };
    let indexes = &container.spec.indexing.ordered;
    let named = match (hint.as_str(), hint.as_object()) {
        (Some("" | ID_INDEX), _) => return Ok(None),
        (Some(name), _) => indexes.iter().find(|index| index.name == name),
        (None, Some(key)) => {
            let names = key.iter().map(|(name, _)| name).collect::<Vec<_>>();
            if matches!(names.as_slice(), [] | ["_id" | "$natural"]) {
                return Ok(None);
            }
            let columns = read_columns(key)?;
            indexes.iter().find(|index| index.columns == columns)
        }
        (None, None) => None,
    };
    named.map(|index| Some(index.name.clone())).ok_or_else(|| {
        MongoError::new(
            code::BAD_VALUE,
            "error processing query: hint provided does not correspond to an existing index",
        )
    })
}

/// `count`.
pub(crate) async fn count_documents(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Reply, MongoError> {
    let Some(container) = service.collection(&command.database, command.collection()?) else {
        return Ok(document! { "n" => 0 }.into());
    };
    check_collation(command.object("collation"))?;
    let hint = index_hint(service, command, command.get("hint"))?;
    let mut ctx = service.context(client, command)?;
    let skip = command.natural("skip")?.unwrap_or_default();
    let limit = command.integer("limit")?.unwrap_or_default().unsigned_abs();
    let empty = Object::new();
    let query = command.object("query").unwrap_or(&empty);
    let mut found = 0;
    if query.is_empty() && container.spec.default_ttl.is_none() {
        found = size_of(&service.engine, &container).0;
    } else {
        let (options, variables) = find::variables_of(service, command)?;
        let filter = Filter::new(query, &options, &variables)?.hinted(hint);
        let mut search = Search::new(container, filter);
        while !search.is_over() {
            found += search.page(service, &mut ctx).await?.len() as u64;
        }
    }
    found = found.saturating_sub(skip);
    if limit > 0 {
        found = found.min(limit);
    }
    Ok(Reply { charge: ctx.served.charge, ..Reply::from(document! { "n" => count(found) }) })
}

/// `distinct`.
pub(crate) async fn distinct(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Reply, MongoError> {
    let path = FieldPath::parse(command.text("key").unwrap_or_default());
    let Some(container) = service.collection(&command.database, command.collection()?) else {
        return Ok(document! { "values" => Vec::<Value>::new() }.into());
    };
    check_collation(command.object("collation"))?;
    let mut ctx = service.context(client, command)?;
    let (options, variables) = find::variables_of(service, command)?;
    let empty = Object::new();
    let query = command.object("query").unwrap_or(&empty);
    let mut search = Search::new(container, Filter::new(query, &options, &variables)?);
    let mut values: Vec<Value> = Vec::new();
    while !search.is_over() {
        for found in search.page(service, &mut ctx).await? {
            collect(&found.into_tree()?, path.parts(), &mut values);
        }
        values.sort_by(|a, b| compare(Some(a), Some(b)));
        values.dedup_by(|a, b| compare(Some(a), Some(b)).is_eq());
    }
    let reply = document! { "values" => values };
    Ok(Reply { charge: ctx.served.charge, ..Reply::from(reply) })
}

/// The values that a path leads to, each element of an array for itself.
fn collect(value: &Value, path: &[PathPart], out: &mut Vec<Value>) {
    let Some((part, rest)) = path.split_first() else {
        match value.as_array() {
            Some(elements) => out.extend(elements.iter().cloned()),
            None => out.push(value.clone()),
        }
        return;
    };
    if let Value::Array(elements) = value {
        if let Some(element) = part.position.and_then(|at| elements.get(at)) {
            return collect(element, rest, out);
        }
        let objects = elements.iter().filter(|element| element.as_object().is_some());
        objects.for_each(|element| collect(element, path, out));
    } else if let Some(value) = value.field(&part.name) {
        collect(value, rest, out);
    }
}

/// Documents that the server makes itself, of which those that a filter accepts are given out.
pub(crate) fn filtered(
    service: &Service,
    documents: Vec<Object>,
    filter: Option<&Object>,
) -> Result<Vec<Object>, MongoError> {
    let Some(filter) = filter.filter(|filter| !filter.is_empty()) else { return Ok(documents) };
    let (options, variables) = find::variables_of(service, &Command::default())?;
    let filter = Filter::new(filter, &options, &variables)?;
    let mut kept = Vec::new();
    for document in documents {
        let tree = Value::Object(document);
        if filter.predicate.matches(&tree, &variables)?
            && let Value::Object(document) = tree
        {
            kept.push(document);
        }
    }
    Ok(kept)
}
