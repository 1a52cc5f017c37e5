//! Splits and merges: running and finished ones.

use std::time::Duration;

use engine::repartition::{JobId, JobInfo, JobKind, JobPhase, JobReason, Progression};
use engine::{Catalog, RequestContext};

use super::containers::part;
use super::reply::{AdminError, Reply};
use super::routes::JobStep;
use super::types::{self, Job, Jobs};
use super::{Admin, STEP_TIMEOUT};

impl Admin {
    /// `GET /_admin/v1/jobs`
    pub(super) fn jobs(&self) -> Reply {
        let catalog = self.engine.catalog();
        let jobs = self.engine.jobs().iter().map(|job| self.describe_job(&catalog, job)).collect();
        Reply::ok(&Jobs { jobs })
    }

    /// `GET /_admin/v1/jobs/{id}`
    pub(super) fn job(&self, id: JobId) -> Result<Reply, AdminError> {
        let job = self.engine.job(id).ok_or_else(|| no_job(id))?;
        Ok(Reply::ok(&self.describe_job(&self.engine.catalog(), &job)))
    }

    /// `POST /_admin/v1/jobs/{id}/{step}`
    pub(super) async fn step_job(&self, id: JobId, step: JobStep) -> Result<Reply, AdminError> {
        let before = self.engine.job(id).ok_or_else(|| no_job(id))?;
        if before.phase.is_over() {
            let phase = shown(&before.phase).0;
            return Err(AdminError::conflict(format!("Job {} has finished ({phase:?}).", id.0)));
        }
        let ctx = &self.service.operator_context();
        let job = match step {
            JobStep::Advance => self.advance(id).await?,
            JobStep::Cancel => self.engine.cancel_job(ctx, id).await?,
            JobStep::Pause => self.engine.pause_job(ctx, id, true).await?,
            JobStep::Resume => self.engine.pause_job(ctx, id, false).await?,
        };
        Ok(Reply::ok(&self.describe_job(&self.engine.catalog(), &job)))
    }

    /// Lets a job take its next step. A slow or paused job takes it later.
    pub(super) async fn advance(&self, id: JobId) -> Result<JobInfo, AdminError> {
        let deadline = self.engine.components().clock.monotonic() + STEP_TIMEOUT;
        let ctx = RequestContext { deadline: Some(deadline), ..self.service.operator_context() };
        match self.engine.advance_job(&ctx, id).await {
            Err(engine::Error::DeadlinePassed) => self.engine.job(id).ok_or_else(|| no_job(id)),
            advanced => Ok(advanced?),
        }
    }

    /// A job with the names of its container and database.
    pub(super) fn describe_job(&self, catalog: &Catalog, job: &JobInfo) -> Job {
        let container = catalog.container_by_rid(job.container);
        let (phase, error) = shown(&job.phase);
        let progress = match job.phase {
            // Also if the partition was empty.
            JobPhase::Succeeded | JobPhase::Swapping => 1.0,
            JobPhase::Preparing | JobPhase::Failed(_) | JobPhase::Cancelled => {
                part(job.bytes_done, job.bytes_total)
            }
        };
        Job {
            id: job.id.0,
            kind: match job.kind {
                JobKind::Split => types::JobKind::Split,
                JobKind::Merge => types::JobKind::Merge,
            },
            database: container.map(|container| container.database_id.clone()),
            container: container.map(|container| container.spec.id.clone()),
            reason: reason(job.reason).to_owned(),
            manual: job.progression == Progression::Manual,
            phase,
            error,
            paused: job.is_paused,
            sources: job.sources.iter().map(ToString::to_string).collect(),
            children: job.children.iter().map(ToString::to_string).collect(),
            rows_copied: job.rows_copied,
            bytes_copied: job.bytes_copied,
            progress,
            started: job.started,
            took_ms: job.took.map(millis),
            held_ms: job.held.map(millis),
        }
    }
}

/// 202 for a job that was started.
pub(super) fn job_reply(job: &Job) -> Reply {
    Reply::accepted(job, format!("/_admin/v1/jobs/{}", job.id))
}

pub(super) fn no_job(id: JobId) -> AdminError {
    AdminError::not_found(format!(
        "Job {} does not exist; finished jobs are eventually removed.",
        id.0
    ))
}

fn shown(phase: &JobPhase) -> (types::JobPhase, Option<String>) {
    match phase {
        JobPhase::Preparing => (types::JobPhase::Preparing, None),
        JobPhase::Swapping => (types::JobPhase::Swapping, None),
        JobPhase::Succeeded => (types::JobPhase::Succeeded, None),
        JobPhase::Failed(error) => (types::JobPhase::Failed, Some(error.clone())),
        JobPhase::Cancelled => (types::JobPhase::Cancelled, None),
    }
}

fn reason(reason: JobReason) -> &'static str {
    match reason {
        JobReason::Asked => "asked",
        JobReason::Storage => "storage",
        JobReason::Throughput => "throughput",
        JobReason::Surplus => "surplus",
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
