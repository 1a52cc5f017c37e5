//! Frames that can't be read.

use bytes::Bytes;

use super::answer;
use super::frame::FrameId;

/// Why a frame can't be read. The stream behind it can't be trusted, so its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// The length of its head is impossible.
    Length,
    /// A token goes beyond the head.
    CutToken,
    /// A token has a type that the protocol does not have.
    UnknownType,
    /// A token has another type than its id says.
    WrongType,
    /// A token is there twice.
    Duplicate,
    /// A text is not UTF-8.
    NotText,
    /// It does not say whether a payload follows.
    NoPayloadPresent,
    /// It has no number, so no answer could be matched to it.
    NoNumber,
    /// The first frame is no handshake.
    NoHandshake,
    /// A second handshake.
    SecondHandshake,
}

impl BadFrame {
    /// All of them, in the order of their numbers.
    pub const ALL: [BadFrame; 10] = [
        BadFrame::Length,
        BadFrame::CutToken,
        BadFrame::UnknownType,
        BadFrame::WrongType,
        BadFrame::Duplicate,
        BadFrame::NotText,
        BadFrame::NoPayloadPresent,
        BadFrame::NoNumber,
        BadFrame::NoHandshake,
        BadFrame::SecondHandshake,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            BadFrame::Length => "length",
            BadFrame::CutToken => "cut_token",
            BadFrame::UnknownType => "unknown_type",
            BadFrame::WrongType => "wrong_type",
            BadFrame::Duplicate => "duplicate",
            BadFrame::NotText => "not_text",
            BadFrame::NoPayloadPresent => "no_payload_present",
            BadFrame::NoNumber => "no_number",
            BadFrame::NoHandshake => "no_handshake",
            BadFrame::SecondHandshake => "second_handshake",
        }
    }

    fn message(self) -> &'static str {
        match self {
            BadFrame::Length => "The length of the frame is impossible.",
            BadFrame::CutToken => "A token goes beyond the head of the frame.",
            BadFrame::UnknownType => "A token has an unknown type.",
            BadFrame::WrongType => "A token has another type than its id says.",
            BadFrame::Duplicate => "A token is there twice.",
            BadFrame::NotText => "A text of a token is not UTF-8.",
            BadFrame::NoPayloadPresent => "The token PayloadPresent is missing.",
            BadFrame::NoNumber => "The token TransportRequestID is missing.",
            BadFrame::NoHandshake => "The first frame of a connection must be a context request.",
            BadFrame::SecondHandshake => "The connection has a context already.",
        }
    }
}

/// A frame that can't be read, with the answer to send before the connection ends.
#[derive(Debug)]
pub struct RefusedFrame {
    /// Why it can't be read.
    pub reason: BadFrame,
    /// 400; `None` if the client could not match it to its request.
    pub answer: Option<Bytes>,
}

impl RefusedFrame {
    pub(super) fn new(reason: BadFrame, id: &FrameId) -> Self {
        let answer = match (reason, id.number) {
            (BadFrame::Length | BadFrame::NoHandshake | BadFrame::NoNumber, _) => None,
            // The handshake, too, is answered without a number.
            (_, None) if reason != BadFrame::SecondHandshake => None,
            (_, _) => Some(answer::bad_frame(id, reason.message())),
        };
        Self { reason, answer }
    }
}
