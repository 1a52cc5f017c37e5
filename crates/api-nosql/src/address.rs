//! Resource addresses: from a URL path to the resource it names.
//!
//! A path is split at slashes, empty segments are dropped (clients send trailing and doubled
//! slashes) and each segment is percent-decoded exactly once, so an id may hold any character.
//! Whether a segment is an id or a type follows from its position alone.

use std::borrow::Cow;

use engine::catalog::ScriptKind;
use model::DatabaseRid;
use percent_encoding::percent_decode_str;
use smallvec::SmallVec;

/// The decoded segments of a path.
pub(crate) type Segments<'p> = SmallVec<[Cow<'p, str>; 8]>;

/// Deepest path of the protocol: an attachment of an item.
const SEGMENTS_MAX: usize = 8;

/// The path is not a path of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPath;

/// A database as an address names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseAddress {
    /// Name, or resource id when `by_rid`.
    pub database: String,
    /// Whether the database segment has the form of a resource id, which makes all ids of the
    /// path resource ids. A database whose *name* has that form is found by name first.
    pub by_rid: bool,
}

/// A container as an address names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerAddress {
    /// The database it is in.
    pub database: DatabaseAddress,
    /// Name, or resource id when the database is named by one.
    pub container: String,
}

/// A user as an address names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserAddress {
    /// The database it is in.
    pub database: DatabaseAddress,
    /// Name, or resource id when the database is named by one.
    pub user: String,
}

/// The resource that a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/`
    Account,
    /// `/dbs`
    Databases,
    /// `/dbs/{db}`
    Database(DatabaseAddress),
    /// `/dbs/{db}/colls`
    Containers(DatabaseAddress),
    /// `/dbs/{db}/colls/{coll}`
    Container(ContainerAddress),
    /// `.../docs`
    Items(ContainerAddress),
    /// `.../docs/{id}`: the id, percent-decoded, or a resource id if the address uses resource ids.
    Item(ContainerAddress, String),
    /// `.../pkranges`
    PartitionKeyRanges(ContainerAddress),
    /// `.../operations/partitionkeydelete`
    PartitionKeyDelete(ContainerAddress),
    /// `.../conflicts`
    Conflicts(ContainerAddress),
    /// `.../conflicts/{id}`
    Conflict(ContainerAddress),
    /// `/dbs/{db}/users`
    Users(DatabaseAddress),
    /// `/dbs/{db}/users/{user}`
    User(UserAddress),
    /// `.../permissions`
    Permissions(UserAddress),
    /// `.../permissions/{permission}`
    Permission(UserAddress, String),
    /// `/dbs/{db}/clientencryptionkeys`
    EncryptionKeys(DatabaseAddress),
    /// `/dbs/{db}/clientencryptionkeys/{key}`
    EncryptionKey(DatabaseAddress, String),
    /// `.../sprocs`, `.../triggers` or `.../udfs`
    Scripts(ContainerAddress, ScriptKind),
    /// A single script: the id, percent-decoded, or a resource id if the address uses resource ids.
    Script(ContainerAddress, ScriptKind, String),
    /// `/offers`
    Offers,
    /// `/offers/{id}`
    Offer(String),
    /// `/addresses` of the account's own resources.
    MasterAddresses,
    /// `/addresses` of these ranges, with commas, of a container; of all ranges if empty.
    Addresses(ContainerAddress, String),
    /// A resource type of the protocol that this server does not have.
    NotSupported(&'static str),
}

impl Target {
    /// The container that the request addresses or is inside of.
    pub(crate) fn container(&self) -> Option<&ContainerAddress> {
        match self {
            Target::Container(c)
            | Target::Items(c)
            | Target::Item(c, _)
            | Target::PartitionKeyRanges(c)
            | Target::PartitionKeyDelete(c)
            | Target::Conflicts(c)
            | Target::Conflict(c)
            | Target::Scripts(c, _)
            | Target::Script(c, ..)
            | Target::Addresses(c, _) => Some(c),
            Target::Account
            | Target::MasterAddresses
            | Target::Databases
            | Target::Database(_)
            | Target::Containers(_)
            | Target::Users(_)
            | Target::User(_)
            | Target::Permissions(_)
            | Target::Permission(..)
            | Target::EncryptionKeys(_)
            | Target::EncryptionKey(..)
            | Target::Offers
            | Target::Offer(_)
            | Target::NotSupported(_) => None,
        }
    }
}

/// Splits and decodes a path.
pub(crate) fn segments(path: &str) -> Result<Segments<'_>, BadPath> {
    let mut out = Segments::new();
    for raw in path.split('/').filter(|s| !s.is_empty()) {
        if out.len() == SEGMENTS_MAX {
            return Err(BadPath);
        }
        out.push(percent_decode_str(raw).decode_utf8().map_err(|_| BadPath)?);
    }
    Ok(out)
}

/// The path at which clients in Direct mode ask for the addresses of ranges.
pub(crate) const ADDRESSES: &str = "addresses";

/// The segments of a whole address. The protocol has a query string at one path; elsewhere text
/// after a question mark is the rest of the id, from a client that does not encode question marks.
pub(crate) fn segments_of<'p>(
    path: &'p str,
    query: Option<&'p str>,
) -> Result<Segments<'p>, BadPath> {
    let mut out = segments(path)?;
    if out.first().is_some_and(|first| first == ADDRESSES) {
        return match out.as_slice() {
            [_] => addresses(query.unwrap_or_default()),
            _ => Err(BadPath),
        };
    }
    let ends_in_id = out.len() % 2 == 0;
    if let (Some(query), Some(id)) = (query, out.last_mut().filter(|_| ends_in_id)) {
        let rest = percent_decode_str(query).decode_utf8().map_err(|_| BadPath)?;
        let id = id.to_mut();
        id.push('?');
        id.push_str(&rest);
    }
    Ok(out)
}

/// The segments of a request for addresses: its path, the path whose addresses it asks for, and
/// the numbers of the ranges.
fn addresses(query: &str) -> Result<Segments<'_>, BadPath> {
    let (mut of, mut ranges) = (None, Cow::Borrowed(""));
    for field in query.split('&') {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let decode = |text| percent_decode_str(text).decode_utf8().map_err(|_| BadPath);
        match decode(name)?.as_ref() {
            "$resolveFor" => of = Some(decode(value)?),
            "$partitionKeyRangeIds" => ranges = decode(value)?,
            // `$filter` names the protocol, of which there is one.
            _ => {}
        }
    }
    let mut out = Segments::new();
    out.push(Cow::Borrowed(ADDRESSES));
    for segment in of.ok_or(BadPath)?.split('/').filter(|segment| !segment.is_empty()) {
        if out.len() == SEGMENTS_MAX - 1 {
            return Err(BadPath);
        }
        out.push(Cow::Owned(segment.to_owned()));
    }
    out.push(ranges);
    Ok(out)
}

/// The segments that are signed: of a request for addresses those of which it asks the addresses.
pub(crate) fn signed<'s, 'p>(segments: &'s [Cow<'p, str>]) -> &'s [Cow<'p, str>] {
    match segments {
        [first, of @ .., _] if first == ADDRESSES => of,
        all => all,
    }
}

/// The resource that the segments name.
pub(crate) fn target(segments: &[Cow<'_, str>]) -> Result<Target, BadPath> {
    match segments {
        [first, of @ .., ranges] if first == ADDRESSES => addresses_of(of, ranges),
        [] => Ok(Target::Account),
        [kind] if kind == "dbs" => Ok(Target::Databases),
        [kind] if kind == "offers" => Ok(Target::Offers),
        [kind, id] if kind == "offers" => Ok(Target::Offer(id.clone().into_owned())),
        [kind, database, rest @ ..] if kind == "dbs" => {
            let by_rid = DatabaseRid::parse(database).is_some();
            below_database(
                DatabaseAddress { database: database.clone().into_owned(), by_rid },
                rest,
            )
        }
        _ => Err(BadPath),
    }
}

fn addresses_of(of: &[Cow<'_, str>], ranges: &str) -> Result<Target, BadPath> {
    match of {
        [kind] if kind == "dbs" => Ok(Target::MasterAddresses),
        [.., _feed] => match target(of)?.container() {
            Some(container) => Ok(Target::Addresses(container.clone(), ranges.to_owned())),
            None => Err(BadPath),
        },
        [] => Err(BadPath),
    }
}

fn below_database(database: DatabaseAddress, segments: &[Cow<'_, str>]) -> Result<Target, BadPath> {
    match segments {
        [] => Ok(Target::Database(database)),
        [kind] if kind == "colls" => Ok(Target::Containers(database)),
        [kind, container, rest @ ..] if kind == "colls" => {
            let container = container.clone().into_owned();
            below_container(ContainerAddress { database, container }, rest)
        }
        [kind] if kind == "users" => Ok(Target::Users(database)),
        [kind, user, rest @ ..] if kind == "users" => {
            let user = user.clone().into_owned();
            below_user(UserAddress { database, user }, rest)
        }
        [kind] if kind == "clientencryptionkeys" => Ok(Target::EncryptionKeys(database)),
        [kind, id] if kind == "clientencryptionkeys" => {
            Ok(Target::EncryptionKey(database, id.clone().into_owned()))
        }
        [kind, ..] => not_supported(kind, &["udts"]),
    }
}

fn below_user(user: UserAddress, segments: &[Cow<'_, str>]) -> Result<Target, BadPath> {
    match segments {
        [] => Ok(Target::User(user)),
        [kind] if kind == "permissions" => Ok(Target::Permissions(user)),
        [kind, id] if kind == "permissions" => {
            Ok(Target::Permission(user, id.clone().into_owned()))
        }
        _ => Err(BadPath),
    }
}

fn below_container(
    container: ContainerAddress,
    segments: &[Cow<'_, str>],
) -> Result<Target, BadPath> {
    match segments {
        [] => Ok(Target::Container(container)),
        [kind, rest @ ..] if let Some(kind) = script_kind(kind) => match rest {
            [] => Ok(Target::Scripts(container, kind)),
            [id] => Ok(Target::Script(container, kind, id.clone().into_owned())),
            _ => Err(BadPath),
        },
        [kind] => match kind.as_ref() {
            "docs" => Ok(Target::Items(container)),
            "pkranges" => Ok(Target::PartitionKeyRanges(container)),
            "conflicts" => Ok(Target::Conflicts(container)),
            other => not_supported(other, &["schemas"]),
        },
        [kind, id] => match kind.as_ref() {
            "docs" => Ok(Target::Item(container, id.clone().into_owned())),
            "conflicts" => Ok(Target::Conflict(container)),
            "operations" if id == "partitionkeydelete" => Ok(Target::PartitionKeyDelete(container)),
            other => not_supported(other, &["schemas"]),
        },
        [docs, _, attachments, ..] if docs == "docs" => {
            not_supported(attachments, &["attachments"])
        }
        _ => Err(BadPath),
    }
}

/// The kind of script that a segment of an address stands for.
pub(crate) fn script_kind(segment: &str) -> Option<ScriptKind> {
    match segment {
        "sprocs" => Some(ScriptKind::StoredProcedure),
        "triggers" => Some(ScriptKind::Trigger),
        "udfs" => Some(ScriptKind::UserDefinedFunction),
        _ => None,
    }
}

fn not_supported(kind: &str, known: &[&'static str]) -> Result<Target, BadPath> {
    known.iter().find(|k| **k == kind).map(|k| Target::NotSupported(k)).ok_or(BadPath)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(path: &str) -> Result<Target, BadPath> {
        target(&segments(path)?)
    }

    fn database(name: &str) -> DatabaseAddress {
        DatabaseAddress { database: name.into(), by_rid: false }
    }

    fn container(name: &str) -> ContainerAddress {
        ContainerAddress { database: database("d"), container: name.into() }
    }

    #[test]
    fn paths_name_resources_by_position() {
        assert_eq!(parse("/"), Ok(Target::Account));
        assert_eq!(parse(""), Ok(Target::Account));
        assert_eq!(parse("/dbs"), Ok(Target::Databases));
        assert_eq!(parse("/dbs/d"), Ok(Target::Database(database("d"))));
        assert_eq!(parse("/dbs/d/colls"), Ok(Target::Containers(database("d"))));
        assert_eq!(parse("/dbs/d/colls/c"), Ok(Target::Container(container("c"))));
        assert_eq!(parse("/dbs/d/colls/c/docs"), Ok(Target::Items(container("c"))));
        assert_eq!(parse("/dbs/d/colls/c/docs/i"), Ok(Target::Item(container("c"), "i".into())));
        assert_eq!(
            parse("/dbs/d/colls/c/pkranges"),
            Ok(Target::PartitionKeyRanges(container("c")))
        );
        assert_eq!(
            parse("/dbs/d/colls/c/operations/partitionkeydelete"),
            Ok(Target::PartitionKeyDelete(container("c")))
        );
        assert_eq!(parse("/dbs/d/colls/c/conflicts"), Ok(Target::Conflicts(container("c"))));
        assert_eq!(parse("/dbs/d/colls/c/conflicts/x"), Ok(Target::Conflict(container("c"))));
        let user = || UserAddress { database: database("d"), user: "u".into() };
        assert_eq!(parse("/dbs/d/users"), Ok(Target::Users(database("d"))));
        assert_eq!(parse("/dbs/d/users/u"), Ok(Target::User(user())));
        assert_eq!(parse("/dbs/d/users/u/permissions"), Ok(Target::Permissions(user())));
        let permission = parse("/dbs/d/users/u/permissions/p");
        assert_eq!(permission, Ok(Target::Permission(user(), "p".into())));
        let keys = parse("/dbs/d/clientencryptionkeys");
        assert_eq!(keys, Ok(Target::EncryptionKeys(database("d"))));
        let key = parse("/dbs/d/clientencryptionkeys/k");
        assert_eq!(key, Ok(Target::EncryptionKey(database("d"), "k".into())));
        for (kind, name) in [
            (ScriptKind::StoredProcedure, "sprocs"),
            (ScriptKind::Trigger, "triggers"),
            (ScriptKind::UserDefinedFunction, "udfs"),
        ] {
            let path = format!("/dbs/d/colls/c/{name}");
            assert_eq!(parse(&path), Ok(Target::Scripts(container("c"), kind)));
            let script = Target::Script(container("c"), kind, "s".into());
            assert_eq!(parse(&format!("{path}/s")), Ok(script));
            assert_eq!(parse(&format!("{path}/s/x")), Err(BadPath));
        }
        assert_eq!(parse("/offers"), Ok(Target::Offers));
        assert_eq!(parse("/offers/Ab1C/"), Ok(Target::Offer("Ab1C".into())));
    }

    #[test]
    fn trailing_and_doubled_slashes_do_not_matter() {
        assert_eq!(parse("//dbs//d/"), parse("/dbs/d"));
        assert_eq!(parse("/dbs/d/colls/c/docs///i//"), parse("/dbs/d/colls/c/docs/i"));
    }

    #[test]
    fn ids_are_decoded_exactly_once() {
        let id = |path: &str| match parse(path) {
            Ok(Target::Item(_, id)) => id,
            other => panic!("{path} is {other:?}"),
        };
        assert_eq!(id("/dbs/d/colls/c/docs/a%20b"), "a b");
        assert_eq!(id("/dbs/d/colls/c/docs/a%2520b"), "a%20b");
        assert_eq!(id("/dbs/d/colls/c/docs/a%2Fb"), "a/b");
        assert_eq!(id("/dbs/d/colls/c/docs/%E9%B1%80"), "鱀");
        assert_eq!(id("/dbs/d/colls/c/docs/100%"), "100%");
        assert_eq!(id("/dbs/d/colls/c/docs/a+b"), "a+b");
    }

    #[test]
    fn ids_may_look_like_types() {
        assert_eq!(parse("/dbs/dbs"), Ok(Target::Database(database("dbs"))));
        assert_eq!(parse("/dbs/colls/colls"), Ok(Target::Containers(database("colls"))));
    }

    #[test]
    fn the_database_segment_alone_decides_about_resource_ids() {
        let by_rid = |path: &str| parse(path).map(|t| t.container().map(|c| c.database.by_rid));
        assert_eq!(by_rid("/dbs/hLEEAA==/colls/hLEEAI1Yjgc=/docs"), Ok(Some(true)));
        assert_eq!(by_rid("/dbs/hLEEAA%3D%3D/colls/x"), Ok(Some(true)));
        assert_eq!(by_rid("/dbs/ToDoList/colls/hLEEAI1Yjgc="), Ok(Some(false)));
    }

    #[test]
    fn known_types_that_are_missing_are_told_from_nonsense() {
        assert_eq!(parse("/dbs/d/colls/c/schemas/x"), Ok(Target::NotSupported("schemas")));
        for path in [
            "/nonsense",
            "/dbs/d/users/u/x",
            "/dbs/d/users/u/permissions/p/x",
            "/dbs/d/clientencryptionkeys/k/x",
            "/dbs/d/x",
            "/dbs/d/colls/c/x/y",
            "/offers/a/b",
            "/a/b/c/d/e/f/g/h/i",
        ] {
            assert_eq!(parse(path), Err(BadPath), "{path}");
        }
        assert_eq!(parse("/dbs/%FF"), Err(BadPath));
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "(/|dbs|colls|docs|offers|%|%2|%20|==|[a-zA-Z0-9]|\\PC){0,40}") {
            let _ = parse(&path);
        }

        #[test]
        fn any_id_survives_encoding(id in "\\PC{1,40}") {
            let encoded = percent_encoding::utf8_percent_encode(&id, percent_encoding::NON_ALPHANUMERIC);
            let parsed = parse(&format!("/dbs/d/colls/c/docs/{encoded}"));
            prop_assert_eq!(parsed, Ok(Target::Item(container("c"), id)));
        }
    }
}
