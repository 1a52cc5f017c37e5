//! Bulk requests: many operations on the items of one range, each committed on its own.

use std::sync::Arc;
use std::time::Duration;

use engine::ops::{ItemOp, ItemOutcome, OpResult};
use engine::{Container, RangeId, RequestContext};
use model::{Charge, PartitionKey};

use crate::batch_operations::{self, Operation};
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::{Reply, Status};
use crate::request::Request;
use crate::{Service, partition_key_header, scope, session};

/// The shortest wait that a throttled operation is told. SDKs count the attempts of each operation,
/// and send it with others again: short waits would use up the attempts while the budget is short.
const WAIT_MIN: Duration = Duration::from_millis(500);

pub(crate) async fn execute(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    ctx.admission.wait_min = WAIT_MIN;
    let operations = batch_operations::parse(&request.body)?;
    let range = scope::range_id(request)?;
    let shared_key = partition_key_header::item_key(container, request)?;
    let prepared: Vec<_> = operations
        .iter()
        .map(|operation| prepare(container, operation, shared_key.as_ref(), request))
        .collect();
    let stops = request.header(HeaderName::BatchContinueOnError);
    let stops = stops.is_some_and(|v| v.eq_ignore_ascii_case("false"));
    let results = match stops {
        true => until_failure(service, ctx, container, range, prepared).await?,
        false => each(service, ctx, container, range, prepared).await?,
    };
    let mut out = batch_operations::Results::new(request);
    let mut status = Status::OK;
    for (result, operation) in results.into_iter().zip(&operations) {
        let result = result.map(|result| match result.outcome {
            // Only for reads: clients repeat what is answered so, and writes have been done.
            Ok(ItemOutcome::Read(item)) if !out.has_room_for(&item) => {
                OpResult { outcome: Err(engine::Error::AnswerTooLarge), ..result }
            }
            outcome => OpResult { outcome, ..result },
        });
        if !result.as_ref().is_ok_and(|result| result.outcome.is_ok()) {
            status = Status::MULTI_STATUS;
        }
        match result {
            Ok(result) => out.push(result, operation.returns_item(request)),
            Err(error) => out.push_error(&error, Charge::ZERO),
        }
    }
    Ok(Reply::new(status, out.finish()))
}

type Prepared = Result<(Option<PartitionKey>, ItemOp), ApiError>;

fn prepare(
    container: &Container,
    operation: &Operation<'_>,
    shared_key: Option<&PartitionKey>,
    request: &Request,
) -> Prepared {
    let definition = &container.spec.partition_key;
    let mut key = match &operation.partition_key {
        Some(text) => Some(partition_key_header::whole(definition, text.as_bytes())?),
        None => shared_key.cloned(),
    };
    let op = operation.to_op(definition, &request.body)?;
    let needs_key = match &op {
        ItemOp::Patch { .. }
        | ItemOp::Update { .. }
        | ItemOp::Delete { .. }
        | ItemOp::Read { .. } => true,
        ItemOp::Create { .. }
        | ItemOp::Upsert { .. }
        | ItemOp::Replace { .. }
        | ItemOp::Merge { .. } => false,
    };
    if needs_key && key.is_none() {
        key = Some(partition_key_header::key_of_none(definition)?);
    }
    Ok((key, op))
}

/// One result per operation: the engine's, or the error that kept the operation from the engine.
type Results = Vec<Result<OpResult, ApiError>>;

/// Passes the valid operations to the engine and merges its results with the errors of the others.
async fn each(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    range: Option<RangeId>,
    prepared: Vec<Prepared>,
) -> Result<Results, ApiError> {
    let mut ops = Vec::with_capacity(prepared.len());
    let mut refused = Vec::with_capacity(prepared.len());
    for one in prepared {
        match one {
            Ok(op) => {
                ops.push(op);
                refused.push(None);
            }
            Err(error) => refused.push(Some(error)),
        }
    }
    let mut results = service.engine().bulk(ctx, container, range, ops).await?.into_iter();
    let merged = refused.into_iter().map(|refused| match refused {
        Some(error) => Err(error),
        None => results.next().ok_or_else(ApiError::internal),
    });
    Ok(merged.collect())
}

/// Runs the operations in order. After a failure the rest are skipped; earlier ones stay committed.
async fn until_failure(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    range: Option<RangeId>,
    prepared: Vec<Prepared>,
) -> Result<Results, ApiError> {
    let mut results: Results = Vec::with_capacity(prepared.len());
    let mut has_failed = false;
    for one in prepared {
        let result = match one {
            _ if has_failed => Err(engine::Error::FailedDependency.into()),
            Err(error) => Err(error),
            Ok(op) => {
                let done = service.engine().bulk(ctx, container, range, vec![op]).await?;
                done.into_iter().next().ok_or_else(ApiError::internal)
            }
        };
        has_failed |= result.as_ref().map_or(true, OpResult::has_failed);
        results.push(result);
    }
    Ok(results)
}
