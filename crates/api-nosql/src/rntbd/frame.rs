//! Requests as frames: a head of tokens, and perhaps a payload behind it.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use bytes::Bytes;

use super::answer::FrameAnswer;
use super::bad_frame::{BadFrame, RefusedFrame};
use super::context::DirectClient;
use super::fields::Fields;
use super::operations;
use crate::headers::HeaderName;

/// Most bytes of a head.
pub const HEAD_BYTES_MAX: usize = 128 << 10;
/// Bytes of a head before its tokens: length, resource, operation, activity id.
pub(super) const HEAD_BYTES_MIN: usize = 24;

/// Whether a connection that begins with these bytes is one of a client in Direct mode: its first
/// frame has 0 as resource and as operation, and HTTP begins with letters.
pub fn is_direct(start: [u8; 8]) -> bool {
    let [_, _, _, _, types @ ..] = start;
    types == [0; 4]
}

/// The length of the head that `buffer` begins with; `None` while it is not known.
pub fn head_length(buffer: &[u8]) -> Result<Option<usize>, BadFrame> {
    let Some(length) = buffer.first_chunk().copied().map(u32::from_le_bytes) else {
        return Ok(None);
    };
    match usize::try_from(length) {
        Ok(length) if (HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&length) => Ok(Some(length)),
        Ok(_) | Err(_) => Err(BadFrame::Length),
    }
}

/// What an answer repeats of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameId {
    /// As it was sent.
    pub(super) activity: [u8; 16],
    /// The request's number on its connection.
    pub(super) number: Option<u32>,
}

impl FrameId {
    /// The activity id of a head.
    pub(super) fn of(head: &[u8]) -> Self {
        let activity = head.get(8..HEAD_BYTES_MIN).and_then(|bytes| bytes.try_into().ok());
        Self { activity: activity.unwrap_or_default(), number: None }
    }

    /// The answer while the server stops: the client tries again elsewhere, as nothing was done.
    pub fn refuse_for_shutdown(&self) -> FrameAnswer {
        FrameAnswer::stopping(self)
    }

    /// The answer when there is no memory for the real one.
    pub fn refuse_for_room(&self) -> FrameAnswer {
        FrameAnswer::no_room(self)
    }
}

/// How large the answer to a request can be, and whether it may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A page of many resources, which can be read again.
    Page,
    /// One resource, which can be read again.
    Thing,
    /// The answer to a change, which must be delivered.
    Change,
}

/// A request whose head is complete and can be read.
#[derive(Debug)]
pub struct Frame {
    pub(super) id: FrameId,
    pub(super) resource: u16,
    pub(super) operation: u16,
    pub(super) head: Bytes,
    pub(super) fields: Fields,
}

impl Frame {
    /// Reads a head.
    pub fn read(head: Bytes, client: &DirectClient) -> Result<Self, RefusedFrame> {
        let mut id = FrameId::of(&head);
        let number = |at: usize| match head.get(at..at + 2) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            Some(_) | None => 0,
        };
        let (resource, operation) = (number(4), number(6));
        if (resource, operation) == (0, 0) {
            return Err(RefusedFrame::new(BadFrame::SecondHandshake, &id));
        }
        let fields = Fields::read(&head, HEAD_BYTES_MIN, client.account, &mut id.number);
        let refuse = |reason| RefusedFrame::new(reason, &id);
        let mut fields = fields.map_err(refuse)?;
        if id.number.is_none() {
            return Err(refuse(BadFrame::NoNumber));
        }
        if fields.has_payload.is_none() {
            return Err(refuse(BadFrame::NoPayloadPresent));
        }
        fields.headers.add(HeaderName::Version, client.version.as_bytes());
        Ok(Self { id, resource, operation, head, fields })
    }

    /// What its answer repeats.
    pub fn id(&self) -> FrameId {
        self.id
    }

    /// Whether the length of a payload, in four bytes, and the payload follow.
    pub fn has_payload(&self) -> bool {
        self.fields.has_payload == Some(true)
    }

    /// What its answer can demand of memory.
    pub fn demand(&self) -> Demand {
        match operations::find(self.operation) {
            Some(operation) if operation.is_read && !operation.is_feed => Demand::Thing,
            Some(operation) if operation.is_read => Demand::Page,
            Some(operation) if operation.flag == Some(HeaderName::IsQuery) => Demand::Page,
            Some(_) | None => Demand::Change,
        }
    }
}
