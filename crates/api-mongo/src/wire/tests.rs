use proptest::prelude::*;

use super::*;

/// Messages that drivers sent, and replies as a server sends them.
const PING: &str = "330000000100000000000000dd07000000000000001e0000001070696e67000100000002246462\
                    000600000061646d696e0000";
const PING_WITH_CHECKSUM: &str = "370000000100000000000000dd07000001000000001e0000001070696e6700\
                                  0100000002246462000600000061646d696e0000327e69a8";
const OK: &str = "260000000200000001000000dd070000000000000011000000016f6b00000000000000f03f00";
const INSERT: &str = "680000000300000000000000dd07000000000000002800000002696e7365727400020000006300\
                      086f7264657265640001022464620002000000740000012a000000646f63756d656e7473000e00\
                      0000105f69640001000000000e000000105f6964000200000000";
const QUERY: &str = "440000000400000000000000d40700000000000061646d696e2e24636d640000000000ffffffff\
                     1d0000001069736d617374657200010000000868656c6c6f4f6b000100";
const REPLY: &str = "35000000050000000400000001000000080000000000000000000000000000000100000011000000\
                     016f6b00000000000000f03f00";
const ZLIB: &str = "3e0000000600000000000000dc070000dd0700002300000002789c6360000239201628c8cc4b6760\
                    04b29854529218d8808cc494dccc3c06060043dd04d9";

const MSG: Form = Form::Msg { is_unacknowledged: false, allows_exhaust: false };

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn read(hex: &str) -> Message {
    Message::read(bytes(hex)).unwrap()
}

fn written(answer: &Answer<'_>) -> Vec<u8> {
    let mut out = vec![7];
    answer.write(&mut out);
    assert_eq!(out.remove(0), 7, "what was there stays");
    out
}

fn answer(body: &[u8]) -> Answer<'_> {
    Answer { request_id: 2, response_to: 1, form: MSG, more_to_come: false, compressor: None, body }
}

#[test]
fn a_ping_is_read_with_and_without_checksum_and_compressed() {
    let ping = read(PING);
    assert_eq!((ping.request_id, ping.form, ping.sequences.len()), (1, MSG, 0));
    assert_eq!(
        (ping.body.len(), &ping.body[5..9], ping.database.as_deref()),
        (30, &b"ping"[..], None)
    );
    assert_eq!(read(PING_WITH_CHECKSUM), ping);
    let compressed = read(ZLIB);
    assert_eq!((compressed.request_id, compressed.compressor), (6, Some(Compressor::Zlib)));
    assert_eq!(compressed.body, ping.body);
}

#[test]
fn documents_beside_the_body_are_read() {
    let insert = read(INSERT);
    let [sequence] = &insert.sequences[..] else { panic!("{insert:?}") };
    assert_eq!((sequence.identifier.as_str(), sequence.count), ("documents", 2));
    assert_eq!(sequence.documents.iter().map(Bytes::len).collect::<Vec<_>>(), [14, 14]);
    // The order of the sections does not matter.
    let whole = bytes(INSERT);
    let (head, body, rest) = (&whole[..20], &whole[20..61], &whole[61..]);
    assert_eq!(Message::read([head, rest, body].concat().into()), Ok(insert.clone()));
    // A second body does.
    let mut twice = [&whole[..], body].concat();
    twice[0] += u8::try_from(body.len()).unwrap();
    assert_eq!(Message::read(twice.into()), Err(BadMessage::Sections));
}

#[test]
fn a_command_by_op_query_is_read() {
    let hello = read(QUERY);
    assert_eq!((hello.request_id, hello.form), (4, Form::Query));
    assert_eq!((hello.database.as_deref(), hello.body.len()), (Some("admin"), 29));
    let of_collection = QUERY.replace("2e24636d64", "2e2424242424");
    let mut other = bytes(&of_collection).to_vec();
    other[0] += 1;
    assert_eq!(Message::read(other.into()).unwrap().form, Form::OldQuery);
}

#[test]
fn replies_are_written_in_the_form_of_the_request() {
    let ok = bytes(OK);
    let body = &ok[21..];
    assert_eq!(written(&answer(body)), ok);
    let by_query = Answer { request_id: 5, response_to: 4, form: Form::Query, ..answer(body) };
    assert_eq!(written(&by_query), bytes(REPLY));
    let refused = written(&Answer { form: Form::OldQuery, ..by_query });
    assert_eq!(refused[16], 10);
    let more = written(&Answer { more_to_come: true, ..answer(body) });
    assert_eq!((more[16], &more[20..]), (2, &ok[20..]));
}

#[test]
fn whatever_compresses_inflates() {
    let document = bytes(OK).slice(21..);
    for compressor in Compressor::ALL {
        let answer = Answer { compressor: Some(compressor), ..answer(&document) };
        let message = written(&answer);
        assert_eq!(message_length(&message, MESSAGE_BYTES_MAX), Ok(Some(message.len())));
        let message = Message::read(message.into()).unwrap();
        assert_eq!((message.compressor, message.body), (Some(compressor), document.clone()));
        assert_eq!(Compressor::named(compressor.name()), Some(compressor));
    }
    assert_eq!(Compressor::named("none"), None);
}

#[test]
fn a_compressed_message_may_not_lie_about_its_length() {
    let document = bytes(OK).slice(21..);
    for compressor in Compressor::ALL {
        let message = written(&Answer { compressor: Some(compressor), ..answer(&document) });
        for length in [0, 5, 21, 23, 1000, MESSAGE_BYTES_MAX, usize::try_from(i32::MAX).unwrap()] {
            let mut message = message.clone();
            message[20..24].copy_from_slice(&i32::try_from(length).unwrap().to_le_bytes());
            let is_read = Message::read(message.into());
            assert_eq!(is_read, Err(BadMessage::Compression), "{compressor:?} {length}");
        }
    }
    let noop = |length: u8| {
        let ping = bytes(PING);
        let mut message = vec![60, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdc, 7, 0, 0];
        message.extend([0xdd, 7, 0, 0, length, 0, 0, 0, 0]);
        message.extend_from_slice(&ping[16..]);
        Message::read(message.into())
    };
    assert_eq!(noop(35), Ok(read(PING)));
    assert_eq!(noop(36), Err(BadMessage::Compression));
}

#[test]
fn lengths_that_lie_are_refused() {
    assert_eq!(message_length(&[1, 0, 0], 100), Ok(None));
    for (length, expected) in [
        (15, Err(BadMessage::Length)),
        (16, Ok(Some(16))),
        (100, Ok(Some(100))),
        (101, Err(BadMessage::Length)),
        (-1, Err(BadMessage::Length)),
        (i32::MAX, Err(BadMessage::Length)),
    ] {
        assert_eq!(message_length(&i32::to_le_bytes(length), 100), expected, "{length}");
    }
    assert_eq!(message_length(b"GET / HTTP/1.1\r\n", MESSAGE_BYTES_MAX), Err(BadMessage::Length));
    let ping = bytes(PING);
    let with = |at: usize, value: u8| {
        let mut ping = ping.to_vec();
        ping[at] = value;
        Message::read(ping.into())
    };
    assert_eq!(with(0, 50), Err(BadMessage::Length));
    assert_eq!(with(12, 1), Err(BadMessage::OpCode));
    assert_eq!(with(16, 4), Err(BadMessage::Flags));
    assert_eq!(with(18, 2), Ok(read(PING)), "unknown flags that may be ignored");
    assert_eq!(with(20, 2), Err(BadMessage::Sections));
    assert_eq!(with(21, 31), Err(BadMessage::Part));
    assert_eq!(with(21, 4), Err(BadMessage::Part));
    assert_eq!(with(24, 0x80), Err(BadMessage::Part));
    let mut damaged = bytes(PING_WITH_CHECKSUM).to_vec();
    damaged[30] ^= 1;
    assert_eq!(Message::read(damaged.into()), Err(BadMessage::Checksum));
    let exhaust = with(18, 1).unwrap().form;
    assert_eq!(exhaust, Form::Msg { is_unacknowledged: false, allows_exhaust: true });
}

#[test]
fn more_documents_than_allowed_are_counted_and_not_kept() {
    let mut message = bytes(PING).to_vec();
    let mut section = b"documents\0".to_vec();
    for _ in 0..SEQUENCE_DOCUMENTS_MAX + 5 {
        section.extend_from_slice(&[5, 0, 0, 0, 0]);
    }
    message.push(1);
    message.extend_from_slice(&i32::try_from(section.len() + 4).unwrap().to_le_bytes());
    message.extend_from_slice(&section);
    let length = i32::try_from(message.len()).unwrap();
    message[..4].copy_from_slice(&length.to_le_bytes());
    let message = Message::read(message.into()).unwrap();
    let sequence = &message.sequences[0];
    assert_eq!(sequence.count, SEQUENCE_DOCUMENTS_MAX + 5);
    assert_eq!(sequence.documents.len(), SEQUENCE_DOCUMENTS_MAX);
}

proptest! {
    #[test]
    fn any_damage_is_an_error_or_another_message(at in 0..104usize, value: u8, cut in 0..104usize) {
        for hex in [PING, PING_WITH_CHECKSUM, INSERT, QUERY, ZLIB] {
            let mut message = bytes(hex).to_vec();
            if let Some(byte) = message.get_mut(at) {
                *byte = value;
            }
            let _ = Message::read(message.clone().into());
            message.truncate(cut);
            if let Some(length) = message.first_chunk_mut::<4>() {
                *length = i32::try_from(cut).unwrap().to_le_bytes();
            }
            let _ = Message::read(message.into());
        }
    }
}
