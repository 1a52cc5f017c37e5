//! Who is calling, and what they may do.
//!
//! Requests are signed with a key of the account ([`shared_key`]), carry what somebody else signed
//! for them ([`sas`]), or bring a token of a directory. Every operation names the
//! [`RequiredPermission`] it needs,
//! and there is one place that decides whether an [`Identity`] has it.

mod sas;
mod shared_key;

use front::{Caller, Principal};

use crate::address::Keys;
use crate::errors::{Mismatch, TableError};

pub(crate) use sas::{Policy, Presented, Sas, parse_time};
pub(crate) use shared_key::{SharedKey, Signed};

/// An authenticated caller.
#[derive(Debug)]
pub(crate) enum Identity {
    /// Has a key of the account.
    Key(Caller),
    /// Was given a signature.
    Sas(Box<Grant>),
    /// Is known to the directory.
    Principal(Principal),
}

/// What a signature allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Letters of what may be done.
    pub(crate) permissions: String,
    pub(crate) scope: GrantScope,
    /// What the key allows that signed it.
    pub(crate) signer: Caller,
}

/// What a signature is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GrantScope {
    /// The account, by letters of kinds of resources.
    Account { resource_types: String },
    /// A table, and some keys of it.
    Table { name: String, range: GrantRange },
}

/// Keys from one pair to another, both included. Without a row key a pair stands for its whole
/// partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrantRange {
    pub(crate) first: Option<(String, Option<String>)>,
    pub(crate) last: Option<(String, Option<String>)>,
}

/// What an operation needs to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    ReadEntities,
    Insert,
    Update,
    Upsert,
    DeleteEntity,
    ListTables,
    CreateTable,
    DeleteTable,
    Policies,
    ReadService,
    WriteService,
}

impl Need {
    fn is_read(self) -> bool {
        match self {
            Need::ReadEntities | Need::ListTables | Need::ReadService => true,
            Need::Insert
            | Need::Update
            | Need::Upsert
            | Need::DeleteEntity
            | Need::CreateTable
            | Need::DeleteTable
            | Need::Policies
            | Need::WriteService => false,
        }
    }

    /// The kind of resource in an account's signature, and the sets of letters that each allow it.
    fn of_account(self) -> Option<(char, &'static [&'static str])> {
        Some(match self {
            Need::ReadEntities => ('o', &["r"]),
            Need::Insert => ('o', &["a"]),
            Need::Update => ('o', &["u"]),
            Need::Upsert => ('o', &["au"]),
            Need::DeleteEntity => ('o', &["d"]),
            Need::ListTables => ('c', &["l"]),
            Need::CreateTable => ('c', &["c", "w"]),
            Need::DeleteTable => ('c', &["d"]),
            Need::ReadService => ('s', &["r"]),
            Need::WriteService => ('s', &["w"]),
            Need::Policies => return None,
        })
    }

    /// The letters of a table's signature.
    fn of_table(self) -> Option<&'static str> {
        match self {
            Need::ReadEntities => Some("r"),
            Need::Insert => Some("a"),
            Need::Update => Some("u"),
            Need::Upsert => Some("au"),
            Need::DeleteEntity => Some("d"),
            Need::ListTables
            | Need::CreateTable
            | Need::DeleteTable
            | Need::Policies
            | Need::ReadService
            | Need::WriteService => None,
        }
    }
}

impl Identity {
    /// Refuses what the caller may not do with a table, or with none.
    pub(crate) fn check(&self, need: Need, table: Option<&str>) -> Result<(), TableError> {
        let denied = || TableError::not_authorized(Mismatch::Permission);
        match self {
            Identity::Key(caller) => check_caller(*caller, need),
            Identity::Principal(principal) => match (principal.role, need) {
                (Some(_), Need::Policies | Need::ReadService | Need::WriteService) | (None, _) => {
                    Err(denied())
                }
                (Some(caller), _) => check_caller(caller, need),
            },
            Identity::Sas(grant) => {
                check_caller(grant.signer, need)?;
                grant.check(need, table)
            }
        }
    }

    /// Refuses keys that the caller may not touch.
    pub(crate) fn check_keys(&self, keys: &Keys) -> Result<(), TableError> {
        match self.key_range() {
            Some(range) if !range.contains(keys) => Err(TableError::out_of_key_range()),
            _ => Ok(()),
        }
    }

    /// The keys that the caller is confined to, if it is.
    pub(crate) fn key_range(&self) -> Option<&GrantRange> {
        match self {
            Identity::Sas(grant) => match &grant.scope {
                GrantScope::Table { range, .. } => Some(range),
                GrantScope::Account { .. } => None,
            },
            Identity::Key(_) | Identity::Principal(_) => None,
        }
    }
}

fn check_caller(caller: Caller, need: Need) -> Result<(), TableError> {
    match caller {
        Caller::ReadWrite => Ok(()),
        Caller::ReadOnly if need.is_read() => Ok(()),
        Caller::ReadOnly => Err(TableError::not_authorized(Mismatch::Permission)),
    }
}

impl Grant {
    fn has(&self, letters: &str) -> bool {
        letters.chars().all(|letter| self.permissions.contains(letter))
    }

    fn check(&self, need: Need, table: Option<&str>) -> Result<(), TableError> {
        match &self.scope {
            GrantScope::Account { resource_types } => {
                let Some((kind, letters)) = need.of_account() else {
                    return Err(TableError::not_authorized(Mismatch::Permission));
                };
                if !resource_types.contains(kind) {
                    return Err(TableError::not_authorized(Mismatch::ResourceType));
                }
                match letters.iter().any(|letters| self.has(letters)) {
                    true => Ok(()),
                    false => Err(TableError::not_authorized(Mismatch::Permission)),
                }
            }
            GrantScope::Table { name, .. } => {
                let is_it = table.is_some_and(|table| table.eq_ignore_ascii_case(name));
                let is_granted = need.of_table().is_some_and(|letters| self.has(letters));
                match is_it && is_granted {
                    true => Ok(()),
                    false => Err(TableError::not_authorized(Mismatch::Permission)),
                }
            }
        }
    }
}

impl GrantRange {
    fn contains(&self, keys: &Keys) -> bool {
        let pair = (keys.partition.as_str(), keys.row.as_str());
        let is_after = self.first.as_ref().is_none_or(|(partition, row)| {
            pair >= (partition.as_str(), row.as_deref().unwrap_or_default())
        });
        let is_before = self.last.as_ref().is_none_or(|(partition, row)| match row {
            Some(row) => pair <= (partition.as_str(), row.as_str()),
            None => pair.0 <= partition.as_str(),
        });
        is_after && is_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(partition: &str, row: &str) -> Keys {
        Keys { partition: partition.into(), row: row.into() }
    }

    fn table_grant(permissions: &str, range: GrantRange) -> Identity {
        Identity::Sas(Box::new(Grant {
            permissions: permissions.into(),
            scope: GrantScope::Table { name: "demo".into(), range },
            signer: Caller::ReadWrite,
        }))
    }

    #[test]
    fn ranges_are_pairs_with_both_ends() {
        let range = GrantRange {
            first: Some(("a".into(), Some("1".into()))),
            last: Some(("c".into(), Some("9".into()))),
        };
        for (partition, row, inside) in [
            ("a", "0", false),
            ("a", "1", true),
            ("a", "99", true),
            ("b", "", true),
            ("c", "9", true),
            ("c", "90", false),
            ("d", "", false),
            ("A", "5", false),
        ] {
            assert_eq!(range.contains(&keys(partition, row)), inside, "{partition} {row}");
        }
        let whole = GrantRange { first: Some(("b".into(), None)), last: Some(("b".into(), None)) };
        assert!(whole.contains(&keys("b", "")) && whole.contains(&keys("b", "zz")));
        assert!(!whole.contains(&keys("bb", "")) && !whole.contains(&keys("a", "z")));
    }

    #[test]
    fn a_table_is_granted_by_its_name_in_any_case() {
        let grant = table_grant("rau", GrantRange::default());
        let may = |need, table| grant.check(need, table).is_ok();
        assert!(may(Need::ReadEntities, Some("Demo")) && may(Need::Upsert, Some("demo")));
        assert!(!may(Need::DeleteEntity, Some("demo")));
        assert!(!may(Need::ReadEntities, Some("other")) && !may(Need::ReadEntities, None));
        assert!(!may(Need::Policies, Some("demo")) && !may(Need::DeleteTable, Some("demo")));
    }

    #[test]
    fn an_account_is_granted_by_kinds_of_resources() {
        let grant = |permissions: &str, resource_types: &str| {
            Identity::Sas(Box::new(Grant {
                permissions: permissions.into(),
                scope: GrantScope::Account { resource_types: resource_types.into() },
                signer: Caller::ReadWrite,
            }))
        };
        assert!(grant("r", "o").check(Need::ReadEntities, Some("t")).is_ok());
        let error = grant("r", "sc").check(Need::ReadEntities, Some("t")).unwrap_err();
        assert_eq!(error.code, "AuthorizationResourceTypeMismatch");
        let error = grant("rl", "sco").check(Need::Insert, Some("t")).unwrap_err();
        assert_eq!(error.code, "AuthorizationPermissionMismatch");
        assert!(grant("w", "c").check(Need::CreateTable, Some("t")).is_ok());
        assert!(grant("a", "o").check(Need::Upsert, Some("t")).is_err());
        assert!(grant("rwdlacup", "sco").check(Need::Policies, Some("t")).is_err());
    }
}
