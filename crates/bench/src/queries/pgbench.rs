//! One interval of pgbench.
//!
//! Connections must be warm before the measurement, and only pgbench itself can open them. So it
//! runs a little longer at both ends and logs the end of each transaction. Transactions between two
//! readings of the clock and of the processor time are counted afterwards.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};

use crate::queries::postgres::Postgres;
use crate::queries::query_kind::Script;
use crate::queries::report::Sample;

/// Time until connections are open, statements prepared and caches warm.
const WARM_UP: Duration = Duration::from_millis(1_000);

/// Runs `script` on `database` over `clients` connections and measures `duration` of it.
pub async fn measure(
    postgres: &Postgres,
    database: &str,
    script: &Script,
    clients: usize,
    duration: Duration,
) -> anyhow::Result<Sample> {
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("script.sql");
    std::fs::write(&file, &script.text)?;
    // In whole seconds, with some to spare after the second reading.
    let seconds = (WARM_UP + duration).as_secs_f64().ceil() + 1.0;
    let mut pgbench = postgres.client("pgbench", database);
    pgbench
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=1", "--log"])
        .arg(format!("--client={clients}"))
        .arg(format!("--time={seconds}"))
        .arg(format!("--log-prefix={}", scratch.path().join("log").display()))
        .arg(format!("--file={}", file.display()))
        .current_dir(scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = pgbench.spawn().context("could not run pgbench")?;
    tokio::time::sleep(WARM_UP).await;
    let before = (now(), postgres.cpu_time()?);
    tokio::time::sleep(duration).await;
    let after = (now(), postgres.cpu_time()?);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "pgbench failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let counted = count(&logs(scratch.path())?, before.0, after.0)?;
    let questions = counted.transactions * script.questions;
    ensure!(questions > 0, "pgbench got no answer within {duration:?}");
    Ok(Sample {
        operations: questions,
        per_second: questions as f64 / (after.0 - before.0).as_secs_f64(),
        cpu_us: (after.1 - before.1).as_secs_f64() * 1e6 / questions as f64,
        mean_us: counted.busy.as_secs_f64() * 1e6 / questions as f64,
    })
}

/// Transactions of a log and their total latency.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    transactions: u64,
    busy: Duration,
}

/// The transactions that ended between two moments, each a time since the epoch.
fn count(log: &str, from: Duration, to: Duration) -> anyhow::Result<Counted> {
    let mut counted = Counted::default();
    for line in log.lines() {
        let (took, ended) =
            transaction(line).with_context(|| format!("not a line of pgbench: {line}"))?;
        if from <= ended && ended < to {
            counted.transactions += 1;
            counted.busy += took;
        }
    }
    Ok(counted)
}

/// Latency and end of a transaction, from `client number took script seconds micros`.
fn transaction(line: &str) -> Option<(Duration, Duration)> {
    let mut fields = line.split_ascii_whitespace().skip(2);
    let took: u64 = fields.next()?.parse().ok()?;
    let seconds: u64 = fields.nth(1)?.parse().ok()?;
    let micros: u64 = fields.next()?.parse().ok()?;
    Some((
        Duration::from_micros(took),
        Duration::from_secs(seconds) + Duration::from_micros(micros),
    ))
}

/// All logs in a directory.
fn logs(directory: &Path) -> anyhow::Result<String> {
    let mut all = String::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("log.") {
            all.push_str(&std::fs::read_to_string(entry.path())?);
        }
    }
    Ok(all)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_within_the_stretch_are_counted() {
        let log = "0 1 100 0 10 999999\n1 1 200 0 11 000000\n0 2 300 0 11 500000\n0 3 9 0 12 0\n";
        let counted = count(log, Duration::from_secs(11), Duration::from_secs(12)).unwrap();
        assert_eq!(counted, Counted { transactions: 2, busy: Duration::from_micros(500) });
        assert!(count("nonsense", Duration::ZERO, Duration::MAX).is_err());
    }
}
