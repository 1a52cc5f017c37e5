//! `createIndexes`, `dropIndexes` and `listIndexes`.

use std::sync::Arc;

use engine::index::{OrderedColumn, OrderedIndexSpec};
use engine::{Container, Error};
use lang::mongo::CompileOptions;
use lang::mongo::filter::{self, FilterOptions};
use model::{Object, Value, bson, number};
use query::document::index_keys::{ColumnKind, PartialFilter};

use super::collections::listed;
use super::find::{check_collation, not_supported};
use super::write_concern;
use crate::client::Client;
use crate::collections::check_writable;
use crate::command::{Command, is_true, type_name, whole_number};
use crate::document::{count, document};
use crate::errors::codes as code;
use crate::reply::Reply;
use crate::{MongoError, Service};

/// The name of the index that every collection has.
pub(crate) const ID_INDEX: &str = "_id_";
/// Most indexes of a collection, with that one.
const INDEXES_MAX: usize = 64;
/// Most columns of an index.
const COLUMNS_MAX: usize = 32;
/// Longest time after which documents may expire, in seconds.
const EXPIRY_MAX: i64 = i32::MAX as i64;

/// Options that are as they are for every index, or say nothing about its content.
const WITHOUT_EFFECT: &[&str] = &["v", "ns", "background", "key", "name", "prepareUnique"];
/// Options of kinds of indexes that are not there.
const OTHER_KINDS: &[&str] = &[
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "wildcardProjection",
    "storageEngine",
    "clustered",
];

fn cannot_create(message: impl Into<String>) -> MongoError {
    MongoError::new(code::CANNOT_CREATE_INDEX, message)
}

/// The definition of the index that every collection has.
pub(crate) fn id_index() -> Object {
    document! { "v" => 2, "key" => document! { "_id" => 1 }, "name" => ID_INDEX }
}

/// `createIndexes`.
pub(crate) async fn create(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let (name, namespace) = (command.collection()?, command.namespace()?);
    let wanted = command.array("indexes").unwrap_or_default();
    if wanted.is_empty() {
        let message = "Must specify at least one index to create";
        return Err(MongoError::new(code::BAD_VALUE, message));
    }
    let concern = write_concern::check(client, command)?;
    let read = wanted.iter().map(read_index).collect::<Result<Vec<_>, _>>()?;
    let ctx = service.context(client, command)?;
    let is_new = service.collection(&command.database, name).is_none();
    let container = service.collection_to_write(&ctx, &command.database, name).await?;
    let before = container.spec.indexing.ordered.len() + 1;
    let wanted = read.into_iter().flatten().collect::<Vec<_>>();
    let names = wanted.iter().map(|index| index.name.clone()).collect::<Vec<_>>();
    let mut refused = None;
    let changed = service.engine.change_ordered_indexes(&ctx, container.rid, |indexes| {
        for index in wanted {
            match add(indexes, index) {
                Ok(()) => {}
                Err(error) => {
                    refused = Some(error);
                    // Nothing is changed.
                    return Err(Error::Overtaken);
                }
            }
        }
        Ok(())
    });
    let changed = match (changed.await, refused) {
        (_, Some(error)) => return Err(error),
        (changed, None) => changed?,
    };
    let built = service.engine.wait_for_ordered_indexes(container.rid, &names).await;
    built.map_err(|error| MongoError::from(error).in_collection(&namespace))?;
    let after = changed.spec.indexing.ordered.len() + 1;
    let mut reply = document! {
        "numIndexesBefore" => count(before as u64),
        "numIndexesAfter" => count(after as u64),
        "createdCollectionAutomatically" => is_new,
    };
    if after == before {
        reply.insert("note", "all indexes already exist".into());
    }
    write_concern::report(concern, &mut reply);
    Ok(reply)
}

/// Adds an index, unless the same one is there.
fn add(indexes: &mut Vec<OrderedIndexSpec>, index: OrderedIndexSpec) -> Result<(), MongoError> {
    let shown = |index: &OrderedIndexSpec| {
        bson::read(&index.shown)
            .ok()
            .map(|shown| query::document::print::PrintedObject(&shown).to_string())
    };
    if let Some(named) = indexes.iter().find(|known| known.name == index.name) {
        if *named == index {
            return Ok(());
        }
        let (number, what) = match named.columns == index.columns {
            true => (code::INDEX_OPTIONS_CONFLICT, "options"),
            false => (code::INDEX_KEY_SPECS_CONFLICT, "key"),
        };
        let (wanted, known) = (shown(&index), shown(named));
        return Err(MongoError::new(
            number,
            format!(
                "An existing index has the same name as the requested index, with other {what}. \
                 Requested index: {}, existing index: {}",
                wanted.unwrap_or_default(),
                known.unwrap_or_default(),
            ),
        ));
    }
    let same_keys = |known: &&OrderedIndexSpec| {
        known.columns == index.columns && known.partial == index.partial
    };
    if let Some(known) = indexes.iter().find(same_keys) {
        return Err(MongoError::new(
            code::INDEX_OPTIONS_CONFLICT,
            format!("Index already exists with a different name: {}", known.name),
        ));
    }
    if indexes.len() + 1 >= INDEXES_MAX {
        return Err(cannot_create(format!(
            "add index fails, too many indexes for the collection: at most {INDEXES_MAX}"
        )));
    }
    indexes.push(index);
    Ok(())
}

/// Reads the definition of an index; `None` if every collection has it.
fn read_index(index: &Value) -> Result<Option<OrderedIndexSpec>, MongoError> {
    let index = index.as_object().ok_or_else(|| {
        let found = type_name(index);
        MongoError::new(
            code::TYPE_MISMATCH,
            format!("The elements of the 'indexes' array must be objects, but got {found}"),
        )
    })?;
    let failed = |message: &str| MongoError::new(code::FAILED_TO_PARSE, message);
    let key = index.get("key").and_then(Value::as_object);
    let key = key.ok_or_else(|| failed("The 'key' field is a required property of an index"))?;
    let columns = read_columns(key)?;
    let name = index.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| failed("The 'name' field is a required property of an index"))?;
    if name.is_empty() || name == "*" {
        return Err(cannot_create("The index name cannot be empty or '*'"));
    }
    let is_id = matches!(columns.as_slice(), [only] if only.path == "_id" && only.kind == ColumnKind::Ascending);
    if is_id {
        return Ok(None);
    }
    let mut spec = OrderedIndexSpec {
        name: name.to_owned(),
        columns,
        is_unique: false,
        is_sparse: false,
        partial: None,
        is_hidden: false,
        expire_after_seconds: None,
        shown: Vec::new(),
    };
    let mut shown = document! { "v" => 2, "key" => key.clone(), "name" => name };
    for (option, value) in index.iter() {
        if WITHOUT_EFFECT.contains(&option) {
            continue;
        }
        match option {
            "unique" => spec.is_unique = is_true(value),
            "sparse" => spec.is_sparse = is_true(value),
            "hidden" => spec.is_hidden = is_true(value),
            "expireAfterSeconds" => spec.expire_after_seconds = Some(expiry(value)?),
            "partialFilterExpression" => spec.partial = Some(partial(value)?),
            "collation" => {
                check_collation(value.as_object())?;
                continue;
            }
            other if OTHER_KINDS.contains(&other) => return Err(not_supported(other)),
            other => {
                return Err(MongoError::new(
                    code::INVALID_INDEX_SPECIFICATION_OPTION,
                    format!("The field '{other}' is not valid for an index specification"),
                ));
            }
        }
        // Flags that are not set are not shown, but by the tools that set them.
        if value.as_bool() != Some(false) {
            shown.insert(option, value.clone());
        }
    }
    if spec.is_sparse && spec.partial.is_some() {
        return Err(cannot_create("cannot mix \"partialFilterExpression\" and \"sparse\" options"));
    }
    if spec.expire_after_seconds.is_some() && spec.columns.len() > 1 {
        return Err(cannot_create(
            "TTL indexes are single-field indexes, compound indexes do not support TTL",
        ));
    }
    if spec.is_unique && spec.columns.iter().any(|column| column.kind == ColumnKind::Hashed) {
        let message = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
        return Err(MongoError::new(16_764, message));
    }
    bson::write(&shown, &mut spec.shown)
        .map_err(|error| MongoError::new(code::INVALID_BSON, error.to_string()))?;
    Ok(Some(spec))
}

pub(crate) fn read_columns(key: &Object) -> Result<Vec<OrderedColumn>, MongoError> {
    if key.is_empty() {
        return Err(cannot_create("Index keys cannot be empty."));
    }
    if key.len() > COLUMNS_MAX {
        return Err(MongoError::new(13_103, "too many compound keys"));
    }
    let columns = key.iter().map(|(path, kind)| {
        if path.is_empty() || path.split('.').any(str::is_empty) {
            return Err(cannot_create("Index keys cannot contain an empty field."));
        }
        if path.split('.').any(|name| name == "$**") {
            return Err(not_supported("a wildcard index"));
        }
        if path.split('.').any(|name| name.starts_with('$')) {
            return Err(cannot_create(
                "Index key contains an illegal field name: field name starts with '$'.",
            ));
        }
        let kind = match (kind.as_str(), kind.as_f64().or(whole_number(kind).map(|it| it as f64))) {
            (Some("hashed"), _) => ColumnKind::Hashed,
            (Some(other), _) => {
                return Err(match other {
                    "text" | "2d" | "2dsphere" | "geoHaystack" => not_supported(other),
                    _ => cannot_create(format!("Unknown index plugin '{other}'")),
                });
            }
            (None, Some(number)) if number > 0.0 => ColumnKind::Ascending,
            (None, Some(number)) if number < 0.0 => ColumnKind::Descending,
            (None, _) => {
                return Err(cannot_create("Values in the index key pattern cannot be 0."));
            }
        };
        Ok(OrderedColumn { path: path.to_owned(), kind })
    });
    columns.collect()
}

fn expiry(value: &Value) -> Result<u32, MongoError> {
    let seconds = whole_number(value).or_else(|| number::f64_to_i64(value.as_f64()?.trunc()));
    let seconds = seconds.filter(|seconds| (0..=EXPIRY_MAX).contains(seconds));
    seconds.and_then(|seconds| u32::try_from(seconds).ok()).ok_or_else(|| {
        cannot_create(format!("TTL index 'expireAfterSeconds' must be within 0 and {EXPIRY_MAX}"))
    })
}

fn partial(value: &Value) -> Result<PartialFilter, MongoError> {
    let filter = value
        .as_object()
        .ok_or_else(|| cannot_create("The field 'partialFilterExpression' must be an object"))?;
    let options = CompileOptions::default();
    let predicate = filter::compile(filter, &FilterOptions::new(&options))?;
    PartialFilter::of(&predicate)
        .ok_or_else(|| cannot_create("unsupported expression in partial index"))
}

/// `dropIndexes`.
pub(crate) async fn drop(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let namespace = command.namespace()?;
    let concern = write_concern::check(client, command)?;
    let container = service.collection(&command.database, command.collection()?);
    let container = container.ok_or_else(|| {
        MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {namespace}"))
    })?;
    check_writable(&container)?;
    let before = container.spec.indexing.ordered.len() + 1;
    let named = named(&container, command.get("index").unwrap_or(&Value::Null))?;
    let ctx = service.context(client, command)?;
    service
        .engine
        .change_ordered_indexes(&ctx, container.rid, |indexes| {
            indexes.retain(|index| !named.contains(&index.name));
            Ok(())
        })
        .await?;
    let mut reply = document! { "nIndexesWas" => count(before as u64) };
    write_concern::report(concern, &mut reply);
    Ok(reply)
}

/// The names of the indexes that are meant.
fn named(container: &Container, meant: &Value) -> Result<Vec<String>, MongoError> {
    let indexes = &container.spec.indexing.ordered;
    let is_protected = || MongoError::new(code::INVALID_OPTIONS, "cannot drop _id index");
    let by_name = |name: &str| match name {
        ID_INDEX => Err(is_protected()),
        _ => match indexes.iter().any(|index| index.name == name) {
            true => Ok(name.to_owned()),
            false => Err(MongoError::new(
                code::INDEX_NOT_FOUND,
                format!("index not found with name [{name}]"),
            )),
        },
    };
    match (meant.as_str(), meant.as_array(), meant.as_object()) {
        (Some("*"), ..) => Ok(indexes.iter().map(|index| index.name.clone()).collect()),
        (Some(name), ..) => Ok(vec![by_name(name)?]),
        (_, Some(names), _) => {
            names.iter().map(|name| by_name(name.as_str().unwrap_or_default())).collect()
        }
        (.., Some(key)) => {
            let columns = read_columns(key)?;
            if matches!(columns.as_slice(), [only] if only.path == "_id") {
                return Err(is_protected());
            }
            let found = indexes.iter().filter(|index| index.columns == columns);
            let found = found.map(|index| index.name.clone()).collect::<Vec<_>>();
            match found.is_empty() {
                false => Ok(found),
                true => Err(MongoError::new(
                    code::INDEX_NOT_FOUND,
                    format!(
                        "can't find index with key: {}",
                        query::document::print::PrintedObject(key)
                    ),
                )),
            }
        }
        (None, None, None) => Err(MongoError::new(
            code::TYPE_MISMATCH,
            "BSON field 'dropIndexes.index' must be a name, names or a key",
        )),
    }
}

/// `listIndexes`.
pub(crate) async fn list(
    service: &Service,
    client: &mut Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let namespace = command.namespace()?;
    let container = service.collection(&command.database, command.collection()?);
    let container: Arc<Container> = container.ok_or_else(|| {
        MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns does not exist: {namespace}"))
    })?;
    let ordered = container.spec.indexing.ordered.iter();
    let ordered = ordered.filter_map(|index| bson::read(&index.shown).ok());
    let indexes = std::iter::once(id_index()).chain(ordered).collect();
    listed(service, client, &command, indexes, namespace).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(index: Object) -> Result<Option<OrderedIndexSpec>, i32> {
        read_index(&Value::Object(index)).map_err(|error| error.code())
    }

    #[test]
    fn definitions_are_read_or_refused() {
        let index = document! {
            "key" => document! { "a.b" => 1, "c" => -1.0, "d" => "hashed" },
            "name" => "n",
            "sparse" => true,
            "background" => true,
        };
        let spec = read(index).unwrap().unwrap();
        let kinds = spec.columns.iter().map(|column| column.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [ColumnKind::Ascending, ColumnKind::Descending, ColumnKind::Hashed]);
        assert!(spec.is_sparse && !spec.is_unique);
        let shown = bson::read(&spec.shown).unwrap();
        assert!(shown.get("background").is_none() && shown.get("sparse").is_some());
        let id = document! { "key" => document! { "_id" => 1 }, "name" => "_id_" };
        assert_eq!(read(id), Ok(None));
        let with = |name: &str, value: Value| {
            let mut index = document! { "key" => document! { "a" => 1 }, "name" => "n" };
            index.insert(name, value);
            read(index).err()
        };
        assert_eq!(with("other", 1i64.into()), Some(code::INVALID_INDEX_SPECIFICATION_OPTION));
        assert_eq!(with("weights", 1i64.into()), Some(code::NOT_IMPLEMENTED));
        assert_eq!(with("expireAfterSeconds", (-1i64).into()), Some(code::CANNOT_CREATE_INDEX));
        assert_eq!(with("key", Object::new().into()), Some(code::CANNOT_CREATE_INDEX));
        assert_eq!(with("key", document! { "a" => 0 }.into()), Some(code::CANNOT_CREATE_INDEX));
        assert_eq!(with("unique", true.into()), None);
    }

    #[test]
    fn an_index_is_added_once_and_not_under_two_names() {
        let index = |name: &str, unique: bool| {
            let index =
                document! { "key" => document! { "a" => 1 }, "name" => name, "unique" => unique };
            read(index).unwrap().unwrap()
        };
        let mut indexes = Vec::new();
        add(&mut indexes, index("a", true)).unwrap();
        add(&mut indexes, index("a", true)).unwrap();
        assert_eq!(indexes.len(), 1);
        let refused = |indexes: &mut Vec<_>, index| add(indexes, index).unwrap_err().code();
        assert_eq!(refused(&mut indexes, index("a", false)), code::INDEX_OPTIONS_CONFLICT);
        assert_eq!(refused(&mut indexes, index("b", true)), code::INDEX_OPTIONS_CONFLICT);
    }
}
