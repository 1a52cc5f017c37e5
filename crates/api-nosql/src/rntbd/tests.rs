//! Frames that were recorded from the .NET SDK (`golden/rntbd/frames.txt`): what they mean, and that
//! their signatures are those of the requests that they become.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use account::{Key, KeyRing};
use bytes::Bytes;
use engine::Served;
use model::{Charge, Timestamp};

use super::answer::{self, FrameAnswer};
use super::token::{TokenType, Tokens};
use super::*;
use crate::auth::{Authenticator, Proof, Signed};
use crate::headers::HeaderName;
use crate::reply::{Envelope, Reply, ReplyHeader, Status};
use crate::request::Request;
use crate::{Consistency, Service, address};

const RECORDED: &str = include_str!("../../../../golden/rntbd/frames.txt");

/// The recorded frames by name.
fn recorded() -> BTreeMap<&'static str, Vec<u8>> {
    let decode = |hex: &str| {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    let pairs = RECORDED.lines().map(|line| line.split_once(' ').unwrap());
    pairs.map(|(name, hex)| (name, decode(hex))).collect()
}

async fn service() -> std::sync::Arc<Service> {
    let harness = testkit::harness::Harness::in_memory();
    let account = crate::Account {
        name: "test".into(),
        keys: KeyRing::single(Key::well_known()),
        public_endpoint: None,
        region: "Local".to_owned(),
        consistency: Consistency::Session,
        local_auth: true,
        direct: crate::Direct::default(),
    };
    Service::new(harness.engine.clone(), account)
}

async fn client() -> DirectClient {
    match service().await.greet(&recorded()["context-req"]) {
        Greeting::Welcome(client, _) => *client,
        Greeting::Refused(_) | Greeting::Bad(_) => panic!("the recorded handshake is refused"),
    }
}

/// A frame of the recorded ones, and its payload.
fn read(name: &str, client: &DirectClient) -> (Frame, Bytes) {
    let bytes = Bytes::from(recorded().remove(name).unwrap());
    let length = head_length(&bytes).unwrap().unwrap();
    let frame = Frame::read(bytes.slice(..length), client).unwrap();
    let payload = match frame.has_payload() {
        true => bytes.slice(length + 4..),
        false => bytes.slice(length..),
    };
    (frame, payload)
}

/// The request that a frame becomes.
fn request(frame: Frame, payload: Bytes) -> (Request, &'static str) {
    let Frame { resource, operation, head, mut fields, .. } = frame;
    let operation = operations::find(operation).unwrap();
    let segments = operation.segments(resource, &fields, &head).unwrap();
    serve::complete(&mut fields, operation, &head);
    let target = address::target(&segments).unwrap();
    let authenticator = Authenticator::new(&KeyRing::single(Key::well_known()));
    let headers = &fields.headers;
    let date = httpdate::parse_http_date(headers.text(HeaderName::XmsDate).unwrap()).unwrap();
    let now = date.duration_since(UNIX_EPOCH).unwrap();
    let now = Timestamp(u64::try_from(now.as_millis()).unwrap());
    let signed = Signed { method: operation.verb, segments: &segments, headers };
    let proof = authenticator.authenticate(signed, now, |_| true).unwrap();
    assert!(matches!(proof, Proof::Key(_)), "the signature of the frame");
    let head = crate::request::RequestHead {
        method: operation.verb,
        path: "",
        bytes: 0,
        endpoint: None,
        headers: fields.headers,
        direct: Some(fields.direct),
        source: account::Scheme::Https.into(),
    };
    (head.with_body(target, payload), operation.verb)
}

#[tokio::test]
async fn recorded_requests_are_read_and_their_signatures_hold() {
    let client = client().await;
    assert_eq!(client.version, "2020-07-15");
    assert!(client.user_agent.starts_with("cosmos-netstandard-sdk/3.64.0"));
    let names: Vec<_> = recorded().into_keys().filter(|name| name.contains("-req")).collect();
    let mut count = 0;
    for name in names.into_iter().filter(|name| *name != "context-req") {
        let (frame, payload) = read(name, &client);
        let (request, _) = request(frame, payload);
        let kind = crate::Operation::of(&request);
        let expected = match name.split("-req").next().unwrap() {
            "Document-Create" => crate::Operation::CreateItem,
            "Document-Read" => crate::Operation::ReadItem,
            "Document-Upsert" => crate::Operation::UpsertItem,
            "Document-Replace" => crate::Operation::ReplaceItem,
            "Document-Patch" => crate::Operation::PatchItem,
            "Document-Delete" => crate::Operation::DeleteItem,
            "Document-Query" => crate::Operation::Query,
            "Document-ReadFeed" => crate::Operation::ChangeFeed,
            "Document-Batch" => crate::Operation::Batch,
            "StoredProcedure-ExecuteJavaScript" => crate::Operation::ExecuteProcedure,
            name if name.starts_with("Collection") => crate::Operation::Container,
            name if name.starts_with("Database") => crate::Operation::Database,
            _ => crate::Operation::Other,
        };
        assert_eq!(kind, expected, "{name}");
        count += 1;
    }
    assert_eq!(count, 24);
}

#[tokio::test]
async fn tokens_become_the_headers_of_http() {
    let client = client().await;
    let text = |name: &str, wanted: &[HeaderName]| {
        let (frame, payload) = read(name, &client);
        let (request, verb) = request(frame, payload);
        let one = |header: &HeaderName| request.header(*header).unwrap_or("-").to_owned();
        (verb, wanted.iter().map(one).collect::<Vec<_>>().join("; "))
    };
    use HeaderName as H;
    assert_eq!(
        text(
            "Document-Query-req",
            &[
                H::MaxItemCount,
                H::SessionToken,
                H::PartitionKeyRangeId,
                H::PopulateQueryMetrics,
                H::SerializationFormats,
                H::OptimisticDirectExecute,
                H::IsQuery,
                H::ContentType,
                H::Version,
            ]
        ),
        (
            "POST",
            "1000; 0:-1#1; 0; True; JsonText,CosmosBinary; False; True; \
                  application/query+json; 2020-07-15"
                .to_owned()
        )
    );
    let match_of = [H::IfMatch, H::IfNoneMatch, H::PartitionKey];
    assert_eq!(
        text("Document-Replace-req", &match_of),
        ("PUT", "\"00000003-0000-0000-0000-000000000805\"; -; [\"a\"]".to_owned())
    );
    assert_eq!(
        text("Document-Batch-req", &[H::BatchAtomic, H::BatchContinueOnError, H::IsBatch]),
        ("POST", "True; -; True".to_owned())
    );
    assert_eq!(
        text("Document-ReadFeed-req", &[H::AIm, H::PartitionKeyRangeId]),
        ("GET", "Incremental Feed; 0".to_owned())
    );
    assert_eq!(
        text("StoredProcedure-ExecuteJavaScript-req", &[H::EnableScriptLogging]),
        ("POST", "True".to_owned())
    );
    let (frame, _) = read("Document-Create-req", &client);
    assert_eq!(frame.fields.direct.remaining_ms, Some(30_000));
    assert_eq!(
        frame.fields.direct.container.map(|rid| rid.to_string()).as_deref(),
        Some("K2i-zZPwBG0=")
    );
    let text = serve::activity_text(&frame.id.activity);
    assert_eq!(text, *b"354b9f27-e0c9-4e1e-8a20-561661b264ff");
    assert_eq!(frame.id.number, Some(2));
}

/// Name and value of each token.
fn tokens(bytes: &[u8]) -> Vec<(u16, TokenType, Vec<u8>)> {
    let length = head_length(bytes).unwrap().unwrap();
    let mut tokens = Tokens::new(&bytes[..length], frame::HEAD_BYTES_MIN);
    let mut out = Vec::new();
    while let Some(token) = tokens.next().unwrap() {
        out.push((token.id, token.kind, token.value.to_vec()));
    }
    out
}

#[tokio::test]
async fn a_recorded_answer_and_ours_have_the_same_tokens() {
    let client = client().await;
    let (frame, _) = read("Document-Read-req", &client);
    let now = httpdate::parse_http_date("Wed, 18 Nov 2026 19:32:29 GMT").unwrap();
    let now = now.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let harness = testkit::harness::Harness::in_memory();
    let container = harness.container("c", 1).await;
    let recorded = &recorded()["Document-Read-200-resp"];
    let length = head_length(recorded).unwrap().unwrap();
    let lsn = model::Lsn(1);
    let served = Served {
        charge: Charge::units(1),
        ranges: vec![(engine::RangeId(0), lsn)],
        item_lsn: Some(lsn),
    };
    let envelope = Envelope {
        activity: String::new(),
        container: Some(&container),
        is_container: false,
        served: &served,
        elapsed: Duration::from_micros(49),
    };
    let etag = "\"00000001-0000-0000-0000-000000000001\"".to_owned();
    let reply = Reply::new(Status::OK, recorded[length + 4..].to_vec()).etag(etag);
    let now = Timestamp(u64::try_from(now).unwrap());
    let direct = frame.fields.direct;
    let FrameAnswer { head, payload, outcome } =
        answer::answer(&frame.id, &client, &direct, now, &reply, &envelope);
    assert_eq!((outcome, payload.len()), ((200, 0), 0));
    let (ours, theirs) = (tokens(&head), tokens(recorded));
    assert_eq!(ours[..2], theirs[..2]);
    // The names of the test's own container, and when a service changed, are others; the session
    // token has no range, which clients put in front of it.
    const OTHERS: [u16; 4] = [0x02, 0x17, 0x18, 0x3E];
    // When a service changed, and what the container holds: the recorded server did not say it.
    const ADDED: [u16; 3] = [0x02, 0x0E, 0x0F];
    assert!(ours.contains(&(0x3E, TokenType::String, b"-1#1".to_vec())));
    for token in theirs.iter().filter(|token| !OTHERS.contains(&token.0) && token.0 != 0x51) {
        assert!(ours.contains(token), "{token:?} is not in {ours:?}");
    }
    for token in &ours {
        let is_theirs = theirs.iter().any(|other| other.0 == token.0);
        assert!(is_theirs || ADDED.contains(&token.0), "{token:?}");
    }
    let end = head_length(&head).unwrap().unwrap();
    assert_eq!(head[end..], recorded[length..]);
}

#[tokio::test]
async fn large_payloads_stay_apart_and_long_texts_are_left_out() {
    let client = client().await;
    let (frame, _) = read("Document-Read-req", &client);
    let envelope = Envelope {
        activity: String::new(),
        container: None,
        is_container: false,
        served: &Served::default(),
        elapsed: Duration::ZERO,
    };
    let reply = Reply::ok(vec![b'x'; 1 << 20])
        .header(ReplyHeader::QueryMetrics, "x".repeat(70_000))
        .number(ReplyHeader::ItemCount, 3)
        .header(ReplyHeader::OfferReplacePending, "True");
    let direct = frame.fields.direct;
    let sent = answer::answer(&frame.id, &client, &direct, Timestamp(0), &reply, &envelope);
    assert_eq!(sent.payload.len(), 1 << 20);
    let found = tokens(&sent.head);
    let value = |id: u16| found.iter().find(|token| token.0 == id).map(|token| token.2.as_slice());
    assert_eq!(value(0x28), None);
    assert_eq!((value(0x14), value(0x31)), (Some(&[3, 0, 0, 0][..]), Some(&[1][..])));
    // Nothing was ever at position 0.
    assert_eq!(value(0x13), Some(&1i64.to_le_bytes()[..]));
    let length = head_length(&sent.head).unwrap().unwrap();
    assert_eq!(sent.head[length..], (1u32 << 20).to_le_bytes());
}

#[test]
fn connections_are_told_apart_by_their_first_bytes() {
    assert!(is_direct(*b"\x8a\0\0\0\0\0\0\0"));
    assert!(!is_direct(*b"GET / HT") && !is_direct(*b"\x8a\0\0\0\x03\0\x03\0"));
}
