//! Databases, containers and their throughput.

use azure_data_cosmos::models::{
    CompositeIndex, CompositeIndexOrder, CompositeIndexProperty, ContainerProperties, IndexingMode,
    IndexingPolicy, PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion,
    SystemProperties, ThroughputProperties, TimeToLive, UniqueKey, UniqueKeyPolicy,
};
use azure_data_cosmos::options::CreateContainerOptions;
use azure_data_cosmos::{Query, ResourceId};
use conformance::{Account, charge, ids, new_id, refused, substatus, variants};
use futures::TryStreamExt;
use serde_json::json;

const ETAG_PATH: &str = "/\"_etag\"/?";

fn properties() -> ContainerProperties {
    ContainerProperties::new(new_id("c"), "/pk".into())
}

async fn databases_come_and_go(account: &Account) {
    let id = new_id("db with space ü");
    let created = account.client.create_database(&id, None).await.expect("a new database");
    assert!(charge(created.headers()) > 0.0);
    refused(account.client.create_database(&id, None).await, 409);
    let database = account.client.database_client(id.clone());
    let read = database.read(None).await.expect("it reads").into_model().expect("properties");
    assert_eq!(read.id.as_deref(), Some(id.as_str()));
    assert!(read.system_properties.resource_id.is_some());
    let by_id = Query::from("SELECT * FROM root r WHERE r.id = @id")
        .with_parameter("@id", &id)
        .expect("a parameter");
    let found: Vec<_> = account
        .client
        .query_databases(by_id, None)
        .await
        .expect("the query runs")
        .try_collect()
        .await
        .expect("the query answers");
    assert_eq!(found.len(), 1);
    database.delete(None).await.expect("it goes");
    refused(database.read(None).await, 404);
    refused(database.delete(None).await, 404);
}

async fn containers_come_and_go(account: &Account) {
    let wanted = properties();
    let id = wanted.id.to_string();
    let created = account.database.create_container(wanted.clone(), None).await;
    let created = created.expect("a new container").into_model().expect("properties");
    assert_eq!(created.id, wanted.id);
    refused(account.database.create_container(wanted, None).await, 409);
    let container = account.database.container_client(&id, None).await.expect("its client");
    let read = container.read(None).await.expect("it reads").into_model().expect("properties");
    assert_eq!(read.system_properties.resource_id, created.system_properties.resource_id);
    let listed: Vec<_> = account
        .database
        .query_containers("SELECT * FROM c", None)
        .await
        .expect("the query runs")
        .try_collect()
        .await
        .expect("the query answers");
    assert_eq!(listed.len(), 1);
    container.delete(None).await.expect("it goes");
    refused(container.read(None).await, 404);
}

async fn defaults_are_filled_in(account: &Account) {
    let created = account.database.create_container(properties(), None).await;
    let created = created.expect("a new container").into_model().expect("properties");
    let policy = created.indexing_policy.expect("an indexing policy");
    assert_eq!(policy.indexing_mode, Some(IndexingMode::Consistent));
    assert!(policy.automatic);
    assert_eq!(policy.included_paths.len(), 1);
    assert_eq!(policy.included_paths[0].path, "/*");
    assert_eq!(policy.excluded_paths[0].path, ETAG_PATH);
    assert_eq!(created.default_ttl, TimeToLive::Forever);
    assert_eq!(created.partition_key.version(), PartitionKeyVersion::V2);
}

async fn policies_read_back(account: &Account) {
    let composite = CompositeIndex::default()
        .with_property(CompositeIndexProperty::new("/a", CompositeIndexOrder::Ascending))
        .with_property(CompositeIndexProperty::new("/b", CompositeIndexOrder::Descending));
    let mut policy = IndexingPolicy::default()
        .with_indexing_mode(IndexingMode::Consistent)
        .with_included_path("/*")
        .with_excluded_path("/big/*")
        .with_composite_index(composite);
    policy.automatic = true;
    let unique =
        UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/email"));
    let wanted = properties()
        .with_indexing_policy(policy)
        .with_unique_key_policy(unique.clone())
        .with_default_ttl(60u32);
    let created = account.database.create_container(wanted, None).await;
    let created = created.expect("a new container").into_model().expect("properties");
    let policy = created.indexing_policy.expect("an indexing policy");
    let excluded: Vec<_> = policy.excluded_paths.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(excluded, ["/big/*", ETAG_PATH]);
    assert_eq!(policy.composite_indexes.len(), 1);
    assert_eq!(created.unique_key_policy, Some(unique));
    assert_eq!(created.default_ttl, TimeToLive::Seconds(60));
}

async fn partition_key_versions_read_back(account: &Account) {
    for version in [PartitionKeyVersion::V1, PartitionKeyVersion::V2] {
        let key = PartitionKeyDefinition::from("/pk").with_version(version);
        let container = account.keyed(key, None).await;
        let read = container.read(None).await.expect("it reads").into_model().expect("properties");
        assert_eq!(read.partition_key.version(), version);
        assert_eq!(read.partition_key.kind(), PartitionKeyKind::Hash);
    }
    let container = account.keyed(("/a", "/b", "/c"), None).await;
    let read = container.read(None).await.expect("it reads").into_model().expect("properties");
    assert_eq!(read.partition_key.kind(), PartitionKeyKind::MultiHash);
    assert_eq!(read.partition_key.paths().len(), 3);
}

async fn bad_definitions_are_refused(account: &Account) {
    let create = async |properties| account.database.create_container(properties, None).await;
    let four =
        PartitionKeyDefinition::new(vec!["/a".into(), "/b".into(), "/c".into(), "/d".into()]);
    refused(create(ContainerProperties::new(new_id("c"), four)).await, 400);
    refused(create(ContainerProperties::new(new_id("c"), "no-slash".into())).await, 400);
    refused(create(ContainerProperties::new("x".repeat(256), "/pk".into())).await, 400);
    refused(create(properties().with_default_ttl(0u32)).await, 400);
    let policy = IndexingPolicy::default().with_included_path("no-slash");
    refused(create(properties().with_indexing_policy(policy)).await, 400);
    let orphan = account.client.database_client(new_id("absent"));
    let error = refused(orphan.create_container(properties(), None).await, 404);
    assert_eq!(substatus(&error), 1003);
}

async fn replace_follows_the_rules(account: &Account) {
    let container = account.container().await;
    let read = container.read(None).await.expect("it reads").into_model().expect("properties");
    let mut changed = read.clone();
    changed.default_ttl = TimeToLive::Seconds(100);
    let replaced = container.replace(changed.clone(), None).await.expect("ttl may change");
    assert_eq!(replaced.into_model().expect("properties").default_ttl, TimeToLive::Seconds(100));
    changed.partition_key = "/other".into();
    refused(container.replace(changed, None).await, 400);
}

async fn manual_throughput(account: &Account) {
    let container = account.keyed("/pk", Some(500)).await;
    let offer = container.read_throughput(None).await.expect("it reads").expect("an offer");
    assert_eq!(offer.throughput(), Some(500));
    let poller = container.begin_replace_throughput(ThroughputProperties::manual(700), None).await;
    let replaced = poller.expect("it starts").await.expect("it ends").into_model();
    assert_eq!(replaced.expect("an offer").throughput(), Some(700));
    let offer = container.read_throughput(None).await.expect("it reads").expect("an offer");
    assert_eq!(offer.throughput(), Some(700));
    let plain = account.container().await;
    let offer = plain.read_throughput(None).await.expect("it reads").expect("a default offer");
    assert_eq!(offer.throughput(), Some(400));
    assert!(account.database.read_throughput(None).await.expect("it reads").is_none());
}

async fn autoscale_throughput(account: &Account) {
    let wanted = properties();
    let id = wanted.id.to_string();
    let options = CreateContainerOptions::default()
        .with_throughput(ThroughputProperties::autoscale(5000, Some(42)));
    account.database.create_container(wanted, Some(options)).await.expect("a new container");
    let container = account.database.container_client(&id, None).await.expect("its client");
    let offer = container.read_throughput(None).await.expect("it reads").expect("an offer");
    assert_eq!(offer.throughput(), Some(500));
    assert_eq!(offer.autoscale_maximum(), Some(5000));
    assert_eq!(offer.autoscale_increment(), Some(42));
    let higher = ThroughputProperties::autoscale(6000, Some(42));
    let poller = container.begin_replace_throughput(higher, None).await.expect("it starts");
    poller.await.expect("it ends");
    let offer = container.read_throughput(None).await.expect("it reads").expect("an offer");
    assert_eq!(offer.autoscale_maximum(), Some(6000));
}

async fn resource_ids_address_what_names_do(account: &Account) {
    let named = account.container().await;
    named.create_item("a", "1", &json!({"id": "1", "pk": "a"}), None).await.expect("created");
    let container = named.read(None).await.expect("it reads").into_model().expect("properties");
    let database = account.database.read(None).await.expect("it reads").into_model();
    let rid = |system: SystemProperties| ResourceId::from(system.resource_id.expect("a rid"));
    let database = rid(database.expect("properties").system_properties);
    let database = account.client.database_client(database);
    let by_rid = database.container_client(rid(container.system_properties), None).await;
    let by_rid = by_rid.expect("its client");
    let read = by_rid.read(None).await.expect("it reads").into_model().expect("properties");
    assert_eq!(read.id, container.id);
    by_rid.create_item("a", "2", &json!({"id": "2", "pk": "a"}), None).await.expect("created");
    assert_eq!(ids(&named).await, ["1", "2"]);
    assert_eq!(ids(&by_rid).await, ["1", "2"]);
}

variants![
    resource_ids_address_what_names_do,
    databases_come_and_go,
    containers_come_and_go,
    defaults_are_filled_in,
    policies_read_back,
    partition_key_versions_read_back,
    bad_definitions_are_refused,
    replace_follows_the_rules,
    manual_throughput,
    autoscale_throughput,
];
