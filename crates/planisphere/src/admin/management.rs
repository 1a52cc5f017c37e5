//! The management API with which Microsoft's tests drive their hosted emulator.
//!
//! Those tests are the only clients, so shapes and phases are exactly what they read: an operation
//! that takes its second step is still `Swapping` in the reply, and is then found done.

use engine::repartition::{JobId, JobInfo, JobKind, JobPhase, Progression, SplitPoint};
use engine::{Engine, RangeId, RequestContext};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::warn;

use super::Admin;
use super::jobs::no_job;
use super::partitions::{number, progression};
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::routes::{ContainerName, OperationStep};
use super::types::PartitionNumber;
use crate::metrics::FormatCounts;

/// Version of the API.
const API_VERSION: u32 = 1;

/// An operation in the form of the API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    operation_id: String,
    phase: &'static str,
    /// Partitions that a split makes.
    children: Vec<u32>,
    /// Partitions that a merge replaces.
    merged: Vec<u32>,
    /// The partition that a merge makes.
    into: Option<u32>,
    error: Option<String>,
}

/// A request for a split.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SplitRequest {
    mode: Option<String>,
    progression_mode: Option<String>,
}

/// A request for a merge.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MergeRequest {
    partition_ids: Vec<PartitionNumber>,
    progression_mode: Option<String>,
}

/// The host's health, in the terms of the API. There is no second gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    gateway20_enabled: bool,
    connectivity_probes: u64,
    gateway20_requests: u64,
    #[serde(flatten)]
    forms: FormatCounts,
}

impl Admin {
    /// `GET capabilities`
    pub(super) fn capabilities(&self) -> Reply {
        Reply::ok(&json!({
            "apiVersion": API_VERSION,
            "emulatorVersion": env!("CARGO_PKG_VERSION"),
            "protocols": {"gatewayV1": true, "gatewayV2": false},
            "dataPlane": [
                "database", "container", "item", "query", "changeFeed", "patch",
                "transactionalBatch",
            ],
            "managementActions": ["partitionSplit", "partitionMerge"],
        }))
    }

    /// `GET health`
    pub(super) fn management_health(&self) -> Reply {
        Reply::ok(&Health {
            gateway20_enabled: false,
            connectivity_probes: 0,
            gateway20_requests: 0,
            forms: self.metrics.requests().formats.counts(),
        })
    }

    /// `POST databases/{database}/containers/{container}/partitions/{id}/split`
    pub(super) async fn split_operation(
        &self,
        name: &ContainerName,
        range: RangeId,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let params: SplitRequest = request.json()?;
        let at = match params.mode.as_deref() {
            Some("midpoint") => SplitPoint::Midpoint,
            None | Some("median") => SplitPoint::ByteMedian,
            Some(_) => return Err(AdminError::bad_request("'mode' is 'midpoint' or 'median'.")),
        };
        let progression = requested_progression(params.progression_mode.as_deref())?;
        Ok(begun(&self.start_split(name, range, at, progression).await?))
    }

    /// `POST databases/{database}/containers/{container}/partitions/merge`
    pub(super) async fn merge_operation(
        &self,
        name: &ContainerName,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let params: MergeRequest = request.json()?;
        let ids: Vec<RangeId> =
            params.partition_ids.iter().map(number).collect::<Result<_, _>>()?;
        let progression = requested_progression(params.progression_mode.as_deref())?;
        Ok(begun(&self.start_merge(name, &ids, progression).await?))
    }

    /// `GET operations/{id}`
    pub(super) fn operation(&self, id: JobId) -> Result<Reply, AdminError> {
        let job = self.engine.job(id).ok_or_else(|| no_job(id))?;
        Ok(Reply::ok(&Operation::of(&job)))
    }

    /// `POST operations/{id}/{step}`
    pub(super) async fn step_operation(
        &self,
        id: JobId,
        step: OperationStep,
    ) -> Result<Reply, AdminError> {
        let before = self.engine.job(id).ok_or_else(|| no_job(id))?;
        let job = match step {
            _ if before.phase.is_over() => {
                return Err(AdminError::conflict(format!("Operation {} has finished.", id.0)));
            }
            OperationStep::Cancel => {
                self.engine.cancel_job(&self.service.operator_context(), id).await?
            }
            OperationStep::Advance if before.phase == JobPhase::Swapping => {
                finish_in_background(self.engine.clone(), self.service.operator_context(), id);
                before
            }
            OperationStep::Advance => self.advance(id).await?,
        };
        Ok(Reply::ok(&Operation::of(&job)))
    }
}

/// Lets an operation take its last step while the reply to the caller says that it is still to
/// come.
fn finish_in_background(engine: Engine, ctx: RequestContext, id: JobId) {
    tokio::spawn(async move {
        if let Err(error) = engine.advance_job(&ctx, id).await {
            warn!(job = id.0, %error, "an operation did not take its last step");
        }
    });
}

fn requested_progression(text: Option<&str>) -> Result<Progression, AdminError> {
    match text {
        None | Some("automatic") => Ok(progression(false)),
        Some("manual") => Ok(progression(true)),
        Some(_) => Err(AdminError::bad_request("'progressionMode' is 'automatic' or 'manual'.")),
    }
}

fn begun(job: &JobInfo) -> Reply {
    Reply::accepted(&Operation::of(job), format!("/operations/{}", job.id.0))
}

impl Operation {
    fn of(job: &JobInfo) -> Self {
        let (phase, error) = match &job.phase {
            JobPhase::Preparing => ("Preparing", None),
            JobPhase::Swapping => ("Swapping", None),
            JobPhase::Succeeded => ("Succeeded", None),
            JobPhase::Failed(error) => ("Failed", Some(error.clone())),
            JobPhase::Cancelled => ("Failed", Some("The operation was cancelled.".to_owned())),
        };
        let numbers = |ids: &[RangeId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        let (children, merged) = match job.kind {
            JobKind::Split => (numbers(&job.children), Vec::new()),
            JobKind::Merge => (Vec::new(), numbers(&job.sources)),
        };
        let into = match job.kind {
            JobKind::Split => None,
            JobKind::Merge => job.children.first().map(|id| id.0),
        };
        Self { operation_id: job.id.0.to_string(), phase, children, merged, into, error }
    }
}
