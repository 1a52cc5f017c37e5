//! Counts of finished jobs.

use std::time::Duration;

use super::{JobKind, JobPhase};

/// Upper bounds of the classes that durations are counted in.
pub const DURATION_BOUNDS: [Duration; 14] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
];

/// Counts of durations per class: up to each of [`DURATION_BOUNDS`], and above the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many fell in each class.
    pub counts: [u64; DURATION_BOUNDS.len() + 1],
    /// All of them together.
    pub sum: Duration,
}

/// Jobs of one kind that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTally {
    /// Jobs after which the new partitions serve.
    pub succeeded: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// How long the successful jobs took.
    pub took: Durations,
    /// How long their change-over made writers wait.
    pub held: Durations,
}

/// All jobs that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTallies {
    /// Splits.
    pub splits: JobTally,
    /// Merges.
    pub merges: JobTally,
}

impl JobTallies {
    pub(super) fn count(
        &mut self,
        kind: JobKind,
        phase: &JobPhase,
        took: Duration,
        held: Duration,
    ) {
        let tally = match kind {
            JobKind::Split => &mut self.splits,
            JobKind::Merge => &mut self.merges,
        };
        match phase {
            JobPhase::Succeeded => {
                tally.succeeded += 1;
                tally.took.count(took);
                tally.held.count(held);
            }
            JobPhase::Failed(_) => tally.failed += 1,
            JobPhase::Cancelled => tally.cancelled += 1,
            JobPhase::Preparing | JobPhase::Swapping => {}
        }
    }
}

impl Durations {
    fn count(&mut self, duration: Duration) {
        let class = DURATION_BOUNDS.partition_point(|bound| *bound < duration);
        self.counts[class] += 1;
        self.sum += duration;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_in_the_first_class_that_holds_it() {
        let mut durations = Durations::default();
        for millis in [1, 2, 700_000] {
            durations.count(Duration::from_millis(millis));
        }
        let mut expected = [0; 15];
        expected[1] = 1;
        expected[2] = 1;
        expected[14] = 1;
        assert_eq!((durations.counts, durations.sum), (expected, Duration::from_millis(700_003)));
        assert!(DURATION_BOUNDS.is_sorted());
    }

    #[test]
    fn only_what_succeeded_has_durations() {
        let mut tallies = JobTallies::default();
        let (took, held) = (Duration::from_secs(1), Duration::from_millis(1));
        tallies.count(JobKind::Split, &JobPhase::Succeeded, took, held);
        tallies.count(JobKind::Split, &JobPhase::Cancelled, took, held);
        tallies.count(JobKind::Merge, &JobPhase::Failed("x".into()), took, held);
        assert_eq!((tallies.splits.succeeded, tallies.splits.cancelled), (1, 1));
        assert_eq!((tallies.splits.took.sum, tallies.splits.held.sum), (took, held));
        assert_eq!((tallies.merges.failed, tallies.merges.took), (1, Durations::default()));
    }
}
