//! `planisphere health`: whether a server answers and takes writes, for scripts.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::{Arg, ArgMatches, Command, value_parser};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::client::{self, Client};
use super::partitions::json_arg;
use super::text;

const EXAMPLES: &str = "\
Examples:
  planisphere health              exit code 0 if the server is ready, else 1
  planisphere health --wait 30    for scripts that have just started one
  planisphere health --json --endpoint http://127.0.0.1:8085

No key is needed. Other programs can use GET /ready and GET /healthz on any port of the server.";

/// Time limit of a single probe.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn command() -> Command {
    let wait = Arg::new("wait")
        .long("wait")
        .value_name("SECONDS")
        .value_parser(value_parser!(u32).range(0..=86_400))
        .help("Wait so long for the server to be ready");
    Command::new("health")
        .about("Check whether a server is ready (exit code 0 or 1)")
        .after_help(EXAMPLES)
        .args([wait, json_arg()])
        .args(client::args())
}

/// The result of a probe.
struct HealthReport {
    is_well: bool,
    /// As JSON.
    json: Value,
    /// For people.
    summary: String,
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let wait = matches.get_one::<u32>("wait").copied().unwrap_or(0);
    let deadline = Instant::now() + Duration::from_secs(u64::from(wait));
    let report = super::block_on(async {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout =
                if wait == 0 { REPLY_TIMEOUT } else { left.clamp(PROBE_INTERVAL, REPLY_TIMEOUT) };
            let report = probe(matches, timeout).await;
            let is_last = left <= PROBE_INTERVAL;
            match report {
                Ok(report) if report.is_well || is_last => return Ok(report),
                Err(error) if is_last => return Ok(unreachable(&error)),
                // Not reachable, or not ready: it may have just started.
                Ok(_) | Err(_) => tokio::time::sleep(PROBE_INTERVAL).await,
            }
        }
    })?;
    if matches.get_flag("json") {
        text::print(&format!("{:#}\n", report.json))?;
    } else if report.is_well {
        text::print(&format!("{}\n", report.summary))?;
    }
    if report.is_well { Ok(()) } else { Err(anyhow!(report.summary)) }
}

/// One probe. Determines the server anew each time, because a server notes its address only once it
/// is ready.
async fn probe(matches: &ArgMatches, timeout: Duration) -> anyhow::Result<HealthReport> {
    let client = Client::of(matches)?;
    let (ready, said) = answer(&client, "/ready", timeout).await?;
    let (health, body) = answer(&client, "/healthz", timeout).await?;
    let is_well = ready == StatusCode::OK && health == StatusCode::OK;
    let reason = said["reason"].as_str().or_else(|| body["reason"].as_str());
    let endpoint = client.endpoint().to_string();
    let summary = summary(&endpoint, ready == StatusCode::OK, is_well, reason);
    let mut json = json!({"ready": is_well, "endpoint": endpoint});
    if let (Some(json), Value::Object(body)) = (json.as_object_mut(), body) {
        json.extend(body);
    }
    Ok(HealthReport { is_well, json, summary })
}

/// The server's state as text, with the reason that it gives if it is not healthy.
fn summary(endpoint: &str, is_ready: bool, is_well: bool, reason: Option<&str>) -> String {
    let state = match (is_well, is_ready) {
        (true, _) => return format!("{endpoint} is ready."),
        (false, true) => "accepts no writes",
        (false, false) => "is not ready",
    };
    match reason {
        Some(reason) => format!("{endpoint} {state}: {}", text::shown(reason)),
        None => format!("{endpoint} {state}"),
    }
}

/// The response to a probe. Anything but a JSON object comes from another program.
async fn answer(
    client: &Client,
    path: &str,
    timeout: Duration,
) -> anyhow::Result<(StatusCode, Value)> {
    let (status, body) = client.probe(path, timeout).await?;
    let body = serde_json::from_slice(&body).ok().filter(Value::is_object);
    let body =
        body.with_context(|| format!("{} is not a Planisphere server", client.endpoint()))?;
    Ok((status, body))
}

fn unreachable(error: &anyhow::Error) -> HealthReport {
    let summary = format!("{error:#}");
    let first = summary.lines().next().unwrap_or_default();
    HealthReport { is_well: false, json: json!({"ready": false, "error": first}), summary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_well_says_why() {
        let summary = |ready, well, reason| summary("http://x/", ready, well, reason);
        assert_eq!(summary(true, true, Some("old")), "http://x/ is ready.");
        assert_eq!(
            summary(false, false, Some("disk\nfull")),
            "http://x/ is not ready: disk\\nfull"
        );
        assert_eq!(summary(true, false, None), "http://x/ accepts no writes");
    }
}
