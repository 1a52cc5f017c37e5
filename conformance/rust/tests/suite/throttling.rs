//! Requests beyond the throughput, with the retries that the SDK makes by default: all get through,
//! at the rate that was provisioned.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use azure_data_cosmos::FeedScope;
use azure_data_cosmos::clients::ContainerClient;
use conformance::{Account, charge, ids};
use futures::TryStreamExt;
use futures::future::join_all;
use serde_json::{Value, json};

const PROVISIONED: f64 = 400.0;
/// The initially full bucket, and the request units that arrive while the client starts up.
const FIRST: f64 = 800.0;
const LARGE_BYTES: usize = 100_000;

/// A client of a container with 400 RU/s, which adds up its charges.
#[derive(Clone)]
struct Busy {
    container: ContainerClient,
    served: Arc<Mutex<Served>>,
}

/// The total charge, and what it was after the first requests.
#[derive(Default)]
struct Served {
    units: f64,
    started: Option<Instant>,
    mark: Option<(f64, Instant)>,
}

impl Busy {
    async fn open(account: &Account) -> Self {
        let container = account.keyed("/pk", Some(PROVISIONED as u64)).await;
        let served = Served { started: Some(Instant::now()), ..Served::default() };
        Self { container, served: Arc::new(Mutex::new(served)) }
    }

    fn note(&self, units: f64) {
        let mut served = self.served.lock().unwrap();
        served.units += units;
        if served.mark.is_none() && served.units >= FIRST {
            served.mark = Some((served.units, Instant::now()));
        }
    }

    async fn upsert(&self, id: &str, text_bytes: usize) {
        let item = json!({"id": id, "pk": id, "text": "x".repeat(text_bytes)});
        let upserted = self.container.upsert_item(id.to_owned(), id, &item, None).await;
        self.note(charge(upserted.expect("upserted").headers()));
    }

    async fn read(&self, id: &str) {
        let read = self.container.read_item(id.to_owned(), id, None).await;
        self.note(charge(read.expect("read").headers()));
    }

    async fn delete(&self, id: &str) {
        let deleted = self.container.delete_item(id.to_owned(), id, None).await;
        self.note(charge(deleted.expect("deleted").headers()));
    }

    async fn query(&self, id: &str) {
        let key = FeedScope::partition(id.to_owned());
        let text = "SELECT * FROM c WHERE c.text != ''";
        let pages = self.container.query_items::<Value>(text, key, None).await;
        let mut pages = pages.expect("a query").into_pages();
        while let Some(page) = pages.try_next().await.expect("a page") {
            self.note(charge(page.headers()));
        }
    }

    /// How far the served throughput is from the provisioned one: too much since the start, or else
    /// too little after the first requests.
    fn deviation(&self) -> f64 {
        let served = self.served.lock().unwrap();
        let of_rate = |units: f64, since: Instant| {
            units / (PROVISIONED * since.elapsed().as_secs_f64()) - 1.0
        };
        let started = served.started.expect("a start");
        let too_much = of_rate(served.units - PROVISIONED, started);
        let (before, since) = served.mark.expect("more than the first requests");
        if too_much > 0.0 { too_much } else { of_rate(served.units - before, since).min(0.0) }
    }
}

/// Runs `work` on a container with 400 RU/s; every call must succeed. A busy machine may need
/// another attempt to reach the rate.
async fn at_the_rate(work: impl AsyncFn(&Busy)) {
    let account = Account::limited().await;
    let mut deviations = Vec::new();
    while deviations.len() < 3 {
        let busy = Busy::open(&account).await;
        work(&busy).await;
        let deviation = busy.deviation();
        deviations.push(deviation);
        if deviation.abs() < 0.05 {
            account.close().await;
            return;
        }
    }
    panic!("{deviations:?}");
}

#[tokio::test]
async fn seven_hundred_upserts_at_once_get_through() {
    let names: Vec<_> = (0..700).map(|n| n.to_string()).collect();
    at_the_rate(async |busy| {
        join_all(names.iter().map(|id| busy.upsert(id, 100))).await;
    })
    .await;
}

#[tokio::test]
async fn fifty_at_once_with_queries_and_deletes_get_through() {
    let one = async |busy: &Busy, n: usize| {
        let ids: Vec<_> = (0..4).map(|i| format!("{n}-{i}")).collect();
        for id in &ids {
            busy.upsert(id, 100).await;
        }
        for id in &ids[..2] {
            busy.query(id).await;
        }
        busy.read(&ids[0]).await;
        for id in &ids[1..] {
            busy.delete(id).await;
        }
    };
    at_the_rate(async |busy| {
        join_all((0..50).map(|n| one(busy, n))).await;
        assert_eq!(ids(&busy.container).await.len(), 50);
    })
    .await;
}

#[tokio::test]
async fn a_large_item_gets_its_turn_among_small_ones() {
    let small = async |busy: &Busy, n: usize| {
        for i in 0..20 {
            busy.upsert(&format!("{n}-{i}"), 100).await;
        }
    };
    let large = async |busy: &Busy| {
        for i in 0..6 {
            busy.upsert(&format!("large-{i}"), LARGE_BYTES).await;
        }
    };
    at_the_rate(async |busy| {
        tokio::join!(large(busy), join_all((0..16).map(|n| small(busy, n))));
    })
    .await;
}
