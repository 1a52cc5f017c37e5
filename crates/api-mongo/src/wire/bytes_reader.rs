//! Reads the parts of a message, none beyond its end.

use bytes::{Buf, Bytes};

use super::{BadMessage, DOCUMENT_BYTES_MIN};

/// The rest of a message.
pub(super) struct BytesReader {
    rest: Bytes,
}

impl BytesReader {
    pub(super) fn new(rest: Bytes) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Result<Bytes, BadMessage> {
        if bytes > self.rest.len() {
            return Err(BadMessage::Part);
        }
        Ok(self.rest.split_to(bytes))
    }

    /// All that is left.
    pub(super) fn into_rest(self) -> Bytes {
        self.rest
    }

    /// Removes the last bytes.
    pub(super) fn cut_end(&mut self, bytes: usize) -> Result<Bytes, BadMessage> {
        let start = self.rest.len().checked_sub(bytes).ok_or(BadMessage::Part)?;
        Ok(self.rest.split_off(start))
    }

    pub(super) fn u8(&mut self) -> Result<u8, BadMessage> {
        let byte = *self.rest.first().ok_or(BadMessage::Part)?;
        self.rest.advance(1);
        Ok(byte)
    }

    pub(super) fn i32(&mut self) -> Result<i32, BadMessage> {
        let bytes = *self.rest.first_chunk().ok_or(BadMessage::Part)?;
        self.rest.advance(bytes.len());
        Ok(i32::from_le_bytes(bytes))
    }

    /// A text that ends with a zero byte.
    pub(super) fn text(&mut self) -> Result<String, BadMessage> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(BadMessage::Part)?;
        let text = self.rest.split_to(end);
        self.rest.advance(1);
        String::from_utf8(text.to_vec()).map_err(|_| BadMessage::Text)
    }

    /// A BSON document, by the length that it begins with.
    pub(super) fn document(&mut self) -> Result<Bytes, BadMessage> {
        let length = self.rest.first_chunk().ok_or(BadMessage::Part)?;
        let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| BadMessage::Part)?;
        if length < DOCUMENT_BYTES_MIN {
            return Err(BadMessage::Part);
        }
        self.take(length)
    }
}
