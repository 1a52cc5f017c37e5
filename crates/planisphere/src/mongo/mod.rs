//! Connections of MongoDB's clients: one message after the other, each with a reply.
//!
//! [`connection`] has the loop; what is in a message, and what a command means, is in `api-mongo`.

mod connection;

use api_mongo::{Entry, Personality};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connections::WatchedStream;
use crate::protocol::{Connection, Protocol, Recognition};
use crate::{machine, metrics};

/// The protocol of MongoDB, on a listener that presents the server as this.
pub(crate) struct Mongo(pub(crate) Personality);

impl Protocol for Mongo {
    /// Any client. One that speaks another protocol is found out by its first message, and gets no
    /// answer.
    fn recognise(_: &[u8]) -> Recognition {
        Recognition::Yes
    }

    async fn serve<S>(self, stream: S, connection: Connection) -> anyhow::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Connection { gateway, peer, scheme, local, client: address, server_name, activity } =
            connection;
        let entry = Entry {
            personality: self.0,
            port: local.port(),
            host: server_name,
            peer: address,
            scheme,
            is_trusted: peer.listener.trusts_machine && peer.is_local && gateway.is_on_loopback,
        };
        let client = gateway.mongo.connect(entry);
        let stream = WatchedStream::new(stream, std::sync::Arc::clone(&activity));
        Ok(connection::serve(stream, client, &gateway, &activity).await?)
    }
}

/// What the MongoDB API tells about the process.
pub(crate) struct Host {
    pub(crate) connections_max: usize,
}

impl api_mongo::Host for Host {
    fn name(&self) -> String {
        machine::host_name().unwrap_or_else(|| "localhost".to_owned())
    }

    fn memory_bytes(&self) -> u64 {
        machine::memory_bytes().unwrap_or_default()
    }

    fn resident_bytes(&self) -> u64 {
        metrics::resident_bytes().unwrap_or_default()
    }

    fn connections_max(&self) -> usize {
        self.connections_max
    }
}
