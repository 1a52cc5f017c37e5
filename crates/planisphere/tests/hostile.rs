//! Bad input, noise and hundreds of bad clients against the real server.

use bench::hostile::{self, HostileOptions, SERVER_ARGUMENTS};
use testkit::server::ServerBuilder;

#[tokio::test]
async fn bad_input_gets_its_status_and_harms_nobody() {
    let mut server = ServerBuilder::new(env!("CARGO_BIN_EXE_planisphere"))
        .args(SERVER_ARGUMENTS)
        .start()
        .unwrap();
    let options = HostileOptions { seed: 20_241_031, noise: 300, crowd: 40 };
    hostile::run(&mut server, options).await.unwrap();
}
