//! Scans over a container or a part of it, page by page.

use std::collections::{BTreeMap, BTreeSet};

use engine::ops::{Page, PageRequest, Row, Scope};
use engine::{Error, RangeId};
use model::{ContainerRid, EpkRange};

use super::point::behind_session;
use super::{Client, Reply};
use crate::item::{Content, ItemName};
use crate::record::Wait;

/// Which part of a container a scan covers.
#[derive(Clone, Debug)]
pub(crate) enum ScanScope {
    All,
    /// Items with this key.
    Key(String),
    /// Items in this range of the hash line.
    Epk(EpkRange),
    /// Items of this partition key range, which covers this range of the hash line.
    Range(RangeId, EpkRange),
}

impl Client {
    /// A random part of a container.
    pub(super) fn choose_scan_scope(&mut self, container: ContainerRid) -> ScanScope {
        let routing = self.world.catalog().and_then(|catalog| {
            let found = catalog.container_by_rid(container);
            found.map(|container| container.routing())
        });
        let Some(routing) = routing else { return ScanScope::All };
        let range = self.chance.pick(routing.ranges()).clone();
        match self.chance.below(10) {
            0..3 => ScanScope::All,
            3..6 => ScanScope::Key(self.choose_key()),
            6..8 => ScanScope::Epk(range.epk),
            _ => ScanScope::Range(range.id, range.epk),
        }
    }

    /// Lists or queries a part of a container, and checks that no item is shown twice or left out.
    /// One that is deleted and made again meanwhile is another item, with a higher number, and may
    /// be shown again. Returns the items that were shown.
    pub(crate) async fn scan(
        &mut self,
        container: ContainerRid,
        scan_scope: ScanScope,
    ) -> BTreeSet<ItemName> {
        let is_query = self.chance.percent(50);
        let page_items = self.chance.index(5) + 1;
        let begun = self.world.now();
        let mut shown = BTreeMap::new();
        let mut continuation = None;
        loop {
            let what = format!("page of {container}, {scan_scope:?}, after {}", shown.len());
            let page = PageRequest {
                items_max: Some(page_items),
                continuation: continuation.clone(),
                ..PageRequest::default()
            };
            let reply = self.ask_for_page(&what, container, &scan_scope, page, is_query).await;
            let Some(reply) = reply else { return names(shown) };
            let page = match reply.result {
                Ok((page, behind)) => {
                    if let Some(behind) = behind {
                        self.world.fail(format!("{what} was served behind a session: {behind}"));
                    }
                    page
                }
                Err(error) if self.should_retry(&error).await => continue,
                Err(error) => {
                    self.world.note(format_args!("{}: {what}: {error:?}", self.name));
                    self.take_page_error(container, &scan_scope, &error, reply.wait);
                    return names(shown);
                }
            };
            self.learn_session(container, &reply.served);
            self.take_page(container, &page, &mut shown, reply.wait);
            self.world.note(format_args!("{}: {what}: {} rows", self.name, page.rows.len()));
            continuation = page.continuation;
            if continuation.is_none() {
                let wait = Wait { from: begun, to: self.world.now() };
                let plan = &self.world.plan;
                let record = self.world.record.borrow();
                let is_covered = |name: &ItemName| scan_scope.covers(plan, name);
                let shown = names(shown);
                self.world.fail_on_violation(record.check_scan(
                    container,
                    &is_covered,
                    &shown,
                    wait,
                ));
                return shown;
            }
        }
    }

    async fn ask_for_page(
        &mut self,
        what: &str,
        container: ContainerRid,
        scan_scope: &ScanScope,
        page: PageRequest,
        is_query: bool,
    ) -> Option<Reply<(Page, Option<String>)>> {
        let scope = match scan_scope {
            ScanScope::All => Scope::All,
            ScanScope::Key(key) => Scope::Key(self.world.plan.partition_key(key)),
            ScanScope::Epk(epk) => Scope::Epk(epk.clone()),
            ScanScope::Range(id, _) => Scope::Range { id: *id, epk: None },
        };
        self.ask(what, container, async move |engine, container, mut ctx| {
            let page = match is_query {
                true => {
                    let plan = lang::nosql::compile("SELECT * FROM c", &[]);
                    let plan = plan.expect("the query compiles");
                    engine.query(&mut ctx, &container, plan, scope, page).await
                }
                false => engine.list_items(&mut ctx, &container, scope, page).await,
            };
            let behind = behind_session(&container, &ctx);
            (page.map(|page| (page, behind)), ctx)
        })
        .await
    }

    /// Checks that a range is reported gone only when it is.
    fn take_page_error(
        &mut self,
        container: ContainerRid,
        scan_scope: &ScanScope,
        error: &Error,
        wait: Wait,
    ) {
        match (scan_scope, error) {
            (ScanScope::Range(id, _), Error::RangeGone) => {
                let catalog = self.world.catalog();
                let found = catalog.as_ref().and_then(|c| c.container_by_rid(container));
                if found.is_some_and(|container| container.routing().by_id(*id).is_some()) {
                    self.world.fail(format!("range {id} of {container} counts as gone"));
                }
            }
            _ => self.take_error(container, error, wait),
        }
    }

    fn take_page(
        &mut self,
        container: ContainerRid,
        page: &Page,
        shown: &mut BTreeMap<ItemName, u64>,
        wait: Wait,
    ) {
        for row in &page.rows {
            let Row::Item(item) = row else { continue };
            let Some((key, id, _)) = Content::parse(item.body()) else {
                self.world.fail(format!("a page of {container} shows {:?}", item.body()));
                return;
            };
            let name = ItemName { container, key, id };
            let checked = self.world.record.borrow().check_shown(&name, item, wait);
            self.world.fail_on_violation(checked);
            self.learn_version(&name, item, wait.from);
            let number = item.rid().number;
            if shown.insert(name.clone(), number).is_some_and(|earlier| earlier >= number) {
                self.world.fail(format!("a walk over {container} shows {name} twice"));
            }
        }
    }
}

/// The items that a scan has shown, without their numbers.
fn names(shown: BTreeMap<ItemName, u64>) -> BTreeSet<ItemName> {
    shown.into_keys().collect()
}

impl ScanScope {
    /// Whether an item belongs to it.
    fn covers(&self, plan: &crate::plan::Plan, name: &ItemName) -> bool {
        match self {
            ScanScope::All => true,
            ScanScope::Key(key) => name.key == *key,
            ScanScope::Epk(epk) | ScanScope::Range(_, epk) => epk.contains(&plan.epk(&name.key)),
        }
    }
}
