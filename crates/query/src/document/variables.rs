//! Values that the caller of an operator sets and no document holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Date, Value};

use super::Failure;

/// The variables of a command: its time, and its `let`, by slot. Operators never read a clock.
///
/// It also meters the work of expressions, which clients may build to be slow or to grow. The meter
/// is for one thread: threads that share it get less than their part.
#[derive(Debug)]
pub struct Variables {
    /// `$$NOW`, one value for a whole command.
    pub now: Date,
    /// `$$CLUSTER_TIME`, where the caller has one.
    pub cluster_time: Option<Value>,
    /// Values of `let`, in the order in which compilation gave out slots; `None` is missing.
    pub slots: Vec<Option<Value>>,
    hooks: Hooks,
    meter: Meter,
}

/// Runs the JavaScript of `$function` and `$accumulator`.
pub trait Scripts: Send + Sync {
    /// Calls the function with this source text. `this` is undefined.
    fn call(&self, source: &str, arguments: Vec<Value>) -> Result<Option<Value>, Failure>;
}

/// What is asked of the caller while expressions are evaluated.
#[derive(Clone, Default)]
struct Hooks {
    interrupt: Option<Interrupt>,
    scripts: Option<Arc<dyn Scripts>>,
}

type Interrupt = Arc<dyn Fn() -> Result<(), Failure> + Send + Sync>;

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Bytes that expressions may copy or make for one document.
const BYTES_PER_DOCUMENT: u64 = 256 << 20;
/// Steps after which the caller is asked whether to go on.
const STEPS_PER_TURN: u64 = 16 * 1024;

/// Counts steps and bytes. Not added atomically, which would cost more than what is counted.
#[derive(Debug, Default)]
struct Meter {
    steps: AtomicU64,
    bytes: AtomicU64,
    random: AtomicU64,
}

impl Clone for Variables {
    fn clone(&self) -> Self {
        Self {
            now: self.now,
            cluster_time: self.cluster_time.clone(),
            slots: self.slots.clone(),
            hooks: self.hooks.clone(),
            meter: Meter { random: AtomicU64::new(self.next_random()), ..Meter::default() },
        }
    }
}

impl Variables {
    /// Variables of a command that runs at `now` and has no `let`.
    pub fn at(now: Date) -> Self {
        let seed = now.millis.unsigned_abs();
        let meter = Meter { random: AtomicU64::new(seed), ..Meter::default() };
        Self { now, cluster_time: None, slots: Vec::new(), hooks: Hooks::default(), meter }
    }

    /// Sets what is asked from time to time whether to go on; a failure ends the evaluation.
    pub fn set_interrupt(
        &mut self,
        interrupt: impl Fn() -> Result<(), Failure> + Send + Sync + 'static,
    ) {
        self.hooks.interrupt = Some(Arc::new(interrupt));
    }

    /// Sets what runs JavaScript. Without it, `$function` and `$accumulator` fail.
    pub fn set_scripts(&mut self, scripts: Arc<dyn Scripts>) {
        self.hooks.scripts = Some(scripts);
    }

    /// Sets where the random numbers of `$rand` and `$sample` begin.
    pub fn set_seed(&mut self, seed: u64) {
        self.meter.random = AtomicU64::new(seed);
    }

    /// Asks the caller whether to go on.
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        self.hooks.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt())
    }

    pub(crate) fn scripts(&self) -> Option<&dyn Scripts> {
        self.hooks.scripts.as_deref()
    }

    /// The next number of a sequence that looks random (SplitMix64).
    pub(crate) fn next_random(&self) -> u64 {
        let state = self.meter.random.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.meter.random.store(state, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Begins the work on another document.
    pub(super) fn begin_document(&self) {
        self.meter.bytes.store(0, Ordering::Relaxed);
    }

    /// Pays for one step.
    pub(super) fn step(&self) -> Result<(), Failure> {
        let steps = self.meter.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.meter.steps.store(steps, Ordering::Relaxed);
        if steps.is_multiple_of(STEPS_PER_TURN) { self.check_interrupt() } else { Ok(()) }
    }

    /// Pays for `bytes` bytes that are made.
    pub(super) fn spend_bytes(&self, bytes: usize) -> Result<(), Failure> {
        let spent = self.meter.bytes.load(Ordering::Relaxed).saturating_add(bytes as u64);
        self.meter.bytes.store(spent, Ordering::Relaxed);
        if spent > BYTES_PER_DOCUMENT {
            return Err(Failure::new(
                EXCEEDED_MEMORY_LIMIT,
                format!(
                    "an expression used too much memory for one document. Memory limit: \
                     {BYTES_PER_DOCUMENT} bytes"
                ),
            ));
        }
        Ok(())
    }
}

/// ExceededMemoryLimit.
const EXCEEDED_MEMORY_LIMIT: i32 = 146;
