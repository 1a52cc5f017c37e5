//! Which throughput may be provisioned, and what it makes of a container.

use std::sync::Arc;

use engine::catalog::{OfferBounds, OfferRefused, OfferTarget, ThroughputLimits};
use engine::ops::ItemOp;
use engine::repartition::{Progression, SplitPoint};
use engine::{Error, Settings, Throughput};
use storage::MemoryStore;
use testkit::harness::{Harness, body, spec, test_context};

use crate::container;

#[tokio::test]
async fn no_more_than_25_share_however_they_come() {
    let harness = Harness::in_memory();
    let shared = Some(Throughput::Manual(400));
    let database = harness.engine.create_database(&test_context(), "d", shared).await.unwrap().rid;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..60 {
        let engine = harness.engine.clone();
        tasks.spawn(async move {
            engine.create_container(&test_context(), database, spec(&n.to_string()), None).await
        });
    }
    let made = tasks.join_all().await;
    assert_eq!(made.iter().filter(|m| m.is_ok()).count(), 25);
    let is_refusal = |m: &Result<_, Error>| {
        matches!(m, Err(Error::OfferRefused(OfferRefused::SharedByTooMany { containers_max: 25 })))
    };
    assert_eq!(made.iter().filter(|m| is_refusal(m)).count(), 35);
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> OfferRefused {
    match result {
        Err(Error::OfferRefused(refused)) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn an_offer_can_not_fall_far_below_its_peak() {
    let harness = Harness::in_memory();
    let container = container(&harness, Throughput::Manual(400)).await;
    let catalog = harness.engine.catalog();
    let offer = catalog.offer_of(OfferTarget::Container(container.rid)).unwrap().rid;
    let ctx = &test_context();
    let replace = |throughput| harness.engine.replace_offer(ctx, offer, throughput);
    replace(Throughput::Manual(60_000)).await.unwrap();
    let refused = refusal(replace(Throughput::Manual(500)).await);
    assert_eq!(refused, OfferRefused::BelowMinimum { wanted: 500, minimum: 600 });
    let autoscale = |max| Throughput::Autoscale { max, increment_percent: 0 };
    let refused = refusal(replace(autoscale(5_000)).await);
    assert_eq!(refused, OfferRefused::BelowMinimum { wanted: 5_000, minimum: 6_000 });
    replace(autoscale(6_000)).await.unwrap();
    replace(Throughput::Manual(600)).await.unwrap();
    let refused = refusal(replace(Throughput::Manual(650)).await);
    let bounds = OfferBounds { minimum: 600, maximum: 1_000_000, step: 100 };
    assert_eq!(refused, OfferRefused::OutOfBounds(bounds));
}

fn by_the_documents() -> Harness {
    let throughput_limits = ThroughputLimits::Documents2018;
    let settings = Settings {
        throughput_limits,
        partition_bytes_max: 4_096,
        default_ranges: 2,
        ..Settings::default()
    };
    Harness::with_settings(Arc::new(MemoryStore::new()), settings)
}

#[tokio::test]
async fn by_the_documents_little_throughput_makes_a_fixed_container() {
    let h = by_the_documents();
    let database = h.engine.create_database(&test_context(), "d", None).await.unwrap().rid;
    let ctx = &test_context();
    let create = |id: &'static str, throughput: Option<u32>| {
        let throughput = throughput.map(Throughput::Manual);
        h.engine.create_container(ctx, database, spec(id), throughput)
    };
    for (id, throughput, is_fixed) in
        [("a", None, true), ("b", Some(900), true), ("c", Some(1_000), false)]
    {
        let made = create(id, throughput).await.unwrap();
        assert_eq!(made.is_fixed(), is_fixed, "{id}");
        assert!(!is_fixed || made.routing().ranges().len() == 1, "{id}");
    }
    let refused = refusal(create("d", Some(100_100)).await);
    let bounds = OfferBounds { minimum: 400, maximum: 100_000, step: 100 };
    assert_eq!(refused, OfferRefused::OutOfBounds(bounds));

    let catalog = h.engine.catalog();
    let offer_of = |id: &str| {
        let rid = catalog.container(database, id).unwrap().rid;
        catalog.offer_of(OfferTarget::Container(rid)).unwrap().rid
    };
    let ctx = &test_context();
    let replace =
        |id, throughput| h.engine.replace_offer(ctx, offer_of(id), Throughput::Manual(throughput));
    replace("b", 10_000).await.unwrap();
    let refused = refusal(replace("b", 10_100).await);
    let bounds = OfferBounds { minimum: 400, maximum: 10_000, step: 100 };
    assert_eq!(refused, OfferRefused::OutOfBounds(bounds));
    let refused = refusal(replace("c", 900).await);
    assert_eq!(refused, OfferRefused::BelowMinimum { wanted: 900, minimum: 1_000 });
}

#[tokio::test]
async fn a_fixed_container_stays_one_after_a_restart_and_is_never_split() {
    let h = by_the_documents();
    let made = container(&h, Throughput::Manual(400)).await;
    let replaced = h
        .engine
        .replace_container(&test_context(), made.rid, made.spec.clone(), None)
        .await
        .unwrap();
    assert!(replaced.is_fixed());
    let again = Harness::on(Arc::clone(&h.store));
    let catalog = again.engine.catalog();
    let read = catalog.container_by_rid(made.rid).unwrap();
    assert!(read.is_fixed());
    let (range, point) = (read.routing().ranges()[0].id, SplitPoint::Midpoint);
    let split = again
        .engine
        .start_split(&test_context(), read.rid, range, point, Progression::Automatic)
        .await;
    assert!(matches!(split, Err(Error::NotPartitionable(_))));
}

#[tokio::test]
async fn a_fixed_container_has_a_size() {
    let h = by_the_documents();
    let fixed = container(&h, Throughput::Manual(400)).await;
    let text = |n: u32| format!(r#"{{"id":"{n}","pk":"k{n}","x":"{}"}}"#, "y".repeat(1_000));
    let create = |n: u32| {
        let op = ItemOp::Create { body: body(&text(n)) };
        let key = format!("k{n}");
        let (h, fixed) = (&h, &fixed);
        async move { h.write(fixed, &key, op).await }
    };
    for n in 0..3 {
        create(n).await.unwrap();
    }
    let full = create(3).await.unwrap_err();
    assert!(matches!(full, Error::ContainerFull { limit_bytes: 4_096 }), "{full}");
    let delete = ItemOp::Delete { id: "0".into(), if_match: None };
    h.write(&fixed, "k0", delete).await.unwrap();
    create(3).await.unwrap();
}

#[tokio::test]
async fn by_the_documents_a_shared_database_holds_containers_with_keys() {
    let h = by_the_documents();
    let little =
        h.engine.create_database(&test_context(), "little", Some(Throughput::Manual(400))).await;
    let below = OfferRefused::BelowMinimum { wanted: 400, minimum: 1_000 };
    assert_eq!(refusal(little), below);
    let shared = Some(Throughput::Manual(1_000));
    let database = h.engine.create_database(&test_context(), "d", shared).await.unwrap().rid;
    let keyed =
        h.engine.create_container(&test_context(), database, spec("keyed"), None).await.unwrap();
    assert!(!keyed.is_fixed());
    let mut keyless = spec("keyless");
    keyless.partition_key.is_system = true;
    let refused =
        refusal(h.engine.create_container(&test_context(), database, keyless, None).await);
    assert_eq!(refused, OfferRefused::SharedWithoutKey);
}
