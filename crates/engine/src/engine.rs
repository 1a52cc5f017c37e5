//! One public method per operation.

use std::sync::Arc;

use model::rid::OfferRid;
use model::{ContainerRid, DatabaseRid, PartitionKey};
use storage::LocalStore;

use crate::catalog::{Catalog, Container, ContainerSpec, Database, Offer, Throughput};
use crate::ops::{EtagCondition, ItemOp, ItemOutcome, OpResult, Page, PageRequest, Scope};
use crate::{Components, Error, RangeId, RequestContext, StoredItem};

/// Knobs of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Request units per second a partition is planned for at creation.
    pub partition_ru_planned: u32,
    /// Ranges of a container that was given no throughput.
    pub default_ranges: u32,
    /// Most bytes of one logical partition.
    pub logical_partition_bytes_max: u64,
    /// Whether acknowledged writes are on disk.
    pub durability: storage::Durability,
}

/// A running engine over one store. Clones share it.
#[derive(Clone)]
pub struct Engine {}

#[expect(unused_variables, reason = "being written")]
impl Engine {
    /// Opens the engine on `store`, recovering what it holds.
    pub fn open(
        store: Arc<dyn LocalStore>,
        components: Components,
        settings: Settings,
    ) -> Result<Self, Error> {
        todo!()
    }
    /// Stops taking requests, lets those under way finish, and closes the store.
    pub async fn close(&self) -> Result<(), Error> {
        todo!()
    }
    /// What exists right now.
    pub fn catalog(&self) -> Arc<Catalog> {
        todo!()
    }
    /// The components it runs with.
    pub fn components(&self) -> &Components {
        todo!()
    }

    /// Creates a database, with shared throughput when given.
    pub async fn create_database(
        &self,
        id: &str,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Database>, Error> {
        todo!()
    }
    /// Deletes a database and everything in it.
    pub async fn delete_database(
        &self,
        rid: DatabaseRid,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        todo!()
    }
    /// Creates a container. Without throughput of its own, and if the database shares none, it
    /// gets the default offer.
    pub async fn create_container(
        &self,
        database: DatabaseRid,
        spec: ContainerSpec,
        throughput: Option<Throughput>,
    ) -> Result<Arc<Container>, Error> {
        todo!()
    }
    /// Replaces what may change of a container: ttl and policies. Anything else differing is the
    /// front end's to refuse; partition key, id and unique keys of `spec` are ignored.
    pub async fn replace_container(
        &self,
        rid: ContainerRid,
        spec: ContainerSpec,
        if_match: Option<EtagCondition>,
    ) -> Result<Arc<Container>, Error> {
        todo!()
    }
    /// Deletes a container and its items.
    pub async fn delete_container(
        &self,
        rid: ContainerRid,
        if_match: Option<EtagCondition>,
    ) -> Result<(), Error> {
        todo!()
    }
    /// Changes provisioned throughput.
    pub async fn replace_offer(
        &self,
        rid: OfferRid,
        throughput: Throughput,
    ) -> Result<Arc<Offer>, Error> {
        todo!()
    }

    /// Reads one item. A met `if_none_match` is [`Error::NotModified`].
    pub fn read_item(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        key: &PartitionKey,
        id: &str,
        if_none_match: Option<&EtagCondition>,
    ) -> Result<StoredItem, Error> {
        todo!()
    }
    /// Carries out one operation as one commit. The key must have all components; `None` takes it
    /// from the body (not possible for patch, delete and read).
    pub async fn write_item(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        key: Option<PartitionKey>,
        op: ItemOp,
    ) -> Result<ItemOutcome, Error> {
        todo!()
    }
    /// Carries out all operations as one commit, or none.
    pub async fn write_batch(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        key: PartitionKey,
        ops: Vec<ItemOp>,
    ) -> Result<Vec<OpResult>, Error> {
        todo!()
    }
    /// Carries out each operation on its own. With `range`, operations outside it fail with
    /// [`Error::RangeGone`].
    pub async fn bulk(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        range: Option<RangeId>,
        ops: Vec<(Option<PartitionKey>, ItemOp)>,
    ) -> Result<Vec<OpResult>, Error> {
        todo!()
    }
    /// Deletes every item of a logical partition.
    pub async fn delete_partition_key(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        key: PartitionKey,
    ) -> Result<(), Error> {
        todo!()
    }
    /// Items of a scope, in the order of the hash line.
    pub async fn list_items(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        scope: Scope,
        page: PageRequest,
    ) -> Result<Page, Error> {
        todo!()
    }
    /// Rows of a compiled query over a scope.
    pub async fn query(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        plan: query::Plan,
        scope: Scope,
        page: PageRequest,
    ) -> Result<Page, Error> {
        todo!()
    }
    /// What a container holds, per range: items and bytes.
    pub fn statistics(&self, container: &Container) -> Vec<(RangeId, u64, u64)> {
        todo!()
    }
}
