//! Queries over items.

use std::sync::Arc;

use engine::{Container, RequestContext};

use crate::Service;
use crate::errors::ApiError;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) async fn execute(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}
