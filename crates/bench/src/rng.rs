//! Small seeded randomness, so that a run can be repeated from the seed it printed.

/// A splitmix64 stream. Streams of different seeds are independent enough for load and faults.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream for the actor numbered `actor`.
    pub fn fork(&self, actor: u64) -> Self {
        let mut child = Self(self.0 ^ actor.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        child.next_u64();
        child
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below zero");
        self.next_u64() % n
    }

    /// An index into something of length `len`, which must not be zero.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below a usize")]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in about `percent` of 100 calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Picks indexes with the skew of a Zipf distribution (exponent 0.99, as YCSB uses).
#[derive(Clone, Debug)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Over `n` indexes; index 0 is the most popular. `n` must not be zero.
    pub fn new(n: usize) -> Self {
        assert!(n > 0, "a distribution needs something to pick");
        let mut total = 0.0;
        let cumulative = (1..=n)
            .map(|rank| {
                total += 1.0 / (rank as f64).powf(0.99);
                total
            })
            .collect();
        Self { cumulative }
    }

    /// The next index.
    pub fn pick(&self, rng: &mut Rng) -> usize {
        let total = self.cumulative[self.cumulative.len() - 1];
        let at = rng.unit() * total;
        self.cumulative.partition_point(|&c| c <= at).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams_and_forks_differ() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert_eq!(a.next_u64(), b.next_u64());
        assert_ne!(a.fork(1).next_u64(), a.fork(2).next_u64());
    }

    #[test]
    fn zipf_prefers_the_first_and_reaches_the_last() {
        let zipf = Zipf::new(100);
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 100];
        for _ in 0..20_000 {
            seen[zipf.pick(&mut rng)] += 1;
        }
        assert!(seen[0] > 3_000 && seen[0] < 5_000, "first was picked {} times", seen[0]);
        assert!(seen[99] > 0);
    }
}
