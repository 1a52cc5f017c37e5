//! Up to where versions are gone from a partition's log.
//!
//! Times do not tell: a clock that runs ahead lets versions be trimmed long before their time, and
//! once it is right again, earlier positions look young. So a partition notes by position what was
//! trimmed. A log that was merged holds entries of both partitions under their old numbers, and
//! what is gone of one says nothing of the other; so the note has a position for every range of the
//! hash line that once was a partition.
//!
//! Stored as a sequence of: length u16, lower bound, LSN u64.

use bytes::{Buf, BufMut, Bytes};
use model::Lsn;

/// Beyond this many ranges neighbours become one, with the greater position of the two.
const RANGES_MAX: usize = 256;

/// Ranges of the hash line, and up to where versions are gone from each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trimmed {
    /// Lower bounds, as they compare with identities, in order. The first is empty.
    ranges: Vec<(Vec<u8>, Lsn)>,
}

/// Nothing is gone.
impl Default for Trimmed {
    fn default() -> Self {
        Self::everywhere(Lsn(0))
    }
}

impl Trimmed {
    /// Everything up to `lsn` may be missing.
    pub(crate) fn everywhere(lsn: Lsn) -> Self {
        Self { ranges: vec![(Vec::new(), lsn)] }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        for (bound, lsn) in &self.ranges {
            out.put_u16(u16::try_from(bound.len()).expect("bounds are as short as keys"));
            out.put_slice(bound);
            out.put_u64(lsn.0);
        }
        out.into()
    }

    pub(crate) fn decode(mut value: &[u8]) -> Option<Self> {
        let mut ranges: Vec<(Vec<u8>, Lsn)> = Vec::new();
        while !value.is_empty() {
            let (length, rest) = value.split_first_chunk()?;
            let (bound, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let (mut lsn, rest) = rest.split_at_checked(8)?;
            value = rest;
            let is_in_order = ranges.last().map_or(bound.is_empty(), |(last, _)| &last[..] < bound);
            if !is_in_order {
                return None;
            }
            ranges.push((bound.to_vec(), Lsn(lsn.get_u64())));
        }
        (!ranges.is_empty()).then_some(Self { ranges })
    }

    /// The range that an item belongs to.
    pub(crate) fn range_of(&self, identity: &[u8]) -> usize {
        self.ranges.partition_point(|(bound, _)| &bound[..] <= identity).saturating_sub(1)
    }

    /// Notes that versions of items of the range of `identity` are gone up to `lsn`.
    pub(crate) fn raise(&mut self, identity: &[u8], lsn: Lsn) {
        let at = self.range_of(identity);
        let gone = &mut self.ranges[at].1;
        *gone = (*gone).max(lsn);
    }

    /// Whether anything after `after` may be gone of the items from `lo` up to `hi`.
    pub(crate) fn goes_beyond(&self, after: Lsn, lo: &[u8], hi: &[u8]) -> bool {
        self.within(lo, hi).any(|(_, lsn)| lsn > after)
    }

    /// The ranges from `lo` up to `hi`, the first of them from `lo` on.
    fn within<'a>(
        &'a self,
        lo: &'a [u8],
        hi: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], Lsn)> + 'a {
        let ranges = self.ranges[self.range_of(lo)..].iter();
        let common = ranges.take_while(move |(bound, _)| bound.is_empty() || &bound[..] < hi);
        common.map(move |(bound, lsn)| (lo.max(&bound[..]), *lsn))
    }

    /// The note of a partition that replaces others: what each of them notes of a part of the hash
    /// line, in order.
    pub(crate) fn joined<'a>(
        parts: impl IntoIterator<Item = (&'a Trimmed, &'a [u8], &'a [u8])>,
    ) -> Self {
        let mut ranges: Vec<(Vec<u8>, Lsn)> = Vec::new();
        for (part, lo, hi) in parts {
            for (bound, lsn) in part.within(lo, hi) {
                let is_full = ranges.len() >= RANGES_MAX;
                match ranges.last_mut() {
                    None => ranges.push((Vec::new(), lsn)),
                    Some((_, last)) if *last == lsn => {}
                    Some((_, last)) if is_full => *last = (*last).max(lsn),
                    Some(_) => ranges.push((bound.to_vec(), lsn)),
                }
            }
        }
        match ranges.is_empty() {
            true => Self::default(),
            false => Self { ranges },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(ranges: &[(&[u8], u64)]) -> Trimmed {
        let own = |(bound, lsn): &(&[u8], u64)| (bound.to_vec(), Lsn(*lsn));
        Trimmed { ranges: ranges.iter().map(own).collect() }
    }

    #[test]
    fn notes_read_back_and_others_do_not() {
        let two = note(&[(b"", 5), (b"m", 9)]);
        for trimmed in [Trimmed::default(), two.clone()] {
            assert_eq!(Trimmed::decode(&trimmed.encode()), Some(trimmed));
        }
        let bytes = two.encode();
        for cut in (0..bytes.len()).filter(|cut| *cut != 10) {
            assert_eq!(Trimmed::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        for wrong in [note(&[(b"a", 1)]), note(&[(b"", 1), (b"b", 1), (b"a", 1)])] {
            assert_eq!(Trimmed::decode(&wrong.encode()), None);
        }
    }

    #[test]
    fn what_is_gone_of_a_stretch_says_nothing_of_the_others() {
        let mut trimmed = note(&[(b"", 0), (b"m", 0)]);
        trimmed.raise(b"abc", Lsn(7));
        trimmed.raise(b"b", Lsn(3));
        trimmed.raise(b"m", Lsn(20));
        assert_eq!(trimmed, note(&[(b"", 7), (b"m", 20)]));
        assert!(trimmed.goes_beyond(Lsn(6), b"a", b"c"));
        assert!(!trimmed.goes_beyond(Lsn(7), b"a", b"m"));
        assert!(trimmed.goes_beyond(Lsn(7), b"a", b"n"));
        assert!(trimmed.goes_beyond(Lsn(19), b"x", b"y"));
        assert!(!trimmed.goes_beyond(Lsn(20), b"", b"z"));
    }

    #[test]
    fn splits_and_merges_take_along_what_is_theirs() {
        let (left, right) = (Trimmed::everywhere(Lsn(90)), note(&[(b"", 0), (b"t", 4)]));
        let merged = Trimmed::joined([(&left, &b""[..], &b"m"[..]), (&right, b"m", b"z")]);
        assert_eq!(merged, note(&[(b"", 90), (b"m", 0), (b"t", 4)]));
        assert_eq!(Trimmed::joined([(&merged, &b"n"[..], &b"p"[..])]), Trimmed::default());
        let low = Trimmed::joined([(&merged, &b"c"[..], &b"n"[..])]);
        assert_eq!(low, note(&[(b"", 90), (b"m", 0)]));
        let many: Vec<_> = (0..600u16).map(|n| (n, Trimmed::everywhere(Lsn(n.into())))).collect();
        let bounds: Vec<_> = (0..=600u16).map(u16::to_be_bytes).collect();
        let parts = many.iter().map(|(n, part)| {
            let at = usize::from(*n);
            (part, &bounds[at][..], &bounds[at + 1][..])
        });
        let joined = Trimmed::joined(parts);
        assert_eq!(joined.ranges.len(), RANGES_MAX);
        assert!(joined.goes_beyond(Lsn(598), &bounds[599], &bounds[600]));
    }
}
