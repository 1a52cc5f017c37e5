//! Authentication and authorization.
//!
//! Requests are signed with a key of the account ([`shared_key`]), carry a shared access signature
//! ([`sas`]), or carry a token of a directory. Every operation names the [`RequiredPermission`] it
//! needs; only [`Identity`] decides whether the caller has it.

mod sas;
mod shared_key;

use account::{Caller, Principal};

use crate::address::Keys;
use crate::errors::{Mismatch, TableError};

pub(crate) use sas::{Policy, Sas, SasRequest, parse_time};
pub(crate) use shared_key::{SharedKey, Signed};

/// An authenticated caller.
#[derive(Debug)]
pub(crate) enum Identity {
    /// A caller with a key of the account.
    Key(Caller),
    /// A caller with a shared access signature.
    Sas(Box<Grant>),
    /// A principal of the directory.
    Principal(Principal),
}

impl Identity {
    /// On whose behalf the engine acts.
    pub(crate) fn caller(&self) -> engine::Caller {
        match self {
            Identity::Key(_) => engine::Caller::KeyHolder,
            Identity::Sas(_) => engine::Caller::Grantee("shared access signature".into()),
            Identity::Principal(principal) => {
                engine::Caller::Principal(principal.id.as_str().into())
            }
        }
    }
}

/// The rights of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Letters of the allowed operations.
    pub(crate) permissions: String,
    pub(crate) scope: GrantScope,
    /// The rights of the key that signed it.
    pub(crate) signer: Caller,
}

/// The resources that a signature covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GrantScope {
    /// The account, limited to kinds of resources by their letters.
    Account { resource_types: String },
    /// A table, limited to some of its keys.
    Table { name: String, range: GrantRange },
}

/// Keys between two pairs, both included. Without a row key a pair covers its whole partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrantRange {
    pub(crate) first: Option<(String, Option<String>)>,
    pub(crate) last: Option<(String, Option<String>)>,
}

/// The permission that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredPermission {
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

impl RequiredPermission {
    fn is_read(self) -> bool {
        match self {
            RequiredPermission::ReadEntities
            | RequiredPermission::ListTables
            | RequiredPermission::ReadService => true,
            RequiredPermission::Insert
            | RequiredPermission::Update
            | RequiredPermission::Upsert
            | RequiredPermission::DeleteEntity
            | RequiredPermission::CreateTable
            | RequiredPermission::DeleteTable
            | RequiredPermission::Policies
            | RequiredPermission::WriteService => false,
        }
    }

    /// The resource type in an account's signature, and the sets of letters of which each allows
    /// the operation.
    fn of_account(self) -> Option<(char, &'static [&'static str])> {
        Some(match self {
            RequiredPermission::ReadEntities => ('o', &["r"]),
            RequiredPermission::Insert => ('o', &["a"]),
            RequiredPermission::Update => ('o', &["u"]),
            RequiredPermission::Upsert => ('o', &["au"]),
            RequiredPermission::DeleteEntity => ('o', &["d"]),
            RequiredPermission::ListTables => ('c', &["l"]),
            RequiredPermission::CreateTable => ('c', &["c", "w"]),
            RequiredPermission::DeleteTable => ('c', &["d"]),
            RequiredPermission::ReadService => ('s', &["r"]),
            RequiredPermission::WriteService => ('s', &["w"]),
            RequiredPermission::Policies => return None,
        })
    }

    /// The letters in a table's signature.
    fn of_table(self) -> Option<&'static str> {
        match self {
            RequiredPermission::ReadEntities => Some("r"),
            RequiredPermission::Insert => Some("a"),
            RequiredPermission::Update => Some("u"),
            RequiredPermission::Upsert => Some("au"),
            RequiredPermission::DeleteEntity => Some("d"),
            RequiredPermission::ListTables
            | RequiredPermission::CreateTable
            | RequiredPermission::DeleteTable
            | RequiredPermission::Policies
            | RequiredPermission::ReadService
            | RequiredPermission::WriteService => None,
        }
    }
}

impl Identity {
    /// Refuses operations that the caller may not do with a table, or with none.
    pub(crate) fn check(
        &self,
        required: RequiredPermission,
        table: Option<&str>,
    ) -> Result<(), TableError> {
        let denied = || TableError::not_authorized(Mismatch::Permission);
        match self {
            Identity::Key(caller) => check_caller(*caller, required),
            Identity::Principal(principal) => match (principal.role, required) {
                (
                    Some(_),
                    RequiredPermission::Policies
                    | RequiredPermission::ReadService
                    | RequiredPermission::WriteService,
                )
                | (None, _) => Err(denied()),
                (Some(caller), _) => check_caller(caller, required),
            },
            Identity::Sas(grant) => {
                check_caller(grant.signer, required)?;
                grant.check(required, table)
            }
        }
    }

    /// Refuses keys that the caller may not use.
    pub(crate) fn check_keys(&self, keys: &Keys) -> Result<(), TableError> {
        match self.key_range() {
            Some(range) if !range.contains(keys) => Err(TableError::out_of_key_range()),
            _ => Ok(()),
        }
    }

    /// The range of keys that the caller is confined to, if any.
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

fn check_caller(caller: Caller, required: RequiredPermission) -> Result<(), TableError> {
    match caller {
        Caller::ReadWrite => Ok(()),
        Caller::ReadOnly if required.is_read() => Ok(()),
        Caller::ReadOnly => Err(TableError::not_authorized(Mismatch::Permission)),
    }
}

impl Grant {
    fn has(&self, letters: &str) -> bool {
        letters.chars().all(|letter| self.permissions.contains(letter))
    }

    fn check(&self, required: RequiredPermission, table: Option<&str>) -> Result<(), TableError> {
        match &self.scope {
            GrantScope::Account { resource_types } => {
                let Some((kind, letters)) = required.of_account() else {
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
                let is_granted = required.of_table().is_some_and(|letters| self.has(letters));
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
        let may = |required, table| grant.check(required, table).is_ok();
        assert!(
            may(RequiredPermission::ReadEntities, Some("Demo"))
                && may(RequiredPermission::Upsert, Some("demo"))
        );
        assert!(!may(RequiredPermission::DeleteEntity, Some("demo")));
        assert!(
            !may(RequiredPermission::ReadEntities, Some("other"))
                && !may(RequiredPermission::ReadEntities, None)
        );
        assert!(
            !may(RequiredPermission::Policies, Some("demo"))
                && !may(RequiredPermission::DeleteTable, Some("demo"))
        );
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
        assert!(grant("r", "o").check(RequiredPermission::ReadEntities, Some("t")).is_ok());
        let error =
            grant("r", "sc").check(RequiredPermission::ReadEntities, Some("t")).unwrap_err();
        assert_eq!(error.code, "AuthorizationResourceTypeMismatch");
        let error = grant("rl", "sco").check(RequiredPermission::Insert, Some("t")).unwrap_err();
        assert_eq!(error.code, "AuthorizationPermissionMismatch");
        assert!(grant("w", "c").check(RequiredPermission::CreateTable, Some("t")).is_ok());
        assert!(grant("a", "o").check(RequiredPermission::Upsert, Some("t")).is_err());
        assert!(grant("rwdlacup", "sco").check(RequiredPermission::Policies, Some("t")).is_err());
    }
}
