//! The paths of the admin API.

use engine::RangeId;
use engine::repartition::JobId;
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use super::reply::{AdminError, Reply};

/// The prefix of paths on the NoSQL port, optional on the admin port.
pub(super) const PREFIX: &str = "/_admin";

/// The path of the metrics, on both ports.
pub(super) const METRICS: &str = "/metrics";

/// Most bytes of a body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a query with its parameters and a continuation.
const QUERY_BODY_BYTES_MAX: usize = 2 << 20;

/// No path has more segments.
const SEGMENTS_MAX: usize = 8;

/// Names of a container and its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerName {
    pub(super) database: String,
    pub(super) container: String,
}

/// Names of what has throughput.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProvisionedName {
    Database(String),
    Container(ContainerName),
}

/// The steps of a job that a request can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobStep {
    Advance,
    Cancel,
    Pause,
    Resume,
}

/// The steps of an operation of the management API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationStep {
    Advance,
    Cancel,
}

/// The route of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Index,
    Metrics,
    Databases,
    Database(String),
    Containers,
    ContainersOf(String),
    Container(ContainerName),
    Reset,
    Partitions(ContainerName),
    Split(ContainerName, RangeId),
    Merge(ContainerName),
    Throughput(ProvisionedName),
    Keys,
    RegenerateKey,
    Query(ContainerName),
    Explain(ContainerName),
    Jobs,
    Job(JobId),
    JobStep(JobId, JobStep),
    Faults,
    Fault(u32),
    Capabilities,
    Health,
    SplitOperation(ContainerName, RangeId),
    MergeOperation(ContainerName),
    Operation(JobId),
    OperationStep(JobId, OperationStep),
}

/// Methods, path and description of every route.
const LIST: &[(&str, &str, &str)] = &[
    ("GET", "/metrics", "metrics in OpenMetrics format"),
    (
        "GET",
        "/_admin/v1/databases",
        "databases, how many containers each has, and what those share",
    ),
    (
        "POST",
        "/_admin/v1/databases",
        r#"{"id": "shop", "throughput": {"manual": 400}}: creates one"#,
    ),
    ("GET", "/_admin/v1/databases/{database}", "one of them"),
    ("DELETE", "/_admin/v1/databases/{database}", "deletes it with its containers"),
    ("GET", "/_admin/v1/containers", "containers with their size, partitions and skew"),
    ("GET", "/_admin/v1/containers/{database}", "containers of a database"),
    (
        "POST",
        "/_admin/v1/containers/{database}",
        r#"{"id": "orders", "partitionKey": {"paths": ["/customer"], "kind": "Hash", "version": 2}, "throughput": {"manual": 400}}: creates one; the other members are those of the NoSQL API"#,
    ),
    (
        "GET",
        "/_admin/v1/containers/{database}/{container}",
        "a container with its size and, in 'definition', its policies",
    ),
    ("DELETE", "/_admin/v1/containers/{database}/{container}", "deletes a container and its items"),
    (
        "POST",
        "/_admin/v1/reset",
        r#"{"yes": true}: deletes all databases and ends all faults; with --memory without 'yes'"#,
    ),
    (
        "GET",
        "/_admin/v1/containers/{database}/{container}/partitions",
        "partitions with range, size, use and largest keys; ?top=N for more or fewer keys",
    ),
    (
        "POST",
        "/_admin/v1/containers/{database}/{container}/partitions/{id}/split",
        r#"{"at": "median" | "midpoint" | "<epk>", "manual": false}"#,
    ),
    (
        "POST",
        "/_admin/v1/containers/{database}/{container}/partitions/merge",
        r#"{"ids": ["0", "1"], "manual": false}"#,
    ),
    (
        "GET",
        "/_admin/v1/containers/{database}/{container}/throughput",
        "provisioned throughput and its allowed range",
    ),
    (
        "PUT",
        "/_admin/v1/containers/{database}/{container}/throughput",
        r#"{"manual": 400} or {"autoscaleMax": 4000}"#,
    ),
    (
        "POST",
        "/_admin/v1/containers/{database}/{container}/query",
        r#"{"query": "...", "parameters": [{"name": "@a", "value": 1}], "partitionKey": [...], "maxItems": 100, "continuation": "..."}: rows of all partitions"#,
    ),
    (
        "POST",
        "/_admin/v1/containers/{database}/{container}/explain",
        r#"{"query": "...", "parameters": [...], "partitionKey": [...], "analyze": false}: how a query is answered"#,
    ),
    ("GET", "/_admin/v1/databases/{database}/throughput", "what the database's containers share"),
    (
        "PUT",
        "/_admin/v1/databases/{database}/throughput",
        r#"{"manual": 400} or {"autoscaleMax": 4000}"#,
    ),
    ("GET", "/_admin/v1/keys", "the account's keys, by their fingerprints"),
    (
        "POST",
        "/_admin/v1/keys/regenerate",
        r#"{"keyKind": "primary" | "secondary" | "primaryReadonly" | "secondaryReadonly"}"#,
    ),
    ("GET", "/_admin/v1/jobs", "running splits and merges, and recently finished ones"),
    ("GET", "/_admin/v1/jobs/{id}", "one of them"),
    ("POST", "/_admin/v1/jobs/{id}/advance", "runs the next step of a manual job"),
    ("POST", "/_admin/v1/jobs/{id}/cancel", "cancels a job"),
    ("POST", "/_admin/v1/jobs/{id}/pause", "pauses a job's copying"),
    ("POST", "/_admin/v1/jobs/{id}/resume", "resumes it"),
    ("GET", "/_admin/capabilities", "management API: what it can do"),
    ("GET", "/_admin/health", "management API: what it has counted"),
    (
        "POST",
        "/_admin/databases/{database}/containers/{container}/partitions/{id}/split",
        r#"management API: {"mode": "midpoint", "progressionMode": "manual"}"#,
    ),
    (
        "POST",
        "/_admin/databases/{database}/containers/{container}/partitions/merge",
        r#"management API: {"partitionIds": [0, 1], "progressionMode": "manual"}"#,
    ),
    ("GET", "/_admin/operations/{id}", "management API: progress of a split or merge"),
    ("POST", "/_admin/operations/{id}/advance", "management API: runs the next step"),
    ("POST", "/_admin/operations/{id}/cancel", "management API: cancels it"),
];

/// The additional routes of servers that were started with `--fault-injection on`.
const FAULTS_LIST: &[(&str, &str, &str)] = &[
    ("GET", "/_admin/v1/faults", "faults in force"),
    (
        "POST",
        "/_admin/v1/faults",
        r#"{"answer": {"status": 503, "substatus": 0, "retryAfterMs": 10} | "delayCommitsMs": 50, "database", "container", "partition", "operation", "count": 3, "seconds": 10}"#,
    ),
    ("DELETE", "/_admin/v1/faults", "ends all"),
    ("DELETE", "/_admin/v1/faults/{id}", "ends one"),
];

fn listed(
    has_faults: bool,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    LIST.iter().chain(FAULTS_LIST.iter().filter(move |_| has_faults))
}

/// `GET /`
pub(super) fn index(has_faults: bool) -> Reply {
    let paths: Vec<Value> = listed(has_faults)
        .map(|(method, path, about)| json!({"method": method, "path": path, "about": about}))
        .collect();
    Reply::ok(
        &json!({"server": "planisphere", "version": env!("CARGO_PKG_VERSION"), "paths": paths}),
    )
}

/// The route of `path`; an unknown one is refused with a list of all routes.
pub(super) fn find(path: &str, has_faults: bool) -> Result<Route, AdminError> {
    let unknown = || {
        let help = listed(has_faults).map(|(method, path, _)| format!("{method} {path}"));
        AdminError::not_found("There is nothing at this path.").with_help(help)
    };
    let segments = segments(path).ok_or_else(unknown)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments[..] {
        [] | ["v1"] => Ok(Route::Index),
        ["metrics"] => Ok(Route::Metrics),
        ["v1", "containers"] => Ok(Route::Containers),
        ["v1", "databases"] => Ok(Route::Databases),
        ["v1", "databases", database] => Ok(Route::Database(database.to_owned())),
        ["v1", "reset"] => Ok(Route::Reset),
        ["v1", "containers", database] => Ok(Route::ContainersOf(database.to_owned())),
        ["v1", "containers", database, container, ref rest @ ..] => {
            let name =
                ContainerName { database: database.to_owned(), container: container.to_owned() };
            of_container(name, rest).unwrap_or_else(|| Err(unknown()))
        }
        ["v1", "databases", database, "throughput"] => {
            Ok(Route::Throughput(ProvisionedName::Database(database.to_owned())))
        }
        ["v1", "keys"] => Ok(Route::Keys),
        ["v1", "keys", "regenerate"] => Ok(Route::RegenerateKey),
        ["v1", "jobs"] => Ok(Route::Jobs),
        ["v1", "jobs", id] => Ok(Route::Job(job_id(id)?)),
        ["v1", "jobs", id, step] => {
            let step = match step {
                "advance" => JobStep::Advance,
                "cancel" => JobStep::Cancel,
                "pause" => JobStep::Pause,
                "resume" => JobStep::Resume,
                _ => return Err(unknown()),
            };
            Ok(Route::JobStep(job_id(id)?, step))
        }
        ["v1", "faults"] if has_faults => Ok(Route::Faults),
        ["v1", "faults", id] if has_faults => {
            let id = id.parse().map(Route::Fault);
            id.map_err(|_| AdminError::bad_request("The id of a fault is a number such as 1."))
        }
        ["capabilities"] => Ok(Route::Capabilities),
        ["health"] => Ok(Route::Health),
        ["databases", database, "containers", container, "partitions", ref rest @ ..] => {
            let name =
                ContainerName { database: database.to_owned(), container: container.to_owned() };
            match rest {
                ["merge"] => Ok(Route::MergeOperation(name)),
                [id, "split"] => Ok(Route::SplitOperation(name, range_id(id)?)),
                _ => Err(unknown()),
            }
        }
        ["operations", id] => Ok(Route::Operation(job_id(id)?)),
        ["operations", id, "advance"] => {
            Ok(Route::OperationStep(job_id(id)?, OperationStep::Advance))
        }
        ["operations", id, "cancel"] => {
            Ok(Route::OperationStep(job_id(id)?, OperationStep::Cancel))
        }
        _ => Err(unknown()),
    }
}

fn of_container(name: ContainerName, rest: &[&str]) -> Option<Result<Route, AdminError>> {
    match rest {
        [] => Some(Ok(Route::Container(name))),
        ["partitions"] => Some(Ok(Route::Partitions(name))),
        ["throughput"] => Some(Ok(Route::Throughput(ProvisionedName::Container(name)))),
        ["query"] => Some(Ok(Route::Query(name))),
        ["explain"] => Some(Ok(Route::Explain(name))),
        ["partitions", "merge"] => Some(Ok(Route::Merge(name))),
        ["partitions", id, "split"] => Some(range_id(id).map(|range| Route::Split(name, range))),
        _ => None,
    }
}

impl Route {
    /// Whether it may take a while before it changes anything: a split searches for its split point
    /// first, and the engine does the rest by itself.
    pub(super) fn looks_before_it_acts(&self) -> bool {
        matches!(self, Route::Split(..) | Route::SplitOperation(..)) || self.is_query()
    }

    fn is_query(&self) -> bool {
        matches!(self, Route::Query(_) | Route::Explain(_))
    }

    /// Most bytes of a body.
    pub(super) fn body_bytes_max(&self) -> usize {
        if self.is_query() { QUERY_BODY_BYTES_MAX } else { BODY_BYTES_MAX }
    }

    /// Whether it accepts a method.
    pub(super) fn takes(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|taken| taken == method.as_str())
    }

    /// The accepted methods, in the form of an `Allow` header.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Route::Index
            | Route::Metrics
            | Route::Containers
            | Route::Partitions(_)
            | Route::Keys
            | Route::Jobs
            | Route::Job(_)
            | Route::Capabilities
            | Route::Health
            | Route::Operation(_) => "GET, HEAD",
            Route::Databases | Route::ContainersOf(_) => "GET, HEAD, POST",
            Route::Database(_) | Route::Container(_) => "GET, HEAD, DELETE",
            Route::Throughput(_) => "GET, HEAD, PUT",
            Route::Faults => "GET, HEAD, POST, DELETE",
            Route::Fault(_) => "DELETE",
            Route::Split(..)
            | Route::Merge(_)
            | Route::Reset
            | Route::RegenerateKey
            | Route::Query(_)
            | Route::Explain(_)
            | Route::JobStep(..)
            | Route::SplitOperation(..)
            | Route::MergeOperation(_)
            | Route::OperationStep(..) => "POST",
        }
    }
}

/// The path of a database.
pub(super) fn database_path(id: &str) -> String {
    format!("{PREFIX}/v1/databases/{}", encoded(id))
}

/// The path of a container.
pub(super) fn container_path(name: &ContainerName) -> String {
    let ContainerName { database, container } = name;
    format!("{PREFIX}/v1/containers/{}/{}", encoded(database), encoded(container))
}

/// A name as a segment of a path.
fn encoded(name: &str) -> impl std::fmt::Display {
    utf8_percent_encode(name, NON_ALPHANUMERIC)
}

/// The decoded segments, without the prefix; `None` if there are too many or one is not UTF-8.
fn segments(path: &str) -> Option<Vec<String>> {
    let path = match path.strip_prefix(PREFIX) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    };
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty()).take(SEGMENTS_MAX + 1).collect();
    if parts.len() > SEGMENTS_MAX {
        return None;
    }
    let decode = |part: &&str| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned());
    parts.iter().map(decode).collect()
}

/// Parses a partition's number.
pub(super) fn range_id(text: &str) -> Result<RangeId, AdminError> {
    let number = text.parse().map(RangeId);
    number.map_err(|_| AdminError::bad_request("The id of a partition is a number such as 0."))
}

fn job_id(text: &str) -> Result<JobId, AdminError> {
    let number = text.parse().map(JobId);
    number.map_err(|_| AdminError::bad_request("The id of a job is a number such as 1."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(database: &str, container: &str) -> ContainerName {
        ContainerName { database: database.to_owned(), container: container.to_owned() }
    }

    fn find(path: &str) -> Result<Route, AdminError> {
        super::find(path, false)
    }

    #[test]
    fn faults_are_there_only_where_they_are_wanted() {
        assert!(find("/v1/faults").is_err() && find("/v1/faults/1").is_err());
        assert_eq!(super::find("/v1/faults", true).unwrap(), Route::Faults);
        assert_eq!(super::find("/v1/faults/7", true).unwrap(), Route::Fault(7));
        assert!(super::find("/v1/faults/x", true).is_err());
    }

    #[test]
    fn paths_are_found_with_and_without_the_prefix() {
        assert_eq!(find("/_admin/v1/jobs").unwrap(), Route::Jobs);
        assert_eq!(find("/v1/jobs/").unwrap(), Route::Jobs);
        assert_eq!(find("/").unwrap(), Route::Index);
        assert_eq!(find("/_admin").unwrap(), Route::Index);
        assert!(find("/_adminv1/jobs").is_err());
    }

    #[test]
    fn names_are_decoded_segment_by_segment() {
        let path = "/_admin/v1/containers/my%20shop/a%2Fb/partitions";
        assert_eq!(find(path).unwrap(), Route::Partitions(name("my shop", "a/b")));
        let path = "/_admin/v1/containers/d/c/partitions/7/split";
        assert_eq!(find(path).unwrap(), Route::Split(name("d", "c"), RangeId(7)));
        // `merge` is not taken for a partition's number.
        let path = "/_admin/v1/containers/d/c/partitions/merge";
        assert_eq!(find(path).unwrap(), Route::Merge(name("d", "c")));
    }

    #[test]
    fn everything_else_is_refused() {
        for path in [
            "/v2/jobs",
            "/v1/jobs/x",
            "/v1/jobs/1/jump",
            "/v1/jobs/99999999999",
            "/v1/databases/d/c",
            "/v1/containers/d/c/items",
            "/v1/containers/d/c/partitions/x/split",
            "/v1/containers/%ff/c/partitions",
            "/v1/1/2/3/4/5/6/7/8/9",
        ] {
            assert!(find(path).is_err(), "{path}");
        }
    }

    #[test]
    fn every_listed_path_exists_and_takes_its_method() {
        for (method, path, _) in listed(true) {
            let path =
                path.replace("{database}", "d").replace("{container}", "c").replace("{id}", "0");
            let route = super::find(&path, true).unwrap();
            assert!(route.methods().contains(method), "{path}");
        }
    }
}
