//! Bodies of batches of the Table API.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = api_table::fuzzing::multipart(input);
});
