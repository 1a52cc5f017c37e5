//! TLS to the server, and a connection in Direct mode over it.

#![expect(clippy::little_endian_bytes, reason = "numbers of frames have their lowest byte first")]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use testkit::rntbd::{Answer, Frame, answer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::Connection;

/// Most bytes of an answer that are buffered.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Bytes of the length of a head or of a payload.
const LENGTH_BYTES: usize = 4;

/// Opens connections that trust one server's authority.
#[derive(Clone)]
pub struct Tls {
    address: SocketAddr,
    connector: TlsConnector,
}

impl Tls {
    /// Asks the server at `address` for the certificate to trust.
    pub async fn trusting(address: SocketAddr) -> anyhow::Result<Self> {
        let mut clear = Connection::open(address).await?;
        let request = b"GET /_explorer/emulator.pem HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let reply = clear.exchange(request).await?;
        anyhow::ensure!(reply.status == 200, "the certificate: {}", reply.status);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(reply.body).context("no certificate")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// A connection after the handshake of TLS.
    pub async fn open(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}

/// A connection after its own handshake.
pub struct DirectConnection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl DirectConnection {
    /// Connects and shakes hands.
    pub async fn open(tls: &Tls) -> io::Result<Self> {
        let stream = tls.open().await?;
        let mut connection = Self { stream, buffer: Vec::with_capacity(8 << 10) };
        connection.send(&Frame::context().to_bytes()).await?;
        // The answer announces no payload, and has none unless it is a refusal.
        let length = connection.length_at(0).await?;
        connection.fill_to(length).await?;
        let answer = Answer::read(&mut &connection.buffer[..])?;
        connection.buffer.drain(..length);
        match answer.status {
            200 => Ok(connection),
            status => Err(io::Error::other(format!("the handshake was answered {status}"))),
        }
    }

    /// Sends one frame.
    pub async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame).await?;
        self.stream.flush().await
    }

    /// The next answer, of whichever request it is.
    pub async fn next_answer(&mut self) -> io::Result<Answer> {
        let head = self.length_at(0).await?;
        self.fill_to(head).await?;
        let mut whole = head;
        if has_payload(&self.buffer[..head]) {
            whole += LENGTH_BYTES + self.length_at(head).await?;
            self.fill_to(whole).await?;
        }
        let answer = Answer::read(&mut &self.buffer[..whole])?;
        self.buffer.drain(..whole);
        Ok(answer)
    }

    async fn length_at(&mut self, at: usize) -> io::Result<usize> {
        self.fill_to(at + LENGTH_BYTES).await?;
        let bytes = self.buffer[at..].first_chunk().copied().unwrap_or_default();
        usize::try_from(u32::from_le_bytes(bytes)).map_err(io::Error::other)
    }

    async fn fill_to(&mut self, length: usize) -> io::Result<()> {
        if length > ANSWER_BYTES_MAX {
            return Err(io::Error::other("the answer is larger than this client accepts"));
        }
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// Whether the head of an answer, whose first two tokens are its number and this one, says so.
fn has_payload(head: &[u8]) -> bool {
    const AT: usize = 24 + 7;
    let [id, _] = answer::PAYLOAD_PRESENT.to_le_bytes();
    head.get(AT..AT + 4) == Some(&[id, 0, 0, 1])
}
