//! Kills a server in the middle of a procedure that inserts many documents.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use testkit::server::{ServerBuilder, TestServer};

use crate::client::Connection;
use crate::request::{Account, Draft};
use crate::scripts::{BULK, CONTAINER, DOCUMENTS, define, set_up};
use crate::server::account_of;

/// The state after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillOutcome {
    /// Documents that exist after the restart.
    pub documents: usize,
    /// Whether the call was answered before the kill.
    pub is_acknowledged: bool,
}

/// Calls the procedure `rounds` times, kills the server a little later each time, and counts the
/// documents after its restart.
pub async fn run(binary: &Path, data: &Path, rounds: u32) -> anyhow::Result<Vec<KillOutcome>> {
    let builder = ServerBuilder::new(binary).args(["--throttling", "off"]).data_dir(data);
    let mut server = builder.start()?;
    let account = account_of(&server)?;
    set_up(&account).await?;
    define(&account, "bulk", BULK).await?;
    // The first call is slower than the others, so its time is enough for all.
    let began = Instant::now();
    let whole = call(&account, "whole").await?;
    ensure!(whole == DOCUMENTS, "{whole} of {DOCUMENTS} were inserted");
    let longest = began.elapsed();
    let mut outcomes = Vec::new();
    for round in 0..rounds {
        let key = format!("round{round}");
        let account = account_of(&server)?;
        let calling = {
            let key = key.clone();
            tokio::spawn(async move { call(&account, &key).await })
        };
        tokio::time::sleep(longest.mul_f64(f64::from(round) / f64::from(rounds.max(2) - 1))).await;
        server.kill()?;
        let is_acknowledged = matches!(calling.await?, Ok(DOCUMENTS));
        server.restart()?;
        let documents = count(&server, &key).await?;
        outcomes.push(KillOutcome { documents, is_acknowledged });
    }
    Ok(outcomes)
}

async fn call(account: &Account, key: &str) -> anyhow::Result<usize> {
    const ANSWER_WITHIN: Duration = Duration::from_secs(60);
    let documents: Vec<_> =
        (0..DOCUMENTS).map(|n| format!(r#"{{"id":"{n}","pk":"{key}","n":{n}}}"#)).collect();
    let call = Draft::one("POST", CONTAINER, "sprocs", "bulk").key(key);
    let call = call.body(format!("[[{}]]", documents.join(",")));
    let mut connection = Connection::open(account.address).await?;
    let reply = tokio::time::timeout(ANSWER_WITHIN, account.send_on(&mut connection, &call));
    let reply = reply.await.context("no answer")??;
    reply.text().parse().with_context(|| format!("{} {}", reply.status, reply.text()))
}

async fn count(server: &TestServer, key: &str) -> anyhow::Result<usize> {
    let query = Draft::feed("POST", CONTAINER, "docs")
        .header("x-ms-documentdb-isquery", "true")
        .header("Content-Type", "application/query+json")
        .key(key)
        .body(r#"{"query":"SELECT VALUE COUNT(1) FROM c"}"#);
    let reply = account_of(server)?.expect(&query, &[200]).await?.json()?;
    let count = reply["Documents"][0].as_u64().context("no count")?;
    Ok(usize::try_from(count)?)
}
