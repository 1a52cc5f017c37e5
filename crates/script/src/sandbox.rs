//! A context for one run: a separate engine, with limits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rquickjs::context::{Intrinsic, intrinsic};
use rquickjs::{Context, Runtime};

use crate::memory::TimedMemory;
use crate::{CallerLimit, Clock, Limits, ScriptError};

/// The intrinsics of a script's context. They cannot compile code, so that all code that runs was
/// compiled before, and their clock is no finer than a millisecond. Without proxies an object looks
/// the same to a check and to a use.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// Checks the clock while a script runs.
#[derive(Clone)]
pub(crate) struct ScriptDeadline {
    clock: Clock,
    /// In microseconds of the clock.
    deadline: Arc<AtomicU64>,
    timed_out: Arc<AtomicBool>,
    caller: Arc<OnceLock<CallerLimit>>,
}

impl ScriptDeadline {
    fn new(clock: &Clock) -> Self {
        let (deadline, timed_out) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        Self {
            clock: Arc::clone(clock),
            deadline: Arc::new(deadline),
            timed_out: Arc::new(timed_out),
            caller: Arc::default(),
        }
    }

    /// Gives the script `time` from now on, but no longer than its caller waits. Returns how long
    /// that is.
    pub(crate) fn start_for(&self, caller: CallerLimit, time: Duration) -> Duration {
        let now = (self.clock)();
        let left = caller.deadline.map_or(time, |deadline| deadline.saturating_sub(now));
        // A sandbox has one run.
        let _ = self.caller.set(caller);
        let time = time.min(left);
        self.start(time);
        time
    }

    /// Gives the script `time` from now on.
    pub(crate) fn start(&self, time: Duration) {
        self.deadline.store(micros((self.clock)() + time), Ordering::Relaxed);
    }

    /// Whether the time is over, or the caller has gone.
    pub(crate) fn check(&self) -> bool {
        let is_gone = || self.caller.get()?.is_gone.as_ref().map(|is_gone| is_gone());
        let is_late = micros((self.clock)()) >= self.deadline.load(Ordering::Relaxed)
            || is_gone().unwrap_or(false);
        if is_late {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        is_late
    }

    /// How much time is left.
    pub(crate) fn left(&self) -> Duration {
        let deadline = Duration::from_micros(self.deadline.load(Ordering::Relaxed));
        deadline.saturating_sub((self.clock)())
    }

    /// Whether a check has found the script to be late.
    pub(crate) fn is_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// An engine with one context, and its deadline.
pub(crate) struct Sandbox {
    pub(crate) context: Context,
    pub(crate) deadline: ScriptDeadline,
}

impl Sandbox {
    /// A context to run scripts in.
    pub(crate) fn new(limits: &Limits, clock: &Clock) -> Result<Self, ScriptError> {
        Self::build::<Intrinsics>(limits, clock)
    }

    /// A context to compile scripts in.
    pub(crate) fn for_compiling(limits: &Limits, clock: &Clock) -> Result<Self, ScriptError> {
        Self::build::<intrinsic::All>(limits, clock)
    }

    fn build<I: Intrinsic>(limits: &Limits, clock: &Clock) -> Result<Self, ScriptError> {
        let no_memory = |_| ScriptError::OutOfMemory;
        let deadline = ScriptDeadline::new(clock);
        let runtime = Runtime::new_with_alloc(TimedMemory::new(deadline.clone()));
        let runtime = runtime.map_err(no_memory)?;
        runtime.set_memory_limit(limits.memory_bytes);
        runtime.set_max_stack_size(limits.stack_bytes);
        let interrupting = deadline.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || interrupting.check())));
        let context = Context::custom::<I>(&runtime).map_err(no_memory)?;
        Ok(Self { context, deadline })
    }
}
