//! One whole benchmark run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::client::Connection;
use crate::load::do_nothing::DoNothing;
use crate::load::drive::Source;
use crate::load::raw::RawStore;
use crate::load::record::Recording;
use crate::load::report::{DO_NOTHING, PLANISPHERE, RAW_FJALL, RAW_FJALL_FULL, RIVAL, Report};
use crate::load::rival::Rival;
use crate::load::subject::Subject;
use crate::load::workload::Workload;
use crate::process;
use crate::request::{Draft, OwnedReply};
use crate::rng::Rng;
use crate::server::account_of;
use testkit::server::{ServerBuilder, TestServer};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to measure.
    pub binary: PathBuf,
    /// Length of one interval of load.
    pub interval: Duration,
    /// How often every interval is repeated; servers take turns.
    pub rounds: u32,
    /// The measured workloads.
    pub workloads: Vec<Workload>,
    /// Whether the npm package is measured too.
    pub with_rival: bool,
    /// How often the start is timed.
    pub starts: u32,
}

/// Measures everything in `options`. Servers and data are removed when it returns.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let scratch = tempfile::tempdir()?;
    let mut report = Report::default();
    time_starts(options, &mut report).await?;

    let server = launch(options, scratch.path().join("data")).start()?;
    let account = account_of(&server)?;
    let ours = Subject::load(PLANISPHERE, &account, server.pid(), &options.workloads)
        .await?
        .with_health(account.address);
    let do_nothing = DoNothing::start(scratch.path(), &sample_replies(&ours, options).await?)?;
    let floor = Subject::stand_in(DO_NOTHING, do_nothing.pid(), &ours, |workload| {
        let index = options.workloads.iter().position(|w| *w == workload);
        do_nothing.address(index.unwrap_or_default())
    });
    let mut subjects = vec![ours, floor];
    let rival = start_rival(options, &mut report);
    if let Some(rival) = &rival {
        let subject = Subject::load(RIVAL, &rival.account, rival.pid(), &options.workloads).await?;
        subjects.push(subject);
    }
    let mut raw = start_raw(options, scratch.path())?;
    for &workload in &options.workloads {
        let rounds = options.rounds * if workload.is_bounded() { 2 } else { 1 };
        for round in 1..=rounds {
            eprintln!("{} {round}/{rounds}", workload.name());
            take_turns(options, workload, &subjects, raw.as_mut(), &mut report).await?;
        }
    }
    Ok(report)
}

/// One round of one workload on every server.
async fn take_turns(
    options: &Options,
    workload: Workload,
    subjects: &[Subject],
    raw: Option<&mut RawStore>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut per_sync = None;
    for subject in subjects {
        let measured = subject.measure(workload, options.interval).await?;
        per_sync = per_sync.or(measured.per_sync);
        report.add(workload, subject.name, measured);
    }
    if let (Some(raw), Some(per_sync), true) = (raw, per_sync, has_raw_floor(workload)) {
        report.add(workload, RAW_FJALL, raw.measure(options.interval, per_sync)?);
        let full = workload.connections();
        if full > 1 {
            let measured = raw.measure(options.interval, full as f64)?;
            report.add(workload, RAW_FJALL_FULL, measured);
        }
    }
    Ok(())
}

fn has_raw_floor(workload: Workload) -> bool {
    matches!(workload, Workload::CreateAlone | Workload::Create)
}

fn launch(options: &Options, data: PathBuf) -> ServerBuilder {
    ServerBuilder::new(&options.binary).data_dir(data).args(["--throttling", "off"])
}

/// The peer, unless it is left out or not available.
fn start_rival(options: &Options, report: &mut Report) -> Option<Rival> {
    if !options.with_rival {
        return None;
    }
    let started = Rival::start();
    if let Err(error) = &started {
        report.remarks.push(format!("{RIVAL} was not measured: {error:#}"));
    }
    started.ok()
}

/// The bare store, if a workload needs it.
fn start_raw(options: &Options, scratch: &Path) -> anyhow::Result<Option<RawStore>> {
    let wanted = options.workloads.iter().any(|workload| has_raw_floor(*workload));
    wanted.then(|| RawStore::start(scratch, Recording::Create)).transpose()
}

/// Times starts on empty directories, and measures the memory of the last server when it is idle.
async fn time_starts(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for _ in 0..options.starts {
        let data = tempfile::tempdir()?;
        let begin = Instant::now();
        let server = launch(options, data.path().join("data")).start()?;
        account_of(&server)?.expect(&Draft::account(), &[200]).await.context("first request")?;
        report.first_request_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        report.idle_bytes = idle_bytes(&server).await?;
    }
    Ok(())
}

async fn idle_bytes(server: &TestServer) -> anyhow::Result<u64> {
    process::settle(server.pid(), Duration::from_secs(1)).await?;
    process::resident_bytes(server.pid())
}

/// One reply of the real server per workload, for the do-nothing server to repeat.
async fn sample_replies(ours: &Subject, options: &Options) -> anyhow::Result<Vec<OwnedReply>> {
    let mut samples = Vec::new();
    for &workload in &options.workloads {
        let (address, requests) = ours.requests(workload)?;
        let mut connection = Connection::open(address).await?;
        let mut sender = requests.sender(Rng::new(0));
        let reply = connection.exchange(sender.next_request()).await?;
        anyhow::ensure!(
            workload.accepts(reply.status),
            "{} answered {}: {}",
            workload.name(),
            reply.status,
            String::from_utf8_lossy(reply.body)
        );
        samples.push(OwnedReply {
            status: reply.status,
            headers: reply.headers().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            body: reply.body.to_vec(),
        });
    }
    Ok(samples)
}
