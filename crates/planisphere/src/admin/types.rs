//! What the admin API says, as the server writes it and the command line reads it.
//!
//! Names and meanings are a contract: fields are added, not changed. `docs/operations.md` explains
//! them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A container at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerSummary {
    pub(crate) database: String,
    pub(crate) id: String,
    pub(crate) rid: String,
    /// Paths of the partition key.
    pub(crate) partition_key: Vec<String>,
    pub(crate) partitions: usize,
    pub(crate) bytes: u64,
    pub(crate) items: u64,
    /// How many times the fair share of bytes the largest partition holds; 1 is even.
    pub(crate) skew: f64,
    pub(crate) throughput: Throughput,
}

/// A container with its description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContainerDetails {
    #[serde(flatten)]
    pub(crate) summary: ContainerSummary,
    /// As the NoSQL API shows it.
    pub(crate) definition: Value,
}

/// A database at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseSummary {
    pub(crate) id: String,
    pub(crate) rid: String,
    /// How many it has.
    pub(crate) containers: usize,
    /// What its containers share, if they share any.
    pub(crate) throughput: Throughput,
}

/// `GET /_admin/v1/databases`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Databases {
    pub(crate) databases: Vec<DatabaseSummary>,
}

/// Asks for a new database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DatabaseRequest {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) throughput: Option<ThroughputRequest>,
}

/// What was deleted: a database, or a container of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletedResource {
    pub(crate) database: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    pub(crate) deleted: bool,
}

/// Asks for an empty server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetRequest {
    /// Whether data on disk may go.
    #[serde(default)]
    pub(crate) yes: bool,
}

/// What an emptied server no longer has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResetSummary {
    pub(crate) databases: usize,
    pub(crate) containers: usize,
    /// Faults that tests asked for.
    pub(crate) faults: usize,
}

/// `GET /_admin/v1/keys`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keys {
    pub(crate) keys: Vec<KeyInfo>,
}

/// A key of the account, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyInfo {
    pub(crate) key_kind: String,
    /// The first bytes of the SHA-256 of its text; none where there is no such key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<String>,
    /// Whether everybody knows it.
    pub(crate) well_known: bool,
}

/// Body of `POST /_admin/v1/keys/regenerate`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyRequest {
    pub(crate) key_kind: String,
}

/// A new key, told once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewKey {
    pub(crate) key_kind: String,
    pub(crate) key: String,
    /// Whether it is kept for the next start.
    pub(crate) kept: bool,
}

/// What a container or database was promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Throughput {
    pub(crate) mode: ThroughputMode,
    /// Request units per second: what is provisioned, or the most that autoscale goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ru: Option<u32>,
    /// What autoscale has scaled to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_ru: Option<u32>,
    /// Whether partitions are still being split for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) pending: bool,
}

/// How throughput is provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ThroughputMode {
    Manual,
    Autoscale,
    /// From the database.
    Shared,
    /// None was provisioned.
    None,
}

/// `.../throughput`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThroughputDetails {
    pub(crate) database: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    #[serde(flatten)]
    pub(crate) throughput: Throughput,
    /// What it can be set to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) minimum_ru: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) maximum_ru: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step_ru: Option<u32>,
}

/// Asks for other throughput: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ThroughputRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manual: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) autoscale_max: Option<u32>,
}

/// Where a partition's limits lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    pub(crate) partition_bytes_max: u64,
    pub(crate) logical_partition_bytes_max: u64,
    pub(crate) partition_ru_max: u32,
}

/// A container and its partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerPartitions {
    pub(crate) container: ContainerSummary,
    pub(crate) limits: Limits,
    /// In the order of their ranges.
    pub(crate) partitions: Vec<Partition>,
    /// Splits and merges of the container that are under way.
    pub(crate) jobs: Vec<Job>,
}

/// A physical partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Partition {
    pub(crate) id: String,
    pub(crate) epk_min: String,
    pub(crate) epk_max: String,
    /// All ranges it came from, oldest first.
    pub(crate) parents: Vec<String>,
    /// `online`, `splitting`, `merging` or `swapping`.
    pub(crate) status: String,
    pub(crate) bytes: u64,
    pub(crate) items: u64,
    pub(crate) lsn: u64,
    /// Part of the container's bytes that it holds, 0 to 1.
    pub(crate) share: f64,
    /// How many times its fair share that is.
    pub(crate) skew: f64,
    pub(crate) ru: RuUse,
    /// Logical partitions that hold most; left out when not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) largest_keys: Option<LargestKeys>,
    /// Logical partitions that used most throughput lately, busiest first.
    pub(crate) busiest_keys: Vec<KeyUse>,
    /// The split or merge it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<u32>,
}

/// Request units that a partition may use and did use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuUse {
    /// Per second; absent when nothing limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<f64>,
    pub(crate) last_second: f64,
    /// The busiest second of the last half to whole minute.
    pub(crate) recent_peak: f64,
    /// Since the server started.
    pub(crate) consumed: f64,
    pub(crate) requests: u64,
    /// Requests that were refused with 429.
    pub(crate) throttled: u64,
}

/// The logical partitions that hold most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LargestKeys {
    /// Largest first.
    pub(crate) keys: Vec<KeyBytes>,
    /// Logical partitions that were looked at.
    pub(crate) counted: u64,
    /// Whether those were all.
    pub(crate) complete: bool,
}

/// A logical partition and what it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyBytes {
    /// The key's values; `{}` stands for a missing one.
    pub(crate) key: Vec<Value>,
    pub(crate) bytes: u64,
    pub(crate) items: u64,
    /// Part of the partition's bytes, 0 to 1.
    pub(crate) share: f64,
}

/// A logical partition and what it used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyUse {
    /// The key's values; `{}` stands for a missing one.
    pub(crate) key: Vec<Value>,
    /// About what it used lately.
    pub(crate) ru: f64,
    /// By how much that may be too large.
    pub(crate) overestimate: f64,
}

/// A split or merge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Job {
    pub(crate) id: u32,
    pub(crate) kind: JobKind,
    /// Absent when the container is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    /// `asked`, `storage`, `throughput` or `surplus`.
    pub(crate) reason: String,
    /// Whether somebody drives it by hand.
    pub(crate) manual: bool,
    pub(crate) phase: JobPhase,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) paused: bool,
    /// Partitions it replaces.
    pub(crate) sources: Vec<String>,
    /// Partitions it makes.
    pub(crate) children: Vec<String>,
    pub(crate) rows_copied: u64,
    pub(crate) bytes_copied: u64,
    /// About how much of the copying is done, 0 to 1.
    pub(crate) progress: f64,
    /// Seconds since the Unix epoch.
    pub(crate) started: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<f64>,
    /// How long writers waited for the change-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<f64>,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum JobKind {
    Split,
    Merge,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum JobPhase {
    Preparing,
    Swapping,
    Succeeded,
    Failed,
    Cancelled,
}

/// `GET /_admin/v1/containers`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Containers {
    pub(crate) containers: Vec<ContainerSummary>,
}

/// `GET /_admin/v1/jobs`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
}

/// Asks for a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SplitRequest {
    /// `median`, `midpoint`, or an effective partition key in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    #[serde(default)]
    pub(crate) manual: bool,
}

/// Asks for a merge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MergeRequest {
    pub(crate) ids: Vec<PartitionNumber>,
    #[serde(default)]
    pub(crate) manual: bool,
}

/// A partition's number, as text or as a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum PartitionNumber {
    Number(u32),
    Text(String),
}

/// Asks for a fault: either an answer or a delay, and how often or how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct FaultRequest {
    /// Matching requests are answered with this instead of being carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<FaultAnswer>,
    /// Every commit takes this much longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_commits_ms: Option<u64>,
    /// Only requests of this kind, by its name in metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<PartitionNumber>,
    /// Ends after so many times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u32>,
    /// Ends after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
}

/// What a request is answered with on purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FaultAnswer {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) substatus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
}

/// A fault in force; its counts are what is left.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FaultInfo {
    pub(crate) id: u32,
    /// How often it has happened.
    pub(crate) fired: u64,
    #[serde(flatten)]
    pub(crate) params: FaultRequest,
}

/// `GET /_admin/v1/faults`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Faults {
    pub(crate) faults: Vec<FaultInfo>,
}

/// What is wanted of a query, beside `query`, `parameters` and `partitionKey`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct QueryOptions {
    /// Most rows of the page.
    pub(crate) max_items: Option<usize>,
    /// Of the page before.
    pub(crate) continuation: Option<String>,
    /// Partitions that are asked at the same time.
    pub(crate) parallelism: Option<usize>,
    /// Rows that wait to be put together.
    pub(crate) buffered: Option<usize>,
    /// Whether a query that is explained is run too.
    pub(crate) analyze: bool,
}

/// `POST .../query`
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryPage {
    pub(crate) rows: Vec<Box<RawValue>>,
    /// For the next page; absent when there is no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) continuation: Option<String>,
    pub(crate) request_charge: f64,
}

/// `POST .../explain`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedQuery {
    /// The filter, with parameters in their place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
    /// Its conditions.
    pub(crate) conditions: Vec<ExplainedCondition>,
    /// The items that it can keep, as far as indexes know.
    pub(crate) index: String,
    /// How rows of partitions are put together.
    pub(crate) merging: String,
    /// The text that SDKs send to each partition, if it is not the query itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rewritten: Option<String>,
    /// What SDKs are told to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_plan: Option<Value>,
    /// Why they are told nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_plan_error: Option<String>,
    /// The partitions that are asked, in the order of the hash line.
    pub(crate) partitions: Vec<ExplainedPartition>,
    /// What came of it, if it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<QueryOutcome>,
}

/// A condition of a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedCondition {
    pub(crate) text: String,
    /// What indexes know of it.
    pub(crate) index: String,
    /// Whether they name exactly the items it is true of.
    pub(crate) exact: bool,
    /// Paths without an index that would help.
    pub(crate) unindexed: Vec<String>,
}

/// What a partition does for a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedPartition {
    pub(crate) ids: Vec<String>,
    pub(crate) epk_min: String,
    pub(crate) epk_max: String,
    /// The one logical partition that is asked, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition_key: Option<Value>,
    /// How items are found.
    pub(crate) way: String,
    /// Whether an index names them.
    pub(crate) indexed: bool,
    /// Index entries looked at.
    pub(crate) index_entries: u64,
    /// What it did, if the query was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<PartitionWork>,
}

/// What a partition did for a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionWork {
    pub(crate) pages: u64,
    pub(crate) items_looked_at: u64,
    pub(crate) items_read: u64,
    pub(crate) bytes_read: u64,
    /// Rows or groups it handed in.
    pub(crate) rows: u64,
    pub(crate) request_charge: f64,
}

/// What a query returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryOutcome {
    pub(crate) rows: u64,
    pub(crate) pages: u64,
    /// Whether those are all.
    pub(crate) complete: bool,
    pub(crate) request_charge: f64,
}

/// A mistake in a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueryErrorInfo {
    /// The service's code for it, such as `SC1001`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// Where it begins, in UTF-16 code units.
    pub(crate) start: usize,
    /// Where it ends, exclusive.
    pub(crate) end: usize,
}

/// What an error looks like.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Problem {
    pub(crate) message: String,
    /// What is wrong with a query.
    #[serde(default)]
    pub(crate) query: Option<QueryErrorInfo>,
    /// What there is instead.
    #[serde(default)]
    pub(crate) help: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
