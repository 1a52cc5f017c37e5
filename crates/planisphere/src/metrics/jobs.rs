//! Splits and merges: their number, their duration, and how long writers waited.

use std::fmt;

use engine::Engine;
use engine::repartition::{DURATION_BOUNDS, Durations, JobKind, JobTally};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Reads the engine on every collection.
pub(super) struct Jobs {
    pub(super) engine: Engine,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jobs")
    }
}

impl Collector for Jobs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let tallies = self.engine.job_tallies();
        let kinds = [("split", &tallies.splits), ("merge", &tallies.merges)];
        encode_counts(&mut encoder, &kinds)?;
        let help = "How long splits and merges took";
        encode_durations(
            &mut encoder,
            "planisphere_repartition_duration_seconds",
            help,
            &kinds,
            |t| t.took,
        )?;
        let help = "Time that writers were blocked by a change-over";
        encode_durations(
            &mut encoder,
            "planisphere_repartition_hold_seconds",
            help,
            &kinds,
            |t| t.held,
        )?;
        self.encode_running(&mut encoder)
    }
}

impl Jobs {
    fn encode_running(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let jobs = self.engine.jobs();
        let (name, help) = ("planisphere_repartitions_running", "Splits and merges under way");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (label, kind) in [("split", JobKind::Split), ("merge", JobKind::Merge)] {
            let running = jobs.iter().filter(|job| job.kind == kind && !job.phase.is_over());
            let running = running.count() as u64;
            family.encode_family(&[("kind", label)])?.encode_gauge(&running)?;
        }
        Ok(())
    }
}

fn encode_counts(
    encoder: &mut DescriptorEncoder<'_>,
    kinds: &[(&'static str, &JobTally)],
) -> fmt::Result {
    let (name, help) = ("planisphere_repartitions", "Finished splits and merges");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (kind, tally) in kinds {
        let outcomes = [
            ("succeeded", tally.succeeded),
            ("failed", tally.failed),
            ("cancelled", tally.cancelled),
        ];
        for (outcome, count) in outcomes {
            let labels = [("kind", *kind), ("outcome", outcome)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }
    Ok(())
}

fn encode_durations(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kinds: &[(&'static str, &JobTally)],
    of: fn(&JobTally) -> Durations,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (kind, tally) in kinds {
        let Durations { counts, sum } = of(tally);
        let bounds = DURATION_BOUNDS.iter().map(std::time::Duration::as_secs_f64);
        let buckets: Vec<(f64, u64)> = bounds.chain([f64::INFINITY]).zip(counts).collect();
        let count = counts.iter().sum();
        let labels = [("kind", *kind)];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum.as_secs_f64(), count, &buckets, None)?;
    }
    Ok(())
}
