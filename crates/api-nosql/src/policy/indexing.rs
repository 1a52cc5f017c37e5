//! Indexing policies: checked against the rules and completed with the defaults.

use engine::index::{Composite, CompositeColumn, PathPattern};
use model::{Object, Value, limits};

use super::index_path::{End, IndexPath};
use super::{ClientVersion, given, invalid};
use crate::errors::ApiError;

const SPATIAL_TYPES: [&str; 4] = ["Point", "LineString", "Polygon", "MultiPolygon"];
const BOUNDS: [&str; 4] = ["xmin", "ymin", "xmax", "ymax"];

/// How a container interprets coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Geospatial {
    /// On the globe.
    Geography,
    /// On a plane, within a bounding box.
    Geometry,
}

impl Geospatial {
    pub(super) fn parse(config: Option<&Value>) -> Result<Self, ApiError> {
        let Some(config) = config else { return Ok(Geospatial::Geography) };
        match config.field("type").and_then(Value::as_str) {
            Some("Geography") => Ok(Geospatial::Geography),
            Some("Geometry") => Ok(Geospatial::Geometry),
            _ => Err(invalid("geospatialConfig")),
        }
    }

    pub(super) fn to_value(self) -> Value {
        let name = match self {
            Geospatial::Geography => "Geography",
            Geospatial::Geometry => "Geometry",
        };
        one("type", name.into())
    }
}

/// A complete policy.
pub(super) struct IndexingPolicy {
    pub rendered: Value,
    /// Its meaning for the engine.
    pub policy: engine::IndexingPolicy,
}

/// Checks a policy, absent or partial, and fills in what is missing.
pub(super) fn normalise(
    policy: Option<&Value>,
    geospatial: Geospatial,
    version: ClientVersion,
) -> Result<IndexingPolicy, ApiError> {
    let nothing = Object::new();
    let policy = match policy {
        None => &nothing,
        Some(policy) => policy.as_object().ok_or_else(|| invalid("indexingPolicy"))?,
    };
    let mode = mode(policy)?;
    let is_indexed = mode != "none";
    // The flag is checked but not stored: indexing is automatic exactly if there is any.
    if given(policy, "automatic").is_some_and(|automatic| automatic.as_bool().is_none()) {
        return Err(invalid("indexingPolicy.automatic"));
    }
    let (included, excluded) = match is_indexed {
        true => paths(policy, version)?,
        false => (Paths::new(version), Paths::new(version)),
    };
    let composites = array(policy, "compositeIndexes")?;
    if composites.len() > limits::COMPOSITE_INDEXES_MAX {
        return Err(ApiError::bad_request_errors(
            "The number of composite indexes exceeds the maximum of 100.",
        ));
    }
    let typed = engine::IndexingPolicy {
        is_on: is_indexed,
        included: included.patterns(),
        excluded: excluded.patterns(),
        composites: composites.iter().map(composite_of).collect::<Result<_, _>>()?,
        spatial: spatial_patterns(policy)?,
        is_on_plane: geospatial == Geospatial::Geometry,
        ..engine::IndexingPolicy::none()
    };
    let mut out = Object::with_capacity(8);
    out.insert("indexingMode", mode.into());
    out.insert("automatic", is_indexed.into());
    out.insert("includedPaths", Value::Array(included.rendered));
    out.insert("excludedPaths", Value::Array(excluded.rendered));
    let optional = [
        ("compositeIndexes", list(policy, "compositeIndexes", composite_index)?),
        ("spatialIndexes", list(policy, "spatialIndexes", |s| spatial_index(s, geospatial))?),
        ("vectorIndexes", list(policy, "vectorIndexes", index_with_path)?),
        ("fullTextIndexes", list(policy, "fullTextIndexes", index_with_path)?),
    ];
    for (name, indexes) in optional.into_iter().filter(|(_, indexes)| !indexes.is_empty()) {
        out.insert(name, Value::Array(indexes));
    }
    Ok(IndexingPolicy { rendered: out.into(), policy: typed })
}

fn mode(policy: &Object) -> Result<&'static str, ApiError> {
    let Some(mode) = given(policy, "indexingMode") else { return Ok("consistent") };
    let mode = mode.as_str().unwrap_or_default();
    // The lazy mode is retired, and what asks for it gets the consistent one.
    [("consistent", "consistent"), ("lazy", "consistent"), ("none", "none")]
        .into_iter()
        .find(|(asked, _)| asked.eq_ignore_ascii_case(mode))
        .map(|(_, kept)| kept)
        .ok_or_else(|| invalid("indexingPolicy.indexingMode"))
}

/// The included and excluded paths. Without any included path everything is indexed, unless the
/// root is excluded. The etag is always excluded, because no query searches for it.
fn paths(policy: &Object, version: ClientVersion) -> Result<(Paths, Paths), ApiError> {
    let (mut included, mut excluded) = (Paths::new(version), Paths::new(version));
    for value in array(policy, "includedPaths")? {
        included.add(value)?;
    }
    for value in array(policy, "excludedPaths")? {
        excluded.add(value)?;
    }
    if let Some(twice) = included.parsed.iter().find(|p| excluded.parsed.contains(p)) {
        return Err(ApiError::bad_request_errors(format!(
            "The indexing path '{}' is both included and excluded.",
            included.text_of(twice)
        )));
    }
    let root = IndexPath::root();
    let has_root = included.parsed.contains(&root) || excluded.parsed.contains(&root);
    if !has_root && included.parsed.is_empty() {
        included.push("/*", root, None);
    } else if !has_root {
        return Err(ApiError::bad_request_errors(
            "The special mandatory indexing path \"/\" is not provided in any of the path type \
             sets. Please provide this path in one of the sets.",
        ));
    }
    let etag = IndexPath::etag();
    if !excluded.parsed.contains(&etag) && !included.parsed.contains(&etag) {
        excluded.push("/\"_etag\"/?", etag, None);
    }
    Ok((included, excluded))
}

/// A list of paths under construction; duplicates are left out.
struct Paths {
    parsed: Vec<IndexPath>,
    rendered: Vec<Value>,
    version: ClientVersion,
}

impl Paths {
    fn new(version: ClientVersion) -> Self {
        Self { parsed: Vec::new(), rendered: Vec::new(), version }
    }

    /// Adds `{"path": ...}`. The `indexes` of old clients no longer have a meaning: those clients
    /// read them back, for others they are dropped.
    fn add(&mut self, value: &Value) -> Result<(), ApiError> {
        let text = path_of(value)?;
        let path = IndexPath::parse(text)?;
        if path.end == End::Name {
            return Err(ApiError::bad_request_errors(format!(
                "The indexing path '{text}' could not be accepted: it must end with '/?' or '/*'."
            )));
        }
        let text = if text == "/" { "/*" } else { text };
        let indexes = match self.version {
            ClientVersion::BeforeKeys => value.as_object().and_then(|path| given(path, "indexes")),
            ClientVersion::Current => None,
        };
        if indexes.is_some_and(|indexes| indexes.as_array().is_none()) {
            return Err(invalid("indexingPolicy.includedPaths.indexes"));
        }
        self.push(text, path, indexes);
        Ok(())
    }

    fn push(&mut self, text: &str, path: IndexPath, indexes: Option<&Value>) {
        if self.parsed.contains(&path) {
            return;
        }
        self.parsed.push(path);
        let mut rendered = Object::with_capacity(2);
        rendered.insert("path", text.into());
        if let Some(indexes) = indexes {
            rendered.insert("indexes", indexes.clone());
        }
        self.rendered.push(rendered.into());
    }

    fn patterns(&self) -> Vec<PathPattern> {
        self.parsed.iter().flat_map(IndexPath::patterns).collect()
    }

    fn text_of(&self, path: &IndexPath) -> &str {
        let at = self.parsed.iter().position(|p| p == path);
        at.and_then(|at| path_of(&self.rendered[at]).ok()).unwrap_or_default()
    }
}

fn composite_index(value: &Value) -> Result<Value, ApiError> {
    let columns = value.as_array().ok_or_else(|| invalid("indexingPolicy.compositeIndexes"))?;
    if columns.len() < 2 || columns.len() > limits::COMPOSITE_INDEX_PATHS_MAX {
        return Err(ApiError::bad_request_errors(
            "The number of paths in a composite index must be at least 2 and at most 8.",
        ));
    }
    columns.iter().map(composite_column).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

/// The engine's form of a checked composite index. A path through an array has no value to sort by.
fn composite_of(value: &Value) -> Result<Composite, ApiError> {
    let columns = composite_index(value)?;
    let column = |value: &Value| {
        let path = IndexPath::parse(path_of(value)?)?.names().unwrap_or_default();
        let order = value.field("order").and_then(Value::as_str);
        Ok(CompositeColumn { path, is_descending: order == Some("descending") })
    };
    let columns = columns.as_array().unwrap_or_default().iter().map(column);
    Ok(Composite { columns: columns.collect::<Result<_, ApiError>>()? })
}

fn composite_column(value: &Value) -> Result<Value, ApiError> {
    let text = path_of(value)?;
    if IndexPath::parse(text)?.end != End::Name {
        return Err(ApiError::bad_request_errors(format!(
            "The composite index path '{text}' could not be accepted: it must not end with a \
             wildcard."
        )));
    }
    let order = value.field("order").filter(|order| **order != Value::Null);
    let order = match order.map(|order| order.as_str().unwrap_or_default()) {
        None => "ascending",
        Some(order) => ["ascending", "descending"]
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(order))
            .ok_or_else(|| invalid("indexingPolicy.compositeIndexes.order"))?,
    };
    let mut out = Object::with_capacity(2);
    out.insert("path", text.into());
    out.insert("order", order.into());
    Ok(out.into())
}

/// The paths whose geometries are indexed.
fn spatial_patterns(policy: &Object) -> Result<Vec<PathPattern>, ApiError> {
    let mut patterns = Vec::new();
    for index in array(policy, "spatialIndexes")? {
        patterns.extend(IndexPath::parse(path_of(index)?)?.patterns());
    }
    Ok(patterns)
}

/// An index serves geometries of every type, whichever are named; clients read all of them back.
fn spatial_index(value: &Value, geospatial: Geospatial) -> Result<Value, ApiError> {
    let text = path_of(value)?;
    IndexPath::parse(text)?;
    let types = value.field("types").and_then(Value::as_array).unwrap_or_default();
    if types.is_empty() {
        return Err(ApiError::bad_request_errors(format!(
            "The spatial data types array cannot be empty. Assign at least one spatial type for \
             the 'types' array for the path '{text}'."
        )));
    }
    let is_known = |t: &Value| t.as_str().is_some_and(|t| SPATIAL_TYPES.contains(&t));
    if !types.iter().all(is_known) {
        return Err(invalid("indexingPolicy.spatialIndexes.types"));
    }
    let bounding_box = value.field("boundingBox").filter(|b| **b != Value::Null);
    match (geospatial, bounding_box) {
        (Geospatial::Geography, None) => {}
        (Geospatial::Geometry, Some(bounds)) => check_bounds(bounds)?,
        (Geospatial::Geography, Some(_)) => {
            return Err(ApiError::bad_request_errors(format!(
                "The spatial index of path '{text}' has a boundingBox, which it may not have since \
                 the geospatial type of the collection is Geography."
            )));
        }
        (Geospatial::Geometry, None) => {
            return Err(ApiError::bad_request_errors(format!(
                "The spatial index of path '{text}' must have a boundingBox since the geospatial \
                 type of the collection is Geometry."
            )));
        }
    }
    let mut out = value.as_object().cloned().unwrap_or_default();
    out.insert("types", Value::Array(SPATIAL_TYPES.map(Value::from).to_vec()));
    Ok(out.into())
}

fn check_bounds(bounds: &Value) -> Result<(), ApiError> {
    let bound = |name: &str| bounds.field(name).and_then(Value::as_f64);
    let [xmin, ymin, xmax, ymax] = BOUNDS.map(bound);
    let is_box = |min: Option<f64>, max: Option<f64>| min.zip(max).is_some_and(|(a, b)| a < b);
    match is_box(xmin, xmax) && is_box(ymin, ymax) {
        true => Ok(()),
        false => Err(invalid("indexingPolicy.spatialIndexes.boundingBox")),
    }
}

/// An index definition of which only the path is checked here; other members belong to features
/// that parse them later.
fn index_with_path(value: &Value) -> Result<Value, ApiError> {
    IndexPath::parse(path_of(value)?)?;
    Ok(value.clone())
}

fn list(
    policy: &Object,
    name: &'static str,
    check: impl Fn(&Value) -> Result<Value, ApiError>,
) -> Result<Vec<Value>, ApiError> {
    array(policy, name)?.iter().map(check).collect()
}

fn array<'p>(policy: &'p Object, name: &'static str) -> Result<&'p [Value], ApiError> {
    match given(policy, name) {
        None => Ok(&[]),
        Some(Value::Array(list)) if list.len() <= limits::INDEXING_PATHS_MAX => Ok(list),
        Some(_) => Err(invalid(name)),
    }
}

fn path_of(value: &Value) -> Result<&str, ApiError> {
    value.field("path").and_then(Value::as_str).ok_or_else(|| invalid("indexingPolicy.path"))
}

fn one(name: &str, value: Value) -> Value {
    let mut out = Object::with_capacity(1);
    out.insert(name, value);
    out.into()
}
