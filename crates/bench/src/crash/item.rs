//! The items that writers write: small records whose every byte follows from a stamp.

use serde_json::Value;

use crate::rng::Rng;

/// Identity of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey {
    /// The partition key value.
    pub partition: String,
    /// The id within it.
    pub id: String,
}

/// What distinguishes one version of an item from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Number of the write that last set the whole item; never used twice.
    pub stamp: u64,
    /// Increments since then.
    pub count: u64,
}

/// An item in the state that the server reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedItem {
    /// Its version according to its body.
    pub version: Version,
    /// Its `_etag`.
    pub etag: String,
    /// LSN of its last write, if the reply had it.
    pub lsn: Option<u64>,
    /// Whether every byte is what the stamp requires.
    pub is_intact: bool,
}

impl std::fmt::Display for ItemKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.partition, self.id)
    }
}

/// The body of `key` at `version`.
pub fn body(key: &ItemKey, version: Version) -> String {
    format!(
        r#"{{"id":"{}","pk":"{}","stamp":{},"count":{},"nested":{{"stamp":[{}]}},"pad":"{}"}}"#,
        key.id,
        key.partition,
        version.stamp,
        version.count,
        version.stamp,
        pad(version.stamp)
    )
}

/// Parses an item that the server returned. `None` if it lacks a member that every item has.
pub fn parse(value: &Value, lsn: Option<u64>) -> Option<(ItemKey, ObservedItem)> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let key = ItemKey { partition: text("pk")?, id: text("id")? };
    let version = Version { stamp: value["stamp"].as_u64()?, count: value["count"].as_u64()? };
    let is_intact = value["nested"]["stamp"][0].as_u64() == Some(version.stamp)
        && value["pad"].as_str() == Some(pad(version.stamp).as_str());
    Some((key, ObservedItem { version, etag: text("_etag")?, lsn, is_intact }))
}

/// Filler of a length and content that follow from the stamp: mostly small, sometimes large enough
/// to fill memtables and journals.
fn pad(stamp: u64) -> String {
    let mut rng = Rng::new(stamp);
    let bound = match rng.below(100) {
        0 => 200_000,
        1..=9 => 20_000,
        _ => 1_200,
    };
    let length = rng.index(bound);
    let block: String = (0..64).map(|_| char::from(b"abcdefghijklmnop"[rng.index(16)])).collect();
    block.chars().cycle().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ItemKey {
        ItemKey { partition: "p1".into(), id: "w1-1".into() }
    }

    fn shown(version: Version) -> Value {
        let mut value: Value = serde_json::from_str(&body(&key(), version)).unwrap();
        value["_etag"] = Value::from("e");
        value
    }

    #[test]
    fn a_body_is_read_back_intact() {
        for stamp in 0..300 {
            let version = Version { stamp, count: 2 };
            let (found, item) = parse(&shown(version), Some(7)).unwrap();
            assert_eq!(found, key());
            assert_eq!(
                item,
                ObservedItem { version, etag: "e".into(), lsn: Some(7), is_intact: true }
            );
        }
    }

    #[test]
    fn a_mixture_of_two_versions_is_not_intact() {
        let mut value = shown(Version { stamp: 1, count: 0 });
        value["stamp"] = Value::from(2);
        assert!(!parse(&value, None).unwrap().1.is_intact);
        value["pad"] = shown(Version { stamp: 2, count: 0 })["pad"].clone();
        assert!(!parse(&value, None).unwrap().1.is_intact);
        assert!(parse(&Value::from(1), None).is_none());
    }
}
