//! Scripts in the real server: killed in the middle, and hostile ones beside others. `cargo xtask
//! scripts` measures; these tests check only bounds that hold on a machine of any speed.

use std::path::Path;
use std::time::Duration;

use bench::scripts::DOCUMENTS;
use bench::{script_crash, scripts};

const ROUNDS: u32 = 6;

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_planisphere"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_procedure_that_is_killed_leaves_all_or_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let left = script_crash::run(binary(), &home.path().join("data"), ROUNDS).await;
    let left = left.expect("a whole test");
    for round in &left {
        assert!([0, DOCUMENTS].contains(&round.documents), "{left:?}");
        assert!(!round.is_acknowledged || round.documents == DOCUMENTS, "{left:?}");
    }
    assert!(left.iter().any(|round| round.documents == 0), "none was killed in time: {left:?}");
}

#[tokio::test]
async fn hostile_scripts_are_ended_and_reads_go_on() {
    let alone = Duration::from_millis(500);
    let options = scripts::Options { scripts: 30, rate: 50, alone };
    let report = scripts::run(binary(), options).await.expect("all were answered as they should");
    assert_eq!(report.failed_reads(), 0, "{report}");
}
