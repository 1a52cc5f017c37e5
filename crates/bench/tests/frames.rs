//! Frames of Direct mode are read and written without an allocation for each of their tokens.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use account::{Key, KeyRing, RequestSource, Scheme};
use api_nosql::{Account, Consistency, Direct, DirectClient, Greeting, Service};
use bytes::Bytes;
use http_body_util::Full;
use testkit::harness::{Harness, START_SECONDS};
use testkit::http::{Signed, sign};
use testkit::rntbd::{Answer, Frame, request as token};

/// The system's allocator, which counts the calls of each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no counter any more, and needs none.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a function allocates, and its result.
fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = CALLS.get();
    let done = work();
    (CALLS.get() - before, done)
}

/// A service with the item `1` in the container `c` of the database `db`.
async fn service() -> Arc<Service> {
    let account = Account {
        name: "test".into(),
        keys: KeyRing::single(Key::well_known()),
        public_endpoint: None,
        region: "Local".to_owned(),
        consistency: Consistency::Session,
        local_auth: true,
        direct: Direct::default(),
    };
    let service = Service::new(Harness::in_memory().engine.clone(), account);
    for (path, kind, link, body) in [
        ("/dbs", "dbs", "", r#"{"id":"db"}"#),
        (
            "/dbs/db/colls",
            "colls",
            "dbs/db",
            r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
        ),
        ("/dbs/db/colls/c/docs", "docs", "dbs/db/colls/c", r#"{"id":"1","pk":"a"}"#),
    ] {
        let signed = signed("post", kind, link);
        let request = hyper::Request::post(path)
            .header("host", "localhost")
            .header("x-ms-version", "2020-07-15")
            .header("x-ms-date", signed.date)
            .header("authorization", signed.authorization)
            .header("x-ms-documentdb-partitionkey", r#"["a"]"#)
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        assert_eq!(service.serve(request, Scheme::Https).await.status(), 201, "{path}");
    }
    service
}

fn signed(verb: &str, kind: &str, link: &str) -> Signed {
    let now = UNIX_EPOCH + Duration::from_secs(START_SECONDS);
    sign(Key::well_known().expose(), verb, kind, link, now)
}

fn client(service: &Service) -> DirectClient {
    match service.greet(&Frame::context().to_bytes()) {
        Greeting::Welcome(client, _) => *client,
        Greeting::Refused(_) | Greeting::Bad(_) => panic!("the handshake is refused"),
    }
}

/// A point read as .NET sends it, with a token of each type and of each meaning.
fn point_read() -> Frame {
    let signed = signed("get", "docs", "dbs/db/colls/c/docs/1");
    Frame::new(3, 3)
        .text(token::AUTHORIZATION, &signed.authorization)
        .byte(token::PAYLOAD_PRESENT, 0)
        .small_text(token::DATE, &signed.date)
        .text(token::SESSION_TOKEN, "0:-1#1")
        .text(token::DATABASE_NAME, "db")
        .text(token::COLLECTION_NAME, "c")
        .text(token::DOCUMENT_NAME, "1")
        .text(token::PARTITION_KEY, r#"["a"]"#)
        .ulong(token::REMAINING_TIME, 30_000)
        .ulong(token::CLIENT_RETRY_ATTEMPT_COUNT, 0)
        .ulong(token::TRANSPORT_REQUEST_ID, 3)
        .ulong(token::SDK_SUPPORTED_CAPABILITIES, 9)
}

#[tokio::test]
async fn reading_a_frame_takes_the_same_allocations_whatever_its_tokens() {
    /// Tokens that are only checked.
    const BYTES: [u16; 12] =
        [0x0B, 0x1F, 0x26, 0x27, 0x29, 0x2A, 0x31, 0x33, 0x3C, 0x41, 0x45, 0x48];
    const TEXTS: [u16; 6] = [0x0E, 0x0F, 0x11, 0x18, 0x21, 0x3A];
    let service = service().await;
    let client = client(&service);
    let read = |frame: Frame| {
        let head = Bytes::from(frame.parts().0);
        let (calls, frame) = allocations(|| api_nosql::Frame::read(head, &client));
        frame.unwrap_or_else(|refused| panic!("{refused:?}"));
        calls
    };
    let usual = read(point_read());
    let longer = BYTES.into_iter().fold(point_read(), |frame, id| frame.byte(id, 1));
    let longer = TEXTS.into_iter().fold(longer, |frame, id| frame.text(id, "some text"));
    let headers = point_read().byte(token::CONSISTENCY_LEVEL, 2).text(token::MATCH, "\"etag\"");
    assert_eq!((read(longer), read(headers)), (usual, usual));
    assert!(usual <= 2, "{usual} for the headers");
}

#[tokio::test]
async fn a_read_takes_fewer_allocations_than_its_frames_have_tokens() {
    let service = service().await;
    let client = Arc::new(client(&service));
    let mut counts = Vec::new();
    for _ in 0..3 {
        let head = Bytes::from(point_read().parts().0);
        let (service, client) = (Arc::clone(&service), Arc::clone(&client));
        let before = CALLS.get();
        let frame = api_nosql::Frame::read(head, &client).unwrap();
        let source = RequestSource::from(Scheme::Https);
        let served = service.serve_frame(frame, Full::new(Bytes::new()), client, source).await;
        let calls = CALLS.get() - before;
        let bytes = [served.head, served.payload.to_vec()].concat();
        let answer = Answer::read(&mut &bytes[..]).unwrap();
        assert_eq!((answer.status, answer.json()["id"].as_str()), (200, Some("1")));
        counts.push((calls, 14 + answer.tokens.len() as u64));
    }
    // The first fills what the connection repeats; the engine's part is in all of them.
    assert!(counts[1..].iter().all(|(calls, tokens)| calls < tokens), "{counts:?}");
}
