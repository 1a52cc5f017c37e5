//! The account: its settings, and the document `GET /` answers.

use std::sync::Arc;

use engine::RequestContext;

use crate::errors::ApiError;
use crate::reply::Reply;
use crate::request::Request;
use crate::{KeyRing, Service};

/// The default consistency an account promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Consistency {
    /// Every read sees the last write.
    Strong,
    /// Reads lag by a bounded amount.
    BoundedStaleness,
    /// A session sees its own writes.
    #[default]
    Session,
    /// Reads see some prefix of the writes.
    ConsistentPrefix,
    /// No order is promised.
    Eventual,
}

impl Consistency {
    const ALL: [Consistency; 5] = [
        Consistency::Strong,
        Consistency::BoundedStaleness,
        Consistency::Session,
        Consistency::ConsistentPrefix,
        Consistency::Eventual,
    ];

    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "Strong",
            Consistency::BoundedStaleness => "BoundedStaleness",
            Consistency::Session => "Session",
            Consistency::ConsistentPrefix => "ConsistentPrefix",
            Consistency::Eventual => "Eventual",
        }
    }

    /// Reads the protocol's name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(text))
    }

    /// Grows with what is promised.
    pub(crate) fn strength(self) -> u8 {
        match self {
            Consistency::Strong => 4,
            Consistency::BoundedStaleness => 3,
            Consistency::Session => 2,
            Consistency::ConsistentPrefix => 1,
            Consistency::Eventual => 0,
        }
    }
}

/// What a server is told about the account it serves.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name. Must not be `localhost`: one SDK then ignores the account's locations.
    pub name: String,
    /// The keys it accepts.
    pub keys: KeyRing,
    /// The address clients reach it at, when the request's own scheme and host do not say.
    pub public_endpoint: Option<String>,
    /// Its default consistency.
    pub consistency: Consistency,
}

pub(crate) async fn read(
    _service: &Arc<Service>,
    _ctx: &mut RequestContext,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("the account document"))
}
