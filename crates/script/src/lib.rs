//! Runs JavaScript that clients store: procedures, triggers and user-defined functions.
//!
//! A script runs in a context of its own, created for each run, with limits on time, memory, stack
//! and output. It can reach only what [`Host`] offers: there are no modules, no files, no timers
//! and no way to compile more code at run time.
//!
//! This crate knows neither items nor wire formats; items are JSON text that passes through. No
//! type of the JavaScript engine is part of its interface.

mod cache;
mod code;
mod error;
mod functions;
mod host;
mod memory;
mod run;
mod sandbox;

use std::sync::Arc;
use std::time::Duration;

pub use error::{ScriptError, ScriptFailure};
pub use functions::Functions;
pub use host::{Host, HostCall, HostError, HostOperation, HostReply, SpatialFunction};
pub use run::{Job, Operation, ScriptResult, Task};

use rquickjs::{Ctx, Function};

use cache::Cache;
use code::Code;
use sandbox::ScriptDeadline;

/// Returns the time since some fixed moment.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// When the caller of a script stops waiting, which may be before the script's own time is over.
#[derive(Clone, Default)]
pub struct CallerLimit {
    /// A time of the clock.
    pub deadline: Option<Duration>,
    /// Whether the caller has gone.
    pub is_gone: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

/// The limits of one run of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Running time.
    pub time: Duration,
    /// Memory of its values.
    pub memory_bytes: usize,
    /// Stack of its calls.
    pub stack_bytes: usize,
    /// Size of its result.
    pub output_bytes: usize,
    /// Size of the log that is kept.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(5),
            memory_bytes: 64 * 1024 * 1024,
            stack_bytes: 512 * 1024,
            output_bytes: 2 * 1024 * 1024,
            log_bytes: 16 * 1024,
        }
    }
}

/// Runs scripts and caches their compiled code.
pub struct Scripts {
    limits: Limits,
    clock: Clock,
    cache: Cache,
    builtins: BuiltinCode,
}

/// Code that is loaded into a script's context before it runs.
struct BuiltinCode {
    base: Code,
    prelude: Code,
    query_api: Code,
}

impl Scripts {
    /// Runs scripts within `limits`, measured by `clock`.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        // The built-in code is compiled once, whatever time limit scripts have.
        let no_hurry = Limits { time: Duration::from_secs(60), ..Limits::default() };
        let own = |name: &str, source: &str| {
            Code::compile(name, source, &no_hurry, &clock).expect("our own sources are valid")
        };
        let builtins = BuiltinCode {
            base: own("base", include_str!("base.js")),
            prelude: own("context", include_str!("prelude.js")),
            query_api: own("query", include_str!("query_api.js")),
        };
        Self { limits, clock, cache: Cache::default(), builtins }
    }

    /// Prepares a new context for scripts.
    fn enter(&self, ctx: &Ctx<'_>, deadline: &ScriptDeadline) -> rquickjs::Result<()> {
        let base: Function<'_> = self.builtins.base.evaluate(ctx)?.get()?;
        let deadline = deadline.clone();
        base.call((Function::new(ctx.clone(), move || deadline.check())?,))
    }

    /// The limits of one run.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
