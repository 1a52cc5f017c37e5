//! The position of a reader of a change feed.
//!
//! Within one range that is an LSN and nothing else: it stays valid when the range splits, because
//! children inherit the log and its numbers, and when it merges, because a merged log holds the
//! entries of both under their old numbers. A reader of several ranges has several positions, so
//! its position has a mark for every range of the hash line, whichever partitions hold it.
//! As text a position is the LSN in decimal where that is sufficient. Everything else is signed,
//! like a continuation token: version u8 (3), mode u8, database u32, container u32, then as LEB128
//! numbers the turn, the number of marks and for each mark how many bytes its lower bound shares
//! with the one before, how many follow, those bytes, the LSN, and the differences of time and
//! limit from those before.

use model::{ContainerRid, Epk, EpkRange, Lsn, limits};

use super::ChangesMode;
use crate::continuation::TokenKey;
use crate::{Error, InvalidRequest};

/// Distinguishes these tokens from continuation tokens, which begin with 1.
const VERSION: u8 = 3;
/// The longest bound that a client can name.
const BOUND_BYTES_MAX: usize = limits::EPK_HEX_CHARS_MAX / 2;
const HEAD_BYTES: usize = 1 + 1 + 4 + 4;

/// How far one range of the hash line has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The last position that was read.
    pub(super) lsn: Lsn,
    /// Latest version: changes of this second and before are skipped, up to `until`; 0 for none.
    /// All versions: when everything up to `lsn` was known to have been seen.
    pub(super) time: u64,
    /// Up to where a start by time matters: the position of the range when it was requested.
    pub(super) until: Lsn,
}

/// Marks for the whole hash line, and the range that is read first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FeedPosition {
    /// Which of the ranges comes first on the next page, so that a busy one does not keep
    /// others from being read.
    turn: u64,
    /// Lower bounds, the first of which is the start of the line, and marks.
    marks: Vec<(Epk, Mark)>,
}

impl FeedPosition {
    /// The same mark everywhere.
    pub(super) fn everywhere(mark: Mark) -> Self {
        Self { turn: 0, marks: vec![(Epk::min(), mark)] }
    }

    /// A position of marks that begin at these bounds, in order. The outer ones extend to the ends
    /// of the line, and equal neighbours become one.
    pub(super) fn of_ranges(turn: usize, epk_ranges: Vec<(Epk, Mark)>) -> Self {
        let mut marks: Vec<(Epk, Mark)> = Vec::with_capacity(epk_ranges.len());
        for (min, mark) in epk_ranges {
            match marks.last() {
                None => marks.push((Epk::min(), mark)),
                Some((_, last)) if *last == mark => {}
                Some(_) => marks.push((min, mark)),
            }
        }
        if marks.is_empty() {
            marks.push((Epk::min(), Mark::default()));
        }
        let turn = if marks.len() > 1 { turn as u64 } else { 0 };
        Self { turn, marks }
    }

    /// Which of `count` ranges comes first.
    pub(super) fn turn_among(&self, count: usize) -> usize {
        let count = (count as u64).max(1);
        usize::try_from(self.turn % count).unwrap_or(0)
    }

    /// The mark of the range that holds `at`.
    pub(super) fn mark_at(&self, at: &Epk) -> Mark {
        let after = self.marks.partition_point(|(min, _)| min <= at);
        self.marks[after.saturating_sub(1)].1
    }

    /// The ranges of `range`, with their marks, in order.
    pub(super) fn within(&self, range: &EpkRange) -> Vec<(EpkRange, Mark)> {
        let after = self.marks.partition_point(|(min, _)| *min <= range.min);
        let marks = &self.marks[after.saturating_sub(1)..];
        let upper = marks.iter().skip(1).map(|(min, _)| min.clone()).chain([Epk::max()]);
        let epk_ranges = marks.iter().take_while(|(min, _)| *min < range.max).zip(upper);
        let cut = |((min, mark), max): (&(Epk, Mark), Epk)| {
            let epk_range = EpkRange { min: min.clone(), max };
            epk_range.intersect(range).map(|common| (common, *mark))
        };
        epk_ranges.filter_map(cut).collect()
    }

    /// The text for clients. Refused if it would be too long for them to send it back: that takes
    /// many hundreds of ranges with bounds far longer than a hash.
    pub(super) fn print(
        &self,
        mode: ChangesMode,
        container: ContainerRid,
        key: &TokenKey,
    ) -> Result<String, Error> {
        if let (ChangesMode::LatestVersion, [(_, mark)]) = (mode, self.marks.as_slice())
            && (mark.time, mark.until) == (0, Lsn(0))
        {
            return Ok(mark.lsn.to_string());
        }
        let mut out = Vec::with_capacity(HEAD_BYTES + 32 * self.marks.len());
        out.extend_from_slice(&[VERSION, mode_byte(mode)]);
        out.extend_from_slice(&container.database.0.to_be_bytes());
        out.extend_from_slice(&container.number.to_be_bytes());
        push_number(&mut out, self.turn);
        push_number(&mut out, self.marks.len() as u64);
        let mut before = (Epk::min(), Mark::default());
        for (min, mark) in &self.marks {
            let (last, bound) = (before.0.as_bytes(), min.as_bytes());
            let shared = last.iter().zip(bound).take_while(|(a, b)| a == b).count();
            push_number(&mut out, shared as u64);
            push_number(&mut out, (bound.len() - shared) as u64);
            out.extend_from_slice(&bound[shared..]);
            push_number(&mut out, mark.lsn.0);
            push_number(&mut out, difference(mark.time, before.1.time));
            push_number(&mut out, difference(mark.until.0, before.1.until.0));
            before = (min.clone(), *mark);
        }
        let text = key.sign(out);
        if text.len() > limits::FEED_POSITION_CHARS_MAX {
            return Err(InvalidRequest::FeedContinuationTooLong.into());
        }
        Ok(text)
    }

    /// Reads what [`FeedPosition::print`] wrote for the same mode and container.
    pub(super) fn parse(
        text: &str,
        mode: ChangesMode,
        container: ContainerRid,
        key: &TokenKey,
    ) -> Result<Self, Error> {
        let position = match (mode, plain(text)) {
            (ChangesMode::LatestVersion, Some(lsn)) => {
                Some(Self::everywhere(Mark { lsn, ..Mark::default() }))
            }
            _ if text.len() > limits::FEED_POSITION_CHARS_MAX => None,
            _ => key.verify(text).and_then(|bytes| read(&bytes, mode, container)),
        };
        position.ok_or_else(|| InvalidRequest::FeedContinuation.into())
    }
}

/// An LSN in decimal.
fn plain(text: &str) -> Option<Lsn> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().and_then(checked_lsn)
}

/// Clients see positions as signed numbers, and there must be one after every other.
fn checked_lsn(number: u64) -> Option<Lsn> {
    i64::try_from(number).is_ok().then_some(Lsn(number))
}

fn mode_byte(mode: ChangesMode) -> u8 {
    match mode {
        ChangesMode::LatestVersion => 1,
        ChangesMode::AllVersionsAndDeletes => 2,
    }
}

fn read(bytes: &[u8], mode: ChangesMode, container: ContainerRid) -> Option<FeedPosition> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [version, wanted, names @ ..] = head;
    let mut expected = [0; 8];
    expected[..4].copy_from_slice(&container.database.0.to_be_bytes());
    expected[4..].copy_from_slice(&container.number.to_be_bytes());
    if (*version, *wanted) != (VERSION, mode_byte(mode)) || *names != expected {
        return None;
    }
    let mut rest = rest;
    let turn = take_number(&mut rest)?;
    let count = take_number(&mut rest)?;
    let mut marks: Vec<(Epk, Mark)> = Vec::new();
    let mut bound = Vec::new();
    for _ in 0..count {
        let shared = usize::try_from(take_number(&mut rest)?).ok()?;
        let more = usize::try_from(take_number(&mut rest)?).ok()?;
        let (more, after) = rest.split_at_checked(more)?;
        rest = after;
        bound.truncate(shared);
        bound.extend_from_slice(more);
        if bound.len() > BOUND_BYTES_MAX {
            return None;
        }
        let min = Epk::from_bytes(&bound);
        let is_in_order = marks.last().map_or(min == Epk::min(), |(last, _)| *last < min);
        if !is_in_order {
            return None;
        }
        let before = marks.last().map_or(Mark::default(), |(_, mark)| *mark);
        let lsn = checked_lsn(take_number(&mut rest)?)?;
        let time = sum(take_number(&mut rest)?, before.time);
        let until = checked_lsn(sum(take_number(&mut rest)?, before.until.0))?;
        marks.push((min, Mark { lsn, time, until }));
    }
    (rest.is_empty() && !marks.is_empty()).then_some(FeedPosition { turn, marks })
}

/// The difference of `number` from the one before. Small differences are small numbers, whichever
/// of the two is the larger.
fn difference(number: u64, before: u64) -> u64 {
    let by = number.wrapping_sub(before);
    if by >> 63 == 0 { by << 1 } else { !(by << 1) }
}

/// The number that differs by this from the one before.
fn sum(difference: u64, before: u64) -> u64 {
    let by = if difference & 1 == 0 { difference >> 1 } else { !(difference >> 1) };
    before.wrapping_add(by)
}

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = (number & 0x7F) as u8;
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7F);
        // The tenth byte has room for one bit.
        if shift == 63 && low > 1 {
            return None;
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use model::DatabaseRid;
    use proptest::prelude::*;

    use super::*;

    const RID: ContainerRid = ContainerRid { database: DatabaseRid(7), number: 9 };
    const LATEST: ChangesMode = ChangesMode::LatestVersion;
    const ALL: ChangesMode = ChangesMode::AllVersionsAndDeletes;

    fn key() -> TokenKey {
        TokenKey::new([5; 32])
    }

    fn mark(lsn: u64) -> Mark {
        Mark { lsn: Lsn(lsn), ..Mark::default() }
    }

    fn at(byte: u8) -> Epk {
        Epk::from_bytes(&[byte])
    }

    #[test]
    fn one_mark_of_the_latest_version_is_a_number() {
        let position = FeedPosition::everywhere(mark(57));
        assert_eq!(position.print(LATEST, RID, &key()).unwrap(), "57");
        assert_eq!(FeedPosition::parse("57", LATEST, RID, &key()).unwrap(), position);
        assert!(FeedPosition::parse("57", ALL, RID, &key()).is_err());
    }

    #[test]
    fn neighbours_that_agree_become_one() {
        let two = FeedPosition::of_ranges(1, vec![(at(0x10), mark(5)), (at(0x20), mark(5))]);
        assert_eq!(two, FeedPosition::everywhere(mark(5)));
        let apart = vec![(at(0x10), mark(5)), (at(0x20), mark(6)), (at(0x30), mark(6))];
        let position = FeedPosition::of_ranges(1, apart);
        let full = position.within(&EpkRange::full());
        assert_eq!(full.len(), 2);
        assert_eq!(full[0], (EpkRange { min: Epk::min(), max: at(0x20) }, mark(5)));
        assert_eq!(full[1], (EpkRange { min: at(0x20), max: Epk::max() }, mark(6)));
        assert_eq!((position.mark_at(&at(0x1F)), position.mark_at(&at(0x20))), (mark(5), mark(6)));
        assert_eq!(position.turn_among(2), 1);
        assert_eq!(FeedPosition::of_ranges(3, Vec::new()), FeedPosition::everywhere(mark(0)));
    }

    #[test]
    fn texts_that_were_not_given_out_are_refused() {
        let position = FeedPosition::of_ranges(0, vec![(at(0), mark(1)), (at(9), mark(2))]);
        let text = position.print(LATEST, RID, &key()).unwrap();
        assert_eq!(FeedPosition::parse(&text, LATEST, RID, &key()).unwrap(), position);
        let other = ContainerRid { number: 10, ..RID };
        assert!(FeedPosition::parse(&text, LATEST, other, &key()).is_err());
        assert!(FeedPosition::parse(&text, ALL, RID, &key()).is_err());
        assert!(FeedPosition::parse(&text, LATEST, RID, &TokenKey::new([6; 32])).is_err());
        for i in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[i] = if changed[i] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(FeedPosition::parse(&changed, LATEST, RID, &key()).is_err(), "{changed}");
        }
        let huge = "1".repeat(limits::FEED_POSITION_CHARS_MAX + 1);
        let too_large = u64::MAX.to_string();
        for bad in ["", "x", "-1", "1.5", "é", "\"5\"", "+5", &huge, &too_large] {
            assert!(FeedPosition::parse(bad, LATEST, RID, &key()).is_err(), "{bad:.20}");
        }
        // Continuation tokens sign other bytes than positions do.
        let foreign = key().seal(RID, &Default::default());
        assert!(FeedPosition::parse(&foreign, LATEST, RID, &key()).is_err());
    }

    #[test]
    fn signed_nonsense_is_refused() {
        let head = [VERSION, 1, 0, 0, 0, 7, 0, 0, 0, 9];
        let body = |rest: &[u8]| key().sign([&head[..], rest].concat());
        let good = [0, 1, 0, 0, 5, 0, 0];
        assert!(FeedPosition::parse(&body(&good), LATEST, RID, &key()).is_ok());
        let cases: [&[u8]; 8] = [
            &[],
            &[0, 0],
            &[0, 1, 0, 0, 5, 0],
            &[0, 1, 0, 0, 5, 0, 0, 0],
            &[0, 1, 0, 1, 7, 5, 0, 0],
            &[0, 2, 0, 0, 5, 0, 0, 0, 0, 6, 0, 0],
            &[0, 1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
        ];
        for rest in cases {
            assert!(FeedPosition::parse(&body(rest), LATEST, RID, &key()).is_err(), "{rest:?}");
        }
    }

    /// Marks of a thousand ranges whose bounds need this many bytes.
    fn thousand(bound_bytes: usize) -> FeedPosition {
        let bound = |n: u64| -> Epk {
            let hash = |i: u64| (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 + 2 * i).to_be_bytes();
            let hashes: Vec<u8> = (0..6).flat_map(hash).take(bound_bytes).collect();
            Epk::from_bytes(&hashes)
        };
        let time = 1_700_000_000;
        let mark = |n: u64| Mark { lsn: Lsn(9_000_000 + n * n), time, until: Lsn(9_500_000 + n) };
        let mut bounds: Vec<_> = (0..1_000).map(bound).collect();
        bounds.sort();
        FeedPosition::of_ranges(7, bounds.into_iter().zip((0..).map(mark)).collect())
    }

    #[test]
    fn a_thousand_ranges_have_a_position() {
        for mode in [LATEST, ALL] {
            let position = thousand(16);
            let text = position.print(mode, RID, &key()).unwrap();
            assert!(text.len() < 40_000, "{}", text.len());
            assert_eq!(FeedPosition::parse(&text, mode, RID, &key()).unwrap(), position);
        }
    }

    #[test]
    fn a_position_that_fits_no_header_is_refused() {
        let refused = thousand(48).print(LATEST, RID, &key()).unwrap_err();
        let Error::InvalidRequest(why) = refused else { panic!("{refused}") };
        assert_eq!(*why, InvalidRequest::FeedContinuationTooLong);
    }

    #[test]
    fn differences_add_up() {
        for (a, b) in [(0, 0), (5, 3), (3, 5), (u64::MAX, 0), (0, u64::MAX), (1 << 63, 0)] {
            assert_eq!(sum(difference(a, b), b), a);
        }
        assert_eq!((difference(3, 3), difference(4, 3), difference(2, 3)), (0, 2, 1));
    }

    fn any_mark() -> impl Strategy<Value = Mark> {
        let lsn = || (0..=u64::MAX / 2).prop_map(Lsn);
        (lsn(), any::<u64>(), lsn()).prop_map(|(lsn, time, until)| Mark { lsn, time, until })
    }

    fn any_position() -> impl Strategy<Value = FeedPosition> {
        let bound = proptest::collection::vec(any::<u8>(), 0..20);
        let epk_ranges = proptest::collection::btree_map(bound, any_mark(), 0..6);
        (0..9usize, epk_ranges).prop_map(|(turn, epk_ranges)| {
            let mut epk_ranges: Vec<_> =
                epk_ranges.into_iter().map(|(min, mark)| (Epk::from_bytes(&min), mark)).collect();
            epk_ranges.sort_by(|a, b| a.0.cmp(&b.0));
            epk_ranges.dedup_by(|a, b| a.0 == b.0);
            FeedPosition::of_ranges(turn, epk_ranges)
        })
    }

    proptest! {
        #[test]
        fn positions_read_back(position in any_position(), latest: bool) {
            let mode = if latest { LATEST } else { ALL };
            let text = position.print(mode, RID, &key()).unwrap();
            prop_assert_eq!(FeedPosition::parse(&text, mode, RID, &key()).unwrap(), position);
        }

        #[test]
        fn no_text_and_no_signed_bytes_break_the_reader(
            text in ".{0,80}",
            tail in proptest::collection::vec(any::<u8>(), 0..80),
            latest: bool,
        ) {
            let mode = if latest { LATEST } else { ALL };
            let _ = FeedPosition::parse(&text, mode, RID, &key());
            let head = [VERSION, mode_byte(mode), 0, 0, 0, 7, 0, 0, 0, 9];
            let signed = key().sign([&head[..], &tail].concat());
            if let Ok(position) = FeedPosition::parse(&signed, mode, RID, &key()) {
                let printed = position.print(mode, RID, &key()).unwrap();
                prop_assert_eq!(FeedPosition::parse(&printed, mode, RID, &key()).unwrap(), position);
            }
        }

        #[test]
        fn stretches_cover_a_range_without_gaps(
            position in any_position(),
            min in proptest::collection::vec(any::<u8>(), 0..4),
            max in proptest::collection::vec(any::<u8>(), 1..4),
        ) {
            let range = EpkRange { min: Epk::from_bytes(&min), max: Epk::from_bytes(&max).min(Epk::max()) };
            let epk_ranges = position.within(&range);
            let mut next = range.min.clone();
            for (epk_range, mark) in &epk_ranges {
                prop_assert_eq!(&epk_range.min, &next);
                prop_assert_eq!(position.mark_at(&epk_range.min), *mark);
                next = epk_range.max.clone();
            }
            if range.min < range.max {
                prop_assert_eq!(next, range.max);
            }
        }
    }
}
