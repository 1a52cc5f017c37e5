//! Tools that drive a real server over HTTP: the benchmark ([`load`]), the crash tester
//! ([`crash`]), a long steady load ([`soak`]), the bad-input test ([`hostile`]), the test of
//! provisioned throughput ([`throttle`]), queries beside PostgreSQL ([`queries`]), tables beside
//! Azurite ([`tables`]), Direct mode beside HTTPS ([`direct`]), the price of the index
//! ([`index_cost`]) and that of counting ([`counts`]);
//! and [`splits`], which measures splits of an engine in its own process. For development only; no
//! shipped crate depends on this one.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "measures real processes in real time; nothing here runs under the simulator"
)]

pub mod client;
pub mod counts;
pub mod crash;
pub mod direct;
pub mod hostile;
pub mod index_cost;
pub mod load;
pub mod noisy_neighbours;
pub mod npm;
pub mod process;
pub mod queries;
pub mod request;
pub mod rng;
pub mod script_crash;
pub mod scripts;
pub mod search;
pub mod server;
pub mod sign;
pub mod soak;
pub mod splits;
pub mod tables;
pub mod throttle;
