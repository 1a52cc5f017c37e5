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

No key is needed. Other programs ask GET /ready and GET /healthz, on any port of the server.";

/// A server that is asked once has so long to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn command() -> Command {
    let wait = Arg::new("wait")
        .long("wait")
        .value_name("SECONDS")
        .value_parser(value_parser!(u32).range(0..=86_400))
        .help("Wait so long for the server to be ready");
    Command::new("health")
        .about("Tell whether a server is ready, by the exit code")
        .after_help(EXAMPLES)
        .args([wait, json_arg()])
        .args(client::args())
}

/// What a look at a server found.
struct Found {
    is_well: bool,
    /// As JSON.
    shown: Value,
    /// For people.
    told: String,
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let wait = matches.get_one::<u32>("wait").copied().unwrap_or(0);
    let deadline = Instant::now() + Duration::from_secs(u64::from(wait));
    let found = super::block_on(async {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = if wait == 0 { PATIENCE } else { left.clamp(LOOK_EVERY, PATIENCE) };
            let found = look(matches, patience).await;
            let is_last = left <= LOOK_EVERY;
            match found {
                Ok(found) if found.is_well || is_last => return Ok(found),
                Err(error) if is_last => return Ok(nobody(&error)),
                // Not there, or not ready: it may have been started a moment ago.
                Ok(_) | Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    })?;
    if matches.get_flag("json") {
        text::print(&format!("{:#}\n", found.shown))?;
    } else if found.is_well {
        text::print(&format!("{}\n", found.told))?;
    }
    if found.is_well { Ok(()) } else { Err(anyhow!(found.told)) }
}

/// One look. Which server is meant is found out anew, since it says so only once it is ready.
async fn look(matches: &ArgMatches, patience: Duration) -> anyhow::Result<Found> {
    let client = Client::of(matches)?;
    let (ready, said) = answer(&client, "/ready", patience).await?;
    let (health, body) = answer(&client, "/healthz", patience).await?;
    let is_well = ready == StatusCode::OK && health == StatusCode::OK;
    let reason = said["reason"].as_str().or_else(|| body["reason"].as_str());
    let endpoint = client.endpoint().to_string();
    let told = told(&endpoint, ready == StatusCode::OK, is_well, reason);
    let mut shown = json!({"ready": is_well, "endpoint": endpoint});
    if let (Some(shown), Value::Object(body)) = (shown.as_object_mut(), body) {
        shown.extend(body);
    }
    Ok(Found { is_well, shown, told })
}

/// What a server's state is, with the reason that it gives for one that is not well.
fn told(endpoint: &str, is_ready: bool, is_well: bool, reason: Option<&str>) -> String {
    let state = match (is_well, is_ready) {
        (true, _) => return format!("{endpoint} is ready."),
        (false, true) => "takes no writes",
        (false, false) => "is not ready",
    };
    match reason {
        Some(reason) => format!("{endpoint} {state}: {}", text::shown(reason)),
        None => format!("{endpoint} {state}"),
    }
}

/// What a probe answers. Anything but an object of JSON is of another program.
async fn answer(
    client: &Client,
    path: &str,
    patience: Duration,
) -> anyhow::Result<(StatusCode, Value)> {
    let (status, body) = client.probe(path, patience).await?;
    let body = serde_json::from_slice(&body).ok().filter(Value::is_object);
    let body = body.with_context(|| format!("{} is no Planisphere", client.endpoint()))?;
    Ok((status, body))
}

fn nobody(error: &anyhow::Error) -> Found {
    let told = format!("{error:#}");
    let first = told.lines().next().unwrap_or_default();
    Found { is_well: false, shown: json!({"ready": false, "error": first}), told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_well_says_why() {
        let told = |ready, well, reason| told("http://x/", ready, well, reason);
        assert_eq!(told(true, true, Some("old")), "http://x/ is ready.");
        assert_eq!(told(false, false, Some("disk\nfull")), "http://x/ is not ready: disk\\nfull");
        assert_eq!(told(true, false, None), "http://x/ takes no writes");
    }
}
