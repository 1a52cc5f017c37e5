//! The results of a run, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::load::subject::Measured;
use crate::load::workload::Workload;

/// Name of the measured server.
pub const PLANISPHERE: &str = "planisphere";
/// Name of the hyper server that does nothing.
pub const DO_NOTHING: &str = "do-nothing";
/// Name of the bare storage engine.
pub const RAW_FJALL: &str = "raw fjall";
/// Name of the bare storage engine when every group is full.
pub const RAW_FJALL_FULL: &str = "raw fjall, full groups";
/// Name of the npm package.
pub const RIVAL: &str = "vercel 1.0.1";

/// A point read may cost this many times the do-nothing server's processor time.
const POINT_READ_RATIO_MAX: f64 = 5.0;
/// A durable create may cost this many times the do-nothing server plus the bare store.
const CREATE_RATIO_MAX: f64 = 2.5;
/// The first request must be answered this soon after the process started.
const FIRST_REQUEST_MS_MAX: f64 = 50.0;
/// An idle server may hold this much memory.
const IDLE_BYTES_MAX: u64 = 20 << 20;

/// Everything one run measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Milliseconds from starting the process on an empty directory to the first good reply.
    pub first_request_ms: Vec<f64>,
    /// Resident memory of an idle server that has answered one request.
    pub idle_bytes: u64,
    /// One entry per workload and server.
    pub cells: Vec<Cell>,
    /// Omitted measurements and the reason.
    pub remarks: Vec<String>,
}

/// All rounds of one workload on one server.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: &'static str,
    /// The server's name.
    pub server: &'static str,
    /// One measurement per round.
    pub rounds: Vec<Measured>,
}

/// One bound of the benchmark and whether this run meets it.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    /// The bounded quantity and its measured value.
    pub text: String,
    /// Whether the bound is met.
    pub kept: bool,
}

impl Report {
    /// Adds a round.
    pub fn add(&mut self, workload: Workload, server: &'static str, measured: Measured) {
        let name = workload.name();
        let known = self.cells.iter_mut().find(|c| c.workload == name && c.server == server);
        match known {
            Some(cell) => cell.rounds.push(measured),
            None => self.cells.push(Cell { workload: name, server, rounds: vec![measured] }),
        }
    }

    /// The table, medians over the rounds.
    pub fn table(&self) -> String {
        let mut out = String::new();
        line(
            &mut out,
            [
                "workload",
                "server",
                "ops/s",
                "p50 us",
                "p99 us",
                "CPU us/op (range)",
                "ops/sync",
                "RSS MB",
                "refused",
            ],
        );
        line(&mut out, ["---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:"]);
        for cell in &self.cells {
            line(&mut out, cell.columns().each_ref().map(String::as_str));
        }
        out
    }

    /// The bounds for which there are measurements.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        all.extend(self.first_request());
        all.extend(self.idle());
        all.extend(self.point_read());
        all.extend(self.durable_create());
        all.extend(self.no_errors());
        all
    }

    fn first_request(&self) -> Option<Verdict> {
        if self.first_request_ms.is_empty() {
            return None;
        }
        let found = median(self.first_request_ms.iter().copied());
        Some(Verdict {
            text: format!(
                "first request {found:.1} ms after process start, median of {} (at most {FIRST_REQUEST_MS_MAX:.0})",
                self.first_request_ms.len()
            ),
            kept: found <= FIRST_REQUEST_MS_MAX,
        })
    }

    fn idle(&self) -> Option<Verdict> {
        (self.idle_bytes > 0).then(|| Verdict {
            text: format!(
                "idle resident memory {:.1} MB (at most {})",
                self.idle_bytes as f64 / f64::from(1 << 20),
                IDLE_BYTES_MAX >> 20
            ),
            kept: self.idle_bytes <= IDLE_BYTES_MAX,
        })
    }

    fn point_read(&self) -> Option<Verdict> {
        let ours = self.cpu(Workload::PointRead, PLANISPHERE)?;
        let floor = self.cpu(Workload::PointRead, DO_NOTHING)?;
        let ratio = ours / floor;
        Some(Verdict {
            text: format!(
                "point read CPU per op {ours:.1} us = {ratio:.2}x do-nothing {floor:.1} us (at most {POINT_READ_RATIO_MAX})"
            ),
            kept: ratio <= POINT_READ_RATIO_MAX,
        })
    }

    fn durable_create(&self) -> Option<Verdict> {
        let ours = self.cpu(Workload::Create, PLANISPHERE)?;
        let floor = self.cpu(Workload::Create, DO_NOTHING)?;
        let store = self.cpu(Workload::Create, RAW_FJALL)?;
        let ratio = ours / (floor + store);
        Some(Verdict {
            text: format!(
                "durable create at 16 connections CPU per op {ours:.1} us = {ratio:.2}x (raw fjall {store:.1} us + do-nothing {floor:.1} us) (at most {CREATE_RATIO_MAX})"
            ),
            kept: ratio <= CREATE_RATIO_MAX,
        })
    }

    /// The same with groups as large as the number of connections, which a server reaches only if
    /// every writer always waits for the same sync. Reported beside the bound, not part of it.
    pub fn durable_create_full_groups(&self) -> Option<String> {
        let ours = self.cpu(Workload::Create, PLANISPHERE)?;
        let floor = self.cpu(Workload::Create, DO_NOTHING)?;
        let store = self.cpu(Workload::Create, RAW_FJALL_FULL)?;
        let ratio = ours / (floor + store);
        Some(format!(
            "durable create at 16 connections is {ratio:.2}x (raw fjall in full groups {store:.1} us + do-nothing)"
        ))
    }

    fn no_errors(&self) -> Option<Verdict> {
        let refused: u64 = self.ours().map(Cell::refused).sum();
        let sample = self.ours().flat_map(|c| &c.rounds).find_map(|m| m.refusal.as_deref());
        self.ours().next()?;
        Some(Verdict {
            text: match sample {
                None => "no request refused by planisphere".to_owned(),
                Some(sample) => {
                    format!("{refused} requests refused by planisphere, such as {sample}")
                }
            },
            kept: refused == 0,
        })
    }

    /// Processor time relative to the lower bound and the peer, for each workload.
    pub fn ratios(&self) -> String {
        let mut out = String::new();
        line(&mut out, ["workload", "CPU vs do-nothing", "CPU vs vercel", "throughput vs vercel"]);
        line(&mut out, ["---", "--:", "--:", "--:"]);
        for workload in Workload::ALL {
            let Some(ours) = self.cpu(workload, PLANISPHERE) else { continue };
            let against = |server| self.cpu(workload, server).map(|theirs| ours / theirs);
            let rate = |server| self.cell(workload, server).map(|c| c.median(|m| m.per_second));
            let faster = rate(PLANISPHERE).zip(rate(RIVAL)).map(|(ours, theirs)| ours / theirs);
            let show = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |r| format!("{r:.2}x"));
            line(
                &mut out,
                [workload.name(), &show(against(DO_NOTHING)), &show(against(RIVAL)), &show(faster)],
            );
        }
        out
    }

    fn ours(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.server == PLANISPHERE)
    }

    fn cell(&self, workload: Workload, server: &str) -> Option<&Cell> {
        self.cells.iter().find(|c| c.workload == workload.name() && c.server == server)
    }

    fn cpu(&self, workload: Workload, server: &str) -> Option<f64> {
        self.cell(workload, server).map(|cell| cell.median(|m| m.cpu_us))
    }
}

impl Cell {
    fn columns(&self) -> [String; 9] {
        let per_sync: Vec<f64> = self.rounds.iter().filter_map(|m| m.per_sync).collect();
        let cpu = || self.rounds.iter().map(|m| m.cpu_us);
        let (least, most) = (cpu().fold(f64::INFINITY, f64::min), cpu().fold(0.0, f64::max));
        let mebibytes = self.median(|m| m.resident_bytes as f64) / f64::from(1 << 20);
        [
            self.workload.to_owned(),
            self.server.to_owned(),
            format!("{:.0}", self.median(|m| m.per_second)),
            format!("{:.0}", self.median(|m| m.p50_us)),
            format!("{:.0}", self.median(|m| m.p99_us)),
            format!("{:.1} ({:.1}-{:.1})", self.median(|m| m.cpu_us), least, most),
            if per_sync.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.1}", median(per_sync.into_iter()))
            },
            format!("{mebibytes:.0}"),
            self.refused_text(),
        ]
    }

    fn median(&self, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }

    fn refused(&self) -> u64 {
        self.rounds.iter().flat_map(|m| m.refused.values()).sum()
    }

    fn refused_text(&self) -> String {
        let mut by_status: BTreeMap<u16, u64> = BTreeMap::new();
        for (status, count) in self.rounds.iter().flat_map(|m| &m.refused) {
            *by_status.entry(*status).or_default() += count;
        }
        let parts: Vec<_> =
            by_status.iter().map(|(status, count)| format!("{count} x {status}")).collect();
        if parts.is_empty() { "0".to_owned() } else { parts.join(", ") }
    }
}

/// The middle value; the mean of the two middle ones of an even number; zero if there are none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Adds a row of a table.
pub(crate) fn line<const N: usize>(out: &mut String, cells: [&str; N]) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cpu_us: f64) -> Measured {
        Measured { cpu_us, ..Measured::default() }
    }

    #[test]
    fn medians() {
        assert_eq!(median([].into_iter()), 0.0);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0].into_iter()), 2.5);
    }

    #[test]
    fn bounds_are_judged_on_medians() {
        let mut report = Report::default();
        for ours in [40.0, 900.0, 50.0] {
            report.add(Workload::PointRead, PLANISPHERE, cpu(ours));
            report.add(Workload::PointRead, DO_NOTHING, cpu(10.0));
        }
        assert!(report.point_read().unwrap().kept);
        report.add(Workload::PointRead, PLANISPHERE, cpu(900.0));
        report.add(Workload::PointRead, PLANISPHERE, cpu(900.0));
        assert!(!report.point_read().unwrap().kept);
        assert_eq!(report.durable_create(), None);
    }

    #[test]
    fn the_create_bound_adds_store_and_floor() {
        let mut report = Report::default();
        report.add(Workload::Create, PLANISPHERE, cpu(100.0));
        report.add(Workload::Create, DO_NOTHING, cpu(10.0));
        report.add(Workload::Create, RAW_FJALL, cpu(30.0));
        assert!(report.durable_create().unwrap().kept);
        report.cells[0].rounds[0].cpu_us = 100.1;
        assert!(!report.durable_create().unwrap().kept);
    }

    #[test]
    fn full_groups_are_told_but_not_judged() {
        let mut report = Report::default();
        report.add(Workload::Create, PLANISPHERE, cpu(100.0));
        report.add(Workload::Create, DO_NOTHING, cpu(10.0));
        assert_eq!(report.durable_create_full_groups(), None);
        report.add(Workload::Create, RAW_FJALL_FULL, cpu(15.0));
        assert!(report.durable_create_full_groups().unwrap().contains("4.00x"));
        assert_eq!(report.durable_create(), None);
    }

    #[test]
    fn a_refused_request_breaks_the_run() {
        let mut report = Report::default();
        let mut measured = cpu(1.0);
        report.add(Workload::Overwrite, PLANISPHERE, measured.clone());
        assert!(report.no_errors().unwrap().kept);
        measured.refused.insert(409, 2);
        measured.refusal = Some("Conflict".to_owned());
        report.add(Workload::Overwrite, PLANISPHERE, measured);
        assert!(!report.no_errors().unwrap().kept);
        assert!(report.table().contains("2 x 409"));
    }
}
