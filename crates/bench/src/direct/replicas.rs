//! Where the ranges of a container are: what a client in Direct mode reads before its first
//! request, and again when it is told that a range is gone.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::epk::effective_partition_key;
use model::{
    Epk, EpkRange, PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyVersion, PropertyPath,
};

use crate::request::{Account, Draft};

/// The ranges of a container with the key `/pk`.
#[derive(Clone, Debug)]
pub struct Replicas {
    /// The container's resource id as text.
    pub rid: String,
    /// The same as bytes.
    pub rid_bytes: Vec<u8>,
    key: PartitionKeyDefinition,
    ranges: Vec<(EpkRange, String)>,
}

impl Replicas {
    /// Reads them by the gateway.
    pub async fn read(account: &Account, container_link: &str) -> anyhow::Result<Self> {
        let (parent, id) = container_link.split_once("/colls/").context("a container's link")?;
        let container =
            account.expect(&Draft::one("GET", parent, "colls", id), &[200]).await?.json()?;
        let text = |name: &str| container[name].as_str().with_context(|| format!("no {name}"));
        let rid = text("_rid")?.to_owned();
        let feed = Draft::feed("GET", container_link, "pkranges");
        let ranges = account.expect(&feed, &[200]).await?.json()?;
        let addresses = Draft::addresses(&rid, text("_self")?.trim_end_matches('/'));
        let addresses = account.expect(&addresses, &[200]).await?.json()?;
        let addresses = addresses["Addresss"].as_array().context("no addresses")?;
        let mut found = Vec::new();
        for range in ranges["PartitionKeyRanges"].as_array().context("no ranges")? {
            let bound = |name: &str| Epk::from_hex(range[name].as_str().unwrap_or_default());
            let bounds = EpkRange { min: bound("minInclusive")?, max: bound("maxExclusive")? };
            let primary = addresses.iter().find(|address| {
                address["partitionKeyRangeId"] == range["id"] && address["isPrimary"] == true
            });
            // A range that has just gone has no address; its requests are routed once more.
            if let Some(uri) = primary.and_then(|address| address["physcialUri"].as_str()) {
                let path = uri.splitn(4, '/').nth(3).context("no path in an address")?;
                found.push((bounds, format!("/{}", path.trim_end_matches('/'))));
            }
        }
        let key = PartitionKeyDefinition {
            paths: vec![PropertyPath::parse("/pk")?],
            kind: PartitionKeyKind::Hash,
            version: PartitionKeyVersion::V2,
            is_system: false,
        };
        let rid_bytes = STANDARD.decode(rid.replace('-', "/"))?;
        Ok(Self { rid, rid_bytes, key, ranges: found })
    }

    /// The path of the range that has a key of one text, given as the header of HTTP has it.
    pub fn path_of(&self, key: &str) -> anyhow::Result<&str> {
        let [text]: [String; 1] = serde_json::from_str(key).context("a key of one text")?;
        let key = PartitionKey([PartitionKeyComponent::String(text)].into_iter().collect());
        let epk = effective_partition_key(&self.key, &key);
        let range = self.ranges.iter().find(|(range, _)| range.contains(&epk));
        Ok(range.context("no range has the key")?.1.as_str())
    }
}
