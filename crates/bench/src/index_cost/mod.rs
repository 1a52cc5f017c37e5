//! The cost of the index: upserts of 1 KB documents into a container that indexes every path and
//! into one without an index, compared with the bare store's cost for the index keys; and the
//! memory and disk space of a loaded server.

pub mod report;
pub mod upserts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::load::raw::RawStore;
use crate::load::record::Recording;
use crate::process;
use crate::queries::data::Data;
use crate::queries::ours::Ours;
use crate::queries::query_kind::{Parameters, QueryKind};
use report::{Cell, Holding, Report};
use upserts::{Numbers, Upserts, measure};

/// Documents that are loaded before the measurement.
pub(crate) const LOADED: u64 = 10_000;
/// A policy that indexes nothing.
const NO_INDEX: &str = r#"{"indexingMode":"none","automatic":false}"#;
/// How long documents are read before the memory is measured.
const READING: Duration = Duration::from_secs(5);
const READERS: usize = 4;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to measure.
    pub binary: PathBuf,
    /// Where the data goes, in a directory that is removed afterwards.
    pub scratch: PathBuf,
    /// Numbers of documents for which memory is measured.
    pub sizes: Vec<u64>,
    /// Length of one interval.
    pub interval: Duration,
    /// How often every interval is repeated, interleaved with the others.
    pub rounds: u32,
}

/// The description of a container that indexes every path or none.
pub fn container(id: &str, is_indexed: bool) -> String {
    container_with(id, (!is_indexed).then_some(NO_INDEX))
}

/// The description of a container with an indexing policy. Without one every path is indexed.
pub fn container_with(id: &str, policy: Option<&str>) -> String {
    let policy = policy.map(|policy| format!(r#","indexingPolicy":{policy}"#));
    let policy = policy.unwrap_or_default();
    format!(
        r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{policy}}}"#
    )
}

/// Measures everything in `options`. Servers and data are removed when it returns.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let mut report = Report {
        cache_bytes: storage::EmbeddedOptions::new(engine::KEY_TAGS).cache_bytes,
        ..Report::default()
    };
    for upserts in Upserts::ALL {
        report.cells.push(compare(options, upserts).await?);
    }
    for &documents in &options.sizes {
        report.holdings.push(hold(options, documents).await?);
    }
    Ok(report)
}

/// One kind of upserts on both containers, each on a server of its own, and on the bare store.
async fn compare(options: &Options, upserts: Upserts) -> anyhow::Result<Cell> {
    let scratch = tempfile::tempdir_in(&options.scratch)?;
    let (indexed, indexed_numbers) = loaded(options, scratch.path(), true).await?;
    let (plain, plain_numbers) = loaded(options, scratch.path(), false).await?;
    let raw =
        |is_indexed| RawStore::start(scratch.path(), Recording::Upsert { upserts, is_indexed });
    let (mut raw_indexed, mut raw_plain) = (raw(true)?, raw(false)?);
    let mut cell = Cell {
        upserts: upserts.name(),
        keys_indexed: raw_indexed.keys_per_operation,
        keys_plain: raw_plain.keys_per_operation,
        ..Cell::default()
    };
    for round in 1..=options.rounds {
        eprintln!("{} {round}/{}", upserts.name(), options.rounds);
        let measured = measure(upserts, &indexed, &indexed_numbers, options.interval).await?;
        let per_sync = measured.per_sync.unwrap_or(1.0);
        cell.indexed.push(measured);
        cell.plain.push(measure(upserts, &plain, &plain_numbers, options.interval).await?);
        // Groups of one size, so that only the keys differ.
        cell.raw_indexed.push(raw_indexed.measure(options.interval, per_sync)?);
        cell.raw_plain.push(raw_plain.measure(options.interval, per_sync)?);
    }
    Ok(cell)
}

async fn loaded(
    options: &Options,
    scratch: &Path,
    is_indexed: bool,
) -> anyhow::Result<(Ours, Numbers)> {
    let directory = scratch.join(if is_indexed { "indexed" } else { "plain" });
    let mut server = Ours::start(&options.binary, directory, Data::of(LOADED)?, None)?;
    server.load(&container("doc", is_indexed)).await?;
    Ok((server, Numbers::after(LOADED)))
}

/// Loads a server with so many documents, all paths indexed, reads some of them and measures its
/// memory.
async fn hold(options: &Options, documents: u64) -> anyhow::Result<Holding> {
    let scratch = tempfile::tempdir_in(&options.scratch)?;
    let directory = scratch.path().join("data");
    let begin = Instant::now();
    let data = Data::of(documents)?;
    let mut server = Ours::start(&options.binary, directory.clone(), data, None)?;
    server.load(&container("doc", true)).await?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let resident_loaded = process::resident_bytes(server.pid())?;
    let parameters = Parameters::new(data, data);
    for question in [QueryKind::PartitionRange, QueryKind::Filter] {
        server.measure((question, parameters), READERS, READING, documents).await?;
    }
    Ok(Holding {
        documents,
        load_seconds,
        resident_loaded,
        resident_read: process::resident_bytes(server.pid())?,
        resident_most: process::resident_bytes_most(server.pid())?,
        disk: bytes_below(&directory)?,
    })
}

/// Bytes of all files below a directory. Files that are deleted meanwhile are not counted.
fn bytes_below(directory: &Path) -> anyhow::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        total += match metadata.is_dir() {
            true => bytes_below(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(total)
}
