//! The store's lower bound: the batches that the engine commits, replayed on the bare storage
//! engine.
//!
//! Recorded batches ([`Recording`]) are merged into groups of the size observed on the server under
//! load, and written to a fresh database with one sync per group.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use fjall::{Database, Keyspace, PersistMode};
use model::PartitionId;
use storage::{EmbeddedOptions, Op, WriteBatch};

use crate::load::drive::Outcome;
use crate::load::record::Recording;
use crate::load::subject::Measured;
use crate::process;

const SETTLE: Duration = Duration::from_secs(2);

/// A process that replays batches; killed when dropped.
pub struct RawStore {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Keys that an operation writes or removes on average.
    pub keys_per_operation: f64,
}

impl RawStore {
    /// Starts this program to record operations and replay them below `scratch`. A replay continues
    /// where the last one ended. After the last batch it starts over and overwrites.
    pub fn start(scratch: &Path, recording: Recording) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["raw-store", recording.name()])
            .arg(scratch.join(recording.name()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the bare store")?;
        let stdin = child.stdin.take().context("the child's input was not piped")?;
        let stdout = child.stdout.take().context("the child's output was not piped")?;
        let stdout = BufReader::new(stdout);
        let mut raw = Self { child, stdin, stdout, keys_per_operation: 0.0 };
        raw.keys_per_operation = raw.line()?.trim().parse().context("no number of keys")?;
        Ok(raw)
    }

    /// Replays for `duration` with `per_sync` items in a group on average.
    pub fn measure(&mut self, duration: Duration, per_sync: f64) -> anyhow::Result<Measured> {
        writeln!(self.stdin, "{} {per_sync}", duration.as_secs_f64())?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "the bare store ended");
        Ok(line)
    }
}

impl Drop for RawStore {
    fn drop(&mut self) {
        // Killing a child that has already ended may fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: records, prints how many keys an operation has, then reads lines of seconds
/// and items per sync from standard input, replays and answers each with a line of JSON, until the
/// input ends.
#[expect(clippy::print_stdout, reason = "the parent reads these lines")]
pub fn serve(recording: &str, scratch: &Path) -> anyhow::Result<()> {
    let recording = Recording::named(recording).context("there is no such recording")?;
    let mut replay = Replay::open(scratch, recording.record()?)?;
    let keys: usize = replay.batches.iter().map(|batch| batch.ops.len()).sum();
    println!("{}", keys as f64 / replay.batches.len() as f64);
    for line in std::io::stdin().lines() {
        let line = line?;
        let (seconds, per_sync) = line.split_once(' ').context("not two numbers")?;
        let duration = Duration::try_from_secs_f64(seconds.parse()?)?;
        let measured = replay.run(duration, per_sync.parse()?)?;
        println!("{}", serde_json::to_string(&measured)?);
    }
    Ok(())
}

/// Keys with their new values, `None` for deletes, and the number of items they belong to.
struct Group {
    changes: Vec<(Vec<u8>, Option<Bytes>)>,
    items: u64,
}

/// Recorded batches, the next one first, and the bare database for them.
struct Replay {
    batches: VecDeque<WriteBatch>,
    database: Database,
    looked_up: Keyspace,
    scanned: Keyspace,
}

impl Replay {
    /// A database with the settings that the real store uses.
    fn open(directory: &Path, batches: Vec<WriteBatch>) -> anyhow::Result<Self> {
        let options = EmbeddedOptions::new(engine::KEY_TAGS);
        let database = Database::builder(directory)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.journal_bytes_max)
            .worker_threads(options.worker_threads)
            .open()?;
        let looked_up = database.keyspace("data", || options.looked_up())?;
        let scanned = database.keyspace("walked", || options.scanned())?;
        Ok(Self { batches: batches.into(), database, looked_up, scanned })
    }

    fn run(&mut self, duration: Duration, per_sync: f64) -> anyhow::Result<Measured> {
        let groups = self.groups(per_sync);
        let me = std::process::id();
        let before = process::cpu_time(me)?;
        let mut outcome = Outcome::default();
        let begin = Instant::now();
        for group in groups.iter().cycle() {
            let sent = Instant::now();
            if sent - begin >= duration {
                break;
            }
            self.commit(group)?;
            outcome.operations += group.items;
            outcome.latencies.push(sent.elapsed());
        }
        outcome.elapsed = begin.elapsed();
        let resident_bytes = process::resident_bytes(me)?;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(process::settle(me, SETTLE))?;
        let spent = process::cpu_time(me)? - before;
        let per_sync = Some(outcome.operations as f64 / outcome.latencies.len() as f64);
        let done = usize::try_from(outcome.operations)? % self.batches.len();
        self.batches.rotate_left(done);
        Ok(Measured { per_sync, ..Measured::new(&outcome, spent, resident_bytes) })
    }

    /// All batches in groups of the two sizes nearest to `per_sync`, mixed to reach that average.
    fn groups(&mut self, per_sync: f64) -> Vec<Group> {
        let batches = self.batches.make_contiguous();
        let mut groups = Vec::new();
        let mut at = 0;
        while at < batches.len() {
            let size = next_group(per_sync, groups.len() + 1, at);
            let end = (at + size).min(batches.len());
            groups.push(merge(&batches[at..end]));
            at = end;
        }
        groups
    }

    /// Writes one group durably.
    fn commit(&self, group: &Group) -> anyhow::Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in &group.changes {
            let is_scanned = |tags: &Range<u8>| key.get(4).is_some_and(|tag| tags.contains(tag));
            let is_scanned = engine::KEY_TAGS.scanned.iter().any(is_scanned);
            let tree = if is_scanned { &self.scanned } else { &self.looked_up };
            match value {
                Some(value) => batch.insert(tree, key.as_slice(), value.clone()),
                None => batch.remove(tree, key.as_slice()),
            }
        }
        batch.durability(Some(PersistMode::SyncData)).commit()?;
        Ok(())
    }
}

/// As in the committer, a key that several batches write is written once.
fn merge(batches: &[WriteBatch]) -> Group {
    let mut merged = BTreeMap::new();
    for op in batches.iter().flat_map(|batch| &batch.ops) {
        match op {
            Op::Put { p, k, v } => merged.insert(prefixed(*p, k), Some(v.clone())),
            Op::Del { p, k } => merged.insert(prefixed(*p, k), None),
        };
    }
    Group { changes: merged.into_iter().collect(), items: batches.len() as u64 }
}

/// Size of group number `groups`, if the earlier groups have `items` items.
fn next_group(per_sync: f64, groups: usize, items: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of items that were recorded"
    )]
    let wanted = (per_sync * groups as f64).round() as usize;
    wanted.saturating_sub(items).max(1)
}

fn prefixed(p: PartitionId, k: &[u8]) -> Vec<u8> {
    [&p.0.to_be_bytes()[..], k].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_wanted_size_on_average() {
        let mut items = 0;
        for groups in 1..=1_000 {
            let size = next_group(5.4, groups, items);
            assert!(size == 5 || size == 6);
            items += size;
        }
        assert_eq!(items, 5_400);
        assert_eq!(next_group(0.0, 3, 7), 1);
    }

    #[test]
    fn merged_batches_write_each_key_once() {
        let put = |k: &'static str, v: &'static str| Op::Put {
            p: PartitionId(1),
            k: k.into(),
            v: v.into(),
        };
        let one = WriteBatch { ops: vec![put("meta", "1"), put("a", "x")] };
        let two = WriteBatch { ops: vec![put("meta", "2"), put("b", "y")] };
        let group = merge(&[one, two]);
        assert_eq!((group.items, group.changes.len()), (2, 3));
        let meta = group.changes.iter().find(|(key, _)| key.ends_with(b"meta")).unwrap();
        assert_eq!(meta.1.as_deref(), Some(&b"2"[..]));
    }
}
