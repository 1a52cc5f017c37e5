//! Several operations in one request.

use std::collections::BTreeMap;

use engine::ops::{ItemOp, ItemOutcome, OpResult};
use model::{Charge, ContainerRid};

use super::Client;
use super::point::describe;
use crate::item::{ItemName, WriteId};

impl Client {
    /// A transactional batch: all of its operations happen or none.
    pub(super) async fn write_batch(&mut self, container: ContainerRid) {
        let key = self.choose_key();
        let names = self.choose_distinct(container, Some(&key));
        let (writes, ops) = self.choose_writes(&names, true);
        let what = format!("batch [{}]", summary(&writes, &ops));
        let sent = self.world.plan.partition_key(&key);
        let reply = self
            .ask(&what, container, async move |engine, container, mut ctx| {
                (engine.write_batch(&mut ctx, &container, sent, ops).await, ctx)
            })
            .await;
        let Some(reply) = reply else { return self.leave(&writes) };
        let succeeded = reply.result.as_ref().map(|results| all_ok(results));
        self.world.note(format_args!("{}: {what}: {succeeded:?}", self.name));
        match &reply.result {
            Ok(results) => {
                if all_ok(results) != results.iter().any(|r| r.outcome.is_ok()) {
                    self.world.fail(format!("{what} half succeeded"));
                }
                self.check_charge(&what, reply.served.charge, results);
                for ((id, name), result) in writes.iter().zip(results) {
                    self.conclude_one(*id, name, result, reply.wait);
                }
                if all_ok(results) {
                    self.learn_session(container, &reply.served);
                }
            }
            Err(error) => {
                for (id, _) in &writes {
                    self.conclude(*id, container, Err(error), reply.wait);
                }
            }
        }
    }

    /// A bulk request: each operation succeeds or fails by itself.
    pub(super) async fn write_bulk(&mut self, container: ContainerRid) {
        let names = self.choose_distinct(container, None);
        let (writes, ops) = self.choose_writes(&names, false);
        let what = format!("bulk [{}]", summary(&writes, &ops));
        let keys = names.iter().map(|name| Some(self.world.plan.partition_key(&name.key)));
        let sent: Vec<_> = keys.zip(ops).collect();
        let reply = self
            .ask(&what, container, async move |engine, container, mut ctx| {
                (engine.bulk(&mut ctx, &container, None, sent).await, ctx)
            })
            .await;
        let Some(reply) = reply else { return self.leave(&writes) };
        match &reply.result {
            Ok(results) => {
                let ok: Vec<bool> = results.iter().map(|r| r.outcome.is_ok()).collect();
                self.world.note(format_args!("{}: {what}: {ok:?}", self.name));
                self.check_charge(&what, reply.served.charge, results);
                for ((id, name), result) in writes.iter().zip(results) {
                    self.conclude_one(*id, name, result, reply.wait);
                }
                self.learn_session(container, &reply.served);
            }
            Err(error) => {
                for (id, _) in &writes {
                    self.conclude(*id, container, Err(error), reply.wait);
                }
            }
        }
    }

    /// Up to four different items, of one key if given.
    fn choose_distinct(&mut self, container: ContainerRid, key: Option<&str>) -> Vec<ItemName> {
        let mut names: Vec<ItemName> = Vec::new();
        for _ in 0..self.chance.between(1, 4) {
            let mut name = self.choose_item(container);
            if let Some(key) = key {
                name.key = key.to_owned();
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn choose_writes(
        &mut self,
        names: &[ItemName],
        is_atomic: bool,
    ) -> (Vec<(WriteId, ItemName)>, Vec<ItemOp>) {
        let request = self.world.record.borrow_mut().new_request();
        let chosen = names.iter().map(|name| {
            let (id, op) = self.choose_write(name, request, is_atomic);
            ((id, name.clone()), op)
        });
        chosen.unzip()
    }

    fn leave(&mut self, writes: &[(WriteId, ItemName)]) {
        let mut record = self.world.record.borrow_mut();
        writes.iter().for_each(|(id, _)| record.leave_unanswered(*id));
    }

    fn conclude_one(
        &mut self,
        id: WriteId,
        name: &ItemName,
        result: &OpResult,
        wait: crate::record::Wait,
    ) {
        let outcome = result.outcome.as_ref().map(ItemOutcome::item);
        self.conclude(id, name.container, outcome, wait);
        match outcome {
            Ok(Some(item)) => self.learn_version(name, item, wait.from),
            Ok(None) => {
                self.known_versions.remove(name);
            }
            Err(_) => {}
        }
    }

    /// Checks that a request costs what its operations cost.
    fn check_charge(&self, what: &str, charge: Charge, results: &[OpResult]) {
        let sum: Charge = results.iter().map(|result| result.charge).sum();
        if sum != charge {
            self.world.fail(format!("{what} cost {charge}, its operations {sum}"));
        }
    }
}

fn all_ok(results: &[OpResult]) -> bool {
    results.iter().all(|result| result.outcome.is_ok())
}

fn summary(writes: &[(WriteId, ItemName)], ops: &[ItemOp]) -> String {
    let by_write: BTreeMap<_, _> = writes.iter().map(|(id, name)| (id, name)).zip(ops).collect();
    let one = |((id, name), op): (&(&WriteId, &ItemName), &&ItemOp)| {
        format!("{id} {}", describe(op, name))
    };
    by_write.iter().map(one).collect::<Vec<_>>().join(", ")
}
