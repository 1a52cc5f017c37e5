//! Frames of Direct mode are read and written without an allocation for each of their tokens.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use account::{Key, KeyRing, Scheme};
use api_nosql::{Account, Consistency, Direct, DirectClient, Greeting, Service};
use bytes::Bytes;
use testkit::harness::Harness;
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

fn client() -> DirectClient {
    let account = Account {
        name: "test".into(),
        keys: KeyRing::single(Key::well_known()),
        public_endpoint: None,
        region: "Local".to_owned(),
        consistency: Consistency::Session,
        local_auth: true,
        direct: Direct::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let service: Arc<Service> = runtime.block_on(async {
        let harness = Harness::in_memory();
        Service::new(harness.engine.clone(), account)
    });
    match service.greet(&Frame::context().to_bytes()) {
        Greeting::Welcome(client, _) => *client,
        Greeting::Refused(_) | Greeting::Bad(_) => panic!("the handshake is refused"),
    }
}

/// A point read as .NET sends it, with a token of each type and of each meaning.
fn point_read() -> Frame {
    Frame::new(3, 3)
        .bytes(token::RESOURCE_ID, &[43, 104, 191, 205, 147, 240, 4, 109])
        .text(token::AUTHORIZATION, "type%3dmaster%26ver%3d1.0%26sig%3d9eLIAwZpJuxCVZ2cYEw%3d")
        .byte(token::PAYLOAD_PRESENT, 0)
        .small_text(token::DATE, "Wed, 18 Nov 2026 19:32:29 GMT")
        .text(token::SESSION_TOKEN, "0:-1#1")
        .text(token::REPLICA_PATH, "/apps/A/services/S/partitions/P-0/replicas/1p")
        .text(token::DATABASE_NAME, "db")
        .text(token::COLLECTION_NAME, "c")
        .text(token::DOCUMENT_NAME, "1")
        .text(token::PARTITION_KEY, r#"["a"]"#)
        .text(token::COLLECTION_RID, "K2i-zZPwBG0=")
        .ulong(token::REMAINING_TIME, 30_000)
        .ulong(token::CLIENT_RETRY_ATTEMPT_COUNT, 0)
        .ulong(token::TRANSPORT_REQUEST_ID, 3)
        .ulong(token::SDK_SUPPORTED_CAPABILITIES, 9)
}

#[test]
fn reading_a_frame_takes_the_same_allocations_whatever_its_tokens() {
    /// Tokens that are only checked.
    const BYTES: [u16; 12] =
        [0x0B, 0x1F, 0x26, 0x27, 0x29, 0x2A, 0x31, 0x33, 0x3C, 0x41, 0x45, 0x48];
    const TEXTS: [u16; 6] = [0x0E, 0x0F, 0x11, 0x18, 0x21, 0x3A];
    let client = client();
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
    assert_eq!((usual, read(longer), read(headers)), (1, 1, 1), "one for all headers");
}

#[test]
fn writing_an_answer_takes_the_same_allocations_whatever_its_tokens() {
    let client = client();
    let head = Bytes::from(point_read().parts().0);
    let id = api_nosql::Frame::read(head, &client).expect("a frame").id();
    let (without_room, refused) = allocations(|| id.refuse_for_room());
    let tokens = Answer::read(&mut &refused.head[..]).unwrap().tokens.len();
    // Its body and the frame, whose capacity is known.
    assert!(tokens >= 7 && without_room <= 3, "{without_room} for {tokens} tokens");
}
