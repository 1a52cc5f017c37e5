//! Reads back everything a server at rest shows.

use std::sync::Arc;

use anyhow::{Context, bail};

use crate::client::Connection;
use crate::crash::check::Observed;
use crate::crash::item::{self, ItemKey, Seen};
use crate::crash::writer::{CONTAINER_LINK, read};
use crate::request::{Account, Draft, OwnedReply};

/// Connections that read at once.
const LANES: usize = 8;
/// Items per page: small enough for several pages, an odd number so that they end anywhere.
const PAGE_ITEMS: &str = "37";
/// More pages than any honest feed of the crash test has.
const PAGES_MAX: usize = 10_000;

/// One item's point read: the item if it is there, and where its range stands.
struct PointRead {
    key: ItemKey,
    seen: Option<Seen>,
    range: String,
    lsn: u64,
}

/// Reads every one of `keys` by id, and the container's feed.
pub async fn observe(account: &Account, keys: Vec<ItemKey>) -> anyhow::Result<Observed> {
    let mut observed = Observed::default();
    let keys = Arc::new(keys);
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| tokio::spawn(read_lane(account.clone(), Arc::clone(&keys), lane)))
        .collect();
    for lane in lanes {
        for found in lane.await?? {
            let lsn = observed.lsns.entry(found.range).or_default();
            *lsn = found.lsn.max(*lsn);
            if let Some(seen) = found.seen {
                observed.items.insert(found.key, seen);
            }
        }
    }
    observed.feed = read_feed(account).await?;
    Ok(observed)
}

async fn read_lane(
    account: Account,
    keys: Arc<Vec<ItemKey>>,
    lane: usize,
) -> anyhow::Result<Vec<PointRead>> {
    let mut connection = Connection::open(account.address).await?;
    let mut found = Vec::new();
    for key in keys.iter().skip(lane).step_by(LANES) {
        let reply = account.send_on(&mut connection, &read(key)).await?;
        found.push(point_read(key, &reply).with_context(|| format!("reading {key}"))?);
    }
    Ok(found)
}

fn point_read(key: &ItemKey, reply: &OwnedReply) -> anyhow::Result<PointRead> {
    let number = |name: &str| -> anyhow::Result<u64> {
        let text = reply.header(name).with_context(|| format!("no header {name}"))?;
        text.parse().with_context(|| format!("{name} is {text}"))
    };
    let seen = match reply.status {
        200 => {
            let item_lsn = number("x-ms-item-lsn")?;
            let (found, seen) = item::parse(&reply.json()?, Some(item_lsn))
                .with_context(|| format!("not one of our items: {}", reply.text()))?;
            anyhow::ensure!(found == *key, "the item says it is {found}");
            Some(seen)
        }
        404 => None,
        other => bail!("answered {other}: {}", reply.text()),
    };
    let range = reply.header("x-ms-documentdb-partitionkeyrangeid").context("no range")?;
    Ok(PointRead { key: key.clone(), seen, range: range.to_owned(), lsn: number("lsn")? })
}

async fn read_feed(account: &Account) -> anyhow::Result<Vec<(ItemKey, Seen)>> {
    let mut connection = Connection::open(account.address).await?;
    let mut continuation: Option<String> = None;
    let mut items = Vec::new();
    for _ in 0..PAGES_MAX {
        let mut draft =
            Draft::feed("GET", CONTAINER_LINK, "docs").header("x-ms-max-item-count", PAGE_ITEMS);
        if let Some(token) = continuation {
            draft = draft.header("x-ms-continuation", token);
        }
        let reply = account.send_on(&mut connection, &draft).await?;
        anyhow::ensure!(reply.status == 200, "feed answered {}: {}", reply.status, reply.text());
        let page = reply.json()?;
        for value in page["Documents"].as_array().context("no Documents in the feed")? {
            let parsed = item::parse(value, None);
            items.push(parsed.with_context(|| format!("not one of our items: {value}"))?);
        }
        continuation = reply.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return Ok(items);
        }
    }
    bail!("the feed does not end")
}
