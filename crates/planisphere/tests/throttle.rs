//! The binary serves the provisioned throughput and no more. `cargo xtask throttle` measures the
//! deviation; this test checks only bounds that hold on a machine of any speed.

use std::path::Path;

#[test]
fn provisioned_throughput_is_not_exceeded() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_planisphere"));
    let report = runtime.block_on(bench::throttle::run(binary, 2.0)).unwrap();
    report.check().unwrap_or_else(|error| panic!("{error}\n{report}"));
}
