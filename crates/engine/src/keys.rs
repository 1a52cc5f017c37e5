//! Every key in the store, in one place. `docs/format.md` draws the same table.
//!
//! The store puts the partition's 4-byte id in front; the engine defines what follows:
//!
//! | tag | key after the tag | value |
//! |---|---|---|
//! | `00` | `state` | counters of the partition ([`crate::commit::PartitionState`]) |
//! | `00` | `copy` | how far its rows are copied, while it is split or merged ([`crate::commit::CopyProgress`]) |
//! | `00` | `index` | how far its index is brought up to date ([`crate::index`]) |
//! | `00` | `trimmed` | up to where versions are gone ([`crate::changes::Trimmed`]) |
//! | `00` | `text`, path u64 | how many texts and words it has at a path ([`crate::index`]) |
//! | `10` | logical key, row key | the item ([`crate::row`]) |
//! | `11` | constraint u16, logical key, encoded values | row key of the item that holds them |
//! | `12` | logical key | bytes u64, items u64 of the logical partition |
//! | `13` | logical key, session | what a session did in it ([`crate::commit::RetryRecord`]) |
//! | `20` | path u64, encoded value, item number u64 | logical key + row key ([`crate::index`]) |
//! | `21` | composite index u64, encoded values, item number u64 | logical key + row key |
//! | `22` | shape u64, item number u64 | logical key + row key |
//! | `23` | path u64, word, `00`, item number u64 | identity, words u32, occurrences u32, where |
//! | `24` | path u64, item number u64 | identity, words u32 of its text |
//! | `25` | path u64, item number u64 | identity, its vector as f32 |
//! | `26` | path u64, cell u32, item number u64 | identity, its vector in few bytes |
//! | `29` | ordered index u64, encoded columns, item number u64 | logical key + row key |
//! | `30` | lsn u64, origin u32, seq u32 | change: put or delete, time, ttl, logical key + row key |
//! | `31` | lsn u64, origin u32, seq u32 | version, where all are kept ([`crate::version`]) |
//!
//! Reserved: `14` to `16` chunks of large values; `17`, `18`, `2A` deliveries of
//! queues; `27`, `28` edges out and in; `29` ordered indexes of MongoDB collections.
//!
//! *Identity* here = its length u16, then logical key + row key.
//!
//! *Logical key* = effective partition key, then a 16-byte digest of the key values, because two
//! key values can share a hash. Version 2 hashes are 16 bytes a level and stand raw; version 1
//! hashes vary in length, so they are escaped (`00` as `00 FF`) and closed with `00 01`.
//!
//! Partition 0 is the catalog: `00` name, `01` database, `02` container, `03` offer, `04` item
//! number allocator of a container, `05` partition waiting to be retired, `06` split or merge under
//! way, `07` stored procedure, trigger or function of a container, `08` user, permission or client
//! encryption key. Reserved: `09` sealed secrets, `0A` saved queries, `0B` aliases, `0C` followers.

use bytes::Bytes;
use model::hash::murmur3_x64_128;
use model::{
    ContainerRid, DatabaseRid, Epk, EpkRange, Lsn, PartitionId, PartitionKeyDefinition,
    PartitionKeyKind, PartitionKeyVersion,
};
use storage::KeyTags;

use crate::catalog::{ScriptKind, ScriptRid};
use crate::index::PathHash;
use crate::repartition::JobId;
use crate::row::Change;
use crate::version::Version;

const TAG_STATE: u8 = 0x00;
const TAG_ROW: u8 = 0x10;
const TAG_UNIQUE: u8 = 0x11;
const TAG_LOGICAL: u8 = 0x12;
const TAG_RETRY: u8 = 0x13;
const TAG_TERM: u8 = 0x20;
const TAG_COMPOSITE: u8 = 0x21;
const TAG_SHAPE: u8 = 0x22;
const TAG_WORD: u8 = 0x23;
const TAG_TEXT: u8 = 0x24;
const TAG_VECTOR: u8 = 0x25;
const TAG_CELL: u8 = 0x26;
const TAG_ORDERED: u8 = 0x29;
const TAG_LOG: u8 = 0x30;
const TAG_VERSIONS: u8 = 0x31;
/// No key of a partition has this tag or a greater one.
const TAG_END: u8 = 0x40;

/// How the keys are read: index entries and the logs are scanned; items, unique keys, counters and
/// vectors are looked up. Data directories are laid out by what is scanned.
pub const KEY_TAGS: KeyTags =
    KeyTags { scanned: [TAG_TERM..TAG_VECTOR, TAG_CELL..TAG_END], looked_up: TAG_ROW..TAG_UNIQUE };

// Everything from the first index entries on is scanned, but for vectors.
const _: () = {
    assert!(TAG_RETRY < TAG_TERM && TAG_TEXT < TAG_VECTOR);
    assert!(TAG_VECTOR + 1 == TAG_CELL && TAG_VERSIONS < TAG_END);
};

const DIGEST_BYTES: usize = 16;

/// Under this key a partition keeps its counters.
pub(crate) const PARTITION_STATE: &[u8] = &[TAG_STATE, b's', b't', b'a', b't', b'e'];

/// Under this key a partition that is split or merged keeps how far its rows are copied.
pub(crate) const COPY_PROGRESS: &[u8] = &[TAG_STATE, b'c', b'o', b'p', b'y'];

/// Under this key a partition keeps how far its index is brought up to date.
pub(crate) const INDEX_PROGRESS: &[u8] = &[TAG_STATE, b'i', b'n', b'd', b'e', b'x'];

/// Under this key a partition keeps up to where versions and deletes are missing from its log.
pub(crate) const TRIMMED: &[u8] = &[TAG_STATE, b't', b'r', b'i', b'm', b'm', b'e', b'd'];

/// Under this key, followed by a path, a partition keeps how many texts it has there.
const TEXT_TOTALS: &[u8] = &[TAG_STATE, b't', b'e', b'x', b't'];

/// Keys before this one are the partition's own; from here on they belong to its items.
pub(crate) const ITEMS_START: &[u8] = &[TAG_STATE + 1];

/// The form of a container's hashes in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpkForm {
    /// Raw, of this many bytes.
    Fixed(usize),
    /// Escaped and terminated.
    Escaped,
}

impl EpkForm {
    pub(crate) fn of(definition: &PartitionKeyDefinition) -> Self {
        match (definition.kind, definition.version) {
            (PartitionKeyKind::MultiHash, _) => EpkForm::Fixed(16 * definition.paths.len()),
            (PartitionKeyKind::Hash, PartitionKeyVersion::V2) => EpkForm::Fixed(16),
            (PartitionKeyKind::Hash, PartitionKeyVersion::V1) => EpkForm::Escaped,
        }
    }

    fn push(self, epk: &[u8], out: &mut Vec<u8>) {
        match self {
            EpkForm::Fixed(n) => {
                debug_assert_eq!(epk.len(), n, "a full key hashes to its full length");
                out.extend_from_slice(epk);
            }
            EpkForm::Escaped => {
                push_escaped(epk, out);
                out.extend_from_slice(&[0x00, 0x01]);
            }
        }
    }

    /// A bound of the hash line as it compares with keys of this form.
    fn push_bound(self, epk: &Epk, out: &mut Vec<u8>) {
        match self {
            // A bound longer than any hash lies after the hash that it begins with, and must not be
            // compared with the digest that follows the hash in a key.
            EpkForm::Fixed(n) if epk.as_bytes().len() > n => {
                out.extend_from_slice(&successor(&epk.as_bytes()[..n]));
            }
            EpkForm::Fixed(_) => out.extend_from_slice(epk.as_bytes()),
            EpkForm::Escaped => push_escaped(epk.as_bytes(), out),
        }
    }

    /// Length of the hash at the start of `key`, terminator included, and the hash itself.
    fn read(self, key: &[u8]) -> Option<(usize, Epk)> {
        match self {
            EpkForm::Fixed(n) => Some((n, Epk::from_bytes(key.get(..n)?))),
            EpkForm::Escaped => {
                let mut epk = Vec::with_capacity(32);
                let mut at = 0;
                loop {
                    match (*key.get(at)?, key.get(at + 1)) {
                        (0x00, Some(0xFF)) => {
                            epk.push(0x00);
                            at += 2;
                        }
                        (0x00, Some(0x01)) => return Some((at + 2, Epk::from_bytes(&epk))),
                        (0x00, _) => return None,
                        (byte, _) => {
                            epk.push(byte);
                            at += 1;
                        }
                    }
                }
            }
        }
    }
}

fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
}

/// Identity of a logical partition inside its container: hash and digest of its key values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LogicalKey(Vec<u8>);

impl LogicalKey {
    pub(crate) fn new(form: EpkForm, epk: &[u8], digest: [u8; DIGEST_BYTES]) -> Self {
        let mut out = Vec::with_capacity(epk.len() + DIGEST_BYTES + 2);
        form.push(epk, &mut out);
        out.extend_from_slice(&digest);
        Self(out)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A number that hardly any other logical partition has.
    pub(crate) fn short_digest(&self) -> u64 {
        self.0.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    pub(crate) fn row(&self, row_key: &[u8]) -> Bytes {
        join(&[&[TAG_ROW], &self.0, row_key])
    }

    pub(crate) fn unique(&self, constraint: u16, values: &[u8]) -> Bytes {
        join(&[&[TAG_UNIQUE], &constraint.to_be_bytes(), &self.0, values])
    }

    pub(crate) fn counters(&self) -> Bytes {
        join(&[&[TAG_LOGICAL], &self.0])
    }

    /// The key of what a session did in the logical partition.
    pub(crate) fn retry(&self, session: &[u8]) -> Bytes {
        join(&[&[TAG_RETRY], &self.0, session])
    }

    /// The logical partition whose counters lie under `key`.
    pub(crate) fn of_counters(key: &[u8]) -> Option<Self> {
        key.strip_prefix(&[TAG_LOGICAL]).map(|logical| Self(logical.to_vec()))
    }

    /// Lower and upper bound of the logical partition's rows.
    pub(crate) fn row_bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let lo = join(&[&[TAG_ROW], &self.0]).to_vec();
        let hi = successor(&lo);
        (lo, hi)
    }
}

/// Lower and upper bound of the rows of a range of the hash line.
pub(crate) fn row_bounds(form: EpkForm, range: &EpkRange) -> (Vec<u8>, Vec<u8>) {
    let bound = |epk: &Epk| {
        let mut key = vec![TAG_ROW];
        form.push_bound(epk, &mut key);
        key
    };
    (bound(&range.min), bound(&range.max))
}

/// A bound of the hash line as it compares with what [`identity_of`] returns.
pub(crate) fn identity_bound(form: EpkForm, bound: &Epk) -> Vec<u8> {
    let mut out = Vec::with_capacity(bound.as_bytes().len() + 2);
    form.push_bound(bound, &mut out);
    out
}

/// The logical partition (and item) that a key and its value belong to: bytes that begin with the
/// hash. `None` for keys that hold it only in their value, when no value is given.
pub(crate) fn identity_of<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match key.split_first()? {
        (&(TAG_ROW | TAG_LOGICAL | TAG_RETRY), logical) => Some(logical),
        (&TAG_UNIQUE, rest) => rest.get(2..),
        (&(TAG_TERM | TAG_COMPOSITE | TAG_SHAPE | TAG_ORDERED), _) => value,
        (&(TAG_WORD..=TAG_CELL), _) => Some(split_entry(value?)?.0),
        (&TAG_LOG, _) => value.and_then(Change::decode).map(|change| change.identity),
        (&TAG_VERSIONS, _) => value.and_then(Version::decode).map(|version| version.identity),
        _ => None,
    }
}

/// Whether counters of a logical partition lie under this key.
pub(crate) fn is_counters(key: &[u8]) -> bool {
    key.first() == Some(&TAG_LOGICAL)
}

/// Bounds of the rows of all items.
pub(crate) const ROWS_BOUNDS: ([u8; 1], [u8; 1]) = ([TAG_ROW], [TAG_ROW + 1]);

/// Bounds of the counters of all logical partitions.
pub(crate) const COUNTERS_BOUNDS: ([u8; 1], [u8; 1]) = ([TAG_LOGICAL], [TAG_LOGICAL + 1]);

/// Bounds of what sessions did in all logical partitions.
pub(crate) const RETRY_BOUNDS: ([u8; 1], [u8; 1]) = ([TAG_RETRY], [TAG_RETRY + 1]);

/// Whether what a session did lies under this key.
pub(crate) fn is_retry(key: &[u8]) -> bool {
    key.first() == Some(&TAG_RETRY)
}

/// The hash of the logical partition whose counters lie under this key.
pub(crate) fn epk_of_counters(form: EpkForm, key: &[u8]) -> Option<Epk> {
    form.read(key.strip_prefix(&[TAG_LOGICAL])?).map(|(_, epk)| epk)
}

/// The row key at the end of a row's key.
pub(crate) fn row_key(form: EpkForm, key: &[u8]) -> Option<&[u8]> {
    row_key_of_identity(form, key.strip_prefix(&[TAG_ROW])?)
}

/// The row key at the end of what identifies an item.
pub(crate) fn row_key_of_identity(form: EpkForm, identity: &[u8]) -> Option<&[u8]> {
    let epk_len = match form {
        EpkForm::Fixed(n) => n,
        EpkForm::Escaped => form.read(identity)?.0,
    };
    identity.get(epk_len + DIGEST_BYTES..)
}

/// Splits the identity of an item (logical key, then row key) into its hash, the logical key and
/// the row key.
pub(crate) fn split_identity(form: EpkForm, identity: &[u8]) -> Option<(Epk, LogicalKey, &[u8])> {
    let (epk_len, epk) = form.read(identity)?;
    let (logical, row_key) = identity.split_at_checked(epk_len + DIGEST_BYTES)?;
    Some((epk, LogicalKey(logical.to_vec()), row_key))
}

/// The row's key from the identity that a change-log entry or a continuation names.
pub(crate) fn row_of_identity(identity: &[u8]) -> Bytes {
    join(&[&[TAG_ROW], identity])
}

/// Bounds of rows as they compare with identities of items.
pub(crate) fn identity_bounds(lo: &[u8], hi: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let lo = lo.get(1..).unwrap_or_default().to_vec();
    let hi = match hi.split_first() {
        Some((&TAG_ROW, hi)) => hi.to_vec(),
        // Beyond all rows, and so beyond every position on the hash line.
        _ => vec![0xFF; 2],
    };
    (lo, hi)
}

/// The key of the counters of the logical partition whose rows begin with `lo`.
pub(crate) fn counters_of_rows(lo: &[u8]) -> Bytes {
    join(&[&[TAG_LOGICAL], lo.get(1..).unwrap_or_default()])
}

/// Begins the term of a value at a path.
pub(crate) fn push_path_term(path: PathHash, out: &mut Vec<u8>) {
    out.push(TAG_TERM);
    out.extend_from_slice(&path.to_bytes());
}

/// Begins the term of a composite index.
pub(crate) fn push_composite_term(composite: u64, out: &mut Vec<u8>) {
    out.push(TAG_COMPOSITE);
    out.extend_from_slice(&composite.to_be_bytes());
}

/// Begins the terms of an ordered index.
pub(crate) fn push_ordered_term(index: u64, out: &mut Vec<u8>) {
    out.push(TAG_ORDERED);
    out.extend_from_slice(&index.to_be_bytes());
}

/// The constraint under which ordered indexes hold their unique keys. Unique keys of containers are
/// numbered from 0.
pub(crate) const ORDERED_CONSTRAINT: u16 = u16::MAX;

/// The term of a shape.
pub(crate) fn push_shape_term(shape: u64, out: &mut Vec<u8>) {
    out.push(TAG_SHAPE);
    out.extend_from_slice(&shape.to_be_bytes());
}

/// Longest word that is stored whole in a key. Of a longer one the prefix is, and a hash.
const WORD_BYTES_MAX: usize = 128;
const WORD_BYTES_KEPT: usize = 112;

/// The term of a word of the texts at a path. Words have no byte 0.
pub(crate) fn push_word_term(path: PathHash, word: &str, out: &mut Vec<u8>) {
    out.push(TAG_WORD);
    out.extend_from_slice(&path.to_bytes());
    match word.as_bytes() {
        short if short.len() <= WORD_BYTES_MAX => out.extend_from_slice(short),
        long => {
            out.extend_from_slice(&long[..WORD_BYTES_KEPT]);
            out.extend_from_slice(&murmur3_x64_128(long, 0).to_be_bytes());
        }
    }
    out.push(0);
}

/// The term of an item that has a text at a path.
pub(crate) fn push_text_term(path: PathHash, out: &mut Vec<u8>) {
    out.push(TAG_TEXT);
    out.extend_from_slice(&path.to_bytes());
}

/// The term of an item that has a vector at a path.
pub(crate) fn push_vector_term(path: PathHash, out: &mut Vec<u8>) {
    out.push(TAG_VECTOR);
    out.extend_from_slice(&path.to_bytes());
}

/// The term of an item whose vector at a path lies in a cell.
pub(crate) fn push_cell_term(path: PathHash, cell: u32, out: &mut Vec<u8>) {
    out.push(TAG_CELL);
    out.extend_from_slice(&path.to_bytes());
    out.extend_from_slice(&cell.to_be_bytes());
}

/// The key under which a partition keeps how many texts it has at the path of a text's entry;
/// `None` for other keys.
pub(crate) fn text_totals_of(entry: &[u8]) -> Option<Bytes> {
    let path = entry.strip_prefix(&[TAG_TEXT])?.get(..8)?;
    Some(join(&[TEXT_TOTALS, path]))
}

/// The key under which a partition keeps how many texts it has at a path.
pub(crate) fn text_totals(path: PathHash) -> Bytes {
    join(&[TEXT_TOTALS, &path.to_bytes()])
}

/// The value of an index entry that holds more than the identity of its item.
pub(crate) fn entry_value(identity: &[u8], payload: &[u8]) -> Bytes {
    let length = u16::try_from(identity.len()).expect("an identity is at most about 1.7 KB");
    join(&[&length.to_be_bytes(), identity, payload])
}

/// Identity and payload of such a value.
pub(crate) fn split_entry(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = value.split_first_chunk()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

/// Bounds of all index entries.
pub(crate) const INDEX_BOUNDS: ([u8; 1], [u8; 1]) = ([TAG_TERM], [TAG_ORDERED + 1]);

/// Bounds of the terms of all shapes.
pub(crate) const SHAPE_BOUNDS: ([u8; 1], [u8; 1]) = ([TAG_SHAPE], [TAG_SHAPE + 1]);

/// The index entry of an item for a term.
pub(crate) fn index_entry(term: &[u8], number: u64) -> Bytes {
    join(&[term, &number.to_be_bytes()])
}

/// Term and item number of an index entry.
pub(crate) fn split_index_entry(key: &[u8]) -> Option<(&[u8], u64)> {
    let (term, number) = key.split_last_chunk()?;
    Some((term, u64::from_be_bytes(*number)))
}

/// One of the two logs of a partition. Their keys differ in the tag only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// One live entry per item, and tombstones.
    Changes,
    /// Every version and every delete of a container that keeps them.
    Versions,
}

impl Log {
    fn tag(self) -> u8 {
        match self {
            Log::Changes => TAG_LOG,
            Log::Versions => TAG_VERSIONS,
        }
    }

    /// The key of an entry. Ordered by position, then by the partition that first wrote it.
    pub(crate) fn key(self, lsn: Lsn, origin: PartitionId, seq: u32) -> Bytes {
        let (lsn, origin) = (lsn.0.to_be_bytes(), origin.0.to_be_bytes());
        join(&[&[self.tag()], &lsn, &origin, &seq.to_be_bytes()])
    }

    /// Bounds of the entries after `after` up to and including `last`.
    pub(crate) fn bounds(self, after: Lsn, last: Lsn) -> (Bytes, Bytes) {
        let first_of = |lsn: Lsn| join(&[&[self.tag()], &lsn.0.to_be_bytes()]);
        (first_of(after.next()), first_of(last.next()))
    }

    /// Bounds of the whole log.
    pub(crate) const fn all(self) -> ([u8; 1], [u8; 1]) {
        match self {
            Log::Changes => ([TAG_LOG], [TAG_LOG + 1]),
            Log::Versions => ([TAG_VERSIONS], [TAG_VERSIONS + 1]),
        }
    }
}

/// Position, origin and seq in the key of an entry of either log.
pub(crate) fn log_entry(key: &[u8]) -> Option<(Lsn, PartitionId, u32)> {
    let (lsn, rest) = key.get(1..)?.split_first_chunk()?;
    let (origin, seq) = rest.split_first_chunk()?;
    let seq = u32::from_be_bytes(seq.try_into().ok()?);
    Some((Lsn(u64::from_be_bytes(*lsn)), PartitionId(u32::from_be_bytes(*origin)), seq))
}

/// The kind of a key of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'k> {
    State,
    /// How far the rows are copied.
    Progress,
    /// How far the index is brought up to date.
    IndexProgress,
    /// Up to where versions are gone.
    Trimmed,
    /// How many texts there are at a path.
    TextTotals,
    /// With the identity of its item: logical key, then row key.
    Row(&'k [u8]),
    Unique,
    Index,
    /// With the logical key.
    Counters(&'k [u8]),
    /// What a session did, with the logical key and the session.
    Retry(&'k [u8]),
    Log {
        lsn: Lsn,
        origin: PartitionId,
        seq: u32,
    },
    Version {
        lsn: Lsn,
        origin: PartitionId,
        seq: u32,
    },
    Unknown,
}

/// Distinguishes the keys of a partition.
pub(crate) fn kind(key: &[u8]) -> Kind<'_> {
    match key.split_first() {
        Some((&TAG_STATE, _)) if key == PARTITION_STATE => Kind::State,
        Some((&TAG_STATE, _)) if key == COPY_PROGRESS => Kind::Progress,
        Some((&TAG_STATE, _)) if key == INDEX_PROGRESS => Kind::IndexProgress,
        Some((&TAG_STATE, _)) if key == TRIMMED => Kind::Trimmed,
        Some((&TAG_STATE, _)) if key.starts_with(TEXT_TOTALS) => Kind::TextTotals,
        Some((&TAG_ROW, identity)) => Kind::Row(identity),
        Some((&TAG_UNIQUE, _)) => Kind::Unique,
        Some((&(TAG_TERM..=TAG_CELL | TAG_ORDERED), _)) => Kind::Index,
        Some((&TAG_LOGICAL, logical)) => Kind::Counters(logical),
        Some((&TAG_RETRY, session)) => Kind::Retry(session),
        Some((&tag @ (TAG_LOG | TAG_VERSIONS), _)) => match log_entry(key) {
            Some((lsn, origin, seq)) if tag == TAG_LOG => Kind::Log { lsn, origin, seq },
            Some((lsn, origin, seq)) => Kind::Version { lsn, origin, seq },
            None => Kind::Unknown,
        },
        _ => Kind::Unknown,
    }
}

pub(crate) mod catalog {
    //! Keys of partition 0.
    use super::*;

    pub(crate) const META: &[u8] = &[0x00, b'm', b'e', b't', b'a'];
    pub(crate) const TAG_DATABASE: u8 = 0x01;
    pub(crate) const TAG_CONTAINER: u8 = 0x02;
    pub(crate) const TAG_OFFER: u8 = 0x03;
    const TAG_NUMBERS: u8 = 0x04;
    pub(crate) const TAG_RETIRING: u8 = 0x05;
    pub(crate) const TAG_JOB: u8 = 0x06;
    pub(crate) const TAG_SCRIPT: u8 = 0x07;
    pub(crate) const TAG_OPAQUE: u8 = 0x08;

    pub(crate) fn database(rid: DatabaseRid) -> Bytes {
        join(&[&[TAG_DATABASE], &rid.0.to_be_bytes()])
    }

    pub(crate) fn container(rid: ContainerRid) -> Bytes {
        join(&[&[TAG_CONTAINER], &rid.database.0.to_be_bytes(), &rid.number.to_be_bytes()])
    }

    pub(crate) fn offer(number: u32) -> Bytes {
        join(&[&[TAG_OFFER], &number.to_be_bytes()])
    }

    /// The next free item number of a container.
    pub(crate) fn numbers(rid: ContainerRid) -> Bytes {
        join(&[&[TAG_NUMBERS], &rid.database.0.to_be_bytes(), &rid.number.to_be_bytes()])
    }

    pub(crate) fn job(id: JobId) -> Bytes {
        join(&[&[TAG_JOB], &id.0.to_be_bytes()])
    }

    /// A user, permission or client encryption key. Only permissions have a user.
    pub(crate) fn opaque(kind: u8, database: DatabaseRid, user: u32, number: u32) -> Bytes {
        let (database, user) = (database.0.to_be_bytes(), user.to_be_bytes());
        join(&[&[TAG_OPAQUE, kind], &database, &user, &number.to_be_bytes()])
    }

    pub(crate) fn script(rid: ScriptRid) -> Bytes {
        let kind = match rid.kind {
            ScriptKind::StoredProcedure => 0,
            ScriptKind::Trigger => 1,
            ScriptKind::UserDefinedFunction => 2,
        };
        let container = rid.container;
        join(&[
            &[TAG_SCRIPT],
            &container.database.0.to_be_bytes(),
            &container.number.to_be_bytes(),
            &[kind],
            &rid.number.to_be_bytes(),
        ])
    }

    pub(crate) fn retiring(p: PartitionId) -> Bytes {
        join(&[&[TAG_RETIRING], &p.0.to_be_bytes()])
    }
}

fn join(parts: &[&[u8]]) -> Bytes {
    let mut out = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.into()
}

/// The first key beyond all keys that begin with `prefix`.
pub(crate) fn successor(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    while let Some(last) = out.pop() {
        if last < 0xFF {
            out.push(last + 1);
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(form: EpkForm, epk: &[u8], row_key: &[u8]) -> (LogicalKey, Bytes) {
        let logical = LogicalKey::new(form, epk, [7; 16]);
        let row = logical.row(row_key);
        (logical, row)
    }

    #[test]
    fn row_keys_split_into_what_they_were_made_of() {
        for (form, epk) in [
            (EpkForm::Fixed(16), vec![0x3A; 16]),
            (EpkForm::Escaped, vec![5, 0xC1, 0, 0xFF, 8, 0]),
            (EpkForm::Escaped, vec![]),
        ] {
            for id in [&b"a"[..], b"", b"with/slash\0nul", &[0xFF, 0, 0x80]] {
                let (logical, row) = keys_of(form, &epk, id);
                let (at, read, read_id) = split_identity(form, &row[1..]).unwrap();
                assert_eq!((at, read, read_id), (Epk::from_bytes(&epk), logical, id));
                assert_eq!(row_key(form, &row), Some(id));
            }
        }
    }

    #[test]
    fn bounds_hold_exactly_the_rows_of_their_range() {
        let form = EpkForm::Escaped;
        let range = EpkRange {
            min: Epk::from_bytes(&[5, 0xC1, 0, 1]),
            max: Epk::from_bytes(&[5, 0xC1, 0, 3]),
        };
        let (lo, hi) = row_bounds(form, &range);
        let inside = |epk: &[u8]| {
            let (_, row) = keys_of(form, epk, b"x");
            lo.as_slice() <= &row[..] && &row[..] < hi.as_slice()
        };
        assert!(inside(&[5, 0xC1, 0, 1]));
        assert!(inside(&[5, 0xC1, 0, 2, 0xFF, 0xFF]));
        assert!(!inside(&[5, 0xC1, 0, 0, 9]));
        assert!(!inside(&[5, 0xC1, 0, 3]));
    }

    proptest::proptest! {
        #[test]
        fn bounds_of_any_length_agree_with_the_range(
            epk in proptest::collection::vec(proptest::prelude::any::<u8>(), 16),
            digest in proptest::prelude::any::<[u8; 16]>(),
            cut in 0..=16usize,
            tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..6),
        ) {
            let mut bound = epk[..cut].to_vec();
            bound.extend(tail);
            let range = EpkRange { min: Epk::from_bytes(&bound), max: Epk::max() };
            let form = EpkForm::Fixed(16);
            let (lo, _) = row_bounds(form, &range);
            let row = LogicalKey::new(form, &epk, digest).row(b"x");
            proptest::prop_assert_eq!(lo.as_slice() <= &row[..], range.min <= Epk::from_bytes(&epk));
        }
    }

    #[test]
    fn log_keys_are_in_the_order_of_positions_and_read_back() {
        let key = |lsn, origin, seq| Log::Changes.key(Lsn(lsn), PartitionId(origin), seq);
        assert!(key(1, 9, 9) < key(2, 0, 0) && key(2, 0, 0) < key(256, 0, 0));
        assert_eq!(log_entry(&key(3, 4, 5)), Some((Lsn(3), PartitionId(4), 5)));
        assert_eq!(log_entry(&key(3, 4, 5)[..16]), None);
        let (lo, hi) = Log::Changes.bounds(Lsn(2), Lsn(3));
        let inside = |key: Bytes| lo <= key && key < hi;
        assert!(!inside(key(2, u32::MAX, u32::MAX)) && inside(key(3, 0, 0)));
        assert!(inside(key(3, u32::MAX, u32::MAX)) && !inside(key(4, 0, 0)));
        let (lo, hi) = Log::Versions.all();
        assert!(
            key(u64::MAX, 0, 0) < lo[..] && Log::Versions.key(Lsn(0), PartitionId(0), 0) < hi[..]
        );
    }

    #[test]
    fn successor_is_beyond_every_key_with_the_prefix() {
        assert_eq!(successor(&[1, 2]), [1, 3]);
        assert_eq!(successor(&[1, 0xFF]), [2]);
    }
}
