//! Kills the real server under load and checks what it acknowledged. A few kills only; `cargo xtask
//! crash` does many.

use bench::crash::rounds::{self, Options};

#[tokio::test]
async fn acknowledged_writes_survive_kills_under_load() {
    let home = tempfile::tempdir().unwrap();
    let options = Options {
        binary: env!("CARGO_BIN_EXE_planisphere").into(),
        data: home.path().join("data"),
        rounds: 3,
        seed: 20_241_031,
        arguments: Vec::new(),
    };
    let summary = rounds::run(&options, |line| println!("{line}")).await.unwrap();
    assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
    assert_eq!(summary.kills, 3);
    assert!(summary.acknowledged > 100, "the load did not get going: {summary}");
}
