//! Transactional batches: operations on one logical partition, committed together or not at all.

use std::sync::Arc;

use bytes::Bytes;
use engine::{Container, RequestContext};
use model::{Charge, limits};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::operations::{self, Operation, Results};
use crate::reply::{Reply, Status};
use crate::request::Request;
use crate::{Service, partition_key_header, payload, session};

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
    let operations = read_operations(&request.body)?;
    for operation in &operations {
        operation.kind()?;
    }
    let key = partition_key_header::required_item_key(container, request)?;
    let mut ops = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        match operation.to_op(&container.spec.partition_key, &request.body) {
            Ok(op) => ops.push(op),
            Err(error) => return Ok(unreadable(operations.len(), at, &error, request)),
        }
    }
    let results = service.engine().write_batch(ctx, container, key, ops).await?;
    let is_done = results.iter().all(|result| result.outcome.is_ok());
    let status = if is_done { Status::OK } else { Status::MULTI_STATUS };
    Ok(Reply::new(status, operations::results(results, request)))
}

/// The response to a batch with an invalid operation: that operation fails as it would on its own,
/// and the others fail with it.
fn unreadable(total: usize, at: usize, error: &ApiError, request: &Request) -> Reply {
    let dependent = ApiError::from(engine::Error::FailedDependency);
    let mut out = Results::new(request);
    for index in 0..total {
        out.push_error(if index == at { error } else { &dependent }, Charge::ZERO);
    }
    Reply::new(Status::MULTI_STATUS, out.finish())
}

/// The operations of a batch or bulk request, within the limits both share.
pub(crate) fn read_operations(body: &Bytes) -> Result<Vec<Operation<'_>>, ApiError> {
    payload::check_form(body)?;
    if body.len() > limits::BATCH_BYTES_MAX {
        return Err(ApiError::too_large());
    }
    let operations = operations::parse(body)?;
    if operations.is_empty() {
        return Err(ApiError::bad_request("Batch request has no operations."));
    }
    if operations.len() > limits::BATCH_OPERATIONS_MAX {
        return Err(ApiError::bad_request(
            "Batch request has more operations than what is supported.",
        ));
    }
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(body: String) -> (u16, String) {
        let error = read_operations(&Bytes::from(body)).unwrap_err();
        (error.status(), error.message().to_owned())
    }

    fn list(operations: usize) -> String {
        let one = r#"{"operationType":"Read","id":"1"}"#;
        format!("[{}]", vec![one; operations].join(","))
    }

    #[test]
    fn the_number_of_operations_is_bounded() {
        assert_eq!(message_of("[]".into()), (400, "Batch request has no operations.".into()));
        let text = "Batch request has more operations than what is supported.";
        assert_eq!(message_of(list(101)), (400, text.into()));
        assert_eq!(read_operations(&Bytes::from(list(100))).unwrap().len(), 100);
    }

    #[test]
    fn the_size_is_bounded() {
        let blank = " ".repeat(limits::BATCH_BYTES_MAX);
        assert_eq!(message_of(format!("[{blank}]")).0, 413);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for body in ["", "{}", "[1]", "null", "[{}]", "[", "\u{1}", "[{\"operationType\":7}]"] {
            assert_eq!(message_of(body.into()).0, 400, "{body}");
        }
    }
}
