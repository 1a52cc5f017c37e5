//! Who a client is, and what it may do.

use account::{Caller, Key};
use model::{Object, Value};

use crate::commands::Access;
use crate::document::document;

/// The database whose roles may hold for all databases.
pub(crate) const ADMIN: &str = "admin";

/// Who a client is.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    /// The holder of a key of the account.
    Account {
        /// The name that was given.
        user: String,
        /// The database that was given.
        database: String,
        /// The key, which may be replaced any time.
        key: Key,
        /// What it grants.
        caller: Caller,
    },
    /// A user that was made by a command, who may change or go any time.
    User {
        /// Its name.
        user: String,
        /// Its database.
        database: String,
    },
}

impl Principal {
    /// Its name and its database.
    pub(crate) fn name(&self) -> (&str, &str) {
        match self {
            Principal::Account { user, database, .. } | Principal::User { user, database } => {
                (user, database)
            }
        }
    }
}

/// What a client may do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rights {
    /// Nothing but to log in.
    None,
    /// What a key of the account grants; all, for clients that need none.
    Account(Caller),
    /// What these roles grant.
    Roles(Vec<Role>),
}

/// A role on a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) database: String,
}

/// The roles that there are: whether each is only for `admin`, and what it grants there or on its
/// database.
const ROLES: &[(&str, bool, &[Access])] = {
    use Access::{Define, Monitor, Operate, Read, Users, Write};
    &[
        ("read", false, &[Read]),
        ("readWrite", false, &[Read, Write, Define]),
        ("dbAdmin", false, &[Define]),
        ("dbOwner", false, &[Read, Write, Define, Users]),
        ("userAdmin", false, &[Users]),
        ("clusterMonitor", true, &[Monitor]),
        ("clusterManager", true, &[Monitor, Operate]),
        ("hostManager", true, &[Monitor, Operate]),
        ("clusterAdmin", true, &[Monitor, Operate, Define]),
        ("readAnyDatabase", true, &[Read]),
        ("readWriteAnyDatabase", true, &[Read, Write, Define]),
        ("dbAdminAnyDatabase", true, &[Define]),
        ("userAdminAnyDatabase", true, &[Users]),
        ("root", true, &[Read, Write, Define, Users, Monitor, Operate]),
    ]
};

impl Role {
    /// Whether there is such a role.
    pub(crate) fn exists(&self) -> bool {
        let mut known = ROLES.iter().filter(|(name, ..)| *name == self.name);
        known.next().is_some_and(|(_, for_admin, _)| !for_admin || self.database == ADMIN)
    }

    fn grants(&self, access: Access, database: &str) -> bool {
        let mut known = ROLES.iter().filter(|(name, ..)| *name == self.name);
        let Some((_, is_for_all, granted)) = known.next() else { return false };
        let is_there = *is_for_all || self.database == database;
        // Where a database may be managed, its figures may be read.
        is_there && (granted.contains(&access))
    }

    /// Its form in replies.
    pub(crate) fn to_document(&self) -> Object {
        document! { "role" => self.name.as_str(), "db" => self.database.as_str() }
    }

    /// A role as it is named in a command on `database`.
    pub(crate) fn read(value: &Value, database: &str) -> Option<Self> {
        if let Some(name) = value.as_str() {
            return Some(Self { name: name.to_owned(), database: database.to_owned() });
        }
        let name = value.field("role")?.as_str()?.to_owned();
        let database = value.field("db")?.as_str()?.to_owned();
        Some(Self { name, database })
    }
}

impl Rights {
    /// Whether they grant access to a database.
    pub(crate) fn grant(&self, access: Access, database: &str) -> bool {
        match (self, access) {
            (_, Access::Anyone) => true,
            (Rights::None, _) => false,
            (_, Access::Known) => true,
            (Rights::Account(Caller::ReadWrite), _) => true,
            (Rights::Account(Caller::ReadOnly), Access::Read | Access::Monitor) => true,
            (Rights::Account(Caller::ReadOnly), _) => false,
            (Rights::Roles(roles), access) => {
                roles.iter().any(|role| role.grants(access, database))
            }
        }
    }

    /// The roles that say the same.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let role = |name: &str| Role { name: name.to_owned(), database: ADMIN.to_owned() };
        match self {
            Rights::None => Vec::new(),
            Rights::Account(Caller::ReadWrite) => vec![role("root")],
            Rights::Account(Caller::ReadOnly) => {
                vec![role("readAnyDatabase"), role("clusterMonitor")]
            }
            Rights::Roles(roles) => roles.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, database: &str) -> Role {
        Role { name: name.to_owned(), database: database.to_owned() }
    }

    #[test]
    fn roles_grant_what_they_say_where_they_say_it() {
        let rights =
            Rights::Roles(vec![role("readWrite", "shop"), role("readAnyDatabase", "admin")]);
        assert!(rights.grant(Access::Write, "shop") && rights.grant(Access::Define, "shop"));
        assert!(!rights.grant(Access::Write, "other") && rights.grant(Access::Read, "other"));
        assert!(!rights.grant(Access::Users, "shop") && !rights.grant(Access::Operate, "admin"));
        assert!(rights.grant(Access::Known, "x") && rights.grant(Access::Anyone, "x"));
        assert!(role("read", "x").exists() && role("root", "admin").exists());
        assert!(!role("root", "x").exists() && !role("other", "admin").exists());
    }

    #[test]
    fn a_key_that_may_only_read_grants_nothing_else() {
        let rights = Rights::Account(Caller::ReadOnly);
        assert!(rights.grant(Access::Read, "x") && rights.grant(Access::Monitor, "admin"));
        for access in [Access::Write, Access::Define, Access::Users, Access::Operate] {
            assert!(!rights.grant(access, "x"), "{access:?}");
            assert!(Rights::Account(Caller::ReadWrite).grant(access, "x"));
            assert!(!Rights::None.grant(access, "x"));
        }
        assert!(Rights::None.grant(Access::Anyone, "x") && !Rights::None.grant(Access::Known, "x"));
    }
}
