//! Runs JavaScript that clients store: procedures, triggers and functions of queries.
//!
//! A script runs in a context of its own, made anew for each run, with limits on time, memory,
//! stack and output. What it can reach is what [`Host`] offers and nothing else: there are no
//! modules, no files, no timers and no way to compile more code at run time.
//!
//! This crate knows neither items nor wires; items are JSON text that passes through. No type of
//! the JavaScript engine leaves it.

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

/// Tells the time since some fixed moment.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What one run of a script may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// How much memory its values may take.
    pub memory_bytes: usize,
    /// How deep its calls may go.
    pub stack_bytes: usize,
    /// How large what it answers may be.
    pub output_bytes: usize,
    /// How much of its log is kept.
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

/// Runs scripts and keeps what was compiled of them.
pub struct Scripts {
    limits: Limits,
    clock: Clock,
    cache: Cache,
    builtins: BuiltinCode,
}

/// What is put into a script's context before it begins.
struct BuiltinCode {
    base: Code,
    prelude: Code,
    query_api: Code,
}

impl Scripts {
    /// Runs scripts within `limits`, by the time that `clock` tells.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        // Ours are compiled once, whatever time a script has.
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

    /// Makes a new context fit for scripts.
    fn enter(&self, ctx: &Ctx<'_>, deadline: &ScriptDeadline) -> rquickjs::Result<()> {
        let base: Function<'_> = self.builtins.base.evaluate(ctx)?.get()?;
        let deadline = deadline.clone();
        base.call((Function::new(ctx.clone(), move || deadline.check())?,))
    }

    /// What one run may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
