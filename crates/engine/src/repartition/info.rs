//! What a job is and what state it is in.

use std::time::Duration;

use model::{ContainerRid, EpkRange, PartitionId};
use serde::{Deserialize, Serialize};

use crate::RangeId;

/// A job's number. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobKind {
    /// Makes two ranges of one.
    Split,
    /// Makes one range of several.
    Merge,
}

/// Why a job was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobReason {
    /// A caller asked for it.
    Asked,
    /// A partition holds more than it should.
    Storage,
    /// The container's throughput needs more partitions.
    Throughput,
    /// The container has more partitions than it needs.
    Surplus,
}

/// What decides when a job takes its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progression {
    /// It continues by itself.
    Automatic,
    /// It waits for [`crate::Engine::advance_job`] before it stops between the old and the new
    /// partitions, and once more before it ends.
    Manual,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobPhase {
    /// Rows are being copied; the old partitions serve.
    Preparing,
    /// Driven manually: requests for the old ranges are told to retry.
    Swapping,
    /// The new partitions serve.
    Succeeded,
    /// It failed; the old partitions serve. After a failure of the store itself the next start
    /// resumes it.
    Failed(String),
    /// It was cancelled; the old partitions serve.
    Cancelled,
}

impl JobPhase {
    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        match self {
            JobPhase::Preparing | JobPhase::Swapping => false,
            JobPhase::Succeeded | JobPhase::Failed(_) | JobPhase::Cancelled => true,
        }
    }
}

/// A range that a job makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) range: RangeId,
    pub(crate) partition: PartitionId,
    pub(crate) epk: EpkRange,
}

/// A job as stored in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobSpec {
    pub(crate) id: JobId,
    pub(crate) container: ContainerRid,
    pub(crate) kind: JobKind,
    pub(crate) sources: Vec<RangeId>,
    pub(crate) children: Vec<Child>,
    pub(crate) progression: Progression,
    pub(crate) reason: JobReason,
    /// Seconds since the Unix epoch.
    pub(crate) started: u64,
    pub(crate) is_paused: bool,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its number.
    pub id: JobId,
    /// The container.
    pub container: ContainerRid,
    /// What it does.
    pub kind: JobKind,
    /// Why it was begun.
    pub reason: JobReason,
    /// What decides when it takes its steps.
    pub progression: Progression,
    /// The ranges it replaces.
    pub sources: Vec<RangeId>,
    /// The ranges it makes.
    pub children: Vec<RangeId>,
    /// How far it is.
    pub phase: JobPhase,
    /// Whether its copying is paused.
    pub is_paused: bool,
    /// Rows copied since it was begun or resumed.
    pub rows_copied: u64,
    /// Their bytes.
    pub bytes_copied: u64,
    /// About how many bytes of items and their logs there are to copy in all; 0 as long as that is
    /// not known.
    pub bytes_total: u64,
    /// About how many of these are copied, before a restart or after it. Fewer than all of them
    /// until everything is copied.
    pub bytes_done: u64,
    /// Seconds since the Unix epoch when it began.
    pub started: u64,
    /// How long it took since it began, restarts and the time between them included; `None` while
    /// it runs.
    pub took: Option<Duration>,
    /// How long writers had to wait for the change-over.
    pub held: Option<Duration>,
}
