//! Reports of how the rows of a page are found.

use model::Charge;
use query::access::IndexSet;

use super::PageWork;
use super::access_path::{AccessPath, ScanPlan};
use super::scan::Scan;
use super::scope::ScanRange;
use crate::Error;
use crate::ops::{AccessPathKind, PageReport, RangeReport, Retrieved};
use crate::partition::ScanStats;

/// Longest text of a condition.
const CONDITION_CHARS_MAX: usize = 200;

/// An empty report.
pub(super) fn empty() -> PageReport {
    PageReport {
        conjuncts: Vec::new(),
        projected: Vec::new(),
        index_set: IndexSet::Everything,
        access_path: AccessPathKind::NoItems,
        ordered_index: None,
        ranges: Vec::new(),
    }
}

impl Scan<'_> {
    /// Reports how a page would be filled.
    pub(super) fn explain(&self, work: &mut PageWork) -> Result<(), Error> {
        if !work.plan.reads_items() {
            return Ok(());
        }
        let choice = self.choose_access_path(work)?;
        self.note_access_path(work, &choice);
        for (scan_range, stats) in self.scan_ranges.iter().zip(&choice.stats) {
            if let AccessPath::InStorageOrder(index_set) = &choice.access_path {
                let can_pause = work.plan.is_stream();
                let found = self.find_for_page(scan_range, index_set, can_pause, stats)?;
                stats.is_indexed.set(found.is_some());
            }
            work.note_range(scan_range, stats, Charge::ZERO);
        }
        Ok(())
    }

    /// Records the chosen access path in the report.
    pub(super) fn note_access_path(&self, work: &mut PageWork, choice: &ScanPlan) {
        let Some(report) = &mut work.report else { return };
        let is_indexed = |path: &[query::access::Step]| self.indexes.includes(path);
        report.conjuncts = work.plan.conjuncts(&is_indexed, CONDITION_CHARS_MAX);
        report.projected = query::explain::projected_paths(&work.plan);
        report.index_set = work.plan.index_set(&is_indexed);
        report.ordered_index.clone_from(&choice.ordered_index);
        report.access_path = match &choice.access_path {
            _ if !work.plan.reads_items() => AccessPathKind::NoItems,
            AccessPath::InStorageOrder(_) => AccessPathKind::InStorageOrder,
            AccessPath::PostingList(_) => AccessPathKind::Sorted,
            AccessPath::InIndexOrder(order) => AccessPathKind::InIndexOrder(order.described()),
            AccessPath::FirstInIndexOrder(order) => {
                AccessPathKind::FirstInIndexOrder(order.described())
            }
            AccessPath::Counted(_) | AccessPath::Totals(_) => AccessPathKind::Counted,
        };
    }
}

impl PageWork {
    /// Records in the report what was done in a range.
    pub(super) fn note_range(&mut self, scan_range: &ScanRange, stats: &ScanStats, charge: Charge) {
        let Some(report) = &mut self.report else { return };
        let (scanned, read) = (stats.scanned.get(), stats.read.get());
        let is_indexed = match report.access_path {
            AccessPathKind::NoItems => false,
            AccessPathKind::InStorageOrder => stats.is_indexed.get(),
            AccessPathKind::Sorted
            | AccessPathKind::InIndexOrder(_)
            | AccessPathKind::FirstInIndexOrder(_)
            | AccessPathKind::Counted => true,
        };
        report.add_range(RangeReport {
            id: scan_range.range.id,
            epk: scan_range.range.epk.clone(),
            is_indexed,
            scanned,
            read,
            entries: stats.entries.get(),
            composite: stats.composite().cloned(),
            charge,
        });
    }
}

impl PageReport {
    /// Adds further work in a range to what was recorded for that range.
    pub(crate) fn add_range(&mut self, more: RangeReport) {
        match self.ranges.iter_mut().find(|range| range.id == more.id) {
            Some(range) => {
                range.is_indexed |= more.is_indexed;
                range.scanned.add(more.scanned);
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
