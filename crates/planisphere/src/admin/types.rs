//! The JSON of the admin API, which the server writes and the command line reads.
//!
//! Names and meanings are a contract: fields are added, not changed. `docs/operations.md` explains
//! them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A summary of a container.
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
    /// The size in bytes of the largest partition relative to its fair share; 1 is even.
    pub(crate) skew: f64,
    pub(crate) throughput: Throughput,
}

/// A container with its description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContainerDetails {
    #[serde(flatten)]
    pub(crate) summary: ContainerSummary,
    /// In the form of the NoSQL API.
    pub(crate) definition: Value,
}

/// A summary of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseSummary {
    pub(crate) id: String,
    pub(crate) rid: String,
    /// The number of its containers.
    pub(crate) containers: usize,
    /// The throughput that its containers share, if any.
    pub(crate) throughput: Throughput,
}

/// `GET /_admin/v1/databases`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Databases {
    pub(crate) databases: Vec<DatabaseSummary>,
}

/// A request for a new database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DatabaseRequest {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) throughput: Option<ThroughputRequest>,
}

/// A deleted database, or a deleted container and its database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletedResource {
    pub(crate) database: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    pub(crate) deleted: bool,
}

/// A request to empty the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetRequest {
    /// Confirms that data on disk may be deleted.
    #[serde(default)]
    pub(crate) yes: bool,
}

/// What a reset deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResetSummary {
    pub(crate) databases: usize,
    pub(crate) containers: usize,
    /// Injected faults.
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
    /// The first bytes of the SHA-256 of its text; none if there is no such key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<String>,
    /// Whether it is a well-known key.
    pub(crate) well_known: bool,
}

/// Body of `POST /_admin/v1/keys/regenerate`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyRequest {
    pub(crate) key_kind: String,
}

/// A new key, shown only once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewKey {
    pub(crate) key_kind: String,
    pub(crate) key: String,
    /// Whether it survives a restart.
    pub(crate) kept: bool,
}

/// The throughput of a container or database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Throughput {
    pub(crate) mode: ThroughputMode,
    /// Request units per second: the provisioned number, or the maximum of autoscale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ru: Option<u32>,
    /// The current throughput of autoscale.
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
    /// The throughput of the database.
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
    /// The lowest value it can be set to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) minimum_ru: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) maximum_ru: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step_ru: Option<u32>,
}

/// A request for other throughput: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ThroughputRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manual: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) autoscale_max: Option<u32>,
}

/// Limits of a partition.
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
    /// Running splits and merges of the container.
    pub(crate) jobs: Vec<Job>,
}

/// A physical partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Partition {
    pub(crate) id: String,
    pub(crate) epk_min: String,
    pub(crate) epk_max: String,
    /// All ranges that it was split or merged from, oldest first.
    pub(crate) parents: Vec<String>,
    /// `online`, `splitting`, `merging` or `swapping`.
    pub(crate) status: String,
    pub(crate) bytes: u64,
    pub(crate) items: u64,
    pub(crate) lsn: u64,
    /// Its fraction of the container's bytes, 0 to 1.
    pub(crate) share: f64,
    /// Its size relative to the fair share.
    pub(crate) skew: f64,
    pub(crate) ru: RuUse,
    /// The largest logical partitions; left out if not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) largest_keys: Option<LargestKeys>,
    /// The logical partitions that used most throughput lately, busiest first.
    pub(crate) busiest_keys: Vec<KeyUse>,
    /// The split or merge that it takes part in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<u32>,
}

/// The allowed and used request units of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuUse {
    /// Per second; absent if there is no limit.
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

/// The largest logical partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LargestKeys {
    /// Largest first.
    pub(crate) keys: Vec<KeyBytes>,
    /// Logical partitions whose counters were read.
    pub(crate) counted: u64,
    /// Whether those were all.
    pub(crate) complete: bool,
}

/// A logical partition and its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyBytes {
    /// The key's values; `{}` stands for a missing one.
    pub(crate) key: Vec<Value>,
    pub(crate) bytes: u64,
    pub(crate) items: u64,
    /// Its fraction of the partition's bytes, 0 to 1.
    pub(crate) share: f64,
}

/// A logical partition and its use of throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyUse {
    /// The key's values; `{}` stands for a missing one.
    pub(crate) key: Vec<Value>,
    /// Its estimated recent use.
    pub(crate) ru: f64,
    /// The most by which that estimate may be too large.
    pub(crate) overestimate: f64,
}

/// A split or merge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Job {
    pub(crate) id: u32,
    pub(crate) kind: JobKind,
    /// Absent if the container was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    /// `asked`, `storage`, `throughput` or `surplus`.
    pub(crate) reason: String,
    /// Whether its steps are taken by requests instead of by the server.
    pub(crate) manual: bool,
    pub(crate) phase: JobPhase,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) paused: bool,
    /// The partitions that it replaces.
    pub(crate) sources: Vec<String>,
    /// The partitions that it makes.
    pub(crate) children: Vec<String>,
    pub(crate) rows_copied: u64,
    pub(crate) bytes_copied: u64,
    /// About which fraction of the copy is done, 0 to 1.
    pub(crate) progress: f64,
    /// Seconds since the Unix epoch.
    pub(crate) started: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<f64>,
    /// How long writers waited during the cut-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<f64>,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum JobKind {
    Split,
    Merge,
}

/// The phase of a job.
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

/// A request for a split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SplitRequest {
    /// `median`, `midpoint`, or an effective partition key in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    #[serde(default)]
    pub(crate) manual: bool,
}

/// A request for a merge.
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

/// A request for a fault: either an answer or a delay, with a count or a duration.
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
    /// Ends after this many times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u32>,
    /// Ends after this many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<u64>,
}

/// The injected answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FaultAnswer {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) substatus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
}

/// A fault in force; its counts are the remaining ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FaultInfo {
    pub(crate) id: u32,
    /// How often it has been applied.
    pub(crate) fired: u64,
    #[serde(flatten)]
    pub(crate) params: FaultRequest,
}

/// `GET /_admin/v1/faults`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Faults {
    pub(crate) faults: Vec<FaultInfo>,
}

/// Options of a query, beside `query`, `parameters` and `partitionKey`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct QueryOptions {
    /// Most rows of the page.
    pub(crate) max_items: Option<usize>,
    /// The continuation of the previous page.
    pub(crate) continuation: Option<String>,
    /// Partitions that are queried in parallel.
    pub(crate) parallelism: Option<usize>,
    /// Most buffered rows that wait to be merged.
    pub(crate) buffered: Option<usize>,
    /// Whether an explained query is also run.
    pub(crate) analyze: bool,
}

/// `POST .../query`
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryPage {
    pub(crate) rows: Vec<Box<RawValue>>,
    /// For the next page; absent after the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) continuation: Option<String>,
    pub(crate) request_charge: f64,
}

/// `POST .../explain`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedQuery {
    /// The filter, with parameters replaced by their values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
    /// Its conditions.
    pub(crate) conditions: Vec<ExplainedCondition>,
    /// The items that the filter can match, as far as indexes can tell.
    pub(crate) index: String,
    /// How rows of partitions are merged.
    pub(crate) merging: String,
    /// The text that SDKs send to each partition, if it differs from the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rewritten: Option<String>,
    /// The query plan that SDKs receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_plan: Option<Value>,
    /// Why they receive none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_plan_error: Option<String>,
    /// The partitions that are queried, in the order of the hash line.
    pub(crate) partitions: Vec<ExplainedPartition>,
    /// The result statistics, if the query was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<QueryOutcome>,
}

/// A condition of a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedCondition {
    pub(crate) text: String,
    /// Which items indexes select for it.
    pub(crate) index: String,
    /// Whether the index selects exactly the items that satisfy it.
    pub(crate) exact: bool,
    /// Paths without an index that would help.
    pub(crate) unindexed: Vec<String>,
}

/// How one partition runs a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainedPartition {
    pub(crate) ids: Vec<String>,
    pub(crate) epk_min: String,
    pub(crate) epk_max: String,
    /// The logical partition that is read, if the query reads only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition_key: Option<Value>,
    /// How items are found.
    pub(crate) way: String,
    /// Whether an index selects them.
    pub(crate) indexed: bool,
    /// Index entries that were read.
    pub(crate) index_entries: u64,
    /// Its work, if the query was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<PartitionWork>,
}

/// The work of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartitionWork {
    pub(crate) pages: u64,
    pub(crate) items_looked_at: u64,
    pub(crate) items_read: u64,
    pub(crate) bytes_read: u64,
    /// Rows or groups it returned.
    pub(crate) rows: u64,
    pub(crate) request_charge: f64,
}

/// The result statistics of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryOutcome {
    pub(crate) rows: u64,
    pub(crate) pages: u64,
    /// Whether these are all rows.
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

/// The body of an error.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Problem {
    pub(crate) message: String,
    /// The mistake in a query.
    #[serde(default)]
    pub(crate) query: Option<QueryErrorInfo>,
    /// Valid alternatives.
    #[serde(default)]
    pub(crate) help: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
