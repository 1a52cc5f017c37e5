//! Runs many seeds, and explains one that failed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Outcome, simulate};

/// Names the one seed to run, with its whole trace.
pub const SEED_VARIABLE: &str = "PLANISPHERE_SIM_SEED";

/// Sums over many runs.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs that ended.
    pub runs: u64,
    /// Turns taken.
    pub turns: u64,
    /// Operations that clients finished.
    pub operations: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Processes started.
    pub processes: u64,
    /// Splits and merges that were carried out.
    pub cut_overs: u64,
    /// The first run that failed, by seed.
    pub failed: Option<Outcome>,
}

impl Summary {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.turns += outcome.turns;
        self.operations += outcome.operations;
        self.acknowledged += outcome.acknowledged;
        self.processes += outcome.processes;
        self.cut_overs += outcome.cut_overs;
        let is_first = self.failed.as_ref().is_none_or(|failed| outcome.seed < failed.seed);
        if outcome.violation.is_some() && is_first {
            self.failed = Some(outcome);
        }
    }
}

/// Runs seeds on all cores until one fails. `progress` is called after every run.
pub fn run(seeds: Range<u64>, progress: impl Fn(&Summary) + Sync) -> Summary {
    run_with(seeds, |seed| simulate(seed, false), progress)
}

/// As [`run`], with another function than [`simulate`].
pub fn run_with(
    seeds: Range<u64>,
    simulate: impl Fn(u64) -> Outcome + Sync,
    progress: impl Fn(&Summary) + Sync,
) -> Summary {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let has_failed = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !has_failed.load(Ordering::SeqCst) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = simulate(seed);
                    has_failed.fetch_or(outcome.violation.is_some(), Ordering::SeqCst);
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.add(outcome);
                    progress(&summary);
                }
            });
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The trace of a failed seed, its violation, and how to run it again.
pub fn explain(failed: &Outcome) -> String {
    let again = simulate(failed.seed, true);
    let mut text = again.trace.join("\n");
    let violation = again.violation.as_ref().or(failed.violation.as_ref());
    text.push_str("\n\n");
    if again.digest != failed.digest {
        text.push_str(
            "THE SEED DID SOMETHING ELSE THIS TIME: the run is not decided by its seed\n",
        );
    }
    text.push_str(&format!(
        "seed {} failed after {} turns: {}\nreplay: {SEED_VARIABLE}={} cargo test -p simulator \
         --test seeds -- --nocapture",
        failed.seed,
        again.turns,
        violation.map_or("nothing is wrong any more", String::as_str),
        failed.seed,
    ));
    text
}

/// The seed that [`SEED_VARIABLE`] names, if it is set.
pub fn chosen_seed() -> Option<u64> {
    std::env::var(SEED_VARIABLE).ok()?.parse().ok()
}
