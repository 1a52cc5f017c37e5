//! Random bytes, and good requests with random damage.

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::client::Connection;
use crate::hostile::{CONTAINER_LINK, good_read};
use crate::request::{Account, Draft};
use crate::rng::Rng;

/// The server must have answered or closed the connection within this time.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends `count` pieces of noise, half of them random, half mutated requests. No answer may be a
/// server error.
pub async fn run(account: &Account, mut rng: Rng, count: u32) -> anyhow::Result<()> {
    for number in 0..count {
        let bytes = if number % 2 == 0 { random(&mut rng) } else { damaged(account, &mut rng) };
        let status = tokio::time::timeout(TIMEOUT, throw(account, &bytes))
            .await
            .with_context(|| format!("neither answer nor end for {}", show(&bytes)))??;
        ensure!(status.is_none_or(|status| status < 500), "{status:?} for {}", show(&bytes));
    }
    Ok(())
}

/// Sends `bytes`, half-closes the connection, and waits for its end. Returns the status of the
/// first answer, if there was one.
async fn throw(account: &Account, bytes: &[u8]) -> anyhow::Result<Option<u16>> {
    let mut connection = Connection::open(account.address).await?;
    // The server may close the connection before it has read everything; that is an answer too.
    if connection.send(bytes).await.is_err() || connection.half_close().await.is_err() {
        return Ok(None);
    }
    let status = connection.reply().await.map(|reply| reply.status).ok();
    // A reset is a valid end too.
    let _ = connection.closed().await;
    Ok(status)
}

fn random(rng: &mut Rng) -> Vec<u8> {
    let length = 1 + rng.index(2_000);
    let mut bytes: Vec<u8> = (0..length).map(|_| byte(rng)).collect();
    match rng.below(4) {
        // Looks like a TLS handshake.
        0 => bytes[0] = 0x16,
        1 => bytes.splice(0..0, *b"GET / HTTP/1.1\r\n").for_each(drop),
        _ => {}
    }
    bytes
}

fn damaged(account: &Account, rng: &mut Rng) -> Vec<u8> {
    let draft = match rng.below(3) {
        0 => good_read(),
        1 => Draft::feed("POST", CONTAINER_LINK, "docs")
            .upsert()
            .key("p")
            .body(r#"{"id":"noise","pk":"p","a":[1,2.5e3,"\u00e9",{"b":null}]}"#),
        _ => Draft::feed("POST", CONTAINER_LINK, "docs")
            .header("x-ms-documentdb-isquery", "true")
            .header("Content-Type", "application/query+json")
            .key("p")
            .body(r#"{"query":"SELECT * FROM c WHERE c.id = 'good' OR c.n > 1.5"}"#),
    };
    let mut bytes = account.render(&draft);
    for _ in 0..=rng.below(4) {
        let at = rng.index(bytes.len());
        match rng.below(5) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = byte(rng),
            2 => bytes.insert(at, byte(rng)),
            3 => drop(bytes.remove(at)),
            _ => {
                let end = (at + rng.index(40)).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again).for_each(drop);
            }
        }
        if bytes.is_empty() {
            return vec![byte(rng)];
        }
    }
    bytes
}

fn byte(rng: &mut Rng) -> u8 {
    u8::try_from(rng.below(256)).unwrap_or_default()
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
