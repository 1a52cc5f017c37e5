//! Direct mode: addresses, frames, and how a client learns that what it knows is stale.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use account::{Key, RequestSource, Scheme};
use api_nosql::{BadFrame, Direct, DirectClient, Frame as Request, Greeting};
use bytes::Bytes;
use engine::repartition::{Progression, SplitPoint};
use engine::{Container, RangeId};
use http_body_util::Full;
use testkit::harness::{START_SECONDS, test_context};
use testkit::http::sign;
use testkit::rntbd::{Answer, Frame, answer, request};

use crate::support::{TestService, account};

const DATABASE: u16 = 1;
const CONTAINER: u16 = 2;
const ITEM: u16 = 3;
const CREATE: u16 = 1;
const READ: u16 = 3;
const FEED: u16 = 4;
const QUERY: u16 = 15;
const HEAD: u16 = 17;
const HEAD_FEED: u16 = 18;
const UPSERT: u16 = 19;

/// A client that has shaken hands.
struct Client {
    service: TestService,
    client: Arc<DirectClient>,
}

impl Client {
    async fn new() -> Self {
        Self::of(TestService::new().with_container().await)
    }

    fn of(service: TestService) -> Self {
        let Greeting::Welcome(client, greeting) =
            service.service.greet(&Frame::context().to_bytes())
        else {
            panic!("the handshake is refused");
        };
        let greeting = Answer::read(&mut &greeting[..]).expect("the test's own data");
        assert_eq!((greeting.status, greeting.text(2)), (200, Some("planisphere")));
        assert!(greeting.text(3).is_some() && greeting.payload.is_empty());
        Self { service, client: Arc::from(client) }
    }

    /// Sends a frame with what all have: number, signature and payload.
    async fn send(&self, frame: Frame, signed: [&str; 3]) -> Answer {
        let (head, payload) = finished(frame, signed);
        self.serve(head, payload).await
    }

    async fn serve(&self, head: Vec<u8>, payload: Vec<u8>) -> Answer {
        let frame = Request::read(head.into(), &self.client).expect("the test's own data");
        let service = Arc::clone(&self.service.service);
        let payload = Full::new(Bytes::from(payload));
        let source = RequestSource::new(Scheme::Https, None);
        let sent = service.serve_frame(frame, payload, Arc::clone(&self.client), source).await;
        let bytes = [sent.head, sent.payload.to_vec()].concat();
        let answer = Answer::read(&mut &bytes[..]).expect("the test's own data");
        let first: Vec<u16> = answer.tokens.iter().take(2).map(|token| token.0).collect();
        assert_eq!(first, [answer::TRANSPORT_REQUEST_ID, answer::PAYLOAD_PRESENT]);
        assert_eq!(answer.number(answer::TRANSPORT_REQUEST_ID), Some(7));
        for id in answer::LSNS {
            assert_eq!(answer.number(id), answer.number(answer::LSN), "{id:x}");
        }
        assert!(answer.number(answer::LSN) > Some(0), "{answer:?}");
        answer
    }

    fn container(&self) -> Arc<Container> {
        let catalog = self.service.harness.engine.catalog();
        let database = catalog.database("d").expect("the test's own data").rid;
        Arc::clone(catalog.container(database, "c").expect("the test's own data"))
    }

    /// The paths of the addresses of these ranges.
    async fn addresses(&self, ranges: &str) -> Vec<(String, String)> {
        let rid = self.container().rid;
        let of = format!("dbs%2f{}%2fcolls%2f{rid}%2fdocs", rid.database);
        let path = format!(
            "//addresses/?$resolveFor={of}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds={ranges}"
        );
        let answer = self.signed_get(&path, "docs", &rid.to_string().to_lowercase()).await;
        let found = answer.expect(200).json();
        let addresses = found["Addresss"].as_array().expect("the test's own data");
        assert_eq!(found["_count"], addresses.len());
        let text =
            |value: &serde_json::Value| value.as_str().expect("the test's own data").to_owned();
        let path = |address: &serde_json::Value| {
            let uri = text(&address["physcialUri"]);
            let path = uri.strip_prefix("rntbd://example.test:8081").expect("the test's own data");
            path.strip_suffix('/').expect("the test's own data").to_owned()
        };
        let primaries = addresses.iter().filter(|address| address["isPrimary"] == true).count();
        assert_eq!(primaries * 4, addresses.len());
        let pair =
            |address: &serde_json::Value| (text(&address["partitionKeyRangeId"]), path(address));
        addresses.iter().map(pair).collect()
    }

    async fn signed_get(&self, path: &str, kind: &str, link: &str) -> crate::support::Answer {
        let when = UNIX_EPOCH + Duration::from_secs(START_SECONDS);
        let signed = sign(Key::well_known().expose(), "get", kind, link, when);
        let call = self.service.call("GET", path).key(None);
        let call = call.header("x-ms-date", signed.date);
        call.header("authorization", signed.authorization).send().await
    }

    /// Splits a range and waits for its end.
    async fn split(&self, range: u32) {
        let (engine, rid) = (&self.service.harness.engine, self.container().rid);
        let point = SplitPoint::Midpoint;
        let job = engine
            .start_split(&test_context(), rid, RangeId(range), point, Progression::Automatic)
            .await;
        engine.finish_job(job.expect("the test's own data").id).await.expect("the test's own data");
    }
}

/// Head and payload of a request, which is signed as the emulator's account.
fn finished(frame: Frame, [method, kind, link]: [&str; 3]) -> (Vec<u8>, Vec<u8>) {
    let when = UNIX_EPOCH + Duration::from_secs(START_SECONDS);
    let signed = sign(Key::well_known().expose(), method, kind, link, when);
    let has_payload = frame.parts().1.is_some();
    let frame = frame
        .text(request::AUTHORIZATION, &signed.authorization)
        .small_text(request::DATE, &signed.date)
        .byte(request::PAYLOAD_PRESENT, has_payload.into())
        .ulong(request::TRANSPORT_REQUEST_ID, 7);
    let (head, payload) = frame.parts();
    (head, payload.unwrap_or_default())
}

fn of_container(resource: u16, operation: u16) -> Frame {
    let frame = Frame::new(resource, operation);
    frame.text(request::DATABASE_NAME, "d").text(request::COLLECTION_NAME, "c")
}

fn keyed(operation: u16, key: &str) -> Frame {
    of_container(ITEM, operation).text(request::PARTITION_KEY, &format!("[\"{key}\"]"))
}

fn read(id: &str, key: &str) -> Frame {
    keyed(READ, key).text(request::DOCUMENT_NAME, id)
}

const ITEMS: &str = "dbs/d/colls/c";

#[tokio::test]
async fn items_are_written_and_read() {
    let client = Client::new().await;
    let create = keyed(CREATE, "a").payload(r#"{"id":"a b/\u00fc","pk":"a","n":1}"#);
    let made = client.send(create, ["post", "docs", ITEMS]).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.text(answer::PARTITION_KEY_RANGE_ID), Some("0"));
    assert_eq!(made.text(answer::OWNER_FULL_NAME), Some("dbs/d/colls/c"));
    assert_eq!(made.number(answer::ITEM_LSN), made.number(answer::LSN));
    let token = made.text(answer::SESSION_TOKEN).unwrap();
    assert_eq!(token, format!("-1#{}", made.number(answer::LSN).unwrap()));
    let sent = format!("0:{token}");
    let link = "dbs/d/colls/c/docs/a b/\u{fc}";
    let frame = read("a b/\u{fc}", "a").text(request::SESSION_TOKEN, &sent);
    let found = client.send(frame, ["get", "docs", link]).await;
    assert_eq!((found.status, found.json()["n"].as_i64()), (200, Some(1)));
    let charge =
        f64::from_le_bytes(found.value(answer::REQUEST_CHARGE).unwrap().try_into().unwrap());
    assert!((charge - 1.0).abs() < 1e-9, "{charge}");
    let etag = found.text(answer::ETAG).unwrap();
    let frame = read("a b/\u{fc}", "a").text(request::MATCH, etag);
    let same = client.send(frame, ["get", "docs", link]).await;
    assert_eq!((same.status, same.payload.len()), (304, 0));
    let frame = keyed(UPSERT, "a").text(request::MATCH, "\"other\"");
    let frame = frame.payload(r#"{"id":"a b/\u00fc","pk":"a","n":2}"#);
    let failed = client.send(frame, ["post", "docs", ITEMS]).await;
    assert_eq!((failed.status, failed.json()["code"].as_str()), (412, Some("PreconditionFailed")));
    assert_eq!(failed.text(answer::SESSION_TOKEN), Some(token));
    let missing = client.send(read("x", "a"), ["get", "docs", "dbs/d/colls/c/docs/x"]).await;
    assert_eq!((missing.status, missing.text(answer::SESSION_TOKEN)), (404, Some(token)));
}

#[tokio::test]
async fn items_come_without_links_where_a_client_wants_none() {
    let client = Client::new().await;
    let excludes = |id: &str| {
        let frame = keyed(CREATE, "a").byte(request::EXCLUDE_SYSTEM_PROPERTIES, 1);
        frame.payload(format!(r#"{{"id":"{id}","pk":"a"}}"#))
    };
    let made = client.send(excludes("1"), ["post", "docs", ITEMS]).await.json();
    assert_eq!((made["id"].as_str(), made["_self"].as_str()), (Some("1"), None));
    assert!(made["_etag"].is_string() && made["_attachments"].is_null(), "{made}");
}

#[tokio::test]
async fn signatures_are_checked_and_master_reads_ask_for_any_level() {
    let client = Client::new().await;
    let database = Frame::new(DATABASE, READ).text(request::DATABASE_NAME, "d");
    for level in 0..5 {
        let frame = database.clone().byte(request::CONSISTENCY_LEVEL, level);
        assert_eq!(client.send(frame, ["get", "dbs", "dbs/d"]).await.status, 200, "{level}");
    }
    let frame = database.clone().byte(request::CONSISTENCY_LEVEL, 5);
    assert_eq!(client.send(frame, ["get", "dbs", "dbs/d"]).await.status, 400);
    let refused = client.send(database, ["get", "dbs", "dbs/other"]).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (401, Some("Unauthorized")));
    let feed = client.send(Frame::new(DATABASE, FEED), ["get", "dbs", ""]).await;
    assert_eq!((feed.status, feed.json()["Databases"][0]["id"].as_str()), (200, Some("d")));
}

#[tokio::test]
async fn barriers_are_answered_with_the_position_of_the_range() {
    let client = Client::new().await;
    let made = keyed(CREATE, "a").payload(r#"{"id":"1","pk":"a"}"#);
    let made = client.send(made, ["post", "docs", ITEMS]).await;
    let key = (request::PARTITION_KEY, "[\"a\"]");
    let range = (request::PARTITION_KEY_RANGE_ID, "0");
    for (id, text) in [key, range] {
        let frame = of_container(CONTAINER, HEAD).text(id, text);
        let head = client.send(frame, ["head", "colls", ITEMS]).await;
        assert_eq!((head.status, head.payload.len()), (200, 0));
        assert_eq!(head.number(answer::LSN), made.number(answer::LSN));
    }
    let gone = of_container(CONTAINER, HEAD).text(request::PARTITION_KEY_RANGE_ID, "9");
    assert_eq!(client.send(gone, ["head", "colls", ITEMS]).await.outcome(), (410, 1002));
    let head = client.send(Frame::new(DATABASE, HEAD_FEED), ["head", "dbs", ""]).await;
    assert_eq!((head.status, head.payload.len()), (200, 0));
    client.service.call("HEAD", "/dbs/d/colls/c").send().await.expect(200);
}

#[tokio::test]
async fn a_stale_client_learns_which_of_its_knowledge_is_stale() {
    let client = Client::new().await;
    let create = keyed(CREATE, "a").payload(r#"{"id":"1","pk":"a"}"#);
    assert_eq!(client.send(create, ["post", "docs", ITEMS]).await.status, 201);
    let before = client.addresses("0").await;
    let link = "dbs/d/colls/c/docs/1";
    let at = |path: &str| read("1", "a").text(request::REPLICA_PATH, path);
    for (_, path) in &before {
        assert_eq!(client.send(at(path), ["get", "docs", link]).await.status, 200);
    }
    let elsewhere = at("/apps/A/services/S/partitions/x/replicas/1p");
    assert_eq!(client.send(elsewhere, ["get", "docs", link]).await.outcome(), (410, 0));

    client.split(0).await;
    assert_eq!(client.addresses("0").await, []);
    let stale = client.send(at(&before[0].1), ["get", "docs", link]).await;
    assert_eq!(stale.outcome(), (410, 1007));
    let query = || of_container(ITEM, QUERY).payload(r#"{"query":"SELECT * FROM c"}"#);
    let frame = query().text(request::PARTITION_KEY_RANGE_ID, "0");
    let frame = frame.text(request::REPLICA_PATH, &before[0].1);
    assert_eq!(client.send(frame, ["post", "docs", ITEMS]).await.outcome(), (410, 1002));

    let after = client.addresses("1,2").await;
    let mut served = Vec::new();
    for (range, path) in &after {
        let outcome = client.send(at(path), ["get", "docs", link]).await;
        if outcome.status == 200 {
            assert_eq!(outcome.text(answer::PARTITION_KEY_RANGE_ID), Some(range.as_str()));
            served.push(range.clone());
        } else {
            assert_eq!(outcome.outcome(), (410, 1007));
        }
    }
    served.dedup();
    assert_eq!(served.len(), 1, "one of the two ranges holds the key");
    let all = client.addresses("").await;
    assert_eq!((all.len(), client.addresses("2,1,0,7").await), (8, all.clone()));

    client.service.call("DELETE", "/dbs/d/colls/c").send().await.expect(204);
    let rid = client_rid(&all[0].1);
    let gone = read("1", "a").text(request::COLLECTION_RID, &rid);
    assert_eq!(client.send(gone.clone(), ["get", "docs", link]).await.outcome(), (410, 1000));
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    client.service.post("/dbs/d/colls", body).await.expect(201);
    assert_eq!(client.send(gone, ["get", "docs", link]).await.outcome(), (410, 1000));
    let other = client.send(at(&all[0].1), ["get", "docs", link]).await;
    assert_eq!(other.outcome(), (410, 1000));
}

/// The resource id of the container in a replica's path.
fn client_rid(path: &str) -> String {
    let partition = path.split('/').nth(6).expect("the test's own data");
    let (database, number) = partition
        .split_once('-')
        .expect("the test's own data")
        .0
        .split_once('.')
        .expect("the test's own data");
    let hex = |text| u32::from_str_radix(text, 16).expect("the test's own data");
    model::ContainerRid { database: model::DatabaseRid(hex(database)), number: hex(number) }
        .to_string()
}

#[tokio::test]
async fn a_read_ahead_of_its_range_waits_a_little() {
    let client = Client::new().await;
    let frame = read("1", "a").text(request::SESSION_TOKEN, "0:-1#999");
    let refused = client.send(frame, ["get", "docs", "dbs/d/colls/c/docs/1"]);
    let time = async {
        loop {
            client.service.harness.clock.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    };
    let refused = tokio::select! { refused = refused => refused, () = time => unreachable!() };
    assert_eq!(refused.outcome(), (404, 1002));
}

#[tokio::test]
async fn a_page_ends_when_the_client_stops_waiting() {
    const CONTINUATION: u16 = 3;
    let client = Client::new().await;
    for id in 0..200 {
        let create = keyed(CREATE, "a").payload(format!(r#"{{"id":"{id}","pk":"a"}}"#));
        assert_eq!(client.send(create, ["post", "docs", ITEMS]).await.status, 201);
    }
    let query = |remaining: u32| {
        let frame = of_container(ITEM, QUERY).payload(r#"{"query":"SELECT * FROM c"}"#);
        let frame = frame.text(request::PARTITION_KEY_RANGE_ID, "0");
        frame.ulong(request::REMAINING_TIME, remaining).ulong(4, 1_000)
    };
    let whole = client.send(query(30_000), ["post", "docs", ITEMS]).await;
    assert_eq!((whole.json()["_count"].as_u64(), whole.text(CONTINUATION)), (Some(200), None));
    client.service.harness.clock.slow_down(Duration::from_millis(10));
    let part = client.send(query(20), ["post", "docs", ITEMS]).await;
    assert_eq!(part.status, 200);
    assert!(part.json()["_count"].as_u64() < Some(200) && part.text(CONTINUATION).is_some());
}

#[tokio::test]
async fn pairs_that_the_protocol_does_not_have_are_refused() {
    let client = Client::new().await;
    for (resource, operation) in [(3, 66), (3, 0), (0, 3), (4, 3), (15, 9), (1, 8), (99, 3)] {
        let frame = Frame::new(resource, operation).text(request::DATABASE_NAME, "d");
        let refused = client.send(frame, ["get", "dbs", "dbs/d"]).await;
        assert!(matches!(refused.status, 400 | 401), "{resource} {operation}: {refused:?}");
    }
    let nameless = client.send(Frame::new(ITEM, READ), ["get", "docs", ""]).await;
    assert_eq!(nameless.status, 400);
}

#[tokio::test]
async fn damaged_heads_are_refused_for_their_reason() {
    let client = Client::new().await;
    let base = || {
        let frame = Frame::new(ITEM, READ).ulong(request::TRANSPORT_REQUEST_ID, 7);
        frame.byte(request::PAYLOAD_PRESENT, 0)
    };
    let refuse = |frame: Frame| Request::read(frame.parts().0.into(), &client.client).unwrap_err();
    for (frame, reason) in [
        (base().byte(request::PAYLOAD_PRESENT, 0), BadFrame::Duplicate),
        (base().byte(request::DATE, 0), BadFrame::WrongType),
        (base().token(0x7FFF, 0x0F, &[]), BadFrame::UnknownType),
        (base().token(0x7FFF, 8, &[9, 0, 1]), BadFrame::CutToken),
        (base().token(request::DATABASE_NAME, 8, &[1, 0, 0xFF]), BadFrame::NotText),
        (base().token(0x7FFF, 7, &[1, 0xFF]), BadFrame::NotText),
    ] {
        let refused = refuse(frame);
        assert_eq!(refused.reason, reason);
        let answer = Answer::read(&mut &refused.answer.unwrap()[..]).unwrap();
        assert_eq!((answer.status, answer.number(answer::TRANSPORT_REQUEST_ID)), (400, Some(7)));
        assert_eq!(answer.number(answer::REQUEST_VALIDATION_FAILURE), Some(1));
    }
    let nameless = refuse(Frame::new(ITEM, READ).byte(request::PAYLOAD_PRESENT, 0));
    assert_eq!((nameless.reason, nameless.answer), (BadFrame::NoNumber, None));
    let silent = refuse(Frame::new(ITEM, READ).ulong(request::TRANSPORT_REQUEST_ID, 7));
    assert_eq!(silent.reason, BadFrame::NoPayloadPresent);
    assert!(silent.answer.is_some());
    assert_eq!(refuse(Frame::context()).reason, BadFrame::SecondHandshake);
}

#[tokio::test]
async fn handshakes_that_miss_something_are_told_what() {
    let service = TestService::new();
    let greet = |frame: Frame| service.service.greet(&frame.to_bytes());
    let agent = |frame: Frame| frame.small_text(2, "me");
    for frame in [
        Frame::new(0, 0),
        agent(Frame::new(0, 0).ulong(0, 2).small_text(1, "2020-07-15")),
        agent(Frame::new(0, 0).small_text(1, "2020-07-15")),
        agent(Frame::new(0, 0).ulong(0, 1)),
        agent(Frame::new(0, 0).ulong(0, 1).small_text(1, "2014-01-01")),
        Frame::new(0, 0).ulong(0, 1).small_text(1, "2020-07-15"),
    ] {
        let Greeting::Refused(answer) = greet(frame.clone()) else { panic!("{frame:?}") };
        let answer = Answer::read(&mut &answer[..]).unwrap();
        assert_eq!((answer.status, answer.number(0)), (400, Some(1)));
        assert!(answer.text(2).is_some() && answer.text(3).is_some());
        assert!(answer.json()["message"].is_string());
    }
    for (frame, reason) in [
        (Frame::new(ITEM, READ), BadFrame::NoHandshake),
        (Frame::context().ulong(0, 1), BadFrame::Duplicate),
        (Frame::context().byte(5, 1), BadFrame::WrongType),
    ] {
        let bad = matches!(greet(frame), Greeting::Bad(found) if found == reason);
        assert!(bad, "{reason:?}");
    }
}

#[tokio::test]
async fn addresses_are_for_those_who_may_read() {
    let client = Client::new().await;
    let master = "//addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd";
    let found = client.signed_get(master, "dbs", "").await.expect(200).json();
    assert_eq!(found["Addresss"][1]["partitionKeyRangeId"], "M");
    client.signed_get(master, "docs", "").await.expect(401);
    for path in ["/addresses", "/addresses/?$resolveFor=", "/addresses/dbs", "/addresses?x=%FF"] {
        client.signed_get(path, "dbs", "").await.expect(400);
    }
    let missing = "/addresses?$resolveFor=dbs%2f7s9bAA%3d%3d%2fcolls%2f7s9bAOEo9lo%3d%2fdocs";
    client.signed_get(missing, "docs", "7s9baoeo9lo=").await.expect(404);
    let direct = Direct { is_on: false, ..Direct::default() };
    let off = Client::of(TestService::with_account(api_nosql::Account { direct, ..account() }));
    let refused = off.signed_get(master, "dbs", "").await.expect(400);
    assert!(refused.message().contains("ConnectionMode.Gateway"), "{}", refused.message());
    let direct = Direct { is_on: true, port: Some(10_250) };
    let public_endpoint = Some("https://db.example:8443/".into());
    let named = api_nosql::Account { direct, public_endpoint, ..account() };
    let named = Client::of(TestService::with_account(named));
    let found = named.signed_get(master, "dbs", "").await.expect(200).json();
    let uri = found["Addresss"][0]["physcialUri"].as_str().unwrap_or_default();
    assert!(uri.starts_with("rntbd://db.example:10250/apps/"), "{uri}");
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("the test's own data")
    }
}

#[tokio::test]
async fn damaged_frames_are_answered_or_refused_and_harm_no_other() {
    const ROUNDS: usize = 60_000;
    let client = Client::new().await;
    let create = keyed(CREATE, "a").payload(r#"{"id":"1","pk":"a"}"#);
    assert_eq!(client.send(create, ["post", "docs", ITEMS]).await.status, 201);
    let query = of_container(ITEM, QUERY).text(request::PARTITION_KEY_RANGE_ID, "0");
    let seeds = [
        finished(read("1", "a"), ["get", "docs", "dbs/d/colls/c/docs/1"]),
        finished(keyed(UPSERT, "a").payload(r#"{"id":"2","pk":"a"}"#), ["post", "docs", ITEMS]),
        finished(query.payload(r#"{"query":"SELECT * FROM c"}"#), ["post", "docs", ITEMS]),
        finished(of_container(ITEM, FEED), ["get", "docs", ITEMS]),
        finished(of_container(CONTAINER, HEAD), ["head", "colls", ITEMS]),
    ];
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut answered, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let (mut head, mut payload) = seeds[dice.below(seeds.len())].clone();
        for _ in 0..=dice.below(3) {
            let is_head = payload.is_empty() || dice.below(3) > 0;
            let bytes = if is_head { &mut head } else { &mut payload };
            let at = dice.below(bytes.len());
            match dice.below(4) {
                0 => bytes[at] ^= 1 << dice.below(8),
                1 => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
                2 => bytes.truncate(at.max(24)),
                _ => bytes.insert(at, 0),
            }
        }
        let Ok(frame) = Request::read(head.into(), &client.client) else {
            refused += 1;
            continue;
        };
        let service = Arc::clone(&client.service.service);
        let payload = Full::new(Bytes::from(payload));
        let source = RequestSource::new(Scheme::Https, None);
        let sent = service.serve_frame(frame, payload, Arc::clone(&client.client), source).await;
        let (status, _) = sent.outcome;
        assert!((200..500).contains(&status), "{round}: {status}");
        let bytes = [sent.head, sent.payload.to_vec()].concat();
        Answer::read(&mut &bytes[..]).unwrap();
        answered += 1;
    }
    assert!(answered > ROUNDS / 10 && refused > ROUNDS / 10, "{answered} {refused}");
    let found = client.send(read("1", "a"), ["get", "docs", "dbs/d/colls/c/docs/1"]).await;
    assert_eq!(found.status, 200);
}
