//! Transactional batches: operations on one logical partition, committed together or not at all.

use std::sync::Arc;

use engine::ops::AnswerLimit;
use engine::{Container, RequestContext};
use model::{Charge, limits};

use crate::batch_operations::{self, Results};
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::{Reply, Status};
use crate::request::Request;
use crate::{Service, partition_key_header, session, system_properties};

pub(crate) async fn execute(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    if request.flag(HeaderName::BatchContinueOnError) {
        return Err(ApiError::bad_request("A transactional batch can't continue after an error."));
    }
    let operations = batch_operations::parse(&request.body)?;
    for operation in &operations {
        operation.kind()?;
    }
    let key = partition_key_header::required_item_key(container, request)?;
    let mut ops = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        match operation.to_op(&container.spec.partition_key, &request.body) {
            Ok(op) => ops.push(op),
            Err(error) => {
                ctx.served.charge = engine::ru::refused_write();
                return Ok(unreadable(operations.len(), at, &error, request));
            }
        }
    }
    let answer_limit = AnswerLimit {
        bytes_max: limits::BATCH_ANSWER_BYTES_MAX,
        item_overhead: system_properties::BYTES,
        is_returned: operations.iter().map(|each| each.returns_item(request)).collect(),
    };
    let engine = service.engine();
    let results = engine.write_batch_within(ctx, container, key, ops, Some(answer_limit)).await?;
    let is_done = results.iter().all(|result| result.outcome.is_ok());
    let status = if is_done { Status::OK } else { Status::MULTI_STATUS };
    let mut out = Results::new(request);
    for (result, operation) in results.into_iter().zip(&operations) {
        out.push(result, operation.returns_item(request));
    }
    Ok(Reply::new(status, out.finish()))
}

/// The response to a batch with an invalid operation: that operation fails as it would on its own,
/// and the others fail with it.
fn unreadable(total: usize, at: usize, error: &ApiError, request: &Request) -> Reply {
    let dependent = ApiError::from(engine::Error::FailedDependency);
    let mut out = Results::new(request);
    for index in 0..total {
        match index == at {
            true => out.push_error(error, engine::ru::refused_write()),
            false => out.push_error(&dependent, Charge::ZERO),
        }
    }
    Reply::new(Status::MULTI_STATUS, out.finish())
}
