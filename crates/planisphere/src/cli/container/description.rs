//! The description of a new container, from the arguments.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::{Map, Value, json};

use crate::cli::throughput;

/// Most bytes of a policy file.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(super) fn args() -> Vec<Arg> {
    let partition_key = Arg::new("partition-key")
        .long("partition-key")
        .short('k')
        .value_name("PATH")
        .required(true)
        .action(ArgAction::Append)
        .help(
            "Path of the partition key, such as /customer; give it two or three \
             times for a hierarchical key",
        );
    let ttl = Arg::new("ttl")
        .long("ttl")
        .value_name("SECONDS")
        .allow_negative_numbers(true)
        .value_parser(value_parser!(i32))
        .help(
            "Delete items this long after their last change; -1: only those with a ttl of \
             their own",
        );
    let unique = Arg::new("unique")
        .long("unique")
        .value_name("PATH[,PATH]...")
        .action(ArgAction::Append)
        .help("Refuse a second item of a partition key with the same value here; several paths are unique together");
    let indexing = file_arg("indexing", "Indexing policy: a file with its JSON, or -");
    let vectors = file_arg("vectors", "Vector embedding policy: a file with its JSON, or -");
    let throughput = throughput::new_args("Dedicated request units per second");
    std::iter::once(partition_key)
        .chain(throughput)
        .chain([ttl, unique, indexing, vectors])
        .collect()
}

fn file_arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_parser(value_parser!(std::path::PathBuf))
        .help(help)
}

/// The description of container `id`, in the form of the admin API.
pub(super) fn of(id: &str, matches: &ArgMatches) -> anyhow::Result<Value> {
    let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten();
    let paths: Vec<&String> = texts("partition-key").collect();
    let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
    let mut out = Map::new();
    out.insert("id".to_owned(), id.into());
    out.insert("partitionKey".to_owned(), json!({"paths": paths, "kind": kind, "version": 2}));
    let unique: Vec<Value> =
        texts("unique").map(|key| json!({"paths": unique_paths(key)})).collect();
    if !unique.is_empty() {
        out.insert("uniqueKeyPolicy".to_owned(), json!({"uniqueKeys": unique}));
    }
    if let Some(ttl) = matches.get_one::<i32>("ttl") {
        out.insert("defaultTtl".to_owned(), (*ttl).into());
    }
    let file = |name: &str| {
        let file = matches.get_one::<std::path::PathBuf>(name)?;
        let read = read_json(file).with_context(|| format!("--{name} {}", file.display()));
        Some(read.map(|value| (file.as_path(), value)))
    };
    if let Some((_, value)) = file("indexing").transpose()? {
        out.insert("indexingPolicy".to_owned(), unwrapped(value, "indexingPolicy"));
    }
    if let Some((path, value)) = file("vectors").transpose()? {
        let embeddings =
            vector_policy(value).with_context(|| format!("--vectors {}", path.display()))?;
        out.insert("vectorEmbeddingPolicy".to_owned(), embeddings);
    }
    if let Some(params) = throughput::throughput_of_new(matches) {
        out.insert("throughput".to_owned(), serde_json::to_value(params)?);
    }
    Ok(out.into())
}

/// The paths of a unique key. A comma that no path's slash follows belongs to a quoted path.
fn unique_paths(text: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for part in text.split(',') {
        match paths.last_mut() {
            Some(last) if !part.trim_start().starts_with('/') => {
                last.push(',');
                last.push_str(part);
            }
            _ => paths.push(part.trim().to_owned()),
        }
    }
    paths
}

fn read_json(path: &Path) -> anyhow::Result<Value> {
    let mut text = Vec::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut text),
        false => std::fs::File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)),
    };
    read.context("can't be read")?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("is larger than {FILE_BYTES_MAX} bytes");
    }
    serde_json::from_slice(&text).context("is not JSON")
}

/// The value itself, or its member `name`: users copy both forms from descriptions.
fn unwrapped(mut value: Value, name: &str) -> Value {
    match value.get_mut(name) {
        Some(inner) => inner.take(),
        None => value,
    }
}

/// The policy from any of its forms: whole, within a description, or as its list.
fn vector_policy(value: Value) -> anyhow::Result<Value> {
    let value = unwrapped(value, "vectorEmbeddingPolicy");
    if value.is_array() {
        return Ok(json!({"vectorEmbeddings": value}));
    }
    if value.get("vectorEmbeddings").is_none() {
        bail!(
            "has no \"vectorEmbeddings\"; write {{\"vectorEmbeddings\": [{{\"path\": \"/v\", \
             \"dataType\": \"float32\", \"dimensions\": 3, \"distanceFunction\": \"cosine\"}}]}}"
        );
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn describe(arguments: &[&str]) -> Value {
        let arguments = [&["create"], arguments].concat();
        of("c", &Command::new("create").args(args()).try_get_matches_from(arguments).unwrap())
            .unwrap()
    }

    #[test]
    fn only_what_was_said_is_described() {
        assert_eq!(
            describe(&["-k", "/a"]),
            json!({"id": "c", "partitionKey": {"paths": ["/a"], "kind": "Hash", "version": 2}})
        );
    }

    #[test]
    fn every_flag_has_its_member() {
        let described = describe(&[
            "-k",
            "/a",
            "-k",
            "/b",
            "--ttl",
            "-1",
            "--unique",
            "/x",
            "--unique",
            "/y,/z",
            "--autoscale",
            "4000",
        ]);
        assert_eq!(
            described,
            json!({
                "id": "c",
                "partitionKey": {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
                "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/x"]}, {"paths": ["/y", "/z"]}]},
                "defaultTtl": -1,
                "throughput": {"autoscaleMax": 4000},
            })
        );
    }

    #[test]
    fn a_comma_divides_paths_only_before_one() {
        assert_eq!(unique_paths("/a, /b"), ["/a", "/b"]);
        assert_eq!(unique_paths(r#"/"a,b",/c"#), [r#"/"a,b""#, "/c"]);
        assert_eq!(unique_paths(""), [""]);
    }

    #[test]
    fn policies_are_taken_out_of_descriptions() {
        let embeddings = json!([{"path": "/v"}]);
        let policy = json!({"vectorEmbeddings": embeddings});
        for written in [embeddings, policy.clone(), json!({"vectorEmbeddingPolicy": policy})] {
            assert_eq!(vector_policy(written).unwrap(), policy);
        }
        assert!(vector_policy(json!({"path": "/v"})).is_err() && vector_policy(json!(1)).is_err());
        let indexing = json!({"indexingMode": "none"});
        assert_eq!(unwrapped(json!({"indexingPolicy": indexing}), "indexingPolicy"), indexing);
        assert_eq!(unwrapped(indexing.clone(), "indexingPolicy"), indexing);
    }
}
