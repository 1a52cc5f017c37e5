//! Container descriptions: what is accepted, completed and refused.

use model::{PartitionKeyKind, PartitionKeyVersion, json};

use super::*;

fn object(text: &str) -> Object {
    json::parse(text.as_bytes(), 32).unwrap().value.as_object().unwrap().clone()
}

/// The spec of a container with these further members.
fn spec(members: &str) -> Result<ContainerSpec, ApiError> {
    let key = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;
    new_container(
        &object(&format!(r#"{{"id":"c",{key}{members}}}"#)),
        ClientVersion::Current,
        &|key| key == "k",
    )
}

fn with_key(partition_key: &str) -> Result<ContainerSpec, ApiError> {
    new_container(
        &object(&format!(r#"{{"id":"c","partitionKey":{partition_key}}}"#)),
        ClientVersion::Current,
        &|key| key == "k",
    )
}

#[track_caller]
fn check_refused(result: Result<ContainerSpec, ApiError>, text: &str) {
    let error = result.expect_err("the description must be refused");
    assert_eq!(error.status(), 400, "{}", error.message());
    assert!(error.message().contains(text), "{}", error.message());
}

/// A policy as it is stored.
#[track_caller]
fn kept(members: &str, name: &str) -> String {
    json::to_string(spec(members).unwrap().policies.field(name).unwrap())
}

#[track_caller]
fn check_indexing(policy: &str, wanted: &str) {
    assert_eq!(kept(&format!(r#","indexingPolicy":{policy}"#), "indexingPolicy"), wanted);
}

const DEFAULT: &str = r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#;

#[test]
fn partition_keys_are_shown_as_given() {
    let shown =
        |key: &str| json::to_string(with_key(key).unwrap().policies.field("partitionKey").unwrap());
    let v1 = r#"{"paths":["/a/b"],"kind":"Hash"}"#;
    assert_eq!(shown(v1), v1);
    assert_eq!(with_key(v1).unwrap().partition_key.version, PartitionKeyVersion::V1);
    assert_eq!(shown(r#"{"paths":["/a/b"]}"#), v1);
    let explicit = r#"{"paths":["/a"],"kind":"Hash","version":1}"#;
    assert_eq!(shown(explicit), explicit);
    let multi = r#"{"paths":["/a","/b","/c"],"kind":"MultiHash","version":2}"#;
    assert_eq!(shown(multi), multi);
    assert_eq!(shown(&multi.replace('2', "\"V2\"")), multi);
    assert_eq!(shown(&explicit.replace('1', "\"V1\"")), explicit);
    let definition = with_key(multi).unwrap().partition_key;
    assert_eq!(
        (definition.kind, definition.version),
        (PartitionKeyKind::MultiHash, PartitionKeyVersion::V2)
    );
    let quoted = r#"{"paths":["/\"first level' 1*()\"/\"le/vel2\""],"kind":"Hash","version":2}"#;
    assert_eq!(shown(quoted), quoted);
    assert_eq!(
        with_key(quoted).unwrap().partition_key.paths[0].segments(),
        ["first level' 1*()", "le/vel2"]
    );
}

#[test]
fn bad_partition_keys_are_refused() {
    check_refused(
        new_container(&object(r#"{"id":"c"}"#), ClientVersion::Current, &|key| key == "k"),
        "'partitionKey; ' - are missing",
    );
    let refused = |key: &str, text: &str| check_refused(with_key(key), text);
    refused(r#"{"paths":"/id"}"#, "partitionKey.paths");
    refused(r#"{"paths":[]}"#, "partitionKey.paths");
    refused(r#"{"paths":[7]}"#, "partitionKey.paths");
    refused(r#""/id""#, "partitionKey");
    refused(r#"{"paths":["/a"],"kind":"Range"}"#, "partitionKey.kind");
    for version in ["3", "0", "\"V3\"", "\"2\"", "true"] {
        let key = format!(r#"{{"paths":["/a"],"version":{version}}}"#);
        refused(&key, "partitionKey.version");
    }
    refused(r#"{"paths":["/a","/b"],"kind":"Hash"}"#, "Too many partition key paths");
    refused(
        r#"{"paths":["/a","/b","/c","/d"],"kind":"MultiHash","version":2}"#,
        "Too many partition key paths (4) specified. A maximum of 3 is allowed.",
    );
    refused(r#"{"paths":["/a","/b"],"kind":"MultiHash"}"#, "version 2");
    refused(r#"{"paths":["/a","/a"],"kind":"MultiHash","version":2}"#, "twice");
    for path in ["id", "/a/?", "/a/*", "/a/", "/", "/id ds", "/'a b'/c d"] {
        refused(&format!(r#"{{"paths":["{path}"]}}"#), "partition key component definition path");
    }
}

#[test]
fn old_clients_get_a_system_key() {
    let spec =
        new_container(&object(r#"{"id":"c"}"#), ClientVersion::BeforeKeys, &|key| key == "k")
            .unwrap();
    assert!(spec.partition_key.is_system);
    assert_eq!(spec.partition_key.paths[0].segments(), ["_partitionKey"]);
}

#[test]
fn time_to_live_is_minus_one_or_positive() {
    let ttl = |text: &str| spec(&format!(r#","defaultTtl":{text}"#)).map(|s| s.default_ttl);
    assert_eq!(spec("").unwrap().default_ttl, None);
    assert_eq!(ttl("-1").unwrap(), Some(-1));
    assert_eq!(ttl("1").unwrap(), Some(1));
    assert_eq!(ttl("2147483647").unwrap(), Some(i32::MAX));
    for bad in ["null", "0", "-10", "1.5", "\"5\"", "2147483648", "true"] {
        assert_eq!(ttl(bad).map_err(|e| e.status()), Err(400), "{bad}");
    }
    check_refused(
        spec(r#","defaultTtl":5,"indexingPolicy":{"indexingMode":"none"}"#),
        "indexing mode must be consistent",
    );
}

#[test]
fn unique_keys_are_bounded() {
    let keys = |n: usize| vec![r#"{"paths":["/a"]}"#; n].join(",");
    let policy = |keys: &str| spec(&format!(r#","uniqueKeyPolicy":{{"uniqueKeys":[{keys}]}}"#));
    assert_eq!(kept("", "uniqueKeyPolicy"), r#"{"uniqueKeys":[]}"#);
    let two = policy(r#"{"paths":["/a"]},{"paths":["/a","/b/c"]}"#).unwrap();
    assert_eq!(two.unique_keys.len(), 2);
    assert_eq!(two.unique_keys[1][1].segments(), ["b", "c"]);
    check_refused(policy(&keys(2)), "twice");
    check_refused(policy(&keys(11)), "limit of 10");
    let paths: Vec<String> = (0..17).map(|i| format!(r#""/p{i}""#)).collect();
    check_refused(policy(&format!(r#"{{"paths":[{}]}}"#, paths.join(","))), "limit of 16");
    check_refused(policy(r#"{"paths":[]}"#), "uniqueKeyPolicy");
    check_refused(policy(r#"{"paths":["a"]}"#), "unique key path");
    check_refused(policy("7"), "uniqueKeyPolicy");
}

#[test]
fn partial_indexing_policies_are_completed() {
    assert_eq!(kept("", "indexingPolicy"), DEFAULT);
    check_indexing("{}", DEFAULT);
    check_indexing("null", DEFAULT);
    check_indexing(r#"{"indexingMode":"Consistent","automatic":true}"#, DEFAULT);
    check_indexing(r#"{"indexingMode":"Lazy"}"#, DEFAULT);
    check_indexing(r#"{"includedPaths":[{"path":"/*"}]}"#, DEFAULT);
    check_indexing(
        r#"{"includedPaths":[{"path":"/","indexes":[{"kind":"Hash","dataType":"String"}]}]}"#,
        DEFAULT,
    );
    check_indexing(
        r#"{"includedPaths":[],"excludedPaths":[{"path":"/_etag/?"}]}"#,
        &DEFAULT.replace(r#"/\"_etag\"/?"#, "/_etag/?"),
    );
    check_indexing(
        r#"{"excludedPaths":[{"path":"/\"systemMetadata\"/*"}]}"#,
        &DEFAULT.replace(
            r#""excludedPaths":["#,
            r#""excludedPaths":[{"path":"/\"systemMetadata\"/*"},"#,
        ),
    );
    check_indexing(
        r#"{"indexingMode":"none","automatic":true,"includedPaths":[{"path":"/*"}]}"#,
        r#"{"indexingMode":"none","automatic":false,"includedPaths":[],"excludedPaths":[]}"#,
    );
    check_indexing(
        r#"{"includedPaths":[],"excludedPaths":[{"path":"/*"}],"compositeIndexes":[]}"#,
        r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[],"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}]}"#,
    );
}

#[test]
fn further_indexes_are_kept() {
    let composite =
        r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b/c","order":"Descending"}]]}"#;
    let kept_composite = kept(&format!(r#","indexingPolicy":{composite}"#), "indexingPolicy");
    let wanted = r#""compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b/c","order":"descending"}]]"#;
    assert!(kept_composite.contains(wanted), "{kept_composite}");
    let spatial = r#"[{"path":"/l/*","types":["Point","LineString","Polygon","MultiPolygon"]}]"#;
    let kept_spatial =
        kept(&format!(r#","indexingPolicy":{{"spatialIndexes":{spatial}}}"#), "indexingPolicy");
    assert!(kept_spatial.contains(&format!(r#""spatialIndexes":{spatial}"#)), "{kept_spatial}");
    let others =
        r#""vectorIndexes":[{"path":"/v","type":"flat"}],"fullTextIndexes":[{"path":"/t"}]"#;
    let vectors = embeddings(r#""path":"/v""#);
    let kept_others =
        kept(&format!(r#","indexingPolicy":{{{others}}},{vectors}"#), "indexingPolicy");
    assert!(kept_others.ends_with(&format!("{others}}}")), "{kept_others}");
}

/// A policy of one vector, with these members or the usual ones.
fn embeddings(members: &str) -> String {
    let usual = [
        (r#""path""#, r#""/v""#),
        (r#""dataType""#, r#""float32""#),
        (r#""distanceFunction""#, r#""cosine""#),
        (r#""dimensions""#, "256"),
    ];
    let missing = usual.iter().filter(|(name, _)| !members.contains(name));
    let missing: String = missing.map(|(name, value)| format!(",{name}:{value}")).collect();
    format!(r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{{members}{missing}}}]}}"#)
}

#[test]
fn vectors_are_described_as_the_service_wants_it() {
    for good in [r#""dataType":"float16""#, r#""dataType":"uint8""#, r#""dimensions":4096"#] {
        let policy = embeddings(good);
        let wanted = policy.split_once(':').expect("a member").1;
        assert_eq!(kept(&format!(",{policy}"), "vectorEmbeddingPolicy"), wanted);
    }
    for (bad, message) in [
        (r#""dataType":"float33""#, "The Vector Embedding Policy has an invalid DataType:float33"),
        (
            r#""distanceFunction":"handMeasured""#,
            "The Vector Embedding Policy has an invalid DistanceFunction:handMeasured",
        ),
        (r#""dimensions":-1"#, "The Vector Embedding Policy has Dimensions:-1"),
        (
            r#""dimensions":8000"#,
            "Vector Embedding Policy has Dimensions:8000 which is more than the maximum supported \
             value",
        ),
        (r#""dimensions":"many""#, "One of the specified inputs is invalid"),
        (r#""path":"v""#, "The Vector Embedding Policy has an invalid Path:v"),
        (r#""path":"/v/*""#, "The Vector Embedding Policy has an invalid Path:/v/*"),
        (r#""path":7"#, "One of the specified inputs is invalid"),
    ] {
        check_refused(spec(&format!(",{}", embeddings(bad))), message);
    }
}

#[test]
fn vector_indexes_are_checked_against_their_vectors() {
    let index = |members: &str| {
        let vectors = embeddings(r#""path":"/v""#);
        spec(&format!(r#","indexingPolicy":{{"vectorIndexes":[{{{members}}}]}},{vectors}"#))
    };
    for good in [
        r#""path":"/v","type":"diskANN","quantizationByteSize":256,"indexingSearchListSize":500"#,
        r#""path":"/v","type":"quantizedFlat","quantizerType":"product""#,
        r#""path":"/v","type":"diskANN","vectorIndexShardKey":["/country/city"]"#,
    ] {
        assert!(index(good).is_ok(), "{good}");
    }
    for (bad, message) in [
        (r#""path":"/w","type":"flat""#, "path::/w not matching in Embedding's path."),
        (r#""path":"/v","type":"notFlat""#, "Index Type::notFlat is invalid"),
        (
            r#""path":"/v","type":"quantizedFlat","quantizationByteSize":0"#,
            "The Vector Indexing Policy parameter QuantizationByteSize value :: 0 is out of range. \
             The allowed range is between 1 and 256.",
        ),
        (
            r#""path":"/v","type":"diskANN","indexingSearchListSize":5"#,
            "IndexingSearchListSize value :: 5 is out of range. The allowed range is between 25 \
             and 500.",
        ),
        (
            r#""path":"/v","type":"diskANN","vectorIndexShardKey":["country"]"#,
            "The Vector Indexing Policy has an invalid Shard Path: country.",
        ),
        (
            r#""path":"/v","type":"diskANN","vectorIndexShardKey":["/a","/b","/c"]"#,
            "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the \
             maximum: 1.",
        ),
        (
            r#""path":"/v","type":"diskANN","vectorIndexShardKey":"/country""#,
            "One of the specified inputs is invalid",
        ),
    ] {
        check_refused(index(bad), message);
    }
    let long = embeddings(r#""dimensions":506"#);
    let flat = r#"{"vectorIndexes":[{"path":"/v","type":"flat"}]}"#;
    check_refused(spec(&format!(r#","indexingPolicy":{flat},{long}"#)), "Dimensions:506");
}

#[test]
fn texts_have_paths_and_languages() {
    let policy = |text: &str| spec(&format!(r#","fullTextPolicy":{text}"#));
    for good in [
        r#"{"defaultLanguage":"en-US"}"#,
        r#"{"defaultLanguage":"fr-FR","fullTextPaths":[{"path":"/a/b"}]}"#,
        r#"{"fullTextPaths":[{"path":"/a","language":"pt-BR"},{"path":"/b","language":"de-DE"}]}"#,
    ] {
        assert_eq!(kept(&format!(r#","fullTextPolicy":{good}"#), "fullTextPolicy"), good);
    }
    for (bad, message) in [
        ("7", "One of the specified inputs is invalid"),
        (r#"{"fullTextPaths":{}}"#, "One of the specified inputs is invalid"),
        (
            r#"{"fullTextPaths":[{"path":"abstract"}]}"#,
            "The Full Text Policy contains an invalid Path: abstract",
        ),
        (
            r#"{"fullTextPaths":[{"path":"/a/*"}]}"#,
            "The Full Text Policy contains an invalid Path: /a/*",
        ),
        (
            r#"{"defaultLanguage":"spa-SPA"}"#,
            "The Full Text Policy contains an unsupported language spa-SPA.",
        ),
        (
            r#"{"fullTextPaths":[{"path":"/a","language":"spa-SPA"}]}"#,
            "The Full Text Policy contains an unsupported language spa-SPA.",
        ),
        (
            r#"{"fullTextPaths":[{"path":"/a"},{"path":"/a"}]}"#,
            "The Full Text Policy contains the Path: /a more than once.",
        ),
    ] {
        check_refused(policy(bad), message);
    }
    let indexes = |list: &str| spec(&format!(r#","indexingPolicy":{{"fullTextIndexes":{list}}}"#));
    check_refused(indexes(r#"[{"path":"abstract"}]"#), "abstract");
    check_refused(indexes(r#"[{"not_path":"/a"}]"#), "One of the specified inputs is invalid");
    check_refused(indexes(r#"[{"path":"/a/*"}]"#), "invalid Path: /a/*");
    assert!(indexes(r#"[{"path":"/a"}]"#).is_ok());
}

#[test]
fn bad_indexing_policies_are_refused() {
    let refused = |policy: &str, text: &str| {
        check_refused(spec(&format!(r#","indexingPolicy":{policy}"#)), text);
    };
    refused("7", "indexingPolicy");
    refused(r#"{"indexingMode":"sometimes"}"#, "indexingMode");
    refused(r#"{"automatic":"yes"}"#, "automatic");
    refused(r#"{"includedPaths":{}}"#, "includedPaths");
    refused(r#"{"includedPaths":["/*"]}"#, "indexingPolicy.path");
    refused(r#"{"includedPaths":[{"path":"/a/?"}]}"#, "special mandatory indexing path");
    refused(r#"{"includedPaths":[{"path":"/*"},{"path":"/a"}]}"#, "must end with");
    refused(r#"{"includedPaths":[{"path":"/*"},{"path":"a"}]}"#, "could not be accepted");
    refused(
        r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/"}]}"#,
        "both included and excluded",
    );
    refused(r#"{"compositeIndexes":[[{"path":"/a"}]]}"#, "at least 2");
    refused(r#"{"compositeIndexes":[[{"path":"/a/*"},{"path":"/b"}]]}"#, "wildcard");
    refused(r#"{"compositeIndexes":[[{"path":"/a","order":"up"},{"path":"/b"}]]}"#, "order");
    refused(
        r#"{"spatialIndexes":[{"path":"/a/*","types":[]}]}"#,
        "The spatial data types array cannot be empty. Assign at least one spatial type for the 'types' array for the path",
    );
    refused(r#"{"spatialIndexes":[{"path":"/a/*","types":["Circle"]}]}"#, "types");
    refused(
        r#"{"spatialIndexes":[{"path":"/a/*","types":["Point"],"boundingBox":{"xmin":0,"ymin":0,"xmax":1,"ymax":1}}]}"#,
        "a boundingBox, which it may not have since the geospatial type of the collection is Geography",
    );
    let many = vec![r#"{"path":"/a/?"}"#; 1001].join(",");
    refused(&format!(r#"{{"excludedPaths":[{many}]}}"#), "excludedPaths");
}

#[test]
fn geometry_needs_a_bounding_box() {
    let geometry = |index: &str| {
        spec(&format!(
            r#","geospatialConfig":{{"type":"Geometry"}},"indexingPolicy":{{"spatialIndexes":[{index}]}}"#
        ))
    };
    let bounds = r#"{"xmin":-10,"ymin":-20,"xmax":10,"ymax":20}"#;
    let boxed = format!(r#"{{"path":"/a/?","types":["Polygon"],"boundingBox":{bounds}}}"#);
    assert!(geometry(&boxed).is_ok());
    check_refused(
        geometry(r#"{"path":"/a/?","types":["Polygon"]}"#),
        "must have a boundingBox since the geospatial type of the collection is Geometry",
    );
    check_refused(geometry(&boxed.replace("-20", "20")), "boundingBox");
    check_refused(spec(r#","geospatialConfig":{"type":"Flat"}"#), "geospatialConfig");
}

#[test]
fn other_policies_are_checked_and_kept() {
    assert_eq!(
        kept(
            r#","conflictResolutionPolicy":{"mode":"lastwriterwins","conflictResolutionPath":"/n"}"#,
            "conflictResolutionPolicy"
        ),
        r#"{"mode":"LastWriterWins","conflictResolutionPath":"/n","conflictResolutionProcedure":""}"#
    );
    assert_eq!(
        kept(
            r#","conflictResolutionPolicy":{"mode":"Custom","conflictResolutionProcedure":"dbs/d/colls/c/sprocs/s"}"#,
            "conflictResolutionPolicy"
        ),
        r#"{"mode":"Custom","conflictResolutionPath":"","conflictResolutionProcedure":"dbs/d/colls/c/sprocs/s"}"#
    );
    check_refused(
        spec(r#","conflictResolutionPolicy":{"mode":"Dice"}"#),
        "conflictResolutionPolicy",
    );
    assert_eq!(
        kept(r#","changeFeedPolicy":{"retentionDuration":5}"#, "changeFeedPolicy"),
        r#"{"retentionDuration":5}"#
    );
    assert_eq!(kept(r#","changeFeedPolicy":{}"#, "changeFeedPolicy"), r#"{"retentionDuration":0}"#);
    check_refused(spec(r#","changeFeedPolicy":5"#), "changeFeedPolicy");
    for bad in ["-1", "1.5", "\"long\"", "2147483648"] {
        let policy = format!(r#","changeFeedPolicy":{{"retentionDuration":{bad}}}"#);
        check_refused(spec(&policy), "retention duration");
    }
    assert_eq!(kept(r#","analyticalStorageTtl":-1"#, "analyticalStorageTtl"), "-1");
    check_refused(spec(r#","analyticalStorageTtl":"x""#), "analyticalStorageTtl");
    assert_eq!(kept(r#","dataMaskingPolicy":{"a":1}"#, "dataMaskingPolicy"), r#"{"a":1}"#);
    check_refused(spec(r#","vectorEmbeddingPolicy":[]"#), "vectorEmbeddingPolicy");
    check_refused(spec(r#","globalSecondaryIndexDefinition":{}"#), "does not support");
}

#[test]
fn computed_properties_have_names_and_queries() {
    let computed = |list: &str| spec(&format!(r#","computedProperties":{list}"#));
    let one = r#"{"name":"lower","query":"SELECT VALUE LOWER(c.n) FROM c"}"#;
    assert!(computed(&format!("[{one}]")).is_ok());
    check_refused(
        computed(&format!("[{one},{one}]")),
        "'lower' cannot be used in multiple definitions",
    );
    check_refused(computed("{}"), "One of the specified inputs is invalid");
    check_refused(computed(r#"[{"name":"x"}]"#), "One of the specified inputs is invalid");
    check_refused(
        computed(r#"[{"name":"","query":"q"}]"#),
        "'name' is either empty or unspecified",
    );
    check_refused(computed(r#"[{"name":"id","query":"q"}]"#), "system property name 'id'");
    check_refused(
        computed(r#"[{"name":"l","query":"SELECT LOWER(c.n) FROM c"}]"#),
        "Required VALUE expression missing from computed property query 'SELECT LOWER(c.n) FROM c' \
         at index (0).",
    );
    check_refused(
        computed(&format!(r#"[{one},{{"name":"l","query":"SELECT LOWER(c.n) FROM r"}}]"#)),
        r#"Computed property at index (1) has a malformed query: 'SELECT LOWER(c.n) FROM r' Error details: '{\"errors\":[{\"severity\":\"Error\",\"code\":2001,\"message\":\"Identifier 'c' could not be resolved.\"}]}'"#,
    );
    check_refused(
        computed(r#"[{"name":"l","query":"SELECT VALUE COUNT(1) FROM c"}]"#),
        "an aggregate function is not allowed",
    );
    check_refused(
        spec(
            r#","computedProperties":[{"name":"at","query":"SELECT VALUE c.x FROM c"}],
              "indexingPolicy":{"spatialIndexes":[{"path":"/at/*","types":["Point"]}]}"#,
        ),
        "Computed property 'at' at index (0) has a spatial index. Remove the spatial index on this \
         path.",
    );
}

#[test]
fn client_encryption_policies_are_kept_when_clients_can_follow_them() {
    let path = |path: &str, key: &str, kind: &str| {
        format!(
            r#"{{"path":"{path}","clientEncryptionKeyId":"{key}","encryptionType":"{kind}",
                "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}}"#
        )
    };
    let policy = |paths: &[String], version: &str| {
        let paths = paths.join(",");
        spec(&format!(
            r#","clientEncryptionPolicy":{{"includedPaths":[{paths}],"policyFormatVersion":{version}}}"#
        ))
    };
    let (a, b) = (path("/a", "k", "Deterministic"), path("/b", "k", "Randomized"));
    let kept = policy(&[a.clone(), b.clone()], "1").unwrap();
    let kept = kept.policies.field("clientEncryptionPolicy").unwrap();
    assert_eq!(kept.field("includedPaths").and_then(Value::as_array).map(<[_]>::len), Some(2));
    assert!(policy(&[], "2").is_ok());
    let missing = path("/a", "other", "Randomized");
    check_refused(policy(&[missing], "1"), "ClientEncryptionKey with id '[other]' does not exist.");
    check_refused(policy(&[a.clone(), a.clone()], "1"), "Duplicate path '/a'");
    check_refused(policy(&[path("/a/b", "k", "Randomized")], "1"), "only top level paths");
    check_refused(policy(&[path("/a", "k", "Other")], "1"), "EncryptionType should be");
    check_refused(policy(&[a.replace("AEAD", "X")], "1"), "EncryptionAlgorithm should be");
    check_refused(policy(std::slice::from_ref(&a), "3"), "Supported versions");
    for identity in ["/id", "/pk"] {
        let one = |kind| [path(identity, "k", kind)];
        check_refused(policy(&one("Deterministic"), "1"), "Please use PolicyFormatVersion: 2");
        check_refused(policy(&one("Randomized"), "2"), "has to be encrypted with Deterministic");
        assert!(policy(&one("Deterministic"), "2").is_ok());
    }
    check_refused(spec(r#","clientEncryptionPolicy":[]"#), "clientEncryptionPolicy");
    check_refused(spec(r#","clientEncryptionPolicy":{"includedPaths":[{}]}"#), "documented form");
}
