//! Tokens that say where a feed or query goes on.
//!
//! A token names a position (the key of the last item seen, which begins with its place on the
//! hash line), never a partition, so it stays good when ranges split or merge. It is signed with a
//! secret kept in the catalog, so it survives restarts, and a changed one is refused instead of
//! yielding wrong rows.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use model::ContainerRid;
use sha2::{Digest, Sha256};

use crate::Error;

const VERSION: u8 = 1;
const MAC_BYTES: usize = 12;
const CUT_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + 1 + 8 + 8 + 8;
/// Longer than any token we hand out: an item key is at most about 1.2 KB.
const TOKEN_CHARS_MAX: usize = 8 * 1024;

/// The secret that signs tokens.
#[derive(Clone)]
pub struct TokenKey([u8; 32]);

/// Row keys longer than this are cut in tokens: clients announce a limit of 1 KB for a token, and
/// that must leave room for the longest logical key.
pub(crate) const ROW_KEY_BYTES_MAX: usize = 300;

/// Where a walk stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Rows passed over by OFFSET so far.
    pub(crate) skipped: u64,
    /// Rows returned so far.
    pub(crate) returned: u64,
    /// Identity (logical key and row key) of the last item looked at; its beginning when `cut`.
    pub(crate) identity: Vec<u8>,
    /// Digest of the whole identity, when it was too long for a token.
    pub(crate) cut: Option<[u8; CUT_BYTES]>,
}

impl Position {
    /// Moves on to an item.
    pub(crate) fn set_identity(&mut self, identity: &[u8]) {
        self.identity.clear();
        self.identity.extend_from_slice(identity);
        self.cut = None;
    }

    /// Shortens an identity whose row key is longer than a token can hold.
    pub(crate) fn cut_long_row_key(&mut self, row_key_bytes: usize) {
        if row_key_bytes > ROW_KEY_BYTES_MAX {
            self.cut = Some(cut_digest(&self.identity));
            let kept = self.identity.len() - (row_key_bytes - ROW_KEY_BYTES_MAX);
            self.identity.truncate(kept);
        }
    }
}

/// What tells a cut identity from others that begin alike.
pub(crate) fn cut_digest(identity: &[u8]) -> [u8; CUT_BYTES] {
    let full = Sha256::digest(identity);
    std::array::from_fn(|i| full[i])
}

impl TokenKey {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    fn mac(&self, text: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key length");
        mac.update(text);
        let full = mac.finalize().into_bytes();
        std::array::from_fn(|i| full[i])
    }

    /// Signs `bytes`, whose first one tells this kind of token from all others.
    pub(crate) fn sign(&self, mut bytes: Vec<u8>) -> String {
        let mac = self.mac(&bytes);
        bytes.extend_from_slice(&mac);
        URL_SAFE_NO_PAD.encode(&bytes)
    }

    /// The bytes that were signed, if `token` is as it was given out.
    pub(crate) fn verify(&self, token: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (text, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
        // Tokens are no secrets and open no door; an ordinary comparison is enough.
        if self.mac(text) != *mac {
            return None;
        }
        bytes.truncate(bytes.len() - MAC_BYTES);
        Some(bytes)
    }

    pub(crate) fn seal(&self, container: ContainerRid, position: &Position) -> String {
        let mut out = Vec::with_capacity(HEAD_BYTES + position.identity.len() + MAC_BYTES);
        out.push(VERSION);
        out.push(u8::from(position.cut.is_some()));
        out.extend_from_slice(&container.database.0.to_be_bytes());
        out.extend_from_slice(&container.number.to_be_bytes());
        out.extend_from_slice(&position.skipped.to_be_bytes());
        out.extend_from_slice(&position.returned.to_be_bytes());
        out.extend_from_slice(position.cut.as_ref().map_or(&[], |cut| &cut[..]));
        out.extend_from_slice(&position.identity);
        self.sign(out)
    }

    pub(crate) fn open(&self, container: ContainerRid, token: &str) -> Result<Position, Error> {
        self.read(container, token)
            .ok_or_else(|| Error::BadRequest("The continuation token is invalid.".into()))
    }

    fn read(&self, container: ContainerRid, token: &str) -> Option<Position> {
        if token.len() > TOKEN_CHARS_MAX {
            return None;
        }
        let text = self.verify(token)?;
        if text.len() < HEAD_BYTES || text[0] != VERSION {
            return None;
        }
        let u32_at = |at: usize| text[at..at + 4].try_into().map(u32::from_be_bytes).ok();
        let u64_at = |at: usize| text[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        if u32_at(2)? != container.database.0 || u32_at(6)? != container.number {
            return None;
        }
        let rest = &text[HEAD_BYTES..];
        let (cut, identity) = match text[1] {
            0 => (None, rest),
            _ => rest.split_first_chunk::<CUT_BYTES>().map(|(cut, rest)| (Some(*cut), rest))?,
        };
        let identity = identity.to_vec();
        Some(Position { skipped: u64_at(10)?, returned: u64_at(18)?, identity, cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::DatabaseRid;

    #[test]
    fn tokens_open_only_unchanged_and_for_their_container() {
        let key = TokenKey::new([3; 32]);
        let rid = ContainerRid { database: DatabaseRid(1), number: 2 };
        let identity = b"key\0id".to_vec();
        let position = Position { skipped: 1, returned: 5, identity, cut: Some([9; CUT_BYTES]) };
        let token = key.seal(rid, &position);
        assert_eq!(key.open(rid, &token).unwrap(), position);
        let other = ContainerRid { number: 3, ..rid };
        assert!(key.open(other, &token).is_err());
        assert!(TokenKey::new([4; 32]).open(rid, &token).is_err());
        for (at, _) in token.char_indices() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(key.open(rid, std::str::from_utf8(&changed).unwrap()).is_err());
        }
        for bad in ["", "zz", "0", "é0", &"0".repeat(10_000)] {
            assert!(key.open(rid, bad).is_err());
        }
    }
}
