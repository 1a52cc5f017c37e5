//! How a writer reaches the server: by HTTP, or as a client in Direct mode.

use crate::client::Connection;
use crate::crash::writer::CONTAINER_LINK;
use crate::direct::connection::{DirectConnection, Tls};
use crate::direct::frames;
use crate::direct::replicas::Replicas;
use crate::request::{Account, Draft, OwnedReply};
use crate::sign::date_now;

/// A wire that writers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1 in clear text.
    Http,
    /// Frames over TLS.
    Direct,
}

/// The connection of one writer.
pub enum Link {
    /// Over HTTP.
    Http(Connection),
    /// In Direct mode.
    Direct(Box<DirectLink>),
}

/// A connection in Direct mode, and what its client knows of the container.
pub struct DirectLink {
    connection: DirectConnection,
    replicas: Replicas,
    number: u32,
}

impl Link {
    /// Connects.
    pub async fn open(account: &Account, wire: Wire) -> anyhow::Result<Self> {
        Ok(match wire {
            Wire::Http => Self::Http(Connection::open(account.address).await?),
            Wire::Direct => {
                let replicas = Replicas::read(account, CONTAINER_LINK).await?;
                let tls = Tls::trusting(account.address).await?;
                let connection = DirectConnection::open(&tls).await?;
                Self::Direct(Box::new(DirectLink { connection, replicas, number: 0 }))
            }
        })
    }

    /// Whether the server has announced that it closes the connection.
    pub fn is_closing(&self) -> bool {
        match self {
            Self::Http(connection) => connection.is_closing(),
            Self::Direct(_) => false,
        }
    }

    /// Sends a request about items and awaits its reply. After an error the link must not be used
    /// again.
    pub async fn send(
        &mut self,
        account: &Account,
        draft: &Draft<'_>,
    ) -> anyhow::Result<OwnedReply> {
        match self {
            Self::Http(connection) => account.send_on(connection, draft).await,
            Self::Direct(link) => link.send(account, draft).await,
        }
    }
}

impl DirectLink {
    async fn send(&mut self, account: &Account, draft: &Draft<'_>) -> anyhow::Result<OwnedReply> {
        /// More splits and merges than a request can meet.
        const ATTEMPTS_MAX: u32 = 100;
        for _ in 0..ATTEMPTS_MAX {
            self.number += 1;
            let named = (self.number, date_now());
            let frame = frames::frame(account, draft, &self.replicas, (named.0, &named.1));
            if let Ok(frame) = frame {
                self.connection.send(&frame).await?;
                let answer = self.connection.next_answer().await?;
                match answer.outcome() {
                    // Nothing was done: the range is gone, and others have its keys.
                    (410, 1007) => {}
                    (410, substatus) => anyhow::bail!("the server refused: 410/{substatus}"),
                    (_, _) => return frames::reply(&answer),
                }
            }
            self.replicas = Replicas::read(account, CONTAINER_LINK).await?;
        }
        anyhow::bail!("{ATTEMPTS_MAX} times the range was another: {}", draft.summary())
    }
}
