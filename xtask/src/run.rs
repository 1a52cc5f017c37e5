//! Running other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Success, or why the command failed.
pub(crate) type Outcome = Result<(), String>;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// A call of cargo in the root of the repository.
pub(crate) fn cargo<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    // Cargo passes the path of its own binary to programs it runs. That binary is tied to one
    // toolchain, though, and `+nightly` needs the one that selects toolchains.
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command to its end, with its output inherited.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().map_err(|error| format!("can't run `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

/// A command as a user would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether a program can be started at all.
pub(crate) fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> Result<PathBuf, String> {
    // This program was built there itself: <target>/<profile>/xtask.
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = program.parent().and_then(Path::parent);
    target.map(Path::to_owned).ok_or_else(|| "can't tell where cargo builds".to_owned())
}

/// The server as built by a profile's directory, `debug` or `release`.
pub(crate) fn server(profile_dir: &str) -> Result<PathBuf, String> {
    Ok(target_dir()?.join(profile_dir).join(executable("planisphere")))
}

/// A program's file name on this system.
pub(crate) fn executable(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

/// What was skipped so far.
static LEFT_OUT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints that something is skipped, and records it for the summary.
pub(crate) fn leave_out(what: String) {
    println!("left out: {what}");
    LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

/// What was skipped so far.
pub(crate) fn left_out() -> Vec<String> {
    LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Names of the entries of a directory of the repository, sorted.
pub(crate) fn names_in(directory: &str) -> Result<Vec<String>, String> {
    let path = root().join(directory);
    let entries =
        std::fs::read_dir(&path).map_err(|error| format!("can't read {directory}: {error}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named() {
        let why = run(cargo(["no-such-command-at-all"]).env("RUSTC", "x")).unwrap_err();
        assert!(why.contains("no-such-command-at-all"), "{why}");
        assert!(!has("no-such-program-at-all", "--version"));
    }

    #[test]
    fn what_is_left_out_is_told_in_the_end() {
        leave_out("the first".to_owned());
        leave_out("the second".to_owned());
        let told = left_out();
        assert!(told.ends_with(&["the first".to_owned(), "the second".to_owned()]), "{told:?}");
    }

    #[test]
    fn directories_are_listed_in_order() {
        let names = names_in("xtask").unwrap();
        assert!(names.contains(&"Cargo.toml".to_owned()));
        assert!(names.is_sorted());
    }
}
