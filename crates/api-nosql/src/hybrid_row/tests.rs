#![expect(clippy::little_endian_bytes, reason = "HybridRow is little-endian")]
use std::path::{Path, PathBuf};

use model::{Charge, limits};

use super::crc::crc32;
use super::read::Rows;
use super::schema::{FIELDS_MAX, Kind, OPERATION, Place, RESULT, Schema};
use super::{
    RECORD_BYTES, ResultRow, ResultRows, Row, RowError, SEGMENT_BYTES, Scalar, read_operations,
    rewrite, write,
};

/// The recorded bodies of a kind, by name and without their ends.
fn recorded(kind: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hybridrow").join(kind);
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "hex")).collect();
    files.sort();
    assert!(!files.is_empty());
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), of_hex(&std::fs::read_to_string(path).unwrap()))).collect()
}

fn of_hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn rows_of<'b>(schema: &'static Schema, body: &'b [u8]) -> Result<Vec<Row<'b>>, RowError> {
    let mut rows = Rows::new(schema, body)?;
    std::iter::from_fn(|| rows.next().transpose()).collect()
}

fn error_of(schema: &'static Schema, body: &[u8]) -> Option<RowError> {
    rows_of(schema, body).err()
}

/// The fields of a body's rows as the descriptions beside the recorded bodies list them, without
/// the values of texts.
fn outline(schema: &'static Schema, body: &[u8]) -> Vec<String> {
    let rows = rows_of(schema, body).unwrap();
    let fields = rows.iter().flat_map(|row| schema.fields.iter().zip(row).enumerate());
    let line = |(at, (field, value)): (usize, (&super::schema::Field, &Option<Scalar<'_>>))| {
        let length = |bytes: &[u8]| format!("{}: length {}", field.name, bytes.len());
        let code = match field.kind {
            Kind::Bool => 3,
            Kind::Int32 => 7,
            Kind::UInt32 => 11,
            Kind::Float64 => 16,
            Kind::Text => 20,
            Kind::Binary => 21,
        };
        Some(match ((*value)?, field.place) {
            (Scalar::Int32(number), Place::Fixed) => format!("{} = {number}", field.name),
            (Scalar::Text(text), Place::Variable) => length(text.as_bytes()),
            (Scalar::Binary(bytes), Place::Variable) => length(bytes),
            (_, Place::Sparse) => format!("sparse {} (token {}, type {code})", field.name, at + 1),
            other => panic!("{other:?}"),
        })
    };
    fields.filter_map(line).collect()
}

/// The same lines of a description.
fn described(kind: &str, name: &str) -> Vec<String> {
    let file = format!("../../golden/hybridrow/{kind}/{name}.txt");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let lines = text.lines().filter_map(|line| Some(line.trim().split_once(' ')?.1));
    let field = |line: &str| {
        let is_length = line.contains(": length ");
        let is_fixed = ["operationType = ", "resourceType = ", "statusCode = ", "subStatusCode = "]
            .iter()
            .any(|start| line.starts_with(start));
        match line.starts_with("sparse ") {
            true => line.split_once(" = ").map(|(start, _)| start.to_owned()),
            false => (is_length || is_fixed).then(|| line.to_owned()),
        }
    };
    lines.filter_map(field).collect()
}

#[test]
fn recorded_requests_are_read_and_written_again() {
    let all = recorded("requests");
    assert_eq!(all.len(), 22);
    for (name, body) in all {
        assert_eq!(outline(&OPERATION, &body), described("requests", &name), "{name}");
        assert_eq!(rewrite(&OPERATION, &body), Some(body), "{name}");
    }
}

#[test]
fn recorded_answers_are_read_and_written_again() {
    let all = recorded("responses");
    assert_eq!(all.len(), 11);
    for (name, body) in all {
        assert_eq!(outline(&RESULT, &body), described("responses", &name), "{name}");
        assert_eq!(rewrite(&RESULT, &body), Some(body), "{name}");
    }
}

#[test]
fn recorded_requests_are_operations() {
    let all = recorded("requests");
    let operations = |name: &str| {
        let (_, body) = all.iter().find(|(found, _)| found.starts_with(name)).unwrap();
        read_operations(body, limits::BATCH_OPERATIONS_MAX)
    };
    let every = operations("02").unwrap();
    let kinds: Vec<_> = every.iter().map(|operation| operation.operation_type.as_ref()).collect();
    assert_eq!(kinds, ["Create", "Upsert", "Replace", "Read", "Patch", "Delete"]);
    let ids: Vec<_> = every.iter().map(|operation| operation.id.as_deref()).collect();
    assert_eq!(ids, [None, None, Some("2"), Some("4"), Some("5"), Some("6")]);
    assert_eq!(every[0].resource_body, Some(&br#"{"id":"10","pk":"A"}"#[..]));
    assert!(every[2].if_match.as_deref().unwrap().starts_with("\"00000001-"));
    let minimal: Vec<_> = operations("03").unwrap().iter().map(|one| one.is_minimal).collect();
    assert_eq!(minimal, [false, true, false, true, false, false, true]);
    for (name, wanted) in [("04", "binary id"), ("05", "effective partition key")] {
        let error = operations(name).unwrap_err();
        assert_eq!(error.status(), 400, "{name}");
        assert!(error.message().contains(wanted), "{name}: {}", error.message());
    }
    assert_eq!(operations("12").unwrap().len(), 100);
    assert_eq!(operations("16").unwrap()[0].id.as_deref(), Some(""));
    assert_eq!(operations("17").unwrap()[0].partition_key.as_deref(), Some("[\"A\"]"));
    assert_eq!(operations("22").unwrap()[0].resource_body.unwrap()[0], 0x80);
}

/// Answers made by hand: what this reader, which is stricter than the SDK's, makes of them.
#[test]
fn variants_are_read_or_refused() {
    let refused = [
        ("08-", RowError::Type(30)),
        ("09-", RowError::Type(32)),
        ("10-", RowError::Repeated("resourceBody")),
        ("14-", RowError::Checksum),
        ("15-", RowError::Checksum),
        ("16-", RowError::Truncated),
        ("17-", RowError::Truncated),
        ("18-", RowError::UnexpectedRow(0)),
        ("19-", RowError::UnexpectedRow(0)),
        ("23-", RowError::FieldType("requestCharge")),
        ("24-", RowError::FieldType("requestCharge")),
        ("29-", RowError::Presence),
        ("30-", RowError::UnexpectedRow(2_145_473_648)),
        ("37-", RowError::Text),
        ("38-", RowError::NoSegment),
        ("39-", RowError::Truncated),
        ("40-", RowError::Truncated),
        ("41-", RowError::Segment),
        ("42-", RowError::Segment),
        ("43-", RowError::Segment),
        ("49-", RowError::Repeated("requestCharge")),
    ];
    let all = recorded("variants");
    assert_eq!(all.len(), 50);
    for (name, body) in all {
        let expected = refused.iter().find(|(start, _)| name.starts_with(start));
        assert_eq!(error_of(&RESULT, &body), expected.map(|(_, error)| *error), "{name}");
    }
}

/// A body of one operation row with these bytes behind its header.
fn body_of(row: &[u8]) -> Vec<u8> {
    let mut whole = vec![0x81];
    whole.extend_from_slice(&OPERATION.id.to_le_bytes());
    whole.extend_from_slice(row);
    let mut out = write::begin();
    out.push(0x81);
    out.extend_from_slice(&super::RECORD_ID.to_le_bytes());
    out.extend_from_slice(&u32::try_from(whole.len()).unwrap().to_le_bytes());
    out.extend_from_slice(&crc32(&whole).to_le_bytes());
    out.extend_from_slice(&whole);
    out
}

/// Presence byte and fixed fields of an operation.
fn start(presence: u8, kind: i32) -> Vec<u8> {
    let mut out = vec![presence];
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&2_i32.to_le_bytes());
    out
}

#[test]
fn bad_operations_are_refused_in_words() {
    let with = |presence, kind, more: &[u8]| [&start(presence, kind)[..], more].concat();
    let long = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    for (row, wanted) in [
        (with(0x03, 18, &[]), "no operation type 18"),
        (with(0x03, -1, &[]), "no operation type -1"),
        (with(0x02, 0, &[]), "has no type"),
        (with(0x01, 0, &[]), "other than an item"),
        (with(0x83, 0, &[]), "fields that its schema lacks"),
        (with(0x13, 2, &[0x7F]), "ends within a row"),
        (with(0x13, 2, &long), "number is too long"),
        (with(0x13, 2, &[1, 0xFF]), "not UTF-8"),
        (with(0x03, 2, &[30, 14, b'a']), "unsupported type 30"),
        (with(0x03, 2, &[99, 14, b'a']), "unsupported type 99"),
        (with(0x03, 2, &[1, 9]), "'ifMatch' has a value of another type"),
        (with(0x03, 2, &[20, 9, 0, 20, 9, 0]), "'ifMatch' is repeated"),
        (with(0x03, 2, &[20, 5, 0]), "'id' is repeated"),
        (with(0x03, 2, &[7, 11, 1, 0, 0, 0]), "time to live"),
        (with(0x03, 2, &[20]), "ends within a row"),
    ] {
        let body = body_of(&row);
        let error = read_operations(&body, 100).unwrap_err();
        assert_eq!(error.status(), 400, "{wanted}");
        assert!(error.message().contains(wanted), "{wanted}: {}", error.message());
    }
    // Of another resource: a stored procedure.
    let mut other = start(0x03, 2);
    other[5] = 3;
    assert!(read_operations(&body_of(&other), 100).is_err());
    // What the other half of the table says is accepted.
    for more in [&[2, 12][..], &[1, 14, b'a'], &[14, 15, b'a', b'b', 0x85, 1], &[19, 14, b'g']] {
        let padding: &[u8] = if more[0] == 19 { &[0; 16] } else { &[] };
        let row = [&start(0x03, 2)[..], more, padding].concat();
        assert!(!read_operations(&body_of(&row), 100).unwrap()[0].is_minimal, "{more:?}");
    }
}

#[test]
fn operations_are_counted_over_segments_and_up_to_the_limit() {
    let (_, hundred) = recorded("requests").into_iter().find(|(n, _)| n.starts_with("12")).unwrap();
    let twice = [hundred.clone(), hundred].concat();
    assert_eq!(read_operations(&twice, 200).unwrap().len(), 200);
    // One more than the limit, whatever follows.
    assert_eq!(read_operations(&twice, 100).unwrap().len(), 101);
    let (_, one) = recorded("requests").into_iter().find(|(n, _)| n.starts_with("01")).unwrap();
    let mut commented = one[..SEGMENT_BYTES].to_vec();
    commented[6..10].copy_from_slice(&15_u32.to_le_bytes());
    commented.extend_from_slice(b"\x14\x02\x02hi");
    commented.extend_from_slice(&one[SEGMENT_BYTES..]);
    assert_eq!(read_operations(&commented, 100).unwrap().len(), 1);
}

#[test]
fn results_have_the_form_that_the_sdk_accepts() {
    let bytes = |result: &ResultRow<'_>| {
        let mut out = ResultRows::default();
        out.push(result);
        out.finish()
    };
    let failed = ResultRow {
        status: 412,
        substatus: 1110,
        charge: Charge::milli(1240),
        ..ResultRow::default()
    };
    let expected = "81F0D8FF7F010A000000 81F1D8FF7F18000000E283F705 \
                    817154E17F039C010000560400001006D7A3703D0AD7F33F";
    assert_eq!(bytes(&failed), of_hex(expected));
    let throttled = ResultRow {
        status: 429,
        substatus: 3200,
        retry_after_ms: Some(700),
        charge: Charge::milli(380),
        ..ResultRow::default()
    };
    let (_, recorded) =
        recorded("responses").into_iter().find(|(n, _)| n.starts_with("08")).unwrap();
    assert_eq!(bytes(&throttled), recorded);
    let item = ResultRow { status: 200, etag: Some("\"e\""), body: Some(b""), ..failed };
    let written = bytes(&item);
    let rows = rows_of(&RESULT, &written).unwrap();
    let expected: Row<'_> = {
        let mut row = [None; FIELDS_MAX];
        row[0] = Some(Scalar::Int32(200));
        row[1] = Some(Scalar::Int32(1110));
        row[2] = Some(Scalar::Text("\"e\""));
        row[3] = Some(Scalar::Binary(b""));
        row[5] = Some(Scalar::Float64(1.24));
        row
    };
    assert_eq!(rows, [expected]);
}

/// Small seeded randomness.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// Puts the right checksum into every record that can be found.
fn mend(body: &mut [u8]) {
    let mut at = SEGMENT_BYTES;
    while let Some(record) = body.get(at..at + RECORD_BYTES) {
        let length = u32::from_le_bytes(record[5..9].try_into().unwrap()) as usize;
        let Some(row) = body.get(at + RECORD_BYTES..).and_then(|rest| rest.get(..length)) else {
            return;
        };
        let checksum = crc32(row).to_le_bytes();
        body[at + 9..at + RECORD_BYTES].copy_from_slice(&checksum);
        at += RECORD_BYTES + length;
    }
}

#[test]
fn damaged_bodies_are_read_or_refused() {
    let all = recorded("requests");
    let mut chance = Chance(0x5EED);
    let (mut read, mut refused) = (0, 0);
    for round in 0..60_000 {
        let (_, body) = &all[round % all.len()];
        // Long bodies are damaged near their start, where their structure is.
        let mut body = body[..body.len().min(2_000)].to_vec();
        match round % 3 {
            0 => body.truncate(chance.below(body.len())),
            1 => {
                for _ in 0..=chance.below(4) {
                    let at = chance.below(body.len());
                    body[at] = u8::try_from(chance.below(256)).unwrap();
                }
            }
            _ => {
                let at = (SEGMENT_BYTES + RECORD_BYTES) + chance.below(body.len() - 23);
                body[at] = u8::try_from(chance.below(256)).unwrap();
                mend(&mut body);
            }
        }
        match read_operations(&body, limits::BATCH_OPERATIONS_MAX) {
            Ok(operations) => {
                assert!(operations.len() <= limits::BATCH_OPERATIONS_MAX + 1);
                read += 1;
            }
            Err(error) => {
                assert_eq!(error.status(), 400);
                refused += 1;
            }
        }
    }
    assert_eq!(read + refused, 60_000);
    assert!(read > 1_000 && refused > 30_000, "{read} {refused}");
}
