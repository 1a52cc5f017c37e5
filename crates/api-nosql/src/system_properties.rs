//! The properties that this API shows beside those of an item.

use std::fmt;
use std::io::Write as _;

use engine::item::{ItemVersion, SystemProperties};
use engine::{Error, StoredItem};
use model::json::FieldMask;
use model::{Object, Value};

/// About the number of bytes that they add to an item.
pub(crate) const BYTES: usize = 256;
/// No item has attachments any more, but clients expect the property.
const ATTACHMENTS: &str = "attachments/";

/// `_rid`, `_self`, `_etag`, `_attachments` and `_ts`.
#[derive(Debug)]
pub(crate) struct NoSqlProperties;

impl SystemProperties for NoSqlProperties {
    fn add(&self, version: &ItemVersion, field_mask: &FieldMask, part: &mut Object) {
        if !field_mask.may_have_field_from('_') {
            return;
        }
        let (rid, container) = (version.rid, version.rid.container);
        if field_mask.has_field("_rid") {
            part.insert("_rid", rid.to_string().into());
        }
        if field_mask.has_field("_self") {
            let own = format!("dbs/{}/colls/{}/docs/{rid}/", container.database, container);
            part.insert("_self", own.into());
        }
        if field_mask.has_field("_etag") {
            part.insert("_etag", version.etag.to_string().into());
        }
        if field_mask.has_field("_attachments") {
            part.insert("_attachments", ATTACHMENTS.into());
        }
        if field_mask.has_field("_ts") {
            part.insert("_ts", Value::Int64(version.ts.cast_signed()));
        }
    }

    fn write_item(&self, version: &ItemVersion, body: &[u8], out: &mut Vec<u8>) {
        // An item always has at least its id, so a comma is always due.
        out.reserve(body.len() + BYTES);
        out.extend_from_slice(&body[..body.len().saturating_sub(1)]);
        let (rid, container) = (version.rid, version.rid.container);
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
        out.extend_from_slice(&version.etag.ascii());
        out.extend_from_slice(b"\\\"\",\"_attachments\":\"");
        out.extend_from_slice(ATTACHMENTS.as_bytes());
        out.extend_from_slice(b"\",\"_ts\":");
        append(out, version.ts);
        out.push(b'}');
    }
}

fn append(out: &mut Vec<u8>, shown: impl fmt::Display) {
    write!(out, "{shown}").expect("a Vec takes any text");
}

/// Appends an item as JSON with its system properties after the client's own.
pub(crate) fn write_item(item: &StoredItem, out: &mut Vec<u8>) {
    item.write_json(&NoSqlProperties, out);
}

/// An item with its system properties as JSON text.
pub(crate) fn text_of(item: &StoredItem) -> Vec<u8> {
    let mut out = Vec::with_capacity(item.body().len() + BYTES);
    write_item(item, &mut out);
    out
}

/// An item with its system properties as a value.
pub(crate) fn value_of(item: &StoredItem) -> Result<Value, Error> {
    item.to_value(&NoSqlProperties)
}

#[cfg(test)]
mod tests {
    use model::json;
    use testkit::harness::Harness;

    use super::*;

    #[tokio::test]
    async fn what_is_written_is_what_is_read() {
        let h = Harness::in_memory();
        let container = h.container("c", 1).await;
        let item = h.create(&container, "k", r#"{"id":"a","pk":"k","n":1}"#).await.unwrap();
        let all = value_of(&item).unwrap();
        assert_eq!(json::parse(&text_of(&item), 8).unwrap().value, all);
        let text = |name: &str| all.field(name).and_then(Value::as_str).unwrap().to_owned();
        let (rid, etag) = (item.rid().to_string(), item.etag().to_string());
        assert_eq!((text("_rid"), text("_etag")), (rid.clone(), etag));
        let container = item.rid().container;
        let own = format!("dbs/{}/colls/{container}/docs/{rid}/", container.database);
        assert_eq!((text("_self"), text("_attachments")), (own, "attachments/".to_owned()));
        let named = vec![("n".into(), FieldMask::All), ("_ts".into(), FieldMask::All)];
        let mut part = Object::new();
        NoSqlProperties.add(&item.version(), &FieldMask::Fields(named), &mut part);
        assert_eq!(json::to_string(&part.into()), format!(r#"{{"_ts":{}}}"#, item.ts()));
    }
}
