//! Messages of MongoDB's wire protocol.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = api_mongo::fuzzing::message(input);
});
