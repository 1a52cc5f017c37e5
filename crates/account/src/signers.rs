//! Signatures made with an account's keys.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::{Key, KeyKind, KeyRing};

/// The rights of an authenticated caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Everything.
    ReadWrite,
    /// Reads and queries.
    ReadOnly,
}

/// A key ready to sign with: the hash state after the key is what every signature starts from.
struct Signer {
    key: Key,
    state: Hmac<Sha256>,
    grants: Caller,
}

/// The keys of an account, ready for use.
pub struct Signers {
    signers: Vec<Signer>,
    public: Option<Key>,
    advice: String,
}

impl Signers {
    /// Signers for `keys`.
    pub fn new(keys: &KeyRing) -> Self {
        let writers = [Some(&keys.primary), keys.secondary.as_ref()];
        let readers = [keys.primary_readonly.as_ref(), keys.secondary_readonly.as_ref()];
        let signers = (writers.into_iter().flatten().map(|k| (k, Caller::ReadWrite)))
            .chain(readers.into_iter().flatten().map(|k| (k, Caller::ReadOnly)))
            .filter_map(|(key, grants)| {
                let state = Hmac::new_from_slice(&key.bytes()).ok()?;
                Some(Signer { key: key.clone(), state, grants })
            })
            .collect();
        Self { signers, public: keys.well_known().cloned(), advice: advice(keys) }
    }

    /// Advice for a signature that none of the keys made.
    pub fn advice(&self) -> &str {
        &self.advice
    }

    /// Whether one of the keys is well known.
    pub fn is_public(&self) -> bool {
        self.public.is_some()
    }

    /// The first well-known key.
    pub fn public(&self) -> Option<&Key> {
        self.public.as_ref()
    }

    /// The rights of the key that signed `payload`, if it is one of these.
    pub fn signer_of(&self, payload: &[u8], signature: &[u8]) -> Option<Caller> {
        self.signers.iter().find_map(|signer| {
            let mut mac = signer.state.clone();
            mac.update(payload);
            // Compares in constant time.
            mac.verify_slice(signature).ok().map(|()| signer.grants)
        })
    }

    /// The rights of the key that an `Authorization: Bearer` header carries as plain text.
    pub fn bearer(&self, key: &str) -> Option<Caller> {
        let is_key = |s: &&Signer| bool::from(key.as_bytes().ct_eq(s.key.expose().as_bytes()));
        self.signers.iter().find(is_key).map(|s| s.grants)
    }

    /// The rights of the key in an emulator's stand-in for a directory token: a JWT whose third
    /// part is the text of an account key.
    pub fn stand_in(&self, token: &str) -> Option<Caller> {
        let key = token.rsplit('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let key = key.filter(|_| token.split('.').count() == 3)?;
        self.bearer(std::str::from_utf8(&key).ok()?)
    }
}

fn advice(keys: &KeyRing) -> String {
    let described = KeyKind::ALL.into_iter().filter_map(|kind| {
        let key = keys.get(kind)?;
        let known = key.well_known_of().map(|of| format!(", {of}'s well-known key"));
        let known = known.unwrap_or_default();
        Some(format!("{} {}{known}", kind.name(), key.short_fingerprint()))
    });
    format!(
        "Check the key: the SHA-256 of its text begins with the fingerprint of a key of this \
         server ({}), which `planisphere keys show` tells as well.",
        described.collect::<Vec<_>>().join("; ")
    )
}

/// The signature of `payload` with `key`, in base64.
pub fn sign(key: &Key, payload: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.bytes()).expect("HMAC takes any key length");
    mac.update(payload);
    STANDARD.encode(mac.finalize().into_bytes())
}
