//! Operations on one item.

use engine::item::NoSystemProperties;
use engine::ops::{EtagCondition, ItemOp, ItemOutcome};
use engine::patch::{Patch, PatchCondition, PatchOp};
use engine::{Error, Etag, audit};
use model::Value;

use super::Client;
use crate::item::{Content, ItemName, WriteId, body};
use crate::record::Intent;

impl Client {
    /// Reads one item and checks the answer.
    pub(crate) async fn read(&mut self, name: &ItemName) {
        while self.read_once(name).await {}
    }

    /// Returns whether to read again.
    async fn read_once(&mut self, name: &ItemName) -> bool {
        let known = self.known_versions.get(name).map(|(_, etag)| *etag);
        let unless = known.filter(|_| self.chance.percent(20));
        let condition = unless.map(|etag| EtagCondition::Is(etag.unquoted()));
        let (key, id) = (self.world.plan.partition_key(&name.key), name.id.clone());
        let reply = self
            .ask(
                &format!("read {name}"),
                name.container,
                async move |engine, container, mut ctx| {
                    let read =
                        engine.read_item(&mut ctx, &container, &key, &id, condition.as_ref());
                    let behind = behind_session(&container, &ctx);
                    (read.map(|item| (item, behind)), ctx)
                },
            )
            .await;
        let Some(reply) = reply else { return false };
        let shown = reply.result.as_ref().map(|(item, _)| item.etag().to_string());
        self.world.note(format_args!("{}: read {name}: {shown:?}", self.name));
        let world = std::rc::Rc::clone(&self.world);
        match &reply.result {
            Ok((item, behind)) => {
                if let Some(behind) = behind {
                    world.fail(format!(
                        "{} was served {name} behind its session: {behind}",
                        self.name
                    ));
                }
                world.fail_on_violation(world.record.borrow().check_shown(name, item, reply.wait));
                self.learn_session(name.container, &reply.served);
                self.learn_version(name, item, reply.wait.from);
            }
            Err(Error::NotFound { .. }) => {
                world.fail_on_violation(world.record.borrow().check_absent(name, reply.wait));
                self.learn_session(name.container, &reply.served);
                self.known_versions.remove(name);
            }
            Err(Error::NotModified { etag }) => {
                world.fail_on_violation(
                    world.record.borrow().check_unchanged(name, *etag, reply.wait),
                );
                if Some(*etag) != unless {
                    world.fail(format!("{name} counts as unchanged at {etag}"));
                }
            }
            Err(error) if self.should_retry(error).await => return true,
            Err(error) => self.take_error(name.container, error, reply.wait),
        }
        false
    }

    /// Changes one item by a random operation.
    pub(super) async fn write(&mut self, name: &ItemName) {
        let request = self.world.record.borrow_mut().new_request();
        let (id, op) = self.choose_write(name, request, false);
        let what = format!("{id} {}", describe(&op, name));
        let key = self.chance.percent(70).then(|| self.world.plan.partition_key(&name.key));
        let key = key.or_else(|| needs_key(&op).then(|| self.world.plan.partition_key(&name.key)));
        let reply = self
            .ask(&what, name.container, async move |engine, container, mut ctx| {
                let written = engine.write_item(&mut ctx, &container, key, op).await;
                (written, ctx)
            })
            .await;
        let Some(reply) = reply else {
            self.world.record.borrow_mut().leave_unanswered(id);
            return;
        };
        let outcome = reply.result.as_ref().map(ItemOutcome::item);
        let shown = outcome.map(|item| item.map(|item| item.etag().to_string()));
        self.world.note(format_args!("{}: {what}: {shown:?}", self.name));
        self.conclude(id, name.container, outcome, reply.wait);
        match outcome {
            Ok(Some(item)) => {
                let written = Content::parse(item.body()).map(|(_, _, content)| content.last());
                if written != Some(id) {
                    self.world.fail(format!("write {id} of {name} was answered with {written:?}"));
                }
                self.learn_session(name.container, &reply.served);
                self.learn_version(name, item, reply.wait.from);
            }
            Ok(None) => {
                self.learn_session(name.container, &reply.served);
                self.known_versions.remove(name);
            }
            Err(_) => {}
        }
    }

    /// Deletes all items of a key.
    pub(super) async fn erase_key(&mut self, name: &ItemName) {
        let id = {
            let mut record = self.world.record.borrow_mut();
            let request = record.new_request();
            record.begin(request, false, name, Intent::EraseKey, None, self.world.now())
        };
        let key = self.world.plan.partition_key(&name.key);
        let what = format!("{id} erase {}/{}", name.container, name.key);
        let reply = self
            .ask(&what, name.container, async move |engine, container, mut ctx| {
                (engine.delete_partition_key(&mut ctx, &container, key).await, ctx)
            })
            .await;
        let Some(reply) = reply else {
            self.world.record.borrow_mut().leave_unanswered(id);
            return;
        };
        self.world.note(format_args!("{}: {what}: {:?}", self.name, reply.result));
        self.conclude(id, name.container, reply.result.as_ref().map(|()| None), reply.wait);
        if reply.result.is_ok() {
            let record = self.world.record.borrow();
            self.world.fail_on_violation(record.check_erased(
                name.container,
                &name.key,
                reply.wait,
            ));
        }
    }

    /// Notes a write of `name` in the record and returns the operation to send.
    pub(super) fn choose_write(
        &mut self,
        name: &ItemName,
        request: u64,
        is_atomic: bool,
    ) -> (WriteId, ItemOp) {
        let intents = [
            Intent::Create,
            Intent::Create,
            Intent::Upsert,
            Intent::Upsert,
            Intent::Replace,
            Intent::Patch,
            Intent::Patch,
            Intent::Delete,
        ];
        let intent = *self.chance.pick(&intents);
        let known = self.known_versions.get(name).map(|(_, etag)| *etag);
        let if_match = known.filter(|_| intent != Intent::Create && self.chance.percent(40));
        self.introduce(name);
        let now = self.world.now();
        let id =
            self.world.record.borrow_mut().begin(request, is_atomic, name, intent, if_match, now);
        (id, self.operation(name, id, intent, if_match))
    }

    fn operation(
        &mut self,
        name: &ItemName,
        write: WriteId,
        intent: Intent,
        if_match: Option<Etag>,
    ) -> ItemOp {
        let if_match = if_match.map(|etag| EtagCondition::Is(etag.unquoted()));
        let extras = self.choose_extras();
        let body = || body(&name.key, &name.id, write, &extras);
        let id = name.id.clone();
        match intent {
            Intent::Create => ItemOp::Create { body: body() },
            Intent::Upsert => ItemOp::Upsert { body: body(), if_match },
            Intent::Replace => ItemOp::Replace { id: id.into(), body: body(), if_match },
            Intent::Patch => {
                let path = vec!["p".to_owned(), "-".to_owned()];
                let value = Value::Int64(write.cast_signed());
                let operations = vec![PatchOp::Add { path, value }];
                // A patch with a condition is prepared outside the committer, whatever the size of
                // the item.
                let condition = self.chance.percent(30).then(|| {
                    let plan = lang::nosql::compile_condition("FROM c WHERE IS_DEFINED(c.w)")
                        .expect("the condition compiles");
                    PatchCondition { plan, system: &NoSystemProperties }
                });
                let patch = Patch { operations, condition, ..Patch::default() };
                ItemOp::Patch { id: id.into(), patch, if_match }
            }
            Intent::Delete | Intent::EraseKey => ItemOp::Delete { id: id.into(), if_match },
        }
    }

    /// Notes in the record under which identity an item is stored.
    fn introduce(&self, name: &ItemName) {
        let Some(catalog) = self.world.catalog() else { return };
        let Some(container) = catalog.container_by_rid(name.container) else { return };
        let identity =
            audit::identity_of(container, &self.world.plan.partition_key(&name.key), &name.id);
        if let Ok(identity) = identity {
            self.world.record.borrow_mut().introduce(identity, name);
        }
    }
}

/// The range, if any, that answered although the client had seen a later state of it.
pub(super) fn behind_session(
    container: &engine::Container,
    ctx: &engine::RequestContext,
) -> Option<String> {
    let routing = container.routing();
    let behind = ctx.served.ranges.iter().find(|(range, at)| {
        let parents = routing.by_id(*range).map(|range| range.parents.clone()).unwrap_or_default();
        let is_it = |id| id == *range || parents.contains(&id);
        ctx.session.iter().any(|(id, seen)| is_it(*id) && seen > at)
    });
    behind.map(|(range, at)| format!("range {range} at {at:?}"))
}

/// Whether the partition key can't be taken from a body.
fn needs_key(op: &ItemOp) -> bool {
    match op {
        ItemOp::Create { .. }
        | ItemOp::Upsert { .. }
        | ItemOp::Replace { .. }
        | ItemOp::Merge { .. } => false,
        ItemOp::Patch { .. }
        | ItemOp::Update { .. }
        | ItemOp::Delete { .. }
        | ItemOp::Read { .. } => true,
    }
}

/// An operation in a few words.
pub(super) fn describe(op: &ItemOp, name: &ItemName) -> String {
    let (verb, condition) = match op {
        ItemOp::Create { .. } => ("create", &None),
        ItemOp::Upsert { if_match, .. } => ("upsert", if_match),
        ItemOp::Replace { if_match, .. } => ("replace", if_match),
        ItemOp::Patch { if_match, .. } => ("patch", if_match),
        ItemOp::Merge { if_match, .. } => ("merge", if_match),
        ItemOp::Update { if_match, .. } => ("update", if_match),
        ItemOp::Delete { if_match, .. } => ("delete", if_match),
        ItemOp::Read { .. } => ("read", &None),
    };
    match condition {
        Some(EtagCondition::Is(etag)) => format!("{verb} {name} if {etag}"),
        Some(EtagCondition::ChangedAt(ticks)) => format!("{verb} {name} if of {ticks}"),
        Some(EtagCondition::Any) | None => format!("{verb} {name}"),
    }
}
