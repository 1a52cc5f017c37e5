//! Formats containers and their policies for people.

use serde_json::Value;

use crate::admin::types::{ContainerDetails, ContainerSummary};
use crate::cli::partitions::throughput_text;
use crate::cli::text::{self, Cell, OutputStyle, Table};

/// All containers, one line each.
pub(super) fn table(containers: &[ContainerSummary], style: OutputStyle) -> String {
    if containers.is_empty() {
        return "There are no containers yet. Create one with `planisphere container create`.\n"
            .to_owned();
    }
    let mut table =
        Table::new(style, &["CONTAINER", "PARTITION KEY", ">ITEMS", ">STORAGE", "THROUGHPUT"]);
    for container in containers {
        table.row(vec![
            Cell::plain(format!("{}/{}", container.database, container.id)),
            Cell::plain(key_text(&container.partition_key)),
            Cell::plain(text::number(container.items)),
            Cell::plain(text::bytes(container.bytes)),
            Cell::plain(throughput_text(&container.throughput)),
        ]);
    }
    table.lines().iter().flat_map(|line| [line, "\n"]).collect()
}

/// One container, with a line for each policy that can be summarised.
pub(super) fn shown(shown: &ContainerDetails) -> String {
    let ContainerDetails { summary, definition } = shown;
    let partitions = match summary.partitions {
        1 => "1 partition".to_owned(),
        many => format!("{} partitions", text::number(many as u64)),
    };
    let (items, bytes) = (text::number(summary.items), text::bytes(summary.bytes));
    let lines = [
        ("partition key", Some(key_text(&summary.partition_key))),
        ("throughput", Some(throughput_text(&summary.throughput))),
        ("holds", Some(format!("{items} items, {bytes}, in {partitions}"))),
        ("unique keys", unique_text(&definition["uniqueKeyPolicy"])),
        ("time to live", definition["defaultTtl"].as_i64().map(ttl_text)),
        ("indexing", Some(indexing_text(&definition["indexingPolicy"]))),
        ("vectors", vectors_text(&definition["vectorEmbeddingPolicy"])),
    ];
    let heading = text::shown(&format!("{}/{}", summary.database, summary.id));
    let lines = lines
        .into_iter()
        .filter_map(|(name, line)| Some(format!("  {name:<13}  {}\n", text::shown(&line?))));
    format!("{heading}\n{}", lines.collect::<String>())
}

fn key_text(paths: &[String]) -> String {
    if paths.is_empty() { "none".to_owned() } else { paths.join(", then ") }
}

/// The texts that the elements of a list have under `name`.
fn texts<'v>(list: &'v Value, name: &str) -> Vec<&'v str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|member| member[name].as_str()).collect()
}

fn unique_text(policy: &Value) -> Option<String> {
    let keys = policy["uniqueKeys"].as_array()?;
    let of_key = |key: &Value| {
        let paths = key["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
        paths.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" with ")
    };
    let keys: Vec<String> = keys.iter().map(of_key).collect();
    (!keys.is_empty()).then(|| keys.join("; "))
}

fn ttl_text(seconds: i64) -> String {
    match seconds {
        -1 => "of items that have one of their own".to_owned(),
        seconds => format!("{seconds} s after the last change, unless an item has its own"),
    }
}

fn indexing_text(policy: &Value) -> String {
    if policy["indexingMode"] == "none" {
        return "none".to_owned();
    }
    let mut out = texts(&policy["includedPaths"], "path").join(", ");
    let excluded = texts(&policy["excludedPaths"], "path");
    // That path is always excluded.
    let excluded: Vec<&str> = excluded.into_iter().filter(|path| *path != "/\"_etag\"/?").collect();
    if !excluded.is_empty() {
        out.push_str(&format!(" but not {}", excluded.join(", ")));
    }
    for (name, shown) in [
        ("compositeIndexes", "composite"),
        ("spatialIndexes", "spatial"),
        ("vectorIndexes", "vector"),
        ("fullTextIndexes", "full-text"),
    ] {
        let count = policy[name].as_array().map_or(0, Vec::len);
        if count > 0 {
            out.push_str(&format!("; {count} {shown}"));
        }
    }
    out
}

fn vectors_text(policy: &Value) -> Option<String> {
    let vectors = policy["vectorEmbeddings"].as_array()?;
    let of_vector = |vector: &Value| {
        let text = |name: &str| vector[name].as_str().unwrap_or_default().to_owned();
        let dimensions = &vector["dimensions"];
        format!(
            "{} ({dimensions} {}, {})",
            text("path"),
            text("dataType"),
            text("distanceFunction")
        )
    };
    Some(vectors.iter().map(of_vector).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_shown_with_its_policies() {
        let container = json!({
            "database": "shop", "id": "orders", "rid": "x", "partitionKey": ["/tenant", "/user"],
            "partitions": 1, "bytes": 2048, "items": 1200, "skew": 1.0,
            "throughput": {"mode": "manual", "ru": 1000},
            "definition": {
                "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a", "/b"]}, {"paths": ["/c"]}]},
                "defaultTtl": -1,
                "indexingPolicy": {
                    "indexingMode": "consistent", "includedPaths": [{"path": "/*"}],
                    "excludedPaths": [{"path": "/blob/*"}, {"path": "/\"_etag\"/?"}],
                    "vectorIndexes": [{"path": "/v", "type": "flat"}],
                },
                "vectorEmbeddingPolicy": {"vectorEmbeddings": [{
                    "path": "/v", "dataType": "float32", "dimensions": 3,
                    "distanceFunction": "cosine",
                }]},
            },
        });
        assert_eq!(
            shown(&serde_json::from_value(container).unwrap()),
            "shop/orders\n\
             \x20 partition key  /tenant, then /user\n\
             \x20 throughput     1,000 RU/s\n\
             \x20 holds          1,200 items, 2.0 KB, in 1 partition\n\
             \x20 unique keys    /a with /b; /c\n\
             \x20 time to live   of items that have one of their own\n\
             \x20 indexing       /* but not /blob/*; 1 vector\n\
             \x20 vectors        /v (3 float32, cosine)\n"
        );
    }
}
