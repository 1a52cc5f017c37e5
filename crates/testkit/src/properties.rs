//! System properties for tests that use no API.

use engine::item::{ItemVersion, SystemProperties};
use model::json::{self, FieldMask};
use model::{Object, Value};

/// Shows `_rid`, `_etag` and `_ts`.
#[derive(Debug)]
pub struct TestProperties;

impl SystemProperties for TestProperties {
    fn add(&self, version: &ItemVersion, field_mask: &FieldMask, part: &mut Object) {
        let all = [
            ("_rid", Value::String(version.rid.to_string())),
            ("_etag", Value::String(version.etag.to_string())),
            ("_ts", Value::Int64(version.ts.cast_signed())),
        ];
        for (name, value) in all.into_iter().filter(|(name, _)| field_mask.has_field(name)) {
            part.insert(name, value);
        }
    }

    fn write_item(&self, version: &ItemVersion, body: &[u8], out: &mut Vec<u8>) {
        let mut shown = Object::new();
        self.add(version, &FieldMask::All, &mut shown);
        let mut text = Vec::new();
        json::write(&Value::from(shown), &mut text);
        out.extend_from_slice(body);
        out.pop();
        out.push(b',');
        out.extend_from_slice(&text[1..]);
    }
}
