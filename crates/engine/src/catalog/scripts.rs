//! Stored procedures, triggers and user-defined functions of a container.

use std::sync::Arc;

use bytes::Bytes;
use model::rid::{ChildKind, child_rid, parse_child_rid};
use model::{ContainerRid, limits, rid};
use serde::{Deserialize, Serialize};

use super::change::{check_etag, check_resource_id, exists, missing};
use super::{Change, record, resource_etag};
use crate::keys::catalog as k;
use crate::ops::EtagCondition;
use crate::{Engine, Error, RequestContext, ResourceKind};

/// The kinds of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScriptKind {
    /// Runs when it is called, in one logical partition.
    StoredProcedure,
    /// Runs before or after a write that names it.
    Trigger,
    /// Called by queries.
    UserDefinedFunction,
}

impl ScriptKind {
    /// Most scripts of this kind in a container.
    fn count_max(self) -> usize {
        match self {
            ScriptKind::StoredProcedure => limits::STORED_PROCEDURES_MAX,
            ScriptKind::Trigger => limits::TRIGGERS_MAX,
            ScriptKind::UserDefinedFunction => limits::USER_DEFINED_FUNCTIONS_MAX,
        }
    }

    fn child_kind(self) -> ChildKind {
        match self {
            ScriptKind::StoredProcedure => ChildKind::StoredProcedure,
            ScriptKind::Trigger => ChildKind::Trigger,
            ScriptKind::UserDefinedFunction => ChildKind::UserDefinedFunction,
        }
    }
}

/// When a trigger runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerTime {
    /// Before the write, whose item it may change.
    Pre,
    /// After the write, in its transaction.
    Post,
}

/// The writes for which a trigger runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerOperation {
    /// Every write.
    All,
    /// New items.
    Create,
    /// New versions of items, under an older name.
    Update,
    /// Deletes of items.
    Delete,
    /// New versions of items.
    Replace,
    /// Upserts, whether or not the item is new.
    Upsert,
}

/// What a trigger declares besides its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerSpec {
    /// When it runs.
    pub time: TriggerTime,
    /// For which writes.
    pub operation: TriggerOperation,
    /// Both as the client spelled them.
    pub spelled: [String; 2],
}

/// What a client defines of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSpec {
    /// Its name.
    pub id: String,
    /// Its text: a function.
    pub body: Arc<str>,
    /// Present for triggers.
    pub trigger: Option<TriggerSpec>,
}

/// Identifies a script for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptRid {
    /// The container it belongs to.
    pub container: ContainerRid,
    /// Its kind.
    pub kind: ScriptKind,
    /// Its number; no other script of the store has it.
    pub number: u32,
}

impl ScriptRid {
    /// Reads the 24-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        let (container, kind, number) = parse_child_rid(text)?;
        let kind = match kind {
            ChildKind::StoredProcedure => ScriptKind::StoredProcedure,
            ChildKind::Trigger => ScriptKind::Trigger,
            ChildKind::UserDefinedFunction => ScriptKind::UserDefinedFunction,
            ChildKind::Document | ChildKind::PartitionKeyRange | ChildKind::Conflict => {
                return None;
            }
        };
        Some(Self { container, kind, number: u32::try_from(number).ok()? })
    }
}

impl std::fmt::Display for ScriptRid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&child_rid(self.container, self.kind.child_kind(), u64::from(self.number)))
    }
}

/// The current state of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its resource id.
    pub rid: ScriptRid,
    /// What the client defined.
    pub spec: ScriptSpec,
    /// Seconds since the Unix epoch of the last change.
    pub ts: u64,
    /// Grows with every change; the etag is made from it.
    pub version: u64,
}

impl Script {
    /// Its version tag.
    pub fn etag(&self) -> String {
        resource_etag(self.rid.number, self.version)
    }
}

/// The scripts of a container, in the order of kinds and, within one, oldest first.
pub(crate) type ContainerScripts = Vec<Arc<Script>>;

#[derive(Serialize, Deserialize)]
struct ScriptRecord {
    id: String,
    body: String,
    trigger: Option<TriggerSpec>,
    ts: u64,
    version: u64,
}

fn encode(script: &Script) -> Bytes {
    let ScriptSpec { id, body, trigger } = &script.spec;
    record::to_bytes(&ScriptRecord {
        id: id.clone(),
        body: String::from(&**body),
        trigger: trigger.clone(),
        ts: script.ts,
        version: script.version,
    })
}

pub(super) fn decode(rid: ScriptRid, bytes: &[u8]) -> Result<Script, Error> {
    let ScriptRecord { id, body, trigger, ts, version } = record::from_bytes(bytes)?;
    Ok(Script { rid, spec: ScriptSpec { id, body: body.into(), trigger }, ts, version })
}

impl super::Catalog {
    /// A container's scripts of one kind, oldest first.
    pub fn scripts(
        &self,
        container: ContainerRid,
        kind: ScriptKind,
    ) -> impl Iterator<Item = &Arc<Script>> {
        let all = self.scripts.get(&container).into_iter().flat_map(|scripts| scripts.iter());
        all.filter(move |script| script.rid.kind == kind)
    }

    /// A script by name.
    pub fn script(
        &self,
        container: ContainerRid,
        kind: ScriptKind,
        id: &str,
    ) -> Option<&Arc<Script>> {
        self.scripts(container, kind).find(|script| script.spec.id == id)
    }

    /// A script by resource id.
    pub fn script_by_rid(&self, rid: ScriptRid) -> Option<&Arc<Script>> {
        self.scripts(rid.container, rid.kind).find(|script| script.rid == rid)
    }

    pub(super) fn put_script(&mut self, script: Arc<Script>) {
        let scripts = Arc::make_mut(self.scripts.entry(script.rid.container).or_default());
        match scripts.binary_search_by_key(&script.rid, |known| known.rid) {
            Ok(at) => scripts[at] = script,
            Err(at) => scripts.insert(at, script),
        }
    }

    fn remove_script(&mut self, rid: ScriptRid) {
        if let Some(scripts) = self.scripts.get_mut(&rid.container) {
            Arc::make_mut(scripts).retain(|script| script.rid != rid);
        }
    }
}

impl Engine {
    /// Adds a script to a container.
    pub async fn create_script(
        &self,
        ctx: &RequestContext,
        container: ContainerRid,
        kind: ScriptKind,
        spec: ScriptSpec,
    ) -> Result<Arc<Script>, Error> {
        check(&spec)?;
        let mut change = self.begin_change_for(ctx).await?;
        if change.catalog.container_by_rid(container).is_none() {
            let (kind, id) = (ResourceKind::Container, container.to_string());
            return Err(Error::OwnerNotFound { kind, id });
        }
        if change.catalog.script(container, kind, &spec.id).is_some() {
            return Err(exists(ResourceKind::Script, &spec.id));
        }
        let count_max = kind.count_max();
        if change.catalog.scripts(container, kind).count() >= count_max {
            return Err(Error::TooMany { what: "scripts of this kind", count_max });
        }
        let rid = ScriptRid { container, kind, number: change.next_script() };
        let script = Arc::new(Script { rid, spec, ts: change.ts, version: 1 });
        change.put_script(Arc::clone(&script));
        self.finish_change_for(ctx, change, "create_script", &script.spec.id).await?;
        Ok(script)
    }

    /// Replaces a script; another id renames it.
    pub async fn replace_script(
        &self,
        ctx: &RequestContext,
        rid: ScriptRid,
        spec: ScriptSpec,
        if_match: Option<EtagCondition>,
    ) -> Result<Arc<Script>, Error> {
        check(&spec)?;
        let mut change = self.begin_change_for(ctx).await?;
        let Some(old) = change.catalog.script_by_rid(rid).cloned() else {
            return Err(missing(ResourceKind::Script, rid));
        };
        check_etag(if_match.as_ref(), &old.etag())?;
        let namesake = change.catalog.script(rid.container, rid.kind, &spec.id);
        if namesake.is_some_and(|namesake| namesake.rid != rid) {
            return Err(exists(ResourceKind::Script, &spec.id));
        }
        let ts = change.ts.max(old.ts);
        let script = Arc::new(Script { rid, spec, ts, version: old.version + 1 });
        change.put_script(Arc::clone(&script));
        self.finish_change_for(ctx, change, "replace_script", &script.spec.id).await?;
        Ok(script)
    }

    /// Deletes a script.
    pub async fn delete_script(
        &self,
        ctx: &RequestContext,
        rid: ScriptRid,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        let mut change = self.begin_change_for(ctx).await?;
        let Some(old) = change.catalog.script_by_rid(rid).cloned() else {
            return Err(missing(ResourceKind::Script, rid));
        };
        check_etag(if_match.as_ref(), &old.etag())?;
        change.delete(k::script(rid));
        change.catalog.remove_script(rid);
        self.finish_change_for(ctx, change, "delete_script", &old.spec.id).await
    }
}

impl Change {
    fn put_script(&mut self, script: Arc<Script>) {
        self.put(k::script(script.rid), encode(&script));
        self.catalog.put_script(script);
    }

    /// Drops all scripts of a container.
    pub(super) fn drop_scripts(&mut self, container: ContainerRid) {
        for script in self.catalog.scripts.remove(&container).iter().flat_map(|s| s.iter()) {
            self.delete(k::script(script.rid));
        }
    }
}

fn check(spec: &ScriptSpec) -> Result<(), Error> {
    check_resource_id(&spec.id)?;
    if spec.body.len() > limits::SCRIPT_BYTES_MAX {
        return Err(Error::TooLarge { what: "the script", max_bytes: limits::SCRIPT_BYTES_MAX });
    }
    Ok(())
}

/// Reads the rest of a script's key.
pub(super) fn rid_of_key(rest: &[u8]) -> Option<ScriptRid> {
    let number = |at: usize| Some(u32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    let kind = match rest.get(8)? {
        0 => ScriptKind::StoredProcedure,
        1 => ScriptKind::Trigger,
        2 => ScriptKind::UserDefinedFunction,
        _ => return None,
    };
    let container = ContainerRid { database: rid::DatabaseRid(number(0)?), number: number(4)? };
    Some(ScriptRid { container, kind, number: number(9)? })
}
