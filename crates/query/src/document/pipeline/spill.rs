//! Where stages write what they cannot keep in memory.

use super::Context;
use crate::document::{Failure, code};

/// A place for temporary data. Its size is bounded by the implementation.
pub trait Spill: Send + Sync {
    /// A place of its own for records, which is freed when it is dropped.
    fn create(&self) -> Result<Box<dyn SpillRun>, Failure>;
}

/// Records that are written once, then read.
pub trait SpillRun: Send {
    /// Appends a record, and says where it begins.
    fn write(&mut self, record: &[u8]) -> Result<u64, Failure>;

    /// The record that begins at `offset`, and where the next one begins.
    fn read(&mut self, offset: u64) -> Result<(Vec<u8>, u64), Failure>;

    /// Where the next record will begin.
    fn end(&self) -> u64;
}

impl Context {
    /// A place for the records of a stage that exceeds its memory.
    pub(super) fn create_run(&self, stage: &str) -> Result<Box<dyn SpillRun>, Failure> {
        match &self.spill {
            Some(spill) => spill.create(),
            None => {
                let limit = self.stage_bytes_max;
                let message = format!(
                    "Exceeded memory limit for {stage}, but didn't allow external sort. Pass \
                     allowDiskUse:true to opt in. Memory limit: {limit} bytes"
                );
                Err(Failure::new(code::MEMORY_LIMIT_EXCEEDED, message))
            }
        }
    }
}

/// Bytes of a value for a record.
pub(super) fn encode(value: model::Value) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let wrapped = model::Object::from_iter([("v".to_owned(), value)]);
    let written = model::bson::write(&wrapped, &mut bytes);
    written.map_err(|error| Failure::new(code::BAD_VALUE, error.to_string()))?;
    Ok(bytes)
}

/// The value of a record.
pub(super) fn decode(bytes: &[u8]) -> Result<model::Value, Failure> {
    let read = model::bson::read(bytes).ok().and_then(|mut wrapped| wrapped.remove("v"));
    read.ok_or_else(|| Failure::new(INTERNAL_ERROR, "a temporary record cannot be read"))
}

const INTERNAL_ERROR: i32 = 1;
