//! `$sample`: some documents at random.

use model::Value;

use super::{Context, Documents, Given};
use crate::budget::bytes_of;
use crate::document::{Failure, code};

pub(super) fn run(size: u64, source: Box<dyn Documents>, context: Context) -> Box<dyn Documents> {
    Box::new(Sampling { size, source: Some(source), context, taken: Given::new(Vec::new()) })
}

struct Sampling {
    size: u64,
    source: Option<Box<dyn Documents>>,
    context: Context,
    taken: Given,
}

impl Documents for Sampling {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(source) = self.source.take() {
            self.taken = Given::new(self.take(source)?);
        }
        self.taken.next()
    }
}

impl Sampling {
    /// Every document has the same chance to be among those that are kept when all have been seen.
    fn take(&self, mut source: Box<dyn Documents>) -> Result<Vec<Value>, Failure> {
        let (mut kept, mut seen, mut bytes) = (Vec::new(), 0_u64, 0);
        let variables = &self.context.variables;
        while let Some(document) = source.next()? {
            seen += 1;
            let size = bytes_of(&document);
            if (kept.len() as u64) < self.size {
                bytes += size;
                kept.push(document);
            } else {
                let place = usize::try_from(variables.next_random() % seen).unwrap_or(usize::MAX);
                if let Some(old) = kept.get_mut(place) {
                    bytes = bytes - bytes_of(old) + size;
                    *old = document;
                }
            }
            if bytes > self.context.stage_bytes_max {
                let limit = self.context.stage_bytes_max;
                let message =
                    format!("$sample exceeded its memory limit. Memory limit: {limit} bytes");
                return Err(Failure::new(code::MEMORY_LIMIT_EXCEEDED, message));
            }
        }
        // Until the sample is full, documents are in the order of the source.
        for at in (1..kept.len()).rev() {
            let other = usize::try_from(variables.next_random() % (at as u64 + 1)).unwrap_or(at);
            kept.swap(at, other);
        }
        Ok(kept)
    }
}
