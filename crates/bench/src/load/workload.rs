//! The operations that are measured, as ready-made signed requests.
//!
//! A signature covers verb, link and date but not the body, and a date is valid for fifteen
//! minutes. So everything is signed before the measurement, and the client's share of the processor
//! stays small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::load::drive::Source;
use crate::load::template::{PARTITIONS, Template};
use crate::request::{Account, Draft};
use crate::rng::{Rng, Zipf};
use crate::sign::date_now;

/// Items that exist before anything is measured.
pub const ITEMS: u64 = 5_000;
/// Size of every item's body as sent.
pub const ITEM_BYTES: usize = 1_024;
/// Items of the container whose feed is read; few, because a peer reads all of them for each page.
pub const FEED_ITEMS: u64 = 1_000;
/// Large items, which have a container of their own.
pub const LARGE_ITEMS: u64 = 256;
/// Size of a large item's body as sent.
pub const LARGE_ITEM_BYTES: usize = 100 * 1_024;
/// Database of the benchmark.
pub const DATABASE: &str = "bench";
/// Container that everything but the feed uses.
pub const CONTAINER: &str = "items";
/// Container that does not grow, for the feed.
pub const FEED_CONTAINER: &str = "pages";
/// Container of the large items.
pub const LARGE_CONTAINER: &str = "large";

const ALPHABET: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
/// Link of [`CONTAINER`].
pub const CONTAINER_LINK: &str = "dbs/bench/colls/items";
const FEED_LINK: &str = "dbs/bench/colls/pages";
const LARGE_LINK: &str = "dbs/bench/colls/large";

/// One measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// Read of one item by id, 16 connections.
    PointRead,
    /// Durable create, one connection.
    CreateAlone,
    /// Durable create, 16 connections.
    Create,
    /// Upserts and replaces of existing items with Zipfian popularity, 16 connections.
    Overwrite,
    /// Patch that increments one number of an existing item, 16 connections.
    PatchIncrement,
    /// Transactional batch that creates ten items, 16 connections.
    Batch,
    /// The first page of 100 items of the container's feed, 4 connections.
    FeedPage,
    /// Upserts of existing items of 100 KB, all equally often, 16 connections.
    OverwriteLarge,
}

impl Workload {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::PointRead,
        Self::CreateAlone,
        Self::Create,
        Self::Overwrite,
        Self::PatchIncrement,
        Self::Batch,
        Self::FeedPage,
        Self::OverwriteLarge,
    ];

    /// The name used in reports and by `--only`.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointRead => "point-read",
            Self::CreateAlone => "create-1",
            Self::Create => "create-16",
            Self::Overwrite => "overwrite-zipf",
            Self::PatchIncrement => "patch-incr",
            Self::Batch => "batch-10",
            Self::FeedPage => "feed-100",
            Self::OverwriteLarge => "overwrite-100k",
        }
    }

    /// How many connections send it at once.
    pub fn connections(self) -> usize {
        match self {
            Self::CreateAlone => 1,
            Self::FeedPage => 4,
            Self::PointRead
            | Self::Create
            | Self::Overwrite
            | Self::PatchIncrement
            | Self::Batch
            | Self::OverwriteLarge => 16,
        }
    }

    /// Whether its processor time has a bound; such a workload is measured more often.
    pub fn is_bounded(self) -> bool {
        matches!(self, Self::PointRead | Self::Create)
    }

    /// Whether an answer counts as success. Anything else is an error of the run.
    pub fn accepts(self, status: u16) -> bool {
        match self {
            Self::PointRead
            | Self::Overwrite
            | Self::PatchIncrement
            | Self::FeedPage
            | Self::OverwriteLarge => status == 200,
            Self::CreateAlone | Self::Create => status == 201,
            // A batch that was rolled back returns 207.
            Self::Batch => status == 200,
        }
    }
}

/// The requests of one workload against one account.
pub struct Requests {
    templates: Vec<Template>,
    popularity: Popularity,
    numbers: Arc<AtomicU64>,
}

enum Popularity {
    Uniform,
    Zipf(Zipf),
}

/// One connection's view of [`Requests`].
pub struct Sender<'a> {
    requests: &'a Requests,
    rng: Rng,
    scratch: Vec<u8>,
}

impl Requests {
    /// Renders and signs the requests that `workload` sends to `account`. Created items are
    /// numbered from `numbers`, which all workloads of an account must share.
    pub fn prepare(workload: Workload, account: &Account, numbers: Arc<AtomicU64>) -> Self {
        let date = date_now();
        let render = |draft: &Draft<'_>| Template::new(account.render_at(draft, &date));
        let (templates, popularity) = match workload {
            Workload::PointRead => {
                (existing(|id, key| render(&read(id, key))), Popularity::Uniform)
            }
            Workload::CreateAlone | Workload::Create => {
                (vec![render(&create(CONTAINER_LINK))], Popularity::Uniform)
            }
            Workload::Overwrite => (overwrites(render), Popularity::Zipf(zipf())),
            Workload::PatchIncrement => {
                (existing(|id, key| render(&increment(id, key))), Popularity::Zipf(zipf()))
            }
            Workload::Batch => (vec![render(&batch())], Popularity::Uniform),
            Workload::FeedPage => (vec![render(&feed_page())], Popularity::Uniform),
            Workload::OverwriteLarge => {
                let all = large_items().map(|(key, body)| {
                    let upsert = Draft::feed("POST", LARGE_LINK, "docs").upsert();
                    render(&upsert.key(&key).body(body))
                });
                (all.collect(), Popularity::Uniform)
            }
        };
        Self { templates, popularity, numbers }
    }

    /// The requests that create the initial items, one each.
    pub fn preload(account: &Account) -> Vec<Vec<u8>> {
        let stamp_all = |link, count| {
            let template = Template::new(account.render(&create(link)));
            (0..count).map(move |number| {
                let mut out = Vec::new();
                template.stamp_into(number, &mut out);
                out
            })
        };
        stamp_all(CONTAINER_LINK, ITEMS).chain(stamp_all(FEED_LINK, FEED_ITEMS)).collect()
    }

    /// The requests that create the large items, one each.
    pub fn preload_large(account: &Account) -> Vec<Vec<u8>> {
        let create = |(key, body): (String, String)| {
            let draft = Draft::feed("POST", LARGE_LINK, "docs").key(&key).body(body);
            let mut out = Vec::new();
            Template::new(account.render(&draft)).stamp_into(0, &mut out);
            out
        };
        large_items().map(create).collect()
    }

    /// A stream of requests for one connection.
    pub fn sender(&self, rng: Rng) -> Sender<'_> {
        Sender { requests: self, rng, scratch: Vec::new() }
    }
}

impl Source for Sender<'_> {
    fn next_request(&mut self) -> &[u8] {
        let templates = &self.requests.templates;
        let at = match &self.requests.popularity {
            Popularity::Uniform => self.rng.index(templates.len()),
            Popularity::Zipf(zipf) => zipf.pick(&mut self.rng) % templates.len(),
        };
        let template = &templates[at];
        if template.is_fixed() {
            return template.bytes();
        }
        let number = self.requests.numbers.fetch_add(1, Ordering::Relaxed);
        template.stamp_into(number, &mut self.scratch);
        &self.scratch
    }
}

/// Popularity of the existing items.
fn zipf() -> Zipf {
    Zipf::new(usize::try_from(ITEMS).unwrap_or(usize::MAX))
}

fn existing(mut each: impl FnMut(&str, &str) -> Template) -> Vec<Template> {
    (0..ITEMS).map(|n| each(&format!("i{n:012}"), &partition(n))).collect()
}

fn partition(number: u64) -> String {
    format!("p{:04}", number % PARTITIONS)
}

fn read<'a>(id: &str, key: &str) -> Draft<'a> {
    Draft::one("GET", CONTAINER_LINK, "docs", id).key(key)
}

fn create<'a>(container: &str) -> Draft<'a> {
    Draft::feed("POST", container, "docs").key("p@@@@").body(item("i~~~~~~~~~~~~", "p@@@@"))
}

/// Half of them upserts, half replaces, each with a revision that changes every time.
fn overwrites(render: impl Fn(&Draft<'_>) -> Template) -> Vec<Template> {
    (0..ITEMS)
        .map(|n| {
            let (id, key) = (format!("i{n:012}"), partition(n));
            let body = item(&id, &key);
            if n % 2 == 0 {
                render(&Draft::feed("POST", CONTAINER_LINK, "docs").upsert().key(&key).body(body))
            } else {
                render(&Draft::one("PUT", CONTAINER_LINK, "docs", &id).key(&key).body(body))
            }
        })
        .collect()
}

fn increment<'a>(id: &str, key: &str) -> Draft<'a> {
    Draft::one("PATCH", CONTAINER_LINK, "docs", id)
        .key(key)
        .header("Content-Type", "application/json_patch+json")
        .body(r#"{"operations":[{"op":"incr","path":"/visits","value":1}]}"#)
}

fn batch<'a>() -> Draft<'a> {
    let operations: Vec<String> = (0..10)
        .map(|k| {
            let body = item(&format!("b~~~~~~~~~~~~-{k}"), "p@@@@");
            format!(r#"{{"operationType":"Create","resourceBody":{body}}}"#)
        })
        .collect();
    Draft::feed("POST", CONTAINER_LINK, "docs")
        .batch()
        .key("p@@@@")
        .body(format!("[{}]", operations.join(",")))
}

fn feed_page<'a>() -> Draft<'a> {
    Draft::feed("GET", FEED_LINK, "docs").header("x-ms-max-item-count", "100")
}

/// The item that a create with `number` sends, and its partition key.
pub fn item_and_key(number: u64) -> (String, String) {
    let (id, key) = (format!("i{number:012}"), partition(number));
    (item(&id, &key), key)
}

/// An item of exactly [`ITEM_BYTES`] with the shape of a small business record: fifteen leaves to
/// index, some nested, and text that compresses about half.
fn item(id: &str, key: &str) -> String {
    let with_note = |note: &str| {
        format!(
            r#"{{"id":"{id}","pk":"{key}","revision":"~~~~~~~~~~~~","visits":0,"name":"Ursa Minor Trading","email":"orders@ursa-minor.example","active":true,"rating":4.25,"address":{{"street":"12 Polaris Way","city":"Tromso","postcode":"9008","position":{{"lat":69.6492,"lon":18.9553}}}},"tags":["north","circumpolar","retail"],"created":"2024-02-29T12:34:56Z","note":"{note}"}}"#
        )
    };
    let room = ITEM_BYTES - with_note("").len();
    // Fixed text: the same number of random-looking letters for every item.
    let mut letters = Rng::new(0x1ACE);
    let note: String = (0..room)
        .map(|i| if i % 7 == 6 { ' ' } else { char::from(ALPHABET[letters.index(ALPHABET.len())]) })
        .collect();
    with_note(&note)
}

/// Keys and bodies of the large items.
fn large_items() -> impl Iterator<Item = (String, String)> {
    (0..LARGE_ITEMS).map(|n| {
        let (id, key) = (format!("l{n:012}"), partition(n));
        (key.clone(), large_item(&id, &key))
    })
}

/// An item of exactly [`LARGE_ITEM_BYTES`]: an order of hundreds of lines with five values each,
/// and a revision that changes every time.
fn large_item(id: &str, key: &str) -> String {
    let mut letters = Rng::new(0x1ACE);
    let mut words = |count: usize| -> String {
        let letter = |_| char::from(ALPHABET[letters.index(ALPHABET.len())]);
        (0..count).map(letter).collect()
    };
    let mut text = format!(
        r#"{{"id":"{id}","pk":"{key}","revision":"~~~~~~~~~~~~","customer":"Ursa Minor Trading","lines":["#
    );
    let end = r#"],"note":""}"#.len();
    for line in 0.. {
        let line = format!(
            r#"{{"sku":"SKU-{line:06}","name":"{} {}","quantity":{},"price":{}.25,"note":"{}"}}"#,
            words(8),
            words(6),
            line % 12 + 1,
            line % 500,
            words(24),
        );
        if text.len() + line.len() + 1 + end > LARGE_ITEM_BYTES {
            break;
        }
        if text.ends_with('}') {
            text.push(',');
        }
        text.push_str(&line);
    }
    let note = words(LARGE_ITEM_BYTES - text.len() - end);
    text + r#"],"note":""# + &note + r#""}"#
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account::new("http://127.0.0.1:1/", "AAAA").unwrap()
    }

    #[test]
    fn items_are_json_of_the_stated_size() {
        let text = item("i000000000001", "p0001");
        assert_eq!(text.len(), ITEM_BYTES);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["pk"], "p0001");
    }

    #[test]
    fn large_items_are_json_of_the_stated_size() {
        let (key, text) = large_items().nth(1).unwrap();
        assert_eq!(text.len(), LARGE_ITEM_BYTES);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["pk"], key.as_str());
        assert!(value["lines"].as_array().unwrap().len() > 500);
    }

    #[test]
    fn created_items_never_repeat() {
        let numbers = Arc::new(AtomicU64::new(ITEMS));
        let requests = Requests::prepare(Workload::Create, &account(), numbers);
        let mut sender = requests.sender(Rng::new(1));
        let first = sender.next_request().to_vec();
        assert_ne!(first, sender.next_request());
        let text = String::from_utf8(first).unwrap();
        assert!(text.contains(r#""id":"i000000005000","pk":"p0136""#), "{text}");
        assert!(text.contains(r#"partitionkey: ["p0136"]"#));
    }

    #[test]
    fn a_batch_holds_ten_items_of_one_partition() {
        let requests = Requests::prepare(Workload::Batch, &account(), Arc::default());
        let mut sender = requests.sender(Rng::new(1));
        let text = String::from_utf8(sender.next_request().to_vec()).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let operations: Vec<serde_json::Value> = serde_json::from_str(body).unwrap();
        assert_eq!(operations.len(), 10);
        assert!(operations.iter().all(|op| op["resourceBody"]["pk"] == "p0000"));
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = Workload::ALL.iter().map(|w| w.name()).collect();
        assert_eq!(names.len(), Workload::ALL.len());
    }
}
