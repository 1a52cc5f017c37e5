//! One run of a stored procedure or trigger.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rquickjs::{Ctx, Function, IntoJs, Null, Object, Value};

use crate::code::Code;
use crate::sandbox::{Sandbox, ScriptDeadline, micros};
use crate::{
    CallerLimit, Host, HostCall, HostOperation, Limits, ScriptError, ScriptFailure, Scripts,
    SpatialFunction,
};

/// The last part of a script's time, in which it should finish: its new calls are rejected.
const CLOSING_PART: u32 = 4;

/// A write that runs triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operation")]
pub enum Operation {
    Create,
    Upsert,
    Replace,
    Patch,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Create => "Create",
            Operation::Upsert => "Upsert",
            Operation::Replace => "Replace",
            Operation::Patch => "Patch",
            Operation::Delete => "Delete",
        }
    }
}

/// Why a script is run. Bodies are JSON texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A client called it.
    Procedure {
        /// An array of its arguments.
        args: Option<String>,
    },
    /// An item is about to be written.
    PreTrigger {
        /// The kind of write.
        operation: Operation,
        /// The item or the patch that comes with the request.
        body: Option<String>,
    },
    /// An item was written, in the same transaction.
    PostTrigger {
        /// The kind of write.
        operation: Operation,
        /// The item or the patch that came with the request.
        body: Option<String>,
        /// The item as it is now.
        response: Option<String>,
    },
}

/// A script and the task it is run for.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name, for errors.
    pub name: String,
    /// Its text.
    pub source: Arc<str>,
    /// The task.
    pub task: Task,
    /// Whether its log is kept.
    pub logs: bool,
}

/// A completed run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptResult {
    /// JSON text of the response's body (of the request's, before a write), if the script set it.
    pub body: Option<String>,
    /// The script's log.
    pub log: String,
    /// How long its own code ran, without the host's part of its calls.
    pub busy: Duration,
}

/// A host shared with the context of a script.
type SharedHost = Arc<Mutex<dyn Host>>;

impl Scripts {
    /// Runs a script to its end: its function, then all pending callbacks, then all pending
    /// promises. Blocks until then, but no longer than its caller waits.
    pub fn run(
        &self,
        job: &Job,
        host: SharedHost,
        caller: CallerLimit,
    ) -> Result<ScriptResult, Box<ScriptFailure>> {
        let log = Arc::new(Mutex::new(String::new()));
        let in_host = Arc::new(AtomicU64::new(0));
        let run = || {
            let code = self.cache.get(&job.name, &job.source, &self.limits, &self.clock)?;
            let sandbox = Sandbox::new(&self.limits, &self.clock)?;
            let time = sandbox.deadline.start_for(caller, self.limits.time);
            let native = NativeFunctions {
                limits: self.limits,
                closing_time: time / CLOSING_PART,
                deadline: sandbox.deadline.clone(),
                host,
                log: Arc::clone(&log),
                in_host: Arc::clone(&in_host),
            };
            let body = sandbox.context.with(|ctx| {
                let context = ScriptContext { ctx: ctx.clone(), deadline: &sandbox.deadline };
                let body = context.run(self, &code, job, native);
                body.map_err(|ended| match ended {
                    RunError::Error(error) => ScriptError::of(&ctx, &sandbox.deadline, &error),
                    RunError::Script(error) => error,
                })
            })?;
            let took = time.saturating_sub(sandbox.deadline.left());
            let in_host = Duration::from_micros(in_host.load(Ordering::Relaxed));
            Ok((body, took.saturating_sub(in_host)))
        };
        let body = run();
        let log = std::mem::take(&mut *lock(&log));
        match body {
            Ok((body, busy)) => Ok(ScriptResult { body, log, busy }),
            Err(error) => Err(Box::new(ScriptFailure { error, log })),
        }
    }
}

/// Why a run ended early.
enum RunError {
    /// An operation in the script's context failed, and the context has an exception.
    Error(rquickjs::Error),
    Script(ScriptError),
}

impl From<rquickjs::Error> for RunError {
    fn from(error: rquickjs::Error) -> Self {
        RunError::Error(error)
    }
}

/// The script's side of a sandbox.
struct ScriptContext<'js, 'w> {
    ctx: Ctx<'js>,
    deadline: &'w ScriptDeadline,
}

impl<'js> ScriptContext<'js, '_> {
    fn run(
        &self,
        scripts: &Scripts,
        code: &Code,
        job: &Job,
        native: NativeFunctions,
    ) -> Result<Option<String>, RunError> {
        let ctx = &self.ctx;
        let (kind, operation, request, response, args) = match &job.task {
            Task::Procedure { args } => ("procedure", None, args.clone(), None, args.clone()),
            Task::PreTrigger { operation, body } => {
                ("pre", Some(operation.name()), body.clone(), None, None)
            }
            Task::PostTrigger { operation, body, response } => {
                ("post", Some(operation.name()), body.clone(), response.clone(), None)
            }
        };
        scripts.enter(ctx, self.deadline)?;
        let native = native.into_object(ctx, response)?;
        let prelude: Function<'js> = scripts.builtins.prelude.evaluate(ctx)?.get()?;
        let api: Object<'js> = prelude.call((native, kind, request, operation, job.logs))?;
        if !matches!(job.task, Task::PreTrigger { .. }) || job.source.contains("__") {
            let query_api: Function<'js> = scripts.builtins.query_api.evaluate(ctx)?.get()?;
            let collection: Value<'js> = api.get("collection")?;
            let () = query_api.call((collection, api.get::<_, Value<'js>>("helpers")?))?;
        }
        let script = code.evaluate(ctx)?;
        if !script.is_function() {
            let message = "The script is not a function.".to_owned();
            return Err(RunError::Script(ScriptError::Compile { message }));
        }
        let start: Function<'js> = api.get("start")?;
        let _: Value<'js> = start.call((script, args))?;
        self.settle(&api.get("step")?)?;
        let aborted: Value<'js> = api.get::<_, Function<'js>>("aborted")?.call(())?;
        if let Some(aborted) = aborted.as_object() {
            return Err(RunError::Script(ScriptError::of_value(ctx, aborted.get("error")?)));
        }
        let body: Option<String> = api.get::<_, Function<'js>>("body")?.call(())?;
        if self.deadline.check() {
            return Err(RunError::Script(ScriptError::TimedOut));
        }
        Ok(body)
    }

    /// Runs callbacks and promises until none is left.
    fn settle(&self, step: &Function<'js>) -> Result<(), RunError> {
        loop {
            // Each of them is short, so no other code reads the clock.
            while self.ctx.execute_pending_job() {
                if self.deadline.check() {
                    return Err(RunError::Script(ScriptError::TimedOut));
                }
            }
            if self.deadline.check() {
                return Err(RunError::Script(ScriptError::TimedOut));
            }
            if !step.call::<_, bool>(())? {
                return Ok(());
            }
        }
    }
}

/// Functions that only the server can provide to a script.
#[derive(Clone)]
struct NativeFunctions {
    limits: Limits,
    /// The last part of the script's time.
    closing_time: Duration,
    deadline: ScriptDeadline,
    host: SharedHost,
    log: Arc<Mutex<String>>,
    /// Microseconds that the host has worked for the script.
    in_host: Arc<AtomicU64>,
}

impl NativeFunctions {
    fn into_object<'js>(
        self,
        ctx: &Ctx<'js>,
        response: Option<String>,
    ) -> rquickjs::Result<Object<'js>> {
        let out = Object::new(ctx.clone())?;
        out.set("outputMax", self.limits.output_bytes)?;
        let links = lock(&self.host).links().to_vec();
        out.set("links", Function::new(ctx.clone(), move || links.clone())?)?;
        out.set("response", Function::new(ctx.clone(), move || response.clone())?)?;
        let native = self.clone();
        let size = move || u32::try_from(lock(&native.host).size_mb()).unwrap_or(u32::MAX);
        out.set("sizeMb", Function::new(ctx.clone(), size)?)?;
        let native = self.clone();
        let log = move |text: String| native.add_to_log(&text);
        out.set("log", Function::new(ctx.clone(), log)?)?;
        let native = self.clone();
        let spatial = move |name: String, args: String| {
            let question = SpatialFunction::parse(&name)?;
            lock(&native.host).spatial(question, &args)
        };
        out.set("spatial", Function::new(ctx.clone(), spatial)?)?;
        out.set("call", Function::new(ctx.clone(), call_of(self))?)?;
        Ok(out)
    }

    fn add_to_log(&self, text: &str) {
        let mut log = lock(&self.log);
        let mut room = self.limits.log_bytes.saturating_sub(log.len()).min(text.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        log.push_str(&text[..room]);
    }

    fn accepts(&self) -> bool {
        self.deadline.left() > self.closing_time && lock(&self.host).accepts()
    }
}

/// The one function behind all operations of a script on items.
fn call_of<'js>(
    native: NativeFunctions,
) -> impl Fn(Ctx<'js>, String, String, Option<String>, String) -> rquickjs::Result<Value<'js>> {
    move |ctx, operation, link, body, options| {
        let Some(operation) = HostOperation::parse(&operation).filter(|_| native.accepts()) else {
            return Null.into_js(&ctx);
        };
        let before = native.deadline.left();
        let answer = lock(&native.host).call(HostCall { operation, link, body, options });
        let took = before.saturating_sub(native.deadline.left());
        native.in_host.fetch_add(micros(took), Ordering::Relaxed);
        let out = Object::new(ctx)?;
        match answer {
            Ok(reply) => {
                out.set("status", reply.status)?;
                out.set("body", reply.body)?;
                out.set("continuation", reply.continuation)?;
                out.set("notModified", reply.not_modified)?;
            }
            Err(error) => {
                out.set("number", error.number)?;
                out.set("message", error.message)?;
            }
        }
        Ok(out.into_value())
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
