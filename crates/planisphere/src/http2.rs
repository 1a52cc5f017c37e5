//! Tells clients that start with HTTP/2 to use HTTP/1.1 instead.
//!
//! The Rust SDK speaks HTTP/2 on a clear-text connection without asking first, and offers nothing
//! else in a TLS handshake. It falls back to HTTP/1.1 only after an HTTP/2 error code; it takes a
//! closed connection for an outage. So the server waits for the first request, and refuses it with
//! the error code for this case (RFC 9113, 7: `HTTP_1_1_REQUIRED`).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::protocol::{Connection, Protocol, Recognition};

/// The name of HTTP/2 in a TLS handshake (ALPN).
pub(crate) const ALPN: &[u8] = b"h2";
/// The first bytes of an HTTP/2 connection; no HTTP/1.1 method starts with them.
const PREFACE_START: &[u8; 4] = b"PRI ";

const PREFACE_BYTES: usize = 24;
/// Larger frames may not be sent without our consent (RFC 9113, 4.2).
const FRAME_BYTES_MAX: u64 = 16 << 10;
/// Frames read in search of a request; clients send one or two before it.
const FRAMES_MAX: usize = 16;
/// Bytes read after the refusal, so that closing does not reset the connection before it arrives.
const DRAIN_BYTES_MAX: u64 = 64 << 10;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const HTTP_1_1_REQUIRED: [u8; 4] = [0, 0, 0, 0xd];

/// HTTP/2, which is refused.
pub(crate) struct Http2;

impl Protocol for Http2 {
    fn recognise(start: &[u8]) -> Recognition {
        match start.iter().zip(PREFACE_START).all(|(byte, expected)| byte == expected) {
            true if start.len() >= PREFACE_START.len() => Recognition::Yes,
            true => Recognition::Unknown,
            false => Recognition::No,
        }
    }

    async fn serve<S>(self, stream: S, _: Connection) -> anyhow::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        Ok(refuse(stream).await?)
    }
}

/// Refuses the first request of an HTTP/2 connection and waits for the client to close it.
async fn refuse<S>(mut stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.read_exact(&mut [0; PREFACE_BYTES]).await?;
    stream.write_all(&frame(SETTINGS, [0; 4], &[])).await?;
    let Some(request) = first_request(&mut stream).await? else { return Ok(()) };
    let refusal_frames = [
        frame(RST_STREAM, request, &HTTP_1_1_REQUIRED),
        frame(GOAWAY, [0; 4], &[request, HTTP_1_1_REQUIRED].concat()),
    ];
    stream.write_all(&refusal_frames.concat()).await?;
    stream.flush().await?;
    tokio::io::copy(&mut stream.take(DRAIN_BYTES_MAX), &mut tokio::io::sink()).await?;
    Ok(())
}

/// The stream id of the first request, if one comes soon.
async fn first_request<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<[u8; 4]>> {
    for _ in 0..FRAMES_MAX {
        let [l1, l2, l3, kind, _flags, s1, s2, s3, s4] = read_array(stream).await?;
        let length = u64::from(u32::from_be_bytes([0, l1, l2, l3]));
        if kind == HEADERS {
            return Ok(Some([s1, s2, s3, s4]));
        }
        if length > FRAME_BYTES_MAX {
            break;
        }
        tokio::io::copy(&mut (&mut *stream).take(length), &mut tokio::io::sink()).await?;
    }
    Ok(None)
}

async fn read_array<S: AsyncRead + Unpin, const N: usize>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A frame without flags; `payload` is at most 255 bytes.
fn frame(kind: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    let mut frame = vec![0, 0, length, kind, 0];
    frame.extend_from_slice(&stream);
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    /// The response to a client that sends `frames` after the preface.
    async fn answer(frames: &[Vec<u8>]) -> (io::Result<()>, Vec<u8>) {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(PREFACE).await.unwrap();
        client.write_all(&frames.concat()).await.unwrap();
        client.shutdown().await.unwrap();
        let outcome = refuse(server).await;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        (outcome, answer)
    }

    #[tokio::test]
    async fn the_first_request_is_refused_in_its_own_words() {
        let stream = [0, 0, 0, 1];
        let frames = [
            frame(SETTINGS, [0; 4], &[0; 6]),
            frame(8, [0; 4], &[0, 0, 1, 0]),
            frame(HEADERS, stream, b"x"),
        ];
        let (outcome, answer) = answer(&frames).await;
        outcome.unwrap();
        let expected = [
            frame(SETTINGS, [0; 4], &[]),
            frame(RST_STREAM, stream, &HTTP_1_1_REQUIRED),
            frame(GOAWAY, [0; 4], &[0, 0, 0, 1, 0, 0, 0, 0xd]),
        ];
        assert_eq!(answer, expected.concat());
    }

    #[tokio::test]
    async fn frames_that_never_make_a_request_come_to_an_end() {
        let (outcome, answered) = answer(&vec![frame(SETTINGS, [0; 4], &[]); 100]).await;
        outcome.unwrap();
        assert_eq!(answered, frame(SETTINGS, [0; 4], &[]));
        let oversized = vec![0xff, 0xff, 0xff, SETTINGS, 0, 0, 0, 0, 0];
        assert!(answer(&[oversized]).await.0.is_ok());
        assert!(answer(&[vec![0, 0, 9]]).await.0.is_err());
    }
}
