//! What names an item within its logical partition.

use std::borrow::{Borrow, Cow};
use std::fmt;

use bytes::Bytes;

/// What names an item within its logical partition, in the order in which items of the partition
/// are stored. Of items with a text id it is the id in UTF-8; an API with other ids chooses an
/// encoding that orders them. The engine compares it and reads nothing into it.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(Bytes);

impl RowKey {
    /// The row key of these bytes.
    pub fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// A copy of stored bytes.
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The id of which it was made, if the container's ids are texts. For others it is good for
    /// messages only.
    pub fn as_text(&self) -> Cow<'_, str> {
        text_of(&self.0)
    }
}

/// The text form of a row key: the id that it is in UTF-8, or its bytes in hexadecimal.
pub(crate) fn text_of(row_key: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(row_key) {
        Ok(text) => text.into(),
        Err(_) => row_key.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowKey({:?})", self.as_text())
    }
}

impl From<String> for RowKey {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl From<&str> for RowKey {
    fn from(id: &str) -> Self {
        Self::copy_of(id.as_bytes())
    }
}

impl AsRef<[u8]> for RowKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for RowKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_id_and_other_bytes_are_shown_in_hexadecimal() {
        assert_eq!(RowKey::from("a\u{0}é").as_text(), "a\u{0}é");
        assert_eq!(RowKey::new(Bytes::from_static(&[0x48, 0xFF, 0])).as_text(), "48ff00");
    }
}
