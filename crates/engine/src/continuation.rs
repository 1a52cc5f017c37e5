//! Tokens that say where a listing or query continues.
//!
//! A token names a position (the key of the last item seen, which begins with its position on the
//! hash line, its number, or the sort key of the last row), never a partition, so it stays valid when ranges
//! split or merge. It is signed with a secret kept in the catalog, so it survives restarts, and a
//! changed token is refused instead of yielding wrong rows.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use model::{ContainerRid, Epk, EpkRange, limits};
use query::exec::{ItemOrder, RowPosition};
use sha2::{Digest, Sha256};

use crate::{Error, InvalidRequest};

/// Distinguishes these tokens from all others.
const VERSION: u8 = 6;
/// First bytes of tokens of earlier builds, whose positions mean something else.
const OUTDATED: [u8; 2] = [1, 5];
const MAC_BYTES: usize = 12;
const CUT_BYTES: usize = query::exec::CUT_BYTES;

/// The secret that signs tokens.
#[derive(Clone)]
pub struct TokenKey([u8; 32]);

/// Row keys longer than this are cut in tokens: clients announce a limit of 1 KB for a token, and
/// that must leave room for the longest logical key.
pub(crate) const ROW_KEY_BYTES_MAX: usize = 300;
/// Sort keys longer than this are cut in tokens.
const SORT_KEY_BYTES_MAX: usize = 400;

/// Where a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PagePosition {
    /// How far the query has come. The position of an item is its identity: logical key and row
    /// key.
    pub(crate) query: query::exec::Position,
    /// Digest of the whole identity, when it was too long for a token.
    pub(crate) cut: Option<[u8; CUT_BYTES]>,
    /// The traversal along the hash line, for rows that come in the order of their items.
    pub(crate) traversal: Option<Traversal>,
}

/// A traversal along the hash line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traversal {
    /// Where it began.
    pub(crate) from: Epk,
    /// The bounds of the range in which it is, as they were when it came there; nothing, if it is
    /// about to come to another one.
    pub(crate) bounds: EpkRange,
    /// The order in which it visits the items of that range.
    pub(crate) order: ItemOrder,
}

/// Longest bound of a traversal within a part of a range that a client names.
pub(crate) const BOUND_BYTES_MAX: usize = 64;

impl PagePosition {
    /// The identity of the item that the page begins after or with, or its prefix.
    pub(crate) fn identity(&self) -> &[u8] {
        match &self.query.at {
            RowPosition::Item { identity, .. } => identity,
            RowPosition::Start | RowPosition::Number { .. } | RowPosition::Key { .. } => &[],
        }
    }

    /// Shortens keys that are longer than a token can hold. `row_key_bytes` is the length of the
    /// row key at the end of the identity.
    pub(crate) fn cut_long_keys(&mut self, row_key_bytes: usize) {
        self.query.at.cut_long_key(SORT_KEY_BYTES_MAX);
        if let RowPosition::Item { identity, .. } = &mut self.query.at
            && row_key_bytes > ROW_KEY_BYTES_MAX
        {
            self.cut = Some(cut_digest(identity));
            let kept = identity.len() - (row_key_bytes - ROW_KEY_BYTES_MAX);
            identity.truncate(kept);
        }
    }
}

/// Distinguishes a cut identity from others with the same prefix.
pub(crate) fn cut_digest(identity: &[u8]) -> [u8; CUT_BYTES] {
    let full = Sha256::digest(identity);
    std::array::from_fn(|i| full[i])
}

impl TokenKey {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// A secret for another purpose, derived from this one.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key length");
        mac.update(b"derived secret: ");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn mac(&self, text: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key length");
        mac.update(text);
        let full = mac.finalize().into_bytes();
        std::array::from_fn(|i| full[i])
    }

    /// Signs `bytes`, whose first one distinguishes this kind of token from all others.
    pub(crate) fn sign(&self, mut bytes: Vec<u8>) -> String {
        let mac = self.mac(&bytes);
        bytes.extend_from_slice(&mac);
        URL_SAFE_NO_PAD.encode(&bytes)
    }

    /// The bytes that were signed, if `token` is unchanged.
    pub(crate) fn verify(&self, token: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (text, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
        // Tokens are no secrets and grant no access; an ordinary comparison is enough.
        if self.mac(text) != *mac {
            return None;
        }
        bytes.truncate(bytes.len() - MAC_BYTES);
        Some(bytes)
    }

    pub(crate) fn seal(&self, container: ContainerRid, position: &PagePosition) -> String {
        let query::exec::Position { skipped, returned, at, .. } = &position.query;
        let (kind, cut, rows, number, bytes) = match at {
            RowPosition::Start => (Kind::Start, None, 0, 0, &[][..]),
            RowPosition::Item { identity, rows } => {
                (Kind::Item, position.cut, *rows, 0, identity.as_slice())
            }
            RowPosition::Number { number, rows } => (Kind::Number, None, *rows, *number, &[][..]),
            RowPosition::Key { key, cut, tie, rows } => {
                (Kind::Key, *cut, *rows, *tie, key.as_slice())
            }
        };
        let mut out = Vec::with_capacity(2 + 5 * 8 + CUT_BYTES + bytes.len() + MAC_BYTES);
        out.push(VERSION);
        out.push(kind as u8 | if cut.is_some() { IS_CUT } else { 0 });
        out.extend_from_slice(&container.database.0.to_be_bytes());
        out.extend_from_slice(&container.number.to_be_bytes());
        for count in [*skipped, *returned, rows, number] {
            out.extend_from_slice(&count.to_be_bytes());
        }
        out.extend_from_slice(cut.as_ref().map_or(&[], |cut| &cut[..]));
        push_traversal(position.traversal.as_ref(), &mut out);
        out.extend_from_slice(bytes);
        self.sign(out)
    }

    pub(crate) fn open(&self, container: ContainerRid, token: &str) -> Result<PagePosition, Error> {
        self.read(container, token).ok_or_else(|| self.refuse(token))
    }

    /// Why a token can't be opened.
    pub(crate) fn refuse(&self, token: &str) -> Error {
        let is_short = token.len() <= limits::GATHERED_CONTINUATION_CHARS_MAX;
        let text = if is_short { self.verify(token) } else { None };
        let version = text.and_then(|text| text.first().copied());
        match version.is_some_and(|version| OUTDATED.contains(&version)) {
            true => InvalidRequest::OldContinuation.into(),
            false => InvalidRequest::Continuation.into(),
        }
    }

    fn read(&self, container: ContainerRid, token: &str) -> Option<PagePosition> {
        if token.len() > limits::CONTINUATION_READ_CHARS_MAX {
            return None;
        }
        let text = self.verify(token)?;
        let mut text = Fields(&text);
        let [version, kind] = text.array()?;
        let database = u32::from_be_bytes(text.array()?);
        let number = u32::from_be_bytes(text.array()?);
        if version != VERSION || (database, number) != (container.database.0, container.number) {
            return None;
        }
        let mut count = || text.array().map(u64::from_be_bytes);
        let (skipped, returned, rows, number) = (count()?, count()?, count()?, count()?);
        let cut = if kind & IS_CUT == 0 { None } else { Some(text.array()?) };
        let traversal = read_traversal(&mut text)?;
        let bytes = text.0.to_vec();
        let (at, cut) = match Kind::of(kind & !IS_CUT)? {
            Kind::Start => (RowPosition::Start, None),
            Kind::Item => (RowPosition::Item { identity: bytes, rows }, cut),
            Kind::Number => (RowPosition::Number { number, rows }, None),
            Kind::Key => (RowPosition::Key { key: bytes, cut, tie: number, rows }, None),
        };
        Some(PagePosition {
            query: query::exec::Position { skipped, returned, at, floor: None },
            cut,
            traversal,
        })
    }
}

/// How a token names a row.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Start = 0,
    Item = 1,
    Key = 2,
    Number = 3,
}

/// Added to the kind when the key that follows was cut.
const IS_CUT: u8 = 0x80;

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Kind::Start, Kind::Item, Kind::Key, Kind::Number]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Stands for a traversal that has no order, or where it began if that is the start of its range.
const NOTHING: u8 = u8::MAX;

fn push_traversal(traversal: Option<&Traversal>, out: &mut Vec<u8>) {
    let Some(Traversal { from, bounds, order }) = traversal else { return out.push(NOTHING) };
    out.push(match order {
        ItemOrder::Identity => 0,
        ItemOrder::Number => 1,
    });
    push_bound(&bounds.min, out);
    push_bound(&bounds.max, out);
    match *from == bounds.min {
        true => out.push(NOTHING),
        false => push_bound(from, out),
    }
}

/// A bound, which no hash makes longer than this.
fn push_bound(bound: &Epk, out: &mut Vec<u8>) {
    let bytes = bound.as_bytes();
    let bytes = &bytes[..bytes.len().min(usize::from(NOTHING) - 1)];
    out.push(u8::try_from(bytes.len()).unwrap_or(NOTHING));
    out.extend_from_slice(bytes);
}

fn read_traversal(text: &mut Fields<'_>) -> Option<Option<Traversal>> {
    let order = match text.array()? {
        [NOTHING] => return Some(None),
        [0] => ItemOrder::Identity,
        [1] => ItemOrder::Number,
        _ => return None,
    };
    let mut bound = |missing: Option<Epk>| match text.array()? {
        [NOTHING] => missing,
        [length] => text.take(usize::from(length)).map(Epk::from_bytes),
    };
    let bounds = EpkRange { min: bound(None)?, max: bound(None)? };
    let from = bound(Some(bounds.min.clone()))?;
    Some(Some(Traversal { from, bounds, order }))
}

/// The fields of a token that are still to be read.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `count` bytes, if there are as many.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::DatabaseRid;

    fn traversals() -> [Option<Traversal>; 3] {
        let bound = |bytes: &[u8]| Epk::from_bytes(bytes);
        let bounds = EpkRange { min: bound(&[1]), max: bound(&[9; 16]) };
        let traversal = Traversal { from: bound(&[1]), bounds, order: ItemOrder::Number };
        let round =
            Traversal { from: bound(&[200]), order: ItemOrder::Identity, ..traversal.clone() };
        [None, Some(traversal), Some(round)]
    }

    #[test]
    fn tokens_open_only_unchanged_and_for_their_container() {
        let key = TokenKey::new([3; 32]);
        let rid = ContainerRid { database: DatabaseRid(1), number: 2 };
        let bytes = b"key\0id".to_vec();
        let cut = Some([9; CUT_BYTES]);
        let positions = [
            (RowPosition::Start, None),
            (RowPosition::Number { number: 1 << 40, rows: u64::MAX }, None),
            (RowPosition::Item { identity: bytes.clone(), rows: 3 }, None),
            (RowPosition::Item { identity: bytes.clone(), rows: u64::MAX }, cut),
            (RowPosition::Key { key: bytes.clone(), cut, tie: 1 << 40, rows: 0 }, None),
            (RowPosition::Key { key: Vec::new(), cut: None, tie: 0, rows: u64::MAX }, None),
        ];
        for (at, cut) in positions {
            let query = query::exec::Position { skipped: 1, returned: 5, at, floor: None };
            for traversal in traversals() {
                let position = PagePosition { query: query.clone(), cut, traversal };
                assert_eq!(key.open(rid, &key.seal(rid, &position)).unwrap(), position);
            }
        }
        let at = RowPosition::Item { identity: bytes, rows: 1 };
        let query = query::exec::Position { at, ..Default::default() };
        let token = key.seal(rid, &PagePosition { query, cut, traversal: None });
        let other = ContainerRid { number: 3, ..rid };
        assert!(key.open(other, &token).is_err());
        assert!(TokenKey::new([4; 32]).open(rid, &token).is_err());
        for (at, _) in token.char_indices() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(key.open(rid, std::str::from_utf8(&changed).unwrap()).is_err());
        }
        for old in [1, 5] {
            let refused = key.open(rid, &key.sign(vec![old; 40])).unwrap_err();
            let Error::InvalidRequest(why) = refused else { panic!("{refused:?}") };
            let is_old = matches!(*why, InvalidRequest::OldContinuation);
            assert!(is_old, "{why:?}");
        }
        for bad in ["", "zz", "0", "é0", &"0".repeat(10_000)] {
            assert!(key.open(rid, bad).is_err());
        }
    }
}
