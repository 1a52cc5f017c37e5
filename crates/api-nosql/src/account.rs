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
