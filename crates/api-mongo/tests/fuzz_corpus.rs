//! The inputs saved by fuzzing, run by the same functions as the fuzz targets.

use std::path::Path;

#[test]
fn saved_messages_are_read_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/message");
    let (mut commands, mut refused) = (0, 0);
    for entry in std::fs::read_dir(corpus).expect("saved inputs") {
        let file = entry.expect("a readable directory").path();
        // Printed only if the test fails; then the last one is the cause.
        println!("{}", file.display());
        match api_mongo::fuzzing::message(&std::fs::read(&file).expect("a readable file")) {
            true => commands += 1,
            false => refused += 1,
        }
    }
    assert!(commands >= 5 && refused >= 4, "{commands} commands, {refused} refused");
}
