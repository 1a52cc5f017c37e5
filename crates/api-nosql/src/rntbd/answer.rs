//! Answers as frames.
//!
//! This is on the path of every point read: an answer is written into one buffer, token by token,
//! and what stays the same on a connection is copied.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use engine::{Container, RangeId};
use model::{Lsn, Timestamp};

use super::context::{AnswerCache, DirectClient};
use super::frame::{FrameId, HEAD_BYTES_MIN};
use super::response_tokens as id;
use super::token::TokenWriter;
use crate::quota::Usage;
use crate::replica::Replica;
use crate::reply::{Envelope, Reply, ReplyHeader, ReplyValue};
use crate::request::DirectFields;
use crate::{quota, session};

/// The answer to a request.
#[derive(Debug)]
pub struct FrameAnswer {
    /// The head, and the payload if it is small.
    pub head: Vec<u8>,
    /// A larger payload.
    pub payload: Bytes,
    /// Its status and substatus.
    pub outcome: (u16, u32),
}

/// A payload that is larger is not copied behind its head.
const COPIED_BYTES_MAX: usize = 4 << 10;
/// What heads of usual answers take.
const HEAD_BYTES_EXPECTED: usize = 384;

/// The position of what has none, such as the account's own resources. 0 would mean that nothing
/// was ever written.
const POSITION_MIN: u64 = 1;

impl FrameAnswer {
    /// The same answer, after which the client closes the connection.
    fn and_close(mut self) -> Self {
        let length = self.head.first_chunk().copied().map_or(0, u32::from_le_bytes);
        let mut token = Vec::new();
        TokenWriter(&mut token).byte(id::DISABLE_RNTBD_CHANNEL, 1);
        if let Ok(at) = usize::try_from(length)
            && at <= self.head.len()
        {
            self.head.splice(at..at, token.iter().copied());
            set_length(&mut self.head, at + token.len());
        }
        self
    }

    /// The answer while the server stops.
    pub(super) fn stopping(frame: &FrameId) -> Self {
        let message = "The server is stopping. Nothing was done; try again.";
        error(frame, 410, ("Gone", message), &[]).and_close()
    }

    /// The answer when there is no memory for the real one.
    pub(super) fn no_room(frame: &FrameId) -> Self {
        let message = "Clients have not taken too many of their answers, so there is no memory \
                       for more. Try again in a moment.";
        error(frame, 503, ("ServiceUnavailable", message), &[])
    }
}

/// An answer that no handler gave.
fn error(
    frame: &FrameId,
    status: u16,
    (code, message): (&str, &str),
    flags: &[u16],
) -> FrameAnswer {
    let body = error_body(code, message);
    let mut out = FrameWriter::new(frame, status);
    let mut tokens = out.tokens();
    if let Some(number) = frame.number {
        tokens.ulong(id::TRANSPORT_REQUEST_ID, number);
        tokens.byte(id::PAYLOAD_PRESENT, 1);
    }
    positions(&mut tokens, POSITION_MIN);
    for flag in flags {
        tokens.byte(*flag, 1);
    }
    FrameAnswer {
        head: out.finish(Some(&body)).into(),
        payload: Bytes::new(),
        outcome: (status, 0),
    }
}

/// 400 for a frame that can't be read.
pub(super) fn bad_frame(frame: &FrameId, message: &str) -> Bytes {
    error(frame, 400, ("BadRequest", message), &[id::REQUEST_VALIDATION_FAILURE]).head.into()
}

/// The body of an error, with a message that needs no escaping.
pub(super) fn error_body(code: &str, message: &str) -> Vec<u8> {
    format!(r#"{{"code":"{code}","message":"{message}"}}"#).into_bytes()
}

/// A frame under construction.
pub(super) struct FrameWriter(Vec<u8>);

impl FrameWriter {
    pub(super) fn new(frame: &FrameId, status: u16) -> Self {
        Self::with_capacity(frame, status, HEAD_BYTES_EXPECTED)
    }

    fn with_capacity(frame: &FrameId, status: u16, capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&u32::from(status).to_le_bytes());
        out.extend_from_slice(&frame.activity);
        debug_assert_eq!(out.len(), HEAD_BYTES_MIN);
        Self(out)
    }

    pub(super) fn tokens(&mut self) -> TokenWriter<'_> {
        TokenWriter(&mut self.0)
    }

    /// The frame with this payload.
    pub(super) fn finish(mut self, payload: Option<&[u8]>) -> Bytes {
        self.end_head();
        if let Some(payload) = payload {
            self.announce(payload.len());
            self.0.extend_from_slice(payload);
        }
        self.0.into()
    }

    fn end_head(&mut self) {
        let length = self.0.len();
        set_length(&mut self.0, length);
    }

    fn announce(&mut self, payload: usize) {
        let length = u32::try_from(payload).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
    }
}

fn set_length(head: &mut [u8], length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(field) = head.first_chunk_mut::<4>() {
        *field = length.to_le_bytes();
    }
}

/// The positions of a range. They are equal, because one server holds all replicas.
fn positions(tokens: &mut TokenWriter<'_>, lsn: u64) {
    let lsn = i64::try_from(lsn.max(POSITION_MIN)).unwrap_or(i64::MAX);
    for id in id::LSNS {
        tokens.long_long(id, lsn);
    }
}

/// The answer to a request, from its reply.
pub(super) fn answer(
    frame: &FrameId,
    client: &DirectClient,
    direct: &DirectFields,
    now: Timestamp,
    reply: &Reply,
    envelope: &Envelope<'_>,
) -> FrameAnswer {
    let Reply { status, substatus, headers, body, .. } = reply;
    let container = envelope.container_of(reply);
    let range = range_of(envelope, direct, container.map(|(container, _)| container));
    let is_small = body.len() <= COPIED_BYTES_MAX;
    let capacity = HEAD_BYTES_EXPECTED + if is_small { body.len() } else { 0 };
    let mut out = FrameWriter::with_capacity(frame, status.0, capacity);
    let mut tokens = out.tokens();
    tokens.ulong(id::TRANSPORT_REQUEST_ID, frame.number.unwrap_or_default());
    tokens.byte(id::PAYLOAD_PRESENT, (!body.is_empty()).into());
    positions(&mut tokens, range.map_or(POSITION_MIN, |(_, lsn)| lsn.0));
    if let Some(lsn) = envelope.served.item_lsn.and_then(|lsn| i64::try_from(lsn.0).ok()) {
        tokens.long_long(id::ITEM_LSN, lsn);
        tokens.long_long(id::ITEM_LOCAL_LSN, lsn);
    }
    tokens.0.extend_from_slice(&client.fixed);
    tokens.double(id::REQUEST_CHARGE, envelope.served.charge.as_milli() as f64 / 1e3);
    let mut cache = client.cache();
    cache.set_date(now);
    tokens.small_string(id::SERVER_DATE_TIME, cache.date.as_bytes());
    if let Some((_, lsn)) = range {
        tokens.string(id::SESSION_TOKEN, &session::token_without_range(lsn));
    }
    if *substatus != 0 {
        tokens.ulong(id::SUBSTATUS, *substatus);
    }
    for (header, value) in headers {
        reply_header(&mut tokens, *header, value);
    }
    if let Some((container, is_about_it)) = container {
        cache.set_owner(container, range.map(|(range, _)| range), is_about_it);
        tokens.0.extend_from_slice(&cache.owner);
    }
    if let Some(usage) = envelope.usage(reply) {
        cache.set_usage(usage);
        tokens.0.extend_from_slice(&cache.usage_tokens);
    }
    drop(cache);
    tokens.double(id::BACKEND_REQUEST_DURATION, envelope.elapsed.as_micros() as f64 / 1e3);
    out.end_head();
    if !body.is_empty() {
        out.announce(body.len());
    }
    let payload = match is_small {
        true => {
            out.0.extend_from_slice(body);
            Bytes::new()
        }
        false => body.clone(),
    };
    FrameAnswer { head: out.0, payload, outcome: (status.0, *substatus) }
}

/// Tokens that all answers have. `since` is when the state of the server changed last.
pub(super) fn fixed_tokens(since: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut tokens = TokenWriter(&mut out);
    tokens.ulong(id::CURRENT_REPLICA_SET_SIZE, 1);
    tokens.ulong(id::CURRENT_WRITE_QUORUM, 1);
    tokens.small_string(id::SCHEMA_VERSION, b"1.19");
    tokens.small_string(id::LAST_STATE_CHANGE, since.as_bytes());
    out
}

/// The range that an answer is about, and its position: the range that served the request, else
/// that which the client addressed. Clients keep one position for each range, so an answer never
/// names two.
fn range_of(
    envelope: &Envelope<'_>,
    direct: &DirectFields,
    container: Option<&Container>,
) -> Option<(RangeId, Lsn)> {
    envelope.session().or_else(|| {
        let Some(Replica::Range { range, .. }) = direct.replica else { return None };
        let routing = container?.routing();
        let live = routing.by_id(range)?;
        Some((live.id, live.lsn()))
    })
}

fn reply_header(tokens: &mut TokenWriter<'_>, header: ReplyHeader, value: &ReplyValue) {
    let Some((id, form)) = id::of(header) else { return };
    match (form, value) {
        (id::Form::Text, ReplyValue::Text(text)) => tokens.string(id, text.as_bytes()),
        (id::Form::Text, ReplyValue::Number(number)) => {
            tokens.string(id, itoa::Buffer::new().format(*number).as_bytes());
        }
        (id::Form::Number, ReplyValue::Number(number)) => {
            tokens.ulong(id, u32::try_from(*number).unwrap_or(u32::MAX));
        }
        (id::Form::Number, ReplyValue::Text(text)) => {
            if let Ok(number) = text.parse() {
                tokens.ulong(id, number);
            }
        }
        (id::Form::Boolean, ReplyValue::Text(text)) => {
            tokens.byte(id, text.eq_ignore_ascii_case("true").into());
        }
        (id::Form::Boolean, ReplyValue::Number(number)) => tokens.byte(id, (*number != 0).into()),
    }
}

impl AnswerCache {
    fn set_date(&mut self, now: Timestamp) {
        let seconds = now.0 / 1000;
        if self.seconds != Some(seconds) {
            self.date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            self.seconds = Some(seconds);
        }
    }

    /// What a container may hold, and what it holds.
    fn set_usage(&mut self, usage: Usage) {
        if self.usage == Some(usage) {
            return;
        }
        self.usage = None;
        self.usage_tokens.clear();
        let mut tokens = TokenWriter(&mut self.usage_tokens);
        tokens.string(id::RESOURCE_QUOTA, quota::quota_text().as_bytes());
        tokens.string(id::RESOURCE_USAGE, usage.to_text().as_bytes());
        self.usage = Some(usage);
    }

    /// The owner of an item is its container, that of a container its database.
    fn set_owner(&mut self, container: &Container, range: Option<RangeId>, is_about_it: bool) {
        let wanted = Some((container.rid, range, is_about_it));
        if self.range == wanted {
            return;
        }
        self.range = None;
        self.owner.clear();
        let mut tokens = TokenWriter(&mut self.owner);
        let (database, name) = (&container.database_id, &container.spec.id);
        let (path, rid) = match is_about_it {
            true => (format!("dbs/{database}"), container.rid.database.to_string()),
            false => (format!("dbs/{database}/colls/{name}"), container.rid.to_string()),
        };
        tokens.string(id::OWNER_FULL_NAME, path.as_bytes());
        tokens.string(id::OWNER_ID, rid.as_bytes());
        if let Some(range) = range {
            tokens.string(id::PARTITION_KEY_RANGE_ID, range.to_string().as_bytes());
        }
        self.range = wanted;
    }
}
