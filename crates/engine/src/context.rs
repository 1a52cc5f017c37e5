//! What travels with every request, and what the engine reports back whatever the outcome.

use model::{Charge, Lsn};

use crate::RangeId;

/// What the caller brings besides the operation itself, and where the engine notes what serving it
/// took. Filled in on success *and* on failure, because replies carry it in both cases.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    /// Per range: the position the caller has already seen. Reads must not be older.
    pub session: Vec<(RangeId, Lsn)>,
    /// Who goes first when throughput is short.
    pub priority: Priority,
    /// What it took.
    pub served: Served,
}

/// Who goes first when throughput is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Served as long as there is anything left.
    #[default]
    High,
    /// Served only while more than a fifth of a second's throughput is left.
    Low,
}

/// What serving a request took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Request units used.
    pub charge: Charge,
    /// The ranges touched, with the position each stands at.
    pub ranges: Vec<(RangeId, Lsn)>,
    /// Position of the last change to the item read or written, if there was one.
    pub item_lsn: Option<Lsn>,
}

impl Served {
    /// Notes that what was looked for in `asked` happened in `range`, now at `lsn`. They differ when
    /// a split or merge came between.
    pub(crate) fn touch_instead(&mut self, asked: RangeId, range: RangeId, lsn: Lsn) {
        if asked != range {
            self.ranges.retain(|(r, _)| *r != asked);
        }
        self.touch(range, lsn);
    }

    /// Notes that `range`, now at `lsn`, took part.
    pub(crate) fn touch(&mut self, range: RangeId, lsn: Lsn) {
        match self.ranges.iter_mut().find(|(r, _)| *r == range) {
            Some((_, seen)) => *seen = lsn.max(*seen),
            None => self.ranges.push((range, lsn)),
        }
    }
}
