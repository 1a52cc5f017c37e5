//! What the kernel says of a process: processor time, memory, open files.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;

/// The kernel's unit of processor time in `/proc`; Linux fixes it at 100 per second for users.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time of all threads of a process since it began, those that have ended included.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} is gone"))?;
    let ticks = cpu_ticks(&stat).context("unreadable /proc stat")?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Resident memory in bytes.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    resident_kib(&status).map(|kib| kib * 1024).context("no VmRSS in /proc status")
}

/// How many files and sockets the process has open.
pub fn open_files(pid: u32) -> anyhow::Result<usize> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .with_context(|| format!("process {pid} is gone"))?;
    Ok(entries.count())
}

/// Waits until the process has used next to no processor time for a while, so that background
/// work begun earlier is not charged to what comes next. Gives up after `limit`.
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

/// User plus system ticks. The second field is the program's name in parentheses and may itself
/// hold spaces and parentheses, so fields are counted from the last one.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_an_awkward_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 17 5 0 0 20 0 1 0 99";
        assert_eq!(cpu_ticks(stat), Some(22));
        assert_eq!(cpu_ticks("garbage"), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let me = std::process::id();
        assert!(resident_bytes(me).unwrap() > 1 << 20);
        assert!(open_files(me).unwrap() >= 3);
        assert!(cpu_time(me).is_ok());
    }
}
