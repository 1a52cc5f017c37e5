//! Connections of clients in Direct mode: frames of RNTBD over TLS, many requests at a time.
//!
//! [`connection`] has the loop: frames in, requests under way, answers out. What is in a frame, and
//! what a request means, is in `api-nosql`.

mod connection;
mod outgoing;
mod payload;

use account::{RequestSource, Scheme};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connections::UNWANTED_BYTES_MAX;
use crate::protocol::{self, Protocol, Recognition};

/// The protocol of clients in Direct mode.
pub(crate) struct Rntbd;

impl Protocol for Rntbd {
    fn recognise(start: &[u8]) -> Recognition {
        match start.first_chunk() {
            Some(start) if api_nosql::is_direct(*start) => Recognition::Yes,
            Some(_) => Recognition::No,
            None => Recognition::Unknown,
        }
    }

    /// Serves a connection over TLS. The protocol has no form in clear text, which would show the
    /// signatures of requests on the way: such a connection ends.
    async fn serve<S>(self, stream: S, connection: protocol::Connection) -> anyhow::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let protocol::Connection { gateway, peer, scheme, activity, .. } = connection;
        if scheme == Scheme::Http {
            return Ok(());
        }
        let source = RequestSource::new(scheme, peer.address);
        Ok(connection::serve(stream, gateway, source, activity).await?)
    }
}

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectLimits {
    /// Most requests that are under way; then no more are read.
    pub(crate) requests_max: usize,
    /// Bytes of answers that the client has not taken; above it, no more requests are read.
    pub(crate) unsent_bytes_max: usize,
    /// Bytes of an unwanted payload that are read and dropped; a longer one ends the connection.
    /// A client that is still sending does not see its answer if the connection ends.
    pub(crate) unwanted_bytes_max: u64,
}

impl Default for DirectLimits {
    fn default() -> Self {
        Self {
            requests_max: 1_000,
            unsent_bytes_max: 1 << 20,
            unwanted_bytes_max: UNWANTED_BYTES_MAX,
        }
    }
}
