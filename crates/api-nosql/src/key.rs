//! Account keys: base64 texts that are never printed.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The key every Cosmos DB emulator has; public knowledge, so only for loopback.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// An account key as clients configure it: base64 text of at least 16 bytes. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// The text is not base64 of enough bytes to be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an account key is base64 text of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")]
pub struct InvalidKey;

const KEY_BYTES_MIN: usize = 16;
const KEY_BYTES_MAX: usize = 1024;

impl Key {
    /// Checks a key text; white space around it is dropped.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let text = text.trim();
        let bytes = STANDARD.decode(text).map_err(|_| InvalidKey)?;
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes.len()) {
            return Err(InvalidKey);
        }
        Ok(Key(text.to_owned()))
    }

    /// The emulator's key.
    pub fn well_known() -> Self {
        Key(WELL_KNOWN_KEY.to_owned())
    }

    /// A key made of the given bytes, which the caller took from a good source of randomness.
    pub fn from_bytes(bytes: &[u8; 64]) -> Self {
        Key(STANDARD.encode(bytes))
    }

    /// The text, for handing to the person who owns the account.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The bytes signatures are made with.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // Every constructor has made sure that the text decodes.
        STANDARD.decode(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The keys an account accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    /// May do everything.
    pub primary: Key,
    /// May do everything; there so that the primary can be replaced without an outage.
    pub secondary: Option<Key>,
    /// May only read.
    pub primary_readonly: Option<Key>,
    /// May only read.
    pub secondary_readonly: Option<Key>,
}

impl KeyRing {
    /// Whether one of the keys is the one that everybody knows.
    pub fn has_well_known(&self) -> bool {
        let others = [&self.secondary, &self.primary_readonly, &self.secondary_readonly];
        let all = std::iter::once(&self.primary).chain(others.into_iter().flatten());
        all.into_iter().any(|key| key.expose() == WELL_KNOWN_KEY)
    }

    /// A ring with one key that may do everything.
    pub fn single(primary: Key) -> Self {
        Self { primary, secondary: None, primary_readonly: None, secondary_readonly: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_key_is_a_key() {
        assert_eq!(Key::parse(WELL_KNOWN_KEY), Ok(Key::well_known()));
        assert_eq!(Key::well_known().bytes().len(), 64);
    }

    #[test]
    fn keys_are_never_printed() {
        let ring = KeyRing::single(Key::well_known());
        assert!(!format!("{ring:?}").contains("C2y6"));
    }

    #[test]
    fn short_or_garbled_keys_are_refused() {
        assert_eq!(Key::parse("c2hvcnQ="), Err(InvalidKey));
        assert_eq!(Key::parse("not base64!"), Err(InvalidKey));
        assert_eq!(Key::parse(""), Err(InvalidKey));
    }
}
