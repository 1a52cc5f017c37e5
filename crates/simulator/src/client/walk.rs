//! Walks over a container or a key, page by page.

use std::collections::BTreeSet;

use engine::ops::{Page, PageRequest, Row, Scope};
use model::ContainerRid;
use testkit::harness::string_key;

use super::Client;
use super::point::behind_session;
use crate::item::{Content, ItemName};
use crate::record::Wait;

impl Client {
    /// Lists or queries a container, or one key of it, and checks that nothing is shown twice and
    /// nothing left out. Returns what was shown.
    pub(crate) async fn walk(
        &mut self,
        container: ContainerRid,
        key: Option<String>,
    ) -> BTreeSet<ItemName> {
        let is_query = self.chance.percent(50);
        let page_items = self.chance.index(5) + 1;
        let begun = self.world.now();
        let mut shown = BTreeSet::new();
        let mut continuation = None;
        loop {
            let scope = match &key {
                Some(key) => Scope::Key(string_key(key)),
                None => Scope::All,
            };
            let page =
                PageRequest { items_max: Some(page_items), continuation, ..PageRequest::default() };
            let what = format!("page of {container}, key {key:?}, after {}", shown.len());
            let reply = self
                .ask(&what, container, async move |engine, container, mut ctx| {
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
                .await;
            let Some(reply) = reply else { return shown };
            let page = match reply.result {
                Ok((page, behind)) => {
                    if let Some(behind) = behind {
                        self.world.fail(format!("{what} was served behind a session: {behind}"));
                    }
                    page
                }
                Err(error) => {
                    self.world.note(format_args!("{}: {what}: {error:?}", self.name));
                    self.take_error(container, &error, reply.wait);
                    return shown;
                }
            };
            self.learn_session(container, &reply.served);
            self.take_page(container, &page, &mut shown, reply.wait);
            self.world.note(format_args!("{}: {what}: {} rows", self.name, page.rows.len()));
            continuation = page.continuation;
            if continuation.is_none() {
                let wait = Wait { from: begun, to: self.world.now() };
                let record = self.world.record.borrow();
                self.world.judge(record.check_walk(container, key.as_deref(), &shown, wait));
                return shown;
            }
        }
    }

    fn take_page(
        &mut self,
        container: ContainerRid,
        page: &Page,
        shown: &mut BTreeSet<ItemName>,
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
            self.world.judge(checked);
            self.learn_version(&name, item, wait.from);
            if !shown.insert(name.clone()) {
                self.world.fail(format!("a walk over {container} shows {name} twice"));
            }
        }
    }
}
