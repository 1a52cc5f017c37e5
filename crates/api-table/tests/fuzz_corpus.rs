//! The inputs saved by fuzzing, run by the same functions as the fuzz targets.

use std::path::Path;

#[test]
fn saved_batches_are_read_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/multipart");
    let mut batches = 0;
    for entry in std::fs::read_dir(corpus).expect("saved inputs") {
        let file = entry.expect("a readable directory").path();
        // Printed only if the test fails; then the last one is the cause.
        println!("{}", file.display());
        let body = std::fs::read(&file).expect("a readable file");
        batches += usize::from(api_table::fuzzing::multipart(&body).is_some());
    }
    assert!(batches >= 3, "most of them are batches");
}
