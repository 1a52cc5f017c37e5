//! The handshake: the first frame of a connection, and its answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use engine::RangeId;
use model::ContainerRid;

use super::answer::{self, FrameWriter};
use super::bad_frame::BadFrame;
use super::frame::{FrameId, HEAD_BYTES_MIN};
use super::token::{TokenType, Tokens};
use crate::quota::Usage;
use crate::{Consistency, Service, headers};

/// What is known of the client of a connection.
#[derive(Debug)]
pub struct DirectClient {
    /// The API version that stands for that of all its requests.
    pub(super) version: String,
    /// What it says it is.
    pub user_agent: String,
    pub(super) account: Consistency,
    /// Tokens that all its answers have.
    pub(super) fixed: Vec<u8>,
    cache: Mutex<AnswerCache>,
}

/// Parts of answers that stay the same on a connection for a while.
#[derive(Debug, Default)]
pub(super) struct AnswerCache {
    /// The second that `date` says.
    pub seconds: Option<u64>,
    pub date: String,
    /// The range that `owner` is about.
    pub range: Option<(ContainerRid, Option<RangeId>, bool)>,
    /// Tokens about the container and the range.
    pub owner: Vec<u8>,
    /// What `usage_tokens` say.
    pub usage: Option<Usage>,
    /// Tokens about the quota of the container and what it holds.
    pub usage_tokens: Vec<u8>,
}

impl DirectClient {
    pub(super) fn cache(&self) -> MutexGuard<'_, AnswerCache> {
        // A cache that was left half filled has no range yet.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of a handshake.
#[derive(Debug)]
pub enum Greeting {
    /// The connection can be used.
    Welcome(Box<DirectClient>, Bytes),
    /// The client is told why, and the connection ends.
    Refused(Bytes),
    /// The connection ends.
    Bad(BadFrame),
}

/// The version of the protocol.
const PROTOCOL_VERSION: u32 = 1;

/// The tokens of the request, in the order of their ids.
const TOKENS: [TokenType; 8] = [
    TokenType::ULong,       // ProtocolVersion
    TokenType::SmallString, // ClientVersion
    TokenType::SmallString, // UserAgent
    TokenType::Byte,        // CallerId
    TokenType::Byte,        // EnableChannelMultiplexing
    TokenType::String,      // ThinProxySignature
    TokenType::SmallString, // ThinProxySignatureDate
    TokenType::Byte,        // MutualTlsAuthMode
];

/// The tokens of the answer.
mod id {
    pub(super) const PROTOCOL_VERSION: u16 = 0;
    pub(super) const CLIENT_VERSION: u16 = 1;
    pub(super) const SERVER_AGENT: u16 = 2;
    pub(super) const SERVER_VERSION: u16 = 3;
}

impl Service {
    /// Answers the first frame of a connection, whose head is complete.
    pub fn greet(&self, head: &[u8]) -> Greeting {
        if head.get(4..8) != Some(&[0; 4]) {
            return Greeting::Bad(BadFrame::NoHandshake);
        }
        let asked = match Asked::read(head) {
            Ok(asked) => asked,
            Err(reason) => return Greeting::Bad(reason),
        };
        let id = FrameId::of(head);
        match asked.check() {
            Ok((version, user_agent)) => Greeting::Welcome(
                Box::new(DirectClient {
                    version: version.to_owned(),
                    user_agent: user_agent.to_owned(),
                    account: self.account().consistency,
                    fixed: answer::fixed_tokens(self.static_headers().last_state_change()),
                    cache: Mutex::default(),
                }),
                answer(&id, 200, version, None),
            ),
            Err(message) => {
                let body = answer::error_body("BadRequest", message);
                Greeting::Refused(answer(&id, 400, headers::API_VERSION_NEWEST, Some(&body)))
            }
        }
    }
}

/// What a client says about itself.
#[derive(Debug, Default)]
struct Asked<'f> {
    protocol: Option<u32>,
    version: Option<&'f str>,
    user_agent: Option<&'f str>,
}

impl<'f> Asked<'f> {
    fn read(head: &'f [u8]) -> Result<Self, BadFrame> {
        let mut asked = Self::default();
        let mut seen = [false; TOKENS.len()];
        let mut tokens = Tokens::new(head, HEAD_BYTES_MIN);
        while let Some(token) = tokens.next()? {
            if token.kind.is_text() && std::str::from_utf8(token.value).is_err() {
                return Err(BadFrame::NotText);
            }
            let at = usize::from(token.id);
            let Some(kind) = TOKENS.get(at) else { continue };
            if *kind != token.kind {
                return Err(BadFrame::WrongType);
            }
            if std::mem::replace(&mut seen[at], true) {
                return Err(BadFrame::Duplicate);
            }
            match token.id {
                0 => asked.protocol = Some(token.ulong()),
                1 => asked.version = Some(token.text()),
                2 => asked.user_agent = Some(token.text()),
                _ => {}
            }
        }
        Ok(asked)
    }

    /// Version and user agent, or what the client is told instead.
    fn check(&self) -> Result<(&'f str, &'f str), &'static str> {
        if self.protocol != Some(PROTOCOL_VERSION) {
            return Err("The version of the protocol is missing or not supported; this server \
                        speaks version 1.");
        }
        let version = self.version.filter(|version| headers::is_api_version(version));
        let version = version.ok_or(
            "Invalid API version. Please update to the latest version of Azure Cosmos DB SDK.",
        )?;
        let user_agent = self.user_agent.ok_or("The user agent is missing.")?;
        Ok((version, user_agent))
    }
}

/// The answer, which has neither a number nor the token that announces a payload.
fn answer(id: &FrameId, status: u16, version: &str, body: Option<&[u8]>) -> Bytes {
    let mut out = FrameWriter::new(id, status);
    let mut tokens = out.tokens();
    tokens.small_string(id::SERVER_AGENT, b"planisphere");
    tokens.small_string(id::SERVER_VERSION, env!("CARGO_PKG_VERSION").as_bytes());
    tokens.ulong(id::PROTOCOL_VERSION, PROTOCOL_VERSION);
    tokens.small_string(id::CLIENT_VERSION, version.as_bytes());
    out.finish(body)
}
