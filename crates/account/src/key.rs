//! Account keys: base64 texts that are never logged.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The key that every Cosmos DB emulator has; public knowledge, so only for loopback.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The key of the account that development tools for storage use (Azurite); public knowledge, too.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An account key as clients configure it: base64 text of at least 16 bytes. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

/// The text is not base64 of enough bytes to be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an account key is base64 text of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")]
pub struct InvalidKey;

const KEY_BYTES_MIN: usize = 16;
const KEY_BYTES_MAX: usize = 1024;
/// Enough to distinguish keys, too little to find a key by.
const FINGERPRINT_BYTES: usize = 8;
const SHORT_FINGERPRINT_CHARS: usize = 8;

impl Key {
    /// Parses a key text, ignoring white space around it.
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

    /// A key made of the given bytes, which must come from a good source of randomness.
    pub fn from_bytes(bytes: &[u8; 64]) -> Self {
        Key(STANDARD.encode(bytes))
    }

    /// The text, for the owner of the account.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is one of the well-known keys.
    pub fn is_well_known(&self) -> bool {
        self.well_known_of().is_some()
    }

    /// The software it belongs to, if it is a well-known key.
    pub fn well_known_of(&self) -> Option<&'static str> {
        match self.0.as_str() {
            WELL_KNOWN_KEY => Some("the emulator"),
            DEVELOPMENT_KEY => Some("Azurite"),
            _ => None,
        }
    }

    /// Identifies the key without revealing it.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        digest.iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The beginning of the fingerprint, shown to callers that can't state which key they have. For
    /// a key that a person made up, a longer one would allow guesses without asking the server.
    pub fn short_fingerprint(&self) -> String {
        self.fingerprint().chars().take(SHORT_FINGERPRINT_CHARS).collect()
    }

    /// The bytes that signatures are made with.
    pub fn bytes(&self) -> Vec<u8> {
        // Every constructor has made sure that the text decodes.
        STANDARD.decode(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One of the keys of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// For reads and writes.
    Primary,
    /// For reads and writes.
    Secondary,
    /// For reads only.
    PrimaryReadonly,
    /// For reads only.
    SecondaryReadonly,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [KeyKind; 4] = [
        KeyKind::Primary,
        KeyKind::Secondary,
        KeyKind::PrimaryReadonly,
        KeyKind::SecondaryReadonly,
    ];

    /// Its name in the service's management API.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Primary => "primary",
            KeyKind::Secondary => "secondary",
            KeyKind::PrimaryReadonly => "primaryReadonly",
            KeyKind::SecondaryReadonly => "secondaryReadonly",
        }
    }

    /// Parses a name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// The accepted keys of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    /// For reads and writes.
    pub primary: Key,
    /// For reads and writes; allows the primary to be replaced without an outage.
    pub secondary: Option<Key>,
    /// For reads only.
    pub primary_readonly: Option<Key>,
    /// For reads only.
    pub secondary_readonly: Option<Key>,
}

impl KeyRing {
    /// Whether one of the keys is well known.
    pub fn has_well_known(&self) -> bool {
        self.well_known().is_some()
    }

    /// The first well-known key.
    pub fn well_known(&self) -> Option<&Key> {
        KeyKind::ALL.into_iter().filter_map(|kind| self.get(kind)).find(|key| key.is_well_known())
    }

    /// One of the keys, if it is set.
    pub fn get(&self, kind: KeyKind) -> Option<&Key> {
        match kind {
            KeyKind::Primary => Some(&self.primary),
            KeyKind::Secondary => self.secondary.as_ref(),
            KeyKind::PrimaryReadonly => self.primary_readonly.as_ref(),
            KeyKind::SecondaryReadonly => self.secondary_readonly.as_ref(),
        }
    }

    /// Sets or replaces one of the keys.
    pub fn set(&mut self, kind: KeyKind, key: Key) {
        match kind {
            KeyKind::Primary => self.primary = key,
            KeyKind::Secondary => self.secondary = Some(key),
            KeyKind::PrimaryReadonly => self.primary_readonly = Some(key),
            KeyKind::SecondaryReadonly => self.secondary_readonly = Some(key),
        }
    }

    /// A ring with a single key for reads and writes.
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
    fn keys_of_every_emulator_are_known_to_everybody() {
        let mut ring = KeyRing::single(Key::from_bytes(&[1; 64]));
        assert_eq!((ring.primary.is_well_known(), ring.well_known()), (false, None));
        for (text, of) in [(WELL_KNOWN_KEY, "the emulator"), (DEVELOPMENT_KEY, "Azurite")] {
            let key = Key::parse(&format!(" {text}\n")).unwrap();
            assert_eq!(key.well_known_of(), Some(of));
            ring.set(KeyKind::SecondaryReadonly, key.clone());
            assert_eq!((ring.has_well_known(), ring.well_known()), (true, Some(&key)));
        }
    }

    #[test]
    fn keys_are_never_printed() {
        let ring = KeyRing::single(Key::well_known());
        assert!(!format!("{ring:?}").contains("C2y6"));
    }

    #[test]
    fn keys_are_told_apart_by_kind_and_by_fingerprint() {
        let mut ring = KeyRing::single(Key::well_known());
        assert!(ring.has_well_known() && ring.get(KeyKind::Secondary).is_none());
        for (byte, kind) in (1..).zip(KeyKind::ALL) {
            assert_eq!(KeyKind::parse(&kind.name().to_uppercase()), Some(kind));
            let key = Key::from_bytes(&[byte; 64]);
            ring.set(kind, key.clone());
            assert_eq!(ring.get(kind), Some(&key));
            assert_ne!(key.fingerprint(), Key::well_known().fingerprint());
            assert_eq!(key.fingerprint().len(), 16);
            assert_eq!(key.short_fingerprint(), key.fingerprint()[..8]);
        }
        assert!(!ring.has_well_known());
        assert_eq!(KeyKind::parse("tertiary"), None);
    }

    #[test]
    fn short_or_garbled_keys_are_refused() {
        assert_eq!(Key::parse("c2hvcnQ="), Err(InvalidKey));
        assert_eq!(Key::parse("not base64!"), Err(InvalidKey));
        assert_eq!(Key::parse(""), Err(InvalidKey));
    }
}
