//! The functions that the fuzz targets run on an input. Each function panics when a promise is
//! broken.
//!
//! This file is compiled twice: into the fuzz targets, and into a test that runs the inputs saved
//! under `fuzz/corpus/<target>/`.

use std::cell::RefCell;
use std::sync::Arc;

use account::{Key, KeyRing, Scheme};
use api_nosql::fuzzing::{Limits, decode, encode};
use api_nosql::{Account, Consistency, Greeting, Service};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use lang::nosql::{self, Environment, PlanScope};
use lang::odata::EntityFilter;
use lang::{SyntaxError, SyntaxErrorKind};
use query::exec::memory::Values;
use query::exec::{Limits as PageLimits, Position, Row};
use testkit::harness::{Harness, START_SECONDS};
use testkit::rntbd::{Answer, Frame, request as request_token};

/// Requests one service answers before it is replaced, so that its data stays small.
const REQUESTS_PER_SERVICE: u32 = 2000;

/// The nesting limit of the other parser.
const JSON_DEPTH_MAX: usize = 127;

/// Runs a parser on one input.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("path", path),
    ("authorization", authorization),
    ("json", json),
    ("binary_json", binary_json),
    ("bson", bson),
    ("hybrid_row", hybrid_row),
    ("request", request),
    ("query", query),
    ("filter", filter),
    ("frame", frame),
    ("tokens", tokens),
    ("addresses", addresses),
];

/// The path of a request is an address or refused.
pub fn path(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        api_nosql::fuzzing::path(text);
    }
}

/// An authorization header has the protocol's form or is refused.
pub fn authorization(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        api_nosql::fuzzing::authorization(text);
    }
}

/// Text that parses as JSON is written as equivalent JSON.
pub fn json(input: &[u8]) {
    let Ok(parsed) = model::json::parse(input, JSON_DEPTH_MAX) else { return };
    let written = model::json::to_string(&parsed.value);
    let again = model::json::parse(written.as_bytes(), JSON_DEPTH_MAX).expect("our text is JSON");
    assert!(again.is_faithful, "our own text repeats a name");
    assert_eq!(model::json::to_string(&again.value), written);
    serde_json::from_str::<serde_json::Value>(&written).expect("others read it too");
}

/// Bytes that are checked as BSON are written as BSON that reads the same, and are read in part as
/// in whole. Damaged ones are read as far as they can be.
pub fn bson(input: &[u8]) {
    use model::bson::{self, BsonLimits, RawDocument};
    let stored = RawDocument::of_stored(input);
    let built = stored.to_object();
    let fields: Vec<_> = stored.iter().collect();
    let values: Vec<_> = fields.iter().map(|field| field.value().to_value()).collect();
    let names: Vec<_> = fields.iter().map(|field| field.name().to_owned()).collect();
    if bson::check(input, BsonLimits::DOCUMENT).is_err() {
        return;
    }
    let object = built.expect("what was checked reads");
    assert!(values.iter().all(Result::is_ok), "what was checked reads value by value");
    let mut written = Vec::new();
    bson::write(&object, &mut written).expect("names of BSON have no zeros");
    let again = bson::check(&written, BsonLimits::DOCUMENT).expect("our own bytes are BSON");
    let mut rewritten = Vec::new();
    bson::write(&again.to_object().expect("it reads"), &mut rewritten).expect("it is written");
    assert_eq!(written, rewritten);
    for name in names.into_iter().take(8) {
        let mask = [(name.clone(), model::json::FieldMask::All)].to_vec();
        let mask = model::json::FieldMask::Fields(mask);
        let part = bson::read_part(input, &mask).expect("what was checked reads in part");
        assert_eq!(format!("{:?}", part.field(&name)), format!("{:?}", object.get(&name)));
        let path = stored.at_path([name.as_str()]).expect("a name that was read is found");
        let value = path.to_value().expect("what was checked reads");
        assert_eq!(format!("{:?}", Some(&value)), format!("{:?}", object.get(&name)));
    }
    for (_, value) in object.iter() {
        let Ok(key) = bson::row_key(value) else { continue };
        let text = bson::item_id(value).expect("a value that was read is written");
        let id = bson::id_of_item(&text).expect("our own text is an id");
        assert_eq!(bson::row_key(&id), Ok(key));
    }
}

/// A buffer that decodes as binary JSON is encoded as equivalent binary JSON.
pub fn binary_json(input: &[u8]) {
    let Ok(value) = decode(input, Limits::ITEM) else { return };
    let encoded = encode(&value);
    let again = decode(&encoded, Limits::ITEM).expect("our own encoding is binary JSON");
    assert_eq!(encode(&again), encoded);
}

/// A body of rows is read as operations, or refused, in bounded memory. What can be read is written
/// as rows that read the same. That holds of rows of operations and of results. Checksums are put
/// right first, since no chance finds them.
pub fn hybrid_row(input: &[u8]) {
    let mended = with_checksums(input);
    for body in [input, &mended[..]] {
        if let Some(operations) = api_nosql::fuzzing::operations(body) {
            assert!((1..=100).contains(&operations), "{operations} operations");
        }
        for rewrite in [api_nosql::fuzzing::rewrite_operations, api_nosql::fuzzing::rewrite_results]
        {
            if let Some(written) = rewrite(body) {
                assert_eq!(rewrite(&written), Some(written), "our own rows read otherwise");
            }
        }
    }
}

/// The input with the right checksum in every record that can be found.
#[allow(clippy::little_endian_bytes, reason = "HybridRow is little-endian")]
fn with_checksums(input: &[u8]) -> Vec<u8> {
    const SEGMENT_BYTES: usize = 10;
    const RECORD_BYTES: usize = 13;
    let mut body = input.to_vec();
    let mut at = SEGMENT_BYTES;
    while let Some(record) = body.get(at..at + RECORD_BYTES) {
        let length = u32::from_le_bytes([record[5], record[6], record[7], record[8]]) as usize;
        let row = body.get(at + RECORD_BYTES..).and_then(|rest| rest.get(..length));
        let Some(row) = row else { break };
        let checksum = api_nosql::fuzzing::crc32(row).to_le_bytes();
        body[at + 9..at + RECORD_BYTES].copy_from_slice(&checksum);
        at += RECORD_BYTES + length;
    }
    body
}

/// A text that parses as a query is printed as an equivalent query. It fails or runs to its end,
/// with the same rows in pages of any size. The rewritten query that clients send to each range is
/// a query too.
pub fn query(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(parsed) = accepted(nosql::parse(text), text) else { return };
    let printed = nosql::print::query_text(&parsed);
    if let Some(again) = unless_too_large(nosql::parse(&printed), &printed) {
        assert_eq!(nosql::print::query_text(&again), printed);
    }
    let parameters = [("@p".to_owned(), model::Value::from("a"))];
    if let Some(plan) = accepted(nosql::compile(text, &parameters), text) {
        let has_chance = text.to_ascii_uppercase().contains("RAND");
        let (whole, in_pages) = (rows(&plan, usize::MAX), rows(&plan, 1));
        assert!(whole == in_pages || has_chance, "{whole:?} and {in_pages:?}");
    }
    let key = [model::PropertyPath::parse("/pk").expect("a path")];
    let scope = PlanScope { key_paths: &key, has_partition_key: false };
    let plan = nosql::gateway_plan(&Environment::default(), text, &parameters, scope);
    if let Some(plan) = accepted(plan, text) {
        let sent =
            plan.rewritten_query.replace("{documentdb-formattableorderbyquery-filter}", "true");
        if !sent.is_empty() && !sent.contains("udf.") {
            unless_too_large(nosql::compile(&sent, &parameters), &sent);
        }
    }
}

/// A text that compiles as a filter of the Table API is true or false for every entity, and its
/// negation is the opposite. All entities that satisfy it have keys in its key ranges.
pub fn filter(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(filter) = accepted(EntityFilter::compile(text), text) else { return };
    let negation = match text.trim().is_empty() {
        true => None,
        // The negation may be too deep by one.
        false => EntityFilter::compile(&format!("not ({text})")).ok(),
    };
    let entities = [
        r#"{"id":"r","$id":"r","$pk":"p","a":{"$t":16,"$v":1},"b":{"$t":8,"$v":true}}"#,
        r#"{"id":"s","$id":"s","$pk":"p","a":{"$t":2,"$v":"x"},"c":{"$t":1,"$v":1.5}}"#,
        r#"{"id":"\u0001","$id":"","$pk":"","a":{"$t":18,"$v":"00000000000000000001"}}"#,
    ];
    for entity in entities {
        let item = model::json::parse(entity.as_bytes(), 8).expect("an item").value;
        let key = |name| item.field(name).and_then(model::Value::as_str).expect("a key").to_owned();
        let (partition_key, row_key) = (key("$pk"), key("$id"));
        let passes = |filter: &EntityFilter| {
            filter.keys().contains(&partition_key, &row_key)
                && filter.plan().matches(&item).expect("filters are cheap")
        };
        let is_opposite = negation.as_ref().is_none_or(|not| passes(not) != passes(&filter));
        assert!(is_opposite, "{text} and its negation agree on {entity}");
    }
}

/// The result of compiling a text. Positions of errors are within the text.
fn accepted<T>(compiled: Result<T, SyntaxError>, text: &str) -> Option<T> {
    compiled
        .map_err(|error| {
            assert!(error.start <= error.end && error.end <= text.encode_utf16().count());
            assert!(!error.message.is_empty());
        })
        .ok()
}

/// The result of compiling a generated text, unless it has more parentheses than a text may have.
fn unless_too_large<T>(compiled: Result<T, SyntaxError>, text: &str) -> Option<T> {
    match compiled {
        Ok(compiled) => Some(compiled),
        Err(error) if error.kind == SyntaxErrorKind::NotSupported => None,
        Err(error) => panic!("{error:?} in our own {text}"),
    }
}

/// All rows of a query over a few items, or the error.
fn rows(plan: &query::Plan, rows_max: usize) -> Result<Vec<String>, String> {
    let items = [
        r#"{"id":"1","pk":"a","n":1,"s":"text","a":[1,"two",[3],{"b":4}],"o":{"x":null}}"#,
        r#"{"id":"2","pk":"b","n":-2.5,"s":"Text","a":[],"o":{"x":true,"y":[1]}}"#,
        r#"{"id":"3","pk":"a"}"#,
    ];
    let value = |text: &&str| model::json::parse(text.as_bytes(), 16).expect("an item").value;
    let mut source = Values::new(items.iter().map(value).collect());
    let mut all = Vec::new();
    let mut position = Position::default();
    loop {
        let limits = PageLimits { rows_max, bytes_max: usize::MAX };
        let (rows, next) =
            source.page(plan, position, limits).map_err(|error| error.to_string())?;
        assert!(rows.len() <= rows_max, "more rows than were asked for");
        all.extend(rows.into_iter().map(|row| match row {
            Row::WholeItem(value) => model::json::to_string(&value),
            Row::Json(text) => String::from_utf8(text).expect("rows are JSON"),
        }));
        let Some(next) = next else { return Ok(all) };
        position = next;
    }
}

/// Whatever the request, the server answers with a status other than a server error, and an error
/// has a JSON body with a message.
///
/// An input is a minimal request: method and path in the first line, headers below it, an empty
/// line, the body. It is signed here, so that it passes authentication.
pub fn request(input: &[u8]) {
    let Some(request) = parse_request(input) else { return };
    let (status, body) = SUBJECT.with_borrow_mut(|subject| {
        if let Some(used_up) = subject.take_if(|subject| subject.requests_left == 0) {
            used_up.close();
        }
        subject.get_or_insert_with(Subject::new).answer(request)
    });
    assert!(status < 500, "answered {status}: {}", String::from_utf8_lossy(&body));
    if status >= 400 {
        let error: serde_json::Value = serde_json::from_slice(&body).expect("errors are JSON");
        assert!(error["message"].is_string(), "no message in {error}");
    }
}

/// A frame of Direct mode is refused, or answered without a server error. The answer can be read,
/// and its first tokens are those that clients need to match it.
///
/// An input is a frame: head, length of the payload, payload. Its signature holds if it is that of
/// a saved input.
pub fn frame(input: &[u8]) {
    let Ok(Some(length)) = api_nosql::head_length(input) else { return };
    let Some((head, payload)) = input.split_at_checked(length) else { return };
    let payload = payload.get(4..).unwrap_or_default();
    SUBJECT.with_borrow_mut(|subject| {
        if let Some(used_up) = subject.take_if(|subject| subject.requests_left == 0) {
            used_up.close();
        }
        subject.get_or_insert_with(Subject::new).answer_frame(head, payload);
    });
}

/// Tokens behind those that every request needs: the frame is refused or answered.
#[allow(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]
pub fn tokens(input: &[u8]) {
    const ITEM: u16 = 3;
    for operation in [1, 3, 4, 15, 37] {
        let base = Frame::new(ITEM, operation).ulong(request_token::TRANSPORT_REQUEST_ID, 1);
        let mut head = base.byte(request_token::PAYLOAD_PRESENT, 0).to_bytes();
        head.extend_from_slice(input);
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        head[..4].copy_from_slice(&length.to_le_bytes());
        frame(&head);
    }
}

/// The query of a request for addresses is refused or answered.
pub fn addresses(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    request(format!("GET /addresses/?{text}\n\n").as_bytes());
}

thread_local! {
    static SUBJECT: RefCell<Option<Subject>> = const { RefCell::new(None) };
}

/// A service in memory with a database `d` and a container `c`.
struct Subject {
    runtime: tokio::runtime::Runtime,
    service: Arc<Service>,
    harness: Harness,
    requests_left: u32,
}

impl Subject {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let harness = runtime.block_on(async { Harness::in_memory() });
        let account = Account {
            name: "fuzz".to_owned(),
            keys: KeyRing::single(Key::well_known()),
            public_endpoint: None,
            region: "Local".to_owned(),
            consistency: Consistency::Session,
            local_auth: true,
            direct: api_nosql::Direct::default(),
        };
        let service = Service::new(harness.engine.clone(), account);
        let requests_left = REQUESTS_PER_SERVICE;
        let mut subject = Self { runtime, service, harness, requests_left };
        for (line, body) in [
            ("POST /dbs", r#"{"id":"d"}"#),
            (
                "POST /dbs/d/colls",
                r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
                    "changeFeedPolicy":{"retentionDuration":10}}"#,
            ),
            ("POST /dbs/d/colls/c/docs", r#"{"id":"1","pk":"a","n":1,"list":[1,"two"]}"#),
        ] {
            let text = format!("{line}\nx-ms-documentdb-partitionkey: [\"a\"]\n\n{body}");
            let request = parse_request(text.as_bytes()).expect("a request");
            assert_eq!(subject.answer(request).0, 201, "{line}");
        }
        subject
    }

    /// Ends its threads, which would continue otherwise.
    fn close(self) {
        self.runtime.block_on(self.harness.engine.close()).expect("an engine in memory closes");
    }

    fn answer(&mut self, request: Request<Full<Bytes>>) -> (u16, Bytes) {
        self.requests_left -= 1;
        self.runtime.block_on(async {
            let response = self.service.serve(request, Scheme::Http).await;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.expect("a body in memory");
            (status, body.to_bytes())
        })
    }
}

impl Subject {
    fn answer_frame(&mut self, head: &[u8], payload: &[u8]) {
        self.requests_left -= 1;
        let head = Bytes::copy_from_slice(head);
        if let Greeting::Welcome(..) = self.service.greet(&head) {
            return;
        }
        let greeting = self.service.greet(&Frame::context().to_bytes());
        let Greeting::Welcome(client, _) = greeting else { panic!("the handshake is refused") };
        let Ok(frame) = api_nosql::Frame::read(head, &client) else { return };
        let payload = Full::new(Bytes::copy_from_slice(payload));
        let service = Arc::clone(&self.service);
        let served = service.serve_frame(frame, payload, Arc::from(client), Scheme::Https.into());
        let sent = self.runtime.block_on(served);
        assert!(sent.outcome.0 < 500, "answered {:?}", sent.outcome);
        let bytes = [sent.head, sent.payload.to_vec()].concat();
        let answer = Answer::read(&mut &bytes[..]).expect("a whole answer");
        let first: Vec<u16> = answer.tokens.iter().take(2).map(|token| token.0).collect();
        assert_eq!(first, [0x35, 0x00]);
    }
}

/// A signed request; `None` if hyper would have refused the input.
fn parse_request(input: &[u8]) -> Option<Request<Full<Bytes>>> {
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((input, &[][..]), |at| (&input[..at], &input[at + 2..]));
    let head = std::str::from_utf8(head).ok()?;
    let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
    let (method, path) = line.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for header in headers.lines() {
        let (name, value) = header.split_once(": ")?;
        request = request.header(name, value);
    }
    let (resource_type, link) = signed_parts(path);
    let signed = testkit::http::sign(
        Key::well_known().expose(),
        method,
        resource_type,
        &link,
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(START_SECONDS),
    );
    request =
        request.header("x-ms-date", signed.date).header("authorization", signed.authorization);
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

/// The signed parts for a path of plain names, or for that of addresses.
fn signed_parts(path: &str) -> (&str, String) {
    if let Some((_, query)) = path.split_once("/addresses/?") {
        let of = query.split('&').find_map(|field| field.strip_prefix("$resolveFor="));
        let container = of.and_then(|of| of.split("%2f").nth(3)).unwrap_or_default();
        let link = container.replace("%3d", "=").to_lowercase();
        return if link.is_empty() { ("dbs", link) } else { ("docs", link) };
    }
    let path = path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.len() {
        0 => ("", String::new()),
        6 if segments[4] == "operations" => ("colls", segments[..4].join("/")),
        count if count % 2 == 1 => (segments[count - 1], segments[..count - 1].join("/")),
        count => (segments[count - 2], segments.join("/")),
    }
}
