//! Closed-loop load: each connection sends, waits for the reply, records the latency, sends again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::client::Connection;
use crate::load::workload::{Requests, Workload};
use crate::rng::Rng;

/// Where a connection gets its requests.
pub trait Source {
    /// The next request, complete.
    fn next_request(&mut self) -> &[u8];
}

/// The result of one interval of load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Accepted replies.
    pub operations: u64,
    /// From the first request to the last reply.
    pub elapsed: Duration,
    /// Latency of every accepted reply, unordered.
    pub latencies: Vec<Duration>,
    /// Replies that the workload does not accept, by status.
    pub refused: BTreeMap<u16, u64>,
    /// Body of one refused reply, for the report.
    pub refusal: Option<String>,
}

impl Outcome {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that the fraction `share` (0..1) of the operations did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        quantile_of(&sorted, share)
    }

    /// The mean latency.
    pub fn mean(&self) -> Duration {
        let total: Duration = self.latencies.iter().sum();
        total.div_f64(self.latencies.len().max(1) as f64)
    }

    /// Adds the result of another connection in the same interval.
    pub fn absorb(&mut self, other: Self) {
        self.operations += other.operations;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.extend(other.latencies);
        for (status, count) in other.refused {
            *self.refused.entry(status).or_default() += count;
        }
        self.refusal = self.refusal.take().or(other.refusal);
    }
}

/// The value at `share` of `sorted`; zero if it is empty.
pub fn quantile_of(sorted: &[Duration], share: f64) -> Duration {
    if sorted.is_empty() {
        return Duration::ZERO;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a small number"
    )]
    let at = (share * (sorted.len() - 1) as f64).round() as usize;
    sorted[at.min(sorted.len() - 1)]
}

/// Sends `workload` to `address` for `duration`. A broken connection is an error: no server under
/// test may drop one.
pub async fn drive(
    address: SocketAddr,
    workload: Workload,
    requests: &Arc<Requests>,
    duration: Duration,
) -> anyhow::Result<Outcome> {
    let tasks: Vec<_> = (0..workload.connections())
        .map(|worker| {
            let requests = Arc::clone(requests);
            tokio::spawn(async move {
                let mut sender = requests.sender(Rng::new(0x5EED).fork(worker as u64));
                one_connection(address, duration, |status| workload.accepts(status), &mut sender)
                    .await
            })
        })
        .collect();
    let mut total = Outcome::default();
    for task in tasks {
        total.absorb(task.await??);
    }
    Ok(total)
}

/// Sends each request of `all` once over `workers` connections.
pub async fn send_all(
    address: SocketAddr,
    all: Vec<Vec<u8>>,
    workers: usize,
    accepts: fn(u16) -> bool,
) -> anyhow::Result<()> {
    let all = Arc::new(all);
    let tasks: Vec<_> = (0..workers)
        .map(|worker| {
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await?;
                for request in all.iter().skip(worker).step_by(workers) {
                    let reply = connection.exchange(request).await?;
                    anyhow::ensure!(
                        accepts(reply.status),
                        "loading answered {}: {}",
                        reply.status,
                        String::from_utf8_lossy(reply.body)
                    );
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Sends the requests of `source` over one connection for `duration`.
pub async fn one_connection(
    address: SocketAddr,
    duration: Duration,
    accepts: impl Fn(u16) -> bool,
    source: &mut impl Source,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut connection = Connection::open(address).await.context("connect")?;
    let begin = Instant::now();
    let mut sent = begin;
    while sent - begin < duration {
        let reply = connection.exchange(source.next_request()).await.context("exchange")?;
        let now = Instant::now();
        if accepts(reply.status) {
            outcome.operations += 1;
            outcome.latencies.push(now - sent);
        } else {
            *outcome.refused.entry(reply.status).or_default() += 1;
            outcome.refusal.get_or_insert_with(|| String::from_utf8_lossy(reply.body).into_owned());
        }
        sent = now;
    }
    outcome.elapsed = sent - begin;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_many() {
        assert_eq!(quantile_of(&[], 0.5), Duration::ZERO);
        let sorted: Vec<_> = (1..=101).map(Duration::from_millis).collect();
        assert_eq!(quantile_of(&sorted, 0.5), Duration::from_millis(51));
        assert_eq!(quantile_of(&sorted, 0.99), Duration::from_millis(100));
        assert_eq!(quantile_of(&sorted, 1.0), Duration::from_millis(101));
    }
}
