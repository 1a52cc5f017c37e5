//! Reads back the whole state of a server at rest.

use std::sync::Arc;

use anyhow::{Context, bail};

use crate::client::Connection;
use crate::crash::check::Observed;
use crate::crash::item::{self, ItemKey, ObservedItem};
use crate::crash::writer::{CONTAINER_LINK, read};
use crate::request::{Account, Draft, OwnedReply};

/// Connections that read at once.
const CONNECTIONS: usize = 8;
/// Items per page: small enough for several pages, an odd number so that they end anywhere.
const PAGE_ITEMS: &str = "37";
/// More pages than any correct feed of the crash test has.
const PAGES_MAX: usize = 10_000;

/// The result of a point read: the item if it exists, and the LSN of its range.
struct PointRead {
    key: ItemKey,
    item: Option<ObservedItem>,
    range: String,
    lsn: u64,
}

/// Reads every one of `keys` by id, and the container's feed.
pub async fn observe(account: &Account, keys: Vec<ItemKey>) -> anyhow::Result<Observed> {
    let mut observed = Observed::default();
    let keys = Arc::new(keys);
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|offset| tokio::spawn(read_on_connection(account.clone(), Arc::clone(&keys), offset)))
        .collect();
    for offset in tasks {
        for found in offset.await?? {
            let lsn = observed.lsns.entry(found.range).or_default();
            *lsn = found.lsn.max(*lsn);
            if let Some(item) = found.item {
                observed.items.insert(found.key, item);
            }
        }
    }
    observed.feed = read_feed(account).await?;
    Ok(observed)
}

async fn read_on_connection(
    account: Account,
    keys: Arc<Vec<ItemKey>>,
    offset: usize,
) -> anyhow::Result<Vec<PointRead>> {
    let mut connection = Connection::open(account.address).await?;
    let mut found = Vec::new();
    for key in keys.iter().skip(offset).step_by(CONNECTIONS) {
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
    let item = match reply.status {
        200 => {
            let item_lsn = number("x-ms-item-lsn")?;
            let (found, item) = item::parse(&reply.json()?, Some(item_lsn))
                .with_context(|| format!("not one of our items: {}", reply.text()))?;
            anyhow::ensure!(found == *key, "the item says it is {found}");
            Some(item)
        }
        404 => None,
        other => bail!("answered {other}: {}", reply.text()),
    };
    let range = reply.header("x-ms-documentdb-partitionkeyrangeid").context("no range")?;
    Ok(PointRead { key: key.clone(), item, range: range.to_owned(), lsn: number("lsn")? })
}

async fn read_feed(account: &Account) -> anyhow::Result<Vec<(ItemKey, ObservedItem)>> {
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
