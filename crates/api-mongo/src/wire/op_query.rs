//! `OP_QUERY`, with which older clients, and some of today's, send their first command, and its
//! reply, `OP_REPLY`.

use super::{BadMessage, BytesReader, Form, Message};

/// The bytes of a reply before its document: flags, cursor, position, number of documents.
pub(super) const BODY_AT: usize = 20;

/// The flag of every reply.
pub(super) const AWAIT_CAPABLE: i32 = 8;
/// The flag of a refusal.
pub(super) const QUERY_FAILURE: i32 = 2 | AWAIT_CAPABLE;

/// The collection to which commands are sent.
const COMMANDS: &str = "$cmd";

pub(super) fn read(request_id: i32, mut reader: BytesReader) -> Result<Message, BadMessage> {
    let _flags = reader.i32()?;
    let namespace = reader.text()?;
    let (_skip, _limit) = (reader.i32()?, reader.i32()?);
    let body = reader.document()?;
    // A projection may follow, which commands do not have.
    if !reader.is_empty() {
        reader.document()?;
    }
    if !reader.is_empty() {
        return Err(BadMessage::Part);
    }
    let (database, form) = match namespace.split_once('.') {
        Some((database, COMMANDS)) => (database.to_owned(), Form::Query),
        Some((database, _)) => (database.to_owned(), Form::OldQuery),
        None => (namespace, Form::OldQuery),
    };
    let (database, sequences) = (Some(database), Vec::new());
    Ok(Message { request_id, form, compressor: None, database, body, sequences })
}

/// Appends all of a reply but its head.
pub(super) fn write(flags: i32, body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&flags.to_le_bytes());
    // The cursor, which is none, and the position of the first document.
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&1i32.to_le_bytes());
    out.extend_from_slice(body);
}
