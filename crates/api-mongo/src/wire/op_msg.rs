//! `OP_MSG`: the message of all clients of today.

use bytes::Bytes;

use super::{BadMessage, BytesReader, Form, Message, SEQUENCE_DOCUMENTS_MAX};

/// The bytes of a reply before its body: flags, and the kind of the section.
pub(super) const BODY_AT: usize = 5;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
pub(super) const EXHAUST_ALLOWED: u32 = 1 << 16;
/// Flags that may not be ignored if they are unknown.
const REQUIRED_FLAGS: u32 = 0xffff;
const CHECKSUM_BYTES: usize = 4;

const BODY: u8 = 0;
const SEQUENCE: u8 = 1;

/// Documents that belong to a command beside its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The field of the command that they are the elements of.
    pub identifier: String,
    /// The documents, of which only the lengths are checked.
    pub documents: Vec<Bytes>,
    /// How many there are, those that were not kept included.
    pub count: usize,
}

/// Reads the flags and sections. `whole` is the message with its head, if it can have a checksum.
pub(super) fn read(
    request_id: i32,
    mut reader: BytesReader,
    whole: Option<&Bytes>,
) -> Result<Message, BadMessage> {
    let flags = reader.i32()?.cast_unsigned();
    if flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(BadMessage::Flags);
    }
    if flags & CHECKSUM_PRESENT != 0 {
        let checksum = reader.cut_end(CHECKSUM_BYTES)?;
        if let Some(whole) = whole {
            let covered = whole.get(..whole.len() - CHECKSUM_BYTES).unwrap_or_default();
            if checksum[..] != crc32c::crc32c(covered).to_le_bytes() {
                return Err(BadMessage::Checksum);
            }
        }
    }
    let mut body = None;
    let mut sequences = Vec::new();
    while !reader.is_empty() {
        match reader.u8()? {
            BODY if body.is_none() => body = Some(reader.document()?),
            SEQUENCE if sequences.len() < SEQUENCES_MAX => sequences.push(sequence(&mut reader)?),
            _ => return Err(BadMessage::Sections),
        }
    }
    let form = Form::Msg {
        is_unacknowledged: flags & MORE_TO_COME != 0,
        allows_exhaust: flags & EXHAUST_ALLOWED != 0,
    };
    let body = body.ok_or(BadMessage::Sections)?;
    Ok(Message { request_id, form, compressor: None, database: None, body, sequences })
}

/// Most sequences of one message; no command has more than two.
const SEQUENCES_MAX: usize = 16;

fn sequence(reader: &mut BytesReader) -> Result<Sequence, BadMessage> {
    const LENGTH_BYTES: usize = 4;
    let length = usize::try_from(reader.i32()?).map_err(|_| BadMessage::Part)?;
    let content = reader.take(length.checked_sub(LENGTH_BYTES).ok_or(BadMessage::Part)?)?;
    let mut content = BytesReader::new(content);
    let identifier = content.text()?;
    let (mut documents, mut count) = (Vec::new(), 0);
    while !content.is_empty() {
        let document = content.document()?;
        count += 1;
        if count <= SEQUENCE_DOCUMENTS_MAX {
            documents.push(document);
        }
    }
    Ok(Sequence { identifier, documents, count })
}

/// Appends all of a reply but its head.
pub(super) fn write(more_to_come: bool, body: &[u8], out: &mut Vec<u8>) {
    let flags = if more_to_come { MORE_TO_COME } else { 0 };
    out.extend_from_slice(&flags.to_le_bytes());
    out.push(BODY);
    out.extend_from_slice(body);
}
