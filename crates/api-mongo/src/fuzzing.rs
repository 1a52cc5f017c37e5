//! Entry points for fuzz targets.

use bytes::Bytes;

use crate::command::Command;
use crate::wire::{MESSAGE_BYTES_MAX, Message, message_length};

/// Reads what a client may send as its first message; true if it is a command.
pub fn message(bytes: &[u8]) -> bool {
    let Ok(Some(length)) = message_length(bytes, MESSAGE_BYTES_MAX) else { return false };
    let Some(bytes) = bytes.get(..length) else { return false };
    let message = Message::read(Bytes::copy_from_slice(bytes));
    message.is_ok_and(|message| Command::read(&message).is_ok())
}
