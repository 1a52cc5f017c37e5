//! Processes that die, disks that fail: the state that is found afterwards.
//!
//! The tests start this same test program again as a child that works on a store until it is
//! stopped, and then check the store it left. Children write what was acknowledged to a file, one
//! record per write call, which survives them.

mod child;
mod disk;
mod documents;
mod kill;
mod power;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::EmbeddedOptions;

/// Tells a child which role it plays; its working directory is in [`DIR`].
const ROLE: &str = "PLANISPHERE_CRASH_CHILD";
const DIR: &str = "PLANISPHERE_CRASH_DIR";
const SEED: &str = "PLANISPHERE_CRASH_SEED";
/// Tells a child after how many acknowledgements to die.
const ACKS_MAX: &str = "PLANISPHERE_CRASH_ACKS_MAX";

/// A child process that has not been started yet.
fn child(role: &str, dir: &Path, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    configure(&mut command, role, dir, seed);
    command
}

/// The same, started by a shell that runs `setup` first.
fn child_after(setup: &str, role: &str, dir: &Path, seed: u64) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().unwrap());
    configure(&mut command, role, dir, seed);
    command
}

fn configure(command: &mut Command, role: &str, dir: &Path, seed: u64) {
    command
        .args(["--exact", "crash_tests::child::plays_its_part", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
}

/// Memtables so small that flushes and compactions are always under way.
fn tiny() -> EmbeddedOptions {
    EmbeddedOptions { memtable_bytes: 64 << 10, ..EmbeddedOptions::default() }
}

/// New stores are built in the test's own directory, so a dying child cannot leave them behind.
fn with_scratch(dir: &Path, options: EmbeddedOptions) -> EmbeddedOptions {
    EmbeddedOptions { scratch: Some(dir.to_owned()), ..options }
}

fn store_dir(dir: &Path) -> PathBuf {
    dir.join("store")
}

fn acks_path(dir: &Path) -> PathBuf {
    dir.join("acks")
}
