//! `OP_COMPRESSED`: a message of another kind, compressed.

use std::io::{Read, Write};

use bytes::Bytes;

use super::{BadMessage, BytesReader, HEAD_BYTES, MESSAGE_BYTES_MAX};

/// A way to compress messages, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Compressor {
    /// Snappy's block format.
    Snappy = 1,
    /// Zlib.
    Zlib = 2,
    /// Zstandard.
    Zstd = 3,
}

/// The number of a message that is wrapped and not compressed.
const NOOP: u8 = 0;

impl Compressor {
    /// All of them, in the order in which the server prefers them.
    pub const ALL: [Compressor; 3] = [Compressor::Zstd, Compressor::Zlib, Compressor::Snappy];

    /// Its name in `hello`.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compressor| compressor.name() == name)
    }

    /// Appends a compressed message without its head.
    pub(super) fn write(
        self,
        op_code: i32,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadMessage> {
        let length = i32::try_from(content.len()).map_err(|_| BadMessage::Compression)?;
        out.extend_from_slice(&op_code.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.push(self as u8);
        let failed = |_| BadMessage::Compression;
        match self {
            Compressor::Snappy => {
                let compressed = snap::raw::Encoder::new().compress_vec(content);
                out.extend_from_slice(&compressed.map_err(|_| BadMessage::Compression)?);
            }
            Compressor::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(out, flate2::Compression::fast());
                encoder.write_all(content).map_err(failed)?;
                encoder.finish().map_err(failed)?;
            }
            Compressor::Zstd => {
                let compressed = zstd::bulk::compress(content, zstd::DEFAULT_COMPRESSION_LEVEL);
                out.extend_from_slice(&compressed.map_err(failed)?);
            }
        }
        Ok(())
    }

    /// What was compressed to `bytes`, which must have exactly this length.
    fn inflate(self, bytes: &[u8], length: usize) -> Result<Vec<u8>, BadMessage> {
        let failed = |_| BadMessage::Compression;
        let content = match self {
            Compressor::Snappy => {
                if snap::raw::decompress_len(bytes) != Ok(length) {
                    return Err(BadMessage::Compression);
                }
                let content = snap::raw::Decoder::new().decompress_vec(bytes);
                content.map_err(|_| BadMessage::Compression)?
            }
            Compressor::Zlib => {
                let mut content = Vec::new();
                let most = (length as u64).saturating_add(1);
                flate2::read::ZlibDecoder::new(bytes)
                    .take(most)
                    .read_to_end(&mut content)
                    .map_err(failed)?;
                content
            }
            Compressor::Zstd => zstd::bulk::decompress(bytes, length).map_err(failed)?,
        };
        if content.len() == length { Ok(content) } else { Err(BadMessage::Compression) }
    }
}

/// Reads a compressed message: its kind, how it was compressed, and its content without a head.
pub(super) fn read(
    mut reader: BytesReader,
) -> Result<(i32, Option<Compressor>, Bytes), BadMessage> {
    let (op_code, length, number) = (reader.i32()?, reader.i32()?, reader.u8()?);
    let length = usize::try_from(length).map_err(|_| BadMessage::Compression)?;
    if length > MESSAGE_BYTES_MAX - HEAD_BYTES {
        return Err(BadMessage::Compression);
    }
    if number == NOOP {
        let is_whole = reader.len() == length;
        return match is_whole {
            true => Ok((op_code, None, reader.into_rest())),
            false => Err(BadMessage::Compression),
        };
    }
    let compressor = Compressor::ALL.into_iter().find(|compressor| *compressor as u8 == number);
    let compressor = compressor.ok_or(BadMessage::Compression)?;
    let content = compressor.inflate(&reader.into_rest(), length)?;
    Ok((op_code, Some(compressor), content.into()))
}
