//! The inputs saved by fuzzing, run by the same functions as the fuzz targets.

use std::path::{Path, PathBuf};

#[expect(unreachable_pub, reason = "the file is a library where the fuzz targets use it")]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

#[test]
fn saved_inputs_keep_every_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let files = files_in(&corpus.join(name));
        assert!(!files.is_empty(), "{name} has no saved inputs");
        for file in files {
            // Printed only if the test fails; then the last one is the cause.
            println!("{}", file.display());
            target(&std::fs::read(&file).expect("a readable file"));
        }
    }
}

#[test]
fn the_fuzz_targets_are_those_with_saved_inputs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for directory in files_in(&corpus) {
        let mut names = targets::TARGETS.iter().map(|(target, _)| *target).chain(OF_OTHERS);
        let known = names.any(|target| directory.ends_with(target));
        assert!(known, "{} is of no fuzz target", directory.display());
    }
}

/// Targets that tests of other crates run.
const OF_OTHERS: [&str; 4] = ["documents", "message", "multipart", "pipelines"];

/// The files of a directory in sorted order, so that every run does the same.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("every target has saved inputs");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable directory").path()).collect();
    files.sort();
    files
}
