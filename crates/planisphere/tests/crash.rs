//! Kills the real server under load and checks its acknowledged writes. A few kills only; `cargo
//! xtask crash` does many.

use bench::crash::link::Wire;
use bench::crash::rounds::{self, Options, Summary};

const ROUNDS: u32 = 3;

async fn survives(repartition: bool) -> Summary {
    let home = tempfile::tempdir().expect("a directory");
    let options = Options {
        binary: env!("CARGO_BIN_EXE_planisphere").into(),
        data: home.path().join("data"),
        rounds: ROUNDS,
        seed: 20_241_031,
        arguments: Vec::new(),
        repartition,
        wire: Wire::Http,
    };
    let summary = rounds::run(&options, |_| {}).await.expect("a whole test");
    assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
    assert_eq!(summary.kills, ROUNDS);
    assert!(summary.acknowledged > 100, "the load did not get going: {summary}");
    summary
}

#[tokio::test]
async fn acknowledged_writes_survive_kills_under_load() {
    survives(false).await;
}

#[tokio::test]
async fn acknowledged_writes_survive_kills_while_partitions_split_and_merge() {
    let summary = survives(true).await;
    assert!(summary.rescaled > 3, "the throughput was not changed: {summary}");
}
