//! Items: create, upsert, read, replace, patch, delete.

use std::sync::Arc;

use engine::{Container, RequestContext};

use crate::Service;
use crate::errors::ApiError;
use crate::reply::Reply;
use crate::request::Request;

pub(crate) async fn create(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}

pub(crate) async fn upsert(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}

pub(crate) async fn read(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _id: &str,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}

pub(crate) async fn replace(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _id: &str,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}

pub(crate) async fn patch(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _id: &str,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}

pub(crate) async fn delete(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _id: &str,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}

pub(crate) async fn delete_partition_key(
    _service: &Service,
    _ctx: &mut RequestContext,
    _container: &Arc<Container>,
    _request: &Request,
) -> Result<Reply, ApiError> {
    Err(ApiError::not_supported("this operation"))
}
