//! How the rows of a page are found, for those who ask.

use model::Charge;
use query::access::Access;

use super::access_path::Way;
use super::scan::Walk;
use super::{PageWork, Stretch};
use crate::Error;
use crate::ops::{PageReport, RangeReport, Retrieved, WayTaken};
use crate::partition::Seen;

/// Longest text of a condition.
const CONDITION_CHARS_MAX: usize = 200;

/// A report of nothing.
pub(super) fn empty() -> PageReport {
    PageReport {
        conjuncts: Vec::new(),
        access: Access::Everything,
        way: WayTaken::NoItems,
        ranges: Vec::new(),
    }
}

impl Walk<'_> {
    /// Finds out how a page would be filled.
    pub(super) fn explain(&self, work: &mut PageWork) -> Result<(), Error> {
        if !work.plan.reads_items() {
            return Ok(());
        }
        let choice = self.choose(work)?;
        self.note_way(work, &choice.way);
        for (stretch, seen) in self.stretches.iter().zip(&choice.seen) {
            if let Way::ByPlace(access) = &choice.way {
                let can_pause = work.plan.is_stream();
                let found = self.find_for_page(stretch, access, can_pause, seen)?;
                seen.is_indexed.set(found.is_some());
            }
            work.note_range(stretch, seen, Charge::ZERO);
        }
        Ok(())
    }

    /// Tells the report of the way that was chosen.
    pub(super) fn note_way(&self, work: &mut PageWork, way: &Way) {
        let Some(report) = &mut work.report else { return };
        let is_indexed = |path: &[query::access::Step]| self.indexes.includes(path);
        report.conjuncts = work.plan.conjuncts(&is_indexed, CONDITION_CHARS_MAX);
        report.access = work.plan.access(&is_indexed);
        report.way = match way {
            _ if !work.plan.reads_items() => WayTaken::NoItems,
            Way::ByPlace(_) => WayTaken::ByPlace,
            Way::Found(_) => WayTaken::Sorted,
            Way::ByOrder(order) => WayTaken::InOrder(order.described()),
            Way::First(order) => WayTaken::FirstOf(order.described()),
            Way::Counted(_) | Way::Totals(_) => WayTaken::Counted,
        };
    }
}

impl PageWork {
    /// Tells the report of what was done in a range.
    pub(super) fn note_range(&mut self, stretch: &Stretch, seen: &Seen, charge: Charge) {
        let Some(report) = &mut self.report else { return };
        let (walked, read) = (seen.walked.get(), seen.read.get());
        let is_indexed = match report.way {
            WayTaken::NoItems => false,
            WayTaken::ByPlace => seen.is_indexed.get(),
            WayTaken::Sorted | WayTaken::InOrder(_) | WayTaken::FirstOf(_) | WayTaken::Counted => {
                true
            }
        };
        report.add_range(RangeReport {
            id: stretch.range.id,
            epk: stretch.range.epk.clone(),
            is_indexed,
            walked,
            read,
            entries: seen.entries.get(),
            composite: seen.composite().cloned(),
            charge,
        });
    }
}

impl PageReport {
    /// Adds what was done in a range to what was done there before.
    pub(crate) fn add_range(&mut self, more: RangeReport) {
        match self.ranges.iter_mut().find(|range| range.id == more.id) {
            Some(range) => {
                range.is_indexed |= more.is_indexed;
                range.walked.add(more.walked);
                range.read.add(more.read);
                range.entries += more.entries;
                range.composite = range.composite.take().or(more.composite);
                range.charge += more.charge;
            }
            None => self.ranges.push(more),
        }
    }
}

impl Retrieved {
    pub(super) fn add(&mut self, other: Retrieved) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}
