//! Which logical partitions use most of a partition's throughput, in a few kilobytes.

use model::Charge;

/// Logical partitions watched at a time.
const ENTRIES: usize = 32;
/// Amounts are halved this often, so that the list shows what is busy now.
const HALVED_AFTER_SECONDS: u64 = 60;

/// A space-saving sketch: a newcomer takes the place of the smallest entry and starts with its
/// amount, which is the most it can have used before. So everything that uses more than a 32nd of
/// the throughput is in the list, and an amount is too large by at most its `overestimate`.
#[derive(Debug, Default)]
pub(super) struct TopKeys {
    /// Made when first used: most partitions of a store with many are idle.
    entries: Option<Box<Entries>>,
    halved_at_second: u64,
}

#[derive(Debug)]
struct Entries {
    digests: [u64; ENTRIES],
    amounts: [u64; ENTRIES],
    overestimates: [u64; ENTRIES],
    keys: [Vec<u8>; ENTRIES],
}

/// A logical partition and about what it used lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    /// Its key values, in the engine's encoding (see [`model::PartitionKey::decode`]).
    pub key: Vec<u8>,
    /// What it used, halved every minute.
    pub charge: Charge,
    /// By how much `charge` may be too large.
    pub overestimate: Charge,
}

impl TopKeys {
    /// Notes that the logical partition `key` used `charge`.
    pub(super) fn note(&mut self, digest: u64, key: &[u8], charge: Charge, second: u64) {
        self.fade(second);
        let entries = self.entries.get_or_insert_with(|| Box::new(Entries::empty()));
        let at = match entries.digests.iter().position(|d| *d == digest) {
            Some(at) => at,
            None => entries.replace_smallest(digest, key),
        };
        entries.amounts[at] = entries.amounts[at].saturating_add(charge.as_milli());
    }

    /// Halves the amounts for every minute that has begun since the last time.
    fn fade(&mut self, second: u64) {
        let minutes = second.saturating_sub(self.halved_at_second) / HALVED_AFTER_SECONDS;
        self.halved_at_second += minutes * HALVED_AFTER_SECONDS;
        if let Some(entries) = self.entries.as_mut().filter(|_| minutes > 0) {
            entries.halve(u32::try_from(minutes).unwrap_or(u32::MAX));
        }
    }

    /// The busiest logical partitions, busiest first.
    pub(super) fn busiest(&mut self, second: u64) -> Vec<KeyUsage> {
        self.fade(second);
        let Some(entries) = &self.entries else { return Vec::new() };
        let mut out: Vec<_> = (0..ENTRIES)
            .filter(|at| entries.amounts[*at] > 0)
            .map(|at| KeyUsage {
                key: entries.keys[at].clone(),
                charge: Charge::milli(entries.amounts[at]),
                overestimate: Charge::milli(entries.overestimates[at]),
            })
            .collect();
        out.sort_by(|a, b| b.charge.cmp(&a.charge).then_with(|| a.key.cmp(&b.key)));
        out
    }
}

impl Entries {
    fn empty() -> Self {
        Self {
            digests: [0; ENTRIES],
            amounts: [0; ENTRIES],
            overestimates: [0; ENTRIES],
            keys: std::array::from_fn(|_| Vec::new()),
        }
    }

    fn halve(&mut self, times: u32) {
        for n in self.amounts.iter_mut().chain(&mut self.overestimates) {
            *n = n.checked_shr(times).unwrap_or(0);
        }
    }

    fn replace_smallest(&mut self, digest: u64, key: &[u8]) -> usize {
        let smallest = (0..ENTRIES).min_by_key(|at| self.amounts[*at]).unwrap_or(0);
        self.digests[smallest] = digest;
        self.overestimates[smallest] = self.amounts[smallest];
        self.keys[smallest].clear();
        self.keys[smallest].extend_from_slice(key);
        smallest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(top: &mut TopKeys, n: u64, milli: u64, second: u64) {
        top.note(n + 1, &n.to_be_bytes(), Charge::milli(milli), second);
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut top = TopKeys::default();
        for n in 0..20 {
            note(&mut top, n, 10 * (n + 1), 0);
        }
        note(&mut top, 3, 1_000, 0);
        let busiest = top.busiest(0);
        assert_eq!(busiest.len(), 20);
        assert_eq!(busiest[0].key, 3u64.to_be_bytes());
        assert_eq!(busiest[0].charge, Charge::milli(1_040));
        assert!(busiest.iter().all(|k| k.overestimate == Charge::ZERO));
    }

    proptest::proptest! {
        /// The guarantee of the sketch: amounts are never too small, too large by no more than they
        /// say, and every key that used more than a 32nd is listed.
        #[test]
        fn amounts_are_within_their_bounds(
            uses in proptest::collection::vec((0u64..100, 1u64..1_000), 1..600)
        ) {
            let mut top = TopKeys::default();
            let mut real = std::collections::BTreeMap::<u64, u64>::new();
            for (n, milli) in &uses {
                note(&mut top, *n, *milli, 7);
                *real.entry(*n).or_default() += milli;
            }
            let total: u64 = real.values().sum();
            let listed = top.busiest(7);
            for entry in &listed {
                let n = u64::from_be_bytes(entry.key.as_slice().try_into().unwrap());
                let (real, shown) = (real[&n], entry.charge.as_milli());
                proptest::prop_assert!(real <= shown);
                proptest::prop_assert!(shown - entry.overestimate.as_milli() <= real);
            }
            for (n, amount) in real {
                let is_listed = listed.iter().any(|e| e.key == n.to_be_bytes());
                proptest::prop_assert!(is_listed || amount * 32 <= total);
            }
        }
    }

    #[test]
    fn what_was_busy_long_ago_fades() {
        let mut top = TopKeys::default();
        note(&mut top, 1, 1_000, 0);
        note(&mut top, 2, 600, 60);
        let busiest = top.busiest(60);
        assert_eq!(busiest[0].key, 2u64.to_be_bytes());
        assert_eq!(busiest[1].charge, Charge::milli(500));
        // Also while no key is used.
        let later: Vec<_> = top.busiest(180).iter().map(|k| k.charge).collect();
        assert_eq!(later, [Charge::milli(150), Charge::milli(125)]);
        assert!(top.busiest(1_000_000).is_empty());
    }
}
