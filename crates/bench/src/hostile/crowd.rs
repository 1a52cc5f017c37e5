//! Many bad clients at once: silent, half-open, slow, leaving early, sending too much.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::client::Connection;
use crate::hostile::{CONTAINER_LINK, good_read};
use crate::request::{Account, Draft};

/// Every bad connection must end within this time; the server's time limits are shorter.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which slow clients send one byte.
const DRIP: Duration = Duration::from_millis(100);
/// Good requests that must succeed while the crowd is there.
const GOOD_REQUESTS: usize = 100;
/// A good request may take this long on a busy machine.
const GOOD_REQUEST_MAX: Duration = Duration::from_secs(5);
/// The number of bytes that each flooding client sends.
const FLOOD_BYTES: usize = 12 << 20;
const FLOODERS: usize = 16;

/// How a client misbehaves. The server must end each of them by itself, except the last two, which
/// leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Connects and sends nothing.
    Silent,
    /// Sends half a head and then nothing.
    HalfHead,
    /// Sends a head and half of its body and then nothing.
    HalfBody,
    /// Sends a head one byte at a time.
    DripHead,
    /// Sends a body one byte at a time.
    DripBody,
    /// Begins a TLS handshake and sends no more.
    HalfHandshake,
    /// Sends a whole request, reads nothing, and stays.
    Deaf,
    /// Half-closes the connection in the middle of a request.
    HalfOpen,
    /// Hangs up in the middle of a body.
    Gone,
}

const MANNERS: [Manner; 9] = [
    Manner::Silent,
    Manner::HalfHead,
    Manner::HalfBody,
    Manner::DripHead,
    Manner::DripBody,
    Manner::HalfHandshake,
    Manner::Deaf,
    Manner::HalfOpen,
    Manner::Gone,
];

/// Runs `each` clients of every manner at once, with a good client among them, then clients that
/// exceed the size limits.
pub async fn run(account: &Account, each: usize) -> anyhow::Result<()> {
    let crowd: Vec<_> = MANNERS
        .into_iter()
        .flat_map(|manner| std::iter::repeat_n(manner, each))
        .map(|manner| {
            let account = account.clone();
            tokio::spawn(async move {
                tokio::time::timeout(TIMEOUT, misbehave(&account, manner))
                    .await
                    .with_context(|| format!("a {manner:?} client was never seen off"))?
                    .with_context(|| format!("{manner:?}"))
            })
        })
        .collect();
    good_client(account).await.context("a good client in the crowd")?;
    for client in crowd {
        client.await??;
    }
    flood(account).await
}

async fn misbehave(account: &Account, manner: Manner) -> anyhow::Result<()> {
    let head = account.render(&good_read());
    let item = account.render(
        &Draft::feed("POST", CONTAINER_LINK, "docs")
            .upsert()
            .body(r#"{"id":"slow","pk":"p","text":"never to be seen in full"}"#),
    );
    let item_head = item.len() - 20;
    let mut connection = Connection::open(account.address).await?;
    match manner {
        Manner::Silent => connection.closed().await?,
        Manner::HalfHead => {
            connection.send(&head[..head.len() / 2]).await?;
            connection.closed().await?;
        }
        Manner::HalfBody => {
            connection.send(&item[..item_head]).await?;
            connection.closed().await?;
        }
        Manner::DripHead => drip_until_cut(&mut connection, &head[..80]).await?,
        Manner::DripBody => {
            connection.send(&item[..item_head - 30]).await?;
            drip_until_cut(&mut connection, &item[item_head - 30..]).await?;
        }
        Manner::HalfHandshake => {
            connection.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await?;
            connection.closed().await?;
        }
        Manner::Deaf => {
            connection.send(&head).await?;
            connection.closed().await?;
        }
        Manner::HalfOpen => {
            connection.send(&item[..item_head]).await?;
            connection.half_close().await?;
            connection.closed().await?;
        }
        Manner::Gone => connection.send(&item[..item_head]).await?,
    }
    Ok(())
}

/// Sends byte by byte; the server must end the connection before everything is sent.
async fn drip_until_cut(connection: &mut Connection, bytes: &[u8]) -> anyhow::Result<()> {
    for byte in bytes {
        if connection.send(&[*byte]).await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(DRIP).await;
    }
    anyhow::bail!("the server was patient for {} bytes", bytes.len())
}

async fn good_client(account: &Account) -> anyhow::Result<()> {
    for _ in 0..GOOD_REQUESTS {
        let begin = Instant::now();
        account.expect(&good_read(), &[200]).await?;
        let took = begin.elapsed();
        ensure!(took < GOOD_REQUEST_MAX, "a read took {took:?}");
    }
    Ok(())
}

/// Sends bodies far over the limit from several clients at once: each must receive the error.
async fn flood(account: &Account) -> anyhow::Result<()> {
    let clients: Vec<_> = (0..FLOODERS)
        .map(|_| {
            let account = account.clone();
            tokio::spawn(async move {
                let draft =
                    Draft::feed("POST", CONTAINER_LINK, "docs").body(vec![b'x'; FLOOD_BYTES]);
                account.expect(&draft, &[413]).await
            })
        })
        .collect();
    for client in clients {
        client.await?.context("a client that sends too much")?;
    }
    Ok(())
}
