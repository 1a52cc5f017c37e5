//! Calls of stored procedures, and writes with triggers: scripts that end in one commit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use engine::catalog::{Script, ScriptKind, TriggerOperation, TriggerSpec, TriggerTime};
use engine::components::Clock;
use engine::item::SYSTEM_PROPERTIES;
use engine::ops::ItemOp;
use engine::transaction::Transaction;
use engine::{Container, ContainerSpec, RequestContext};
use model::{ErrorKind, PartitionKey, Value, json};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use script::{CallerLimit, Job, Operation, ScriptResult, Scripts, Task};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::{Reply, ReplyHeader, Status};
use crate::request::Request;
use crate::script_guard::ScriptGuard;
use crate::script_host::{ScriptHost, item_text};
use crate::{
    Service, items, partition_key_header, payload, scripts, session, system_procedures,
    system_properties,
};

/// Longest header with a log. Clients do not accept longer lines.
const LOG_HEADER_BYTES_MAX: usize = 8_000;
/// Characters that stay unescaped in a log: letters, digits and the unreserved ones of RFC 3986.
const LOG_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A built-in procedure that returns its argument.
const ECHO: &str = "__.sys.echo";
const ECHO_BODY: &str = "function (x) { getContext().getResponse().setBody(x); }";

/// `POST .../sprocs/{id}`
pub(crate) async fn procedure(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    let kind = ScriptKind::StoredProcedure;
    let (name, source, script) = match scripts::find(service, container, kind, id, request) {
        Ok(script) => (script.spec.id.clone(), Arc::clone(&script.spec.body), Some(script)),
        Err(_) if id == ECHO => (ECHO.to_owned(), ECHO_BODY.into(), None),
        Err(_) if id == system_procedures::BULK_INSERT => {
            return system_procedures::bulk_insert(service, ctx, container, request).await;
        }
        Err(error) => return Err(error),
    };
    let key = partition_key_header::required_item_key(container, request)?;
    let task = Task::Procedure { args: arguments(&request.body)? };
    let job = Job { name, source, task, logs: request.flag(HeaderName::EnableScriptLogging) };
    let runner = Runner::of(service);
    let work = move |host: &SharedHost| runner.run(script.as_deref(), &job, host);
    let attempt = on_host(service, container, Arc::new(work));
    let (done, committed) = service.engine().transact(ctx, container, &key, attempt).await?;
    let body =
        done.body.as_deref().map_or_else(|| "\"\"".to_owned(), |body| committed.rename(body));
    Ok(with_log(Reply::ok(Bytes::from(body)), request, &done.log))
}

/// The arguments as an array: a value that is no array is the only argument.
fn arguments(body: &Bytes) -> Result<Option<String>, ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value = payload::value(body)?;
    if value == Value::Null {
        return Ok(None);
    }
    let args = if value.as_array().is_some() { value } else { Value::Array(vec![value]) };
    Ok(Some(json::to_string(&args)))
}

fn with_log(reply: Reply, request: &Request, log: &str) -> Reply {
    if !request.flag(HeaderName::EnableScriptLogging) {
        return reply;
    }
    let mut encoded = String::new();
    let mut buffer = [0; 4];
    for character in log.chars() {
        let one = utf8_percent_encode(character.encode_utf8(&mut buffer), LOG_ESCAPED);
        let before = encoded.len();
        encoded.extend(one);
        if encoded.len() > LOG_HEADER_BYTES_MAX {
            encoded.truncate(before);
            break;
        }
    }
    reply.header(ReplyHeader::ScriptLog, encoded)
}

/// The triggers that a write names.
#[derive(Clone, Default)]
pub(crate) struct Triggers {
    pre: Option<Arc<Script>>,
    post: Option<Arc<Script>>,
}

impl Triggers {
    /// The triggers in the request's headers; `None` if there are none.
    pub(crate) fn of(
        service: &Service,
        container: &Container,
        request: &Request,
        operation: Operation,
    ) -> Result<Option<Self>, ApiError> {
        if !Self::are_named(request) {
            return Ok(None);
        }
        let find = |header: HeaderName, time: TriggerTime| {
            let Some(name) = request.header_lossy(header) else { return Ok(None) };
            let name = name.trim();
            match name.is_empty() {
                true => Ok(None),
                false => trigger(service, container, name, time, operation).map(Some),
            }
        };
        let pre = find(HeaderName::PreTriggerInclude, TriggerTime::Pre)?;
        let post = find(HeaderName::PostTriggerInclude, TriggerTime::Post)?;
        Ok((pre.is_some() || post.is_some()).then_some(Self { pre, post }))
    }

    /// Whether a request names triggers.
    pub(crate) fn are_named(request: &Request) -> bool {
        [HeaderName::PreTriggerInclude, HeaderName::PostTriggerInclude]
            .iter()
            .any(|name| request.headers.has(*name))
    }
}

fn trigger(
    service: &Service,
    container: &Container,
    name: &str,
    time: TriggerTime,
    operation: Operation,
) -> Result<Arc<Script>, ApiError> {
    let shown: String = name.chars().take(64).collect();
    let refused = |why: &str| ApiError::bad_request_errors(format!("The trigger '{shown}' {why}"));
    if name.contains(',') {
        return Err(refused(
            "can't be run: one trigger can be named before a write, one after it.",
        ));
    }
    let catalog = service.engine().catalog();
    let found = catalog.script(container.rid, ScriptKind::Trigger, name);
    let script = found.ok_or_else(|| refused("does not exist in the collection."))?;
    let Some(TriggerSpec { time: runs, operation: wanted, .. }) = &script.spec.trigger else {
        return Err(ApiError::internal());
    };
    if *runs != time {
        return Err(refused("is not of the type that the request wants it to be."));
    }
    let fits = match wanted {
        TriggerOperation::All => true,
        TriggerOperation::Create => matches!(operation, Operation::Create | Operation::Upsert),
        TriggerOperation::Replace | TriggerOperation::Update => {
            matches!(operation, Operation::Replace | Operation::Upsert | Operation::Patch)
        }
        TriggerOperation::Delete => operation == Operation::Delete,
        TriggerOperation::Upsert => operation == Operation::Upsert,
    };
    match fits {
        true => Ok(Arc::clone(script)),
        false => Err(refused("is not for the operation of the request.")),
    }
}

/// An item write with triggers.
pub(crate) struct TriggeredWrite {
    pub(crate) key: PartitionKey,
    pub(crate) op: ItemOp,
    pub(crate) operation: Operation,
    /// The request body as JSON text.
    pub(crate) body: Option<String>,
    pub(crate) triggers: Triggers,
}

/// The result of a write with triggers.
struct WriteResult {
    /// The index of the requested write among the writes of the transaction.
    index: usize,
    /// The response body that the post-trigger set, if it did.
    body: Option<String>,
    log: String,
}

/// Runs a write with its triggers as one commit.
pub(crate) async fn write(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    write: TriggeredWrite,
    request: &Request,
) -> Result<Reply, ApiError> {
    let key = write.key.clone();
    let runner = Runner::of(service);
    let (definition, logs) = (Arc::clone(container), request.flag(HeaderName::EnableScriptLogging));
    let work = move |host: &SharedHost| write_with(&runner, host, &definition.spec, &write, logs);
    let attempt = on_host(service, container, Arc::new(work));
    let (written, committed) = service.engine().transact(ctx, container, &key, attempt).await?;
    let outcome = committed.outcomes.get(written.index).ok_or_else(ApiError::internal)?;
    if let Some(item) = outcome.item() {
        ctx.served.item_lsn = Some(item.lsn());
    }
    let mut reply = items::reply(outcome, request)?;
    if let Some(body) = &written.body
        && !request.wants_minimal()
        && reply.status != Status::NO_CONTENT
    {
        reply.body = Bytes::from(committed.rename(body));
    }
    Ok(with_log(reply, request, &written.log))
}

fn write_with(
    runner: &Runner,
    host: &SharedHost,
    container: &ContainerSpec,
    write: &TriggeredWrite,
    logs: bool,
) -> Result<WriteResult, ApiError> {
    let TriggeredWrite { operation, triggers, .. } = write;
    let (mut op, mut body, operation) = (write.op.clone(), write.body.clone(), *operation);
    let mut log = String::new();
    if let Some(pre) = &triggers.pre {
        let seen = body_seen_before(host, &op, body.as_deref())?;
        let job = job_of(pre, Task::PreTrigger { operation, body: seen }, logs);
        let done = runner.run(Some(pre), &job, host)?;
        log.push_str(&done.log);
        if let (Some(changed), true) = (done.body, body.is_some()) {
            set_body(&mut op, container, &changed)?;
            body = Some(changed);
        }
    }
    let (index, outcome) = {
        let mut host = lock(host);
        let transaction = host.transaction()?;
        (transaction.writes(), transaction.apply(op)?)
    };
    let Some(post) = &triggers.post else { return Ok(WriteResult { index, body: None, log }) };
    let response = outcome.item().map(item_text).transpose()?;
    let job = job_of(post, Task::PostTrigger { operation, body, response }, logs);
    let done = runner.run(Some(post), &job, host)?;
    log.push_str(&done.log);
    Ok(WriteResult { index, body: done.body, log })
}

/// The body that the trigger before a write sees: that of a replace has the system properties of the
/// item that it is for, which name it whatever id the new item has.
fn body_seen_before(
    host: &SharedHost,
    op: &ItemOp,
    body: Option<&str>,
) -> Result<Option<String>, ApiError> {
    let (ItemOp::Replace { id, body: new, .. }, Some(text)) = (op, body) else {
        return Ok(body.map(str::to_owned));
    };
    let Some(old) = lock(host).item(&id.as_text())? else { return Ok(Some(text.to_owned())) };
    let (old, mut seen) = (system_properties::value_of(&old)?, new.value().clone());
    if let Some(seen) = seen.as_object_mut() {
        for name in SYSTEM_PROPERTIES {
            old.field(name).map(|value| seen.insert(name, value.clone()));
        }
    }
    Ok(Some(json::to_string(&seen)))
}

fn job_of(script: &Script, task: Task, logs: bool) -> Job {
    let (name, source) = (script.spec.id.clone(), Arc::clone(&script.spec.body));
    Job { name, source, task, logs }
}

/// Replaces the body of a write by the one that a pre-trigger produced.
fn set_body(op: &mut ItemOp, container: &ContainerSpec, text: &str) -> Result<(), ApiError> {
    match op {
        ItemOp::Create { body }
        | ItemOp::Upsert { body, .. }
        | ItemOp::Replace { body, .. }
        | ItemOp::Merge { body, .. } => {
            *body = payload::item_of_text(Bytes::copy_from_slice(text.as_bytes()))?;
        }
        ItemOp::Patch { patch, .. } => {
            let changed = payload::value(text.as_bytes())?;
            *patch = crate::patch::from_value(&container.partition_key, changed)?;
        }
        ItemOp::Update { .. } | ItemOp::Delete { .. } | ItemOp::Read { .. } => {}
    }
    Ok(())
}

/// Runs scripts that are not blocked, and counts what they take.
struct Runner {
    scripts: Arc<Scripts>,
    guard: Arc<ScriptGuard>,
    clock: Arc<dyn Clock>,
}

impl Runner {
    fn of(service: &Service) -> Self {
        let (scripts, guard) = (service.scripts(), service.script_guard());
        let clock = Arc::clone(&service.engine().components().clock);
        Self { scripts: Arc::clone(scripts), guard: Arc::clone(guard), clock }
    }

    /// Runs `job`, which is that of `script` unless it is built in.
    fn run(
        &self,
        script: Option<&Script>,
        job: &Job,
        host: &SharedHost,
    ) -> Result<ScriptResult, ApiError> {
        if script.is_some_and(|script| self.guard.is_blocked(script)) {
            return Err(ApiError::new(
                ErrorKind::Forbidden,
                format!(
                    "The script with id '{}' is blocked for execution because it has violated its \
                     allowed resource limit several times.",
                    job.name
                ),
            ));
        }
        let stop = lock(host).transaction()?.stop_signal().clone();
        let (deadline, waits) = (stop.deadline(), stop.clone());
        let caller =
            CallerLimit { deadline, is_gone: Some(Arc::new(move || waits.is_cancelled())) };
        let done = self.scripts.run(job, Arc::<Mutex<ScriptHost>>::clone(host), caller);
        // What the caller ended says nothing of the script.
        if let Some(script) = script.filter(|_| !stop.is_over(self.clock.monotonic())) {
            let run = done.as_ref().map(|done| done.busy).map_err(|failed| &failed.error);
            self.guard.count(script, run);
        }
        Ok(done?)
    }
}

/// A host that the JavaScript context of a script shares with the caller.
type SharedHost = Arc<Mutex<ScriptHost>>;

/// The work of scripts between the beginning of a transaction and its commit.
type Work<T> = Arc<dyn Fn(&SharedHost) -> Result<T, ApiError> + Send + Sync>;

/// The work for one transaction, which it gives back.
type Attempt<T> = Box<dyn FnOnce() -> (Transaction, Result<T, ApiError>) + Send>;

/// What makes an attempt of [`engine::Engine::transact`]: `work` on a host of its own.
fn on_host<T: 'static>(
    service: &Service,
    container: &Arc<Container>,
    work: Work<T>,
) -> impl Fn(Transaction) -> Attempt<T> {
    move |transaction| {
        let host = Arc::new(Mutex::new(ScriptHost::new(service, container, transaction)));
        let work = Arc::clone(&work);
        Box::new(move || {
            let done = work(&host);
            (lock(&host).end(), done)
        })
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
