//! An item as it is stored, and what an API shows beside its own properties.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use model::json::FieldMask;
use model::{ContainerRid, DocumentRid, Lsn, Object, PartitionId, PartitionKey, Value};

use crate::row::RowHead;
use crate::{BodyFormat, Error, RowKey, row};

/// Names of properties that belong to the system: no stored item has them, because clients' values
/// are dropped on write. What they show is up to the API: [`SystemProperties`].
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
        as_str(&self.ascii()).to_owned()
    }

    /// Whether this is the version that `text` (without quotes) names.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.ascii() == *text.as_bytes()
    }

    /// The same text as ASCII. Every item of an answer has one, so the formatter would be too slow.
    pub fn ascii(&self) -> [u8; ETAG_CHARS] {
        let (high, low) =
            (u64::from(self.origin.0) << 32 | u64::from(self.seq), u128::from(self.lsn.0));
        let bytes = (u128::from(high) << 64 | low).to_be_bytes();
        let mut text = [b'-'; ETAG_CHARS];
        for (byte, at) in bytes.iter().zip(ETAG_PLACES) {
            text[at] = HEX_DIGITS[usize::from(byte >> 4)];
            text[at + 1] = HEX_DIGITS[usize::from(byte & 0xF)];
        }
        text
    }
}

fn as_str(text: &[u8; ETAG_CHARS]) -> &str {
    str::from_utf8(text).expect("digits and hyphens are ASCII")
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// How long an etag's text is without quotes,
const ETAG_CHARS: usize = 36;

/// and the position of each of its bytes.
const ETAG_PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The text with its quotes, as headers and `_etag` carry it.
impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", as_str(&self.ascii()))
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
    /// Encoded key values, decoded on demand: most requests never read them.
    pub(crate) partition_key: Bytes,
    pub(crate) id: RowKey,
    pub(crate) format: BodyFormat,
    /// The object without system properties, in that form.
    pub(crate) body: Bytes,
}

impl StoredItem {
    /// What names it within its logical partition.
    pub fn row_key(&self) -> &RowKey {
        &self.id
    }

    /// The item's id, if the container's ids are texts ([`RowKey::as_text`]).
    pub fn id(&self) -> Cow<'_, str> {
        self.id.as_text()
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

    /// 100 ns ticks since the Unix epoch of its last change. A version has more ticks than the one
    /// that it replaces, and no two under the same id have the same.
    pub fn ticks(&self) -> u64 {
        self.ts.saturating_mul(TICKS_PER_SECOND).saturating_add(u64::from(self.ticks))
    }

    /// Its partition key values.
    pub fn partition_key(&self) -> PartitionKey {
        row::decode_partition_key(&self.partition_key)
    }

    /// The form of its body.
    pub fn format(&self) -> BodyFormat {
        self.format
    }

    /// The bytes as they were written, without system properties.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Appends the item as JSON, with its system properties.
    pub fn write_json(&self, system: &dyn SystemProperties, out: &mut Vec<u8>) {
        system.write_item(&self.version(), &self.format.json_text(&self.body), out);
    }

    /// The item with its system properties as a value.
    pub fn to_value(&self, system: &dyn SystemProperties) -> Result<Value, Error> {
        self.part(system, &FieldMask::All)
    }

    /// The part of the item that `field_mask` names.
    pub(crate) fn part(
        &self,
        system: &dyn SystemProperties,
        field_mask: &FieldMask,
    ) -> Result<Value, Error> {
        let id = self.id.as_bytes();
        read_item(&self.body, &self.version(), system, field_mask, id, Value::Null)
    }

    /// What the engine knows of this version.
    pub fn version(&self) -> ItemVersion {
        let format = self.format;
        ItemVersion { rid: self.rid(), etag: self.etag, ts: self.ts, ticks: self.ticks, format }
    }
}

/// What the engine knows of a version of an item, beside the item's own properties.
#[derive(Clone, Copy, Debug)]
pub struct ItemVersion {
    /// The item's resource id.
    pub rid: DocumentRid,
    /// The version tag.
    pub etag: Etag,
    /// Seconds since the Unix epoch of the change.
    pub ts: u64,
    ticks: u32,
    pub(crate) format: BodyFormat,
}

impl ItemVersion {
    pub(crate) fn of(container: ContainerRid, head: &RowHead) -> Self {
        let rid = DocumentRid { container, number: head.number };
        Self { rid, etag: head.etag, ts: head.ts, ticks: head.ticks, format: head.body }
    }

    /// 100 ns ticks since the Unix epoch of the change.
    pub fn ticks(&self) -> u64 {
        self.ts.saturating_mul(TICKS_PER_SECOND).saturating_add(u64::from(self.ticks))
    }
}

/// How an API shows what the engine knows of an item: as properties beside the item's own. Queries
/// see them as well.
pub trait SystemProperties: fmt::Debug + Send + Sync {
    /// Adds those that `field_mask` names to the part of the item that it names.
    fn add(&self, version: &ItemVersion, field_mask: &FieldMask, part: &mut Object);

    /// Appends the item with this JSON text.
    fn write_item(&self, version: &ItemVersion, body: &[u8], out: &mut Vec<u8>);
}

/// Shows items as they were written.
#[derive(Debug)]
pub struct NoSystemProperties;

impl SystemProperties for NoSystemProperties {
    fn add(&self, _: &ItemVersion, _: &FieldMask, _: &mut Object) {}

    fn write_item(&self, _: &ItemVersion, body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(body);
    }
}

/// The part that `field_mask` names of the item `id` with this body, in the memory of a value that
/// was read before.
pub(crate) fn read_item(
    body: &[u8],
    version: &ItemVersion,
    system: &dyn SystemProperties,
    field_mask: &FieldMask,
    id: &[u8],
    old: Value,
) -> Result<Value, Error> {
    if field_mask.is_nothing() {
        return Ok(Object::new().into());
    }
    let mut object = version.format.read_part_again(id, body, field_mask, old)?;
    system.add(version, field_mask, &mut object);
    Ok(object.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: Etag = Etag {
        origin: PartitionId(0x0102_a0ff),
        lsn: Lsn(0x1122_3344_5566_7788),
        seq: 0x99aa_bbcc,
    };

    #[test]
    fn an_etag_has_origin_seq_and_lsn_in_the_shape_of_a_guid() {
        let text = "0102a0ff-99aa-bbcc-1122-334455667788";
        assert_eq!(ETAG.unquoted(), text);
        assert_eq!(ETAG.to_string(), format!("\"{text}\""));
        assert!(ETAG.is(text));
        for other in ["", &text[1..], &text.to_uppercase(), &format!("{text}0")] {
            assert!(!ETAG.is(other), "{other}");
        }
    }
}
