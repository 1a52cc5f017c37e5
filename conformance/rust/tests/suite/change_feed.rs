//! The change feed.

use std::num::NonZeroU32;
use std::time::Duration;

use azure_core::time::OffsetDateTime;
use azure_data_cosmos::FeedScope;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::{ChangeFeedPageIterator, ContinuationToken};
use azure_data_cosmos::models::{
    ChangeFeedItem, ChangeFeedOperationType, ChangeFeedPolicy, ContainerProperties,
};
use azure_data_cosmos::options::{
    ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom, MaxItemCountHint,
};
use conformance::{Account, charge, message, new_id, read, refused, variants};
use futures::StreamExt;
use serde_json::{Value, json};

/// Empty pages in a row after which every range has been read at least once.
const EMPTY_PAGES: usize = 6;
const PAGES_MAX: usize = 200;

type Feed = ChangeFeedPageIterator<ChangeFeedItem<Value>>;

async fn versioned(account: &Account, throughput: u64) -> ContainerClient {
    let policy = ChangeFeedPolicy::default().with_retention_duration(Duration::from_secs(10 * 60));
    let properties =
        ContainerProperties::new(new_id("c"), "/pk".into()).with_change_feed_policy(policy);
    account.container_with(properties, Some(throughput)).await
}

async fn create(container: &ContainerClient, pk: &str, id: &str) {
    let item = json!({"id": id, "pk": pk});
    container.create_item(pk.to_owned(), id, &item, None).await.expect("created");
}

async fn open(
    container: &ContainerClient,
    scope: FeedScope,
    start: ChangeFeedStartFrom,
    options: ChangeFeedOptions,
) -> Feed {
    container.query_change_feed::<Value>(scope, start, Some(options)).await.expect("a feed")
}

async fn drain(feed: &mut Feed) -> Vec<ChangeFeedItem<Value>> {
    let mut seen = Vec::new();
    let mut empty = 0;
    for _ in 0..PAGES_MAX {
        let page = feed.next().await.expect("the feed never ends").expect("a page");
        assert!(charge(page.headers()) > 0.0);
        empty = if page.items().is_empty() { empty + 1 } else { 0 };
        if empty == EMPTY_PAGES {
            return seen;
        }
        seen.extend(page.into_items());
    }
    panic!("the feed does not come to rest");
}

fn token(feed: &Feed) -> ContinuationToken {
    let token = feed.to_continuation_token().expect("a token");
    ContinuationToken::from_string(token.as_str().to_owned())
}

fn ids(items: &[ChangeFeedItem<Value>]) -> Vec<String> {
    let id = |item: &ChangeFeedItem<Value>| {
        item.current().expect("an item")["id"].as_str().expect("an id").to_owned()
    };
    let mut ids: Vec<_> = items.iter().map(id).collect();
    ids.sort();
    ids
}

fn all_versions() -> ChangeFeedOptions {
    ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes)
}

async fn latest_versions_of_every_scope(account: &Account) {
    for (throughput, ranges) in [(400, 1), (30_000, 5)] {
        let container = account.keyed("/pk", Some(throughput)).await;
        for n in 0..25 {
            create(&container, &format!("p{n}"), &format!("{n:02}")).await;
        }
        container.delete_item("p3", "03", None).await.expect("deleted");
        let expected: Vec<_> = (0..25).filter(|n| *n != 3).map(|n| format!("{n:02}")).collect();
        let three = MaxItemCountHint::Limit(NonZeroU32::new(3).expect("not zero"));
        let beginning = || ChangeFeedStartFrom::Beginning;
        let options = ChangeFeedOptions::default().with_max_item_count(three);
        let mut feed = open(&container, FeedScope::full_container(), beginning(), options).await;
        let items = drain(&mut feed).await;
        assert_eq!(ids(&items), expected);
        // The envelope holds the position and time, and the item equals the result of a read.
        let first = &items[0];
        let current = first.current().expect("an item");
        let (pk, id) = (current["pk"].as_str().expect("pk"), current["id"].as_str().expect("id"));
        assert_eq!(*current, read(&container, pk.to_owned(), id).await.expect("the item"));
        let metadata = first.metadata().expect("metadata");
        assert!(metadata.lsn().is_some() && metadata.conflict_resolution_timestamp().is_some());
        let options = ChangeFeedOptions::default();
        let mut of_key = open(&container, FeedScope::partition("p7"), beginning(), options).await;
        assert_eq!(ids(&drain(&mut of_key).await), ["07"]);
        let parts = container.read_feed_ranges(None).await.expect("ranges");
        assert_eq!(parts.len(), ranges);
        let mut seen = Vec::new();
        for part in parts {
            let options = ChangeFeedOptions::default();
            let mut feed = open(&container, FeedScope::range(part), beginning(), options).await;
            seen.extend(drain(&mut feed).await);
        }
        assert_eq!(ids(&seen), expected);
    }
}

async fn feeds_resume(account: &Account) {
    for throughput in [400, 30_000] {
        let container = account.keyed("/pk", Some(throughput)).await;
        create(&container, "a", "old").await;
        let (all, now) = (FeedScope::full_container(), ChangeFeedStartFrom::Now);
        let mut feed = open(&container, all, now, ChangeFeedOptions::default()).await;
        assert!(drain(&mut feed).await.is_empty());
        let token = token(&feed);
        for n in 0..5 {
            create(&container, &format!("p{n}"), &n.to_string()).await;
        }
        assert_eq!(ids(&drain(&mut feed).await), ["0", "1", "2", "3", "4"]);
        let options = ChangeFeedOptions::default().with_continuation_token(token);
        let (all, start) = (FeedScope::full_container(), ChangeFeedStartFrom::Beginning);
        let mut resumed = open(&container, all, start, options).await;
        assert_eq!(ids(&drain(&mut resumed).await), ["0", "1", "2", "3", "4"]);
    }
}

async fn a_feed_starts_at_a_time(account: &Account) {
    let container = account.keyed("/pk", Some(30_000)).await;
    create(&container, "a", "before").await;
    let item = read(&container, "a", "before").await.expect("the item");
    let seconds = item["_ts"].as_i64().expect("a time");
    while OffsetDateTime::now_utc().unix_timestamp() < seconds + 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    create(&container, "b", "after").await;
    let start = OffsetDateTime::from_unix_timestamp(seconds).expect("a time");
    let start = ChangeFeedStartFrom::PointInTime(start);
    let all = FeedScope::full_container();
    let mut feed = open(&container, all, start, ChangeFeedOptions::default()).await;
    assert_eq!(ids(&drain(&mut feed).await), ["after"]);
}

async fn every_version_and_delete_is_shown(account: &Account) {
    for throughput in [400, 30_000] {
        let container = versioned(account, throughput).await;
        let (all, now) = (FeedScope::full_container(), ChangeFeedStartFrom::Now);
        let mut feed = open(&container, all, now, all_versions()).await;
        assert!(drain(&mut feed).await.is_empty());
        create(&container, "a", "1").await;
        let item = json!({"id": "1", "pk": "a", "n": 2});
        container.replace_item("a", "1", &item, None).await.expect("replaced");
        container.delete_item("a", "1", None).await.expect("deleted");
        let items = drain(&mut feed).await;
        use ChangeFeedOperationType::{Create, Delete, Replace};
        let operations: Vec<_> = items.iter().filter_map(ChangeFeedItem::operation_type).collect();
        assert_eq!(operations, [Create, Replace, Delete]);
        let [created, replaced, deleted] = &items[..] else { panic!("three changes") };
        assert_eq!(replaced.current().expect("an item")["n"], 2);
        assert!(deleted.current().is_none());
        // A delete has the item as it was; creates and replaces have no previous one.
        let previous: Vec<_> = items.iter().map(|item| item.previous().map(|i| &i["n"])).collect();
        assert_eq!(previous, [None, None, Some(&json!(2))]);
        let of = |item: &ChangeFeedItem<Value>| item.metadata().expect("metadata").clone();
        assert_eq!(of(replaced).previous_image_lsn(), of(created).lsn());
        assert_eq!(of(deleted).id(), Some("1"));
        assert_eq!(of(deleted).partition_key(), Some(&json!({"pk": "a"})));
        assert_eq!(of(deleted).time_to_live_expired(), Some(false));
    }
}

async fn all_versions_need_the_policy_and_a_start_from_now(account: &Account) {
    let plain = account.container().await;
    let first = async |container: &ContainerClient, start| {
        let scope = FeedScope::partition("a");
        let feed = container.query_change_feed::<Value>(scope, start, Some(all_versions())).await;
        match feed {
            Ok(mut feed) => feed.next().await.expect("the feed never ends").map(|_| ()),
            Err(error) => Err(error),
        }
    };
    let error = refused(first(&plain, ChangeFeedStartFrom::Now).await, 400);
    let text = message(&error);
    assert!(text.contains("All Versions and Deletes") && text.contains("must be enabled"));
    let versioned = versioned(account, 400).await;
    first(&versioned, ChangeFeedStartFrom::Now).await.expect("a feed from now");
    refused(first(&versioned, ChangeFeedStartFrom::Beginning).await, 400);
}

variants![
    latest_versions_of_every_scope,
    feeds_resume,
    a_feed_starts_at_a_time,
    every_version_and_delete_is_shown,
    all_versions_need_the_policy_and_a_start_from_now,
];
