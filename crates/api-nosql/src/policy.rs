//! A client's description of a container: parsed, checked and completed.
//!
//! The engine keeps what it acts on in typed form ([`ContainerSpec`]). Everything a client reads
//! back is stored in `policies` in the form of the response, normalized once when it is written.

mod computed;
mod encryption;
mod index_path;
mod indexing;
mod order;
mod partition_key;
mod search;
mod unique_key;

use engine::{Api, BodyFormat, Container, ContainerSpec};
use model::order::TypeOrder;
use model::{ErrorKind, Object, PropertyPath, Value};

use crate::errors::ApiError;
use crate::resource;

use ::query::functions::spatial::Geospatial as Coordinates;
use ::query::vector::VectorMetric;
use indexing::Geospatial;

pub(crate) use search::FullTextPolicy;

/// The member that names the property with the time that an item lives from.
const TTL_PATH: &str = "ttlPropertyPath";

/// Members that are stored and echoed as objects without a check of their content.
const OPAQUE_OBJECTS: [&str; 1] = ["dataMaskingPolicy"];

/// The known members of a description. Clients of the wire may send others.
const MEMBERS: [&str; 17] = [
    "id",
    "partitionKey",
    "uniqueKeyPolicy",
    "defaultTtl",
    TTL_PATH,
    "indexingPolicy",
    "vectorEmbeddingPolicy",
    "fullTextPolicy",
    "computedProperties",
    "conflictResolutionPolicy",
    "changeFeedPolicy",
    "geospatialConfig",
    "clientEncryptionPolicy",
    "analyticalStorageTtl",
    "dataMaskingPolicy",
    "globalSecondaryIndexDefinition",
    "materializedViewDefinition",
];

/// What the version of the protocol that a client speaks knows of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientVersion {
    /// Containers may lack a partition key, and each included path has its kinds of indexes.
    BeforeKeys,
    /// Every container has a key, and paths have no kinds of indexes.
    Current,
}

/// Refuses a description with an unknown member. People mistype names, which would otherwise count
/// as omitted.
pub(crate) fn check_members(body: &Object) -> Result<(), ApiError> {
    // System properties occur in descriptions that were read before.
    let is_known = |name: &str| MEMBERS.contains(&name) || name.starts_with('_');
    match body.iter().find(|(name, _)| !is_known(name)) {
        Some((name, _)) => {
            let known = MEMBERS.join(", ");
            Err(ApiError::invalid_input(format!("A container has no '{name}', but: {known}.")))
        }
        None => Ok(()),
    }
}

/// Parses the description of a new container. `has_encryption_key` tells whether its database has a client encryption key.
pub(crate) fn new_container(
    body: &Object,
    version: ClientVersion,
    has_encryption_key: &dyn Fn(&str) -> bool,
) -> Result<ContainerSpec, ApiError> {
    let id = resource::id_of(body)?;
    let key = match given(body, "partitionKey") {
        Some(value) => partition_key::parse(value)?,
        None if version == ClientVersion::BeforeKeys => partition_key::system(),
        None => return Err(ApiError::missing_properties(&["partitionKey"])),
    };
    let unique_keys = unique_key::parse(given(body, "uniqueKeyPolicy"))?;
    let encryption = given(body, "clientEncryptionPolicy");
    if let Some(policy) = encryption {
        encryption::check(policy, &key.definition, has_encryption_key)?;
    }
    let default_ttl = default_ttl(body)?;
    let versions_minutes = versions_minutes(body)?;
    let mut policies = Object::with_capacity(8);
    if let Some(policy) = encryption {
        policies.insert("clientEncryptionPolicy", policy.clone());
    }
    policies.insert("indexingPolicy", Value::Null);
    policies.insert("partitionKey", key.rendered);
    policies.insert("uniqueKeyPolicy", unique_keys.rendered);
    let indexing = changeable(body, version, default_ttl, &mut policies)?;
    Ok(ContainerSpec {
        id: id.to_owned(),
        api: Api::NoSql,
        order: TypeOrder::NoSql,
        body: BodyFormat::Json,
        partition_key: key.definition,
        unique_keys: unique_keys.keys,
        default_ttl,
        versions_minutes,
        indexing,
        policies: policies.into(),
    })
}

/// Refuses a query whose order no index of the container can serve.
pub(crate) fn check_order(container: &Container, plan: &::query::Plan) -> Result<(), ApiError> {
    order::check(container.indexed_paths(), &container.spec.indexing.composites, plan)
}

/// How a container interprets coordinates.
pub(crate) fn geospatial(container: &Container) -> Coordinates {
    match Geospatial::parse(container.spec.policies.field("geospatialConfig")) {
        Ok(Geospatial::Geometry) => Coordinates::Geometry,
        Ok(Geospatial::Geography) | Err(_) => Coordinates::Geography,
    }
}

/// The paths of a container's vectors and their distance functions.
pub(crate) fn vectors(container: &Container) -> Vec<(PropertyPath, VectorMetric)> {
    let policy = container.spec.policies.field("vectorEmbeddingPolicy");
    // The policy was checked when it was written.
    let embeddings = search::embeddings(policy).unwrap_or_default();
    embeddings.into_iter().map(|embedding| (embedding.path, embedding.metric)).collect()
}

/// The full-text policy of a container.
pub(crate) fn full_text(container: &Container) -> FullTextPolicy {
    FullTextPolicy::parse(container.spec.policies.field("fullTextPolicy")).unwrap_or_default()
}

/// Names and definitions of the computed properties of a container.
pub(crate) fn computed_properties(container: &Container) -> Vec<(String, String)> {
    let properties = container.spec.policies.field("computedProperties");
    properties.map(computed::definitions).unwrap_or_default()
}

/// Parses the description that replaces an existing one. Refuses to change immutable members.
pub(crate) fn replacement(
    old: &Container,
    body: &Object,
    version: ClientVersion,
) -> Result<ContainerSpec, ApiError> {
    if resource::id_of(body)? != old.spec.id {
        return Err(ApiError::bad_request_errors(
            "Replacing the id of a collection is not allowed.",
        ));
    }
    if let Some(value) = given(body, "partitionKey")
        && !partition_key::parse(value)?.is_same_as(&old.spec.partition_key)
    {
        return Err(ApiError::bad_request_errors(
            "Document collection partition key cannot be changed.",
        ));
    }
    if let Some(policy) = given(body, "uniqueKeyPolicy")
        && !unique_key::parse(Some(policy))?.is_same_as(&old.spec.unique_keys)
    {
        return Err(ApiError::new(
            ErrorKind::Forbidden,
            "Replacing unique index on a collection is not allowed.",
        ));
    }
    if given(body, "clientEncryptionPolicy") != old.spec.policies.field("clientEncryptionPolicy") {
        return Err(ApiError::bad_request_errors(
            "'clientEncryptionPolicy' cannot be changed as part of collection replace operation.",
        ));
    }
    let default_ttl = default_ttl(body)?;
    let mut policies = old.spec.policies.as_object().cloned().unwrap_or_default();
    let before = policies.clone();
    for name in [
        "changeFeedPolicy",
        "computedProperties",
        "analyticalStorageTtl",
        TTL_PATH,
        "fullTextPolicy",
        "vectorEmbeddingPolicy",
    ] {
        policies.remove(name);
    }
    let indexing = changeable(body, version, default_ttl, &mut policies)?;
    search::check_replaced(&before, &policies)?;
    let versions_minutes = versions_minutes(body)?;
    let policies = policies.into();
    Ok(ContainerSpec { default_ttl, versions_minutes, indexing, policies, ..old.spec.clone() })
}

/// The members that both a new container and a replacement may set, completed with the defaults.
/// Returns the indexing policy.
fn changeable(
    body: &Object,
    version: ClientVersion,
    default_ttl: Option<i32>,
    out: &mut Object,
) -> Result<engine::IndexingPolicy, ApiError> {
    let geospatial = Geospatial::parse(given(body, "geospatialConfig"))?;
    let mut indexing = indexing::normalise(given(body, "indexingPolicy"), geospatial, version)?;
    let texts = FullTextPolicy::parse(given(body, "fullTextPolicy"))?;
    let embeddings = search::embeddings(given(body, "vectorEmbeddingPolicy"))?;
    let texts = search::text_indexes(&indexing.rendered, &texts)?;
    let vectors = search::vector_indexes(&indexing.rendered, &embeddings)?;
    if indexing.policy.is_on {
        indexing.policy.texts = texts;
        indexing.policy.vectors = vectors;
    }
    for name in ["fullTextPolicy", "vectorEmbeddingPolicy"] {
        given(body, name).map(|policy| out.insert(name, policy.clone()));
    }
    if default_ttl.is_some() && !indexing.policy.is_on {
        return Err(ApiError::bad_request_errors(
            "The indexing mode must be consistent for a collection with time to live.",
        ));
    }
    if let Some(path) = ttl_path(body, default_ttl)? {
        out.insert(TTL_PATH, path.into());
    }
    let conflicts = conflict_resolution(given(body, "conflictResolutionPolicy"))?;
    out.insert("conflictResolutionPolicy", conflicts);
    out.insert("geospatialConfig", geospatial.to_value());
    if let Some(properties) = given(body, "computedProperties") {
        out.insert(
            "computedProperties",
            computed::check(properties, &spatial_paths(&indexing.rendered))?.clone(),
        );
    }
    out.insert("indexingPolicy", indexing.rendered);
    if given(body, "changeFeedPolicy").is_some() {
        let mut policy = Object::with_capacity(1);
        policy.insert("retentionDuration", Value::Int64(versions_minutes(body)?.into()));
        out.insert("changeFeedPolicy", policy.into());
    }
    if let Some(ttl) = given(body, "analyticalStorageTtl") {
        let seconds = ttl.as_i64().filter(|s| (-1..=i64::from(i32::MAX)).contains(s));
        let seconds = seconds.ok_or_else(|| invalid("analyticalStorageTtl"))?;
        out.insert("analyticalStorageTtl", Value::Int64(seconds));
    }
    for name in OPAQUE_OBJECTS {
        match given(body, name) {
            Some(policy @ Value::Object(_)) => out.insert(name, policy.clone()),
            Some(_) => return Err(invalid(name)),
            None => None,
        };
    }
    // A container that is derived from another one would stay empty here.
    let unsupported = ["globalSecondaryIndexDefinition", "materializedViewDefinition"];
    match unsupported.iter().find(|name| given(body, name).is_some()) {
        Some(name) => Err(ApiError::not_supported(name)),
        None => Ok(indexing.policy),
    }
}

/// The paths that have a spatial index.
fn spatial_paths(indexing: &Value) -> Vec<&str> {
    let indexes = indexing.field("spatialIndexes").and_then(Value::as_array).unwrap_or_default();
    indexes.iter().filter_map(|index| index.field("path")?.as_str()).collect()
}

/// A member that is present and not null; clients send null for what they leave to the server.
pub(crate) fn given<'b>(body: &'b Object, name: &str) -> Option<&'b Value> {
    body.get(name).filter(|value| **value != Value::Null)
}

/// -1 or a positive number of seconds. Unlike other members, null is not the same as absent.
fn default_ttl(body: &Object) -> Result<Option<i32>, ApiError> {
    let Some(value) = body.get("defaultTtl") else { return Ok(None) };
    let seconds = value.as_i64().and_then(|s| i32::try_from(s).ok());
    match seconds {
        Some(s) if s == -1 || s > 0 => Ok(Some(s)),
        _ => Err(ApiError::bad_request_errors(
            "The input ttl is invalid. Ensure to provide a nonzero positive integer or -1 as \
             defaultTtl.",
        )),
    }
}

/// The path of the time that an item lives from. It is kept for clients, which have retired it, and
/// not acted upon: items live from their last change.
fn ttl_path(body: &Object, default_ttl: Option<i32>) -> Result<Option<&str>, ApiError> {
    let Some(path) = given(body, TTL_PATH) else { return Ok(None) };
    let path = path.as_str().filter(|path| PropertyPath::parse(path).is_ok());
    let path = path.ok_or_else(|| invalid(TTL_PATH))?;
    match default_ttl {
        Some(_) => Ok(Some(path)),
        None => Err(ApiError::bad_request_errors(
            "The ttl property path of a collection needs its defaultTtl.",
        )),
    }
}

fn conflict_resolution(given: Option<&Value>) -> Result<Value, ApiError> {
    const NAME: &str = "conflictResolutionPolicy";
    let text = |name: &str| match given.and_then(|policy| policy.field(name)) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(invalid(NAME)),
    };
    if given.is_some_and(|policy| policy.as_object().is_none()) {
        return Err(invalid(NAME));
    }
    let (path, procedure) = (text("conflictResolutionPath")?, text("conflictResolutionProcedure")?);
    let mode = text("mode")?;
    let (mode, path) = if mode.is_empty() || mode.eq_ignore_ascii_case("LastWriterWins") {
        ("LastWriterWins", if path.is_empty() { "/_ts" } else { path })
    } else if mode.eq_ignore_ascii_case("Custom") {
        ("Custom", path)
    } else {
        return Err(invalid(NAME));
    };
    let mut out = Object::with_capacity(3);
    out.insert("mode", mode.into());
    out.insert("conflictResolutionPath", path.into());
    out.insert("conflictResolutionProcedure", procedure.into());
    Ok(out.into())
}

/// For how many minutes `changeFeedPolicy` keeps all versions and deletes.
fn versions_minutes(body: &Object) -> Result<u32, ApiError> {
    let Some(policy) = given(body, "changeFeedPolicy") else { return Ok(0) };
    let policy = policy.as_object().ok_or_else(|| invalid("changeFeedPolicy"))?;
    let Some(minutes) = given(policy, "retentionDuration") else { return Ok(0) };
    let minutes = minutes.as_i64().and_then(|m| u32::try_from(m).ok());
    // Clients do not accept durations beyond int32 either.
    let minutes = minutes.filter(|m| i32::try_from(*m).is_ok());
    minutes.ok_or_else(|| {
        ApiError::bad_request_errors(
            "The retention duration of the change feed policy is invalid. It must be a number of \
             minutes, or 0 for none.",
        )
    })
}

fn invalid(member: &str) -> ApiError {
    ApiError::invalid_input(format!("'{member}' does not have the documented form."))
}

#[cfg(test)]
mod tests;
