//! `aggregate`.
//!
//! Filters at the beginning of a pipeline are left to the engine. What remains runs on a thread for
//! long work, which pulls documents through it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use engine::{Container, RequestContext};
use lang::mongo::CompileOptions;
use lang::mongo::pipeline::{self, PipelineOptions};
use model::{Charge, Object, Value};
use query::document::pipeline::{
    Collections, Context, Documents, Given, MergeOutput, Namespace, Output, Pipeline, Request,
    Sink, Stage,
};
use query::document::{Failure, Variables};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::find::{FIRST_BATCH, Opening, check_collation, index_hint};
use super::{Access, write_concern};
use crate::client::Client;
use crate::collections::to_bytes;
use crate::command::{Command, whole_number};
use crate::document::{document, uuid};
use crate::errors::codes as code;
use crate::find::{self, Filter, Outcome, Search};
use crate::reply::Reply;
use crate::{MongoError, Service, output};

/// Most bytes of a result.
const RESULT_BYTES_MAX: usize = 128 << 20;

/// `aggregate`.
pub(crate) async fn run(
    service: &Service,
    client: &mut Client,
    command: Command,
) -> Result<Reply, MongoError> {
    if command.flag("explain") == Some(true) {
        return Err(super::find::not_supported("explain"));
    }
    let batch_size = batch_size(&command)?;
    check_collation(command.object("collation"))?;
    write_concern::check(client, &command)?;
    let collection = match command.target().as_str() {
        Some(_) => Some(command.collection()?.to_owned()),
        None if whole_number(command.target()) == Some(1) => None,
        None => {
            return Err(MongoError::new(
                code::FAILED_TO_PARSE,
                "Invalid command format: the 'aggregate' field must specify a collection name or 1",
            ));
        }
    };
    let mut ctx = service.context(client, &command)?;
    let (options, mut variables) = find::variables_of(service, &command)?;
    variables.set_seed(service.random_number());
    let stages = command.array("pipeline").unwrap_or_default();
    let compiled = compile(service, &command, &options, collection.is_some(), stages)?;
    check_output(service, client, &compiled)?;
    let name = collection.as_deref().unwrap_or("$cmd.aggregate");
    let namespace = format!("{}.{name}", command.database);
    let outcome = match (source(service, client, &compiled)?, collection) {
        (Some(documents), _) => {
            let given = Source::Given(documents);
            execute(&command, client, ctx.part(), (given, compiled, variables)).await
        }
        (None, Some(collection)) => {
            let (filter, rest) = split(stages, &options, &variables, &compiled)?;
            let filter = filter.hinted(index_hint(service, &command, command.get("hint"))?);
            match service.collection(&command.database, &collection) {
                None => {
                    let given = Source::Given(Vec::new());
                    execute(&command, client, ctx.part(), (given, rest, variables)).await
                }
                Some(container) => {
                    let search = Search::new(container, filter);
                    if rest.stages().is_empty() {
                        let found = find::find(service, &mut ctx, search, find::Shape::whole());
                        Ok((found.await?, Charge::ZERO))
                    } else {
                        let source = Source::Search(Box::new(search));
                        execute(&command, client, ctx.part(), (source, rest, variables)).await
                    }
                }
            }
        }
        (None, None) => {
            let given = Source::Given(Vec::new());
            execute(&command, client, ctx.part(), (given, compiled, variables)).await
        }
    };
    let (outcome, charge) = outcome?;
    ctx.served.charge += charge;
    let wanted = batch_size.unwrap_or(FIRST_BATCH);
    let opening = Opening { namespace, wanted, is_single: false, command: &command };
    opening.reply(service, client, &mut ctx, outcome).await
}

/// The size of the first batch, which stands in the options of the cursor.
fn batch_size(command: &Command) -> Result<Option<u64>, MongoError> {
    let Some(cursor) = command.object("cursor") else {
        return Err(MongoError::new(
            code::FAILED_TO_PARSE,
            "The 'cursor' option is required, except for aggregate with the explain argument",
        ));
    };
    let Some(size) = cursor.get("batchSize") else { return Ok(None) };
    let size = whole_number(size).and_then(|size| u64::try_from(size).ok());
    size.map(Some).ok_or_else(|| {
        MongoError::new(code::BAD_VALUE, "BSON field 'batchSize' value must be >= 0")
    })
}

fn compile(
    service: &Service,
    command: &Command,
    options: &CompileOptions,
    has_collection: bool,
    stages: &[Value],
) -> Result<Pipeline, MongoError> {
    let options = PipelineOptions {
        expressions: options,
        database: &command.database,
        has_collection,
        compile_script: None,
        seed: service.random_number(),
    };
    Ok(pipeline::compile(stages, &options)?)
}

/// Refuses to write where the client may not, and to read where it may not.
fn check_output(service: &Service, client: &Client, compiled: &Pipeline) -> Result<(), MongoError> {
    let rights = service.rights(client);
    let refused = |namespace: &Namespace| {
        MongoError::new(
            code::UNAUTHORIZED,
            format!("not authorized on {} to execute command aggregate", namespace.database),
        )
    };
    if let Some(output) = compiled.output() {
        let (Output::Replace(into) | Output::Merge(MergeOutput { into, .. })) = &**output;
        if !rights.grant(Access::Write, &into.database) {
            return Err(refused(into));
        }
    }
    let mut denied = None;
    compiled.for_each_namespace(&mut |namespace| {
        if !rights.grant(Access::Read, &namespace.database) {
            denied = Some(refused(namespace));
        }
    });
    denied.map_or(Ok(()), Err)
}

/// What the engine does of a pipeline, and what is left.
fn split(
    stages: &[Value],
    options: &CompileOptions,
    variables: &Variables,
    compiled: &Pipeline,
) -> Result<(Filter, Pipeline), MongoError> {
    let first = stages.first().and_then(|stage| stage.field("$match"));
    if let (Some(Value::Object(filter)), Some((Stage::Match(_), rest))) =
        (first, compiled.stages().split_first())
    {
        let filter = Filter::new(filter, options, variables)?;
        return Ok((filter, Pipeline::new(rest.to_vec())));
    }
    Ok((Filter::new(&Object::new(), options, variables)?, compiled.clone()))
}

/// The documents of a stage that the server makes itself; `None` if the pipeline has no such stage.
fn source(
    service: &Service,
    client: &Client,
    compiled: &Pipeline,
) -> Result<Option<Vec<Value>>, MongoError> {
    let Some(Stage::Source { name, .. }) = compiled.source() else { return Ok(None) };
    match name.as_str() {
        "$listLocalSessions" => {
            let clock = &service.engine.components().clock;
            let own = service.sessions.active(clock.monotonic()).into_iter();
            let own = own.filter(|(session, _)| session.owner == client.owner());
            let sessions = own.map(|(session, since)| {
                let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
                let millis = clock.now().0.saturating_sub(since);
                let id = document! { "id" => uuid(session.id) };
                document! { "_id" => id, "lastUse" => model::Timestamp(millis) }.into()
            });
            Ok(Some(sessions.collect()))
        }
        "$currentOp" => Ok(Some(vec![Value::Object(document! {
            "type" => "op",
            "host" => client.server_name(),
            "desc" => format!("conn{}", client.id),
            "connectionId" => client.id,
            "client" => client.entry.peer.to_string(),
            "active" => true,
            "op" => "command",
            "ns" => "admin.$cmd.aggregate",
        })])),
        other => Err(super::find::not_supported(other)),
    }
}

enum Source {
    Given(Vec<Value>),
    Search(Box<Search>),
}

/// Runs a pipeline to its end.
async fn execute(
    command: &Command,
    client: &Client,
    ctx: RequestContext,
    (source, pipeline, mut variables): (Source, Pipeline, Variables),
) -> Result<(Outcome, Charge), MongoError> {
    let service = Arc::clone(&client.service);
    let is_given_up = Arc::new(AtomicBool::new(false));
    let guard = GiveUp(Arc::clone(&is_given_up));
    let deadline = ctx.deadline;
    let clock = Arc::clone(&service.engine.components().clock);
    variables.set_interrupt(move || {
        if deadline.is_some_and(|deadline| clock.monotonic() >= deadline) {
            let message = "operation exceeded time limit";
            return Err(Failure::new(code::MAX_TIME_EXPIRED, message));
        }
        match is_given_up.load(Ordering::Relaxed) {
            true => Err(Failure::new(code::INTERRUPTED, "operation was interrupted")),
            false => Ok(()),
        }
    });
    let handle = Handle::current();
    let (send, receive) = oneshot::channel();
    let spawner = Arc::clone(&service.engine.components().spawner);
    let spill = service.spill().filter(|_| command.flag("allowDiskUse") != Some(false));
    spawner.run_fairly(Box::new(move || {
        let caller = Caller { service, handle, context: ctx.part() };
        let source: Box<dyn Documents> = match source {
            Source::Given(documents) => Box::new(Given::new(documents)),
            Source::Search(search) => Box::new(Found::new(caller.clone(), *search)),
        };
        let mut context = Context::new(variables, Arc::new(caller));
        context.spill = spill;
        // The client may have given up.
        let _ = send.send(collect(&pipeline, source, &context));
    }));
    let documents = receive.await.map_err(|_| {
        MongoError::new(code::INTERNAL_ERROR, "a pipeline ended without a result")
    })??;
    drop(guard);
    Ok((Outcome::Documents(documents), Charge::ZERO))
}

/// Ends the work on another thread when its result is not wanted any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn collect(
    pipeline: &Pipeline,
    source: Box<dyn Documents>,
    context: &Context,
) -> Result<VecDeque<Bytes>, MongoError> {
    let mut results = pipeline.run(source, context);
    let (mut documents, mut bytes) = (VecDeque::new(), 0);
    while let Some(result) = results.next()? {
        context.variables.check_interrupt()?;
        let Value::Object(result) = result else {
            return Err(MongoError::new(code::INTERNAL_ERROR, "a stage made no document"));
        };
        let document = to_bytes(&result)?;
        bytes += document.len();
        if bytes > RESULT_BYTES_MAX {
            return Err(MongoError::new(
                code::EXCEEDED_MEMORY_LIMIT,
                format!("the result of the pipeline has more than {RESULT_BYTES_MAX} bytes"),
            ));
        }
        documents.push_back(document);
    }
    Ok(documents)
}

/// What a pipeline needs of the server, on a thread that may block.
struct Caller {
    service: Arc<Service>,
    handle: Handle,
    context: RequestContext,
}

impl Clone for Caller {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            handle: self.handle.clone(),
            context: self.context.part(),
        }
    }
}

impl Collections for Caller {
    fn open(
        &self,
        namespace: &Namespace,
        request: &Request,
        variables: &Variables,
    ) -> Result<Box<dyn Documents>, Failure> {
        let container = self.service.collection(&namespace.database, &namespace.collection);
        let source: Box<dyn Documents> = match container {
            None => Box::new(Given::new(Vec::new())),
            Some(container) => {
                let filter = Filter::of_predicate(request.filter.clone(), variables);
                Box::new(Found::new(self.clone(), Search::new(container, filter)))
            }
        };
        let mut stages = Vec::new();
        if let Some(pattern) = &request.sort {
            let sort = query::document::pipeline::Sort { pattern: pattern.clone(), limit: None };
            stages.push(Stage::Sort(Arc::new(sort)));
        }
        if request.skip > 0 {
            stages.push(Stage::Skip(request.skip));
        }
        stages.extend(request.limit.map(Stage::Limit));
        let mut context = Context::new(variables.clone(), Arc::new(self.clone()));
        context.spill = self.service.spill();
        Ok(Pipeline::new(stages).run(source, &context))
    }

    fn sink(&self, output: &Arc<Output>, variables: &Variables) -> Result<Box<dyn Sink>, Failure> {
        let begun = self.handle.block_on(output::begin(&self.service, &self.context, output));
        let container = begun.map_err(|error| failure_of(&error))?;
        let (caller, output) = (self.clone(), Arc::clone(output));
        Ok(Box::new(Writing { caller, container, output, variables: variables.clone() }))
    }
}

/// A failure in the form of stages.
fn failure_of(error: &MongoError) -> Failure {
    Failure::new(error.code(), error.message())
}

/// Takes the documents of `$out` or `$merge`.
struct Writing {
    caller: Caller,
    container: Arc<Container>,
    output: Arc<Output>,
    variables: Variables,
}

impl Sink for Writing {
    fn write(&mut self, documents: Vec<Value>) -> Result<(), Failure> {
        let Self { caller, container, output, variables } = self;
        let Caller { service, handle, context } = caller;
        for document in documents {
            variables.check_interrupt()?;
            let target = (&*container, &**output);
            let written = output::write(service, context, target, document, variables);
            handle.block_on(written).map_err(|error| failure_of(&error))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The documents of a search.
struct Found {
    caller: Caller,
    search: Search,
    ready: VecDeque<Value>,
}

impl Found {
    fn new(caller: Caller, search: Search) -> Self {
        Self { caller, search, ready: VecDeque::new() }
    }

    fn fill(&mut self) -> Result<(), MongoError> {
        let Self { caller, search, ready } = self;
        let Caller { service, handle, context } = caller;
        for found in handle.block_on(search.page(service, context))? {
            ready.push_back(found.into_tree()?);
        }
        Ok(())
    }
}

impl Documents for Found {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        while self.ready.is_empty() && !self.search.is_over() {
            self.fill().map_err(|error| failure_of(&error))?;
        }
        Ok(self.ready.pop_front())
    }
}
