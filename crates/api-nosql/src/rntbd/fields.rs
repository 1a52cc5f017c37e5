//! What the tokens of one request say, in one pass over its head.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use crate::headers::{HeaderName, Headers};
use crate::request::DirectFields;
use crate::{Consistency, replica};
use model::ContainerRid;

use super::BadFrame;
use super::request_tokens::{self, FORMATS, Field, Form, Meaning, NAMES, Name, REQUEST_TOKENS};
use super::token::{Token, TokenType, Tokens};

/// The tokens of a request. Names are kept by their position in the head.
#[derive(Debug)]
pub(super) struct Fields {
    pub has_payload: Option<bool>,
    pub number: Option<u32>,
    pub headers: Headers,
    pub direct: DirectFields,
    /// The raw resource id.
    pub resource_id: Span,
    names: [Span; NAMES],
    /// Of `Match`, which becomes one of two headers.
    pub condition: Span,
    /// A value that its header can't have.
    pub invalid: Option<InvalidValue>,
}

/// Where a value lies in the head; empty if it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(super) fn of(self, head: &[u8]) -> Option<&[u8]> {
        if self == Self::default() {
            return None;
        }
        head.get(self.start as usize..self.end as usize)
    }
}

/// A number that stands for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidValue {
    pub header: HeaderName,
    pub number: u32,
}

/// Bits for the rows of the table, to find tokens that are there twice.
const SEEN_WORDS: usize = REQUEST_TOKENS.len().div_ceil(64);

impl Fields {
    /// Reads the tokens of a head, of which `first` bytes are no tokens. A client that asks for more
    /// consistency than the account has gets what the account has: Direct clients read metadata
    /// with the strongest level whatever the account says. `number` is that of the request, also if
    /// an error follows it.
    pub(super) fn read(
        head: &[u8],
        first: usize,
        account: Consistency,
        number: &mut Option<u32>,
    ) -> Result<Self, BadFrame> {
        let mut fields = Self {
            has_payload: None,
            number: None,
            headers: Headers::new(),
            direct: DirectFields::default(),
            resource_id: Span::default(),
            names: [Span::default(); NAMES],
            condition: Span::default(),
            invalid: None,
        };
        let mut seen = [0u64; SEEN_WORDS];
        let mut tokens = Tokens::new(head, first);
        while let Some(token) = tokens.next()? {
            if token.kind.is_text() && std::str::from_utf8(token.value).is_err() {
                return Err(BadFrame::NotText);
            }
            let Some((row, known)) = request_tokens::find(token.id) else { continue };
            if known.kind != token.kind {
                return Err(BadFrame::WrongType);
            }
            let (word, bit) = (row / 64, 1u64 << (row % 64));
            if seen[word] & bit != 0 {
                return Err(BadFrame::Duplicate);
            }
            seen[word] |= bit;
            match known.meaning {
                Meaning::Ignored => {}
                Meaning::Name(name) => fields.names[name as usize] = span(&token),
                Meaning::Header(header, form) => fields.header(header, form, &token),
                Meaning::Field(field) => {
                    fields.field(field, &token, account);
                    *number = fields.number;
                }
            }
        }
        Ok(fields)
    }

    /// A name of the address. Empty ones count as absent.
    pub(super) fn name<'f>(&self, head: &'f [u8], name: Name) -> Option<&'f str> {
        let text = self.names[name as usize].of(head)?;
        std::str::from_utf8(text).ok().filter(|text| !text.is_empty())
    }

    fn field(&mut self, field: Field, token: &Token<'_>, account: Consistency) {
        match field {
            Field::PayloadPresent => self.has_payload = Some(token.byte() != 0),
            Field::TransportRequestId => self.number = Some(token.ulong()),
            Field::ResourceId => self.resource_id = span(token),
            Field::Match => self.condition = span(token),
            Field::ReplicaPath => self.direct.replica = Some(replica::of_path(token.text())),
            Field::CollectionRid => match ContainerRid::parse(token.text()) {
                Some(rid) => self.direct.container = Some(rid),
                None => self.direct.is_unknown_container = true,
            },
            Field::RemainingTime => self.direct.remaining_ms = Some(token.ulong()),
            Field::ConsistencyLevel => match LEVELS.get(usize::from(token.byte())) {
                Some(level) if level.strength() <= account.strength() => {
                    self.headers.set(HeaderName::ConsistencyLevel, level.name().as_bytes());
                }
                Some(_) => {}
                None => self.refuse(HeaderName::ConsistencyLevel, token.byte().into()),
            },
        }
    }

    fn header(&mut self, header: HeaderName, form: Form, token: &Token<'_>) {
        match form {
            Form::Text => self.headers.set(header, token.value),
            Form::Boolean => {
                let text: &[u8] = if token.byte() != 0 { b"True" } else { b"False" };
                self.headers.set(header, text);
            }
            Form::Number => self.number_header(header, number_of(token).into()),
            Form::PageSize => {
                self.number_header(
                    header,
                    i32::from_le_bytes(number_of(token).to_le_bytes()).into(),
                );
            }
            Form::Word(first, words) => {
                let at = token.byte().checked_sub(first).map(usize::from);
                match at.and_then(|at| words.get(at)) {
                    Some(word) => self.headers.add(header, word.as_bytes()),
                    None => self.refuse(header, token.byte().into()),
                }
            }
            Form::Formats => self.formats(header, token.byte()),
            Form::Bound => self.bound(header, token.value),
        }
    }

    fn number_header(&mut self, header: HeaderName, number: i64) {
        self.headers.set(header, itoa::Buffer::new().format(number).as_bytes());
    }

    fn formats(&mut self, header: HeaderName, bits: u8) {
        if usize::from(bits) >= 1 << FORMATS.len() {
            return self.refuse(header, bits.into());
        }
        let mut text = [0; 32];
        let mut length = 0;
        let is_set = |at: usize| bits & (1 << at) != 0;
        for (_, format) in FORMATS.iter().enumerate().filter(|(at, _)| is_set(*at)) {
            let comma: &[u8] = if length > 0 { b"," } else { b"" };
            for byte in comma.iter().chain(format.as_bytes()) {
                text[length] = *byte;
                length += 1;
            }
        }
        if length > 0 {
            self.headers.set(header, &text[..length]);
        }
    }

    /// A bound of the hash line. Ranges are sent as text in hexadecimal, single keys as bytes.
    fn bound(&mut self, header: HeaderName, value: &[u8]) {
        if value.iter().all(u8::is_ascii_hexdigit) {
            return self.headers.set(header, value);
        }
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let digits = |byte: &u8| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
        let text: Vec<u8> = value.iter().flat_map(digits).collect();
        self.headers.set(header, &text);
    }

    fn refuse(&mut self, header: HeaderName, number: u32) {
        self.invalid = Some(InvalidValue { header, number });
    }
}

/// The levels of consistency by their numbers.
const LEVELS: [Consistency; 5] = [
    Consistency::Strong,
    Consistency::BoundedStaleness,
    Consistency::Session,
    Consistency::Eventual,
    Consistency::ConsistentPrefix,
];

fn number_of(token: &Token<'_>) -> u32 {
    if token.kind == TokenType::Byte { token.byte().into() } else { token.ulong() }
}

/// Where a token's value lies in its head.
fn span(token: &Token<'_>) -> Span {
    let bound = |at: usize| u32::try_from(at).unwrap_or_default();
    Span { start: bound(token.at), end: bound(token.at + token.value.len()) }
}
