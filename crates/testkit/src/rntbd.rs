//! Frames of RNTBD for tests: a client's requests, and the server's answers. Written down apart from
//! the server, so that an error of one does not hide in the other.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use std::io::{self, Read};

/// Ids of tokens that tests use.
pub mod request {
    #![expect(missing_docs, reason = "the names are those of the protocol")]
    pub const RESOURCE_ID: u16 = 0x00;
    pub const AUTHORIZATION: u16 = 0x01;
    pub const PAYLOAD_PRESENT: u16 = 0x02;
    pub const DATE: u16 = 0x03;
    pub const SESSION_TOKEN: u16 = 0x05;
    pub const MATCH: u16 = 0x08;
    pub const CONSISTENCY_LEVEL: u16 = 0x10;
    pub const REPLICA_PATH: u16 = 0x13;
    pub const DATABASE_NAME: u16 = 0x15;
    pub const COLLECTION_NAME: u16 = 0x16;
    pub const DOCUMENT_NAME: u16 = 0x17;
    pub const PARTITION_KEY: u16 = 0x2B;
    pub const PARTITION_KEY_RANGE_ID: u16 = 0x2C;
    pub const COLLECTION_RID: u16 = 0x35;
    pub const REMAINING_TIME: u16 = 0x49;
    pub const CLIENT_RETRY_ATTEMPT_COUNT: u16 = 0x4A;
    pub const TRANSPORT_REQUEST_ID: u16 = 0x4D;
    pub const EXCLUDE_SYSTEM_PROPERTIES: u16 = 0x57;
    pub const IS_BATCH_ATOMIC: u16 = 0x73;
    pub const SDK_SUPPORTED_CAPABILITIES: u16 = 0xA2;
}

/// Ids of the tokens of answers.
pub mod answer {
    #![expect(missing_docs, reason = "the names are those of the protocol")]
    pub const PAYLOAD_PRESENT: u16 = 0x00;
    pub const ETAG: u16 = 0x04;
    pub const LSN: u16 = 0x13;
    pub const REQUEST_CHARGE: u16 = 0x15;
    pub const OWNER_FULL_NAME: u16 = 0x17;
    pub const REQUEST_VALIDATION_FAILURE: u16 = 0x1B;
    pub const SUBSTATUS: u16 = 0x1C;
    pub const PARTITION_KEY_RANGE_ID: u16 = 0x21;
    pub const ITEM_LSN: u16 = 0x32;
    pub const TRANSPORT_REQUEST_ID: u16 = 0x35;
    pub const DISABLE_CHANNEL: u16 = 0x38;
    pub const SESSION_TOKEN: u16 = 0x3E;
    /// All that have the position of the range.
    pub const LSNS: [u16; 5] = [0x13, 0x3A, 0x1A, 0x3B, 0x29];
}

/// A request under construction.
#[derive(Clone, Debug)]
pub struct Frame {
    resource: u16,
    operation: u16,
    tokens: Vec<u8>,
    payload: Option<Vec<u8>>,
}

impl Frame {
    /// A request without tokens.
    pub fn new(resource: u16, operation: u16) -> Self {
        Self { resource, operation, tokens: Vec::new(), payload: None }
    }

    /// The first frame of a connection.
    pub fn context() -> Self {
        let context = Self::new(0, 0).ulong(0, 1).small_text(1, "2020-07-15");
        context.small_text(2, "planisphere-tests/1|X64|")
    }

    /// Adds a token of any type.
    pub fn token(mut self, id: u16, kind: u8, value: &[u8]) -> Self {
        self.tokens.extend_from_slice(&id.to_le_bytes());
        self.tokens.push(kind);
        self.tokens.extend_from_slice(value);
        self
    }

    /// Adds a byte.
    pub fn byte(self, id: u16, value: u8) -> Self {
        self.token(id, 0, &[value])
    }

    /// Adds a number of four bytes.
    pub fn ulong(self, id: u16, value: u32) -> Self {
        self.token(id, 2, &value.to_le_bytes())
    }

    /// Adds a text of up to 255 bytes.
    pub fn small_text(self, id: u16, text: &str) -> Self {
        let length = u8::try_from(text.len()).expect("a short text");
        self.token(id, 7, &[&[length], text.as_bytes()].concat())
    }

    /// Adds a text.
    pub fn text(self, id: u16, text: &str) -> Self {
        self.long(id, 8, text.as_bytes())
    }

    /// Adds bytes.
    pub fn bytes(self, id: u16, bytes: &[u8]) -> Self {
        self.long(id, 11, bytes)
    }

    fn long(self, id: u16, kind: u8, bytes: &[u8]) -> Self {
        let length = u16::try_from(bytes.len()).expect("a token's value").to_le_bytes();
        self.token(id, kind, &[&length, bytes].concat())
    }

    /// Adds the payload; the token that announces it is apart.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// The head, and the payload with its length.
    pub fn parts(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut head = Vec::new();
        let length = u32::try_from(24 + self.tokens.len()).expect("a head");
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&self.resource.to_le_bytes());
        head.extend_from_slice(&self.operation.to_le_bytes());
        head.extend_from_slice(&[0xA0; 16]);
        head.extend_from_slice(&self.tokens);
        (head, self.payload.clone())
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut bytes, payload) = self.parts();
        if let Some(payload) = payload {
            let length = u32::try_from(payload.len()).expect("a payload");
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&payload);
        }
        bytes
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u32,
    /// Id, type and value of each token, in order.
    pub tokens: Vec<(u16, u8, Vec<u8>)>,
    /// Empty if there is none.
    pub payload: Vec<u8>,
}

impl Answer {
    /// Reads an answer. That of a handshake has a payload only if it is a refusal.
    pub fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if !(24..=1 << 20).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut head = vec![0; length - 4];
        stream.read_exact(&mut head)?;
        let status = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let mut answer = Self { status, tokens: Vec::new(), payload: Vec::new() };
        let mut rest = &head[20..];
        while !rest.is_empty() {
            let mut take = |bytes: usize| {
                let (taken, more) =
                    rest.split_at_checked(bytes).ok_or(io::ErrorKind::InvalidData)?;
                rest = more;
                Ok::<_, io::Error>(taken)
            };
            let prefix = take(3)?;
            let (id, kind) = (u16::from_le_bytes([prefix[0], prefix[1]]), prefix[2]);
            let length = match kind {
                0 => 1,
                1 => 2,
                2 | 3 | 13 => 4,
                4 | 5 | 14 => 8,
                6 => 16,
                7 | 10 => usize::from(take(1)?[0]),
                8 | 11 => take(2)?.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            answer.tokens.push((id, kind, take(length)?.to_vec()));
        }
        let is_handshake = answer.value(answer::TRANSPORT_REQUEST_ID).is_none();
        let has_payload = match is_handshake {
            true => status >= 400,
            false => answer.number(answer::PAYLOAD_PRESENT) == Some(1),
        };
        if has_payload {
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            answer.payload.resize(u32::from_le_bytes(length) as usize, 0);
            stream.read_exact(&mut answer.payload)?;
        }
        Ok(answer)
    }

    /// A token's value.
    pub fn value(&self, id: u16) -> Option<&[u8]> {
        self.tokens.iter().find(|token| token.0 == id).map(|token| token.2.as_slice())
    }

    /// A token's text.
    pub fn text(&self, id: u16) -> Option<&str> {
        std::str::from_utf8(self.value(id)?).ok()
    }

    /// A token's number.
    pub fn number(&self, id: u16) -> Option<u64> {
        let bytes = self.value(id)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Status and substatus.
    pub fn outcome(&self) -> (u32, u64) {
        (self.status, self.number(answer::SUBSTATUS).unwrap_or_default())
    }

    /// The payload as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.payload).unwrap_or_default()
    }
}
