//! Users, their permissions, and client encryption keys.
//!
//! To the engine these are names with a body that only front ends read. They belong to a database
//! or to a user and are deleted with it. A resource may have a second name, which no other of the
//! same kind and owner has at the same time.

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use model::limits::OPAQUE_RESOURCES_MAX;
use model::{DatabaseRid, EncryptionKeyRid, PermissionRid, UserRid, Value, json};
use serde::{Deserialize, Serialize};

use super::change::{check_etag, check_resource_id, exists, missing};
use super::store::number;
use super::{Catalog, Change, record, resource_etag};
use crate::keys::catalog as k;
use crate::ops::EtagCondition;
use crate::{Engine, Error, InvalidRequest, RequestContext, ResourceKind};

/// Numbers have the top bit clear, as those of users must.
const NUMBER_MASK: u32 = 0x7FFF_FFFF;

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpaqueKind {
    /// A user, who may be given permissions.
    User,
    /// What a user may do.
    Permission,
    /// A key that clients encrypt properties with, wrapped by a key that the server never sees.
    EncryptionKey,
    /// Configuration that a front end stores: how it behaves, who may do what by its rules.
    Setting,
}

/// What an opaque resource belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpaqueOwner {
    /// A database.
    Database(DatabaseRid),
    /// A user.
    User(UserRid),
}

/// Identifies an opaque resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpaqueId {
    /// What it belongs to.
    pub owner: OpaqueOwner,
    /// Its kind.
    pub kind: OpaqueKind,
    /// Its number; never assigned again.
    pub number: u32,
}

/// What a client defines of an opaque resource.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOpaque {
    /// Its name.
    pub id: String,
    /// A second name, which is unique as well.
    pub alias: Option<String>,
    /// Everything else, for the front end that wrote it.
    pub body: Value,
}

/// A user, permission or client encryption key.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueResource {
    /// Which one.
    pub key: OpaqueId,
    /// What the client defined.
    pub spec: NewOpaque,
    /// Seconds since the Unix epoch of the last change.
    pub ts: u64,
    /// Grows with every change; the etag is made from it.
    pub version: u64,
}

impl OpaqueKind {
    const ALL: [OpaqueKind; 4] =
        [OpaqueKind::User, OpaqueKind::Permission, OpaqueKind::EncryptionKey, OpaqueKind::Setting];

    /// Its number in stored keys.
    fn tag(self) -> u8 {
        match self {
            OpaqueKind::User => 1,
            OpaqueKind::Permission => 2,
            OpaqueKind::EncryptionKey => 3,
            OpaqueKind::Setting => 4,
        }
    }

    fn resource_kind(self) -> ResourceKind {
        match self {
            OpaqueKind::User => ResourceKind::User,
            OpaqueKind::Permission => ResourceKind::Permission,
            OpaqueKind::EncryptionKey => ResourceKind::EncryptionKey,
            OpaqueKind::Setting => ResourceKind::Setting,
        }
    }
}

impl OpaqueOwner {
    /// The database it is in or is.
    pub fn database(self) -> DatabaseRid {
        match self {
            OpaqueOwner::Database(rid) => rid,
            OpaqueOwner::User(user) => user.database,
        }
    }
}

impl OpaqueId {
    /// The resource id in text.
    pub fn rid(&self) -> String {
        let (database, number) = (self.owner.database(), self.number);
        match (self.kind, self.owner) {
            (OpaqueKind::Permission, OpaqueOwner::User(user)) => {
                PermissionRid { user, number: u64::from(number) }.to_string()
            }
            (OpaqueKind::EncryptionKey, _) => EncryptionKeyRid { database, number }.to_string(),
            (OpaqueKind::User | OpaqueKind::Permission | OpaqueKind::Setting, _) => {
                UserRid { database, number }.to_string()
            }
        }
    }

    /// The user, if it is one.
    pub fn user(&self) -> Option<UserRid> {
        (self.kind == OpaqueKind::User)
            .then_some(UserRid { database: self.owner.database(), number: self.number })
    }

    fn stored_key(&self) -> Bytes {
        let user = match self.owner {
            OpaqueOwner::Database(_) => 0,
            OpaqueOwner::User(user) => user.number,
        };
        k::opaque(self.kind.tag(), self.owner.database(), user, self.number)
    }
}

impl OpaqueResource {
    /// Its version tag.
    pub fn etag(&self) -> String {
        resource_etag(self.key.number, self.version)
    }
}

/// All opaque resources. Copies share what they have in common, so a change costs the same however
/// many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpaqueResources {
    all: OrdMap<OpaqueId, Arc<OpaqueResource>>,
    names: OrdMap<(OpaqueOwner, OpaqueKind, String), u32>,
    aliases: OrdMap<(OpaqueOwner, OpaqueKind, String), u32>,
}

impl OpaqueResources {
    pub(crate) fn put(&mut self, resource: Arc<OpaqueResource>) {
        self.remove(resource.key);
        let OpaqueId { owner, kind, number } = resource.key;
        self.names.insert((owner, kind, resource.spec.id.clone()), number);
        if let Some(alias) = &resource.spec.alias {
            self.aliases.insert((owner, kind, alias.clone()), number);
        }
        self.all.insert(resource.key, resource);
    }

    fn remove(&mut self, key: OpaqueId) {
        let Some(old) = self.all.remove(&key) else { return };
        self.names.remove(&(key.owner, key.kind, old.spec.id.clone()));
        if let Some(alias) = &old.spec.alias {
            self.aliases.remove(&(key.owner, key.kind, alias.clone()));
        }
    }

    fn of(
        &self,
        owner: OpaqueOwner,
        kind: OpaqueKind,
    ) -> impl Iterator<Item = &Arc<OpaqueResource>> {
        let at = |number| OpaqueId { owner, kind, number };
        self.all.range(at(0)..=at(u32::MAX)).map(|(_, resource)| resource)
    }
}

impl Catalog {
    /// An opaque resource by name.
    pub fn opaque(
        &self,
        owner: OpaqueOwner,
        kind: OpaqueKind,
        id: &str,
    ) -> Option<&Arc<OpaqueResource>> {
        let number = *self.opaque.names.get(&(owner, kind, id.to_owned()))?;
        self.opaque_by_number(OpaqueId { owner, kind, number })
    }

    /// An opaque resource by number.
    pub fn opaque_by_number(&self, key: OpaqueId) -> Option<&Arc<OpaqueResource>> {
        self.opaque.all.get(&key)
    }

    /// All of one kind that belong to `owner`, oldest first.
    pub fn opaque_of(
        &self,
        owner: OpaqueOwner,
        kind: OpaqueKind,
    ) -> impl Iterator<Item = &Arc<OpaqueResource>> {
        self.opaque.of(owner, kind)
    }

    fn has_opaque_owner(&self, owner: OpaqueOwner) -> bool {
        match owner {
            OpaqueOwner::Database(rid) => self.database_by_rid(rid).is_some(),
            OpaqueOwner::User(user) => {
                let owner = OpaqueOwner::Database(user.database);
                let key = OpaqueId { owner, kind: OpaqueKind::User, number: user.number };
                self.opaque_by_number(key).is_some()
            }
        }
    }
}

impl Engine {
    /// Creates an opaque resource.
    pub async fn create_opaque(
        &self,
        ctx: &RequestContext,
        owner: OpaqueOwner,
        kind: OpaqueKind,
        spec: NewOpaque,
    ) -> Result<Arc<OpaqueResource>, Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let created = change.create_opaque(owner, kind, spec)?;
        self.finish_change_for(ctx, change, "create_opaque", &created.spec.id).await?;
        Ok(created)
    }

    /// Replaces an opaque resource, its name included.
    pub async fn replace_opaque(
        &self,
        ctx: &RequestContext,
        key: OpaqueId,
        spec: NewOpaque,
        if_match: Option<EtagCondition>,
    ) -> Result<Arc<OpaqueResource>, Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let replaced = change.replace_opaque(key, spec, if_match.as_ref())?;
        self.finish_change_for(ctx, change, "replace_opaque", &replaced.spec.id).await?;
        Ok(replaced)
    }

    /// Replaces the opaque resource of that name or creates it; returns which.
    pub async fn upsert_opaque(
        &self,
        ctx: &RequestContext,
        owner: OpaqueOwner,
        kind: OpaqueKind,
        spec: NewOpaque,
        if_match: Option<EtagCondition>,
    ) -> Result<(Arc<OpaqueResource>, bool), Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let known = change.catalog.opaque(owner, kind, &spec.id).map(|known| known.key);
        let written = match known {
            Some(key) => change.replace_opaque(key, spec, if_match.as_ref())?,
            None => change.create_opaque(owner, kind, spec)?,
        };
        self.finish_change_for(ctx, change, "upsert_opaque", &written.spec.id).await?;
        Ok((written, known.is_none()))
    }

    /// Deletes an opaque resource and what belongs to it.
    pub async fn delete_opaque(
        &self,
        ctx: &RequestContext,
        key: OpaqueId,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let old = change.opaque_to_change(key)?;
        check_etag(if_match.as_ref(), &old.etag())?;
        change.drop_opaque(key);
        self.finish_change_for(ctx, change, "delete_opaque", &old.spec.id).await
    }

    /// A secret for `purpose` that lasts as long as the data and is unique to this store.
    pub fn secret(&self, purpose: &str) -> [u8; 32] {
        self.inner.token_key.derive(purpose)
    }
}

impl Change {
    fn create_opaque(
        &mut self,
        owner: OpaqueOwner,
        kind: OpaqueKind,
        spec: NewOpaque,
    ) -> Result<Arc<OpaqueResource>, Error> {
        check_resource_id(&spec.id)?;
        if !self.catalog.has_opaque_owner(owner) {
            let kind = match owner {
                OpaqueOwner::Database(_) => ResourceKind::Database,
                OpaqueOwner::User(_) => ResourceKind::User,
            };
            return Err(Error::OwnerNotFound { kind, id: spec.id });
        }
        if self.catalog.opaque.all.len() >= OPAQUE_RESOURCES_MAX {
            let count_max = OPAQUE_RESOURCES_MAX;
            return Err(InvalidRequest::OpaqueResourcesFull { count_max }.into());
        }
        // In stored keys zero stands for the absence of a user.
        let number = (self.meta.next_small & NUMBER_MASK).max(1);
        let key = OpaqueId { owner, kind, number };
        self.meta.next_small = self.meta.next_small.wrapping_add(1);
        self.put_opaque(OpaqueResource { key, spec, ts: self.ts, version: 1 })
    }

    fn replace_opaque(
        &mut self,
        key: OpaqueId,
        spec: NewOpaque,
        if_match: Option<&EtagCondition>,
    ) -> Result<Arc<OpaqueResource>, Error> {
        check_resource_id(&spec.id)?;
        let old = self.opaque_to_change(key)?;
        check_etag(if_match, &old.etag())?;
        let ts = self.ts.max(old.ts);
        self.put_opaque(OpaqueResource { key, spec, ts, version: old.version + 1 })
    }

    fn opaque_to_change(&self, key: OpaqueId) -> Result<Arc<OpaqueResource>, Error> {
        let found = self.catalog.opaque_by_number(key).cloned();
        found.ok_or_else(|| missing(key.kind.resource_kind(), key.rid()))
    }

    fn put_opaque(&mut self, resource: OpaqueResource) -> Result<Arc<OpaqueResource>, Error> {
        let OpaqueId { owner, kind, number } = resource.key;
        let opaque = &self.catalog.opaque;
        let is_taken = |names: &OrdMap<(OpaqueOwner, OpaqueKind, String), u32>, name: &String| {
            names.get(&(owner, kind, name.clone())).is_some_and(|holder| *holder != number)
        };
        let alias_taken =
            resource.spec.alias.as_ref().is_some_and(|alias| is_taken(&opaque.aliases, alias));
        if alias_taken || is_taken(&opaque.names, &resource.spec.id) {
            return Err(exists(kind.resource_kind(), &resource.spec.id));
        }
        let resource = Arc::new(resource);
        self.put(resource.key.stored_key(), encode(&resource));
        self.catalog.opaque.put(Arc::clone(&resource));
        Ok(resource)
    }

    fn drop_opaque(&mut self, key: OpaqueId) {
        if let Some(user) = key.user() {
            self.drop_opaque_of(OpaqueOwner::User(user));
        }
        self.delete(key.stored_key());
        self.catalog.opaque.remove(key);
    }

    fn drop_opaque_of(&mut self, owner: OpaqueOwner) {
        for kind in OpaqueKind::ALL {
            let keys: Vec<_> = self.catalog.opaque_of(owner, kind).map(|r| r.key).collect();
            keys.into_iter().for_each(|key| self.drop_opaque(key));
        }
    }

    /// Drops all opaque resources in a database.
    pub(super) fn drop_opaque_of_database(&mut self, database: DatabaseRid) {
        self.drop_opaque_of(OpaqueOwner::Database(database));
    }
}

#[derive(Serialize, Deserialize)]
struct OpaqueRecord {
    id: String,
    alias: Option<String>,
    body: String,
    ts: u64,
    version: u64,
}

fn encode(resource: &OpaqueResource) -> Bytes {
    let NewOpaque { id, alias, body } = &resource.spec;
    record::to_bytes(&OpaqueRecord {
        id: id.clone(),
        alias: alias.clone(),
        body: json::to_string(body),
        ts: resource.ts,
        version: resource.version,
    })
}

/// Decodes one; `key` is what follows the tag.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Arc<OpaqueResource>, Error> {
    let OpaqueRecord { id, alias, body, ts, version } = record::from_bytes(value)?;
    let kind = key.first().and_then(|tag| OpaqueKind::ALL.into_iter().find(|k| k.tag() == *tag));
    let kind = kind.ok_or_else(|| record::damaged("a resource of an unknown kind".into()))?;
    let database = DatabaseRid(number(key, 1)?);
    let owner = match number(key, 5)? {
        0 => OpaqueOwner::Database(database),
        user => OpaqueOwner::User(UserRid { database, number: user }),
    };
    let body = json::parse(body.as_bytes(), model::limits::ITEM_DEPTH_MAX)
        .map_err(|e| record::damaged(e.to_string()))?
        .value;
    let key = OpaqueId { owner, kind, number: number(key, 9)? };
    Ok(Arc::new(OpaqueResource { key, spec: NewOpaque { id, alias, body }, ts, version }))
}
