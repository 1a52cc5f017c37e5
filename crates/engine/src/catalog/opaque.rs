//! Users, their permissions, and client encryption keys.
//!
//! To the engine these are names with a body that only front ends look into. They belong to a
//! database or to a user and go away with it. A resource may have a second name, which no other of
//! the same kind and owner has at the same time.

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use model::{DatabaseRid, EncryptionKeyRid, PermissionRid, UserRid, Value, json};
use serde::{Deserialize, Serialize};

use super::change::{check_etag, check_resource_id, exists, missing};
use super::store::number;
use super::{Catalog, Change, record, resource_etag};
use crate::keys::catalog as k;
use crate::ops::EtagCondition;
use crate::{Engine, Error, ResourceKind};

/// Most of them in a store: the catalog lives in memory.
const SMALL_MAX: usize = 100_000;
/// Numbers have the top bit clear, as those of users must.
const NUMBER_MASK: u32 = 0x7FFF_FFFF;

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SmallKind {
    /// Somebody who may be given permissions.
    User,
    /// What a user may do.
    Permission,
    /// A key that clients encrypt properties with, wrapped by a key that the server never sees.
    EncryptionKey,
    /// What a front end keeps for itself: how it is to behave, who may do what by its rules.
    Setting,
}

/// What a small resource belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SmallOwner {
    /// A database.
    Database(DatabaseRid),
    /// A user.
    User(UserRid),
}

/// Which resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SmallId {
    /// What it belongs to.
    pub owner: SmallOwner,
    /// What it is.
    pub kind: SmallKind,
    /// Its number; never given out again.
    pub number: u32,
}

/// What a client decides about a small resource.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSmall {
    /// Its name.
    pub id: String,
    /// A second name that it has to itself.
    pub alias: Option<String>,
    /// Everything else, for the front end that wrote it.
    pub body: Value,
}

/// A user, permission or client encryption key.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallResource {
    /// Which one.
    pub key: SmallId,
    /// What the client decided.
    pub spec: NewSmall,
    /// Seconds since the Unix epoch of the last change.
    pub ts: u64,
    /// Grows with every change; makes its etag.
    pub version: u64,
}

impl SmallKind {
    const ALL: [SmallKind; 4] =
        [SmallKind::User, SmallKind::Permission, SmallKind::EncryptionKey, SmallKind::Setting];

    /// Its number in stored keys.
    fn tag(self) -> u8 {
        match self {
            SmallKind::User => 1,
            SmallKind::Permission => 2,
            SmallKind::EncryptionKey => 3,
            SmallKind::Setting => 4,
        }
    }

    fn resource_kind(self) -> ResourceKind {
        match self {
            SmallKind::User => ResourceKind::User,
            SmallKind::Permission => ResourceKind::Permission,
            SmallKind::EncryptionKey => ResourceKind::EncryptionKey,
            SmallKind::Setting => ResourceKind::Setting,
        }
    }
}

impl SmallOwner {
    /// The database it is in or is.
    pub fn database(self) -> DatabaseRid {
        match self {
            SmallOwner::Database(rid) => rid,
            SmallOwner::User(user) => user.database,
        }
    }
}

impl SmallId {
    /// The resource id in text.
    pub fn rid(&self) -> String {
        let (database, number) = (self.owner.database(), self.number);
        match (self.kind, self.owner) {
            (SmallKind::Permission, SmallOwner::User(user)) => {
                PermissionRid { user, number: u64::from(number) }.to_string()
            }
            (SmallKind::EncryptionKey, _) => EncryptionKeyRid { database, number }.to_string(),
            (SmallKind::User | SmallKind::Permission | SmallKind::Setting, _) => {
                UserRid { database, number }.to_string()
            }
        }
    }

    /// The user, if it is one.
    pub fn user(&self) -> Option<UserRid> {
        (self.kind == SmallKind::User)
            .then_some(UserRid { database: self.owner.database(), number: self.number })
    }

    fn stored_key(&self) -> Bytes {
        let user = match self.owner {
            SmallOwner::Database(_) => 0,
            SmallOwner::User(user) => user.number,
        };
        k::small(self.kind.tag(), self.owner.database(), user, self.number)
    }
}

impl SmallResource {
    /// Its version tag.
    pub fn etag(&self) -> String {
        resource_etag(self.key.number, self.version)
    }
}

/// All of them. Copies share what they have in common, so a change costs the same however many
/// there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct SmallResources {
    all: OrdMap<SmallId, Arc<SmallResource>>,
    names: OrdMap<(SmallOwner, SmallKind, String), u32>,
    aliases: OrdMap<(SmallOwner, SmallKind, String), u32>,
}

impl SmallResources {
    pub(crate) fn put(&mut self, resource: Arc<SmallResource>) {
        self.remove(resource.key);
        let SmallId { owner, kind, number } = resource.key;
        self.names.insert((owner, kind, resource.spec.id.clone()), number);
        if let Some(alias) = &resource.spec.alias {
            self.aliases.insert((owner, kind, alias.clone()), number);
        }
        self.all.insert(resource.key, resource);
    }

    fn remove(&mut self, key: SmallId) {
        let Some(old) = self.all.remove(&key) else { return };
        self.names.remove(&(key.owner, key.kind, old.spec.id.clone()));
        if let Some(alias) = &old.spec.alias {
            self.aliases.remove(&(key.owner, key.kind, alias.clone()));
        }
    }

    fn of(&self, owner: SmallOwner, kind: SmallKind) -> impl Iterator<Item = &Arc<SmallResource>> {
        let at = |number| SmallId { owner, kind, number };
        self.all.range(at(0)..=at(u32::MAX)).map(|(_, resource)| resource)
    }
}

impl Catalog {
    /// A small resource by name.
    pub fn small(
        &self,
        owner: SmallOwner,
        kind: SmallKind,
        id: &str,
    ) -> Option<&Arc<SmallResource>> {
        let number = *self.small.names.get(&(owner, kind, id.to_owned()))?;
        self.small_by_number(SmallId { owner, kind, number })
    }

    /// A small resource by number.
    pub fn small_by_number(&self, key: SmallId) -> Option<&Arc<SmallResource>> {
        self.small.all.get(&key)
    }

    /// All of one kind that belong to `owner`, oldest first.
    pub fn small_of(
        &self,
        owner: SmallOwner,
        kind: SmallKind,
    ) -> impl Iterator<Item = &Arc<SmallResource>> {
        self.small.of(owner, kind)
    }

    fn has_small_owner(&self, owner: SmallOwner) -> bool {
        match owner {
            SmallOwner::Database(rid) => self.database_by_rid(rid).is_some(),
            SmallOwner::User(user) => {
                let owner = SmallOwner::Database(user.database);
                let key = SmallId { owner, kind: SmallKind::User, number: user.number };
                self.small_by_number(key).is_some()
            }
        }
    }
}

impl Engine {
    /// Creates a small resource.
    pub async fn create_small(
        &self,
        owner: SmallOwner,
        kind: SmallKind,
        spec: NewSmall,
    ) -> Result<Arc<SmallResource>, Error> {
        let mut change = self.begin_change().await;
        let created = change.create_small(owner, kind, spec)?;
        self.finish_change(change).await?;
        Ok(created)
    }

    /// Replaces a small resource, its name included.
    pub async fn replace_small(
        &self,
        key: SmallId,
        spec: NewSmall,
        if_match: Option<EtagCondition>,
    ) -> Result<Arc<SmallResource>, Error> {
        let mut change = self.begin_change().await;
        let replaced = change.replace_small(key, spec, if_match.as_ref())?;
        self.finish_change(change).await?;
        Ok(replaced)
    }

    /// Replaces the small resource of that name or creates it; tells which.
    pub async fn upsert_small(
        &self,
        owner: SmallOwner,
        kind: SmallKind,
        spec: NewSmall,
        if_match: Option<EtagCondition>,
    ) -> Result<(Arc<SmallResource>, bool), Error> {
        let mut change = self.begin_change().await;
        let known = change.catalog.small(owner, kind, &spec.id).map(|known| known.key);
        let written = match known {
            Some(key) => change.replace_small(key, spec, if_match.as_ref())?,
            None => change.create_small(owner, kind, spec)?,
        };
        self.finish_change(change).await?;
        Ok((written, known.is_none()))
    }

    /// Deletes a small resource and what belongs to it.
    pub async fn delete_small(
        &self,
        key: SmallId,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        let mut change = self.begin_change().await;
        let old = change.small_to_change(key)?;
        check_etag(if_match.as_ref(), &old.etag())?;
        change.drop_small(key);
        self.finish_change(change).await
    }

    /// A secret for `purpose` that lasts as long as the data and that nobody else has.
    pub fn secret(&self, purpose: &str) -> [u8; 32] {
        self.inner.token_key.derive(purpose)
    }
}

impl Change {
    fn create_small(
        &mut self,
        owner: SmallOwner,
        kind: SmallKind,
        spec: NewSmall,
    ) -> Result<Arc<SmallResource>, Error> {
        check_resource_id(&spec.id)?;
        if !self.catalog.has_small_owner(owner) {
            let kind = match owner {
                SmallOwner::Database(_) => ResourceKind::Database,
                SmallOwner::User(_) => ResourceKind::User,
            };
            return Err(Error::OwnerNotFound { kind, id: spec.id });
        }
        if self.catalog.small.all.len() >= SMALL_MAX {
            return Err(Error::BadRequest(format!(
                "This server holds at most {SMALL_MAX} users, permissions and client encryption \
                 keys."
            )));
        }
        // Zero stands for no user in stored keys.
        let number = (self.meta.next_small & NUMBER_MASK).max(1);
        let key = SmallId { owner, kind, number };
        self.meta.next_small = self.meta.next_small.wrapping_add(1);
        self.put_small(SmallResource { key, spec, ts: self.ts, version: 1 })
    }

    fn replace_small(
        &mut self,
        key: SmallId,
        spec: NewSmall,
        if_match: Option<&EtagCondition>,
    ) -> Result<Arc<SmallResource>, Error> {
        check_resource_id(&spec.id)?;
        let old = self.small_to_change(key)?;
        check_etag(if_match, &old.etag())?;
        let ts = self.ts.max(old.ts);
        self.put_small(SmallResource { key, spec, ts, version: old.version + 1 })
    }

    fn small_to_change(&self, key: SmallId) -> Result<Arc<SmallResource>, Error> {
        let found = self.catalog.small_by_number(key).cloned();
        found.ok_or_else(|| missing(key.kind.resource_kind(), key.rid()))
    }

    fn put_small(&mut self, resource: SmallResource) -> Result<Arc<SmallResource>, Error> {
        let SmallId { owner, kind, number } = resource.key;
        let small = &self.catalog.small;
        let is_taken = |names: &OrdMap<(SmallOwner, SmallKind, String), u32>, name: &String| {
            names.get(&(owner, kind, name.clone())).is_some_and(|holder| *holder != number)
        };
        let alias_taken =
            resource.spec.alias.as_ref().is_some_and(|alias| is_taken(&small.aliases, alias));
        if alias_taken || is_taken(&small.names, &resource.spec.id) {
            return Err(exists(kind.resource_kind(), &resource.spec.id));
        }
        let resource = Arc::new(resource);
        self.put(resource.key.stored_key(), encode(&resource));
        self.catalog.small.put(Arc::clone(&resource));
        Ok(resource)
    }

    fn drop_small(&mut self, key: SmallId) {
        if let Some(user) = key.user() {
            self.drop_small_of(SmallOwner::User(user));
        }
        self.delete(key.stored_key());
        self.catalog.small.remove(key);
    }

    fn drop_small_of(&mut self, owner: SmallOwner) {
        for kind in SmallKind::ALL {
            let keys: Vec<_> = self.catalog.small_of(owner, kind).map(|r| r.key).collect();
            keys.into_iter().for_each(|key| self.drop_small(key));
        }
    }

    /// Drops everything small in a database.
    pub(super) fn drop_small_of_database(&mut self, database: DatabaseRid) {
        self.drop_small_of(SmallOwner::Database(database));
    }
}

#[derive(Serialize, Deserialize)]
struct SmallRecord {
    id: String,
    alias: Option<String>,
    body: String,
    ts: u64,
    version: u64,
}

fn encode(resource: &SmallResource) -> Bytes {
    let NewSmall { id, alias, body } = &resource.spec;
    record::to_bytes(&SmallRecord {
        id: id.clone(),
        alias: alias.clone(),
        body: json::to_string(body),
        ts: resource.ts,
        version: resource.version,
    })
}

/// Reads one back; `key` is what follows the tag.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Arc<SmallResource>, Error> {
    let SmallRecord { id, alias, body, ts, version } = record::from_bytes(value)?;
    let kind = key.first().and_then(|tag| SmallKind::ALL.into_iter().find(|k| k.tag() == *tag));
    let kind = kind.ok_or_else(|| record::damaged("a resource of an unknown kind".into()))?;
    let database = DatabaseRid(number(key, 1)?);
    let owner = match number(key, 5)? {
        0 => SmallOwner::Database(database),
        user => SmallOwner::User(UserRid { database, number: user }),
    };
    let body = json::parse(body.as_bytes(), model::limits::ITEM_DEPTH_MAX)
        .map_err(|e| record::damaged(e.to_string()))?
        .value;
    let key = SmallId { owner, kind, number: number(key, 9)? };
    Ok(Arc::new(SmallResource { key, spec: NewSmall { id, alias, body }, ts, version }))
}
