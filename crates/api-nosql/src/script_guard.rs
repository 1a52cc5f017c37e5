//! Scripts that take too much again and again are blocked for a while.
//!
//! A run is too much if the script's own code takes long, without the server's part of its calls,
//! or if it runs into a limit. A run that is not, or a change of the script, starts the count anew.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::catalog::{Script, ScriptRid};
use engine::components::Clock;
use script::ScriptError;

/// Runs in a row that are too much before the script is blocked.
const STRIKES_MAX: u32 = 6;
/// How long a script is blocked after the last of them.
const BLOCKED_FOR: Duration = Duration::from_secs(60);
/// Most scripts that are counted at a time.
const SCRIPTS_MAX: usize = 1024;
/// A run is too much from two fifths of the time that it may take.
const PART_OF_LIMIT: (u32, u32) = (2, 5);

pub(crate) struct ScriptGuard {
    clock: Arc<dyn Clock>,
    busy_max: Duration,
    strikes: Mutex<BTreeMap<(ScriptRid, u64), Strikes>>,
    /// How many scripts are counted, to be read without the lock.
    counted: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Strikes {
    count: u32,
    last: Duration,
}

impl ScriptGuard {
    /// A guard of scripts that may run for `time_max`.
    pub(crate) fn new(clock: Arc<dyn Clock>, time_max: Duration) -> Self {
        let (part, whole) = PART_OF_LIMIT;
        let (strikes, counted) = (Mutex::default(), AtomicUsize::new(0));
        Self { clock, busy_max: time_max * part / whole, strikes, counted }
    }

    /// Whether a script must not run now.
    pub(crate) fn is_blocked(&self, script: &Script) -> bool {
        if self.counted.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let strikes = self.strikes.lock().unwrap_or_else(PoisonError::into_inner);
        strikes.get(&key_of(script)).is_some_and(|strikes| {
            let since = self.clock.monotonic().saturating_sub(strikes.last);
            strikes.count >= STRIKES_MAX && since < BLOCKED_FOR
        })
    }

    /// Counts a run whose own code took `busy`, or that failed.
    pub(crate) fn count(&self, script: &Script, run: Result<Duration, &ScriptError>) {
        let is_too_much = match run {
            Ok(busy) => busy >= self.busy_max,
            Err(ScriptError::TimedOut | ScriptError::OutOfMemory) => true,
            Err(ScriptError::Compile { .. } | ScriptError::Thrown { .. }) => false,
        };
        if !is_too_much && self.counted.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut strikes = self.strikes.lock().unwrap_or_else(PoisonError::into_inner);
        match is_too_much {
            true => {
                let last = self.clock.monotonic();
                if strikes.len() >= SCRIPTS_MAX {
                    let oldest = strikes.iter().min_by_key(|(_, strikes)| strikes.last);
                    if let Some(oldest) = oldest.map(|(key, _)| *key) {
                        strikes.remove(&oldest);
                    }
                }
                let entry = strikes.entry(key_of(script)).or_insert(Strikes { count: 0, last });
                *entry = Strikes { count: entry.count.saturating_add(1), last };
            }
            false => {
                strikes.remove(&key_of(script));
            }
        }
        self.counted.store(strikes.len(), Ordering::Relaxed);
    }
}

fn key_of(script: &Script) -> (ScriptRid, u64) {
    (script.rid, script.version)
}
