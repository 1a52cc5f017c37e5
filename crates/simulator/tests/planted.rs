//! Each bug that can be planted in the engine is found.
#![expect(clippy::print_stdout, reason = "says with which seed and how")]

use engine::planted::{Bug, plant};
use simulator::campaign::{self, Summary};
use simulator::{Outcome, simulate};

/// Seeds within which every bug must be found.
const SEEDS: u64 = 200;

fn simulate_with(bug: Bug, seed: u64) -> Outcome {
    plant(Some(bug));
    let outcome = simulate(seed, false);
    plant(None);
    outcome
}

fn search(bug: Bug) -> Summary {
    campaign::run_with(0..SEEDS, |seed| simulate_with(bug, seed), |_| {})
}

fn check(bug: Bug) {
    let summary = search(bug);
    let Some(found) = summary.failed else { panic!("{bug:?} was not found in {SEEDS} seeds") };
    println!("{bug:?}: seed {}: {}", found.seed, found.violation.unwrap_or_default());
}

/// A test for each bug.
macro_rules! bugs {
    ($($name:ident: $bug:ident,)*) => {
        $(
            #[test]
            fn $name() {
                check(Bug::$bug);
            }
        )*

        #[test]
        fn no_bug_is_left_out() {
            assert_eq!([$(Bug::$bug),*], Bug::ALL);
        }
    };
}

bugs! {
    answers_before_writing_are_found: AnswerBeforeWriting,
    state_left_out_is_found: StateLeftOut,
    counters_not_undone_are_found: CountersNotUndone,
    batches_not_undone_are_found: BatchNotUndone,
    unwritten_positions_are_found: UnwrittenPublished,
    ignored_conditions_are_found: ConditionIgnored,
    old_entries_of_the_log_are_found: OldEntryKept,
    old_terms_kept_are_found: OldTermsKept,
    stale_old_versions_are_found: StaleOldVersion,
    unique_values_kept_are_found: UniqueValueKept,
    expiry_not_checked_is_found: ExpiryNotChecked,
    sessions_not_checked_are_found: SessionNotChecked,
    pages_that_skip_are_found: PageEndPassed,
    feeds_that_skip_are_found: FeedEndPassed,
    deletes_not_mirrored_are_found: DeleteNotMirrored,
    copies_over_newer_rows_are_found: CopyReplacesNewer,
    rows_not_copied_are_found: WrittenNotCopied,
    forgotten_copies_are_found: CopyForgotten,
    positions_not_inherited_are_found: PositionNotInherited,
    writes_that_find_nobody_are_found: NotLocatedAnew,
    reads_of_replaced_partitions_are_found: GoneNotNoticed,
    times_of_the_partition_are_found: TimeOfPartition,
    times_that_go_back_are_found: TimeGoesBack,
}
