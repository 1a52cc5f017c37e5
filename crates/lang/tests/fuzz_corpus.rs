//! The inputs saved by fuzzing of the compilers for documents and pipelines, and small changes of
//! them.

use std::path::{Path, PathBuf};

fn saved_inputs(target: &str) -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(corpus).expect("saved inputs");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

#[test]
fn saved_inputs_keep_every_promise() {
    let files = saved_inputs("documents");
    let count = files.len();
    let mut applied = 0;
    for file in files {
        println!("{}", file.display());
        applied += lang::mongo::fuzzing::documents(&std::fs::read(&file).expect("a readable file"));
    }
    assert!(applied > count, "most of them are valid");
}

#[test]
fn saved_pipelines_keep_every_promise() {
    for file in saved_inputs("pipelines") {
        println!("{}", file.display());
        let input = std::fs::read(&file).expect("a readable file");
        assert!(lang::mongo::fuzzing::pipelines(&input), "it is valid");
    }
}

#[test]
fn changed_inputs_keep_every_promise() {
    check_changes("documents", |input| {
        lang::mongo::fuzzing::documents(input);
    });
}

#[test]
fn changed_pipelines_keep_every_promise() {
    check_changes("pipelines", |input| {
        lang::mongo::fuzzing::pipelines(input);
    });
}

fn check_changes(target: &str, check: fn(&[u8])) {
    /// Changes of each input.
    const CHANGES: u64 = 400;
    for (number, file) in (0_u64..).zip(saved_inputs(target)) {
        let bytes = std::fs::read(&file).expect("a readable file");
        for change in 0..CHANGES {
            let mut random = number * CHANGES + change;
            let mut changed = bytes.clone();
            for _ in 0..=change % 4 {
                random =
                    random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                let at = usize::try_from(random >> 33).expect("31 bits") % changed.len();
                // Often a letter or digit, so that names and operators change.
                let letters = b"abx$.0129[]\x01\x02\x03\x04\x10\x12\x13\x00\xFF";
                let letter = usize::try_from((random >> 8) & 0xFFFF).expect("16 bits");
                changed[at] = letters[letter % letters.len()];
            }
            let checked = std::panic::catch_unwind(|| check(&changed));
            assert!(checked.is_ok(), "{}, change {change}", file.display());
        }
    }
}
