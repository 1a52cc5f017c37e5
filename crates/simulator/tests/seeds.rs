//! A few seeds on every `cargo test`; `cargo xtask simulate` runs many.

use simulator::{campaign, simulate};

/// Seeds that run with every test.
const SEEDS: u64 = 120;

#[test]
fn seeds_pass() {
    let failed = match campaign::chosen_seed() {
        Some(seed) => {
            let outcome = simulate(seed, true);
            println!("{}", outcome.trace.join("\n"));
            outcome.violation.is_some().then_some(outcome)
        }
        None => campaign::run(0..SEEDS, |_| {}).failed,
    };
    if let Some(failed) = failed {
        panic!("{}", campaign::explain(&failed));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1_000..1_010 {
        let (first, second) = (simulate(seed, true), simulate(seed, false));
        let differs = || first.trace.last() != second.trace.last();
        assert_eq!(first.digest, second.digest, "seed {seed}, at the end too: {}", differs());
        assert_eq!(first.turns, second.turns, "seed {seed}");
    }
}

#[test]
fn other_seeds_give_other_runs() {
    let digests: std::collections::BTreeSet<u64> =
        (2_000..2_010).map(|seed| simulate(seed, false).digest).collect();
    assert_eq!(digests.len(), 10);
}

#[test]
fn runs_are_worth_the_name() {
    let summary = campaign::run(3_000..3_020, |_| {});
    assert!(summary.failed.is_none());
    assert!(summary.operations > 20 * 50, "{summary:?}");
    assert!(summary.acknowledged > 20 * 15, "{summary:?}");
    assert!(summary.processes > 20 * 2, "{summary:?}");
    assert!(summary.cut_overs > 20, "{summary:?}");
}
