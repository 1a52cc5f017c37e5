//! Where stages may stand, and which there are.

use model::Value;
use query::document::Failure;

use super::{INVALID_OPTIONS, NOT_SUPPORTED, name_of};

/// The pipeline in which a stage stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Command,
    Facet,
    Lookup,
    Union,
    Update,
}

/// InvalidNamespace.
const INVALID_NAMESPACE: i32 = 73;

/// Stages whose documents the caller makes.
const SOURCES: &[&str] = &[
    "$collStats",
    "$currentOp",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$planCacheStats",
    "$shardedDataDistribution",
];
/// Sources that need no collection.
const INDEPENDENT: &[&str] =
    &["$currentOp", "$documents", "$listLocalSessions", "$shardedDataDistribution"];
/// Stages that only a server with a search engine beside it has.
const SEARCH: &[&str] = &["$search", "$searchMeta", "$vectorSearch", "$listSearchIndexes"];
/// Other stages of version 7.0, which are not supported.
const OTHERS: &[&str] = &[
    "$changeStreamSplitLargeEvent",
    "$densify",
    "$fill",
    "$listSampledQueries",
    "$listCatalog",
    "$queryStats",
    "$querySettings",
    "$setWindowFields",
];

pub(super) fn is_source(name: &str) -> bool {
    SOURCES.contains(&name)
}

/// The failure for a stage that cannot be compiled.
pub(super) fn unsupported(name: &str, place: Place) -> Failure {
    if place == Place::Update {
        let message = format!("Unrecognized pipeline stage name: '{name}'");
        return Failure::new(40324, message);
    }
    if SEARCH.contains(&name) {
        return Failure::new(6047401, format!("{name} stage is only allowed on MongoDB Atlas"));
    }
    match name {
        "$changeStream" => {
            Failure::new(40573, "The $changeStream stage is only supported on replica sets")
        }
        "$geoNear" => Failure::new(
            291,
            "error processing query: planner returned error :: caused by :: unable to find index \
             for $geoNear query",
        ),
        _ if OTHERS.contains(&name) => {
            Failure::new(NOT_SUPPORTED, format!("{name} is not supported"))
        }
        _ => Failure::new(40324, format!("Unrecognized pipeline stage name: '{name}'")),
    }
}

/// Checks that the first stage fits to what the command names.
pub(super) fn check_beginning(
    stages: &[Value],
    place: Place,
    has_collection: bool,
) -> Result<(), Failure> {
    if place != Place::Command {
        return Ok(());
    }
    let Some(first) = stages.first() else {
        return match has_collection {
            true => Ok(()),
            false => Err(Failure::new(
                INVALID_NAMESPACE,
                "{aggregate: 1} is not valid for an empty pipeline.",
            )),
        };
    };
    let (name, _) = name_of(first)?;
    match (has_collection, INDEPENDENT.contains(&name)) {
        (false, false) => Err(Failure::new(
            INVALID_NAMESPACE,
            format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."),
        )),
        (true, true) => Err(Failure::new(
            INVALID_NAMESPACE,
            format!("'{name}' can only be run with {{aggregate: 1}}"),
        )),
        _ => Ok(()),
    }
}

/// Checks that a stage may stand where it does.
pub(super) fn check_place(
    name: &str,
    at: usize,
    count: usize,
    place: Place,
) -> Result<(), Failure> {
    let is_first_only = is_source(name)
        || SEARCH.contains(&name)
        || ["$documents", "$changeStream", "$geoNear"].contains(&name);
    let is_output = ["$out", "$merge"].contains(&name);
    match place {
        Place::Update => {
            let allowed =
                ["$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith"];
            let is_known = allowed.contains(&name);
            if !is_known && unsupported(name, Place::Command).code == 40324 && !is_stage(name) {
                return Err(unsupported(name, place));
            }
            if !is_known {
                let message = format!("{name} is not allowed to be used within an update");
                return Err(Failure::new(INVALID_OPTIONS, message));
            }
        }
        Place::Facet => {
            if is_output || is_first_only || name == "$facet" {
                let message = format!("{name} is not allowed to be used within a $facet stage");
                return Err(Failure::new(40600, message));
            }
        }
        Place::Lookup => {
            // Their documents would have to be those of the other collection.
            if is_output || is_source(name) || name == "$changeStream" {
                let message = format!("{name} is not allowed within a $lookup's sub-pipeline");
                return Err(Failure::new(51047, message));
            }
        }
        Place::Union => {
            if is_output || is_source(name) || name == "$changeStream" {
                let message = format!("{name} is not allowed within a $unionWith's sub-pipeline");
                return Err(Failure::new(31441, message));
            }
        }
        Place::Command => {}
    }
    if is_first_only && at > 0 {
        let message = format!("{name} is only valid as the first stage in a pipeline");
        return Err(Failure::new(40602, message));
    }
    if is_output && at + 1 < count {
        let message = format!("{name} can only be the final stage in the pipeline");
        return Err(Failure::new(40601, message));
    }
    Ok(())
}

/// Whether there is a stage with this name.
fn is_stage(name: &str) -> bool {
    const COMPILED: &[&str] = &[
        "$addFields",
        "$bucket",
        "$bucketAuto",
        "$count",
        "$documents",
        "$facet",
        "$graphLookup",
        "$group",
        "$limit",
        "$lookup",
        "$match",
        "$merge",
        "$out",
        "$project",
        "$redact",
        "$replaceRoot",
        "$replaceWith",
        "$sample",
        "$set",
        "$skip",
        "$sort",
        "$sortByCount",
        "$unionWith",
        "$unset",
        "$unwind",
    ];
    COMPILED.contains(&name) || is_source(name)
}
