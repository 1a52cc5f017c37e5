//! Messages of the wire protocol: bytes of a connection in, commands out, and back.
//!
//! [`message_length`] tells when a message is complete, [`Message::read`] takes it apart, and
//! [`Answer::write`] makes the reply. What a command means does not belong here.

#![expect(clippy::little_endian_bytes, reason = "the order of bytes on this wire")]

mod bytes_reader;
mod compression;
mod op_msg;
mod op_query;

use bytes::Bytes;

use bytes_reader::BytesReader;
pub use compression::Compressor;
pub use op_msg::Sequence;

/// Bytes of the head of every message.
pub const HEAD_BYTES: usize = 16;
/// Longest message, head included.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// Most documents of one message beside its body. More are counted, and not kept.
pub const SEQUENCE_DOCUMENTS_MAX: usize = 100_000;
/// Shortest BSON document: its length and its end.
const DOCUMENT_BYTES_MIN: usize = 5;

/// The kinds of messages, by their numbers.
mod op_code {
    pub(super) const REPLY: i32 = 1;
    pub(super) const QUERY: i32 = 2004;
    pub(super) const COMPRESSED: i32 = 2012;
    pub(super) const MSG: i32 = 2013;
}

/// Why a message is not one. The connection ends, as nothing tells where the next message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// Its length is less than that of its head, or more than is allowed.
    #[error("the length of the message is out of range")]
    Length,
    /// A part of it ends outside of it, or something follows its end.
    #[error("a part of the message has a wrong length")]
    Part,
    /// Its kind is unknown, or not served any more.
    #[error("the kind of the message is not supported")]
    OpCode,
    /// It has flags that are unknown and may not be ignored.
    #[error("the message has unknown flags")]
    Flags,
    /// It has a section of an unknown kind, no body, or two.
    #[error("the sections of the message are not those of a command")]
    Sections,
    /// Its bytes do not have the checksum that it carries.
    #[error("the checksum of the message is wrong")]
    Checksum,
    /// It is compressed in a way that is not supported, or what it holds is damaged.
    #[error("the compressed message can't be read")]
    Compression,
    /// A text in it is not UTF-8.
    #[error("a name in the message is not UTF-8")]
    Text,
}

impl BadMessage {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            BadMessage::Length => "length",
            BadMessage::Part => "part",
            BadMessage::OpCode => "op_code",
            BadMessage::Flags => "flags",
            BadMessage::Sections => "sections",
            BadMessage::Checksum => "checksum",
            BadMessage::Compression => "compression",
            BadMessage::Text => "text",
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The number by which its reply names it.
    pub request_id: i32,
    /// The form of its reply.
    pub form: Form,
    /// How it was compressed; its reply may be, too.
    pub compressor: Option<Compressor>,
    /// The database it names outside its body.
    pub database: Option<String>,
    /// The command: one BSON document, of which only the length is checked.
    pub body: Bytes,
    /// Documents that belong to the command beside its body.
    pub sequences: Vec<Sequence>,
}

/// The form of a request, which is that of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `OP_MSG`.
    Msg {
        /// The client waits for no reply.
        is_unacknowledged: bool,
        /// The client takes several replies to one request.
        allows_exhaust: bool,
    },
    /// `OP_QUERY`, of a command.
    Query,
    /// `OP_QUERY`, of anything else: it is refused.
    OldQuery,
}

/// The length of the message that begins with these bytes; `None` if more are needed to tell.
pub fn message_length(start: &[u8], bytes_max: usize) -> Result<Option<usize>, BadMessage> {
    let Some(length) = start.first_chunk() else { return Ok(None) };
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| BadMessage::Length)?;
    if !(HEAD_BYTES..=bytes_max.min(MESSAGE_BYTES_MAX)).contains(&length) {
        return Err(BadMessage::Length);
    }
    // Texts of other protocols are recognised by their first bytes, before all of the "length" has
    // come: a message of such a length has a kind that is none.
    match start.get(12..HEAD_BYTES).and_then(<[u8]>::first_chunk).map(|it| i32::from_le_bytes(*it))
    {
        Some(op_code::MSG | op_code::QUERY | op_code::COMPRESSED) | None => Ok(Some(length)),
        Some(_) => Err(BadMessage::OpCode),
    }
}

/// Whether a client that sent this waits for news, for which it takes several replies.
pub fn awaits_news(message: &[u8]) -> bool {
    let field =
        |at| message.get(at..).and_then(<[u8]>::first_chunk).map(|it| i32::from_le_bytes(*it));
    let flags = field(HEAD_BYTES).unwrap_or_default().cast_unsigned();
    field(12) == Some(op_code::MSG) && flags & op_msg::EXHAUST_ALLOWED != 0
}

impl Message {
    /// Takes a complete message apart.
    pub fn read(message: Bytes) -> Result<Self, BadMessage> {
        let whole = message.clone();
        let mut reader = BytesReader::new(message);
        let length = reader.i32()?;
        if usize::try_from(length) != Ok(whole.len()) {
            return Err(BadMessage::Length);
        }
        let (request_id, _response_to, op_code) = (reader.i32()?, reader.i32()?, reader.i32()?);
        match op_code {
            op_code::MSG => op_msg::read(request_id, reader, Some(&whole)),
            op_code::QUERY => op_query::read(request_id, reader),
            op_code::COMPRESSED => {
                let (op_code, compressor, inner) = compression::read(reader)?;
                let reader = BytesReader::new(inner);
                let message = match op_code {
                    // The checksum would be that of the message before it was compressed, of which
                    // the head is gone.
                    op_code::MSG => op_msg::read(request_id, reader, None),
                    op_code::QUERY => op_query::read(request_id, reader),
                    _ => Err(BadMessage::OpCode),
                };
                message.map(|message| Message { compressor, ..message })
            }
            _ => Err(BadMessage::OpCode),
        }
    }
}

/// A reply, in the form of its request.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Its own number.
    pub request_id: i32,
    /// The number of the request, or of the reply before it.
    pub response_to: i32,
    /// The form of the request.
    pub form: Form,
    /// Whether another reply follows.
    pub more_to_come: bool,
    /// How to compress it.
    pub compressor: Option<Compressor>,
    /// The BSON document.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let (op_code, body_at) = match self.form {
            Form::Msg { .. } => (op_code::MSG, op_msg::BODY_AT),
            Form::Query | Form::OldQuery => (op_code::REPLY, op_query::BODY_AT),
        };
        out.reserve(HEAD_BYTES + body_at + self.body.len());
        out.extend_from_slice(&[0; HEAD_BYTES]);
        match self.form {
            Form::Msg { .. } => op_msg::write(self.more_to_come, self.body, out),
            Form::Query => op_query::write(op_query::AWAIT_CAPABLE, self.body, out),
            Form::OldQuery => op_query::write(op_query::QUERY_FAILURE, self.body, out),
        }
        let mut op_code = op_code;
        if let Some(compressor) = self.compressor {
            let content = out.split_off(start + HEAD_BYTES);
            match compressor.write(op_code, &content, out) {
                Ok(()) => op_code = op_code::COMPRESSED,
                // The client reads replies that are not compressed as well.
                Err(BadMessage::Compression) => {
                    out.truncate(start + HEAD_BYTES);
                    out.extend_from_slice(&content);
                }
                Err(_) => {}
            }
        }
        let length = i32::try_from(out.len() - start).unwrap_or(i32::MAX);
        let head = [length, self.request_id, self.response_to, op_code];
        let fields = out.iter_mut().skip(start).zip(head.into_iter().flat_map(i32::to_le_bytes));
        fields.for_each(|(byte, value)| *byte = value);
    }
}

#[cfg(test)]
mod tests;
