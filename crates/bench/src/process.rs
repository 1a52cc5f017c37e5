//! Process data from the kernel: processor time, memory, open files.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;

/// The kernel's unit of processor time in `/proc`; Linux fixes it at 100 per second for users.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time of all threads of a process since it began, including ended ones.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    let ticks = cpu_ticks(&stat).context("unreadable /proc stat")?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Processor time of a process and of all its children, running, ended or about to be collected.
/// Grandchildren are not included: it is meant for servers that start a process for each
/// connection.
pub fn family_cpu_time(parent: u32) -> anyhow::Result<Duration> {
    let own = fs::read_to_string(format!("/proc/{parent}/stat"))
        .with_context(|| format!("process {parent} is gone"))?;
    let mut ticks = cpu_ticks(&own).context("unreadable /proc stat")?;
    ticks += collected_ticks(&own).context("unreadable /proc stat")?;
    for entry in fs::read_dir("/proc")?.flatten() {
        // Not a process, or one that has just ended.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if parent_of(&stat) == Some(parent) {
            ticks += cpu_ticks(&stat).context("unreadable /proc stat")?;
        }
    }
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Peak of the resident memory in bytes.
pub fn resident_bytes_most(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    kib_of(&status, "VmHWM:").map(|kib| kib * 1024).context("no VmHWM in /proc status")
}

/// Resident memory in bytes.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    kib_of(&status, "VmRSS:").map(|kib| kib * 1024).context("no VmRSS in /proc status")
}

/// How many files and sockets the process has open.
pub fn open_files(pid: u32) -> anyhow::Result<usize> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .with_context(|| format!("process {pid} is gone"))?;
    Ok(entries.count())
}

/// Waits until the process has used almost no processor time for a while, so that earlier
/// background work is not charged to the next measurement. Gives up after `limit`.
pub async fn settle(pid: u32, limit: Duration) -> anyhow::Result<()> {
    let quiet = Duration::from_millis(150);
    let deadline = Instant::now() + limit;
    let mut before = cpu_time(pid)?;
    while Instant::now() < deadline {
        tokio::time::sleep(quiet).await;
        let now = cpu_time(pid)?;
        if now - before < Duration::from_millis(20) {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

/// Resident memory in bytes of an idle process after it has released memory: allocators and garbage
/// collectors take their time. Gives up waiting after `limit`.
pub async fn resident_bytes_at_rest(pid: u32, limit: Duration) -> anyhow::Result<u64> {
    let deadline = Instant::now() + limit;
    let mut before = resident_bytes(pid)?;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = resident_bytes(pid)?;
        if now >= before - before / 100 || Instant::now() >= deadline {
            return Ok(now);
        }
        before = now;
    }
}

/// User plus system ticks.
fn cpu_ticks(stat: &str) -> Option<u64> {
    sum_of_two(stat, 11)
}

/// User plus system ticks of children that have ended and were waited for.
fn collected_ticks(stat: &str) -> Option<u64> {
    sum_of_two(stat, 13)
}

fn parent_of(stat: &str) -> Option<u32> {
    fields(stat)?.nth(1)?.parse().ok()
}

fn sum_of_two(stat: &str, first: usize) -> Option<u64> {
    let mut fields = fields(stat)?.skip(first);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The fields from the third on. The second is the program's name in parentheses and may itself
/// hold spaces and parentheses, so they are counted from the last one.
fn fields(stat: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

fn kib_of(status: &str, label: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_an_awkward_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 17 5 0 0 20 0 1 0 99";
        assert_eq!(cpu_ticks(stat), Some(22));
        assert_eq!(collected_ticks(stat), Some(0));
        assert_eq!(parent_of(stat), Some(1));
        assert_eq!(cpu_ticks("garbage"), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let me = std::process::id();
        assert!(resident_bytes(me).unwrap() > 1 << 20);
        assert!(open_files(me).unwrap() >= 3);
        assert!(resident_bytes_most(me).unwrap() >= resident_bytes(me).unwrap() / 2);
        // Read one after the other: time only grows.
        let own = cpu_time(me).unwrap();
        assert!(family_cpu_time(me).unwrap() >= own);
    }
}
