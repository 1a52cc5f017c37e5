//! Splitting and merging partitions while they serve.
//!
//! A job is stored in the catalog when it begins and removed when it ends, so a restart resumes it.
//! Its stages:
//!
//! 1. *Prepare*: one catalog commit names the new partitions and tells the committer to mirror.
//! 2. *Copy*: rows go over in the order of their keys, some at a time, while the old partitions
//!    serve; what is copied is kept up to date by the committer (see `commit/mirror.rs`).
//! 3. *Cut over*: one catalog commit swaps the routing map. Writers wait for it as they wait for
//!    any commit; readers do not wait.
//! 4. *Retire*: the store forgets the old partitions.
//!
//! With a manually driven job the caller decides when 3 happens, and can observe the state before
//! it.

mod copy;
mod info;
mod job;
mod monitor;
mod plan;
mod tally;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use model::{ContainerRid, Epk};

use crate::{Engine, Error, RangeId, RequestContext, ResourceKind};

pub(crate) use copy::{progress_of, upgrade};
pub(crate) use info::{Child, JobSpec};
pub use info::{JobId, JobInfo, JobKind, JobPhase, JobReason, Progression};
use job::JobRequest;
pub(crate) use job::Jobs;
pub(crate) use monitor::start as start_monitor;
pub use tally::{DURATION_BOUNDS, Durations, JobTallies, JobTally};

/// Where to split a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitPoint {
    /// So that both sides hold about as many bytes; the midpoint when the range holds fewer than
    /// two logical partitions.
    ByteMedian,
    /// Half-way between the ends of the range.
    Midpoint,
    /// At this position of the hash line.
    At(Epk),
}

impl Engine {
    /// Begins to split a range in two. Returns as soon as the job is stored.
    pub async fn start_split(
        &self,
        ctx: &RequestContext,
        container: ContainerRid,
        range: RangeId,
        at: SplitPoint,
        progression: Progression,
    ) -> Result<JobInfo, Error> {
        let (sources, split_at, reason) = (vec![range], Some(at), JobReason::Asked);
        let request = JobRequest { container, sources, split_at, progression, reason };
        self.begin_job_for(ctx, request, "start_split").await
    }

    /// Begins to merge neighbouring ranges.
    pub async fn start_merge(
        &self,
        ctx: &RequestContext,
        container: ContainerRid,
        ranges: &[RangeId],
        progression: Progression,
    ) -> Result<JobInfo, Error> {
        let (sources, reason) = (ranges.to_vec(), JobReason::Asked);
        let request = JobRequest { container, sources, split_at: None, progression, reason };
        self.begin_job_for(ctx, request, "start_merge").await
    }

    async fn begin_job_for(
        &self,
        ctx: &RequestContext,
        request: JobRequest,
        operation: &'static str,
    ) -> Result<JobInfo, Error> {
        self.check_deadline(ctx)?;
        let job = self.begin_job(request).await?;
        self.log_change(ctx, operation, &job.id.0);
        Ok(job)
    }

    /// Lets a manually driven job take its next step, and waits until it has or the deadline passes.
    pub async fn advance_job(&self, ctx: &RequestContext, id: JobId) -> Result<JobInfo, Error> {
        let job = self.find_job(id)?;
        self.check_deadline(ctx)?;
        self.before_deadline(ctx, job.advance()).await??;
        self.log_change(ctx, "advance_job", &id.0);
        Ok(job.info())
    }

    /// Cancels a job and waits until it has ended or the deadline passes. What it copied is dropped.
    /// A job that is just changing over may still succeed.
    pub async fn cancel_job(&self, ctx: &RequestContext, id: JobId) -> Result<JobInfo, Error> {
        let job = self.find_job(id)?;
        self.check_deadline(ctx)?;
        job.cancel();
        self.log_change(ctx, "cancel_job", &id.0);
        self.before_deadline(ctx, job.ended()).await?;
        Ok(job.info())
    }

    /// Pauses a job's copying, or resumes it. A job stays paused over restarts. After an error it
    /// may or may not be paused, but only until the next call succeeds.
    pub async fn pause_job(
        &self,
        ctx: &RequestContext,
        id: JobId,
        is_paused: bool,
    ) -> Result<JobInfo, Error> {
        let job = self.find_job(id)?;
        self.check_deadline(ctx)?;
        self.set_paused(&job, is_paused).await?;
        self.log_change(ctx, if is_paused { "pause_job" } else { "resume_job" }, &id.0);
        Ok(job.info())
    }

    /// Waits until a job is over.
    pub async fn finish_job(&self, id: JobId) -> Result<JobInfo, Error> {
        let job = self.find_job(id)?;
        job.ended().await;
        Ok(job.info())
    }

    /// The state of a job, for a while also after it is over.
    pub fn job(&self, id: JobId) -> Option<JobInfo> {
        self.inner.jobs.get(id).map(|job| job.info())
    }

    /// Counts of all jobs that are over since the engine was opened.
    pub fn job_tallies(&self) -> JobTallies {
        self.inner.jobs.tallies()
    }

    /// Running jobs and the last ones that are over, oldest first.
    pub fn jobs(&self) -> Vec<JobInfo> {
        self.inner.jobs.all().iter().map(|job| job.info()).collect()
    }

    /// Waits until no manually driven split or merge of `container` is between two steps, where its
    /// ranges take no requests, but not longer than `patience`. Returns whether that has come.
    pub async fn serves_again(&self, container: ContainerRid, patience: Duration) -> bool {
        let waiting = async {
            for job in self.inner.jobs.all() {
                if job.spec.container == container {
                    job.swapped().await;
                }
            }
        };
        tokio::select! {
            () = waiting => true,
            () = self.inner.components.clock.sleep(patience) => false,
        }
    }

    fn find_job(&self, id: JobId) -> Result<Arc<job::Job>, Error> {
        self.inner
            .jobs
            .get(id)
            .ok_or_else(|| Error::NotFound { kind: ResourceKind::Job, id: id.0.to_string() })
    }
}
