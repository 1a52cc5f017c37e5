//! Paths: the account and the resource in it.

use percent_encoding::percent_decode_str;

use crate::Flavour;
use crate::errors::TableError;

const SECONDARY: &str = "-secondary";

/// The resource of a path, without its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The service of the account.
    Service,
    /// All tables.
    Tables,
    /// One table.
    Table(String),
    /// All entities of a table.
    Entities(String),
    /// One entity.
    Entity {
        /// Its table.
        table: String,
        /// Its keys.
        keys: Keys,
    },
    /// An entity group transaction.
    Batch,
    /// A nonexistent path below a table: the client uses a table's address as that of the service.
    Misplaced {
        /// The table.
        table: String,
        /// The resource that was expected there.
        what: Misplaced,
    },
}

impl Target {
    /// The table that it names, if any.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Target::Table(table) | Target::Misplaced { table, .. } => Some(table),
            Target::Entities(table) | Target::Entity { table, .. } => Some(table),
            Target::Service | Target::Tables | Target::Batch => None,
        }
    }

    /// The table whose entities it addresses.
    pub(crate) fn table(&self) -> Option<&str> {
        match self {
            Target::Entities(table) | Target::Entity { table, .. } => Some(table),
            Target::Service
            | Target::Tables
            | Target::Table(_)
            | Target::Batch
            | Target::Misplaced { .. } => None,
        }
    }
}

/// The resource that a misplaced path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    Tables,
    Table,
    Batch,
    Other,
}

/// The keys of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) partition: String,
    pub(crate) row: String,
}

/// The address of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The account, if path or host name it.
    pub(crate) account: Option<String>,
    /// Whether it is the read-only secondary.
    pub(crate) is_secondary: bool,
    /// The prefix of every resource's path: empty, or a slash and the account.
    pub(crate) prefix: String,
    pub(crate) target: Target,
}

impl Address {
    /// Parses the address of a request.
    pub(crate) fn parse(flavour: Flavour, host: &str, path: &str) -> Result<Self, TableError> {
        let (account, is_secondary, prefix, rest) = match account_in_host(host) {
            Some((account, is_secondary)) => (Some(account), is_secondary, String::new(), path),
            None if flavour == Flavour::Cosmos => (None, false, String::new(), path),
            None => split_account(path)?,
        };
        Ok(Self { account, is_secondary, prefix, target: target(rest)? })
    }
}

/// The flavour that a host name implies, if any.
pub(crate) fn flavour_of_host(host: &str) -> Option<Flavour> {
    let host = host.to_ascii_lowercase();
    if host.contains(".table.core.") {
        return Some(Flavour::Storage);
    }
    let is_cosmos = host.contains(".table.cosmos.") || host.contains(".table.cosmosdb.");
    is_cosmos.then_some(Flavour::Cosmos)
}

/// Parses `account.table...`; also whether it is the secondary.
fn account_in_host(host: &str) -> Option<(String, bool)> {
    let (label, rest) = host.split_once('.')?;
    rest.to_ascii_lowercase().starts_with("table.").then(|| without_secondary(label))
}

fn without_secondary(name: &str) -> (String, bool) {
    match name.strip_suffix(SECONDARY) {
        Some(primary) => (primary.to_owned(), true),
        None => (name.to_owned(), false),
    }
}

/// The account at the beginning of a path. One SDK addresses the secondary with both names.
fn split_account(path: &str) -> Result<(Option<String>, bool, String, &str), TableError> {
    let (first, rest) = first_segment(path);
    if first.is_empty() {
        return Err(TableError::invalid_uri());
    }
    let (account, is_secondary) = without_secondary(first);
    if is_secondary
        && let (second, after) = first_segment(rest)
        && second == account
    {
        return Ok((Some(account), true, format!("/{first}"), after));
    }
    Ok((Some(account), is_secondary, format!("/{first}"), rest))
}

/// The first segment of a path, and the rest with its slash.
fn first_segment(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_at(path.find('/').unwrap_or(path.len()))
}

/// The resource that the path below an account names.
fn target(path: &str) -> Result<Target, TableError> {
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| TableError::invalid_uri())?;
    let path = decoded.strip_prefix('/').unwrap_or(&decoded);
    if path.is_empty() {
        return Ok(Target::Service);
    }
    let segment = Segment::parse(path)?;
    match segment.rest {
        "" | "/" => segment.target(),
        below => {
            let Segment { name: table, keys: SegmentKeys::None, .. } = segment else {
                return Err(TableError::invalid_uri());
            };
            let below = Segment::parse(below.trim_start_matches('/'))?;
            let what = match (below.name.as_str(), &below.keys) {
                ("$batch", _) => Misplaced::Batch,
                ("Tables", SegmentKeys::None) => Misplaced::Tables,
                ("Tables", _) => Misplaced::Table,
                _ => Misplaced::Other,
            };
            Ok(Target::Misplaced { table, what })
        }
    }
}

/// A name, and keys in parentheses if there are any.
struct Segment<'p> {
    name: String,
    keys: SegmentKeys,
    rest: &'p str,
}

enum SegmentKeys {
    None,
    Name(String),
    Pair(Keys),
}

impl<'p> Segment<'p> {
    fn parse(path: &'p str) -> Result<Self, TableError> {
        let end = path.find(['/', '(']).unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        let (keys, rest) = match rest.strip_prefix('(') {
            Some(inner) => parse_keys(inner).ok_or_else(TableError::invalid_inputs)?,
            None => (SegmentKeys::None, rest),
        };
        Ok(Self { name: name.to_owned(), keys, rest })
    }

    fn target(self) -> Result<Target, TableError> {
        let Segment { name, keys, .. } = self;
        match (name.as_str(), keys) {
            ("$batch", SegmentKeys::None) => Ok(Target::Batch),
            ("Tables", SegmentKeys::None) => Ok(Target::Tables),
            ("Tables", SegmentKeys::Name(table)) => Ok(Target::Table(table)),
            (_, SegmentKeys::None) => Ok(Target::Entities(name)),
            (_, SegmentKeys::Pair(keys)) => Ok(Target::Entity { table: name, keys }),
            (_, SegmentKeys::Name(_)) => Err(TableError::invalid_input(
                "The number of keys specified in the URI does not match number of key properties \
                 for the resource.",
            )),
        }
    }
}

/// The text in parentheses up to and including the closing one, and the rest.
fn parse_keys(text: &str) -> Option<(SegmentKeys, &str)> {
    let text = text.trim_start_matches(' ');
    if let Some(rest) = text.strip_prefix(')') {
        return Some((SegmentKeys::None, rest));
    }
    if text.starts_with('\'') {
        let (name, rest) = parse_literal(text)?;
        let rest = rest.trim_start_matches(' ').strip_prefix(')')?;
        return Some((SegmentKeys::Name(name), rest));
    }
    let (mut partition, mut row) = (None, None);
    let mut at = text;
    loop {
        let (name, rest) = at.split_once('=')?;
        let (value, rest) = parse_literal(rest.trim_start_matches(' '))?;
        let slot = match name.trim() {
            "PartitionKey" => &mut partition,
            "RowKey" => &mut row,
            _ => return None,
        };
        if slot.replace(value).is_some() {
            return None;
        }
        let rest = rest.trim_start_matches(' ');
        match rest.strip_prefix(',') {
            Some(next) => at = next.trim_start_matches(' '),
            None => {
                let rest = rest.strip_prefix(')')?;
                let keys = Keys { partition: partition?, row: row? };
                return Some((SegmentKeys::Pair(keys), rest));
            }
        }
    }
}

/// A text in single quotes, in which a doubled quote stands for one, and the rest.
fn parse_literal(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut out = String::new();
    loop {
        let end = rest.find('\'')?;
        out.push_str(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix('\'') {
            Some(more) => {
                out.push('\'');
                rest = more;
            }
            None => return Some((out, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(path: &str) -> Address {
        Address::parse(Flavour::Storage, "127.0.0.1:10002", path).unwrap()
    }

    fn entity(table: &str, partition: &str, row: &str) -> Target {
        let keys = Keys { partition: partition.into(), row: row.into() };
        Target::Entity { table: table.into(), keys }
    }

    #[test]
    fn accounts_are_in_the_path_or_in_the_host() {
        let address = storage("/acct/Tables");
        assert_eq!((address.account.as_deref(), address.prefix.as_str()), (Some("acct"), "/acct"));
        assert_eq!(address.target, Target::Tables);
        let host = "acct.table.localhost:10002";
        let address = Address::parse(Flavour::Storage, host, "/Tables").unwrap();
        assert_eq!((address.account.as_deref(), address.prefix.as_str()), (Some("acct"), ""));
        let address = Address::parse(Flavour::Cosmos, "localhost:8902", "/Tables").unwrap();
        assert_eq!((address.account, address.target), (None, Target::Tables));
    }

    #[test]
    fn the_secondary_is_known_by_its_name_and_by_both() {
        for path in ["/acct-secondary/", "/acct-secondary/acct/", "/acct-secondary"] {
            let address = storage(path);
            assert!(address.is_secondary, "{path}");
            assert_eq!(address.account.as_deref(), Some("acct"));
            assert_eq!(address.target, Target::Service, "{path}");
        }
    }

    #[test]
    fn keys_may_hold_anything() {
        for (path, partition, row) in [
            ("/a/t(PartitionKey='p',RowKey='r')", "p", "r"),
            ("/a/t(PartitionKey='p', RowKey='r')", "p", "r"),
            ("/a/t(RowKey='r',PartitionKey='p')", "p", "r"),
            ("/a/t(PartitionKey='',RowKey='')", "", ""),
            ("/a/t(PartitionKey='p%27%271',RowKey='r%201')", "p'1", "r 1"),
            ("/a/t(PartitionKey='a)(=,''b',RowKey='%25%E4%B8%AD')", "a)(=,'b", "%中"),
        ] {
            assert_eq!(storage(path).target, entity("t", partition, row), "{path}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for path in [
            "/",
            "/a/t(PartitionKey='p')",
            "/a/t(PartitionKey='p',PartitionKey='q')",
            "/a/t(PartitionKey='p',RowKey='r'",
            "/a/t(PartitionKey='p',RowKey='r)",
            "/a/t('x')",
            "/a/%FF",
            "/a/t(PartitionKey='p',RowKey='r')/x",
        ] {
            assert!(Address::parse(Flavour::Storage, "h", path).is_err(), "{path}");
        }
    }

    #[test]
    fn what_lies_below_a_table_is_misplaced() {
        let below = |path| storage(path).target;
        let misplaced = |what| Target::Misplaced { table: "t".into(), what };
        assert_eq!(below("/a/t/Tables"), misplaced(Misplaced::Tables));
        assert_eq!(below("/a/t/Tables('x')"), misplaced(Misplaced::Table));
        assert_eq!(below("/a/t/$batch"), misplaced(Misplaced::Batch));
        assert_eq!(below("/a/t/"), Target::Entities("t".into()));
        assert_eq!(below("/a/Tables('x')"), Target::Table("x".into()));
        assert_eq!(below("/a/t()"), Target::Entities("t".into()));
    }
}
