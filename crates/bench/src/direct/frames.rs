//! Requests for items as frames, with the tokens that the .NET SDK sends, and answers as replies.

#![expect(clippy::little_endian_bytes, reason = "numbers of frames have their lowest byte first")]

use anyhow::{Context, bail};
use testkit::rntbd::{Answer, Frame, answer, request as token};

use crate::direct::replicas::Replicas;
use crate::request::{Account, Draft, OwnedReply};
use crate::sign::Target;

const ITEM: u16 = 3;

/// What the operation of a draft is called in frames.
fn operation(draft: &Draft<'_>, names: &[&str]) -> anyhow::Result<u16> {
    let is_one = names.len() == 6;
    let has = |name: &str| draft.headers.iter().any(|(header, _)| *header == name);
    Ok(match draft.verb {
        "GET" if is_one => 3,
        "PUT" if is_one => 6,
        "PATCH" if is_one => 2,
        "DELETE" if is_one => 5,
        "POST" if is_one => bail!("no operation has {}", draft.summary()),
        "POST" if has("x-ms-cosmos-is-batch-request") => 37,
        "POST" if has("x-ms-documentdb-is-upsert") => 19,
        "POST" => 1,
        _ => bail!("no operation has {}", draft.summary()),
    })
}

/// The frame of a draft for an item or for the items of one key, signed at `date`. Its last token
/// is its number.
pub fn frame(
    account: &Account,
    draft: &Draft<'_>,
    replicas: &Replicas,
    (number, date): (u32, &str),
) -> anyhow::Result<Vec<u8>> {
    let names: Vec<&str> = draft.path.trim_start_matches('/').split('/').collect();
    let [_, database, _, container, "docs", id @ ..] = names.as_slice() else {
        bail!("{} is not about items", draft.summary())
    };
    let operation = operation(draft, &names)?;
    let target = Target { verb: draft.verb, resource_type: "docs", link: &draft.link };
    let has_payload = !draft.body.is_empty();
    let mut frame = Frame::new(ITEM, operation)
        .bytes(token::RESOURCE_ID, &replicas.rid_bytes)
        .text(token::AUTHORIZATION, &account.key.authorization(target, date))
        .byte(token::PAYLOAD_PRESENT, has_payload.into())
        .small_text(token::DATE, date);
    for (name, value) in &draft.headers {
        frame = match name.to_ascii_lowercase().as_str() {
            "x-ms-documentdb-partitionkey" => frame
                .text(token::REPLICA_PATH, replicas.path_of(value)?)
                .text(token::PARTITION_KEY, value),
            "if-match" => frame.text(token::MATCH, value),
            "x-ms-session-token" => frame.text(token::SESSION_TOKEN, value),
            "x-ms-cosmos-batch-atomic" => frame.byte(token::IS_BATCH_ATOMIC, 1),
            // They are in the operation, or in frames as they are without the header.
            "x-ms-cosmos-is-batch-request"
            | "x-ms-documentdb-is-upsert"
            | "x-ms-cosmos-batch-continue-on-error" => frame,
            other => bail!("no token is known for {other}"),
        };
    }
    frame = frame.text(token::DATABASE_NAME, database).text(token::COLLECTION_NAME, container);
    if let [id] = id {
        frame = frame.text(token::DOCUMENT_NAME, id);
    }
    frame = frame
        .text(token::COLLECTION_RID, &replicas.rid)
        .ulong(token::REMAINING_TIME, 30_000)
        .ulong(token::CLIENT_RETRY_ATTEMPT_COUNT, 0)
        .ulong(token::SDK_SUPPORTED_CAPABILITIES, 9)
        .ulong(token::TRANSPORT_REQUEST_ID, number);
    if has_payload {
        frame = frame.payload(draft.body.clone());
    }
    Ok(frame.to_bytes())
}

/// Gives a frame that [`frame`] made another number.
pub fn renumber(frame: &mut [u8], number: u32) -> anyhow::Result<()> {
    let length = frame.first_chunk().copied().map(u32::from_le_bytes).context("a frame")?;
    let end = usize::try_from(length)?;
    let place = frame.get_mut(end - 4..end).context("a frame with a number")?;
    place.copy_from_slice(&number.to_le_bytes());
    Ok(())
}

/// An answer as the reply of HTTP that says the same.
pub fn reply(answer: &Answer) -> anyhow::Result<OwnedReply> {
    const TEXTS: [(u16, &str); 2] = [
        (answer::ETAG, "etag"),
        (answer::PARTITION_KEY_RANGE_ID, "x-ms-documentdb-partitionkeyrangeid"),
    ];
    const NUMBERS: [(u16, &str); 3] = [
        (answer::LSN, "lsn"),
        (answer::ITEM_LSN, "x-ms-item-lsn"),
        (answer::SUBSTATUS, "x-ms-substatus"),
    ];
    let texts =
        TEXTS.into_iter().filter_map(|(id, name)| Some((name, answer.text(id)?.to_owned())));
    let numbers =
        NUMBERS.into_iter().filter_map(|(id, name)| Some((name, answer.number(id)?.to_string())));
    let headers = texts.chain(numbers).map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(OwnedReply {
        status: answer.status.try_into().context("a status")?,
        headers,
        body: answer.payload.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_renumbered_where_its_number_is() {
        let frame = Frame::new(ITEM, 1).ulong(token::TRANSPORT_REQUEST_ID, 1).payload("{}");
        let mut bytes = frame.to_bytes();
        renumber(&mut bytes, 0x0102_0304).unwrap();
        let wanted = Frame::new(ITEM, 1).ulong(token::TRANSPORT_REQUEST_ID, 0x0102_0304);
        assert_eq!(bytes, wanted.payload("{}").to_bytes());
        assert!(renumber(&mut bytes[..2], 1).is_err());
    }
}
