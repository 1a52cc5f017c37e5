//! An engine on a store of the test's choice, with shorthands for common steps of tests.

use std::sync::Arc;

use bytes::Bytes;
use engine::changes::{ChangesMode, ChangesPage, ChangesRequest, ChangesStart};
use engine::components::{SystemRandom, TokioSpawner};
use engine::ops::{ItemBody, ItemOp, ItemOutcome, Page, PageRequest, Row, Scope};
use engine::{
    Caller, Components, Container, ContainerSpec, Engine, Error, RequestContext, Settings, Source,
    StoredItem, Throughput,
};
use model::{
    PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyVersion, PropertyPath, Value,
};
use storage::{LocalStore, MemoryStore};

use crate::clock::ManualClock;
use crate::properties::TestProperties;
use crate::spawner::CountingSpawner;

/// The time at which test clocks start.
pub const START_SECONDS: u64 = 1_700_000_000;

/// The context of a request by an operator.
pub fn test_context() -> RequestContext {
    let ctx = RequestContext::new(Caller::Operator, Source::Admin, "test");
    RequestContext { system: &TestProperties, ..ctx }
}

/// An engine and its clock.
pub struct Harness {
    /// The engine.
    pub engine: Engine,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// Its store.
    pub store: Arc<dyn LocalStore>,
    /// Its threads.
    pub spawner: Arc<CountingSpawner>,
}

impl Harness {
    /// An engine in memory.
    pub fn in_memory() -> Self {
        Self::on(Arc::new(MemoryStore::new()))
    }

    /// An engine on `store`. Must be called inside a tokio runtime.
    pub fn on(store: Arc<dyn LocalStore>) -> Self {
        Self::with_settings(store, Settings::default())
    }

    /// An engine on `store` with `settings`.
    pub fn with_settings(store: Arc<dyn LocalStore>, settings: Settings) -> Self {
        Self::at(ManualClock::at(START_SECONDS), store, settings)
    }

    /// An engine on `store` with `settings`, opened at the time of `clock`.
    pub fn at(clock: ManualClock, store: Arc<dyn LocalStore>, settings: Settings) -> Self {
        let clock = Arc::new(clock);
        let threads = TokioSpawner::new(tokio::runtime::Handle::current());
        let spawner = Arc::new(CountingSpawner::new(threads));
        let components = Components {
            clock: Arc::<ManualClock>::clone(&clock),
            random: Arc::new(SystemRandom),
            spawner: Arc::<CountingSpawner>::clone(&spawner),
        };
        let engine =
            Engine::open(Arc::clone(&store), components, settings).expect("the engine opens");
        Self { engine, clock, store, spawner }
    }

    /// A container over `ranges` ranges, keyed by `/pk`, in database `db` (made when missing).
    pub async fn container(&self, id: &str, ranges: u32) -> Arc<Container> {
        self.container_with(spec(id), ranges).await
    }

    /// A container with this spec.
    pub async fn container_with(&self, spec: ContainerSpec, ranges: u32) -> Arc<Container> {
        let rid = match self.engine.catalog().database("db") {
            Some(database) => database.rid,
            None => {
                self.engine
                    .create_database(&test_context(), "db", None)
                    .await
                    .expect("a database")
                    .rid
            }
        };
        let throughput = Some(Throughput::Manual(ranges * 6_000));
        self.engine
            .create_container(&test_context(), rid, spec, throughput)
            .await
            .expect("a container")
    }

    /// The container `id` of database `db`, as the catalog has it.
    pub fn find(&self, id: &str) -> Arc<Container> {
        let catalog = self.engine.catalog();
        let database = catalog.database("db").expect("a database");
        Arc::clone(catalog.container(database.rid, id).expect("a container"))
    }

    /// Carries out one operation.
    pub async fn write(
        &self,
        container: &Arc<Container>,
        key: &str,
        op: ItemOp,
    ) -> Result<ItemOutcome, Error> {
        let mut ctx = test_context();
        self.engine.write_item(&mut ctx, container, Some(string_key(key)), op).await
    }

    /// Creates an item whose `pk` is `key`.
    pub async fn create(
        &self,
        container: &Arc<Container>,
        key: &str,
        text: &str,
    ) -> Result<StoredItem, Error> {
        let outcome = self.write(container, key, ItemOp::Create { body: body(text) }).await?;
        Ok(outcome.item().expect("a created item").clone())
    }

    /// Reads an item.
    pub fn read(
        &self,
        container: &Arc<Container>,
        key: &str,
        id: &str,
    ) -> Result<StoredItem, Error> {
        let mut ctx = test_context();
        self.engine.read_item(&mut ctx, container, &string_key(key), id, None)
    }

    /// The next page of a change feed.
    pub async fn changes(
        &self,
        container: &Arc<Container>,
        scope: Scope,
        mode: ChangesMode,
        start: ChangesStart,
        items_max: usize,
    ) -> Result<ChangesPage, Error> {
        let mut ctx = test_context();
        let request = ChangesRequest { mode, start, items_max: Some(items_max) };
        self.engine.read_changes(&mut ctx, container, scope, request).await
    }

    /// Ids of everything in a scope, page by page.
    pub async fn list(
        &self,
        container: &Arc<Container>,
        scope: Scope,
        items_max: usize,
    ) -> Vec<String> {
        let mut ids = Vec::new();
        let mut continuation = None;
        loop {
            let request =
                PageRequest { items_max: Some(items_max), continuation, ..PageRequest::default() };
            let mut ctx = test_context();
            let page: Page = self
                .engine
                .list_items(&mut ctx, container, scope.clone(), request)
                .await
                .expect("a page");
            assert!(page.rows.len() <= items_max, "a page holds no more than was asked for");
            ids.extend(page.rows.iter().map(|row| match row {
                Row::Item(item) => item.id().into_owned(),
                Row::Json(text) => String::from_utf8_lossy(text).into_owned(),
            }));
            continuation = page.continuation;
            if continuation.is_none() {
                return ids;
            }
        }
    }
}

/// A spec keyed by `/pk` with version 2 hashing and defaults otherwise.
pub fn spec(id: &str) -> ContainerSpec {
    spec_with_paths(id, &["/pk"])
}

/// A spec keyed by `paths`, hierarchical when there are several.
pub fn spec_with_paths(id: &str, paths: &[&str]) -> ContainerSpec {
    ContainerSpec {
        id: id.to_owned(),
        api: engine::Api::NoSql,
        order: model::order::TypeOrder::NoSql,
        body: engine::BodyFormat::Json,
        partition_key: PartitionKeyDefinition {
            paths: paths.iter().map(|p| path(p)).collect(),
            kind: match paths.len() {
                1 => PartitionKeyKind::Hash,
                _ => PartitionKeyKind::MultiHash,
            },
            version: PartitionKeyVersion::V2,
            is_system: false,
        },
        unique_keys: Vec::new(),
        default_ttl: None,
        versions_minutes: 0,
        indexing: engine::IndexingPolicy::default(),
        policies: Value::Object(model::Object::new()),
    }
}

/// A parsed property path.
pub fn path(text: &str) -> PropertyPath {
    PropertyPath::parse(text).expect("a valid path")
}

/// A key of one string.
pub fn string_key(key: &str) -> PartitionKey {
    key_of([PartitionKeyComponent::String(key.to_owned())])
}

/// A key of these components.
pub fn key_of(components: impl IntoIterator<Item = PartitionKeyComponent>) -> PartitionKey {
    PartitionKey(components.into_iter().collect())
}

/// A validated item body.
pub fn body(text: &str) -> ItemBody {
    ItemBody::from_json(Bytes::copy_from_slice(text.as_bytes())).expect("a valid item")
}
