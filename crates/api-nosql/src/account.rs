//! The account: its settings, and the document that `GET /` returns.

use engine::RequestContext;
use model::{Object, Value, json, limits};

use crate::errors::ApiError;
use crate::reply::{Reply, ReplyHeader};
use crate::request::{Request, Verb};
use crate::{Service, resource};
use account::KeyRing;

/// The default consistency an account promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Consistency {
    /// Every read sees the last write.
    Strong,
    /// Reads lag by a bounded amount.
    BoundedStaleness,
    /// A session sees its own writes.
    #[default]
    Session,
    /// Reads see some prefix of the writes.
    ConsistentPrefix,
    /// No order is promised.
    Eventual,
}

impl Consistency {
    const ALL: [Consistency; 5] = [
        Consistency::Strong,
        Consistency::BoundedStaleness,
        Consistency::Session,
        Consistency::ConsistentPrefix,
        Consistency::Eventual,
    ];

    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "Strong",
            Consistency::BoundedStaleness => "BoundedStaleness",
            Consistency::Session => "Session",
            Consistency::ConsistentPrefix => "ConsistentPrefix",
            Consistency::Eventual => "Eventual",
        }
    }

    /// Reads the protocol's name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(text))
    }

    /// A number that is higher for stronger guarantees.
    pub(crate) fn strength(self) -> u8 {
        match self {
            Consistency::Strong => 4,
            Consistency::BoundedStaleness => 3,
            Consistency::Session => 2,
            Consistency::ConsistentPrefix => 1,
            Consistency::Eventual => 0,
        }
    }
}

/// The settings of the account that a server serves.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name. Must not be `localhost`: one SDK then ignores the account's locations.
    pub name: String,
    /// The keys it accepts.
    pub keys: KeyRing,
    /// The address clients reach it at, if it is not the scheme and host of the request.
    pub public_endpoint: Option<String>,
    /// The name of its only region, for clients that prefer regions.
    pub region: String,
    /// Its default consistency.
    pub consistency: Consistency,
    /// Whether its keys, and the resource tokens made with them, are accepted beside the tokens of
    /// the directory.
    pub local_auth: bool,
    /// Whether and where clients reach it in Direct mode.
    pub direct: Direct,
}

/// Whether and where clients reach an account in Direct mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Whether addresses are given to clients.
    pub is_on: bool,
    /// The port in addresses, if it is not that of the endpoint that the client uses.
    pub port: Option<u16>,
}

impl Default for Direct {
    /// On, at the endpoint that the client uses.
    fn default() -> Self {
        Self { is_on: true, port: None }
    }
}

/// `GET /`
pub(crate) fn read(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    if request.verb != Verb::Get {
        return Err(ApiError::method_not_allowed());
    }
    ctx.served.charge += resource::READ_CHARGE;
    let account = service.account();
    let endpoint = endpoint(account, request)?;
    // One SDK reads both figures before it reads the document.
    Ok(Reply::ok(resource::body(&document(account, &endpoint)))
        .number(ReplyHeader::MediaStorageUsageMax, 0)
        .number(ReplyHeader::MediaStorageUsage, 0))
}

/// The endpoint that clients use from now on. All requests but the first go there, so it is the one
/// that the first request used, unless the account sets another.
pub(crate) fn endpoint(account: &Account, request: &Request) -> Result<String, ApiError> {
    if let Some(public) = &account.public_endpoint {
        return Ok(format!("{}/", public.trim_end_matches('/')));
    }
    request.endpoint.clone().ok_or_else(|| {
        ApiError::bad_request("The request has no Host header, so the account has no address.")
    })
}

fn document(account: &Account, endpoint: &str) -> Value {
    // One SDK takes `localhost` to mean that the locations can't be used.
    let name = match account.name.to_ascii_lowercase().as_str() {
        "" | "localhost" => "planisphere",
        _ => &account.name,
    };
    let locations = || {
        let location = object([
            ("name", account.region.as_str().into()),
            ("databaseAccountEndpoint", endpoint.into()),
        ]);
        Value::Array(vec![location])
    };
    object([
        ("_self", "".into()),
        ("id", name.into()),
        ("_rid", format!("{name}.local").into()),
        ("media", "//media/".into()),
        ("addresses", "//addresses/".into()),
        ("_dbs", "//dbs/".into()),
        ("writableLocations", locations()),
        ("readableLocations", locations()),
        ("enableMultipleWriteLocations", false.into()),
        ("continuousBackupEnabled", false.into()),
        ("enableNRegionSynchronousCommit", false.into()),
        ("enablePerPartitionFailoverBehavior", false.into()),
        ("userReplicationPolicy", replication_policy()),
        ("userConsistencyPolicy", consistency_policy(account.consistency)),
        ("systemReplicationPolicy", replication_policy()),
        (
            "readPolicy",
            object([
                ("primaryReadCoefficient", Value::Int64(1)),
                ("secondaryReadCoefficient", Value::Int64(1)),
            ]),
        ),
        ("queryEngineConfiguration", json::to_string(&query_engine_configuration()).into()),
    ])
}

fn replication_policy() -> Value {
    object([
        ("asyncReplication", false.into()),
        ("minReplicaSetSize", Value::Int64(1)),
        // Clients in Direct mode read from a majority of so many replicas.
        ("maxReplicasetSize", Value::Int64(1)),
    ])
}

fn consistency_policy(consistency: Consistency) -> Value {
    let mut policy = vec![("defaultConsistencyLevel", consistency.name().into())];
    if consistency == Consistency::BoundedStaleness {
        policy.push(("maxStalenessPrefix", Value::Int64(100)));
        policy.push(("maxIntervalInSeconds", Value::Int64(5)));
    }
    object(policy)
}

/// Limits for clients that plan queries themselves.
fn query_engine_configuration() -> Value {
    object([
        ("maxSqlQueryInputLength", resource::int(limits::QUERY_TEXT_BYTES_MAX as u64)),
        ("maxJoinsPerSqlQuery", resource::int(limits::QUERY_JOINS_MAX as u64)),
        ("maxLogicalAndPerSqlQuery", Value::Int64(2_147_483_647)),
        ("maxLogicalOrPerSqlQuery", Value::Int64(2_147_483_647)),
        ("maxUdfRefPerSqlQuery", resource::int(limits::QUERY_UDFS_MAX as u64)),
        ("maxInExpressionItemsCount", Value::Int64(2_147_483_647)),
        ("queryMaxInMemorySortDocumentCount", Value::Int64(-1000)),
        ("maxQueryRequestTimeoutFraction", 0.9.into()),
        ("sqlAllowNonFiniteNumbers", false.into()),
        ("sqlAllowAggregateFunctions", true.into()),
        ("sqlAllowSubQuery", true.into()),
        ("sqlAllowScalarSubQuery", true.into()),
        ("sqlAllowGroupByClause", true.into()),
        ("sqlAllowLike", true.into()),
        ("sqlAllowTop", true.into()),
        ("allowNewKeywords", true.into()),
        ("enableSpatialIndexing", true.into()),
        ("maxSpatialQueryCells", Value::Int64(2_147_483_647)),
        ("spatialMaxGeometryPointCount", Value::Int64(256)),
        ("sqlDisableOptimizationFlags", Value::Int64(0)),
        ("sqlQueryILDisableOptimizationFlags", Value::Int64(0)),
        ("clientDisableOptimisticDirectExecution", false.into()),
    ])
}

pub(crate) fn object<'n>(fields: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    fields.collect::<Object>().into()
}
