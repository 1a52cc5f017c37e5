//! The reply to a command.

#![expect(clippy::little_endian_bytes, reason = "BSON's byte order")]

use bytes::Bytes;
use model::bson::{self, ElementType};
use model::{Charge, Object, Value};

use crate::MongoError;
use crate::command::Command;
use crate::errors::codes as code;

/// The reply to a command: a document, in which the documents of a cursor stay bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The documents of a cursor, before all other fields.
    pub batch: Option<Batch>,
    /// The other fields.
    pub fields: Object,
    /// What it cost.
    pub(crate) charge: Charge,
    /// The command that yields the next reply, for clients that take several.
    pub(crate) next: Option<Box<Command>>,
    /// Whether nothing is sent and the connection ends, as a test requested.
    pub(crate) hangs_up: bool,
}

/// Documents of a cursor.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The number of the cursor; 0 if it is exhausted.
    pub cursor: i64,
    /// What the cursor is over.
    pub namespace: String,
    /// Whether they are the first documents.
    pub is_first: bool,
    /// The documents.
    pub documents: Vec<Bytes>,
}

impl From<Object> for Reply {
    fn from(fields: Object) -> Self {
        Self { fields, ..Self::default() }
    }
}

impl From<Batch> for Reply {
    fn from(batch: Batch) -> Self {
        Self { batch: Some(batch), ..Self::default() }
    }
}

impl Reply {
    /// A reply that says nothing but that all is well.
    pub(crate) fn ok() -> Self {
        Self::default()
    }

    /// Whether the command was carried out.
    pub fn is_ok(&self) -> bool {
        self.fields.get("ok") != Some(&Value::Double(0.0))
    }

    /// Appends it as BSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), MongoError> {
        let start = out.len();
        let written = match &self.batch {
            None => bson::write(&self.fields, out),
            Some(batch) => {
                out.extend_from_slice(&[0; LENGTH_BYTES]);
                batch.write(out);
                let fields_at = out.len();
                bson::write(&self.fields, out).map(|()| {
                    // The fields go on in the document that has the cursor.
                    out.drain(fields_at..fields_at + LENGTH_BYTES);
                    set_length(out, start);
                })
            }
        };
        written.map_err(|error| {
            out.truncate(start);
            MongoError::new(code::INTERNAL_ERROR, format!("the reply can't be written: {error}"))
        })
    }
}

const LENGTH_BYTES: usize = 4;

impl Batch {
    /// Appends the field `cursor`.
    fn write(&self, out: &mut Vec<u8>) {
        let bytes = self.documents.iter().map(|document| document.len() + 10).sum::<usize>();
        out.reserve(bytes + self.namespace.len() + 64);
        let cursor = begin(ElementType::Document, "cursor", out);
        let name = if self.is_first { "firstBatch" } else { "nextBatch" };
        let batch = begin(ElementType::Array, name, out);
        let mut digits = itoa::Buffer::new();
        for (at, document) in self.documents.iter().enumerate() {
            element(ElementType::Document, digits.format(at), out);
            out.extend_from_slice(document);
        }
        end(batch, out);
        element(ElementType::Int64, "id", out);
        out.extend_from_slice(&self.cursor.to_le_bytes());
        element(ElementType::String, "ns", out);
        let length = u32::try_from(self.namespace.len() + 1).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(self.namespace.as_bytes());
        out.push(0);
        end(cursor, out);
    }
}

fn element(element_type: ElementType, name: &str, out: &mut Vec<u8>) {
    out.push(element_type.code());
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// Begins a document; returns where.
fn begin(element_type: ElementType, name: &str, out: &mut Vec<u8>) -> usize {
    element(element_type, name, out);
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    start
}

fn end(start: usize, out: &mut Vec<u8>) {
    out.push(0);
    set_length(out, start);
}

fn set_length(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *field = length.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::document;

    #[test]
    fn the_documents_of_a_cursor_come_first_and_unchanged() {
        let mut documents = Vec::new();
        for n in 0..12 {
            let mut bytes = Vec::new();
            bson::write(&document! { "_id" => n }, &mut bytes).unwrap();
            documents.push(Bytes::from(bytes));
        }
        for (is_first, name) in [(true, "firstBatch"), (false, "nextBatch")] {
            let namespace = "db.c".to_owned();
            let batch =
                Batch { cursor: 1 << 40, namespace, is_first, documents: documents.clone() };
            let reply = Reply { fields: document! { "ok" => 1.0 }, ..Reply::from(batch) };
            let mut out = vec![9];
            reply.write(&mut out).unwrap();
            let expected = (0..12).map(|n| document! { "_id" => n }).collect::<Vec<_>>();
            let cursor = document! { name => expected, "id" => 1i64 << 40, "ns" => "db.c" };
            let expected = document! { "cursor" => cursor, "ok" => 1.0 };
            assert_eq!(bson::read(&out[1..]), Ok(expected));
        }
    }

    #[test]
    fn a_reply_without_a_cursor_is_its_fields() {
        let reply = Reply::from(document! { "a" => 1, "ok" => 1.0 });
        let mut out = Vec::new();
        reply.write(&mut out).unwrap();
        assert_eq!(bson::read(&out), Ok(reply.fields.clone()));
        assert!(reply.is_ok() && Reply::ok().is_ok());
        assert!(!Reply::from(document! { "ok" => 0.0 }).is_ok());
    }
}
