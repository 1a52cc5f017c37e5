//! The measurements of both servers side by side.

use std::fmt;
use std::time::Duration;

use crate::load::drive::Outcome;

use super::{Options, Work};

/// The most of Azurite's resident memory that our server may use.
const RESIDENT_BOUND: f64 = 1.0 / 4.0;

/// Measurements of one server and one kind of request, over all rounds.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    outcome: Outcome,
    cpu: Duration,
    elapsed: Duration,
}

impl Figures {
    pub(super) fn absorb(&mut self, outcome: Outcome, cpu: Duration) {
        self.elapsed += outcome.elapsed;
        self.cpu += cpu;
        self.outcome.absorb(outcome);
    }

    /// Processor time of the server per request, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.outcome.operations.max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.outcome.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn median_us(&self) -> f64 {
        self.outcome.quantile(0.5).as_secs_f64() * 1e6
    }
}

/// All figures of a run.
pub struct Report {
    entities: usize,
    connections: usize,
    resident: (u64, u64),
    rows: Vec<(Work, Figures, Figures)>,
}

impl Report {
    pub(super) fn new(options: &Options, ours: u64, azurite: u64) -> Self {
        let (entities, connections) = (options.entities, options.connections);
        Self { entities, connections, resident: (ours, azurite), rows: Vec::new() }
    }

    pub(super) fn add(&mut self, work: Work, ours: Figures, azurite: Figures) {
        self.rows.push((work, ours, azurite));
    }

    /// The violated bounds as text.
    pub fn broken(&self) -> Vec<String> {
        let requests = self.rows.iter().filter_map(|(work, ours, azurite)| {
            let share = ours.cpu_us() / azurite.cpu_us();
            let is_kept = share <= work.bound();
            (!is_kept).then(|| format!("{} takes {share:.3} of Azurite's time", work.name()))
        });
        let share = self.resident_share();
        let memory = (share > RESIDENT_BOUND)
            .then(|| format!("{} entities take {share:.3} of Azurite's memory", self.entities));
        requests.chain(memory).collect()
    }

    fn resident_share(&self) -> f64 {
        self.resident.0 as f64 / self.resident.1.max(1) as f64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} entities, {} connections", self.entities, self.connections)?;
        writeln!(
            f,
            "| request | ours CPU us | Azurite CPU us | share | bound | ours /s | Azurite /s | ours p50 us | Azurite p50 us |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for (work, ours, azurite) in &self.rows {
            writeln!(
                f,
                "| {} | {:.0} | {:.0} | {:.3} | {:.3} | {:.0} | {:.0} | {:.0} | {:.0} |",
                work.name(),
                ours.cpu_us(),
                azurite.cpu_us(),
                ours.cpu_us() / azurite.cpu_us(),
                work.bound(),
                ours.rate(),
                azurite.rate(),
                ours.median_us(),
                azurite.median_us()
            )?;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "resident at rest, loaded or with every entity read: ours at most {:.0} MB, Azurite at least {:.0} MB, share {:.3} (bound {RESIDENT_BOUND:.3})",
            mib(self.resident.0),
            mib(self.resident.1),
            self.resident_share()
        )
    }
}
