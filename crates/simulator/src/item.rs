//! Items that hold their origin: each body names the write that made it and the patches that
//! changed it since.

use std::fmt;

use bytes::Bytes;
use engine::ops::ItemBody;
use model::ContainerRid;
use serde_json::Value;

/// Identifies a write of a run.
pub(crate) type WriteId = u64;

/// Identifies an item for the whole run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemName {
    pub(crate) container: ContainerRid,
    /// The value of its partition key.
    pub(crate) key: String,
    pub(crate) id: String,
}

impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.container, self.key, self.id)
    }
}

/// The writes that made an item what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The one that wrote all of it.
    pub(crate) write: WriteId,
    /// Those that changed it since, in order.
    pub(crate) patches: Vec<WriteId>,
    /// The value that must be unique within its key, in containers that require it.
    pub(crate) unique: Option<u64>,
}

impl Content {
    /// Key, id and content of a stored body.
    pub(crate) fn parse(body: &[u8]) -> Option<(String, String, Self)> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let patches = value.get("p")?.as_array()?.iter().map(Value::as_u64);
        let content = Self {
            write: value.get("w")?.as_u64()?,
            patches: patches.collect::<Option<_>>()?,
            unique: value.get("u").and_then(Value::as_u64),
        };
        Some((text("pk")?, text("id")?, content))
    }

    /// The write that came last.
    pub(crate) fn last(&self) -> WriteId {
        self.patches.last().copied().unwrap_or(self.write)
    }
}

/// The choices of a client about an item besides its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) unique: Option<u64>,
    pub(crate) ttl: Option<u64>,
    /// Bytes of padding.
    pub(crate) padding: usize,
}

/// The body that `write` gives to an item.
pub(crate) fn body(key: &str, id: &str, write: WriteId, extras: &Extras) -> ItemBody {
    let mut value = serde_json::json!({ "id": id, "pk": key, "below": key, "w": write, "p": [] });
    if let Some(unique) = extras.unique {
        value["u"] = unique.into();
    }
    if let Some(ttl) = extras.ttl {
        value["ttl"] = ttl.into();
    }
    if extras.padding > 0 {
        value["padding"] = "x".repeat(extras.padding).into();
    }
    ItemBody::from_json(Bytes::from(value.to_string())).expect("the body is a valid item")
}
