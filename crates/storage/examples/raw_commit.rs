//! Measures bare group commits: what durable writes cost below all other layers.
//!
//! Each group holds documents as the engine lays them out (a row, a feed entry and a counter of
//! the logical partition for each, one partition record for all) and is written with one sync.
//! Prints one line of JSON.
//!
//! ```text
//! cargo run --release -p storage --example raw_commit -- --groups 2000 --docs 16
//! ```
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measuring program prints its result and reads the clock"
)]

use std::path::PathBuf;
use std::time::Instant;
use std::{env, fs, process};

use bytes::Bytes;
use model::PartitionId;
use storage::{
    Durability, EmbeddedOptions, EmbeddedStore, KeyTags, LocalStore, Op, StoreError, WriteBatch,
};

const P: PartitionId = PartitionId(1);

/// As the engine has them.
const KEY_TAGS: KeyTags = KeyTags { scanned: [0x20..0x25, 0x30..0x31], looked_up: 0x10..0x11 };

struct Settings {
    groups: u64,
    docs_per_group: u64,
    row_bytes: usize,
    logical_partitions: u64,
    warmup_groups: u64,
    dir: Option<PathBuf>,
    memtable_bytes: Option<u64>,
}

impl Settings {
    fn from_args() -> Result<Self, String> {
        let mut settings = Self {
            groups: 2_000,
            docs_per_group: 16,
            row_bytes: 1_100,
            logical_partitions: 1_000,
            warmup_groups: 100,
            dir: None,
            memtable_bytes: None,
        };
        let mut args = env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|e| format!("{name} {value}: {e}"));
            match name.as_str() {
                "--groups" => settings.groups = number()?,
                "--docs" => settings.docs_per_group = number()?,
                "--row-bytes" => {
                    settings.row_bytes = usize::try_from(number()?).map_err(|e| e.to_string())?;
                }
                "--logical-partitions" => settings.logical_partitions = number()?.max(1),
                "--warmup" => settings.warmup_groups = number()?,
                "--memtable-bytes" => settings.memtable_bytes = Some(number()?),
                "--dir" => settings.dir = Some(value.into()),
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(settings)
    }
}

fn main() {
    let settings = Settings::from_args().unwrap_or_else(|problem| {
        eprintln!("{problem}");
        process::exit(2);
    });
    if let Err(failure) = run(&settings) {
        eprintln!("{failure}");
        process::exit(1);
    }
}

fn run(settings: &Settings) -> Result<(), StoreError> {
    let temporary = tempfile::tempdir()?;
    let dir = settings.dir.as_deref().unwrap_or(temporary.path());
    let mut options = EmbeddedOptions::new(KEY_TAGS);
    options.memtable_bytes = settings.memtable_bytes.unwrap_or(options.memtable_bytes);
    let store = EmbeddedStore::open(dir, options)?;
    let mut docs = Documents::new(settings);
    for _ in 0..settings.warmup_groups {
        store.write(docs.next_group(), Durability::Synced)?;
    }
    let (cpu_before, started) = (cpu_seconds(), Instant::now());
    let mut latencies_us = Vec::new();
    for _ in 0..settings.groups {
        let batch = docs.next_group();
        let began = Instant::now();
        store.write(batch, Durability::Synced)?;
        latencies_us.push(began.elapsed().as_micros());
    }
    let (elapsed, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    latencies_us.sort_unstable();
    report(settings, elapsed, cpu, &latencies_us);
    store.close()
}

fn report(settings: &Settings, elapsed: f64, cpu: f64, latencies_us: &[u128]) {
    let docs = (settings.groups * settings.docs_per_group) as f64;
    let quantile = |permille: usize| {
        let at = (latencies_us.len() * permille / 1_000).min(latencies_us.len().saturating_sub(1));
        latencies_us.get(at).copied().unwrap_or_default()
    };
    println!(
        "{{\"groups\":{},\"docs_per_group\":{},\"row_bytes\":{},\"docs_per_second\":{:.0},\
         \"cpu_seconds_per_doc\":{:.9},\"cpu_seconds\":{cpu:.2},\"elapsed_seconds\":{elapsed:.3},\
         \"group_us_p50\":{},\"group_us_p99\":{},\"group_us_max\":{}}}",
        settings.groups,
        settings.docs_per_group,
        settings.row_bytes,
        docs / elapsed,
        cpu / docs,
        quantile(500),
        quantile(990),
        quantile(1_000),
    );
}

/// Makes documents in an order that looks random to the tree, as hashed keys do.
struct Documents {
    docs_per_group: u64,
    logical_partitions: u64,
    row: Vec<u8>,
    lsn: u64,
}

impl Documents {
    fn new(settings: &Settings) -> Self {
        let words = b"{\"id\":\"0123456789abcdef\",\"name\":\"planisphere\",\"tags\":[1,2,3],";
        let row = words.iter().copied().cycle().take(settings.row_bytes).collect();
        let Settings { docs_per_group, logical_partitions, .. } = *settings;
        Self { docs_per_group, logical_partitions, row, lsn: 0 }
    }

    fn next_group(&mut self) -> WriteBatch {
        let mut ops = Vec::new();
        for _ in 0..self.docs_per_group {
            self.lsn += 1;
            self.push_document(&mut ops);
        }
        ops.push(put(key(0x00, &[b"meta"]), self.lsn.to_be_bytes().to_vec()));
        WriteBatch { ops }
    }

    fn push_document(&mut self, ops: &mut Vec<Op>) {
        let logical = scramble(self.lsn % self.logical_partitions).to_be_bytes();
        let id = scramble(self.lsn).to_be_bytes();
        let identity = [&logical[..], &logical, &logical, &logical, &id, &id, &id].concat();
        for (place, byte) in self.row.iter_mut().zip(id) {
            *place = byte;
        }
        ops.push(put(key(0x10, &[&identity]), self.row.clone()));
        let feed_key = key(0x30, &[&self.lsn.to_be_bytes(), &P.0.to_be_bytes(), &[0; 4]]);
        ops.push(put(feed_key, identity));
        ops.push(put(
            key(0x12, &[&logical, &logical, &logical, &logical]),
            self.lsn.to_be_bytes().repeat(2),
        ));
    }
}

fn key(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![tag];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn put(k: Vec<u8>, v: Vec<u8>) -> Op {
    Op::Put { p: P, k: Bytes::from(k), v: Bytes::from(v) }
}

/// A bijection of 64-bit numbers without visible order.
fn scramble(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

/// User and system time of all threads so far; zero where the system does not report it.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}
