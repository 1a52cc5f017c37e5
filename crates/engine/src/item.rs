//! An item as it is stored, and its system properties.

use std::fmt;
use std::io::Write as _;

use bytes::Bytes;
use model::json::{self, FieldMask};
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
        as_str(&self.text()).to_owned()
    }

    /// Whether this is the version that `text` (without quotes) names.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text() == *text.as_bytes()
    }

    /// Origin, seq and LSN in hexadecimal. Every item of an answer has one, so the formatter would
    /// be too slow.
    fn text(&self) -> [u8; ETAG_CHARS] {
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
        write!(f, "\"{}\"", as_str(&self.text()))
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

    /// 100 ns ticks since the Unix epoch of its last change. A version has more ticks than the one
    /// that it replaces, and no two under the same id have the same.
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
        self.system().read_item(&self.body, &FieldMask::All, &self.id)
    }

    /// The part of the item that `field_mask` names.
    pub(crate) fn part(&self, field_mask: &FieldMask) -> Result<Value, Error> {
        self.system().read_item(&self.body, field_mask, &self.id)
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
        let (rid, container) = (self.rid, self.rid.container);
        out.extend_from_slice(b",\"_rid\":\"");
        let rid_start = out.len();
        append(out, rid);
        let rid_end = out.len();
        out.extend_from_slice(b"\",\"_self\":\"dbs/");
        append(out, container.database);
        out.extend_from_slice(b"/colls/");
        append(out, container);
        out.extend_from_slice(b"/docs/");
        out.extend_from_within(rid_start..rid_end);
        out.extend_from_slice(b"/\",\"_etag\":\"\\\"");
        out.extend_from_slice(&self.etag.text());
        out.extend_from_slice(b"\\\"\",\"_attachments\":\"attachments/\",\"_ts\":");
        append(out, self.ts);
        out.push(b'}');
    }

    /// The part of the item `id` with this body that `field_mask` names.
    pub(crate) fn read_item(
        &self,
        body: &[u8],
        field_mask: &FieldMask,
        id: &str,
    ) -> Result<Value, Error> {
        self.read_item_again(body, field_mask, id, Value::Null)
    }

    /// As [`SystemProperties::read_item`], reusing the memory of a value that was read before.
    pub(crate) fn read_item_again(
        &self,
        body: &[u8],
        field_mask: &FieldMask,
        id: &str,
        old: Value,
    ) -> Result<Value, Error> {
        if field_mask.is_nothing() {
            return Ok(Object::new().into());
        }
        let parsed = json::parse_part_again(body, field_mask, old)
            .map_err(|e| Error::Internal(format!("stored item {id} is not JSON: {e}")))?;
        let Value::Object(mut object) = parsed else {
            return Err(Error::Internal(format!("stored item {id} is not an object")));
        };
        if !field_mask.may_have_field_from('_') {
            return Ok(object.into());
        }
        let (rid, container) = (self.rid, self.rid.container);
        if field_mask.has_field("_rid") {
            object.insert("_rid", rid.to_string().into());
        }
        if field_mask.has_field("_self") {
            let own = format!("dbs/{}/colls/{}/docs/{rid}/", container.database, container);
            object.insert("_self", own.into());
        }
        if field_mask.has_field("_etag") {
            object.insert("_etag", self.etag.to_string().into());
        }
        if field_mask.has_field("_attachments") {
            object.insert("_attachments", "attachments/".into());
        }
        if field_mask.has_field("_ts") {
            object.insert("_ts", Value::Int64(self.ts.cast_signed()));
        }
        Ok(object.into())
    }
}

fn append(out: &mut Vec<u8>, shown: impl fmt::Display) {
    write!(out, "{shown}").expect("a Vec takes any text");
}

#[cfg(test)]
mod tests {
    use model::DatabaseRid;

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

    #[test]
    fn what_is_written_is_what_is_read() {
        let container = ContainerRid { database: DatabaseRid(7), number: 3 };
        let rid = DocumentRid { container, number: 1 << 40 };
        let system = SystemProperties { rid, etag: ETAG, ts: 1_700_000_000 };
        let body = br#"{"id":"a","n":1}"#;
        let mut written = Vec::new();
        system.write_item(body, &mut written);
        let read = system.read_item(body, &FieldMask::All, "a").unwrap();
        assert_eq!(json::parse(&written, 8).unwrap().value, read);
        assert_eq!(read.field("_rid").and_then(Value::as_str), Some(rid.to_string().as_str()));
        let some =
            FieldMask::Fields(vec![("n".into(), FieldMask::All), ("_ts".into(), FieldMask::All)]);
        let part = system.read_item(body, &some, "a").unwrap();
        assert_eq!(json::to_string(&part), r#"{"n":1,"_ts":1700000000}"#);
    }
}
