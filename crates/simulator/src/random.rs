//! The only source of randomness: a seed, and a stream for each actor.
//!
//! Each actor draws from its own stream, so that one more draw of an actor does not change what the
//! others do.

use std::sync::{Mutex, PoisonError};

/// A stream of random numbers that is determined by its seed.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    pub(crate) fn new(seed: u64) -> Self {
        let mut stream = Self { state: seed };
        // Neighbouring seeds should not have neighbouring first numbers.
        stream.next();
        stream
    }

    /// An independent stream for the actor called `name`.
    pub(crate) fn fork(&self, name: &str) -> Self {
        Self::new(xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), self.state))
    }

    /// The next number: a counter, scrambled by two multiplications.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // Slightly biased for large `n`, which no test can notice.
        self.next() % n
    }

    /// A number from `low` up to and including `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of all cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the elements.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// An index into a collection of `len` elements.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}

/// A stream as the engine's source of randomness.
pub(crate) struct SeededRandom(Mutex<Stream>);

impl SeededRandom {
    pub(crate) fn new(stream: Stream) -> Self {
        Self(Mutex::new(stream))
    }
}

impl engine::components::Random for SeededRandom {
    fn fill(&self, out: &mut [u8]) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&stream.next().to_be_bytes()[..chunk.len()]);
        }
    }
}
