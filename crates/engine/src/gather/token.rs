//! Continuation tokens of queries over several partitions. As those of one partition they hold
//! positions. Behind equal sort keys they also hold the range of the hash line of the last row,
//! since rows of other ranges come before or after all of that range.

use model::{ContainerRid, Epk, EpkRange, limits};
use query::exec::{Position, RowPosition};

use crate::continuation::{Fields, TokenKey};
use crate::{Error, QueryLimit};

/// Distinguishes these tokens from all others.
const VERSION: u8 = 7;
const SERIAL_VERSION: u8 = 8;
/// Longest key that a token holds.
const KEY_BYTES_MAX: usize = 128 * 1024;

/// Where a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GatherPosition {
    pub(super) query: Position,
    /// The range of the row before.
    pub(super) stop: Option<EpkRange>,
}

pub(super) fn seal(
    key: &TokenKey,
    container: ContainerRid,
    position: &GatherPosition,
) -> Result<String, Error> {
    let (kind, rows, number, bytes) = match &position.query.at {
        RowPosition::Start => (0, 0, 0, &[][..]),
        RowPosition::Item { identity, rows } => (1, *rows, 0, identity.as_slice()),
        RowPosition::Number { number, rows } => (3, *rows, *number, &[][..]),
        RowPosition::Key { key, tie, rows, .. } => (2, *rows, *tie, key.as_slice()),
    };
    if bytes.len() > KEY_BYTES_MAX {
        return Err(QueryLimit::SortKey.into());
    }
    let mut out = vec![VERSION, kind];
    out.extend_from_slice(&container.database.0.to_be_bytes());
    out.extend_from_slice(&container.number.to_be_bytes());
    for count in [position.query.skipped, position.query.returned, rows, number] {
        out.extend_from_slice(&count.to_be_bytes());
    }
    push_range(position.stop.as_ref(), &mut out);
    out.extend_from_slice(bytes);
    Ok(key.sign(out))
}

/// Where a page of a query begins that runs over one part alone: the range of that part, unless it
/// is a logical partition, and the token of the page within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SerialPosition {
    pub(super) epk: Option<EpkRange>,
    pub(super) token: String,
}

pub(super) fn seal_serial(key: &TokenKey, position: &SerialPosition) -> String {
    let mut out = vec![SERIAL_VERSION];
    push_range(position.epk.as_ref(), &mut out);
    out.extend_from_slice(position.token.as_bytes());
    key.sign(out)
}

/// The position within one part, if the token is of a query that runs over one alone.
pub(super) fn open_serial(key: &TokenKey, token: &str) -> Option<SerialPosition> {
    let is_short = token.len() <= limits::GATHERED_CONTINUATION_CHARS_MAX;
    let text = if is_short { key.verify(token)? } else { return None };
    let mut text = Fields(&text);
    let [SERIAL_VERSION] = text.array()? else { return None };
    let epk = read_range(&mut text)?;
    Some(SerialPosition { epk, token: str::from_utf8(text.0).ok()?.to_owned() })
}

fn push_range(range: Option<&EpkRange>, out: &mut Vec<u8>) {
    let Some(EpkRange { min, max }) = range else { return out.push(NO_STOP) };
    for end in [min, max] {
        let end = end.as_bytes();
        out.push(u8::try_from(end.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(end);
    }
}

fn read_range(text: &mut Fields<'_>) -> Option<Option<EpkRange>> {
    Some(match text.array()? {
        [NO_STOP] => None,
        [length] => {
            let min = Epk::from_bytes(text.take(usize::from(length))?);
            let [length] = text.array()?;
            Some(EpkRange { min, max: Epk::from_bytes(text.take(usize::from(length))?) })
        }
    })
}

/// Stands for a missing range; no end of a range is as long.
const NO_STOP: u8 = u8::MAX;

pub(super) fn open(
    key: &TokenKey,
    container: ContainerRid,
    token: &str,
) -> Result<GatherPosition, Error> {
    let is_short = token.len() <= limits::GATHERED_CONTINUATION_CHARS_MAX;
    let position =
        if is_short { key.verify(token).and_then(|text| read(container, &text)) } else { None };
    position.ok_or_else(|| key.refuse(token))
}

fn read(container: ContainerRid, text: &[u8]) -> Option<GatherPosition> {
    let mut text = Fields(text);
    let [version, kind] = text.array()?;
    let database = u32::from_be_bytes(text.array()?);
    let number = u32::from_be_bytes(text.array()?);
    if version != VERSION || (database, number) != (container.database.0, container.number) {
        return None;
    }
    let mut count = || text.array().map(u64::from_be_bytes);
    let (skipped, returned, rows, number) = (count()?, count()?, count()?, count()?);
    let stop = read_range(&mut text)?;
    let bytes = text.0.to_vec();
    let at = match kind {
        0 => RowPosition::Start,
        1 => RowPosition::Item { identity: bytes, rows },
        3 => RowPosition::Number { number, rows },
        2 => RowPosition::Key { key: bytes, cut: None, tie: number, rows },
        _ => return None,
    };
    Some(GatherPosition { query: Position { skipped, returned, at, floor: None }, stop })
}

#[cfg(test)]
mod tests {
    use model::DatabaseRid;

    use super::*;

    #[test]
    fn tokens_open_as_they_were_and_only_unchanged() {
        let key = TokenKey::new([7; 32]);
        let rid = ContainerRid { database: DatabaseRid(1), number: 2 };
        let stop = EpkRange { min: Epk::min(), max: Epk::from_bytes(&[0x1f, 0xff]) };
        let ats = [
            RowPosition::Start,
            RowPosition::Item { identity: b"place".to_vec(), rows: u64::MAX },
            RowPosition::Number { number: 1 << 50, rows: 2 },
            RowPosition::Key { key: vec![9; 2000], cut: None, tie: 1 << 50, rows: 3 },
        ];
        for at in ats {
            for stop in [None, Some(stop.clone()), Some(EpkRange::full())] {
                let query = Position { skipped: 3, returned: 4, at: at.clone(), floor: None };
                let position = GatherPosition { query, stop };
                let token = seal(&key, rid, &position).unwrap();
                assert_eq!(open(&key, rid, &token).unwrap(), position);
                let other = ContainerRid { number: 3, ..rid };
                assert!(open(&key, other, &token).is_err());
                assert!(open(&TokenKey::new([8; 32]), rid, &token).is_err());
                assert!(open(&key, rid, &token[1..]).is_err());
            }
        }
        for epk in [None, Some(stop)] {
            let position = SerialPosition { epk, token: "inner".to_owned() };
            let token = seal_serial(&key, &position);
            assert_eq!(open_serial(&key, &token), Some(position));
            assert!(open(&key, rid, &token).is_err() && open_serial(&key, &token[1..]).is_none());
        }
        // A token of a query over one partition is not accepted.
        let plain = key.seal(rid, &crate::continuation::PagePosition::default());
        assert!(open(&key, rid, &plain).is_err());
        assert!(open(&key, rid, "").is_err() && open(&key, rid, &"A".repeat(300_000)).is_err());
    }

    #[test]
    fn a_key_too_long_for_a_token_is_refused() {
        let key = TokenKey::new([7; 32]);
        let rid = ContainerRid { database: DatabaseRid(1), number: 2 };
        let at = RowPosition::Key { key: vec![1; KEY_BYTES_MAX + 1], cut: None, tie: 0, rows: 0 };
        let position = GatherPosition { query: Position { at, ..Position::default() }, stop: None };
        assert!(matches!(seal(&key, rid, &position), Err(Error::QueryLimit(QueryLimit::SortKey))));
    }
}
