//! An item as it is stored, and its system properties.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use model::json::{self, Pick};
use model::{ContainerRid, DocumentRid, Lsn, Object, PartitionId, PartitionKey, Value};

use crate::row::RowHead;
use crate::{Error, row};

/// Properties that belong to the system: clients' values of these are dropped on write.
pub const SYSTEM_PROPERTIES: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// Ticks of 100 ns.
pub(crate) const TICKS_PER_SECOND: u64 = 10_000_000;

/// A version tag. Two versions of an item never share one, not even across containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag {
    pub(crate) origin: PartitionId,
    pub(crate) lsn: Lsn,
    pub(crate) seq: u32,
}

impl Etag {
    /// The text without quotes, in the 8-4-4-4-12 shape clients are used to.
    pub fn unquoted(&self) -> String {
        let mut out = String::with_capacity(36);
        self.write_unquoted(&mut out).expect("a String takes any text");
        out
    }

    /// Whether this is the version that `text` (without quotes) names.
    pub(crate) fn is(&self, text: &str) -> bool {
        let mut rest = Compared(text);
        self.write_unquoted(&mut rest).is_ok() && rest.0.is_empty()
    }

    fn write_unquoted(&self, out: &mut impl fmt::Write) -> fmt::Result {
        write!(
            out,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            self.origin.0,
            self.seq >> 16,
            self.seq & 0xffff,
            (self.lsn.0 >> 48) & 0xffff,
            self.lsn.0 & 0xffff_ffff_ffff
        )
    }
}

/// The text with its quotes, as headers and `_etag` carry it.
impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.write_unquoted(f)?;
        f.write_char('"')
    }
}

/// An item read from or written to a partition. Cheap to clone: its text is shared.
#[derive(Clone, Debug)]
pub struct StoredItem {
    pub(crate) container: ContainerRid,
    pub(crate) number: u64,
    pub(crate) etag: Etag,
    /// Seconds since the Unix epoch of the last change.
    pub(crate) ts: u64,
    /// 100 ns ticks after that.
    pub(crate) ticks: u32,
    /// Encoded key values, decoded on demand: most requests never look.
    pub(crate) partition_key: Bytes,
    pub(crate) id: Box<str>,
    /// JSON text of the object without system properties.
    pub(crate) body: Bytes,
}

impl StoredItem {
    /// The item's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its resource id.
    pub fn rid(&self) -> DocumentRid {
        DocumentRid { container: self.container, number: self.number }
    }

    /// Its version.
    pub fn etag(&self) -> Etag {
        self.etag
    }

    /// Position of its last change in its partition.
    pub fn lsn(&self) -> Lsn {
        self.etag.lsn
    }

    /// Seconds since the Unix epoch of its last change.
    pub fn ts(&self) -> u64 {
        self.ts
    }

    /// 100 ns ticks since the Unix epoch of its last change. No two versions of an item have the
    /// same, and later ones have more.
    pub fn ticks(&self) -> u64 {
        self.ts.saturating_mul(TICKS_PER_SECOND).saturating_add(u64::from(self.ticks))
    }

    /// Its partition key values.
    pub fn partition_key(&self) -> PartitionKey {
        row::decode_partition_key(&self.partition_key)
    }

    /// The text as it was written, without system properties.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Appends the item as JSON with its system properties (`_rid`, `_self`, `_etag`,
    /// `_attachments`, `_ts`) after the client's own, copying the stored text.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.system().write_item(&self.body, out);
    }

    /// The item with its system properties as a value.
    pub fn to_value(&self) -> Result<Value, Error> {
        self.system().read_item(&self.body, &Pick::All, &self.id)
    }

    /// The part of the item that `pick` names.
    pub(crate) fn part(&self, pick: &Pick) -> Result<Value, Error> {
        self.system().read_item(&self.body, pick, &self.id)
    }

    pub(crate) fn system(&self) -> SystemProperties {
        SystemProperties { rid: self.rid(), etag: self.etag, ts: self.ts }
    }
}

/// What the system adds to an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemProperties {
    rid: DocumentRid,
    etag: Etag,
    ts: u64,
}

impl SystemProperties {
    pub(crate) fn of(container: ContainerRid, head: &RowHead) -> Self {
        let rid = DocumentRid { container, number: head.number };
        Self { rid, etag: head.etag, ts: head.ts }
    }

    /// Appends the item with this body as JSON.
    pub(crate) fn write_item(&self, body: &[u8], out: &mut Vec<u8>) {
        // An item always has at least its id, so a comma is always due.
        out.reserve(body.len() + 256);
        out.extend_from_slice(&body[..body.len().saturating_sub(1)]);
        let mut text = SystemText(out);
        let (rid, container) = (self.rid, self.rid.container);
        write!(
            text,
            ",\"_rid\":\"{rid}\",\"_self\":\"dbs/{}/colls/{}/docs/{rid}/\",\"_etag\":\"\\\"",
            container.database, container
        )
        .and_then(|()| self.etag.write_unquoted(&mut text))
        .and_then(|()| {
            write!(text, "\\\"\",\"_attachments\":\"attachments/\",\"_ts\":{}}}", self.ts)
        })
        .expect("a Vec takes any text");
    }

    /// The part of the item `id` with this body that `pick` names.
    pub(crate) fn read_item(&self, body: &[u8], pick: &Pick, id: &str) -> Result<Value, Error> {
        self.read_item_again(body, pick, id, Value::Null)
    }

    /// As [`SystemProperties::read_item`], in the memory of a value that was read before.
    pub(crate) fn read_item_again(
        &self,
        body: &[u8],
        pick: &Pick,
        id: &str,
        old: Value,
    ) -> Result<Value, Error> {
        if pick.is_nothing() {
            return Ok(Object::new().into());
        }
        let parsed = json::parse_part_again(body, pick, old)
            .map_err(|e| Error::Internal(format!("stored item {id} is not JSON: {e}")))?;
        let Value::Object(mut object) = parsed else {
            return Err(Error::Internal(format!("stored item {id} is not an object")));
        };
        let (rid, container) = (self.rid, self.rid.container);
        if pick.has_field("_rid") {
            object.insert("_rid", rid.to_string().into());
        }
        if pick.has_field("_self") {
            let own = format!("dbs/{}/colls/{}/docs/{rid}/", container.database, container);
            object.insert("_self", own.into());
        }
        if pick.has_field("_etag") {
            object.insert("_etag", self.etag.to_string().into());
        }
        if pick.has_field("_attachments") {
            object.insert("_attachments", "attachments/".into());
        }
        if pick.has_field("_ts") {
            object.insert("_ts", Value::Int64(self.ts.cast_signed()));
        }
        Ok(object.into())
    }
}

/// Takes text only as long as it is what it is compared with.
struct Compared<'a>(&'a str);

impl fmt::Write for Compared<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// Formats straight into bytes that are UTF-8 already.
struct SystemText<'a>(&'a mut Vec<u8>);

impl fmt::Write for SystemText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
