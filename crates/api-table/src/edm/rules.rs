//! Limits and rules for entities in each flavour.

/// Most characters of a property's name.
pub(super) const NAME_CHARS_MAX: usize = 255;

/// Limits and rules of a flavour.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Largest entity, by the service's formula.
    pub entity_bytes_max: usize,
    /// Most properties beside keys and timestamp.
    pub properties_max: usize,
    /// Largest value: bytes of a binary, or of a string in UTF-16.
    pub value_bytes_max: usize,
    /// Longest partition key.
    pub partition_key_max: KeyLength,
    /// Longest row key.
    pub row_key_max: KeyLength,
    /// Whether keys may be empty.
    pub are_empty_keys_taken: bool,
    /// Whether keys may have control characters.
    pub are_control_characters_taken: bool,
    /// Names that are not allowed for properties.
    pub reserved_names: &'static [&'static str],
    /// Names whose properties are silently not stored.
    pub dropped_names: &'static [&'static str],
    /// Whether all errors in values have the same message.
    pub are_wrong_values_alike: bool,
    /// Whether an error shows the invalid name.
    pub are_names_shown: bool,
    /// Whether keys in the body of an update must be strings, although the keys in the address
    /// apply.
    pub are_sent_keys_checked: bool,
}

/// How long a key may be.
#[derive(Clone, Copy, Debug)]
pub enum KeyLength {
    /// In code units of UTF-16.
    Units(usize),
    /// In bytes of UTF-8.
    Bytes(usize),
}

impl KeyLength {
    pub(super) fn admits(self, key: &str) -> bool {
        match self {
            KeyLength::Units(max) => key.len() <= max || key.encode_utf16().count() <= max,
            KeyLength::Bytes(max) => key.len() <= max,
        }
    }
}

impl Rules {
    /// The rules of the storage service.
    pub const STORAGE: Rules = Rules {
        entity_bytes_max: 1024 * 1024,
        properties_max: 252,
        value_bytes_max: 64 * 1024,
        partition_key_max: KeyLength::Units(512),
        row_key_max: KeyLength::Units(512),
        are_empty_keys_taken: true,
        are_control_characters_taken: false,
        reserved_names: &[],
        dropped_names: &[],
        are_wrong_values_alike: false,
        are_names_shown: false,
        are_sent_keys_checked: false,
    };

    /// The rules of Cosmos DB.
    pub const COSMOS: Rules = Rules {
        entity_bytes_max: 2 * 1024 * 1024,
        properties_max: 252,
        value_bytes_max: 2 * 1024 * 1024,
        partition_key_max: KeyLength::Bytes(1024),
        row_key_max: KeyLength::Bytes(255),
        are_empty_keys_taken: false,
        are_control_characters_taken: true,
        reserved_names: &["id", "rid", "ResourceId"],
        // The service keeps `etag` but not this one (SDK tests).
        dropped_names: &["Etag"],
        are_wrong_values_alike: true,
        are_names_shown: true,
        are_sent_keys_checked: true,
    };
}
