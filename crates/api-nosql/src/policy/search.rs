//! Policies of texts and vectors, and the indexes that use them.

use engine::index::{TextIndex, VectorIndex};
use model::limits::{
    FLAT_VECTOR_DIMENSIONS_MAX, SEARCH_PATHS_MAX, VECTOR_DIMENSIONS_MAX, VECTOR_QUANTIZED_BYTES_MAX,
};
use model::{Object, PropertyPath, Value};
use query::fulltext::Language;
use query::vector::VectorMetric;

use super::{given, invalid};
use crate::errors::ApiError;

const DATA_TYPES: [&str; 4] = ["float32", "float16", "int8", "uint8"];
const SEARCH_LIST_SIZES: std::ops::RangeInclusive<i64> = 25..=500;

/// The full-text policy of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FullTextPolicy {
    pub(crate) language: Language,
    pub(crate) paths: Vec<(PropertyPath, Language)>,
}

/// A vector property of items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Embedding {
    pub(crate) path: PropertyPath,
    pub(crate) metric: VectorMetric,
    pub(crate) dimensions: usize,
}

impl FullTextPolicy {
    pub(crate) fn parse(policy: Option<&Value>) -> Result<Self, ApiError> {
        const NAME: &str = "fullTextPolicy";
        let Some(policy) = policy else { return Ok(Self::default()) };
        let policy = policy.as_object().ok_or_else(|| invalid(NAME))?;
        let language = match given(policy, "defaultLanguage") {
            Some(code) => language(code)?,
            None => Language::default(),
        };
        let mut paths: Vec<(PropertyPath, Language)> = Vec::new();
        for text in list(policy, "fullTextPaths", NAME)? {
            let path = text.field("path").and_then(Value::as_str).ok_or_else(|| invalid(NAME))?;
            let parsed = plain_path(path).ok_or_else(|| {
                refused(format!("The Full Text Policy contains an invalid Path: {path}."))
            })?;
            if paths.iter().any(|(known, _)| *known == parsed) {
                return Err(refused(format!(
                    "The Full Text Policy contains the Path: {path} more than once."
                )));
            }
            let own = text.as_object().and_then(|text| given(text, "language"));
            paths.push((parsed, own.map_or(Ok(language), self::language)?));
        }
        Ok(Self { language, paths })
    }
}

fn language(code: &Value) -> Result<Language, ApiError> {
    code.as_str().and_then(Language::lookup).ok_or_else(|| {
        let code = code.as_str().unwrap_or_default();
        refused(format!("The Full Text Policy contains an unsupported language {code}."))
    })
}

/// The embeddings of a `vectorEmbeddingPolicy`.
pub(crate) fn embeddings(policy: Option<&Value>) -> Result<Vec<Embedding>, ApiError> {
    const NAME: &str = "vectorEmbeddingPolicy";
    let Some(policy) = policy else { return Ok(Vec::new()) };
    let policy = policy.as_object().ok_or_else(|| invalid(NAME))?;
    let mut all: Vec<Embedding> = Vec::new();
    for value in list(policy, "vectorEmbeddings", NAME)? {
        let embedding = embedding(value)?;
        if all.iter().any(|known| known.path == embedding.path) {
            return Err(refused(format!(
                "The Vector Embedding Policy has the Path:{} more than once.",
                embedding.path
            )));
        }
        all.push(embedding);
    }
    Ok(all)
}

fn embedding(value: &Value) -> Result<Embedding, ApiError> {
    const NAME: &str = "vectorEmbeddingPolicy";
    let text = |name: &str| value.field(name).and_then(Value::as_str).ok_or_else(|| invalid(NAME));
    let path = text("path")?;
    let parsed = plain_path(path);
    let parsed = parsed.ok_or_else(|| {
        refused(format!("The Vector Embedding Policy has an invalid Path:{path}"))
    })?;
    let data_type = text("dataType")?;
    if !DATA_TYPES.iter().any(|known| known.eq_ignore_ascii_case(data_type)) {
        return Err(refused(format!(
            "The Vector Embedding Policy has an invalid DataType:{data_type}"
        )));
    }
    let function = text("distanceFunction")?;
    let metric = VectorMetric::lookup(function).ok_or_else(|| {
        refused(format!("The Vector Embedding Policy has an invalid DistanceFunction:{function}"))
    })?;
    let dimensions = value.field("dimensions").and_then(Value::as_i64);
    let dimensions = dimensions.ok_or_else(|| invalid(NAME))?;
    let problem = match dimensions {
        ..1 => "less than the minimum supported value:1",
        1..=VECTOR_DIMENSIONS_MAX => "",
        _ => "more than the maximum supported value:4096",
    };
    if !problem.is_empty() {
        return Err(refused(format!(
            "The Vector Embedding Policy has Dimensions:{dimensions} which is {problem}."
        )));
    }
    if value.as_object().is_some_and(|value| given(value, "embeddingSource").is_some()) {
        return Err(ApiError::not_supported("embeddings that the service makes"));
    }
    let dimensions = usize::try_from(dimensions).map_err(|_| invalid(NAME))?;
    Ok(Embedding { path: parsed, metric, dimensions })
}

/// The text indexes of a checked `fullTextIndexes` policy.
pub(super) fn text_indexes(
    indexing: &Value,
    policy: &FullTextPolicy,
) -> Result<Vec<TextIndex>, ApiError> {
    let mut all: Vec<TextIndex> = Vec::new();
    for index in indexes(indexing, "fullTextIndexes") {
        let text = index.field("path").and_then(Value::as_str).unwrap_or_default();
        let path = plain_path(text).ok_or_else(|| {
            refused(format!("The full-text indexing policy contains an invalid Path: {text}."))
        })?;
        let known = policy.paths.iter().find(|(known, _)| *known == path);
        let language = known.map_or(policy.language, |(_, language)| *language);
        let path = path.segments().to_vec();
        if !all.iter().any(|known| known.path == path) {
            all.push(TextIndex { path, language });
        }
    }
    Ok(all)
}

/// The vector indexes of a `vectorIndexes` policy.
pub(super) fn vector_indexes(
    indexing: &Value,
    embeddings: &[Embedding],
) -> Result<Vec<VectorIndex>, ApiError> {
    let mut all: Vec<VectorIndex> = Vec::new();
    for index in indexes(indexing, "vectorIndexes") {
        let index = vector_index(index, embeddings)?;
        if all.iter().any(|known| known.path == index.path) {
            return Err(refused(
                "The Vector Indexing Policy has a path more than once.".to_owned(),
            ));
        }
        all.push(index);
    }
    Ok(all)
}

fn vector_index(index: &Value, embeddings: &[Embedding]) -> Result<VectorIndex, ApiError> {
    const NAME: &str = "vectorIndexes";
    let path = index.field("path").and_then(Value::as_str).ok_or_else(|| invalid(NAME))?;
    let parsed = plain_path(path);
    let embedding = embeddings.iter().find(|known| Some(&known.path) == parsed.as_ref());
    let embedding = embedding.ok_or_else(|| {
        refused(format!(
            "The Vector Indexing Policy's path::{path} not matching in Embedding's path."
        ))
    })?;
    let kind = index.field("type").and_then(Value::as_str).ok_or_else(|| invalid(NAME))?;
    let kinds = [("flat", true), ("quantizedFlat", false), ("diskANN", false)];
    let known = kinds.iter().find(|(known, _)| known.eq_ignore_ascii_case(kind));
    let (_, is_exact) = *known.ok_or_else(|| {
        refused(format!("The Vector Indexing Policy's Index Type::{kind} is invalid."))
    })?;
    if is_exact && embedding.dimensions > FLAT_VECTOR_DIMENSIONS_MAX {
        return Err(refused(format!(
            "The Vector Indexing Policy's Index Type::{kind} is invalid for Dimensions:{}, which \
             are more than the maximum supported value:{FLAT_VECTOR_DIMENSIONS_MAX}.",
            embedding.dimensions
        )));
    }
    let dimensions = i64::try_from(embedding.dimensions).unwrap_or(VECTOR_DIMENSIONS_MAX);
    let bytes = 1..=dimensions.min(VECTOR_QUANTIZED_BYTES_MAX);
    check_number(index, "quantizationByteSize", "QuantizationByteSize", &bytes)?;
    check_number(index, "indexingSearchListSize", "IndexingSearchListSize", &SEARCH_LIST_SIZES)?;
    check_shard_key(index)?;
    Ok(VectorIndex {
        path: embedding.path.segments().to_vec(),
        dimensions: embedding.dimensions,
        metric: embedding.metric,
        is_exact,
        cells: None,
    })
}

fn check_number(
    index: &Value,
    member: &str,
    name: &str,
    range: &std::ops::RangeInclusive<i64>,
) -> Result<(), ApiError> {
    let Some(value) = index.as_object().and_then(|index| given(index, member)) else {
        return Ok(());
    };
    let number = value.as_i64().ok_or_else(|| invalid("vectorIndexes"))?;
    match range.contains(&number) {
        true => Ok(()),
        false => Err(refused(format!(
            "The Vector Indexing Policy parameter {name} value :: {number} is out of range. The \
             allowed range is between {} and {}.",
            range.start(),
            range.end()
        ))),
    }
}

fn check_shard_key(index: &Value) -> Result<(), ApiError> {
    const NAME: &str = "vectorIndexShardKey";
    let Some(key) = index.as_object().and_then(|index| given(index, NAME)) else {
        return Ok(());
    };
    let paths = key.as_array().ok_or_else(|| invalid(NAME))?;
    if paths.len() > 1 {
        return Err(refused(format!(
            "The number of shard paths defined in the Vector Indexing Policy: {} exceeds the \
             maximum: 1.",
            paths.len()
        )));
    }
    for path in paths {
        let path = path.as_str().ok_or_else(|| invalid(NAME))?;
        if plain_path(path).is_none() {
            return Err(refused(format!(
                "The Vector Indexing Policy has an invalid Shard Path: {path}."
            )));
        }
    }
    Ok(())
}

/// Refuses a replacement that changes how the vectors of a path are interpreted or indexed. Paths
/// may be added, and indexes may be dropped.
pub(super) fn check_replaced(old: &Object, new: &Object) -> Result<(), ApiError> {
    let embeddings = |policies: &Object| -> Vec<Value> {
        let policy = given(policies, "vectorEmbeddingPolicy");
        let list = policy.and_then(|policy| policy.field("vectorEmbeddings")?.as_array());
        list.unwrap_or_default().to_vec()
    };
    if embeddings(old).iter().any(|known| !embeddings(new).contains(known)) {
        return Err(refused(
            "Paths in existing embedding policy cannot be modified in Collection Replace"
                .to_owned(),
        ));
    }
    let vectors = |policies: &Object| -> Vec<Value> {
        let indexing = policies.get("indexingPolicy");
        indexing.map_or(Vec::new(), |indexing| indexes(indexing, "vectorIndexes").to_vec())
    };
    let is_changed = |known: &Value| {
        let new = vectors(new);
        !new.contains(known) && new.iter().any(|new| new.field("path") == known.field("path"))
    };
    match vectors(old).iter().any(is_changed) {
        true => Err(refused(
            "Paths in existing vector indexing policy cannot be modified in Collection Replace"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn indexes<'p>(indexing: &'p Value, name: &str) -> &'p [Value] {
    indexing.field(name).and_then(Value::as_array).unwrap_or_default()
}

fn list<'p>(policy: &'p Object, name: &str, whole: &str) -> Result<&'p [Value], ApiError> {
    match given(policy, name) {
        None => Ok(&[]),
        Some(Value::Array(list)) if list.len() <= SEARCH_PATHS_MAX => Ok(list),
        Some(_) => Err(invalid(whole)),
    }
}

/// A path that consists of names only.
fn plain_path(text: &str) -> Option<PropertyPath> {
    let path = PropertyPath::parse(text).ok()?;
    let is_plain = |name: &String| !matches!(name.as_str(), "*" | "?" | "[]" | "");
    (!path.segments().is_empty() && path.segments().iter().all(is_plain)).then_some(path)
}

fn refused(reason: String) -> ApiError {
    ApiError::bad_request_errors(reason)
}
