//! Documents that are kept to be read several times: in memory, or on disk where they are too many.

use std::sync::{Arc, Mutex, PoisonError};

use model::Value;

use super::spill::{SpillRun, decode, encode};
use super::{Context, Documents};
use crate::budget::bytes_of;
use crate::document::Failure;

/// Documents in the order in which they were added.
pub(super) struct Buffer {
    kept: Vec<Value>,
    /// The documents on disk by their numbers, once there are too many.
    spilled: Option<Spilled>,
}

/// Documents on disk, and where each begins.
type Spilled = (Mutex<Box<dyn SpillRun>>, Vec<u64>);

impl Buffer {
    /// All documents of a source.
    pub(super) fn of(
        mut source: Box<dyn Documents>,
        context: &Context,
        stage: &str,
    ) -> Result<Self, Failure> {
        let (mut kept, mut bytes) = (Vec::new(), 0);
        while let Some(document) = source.next()? {
            bytes += bytes_of(&document);
            kept.push(document);
            if bytes > context.stage_bytes_max {
                return Self::spill(kept, source, context, stage);
            }
        }
        Ok(Self { kept, spilled: None })
    }

    fn spill(
        kept: Vec<Value>,
        mut source: Box<dyn Documents>,
        context: &Context,
        stage: &str,
    ) -> Result<Self, Failure> {
        let mut run = context.create_run(stage)?;
        let mut offsets = Vec::new();
        for document in kept {
            offsets.push(run.write(&encode(document)?)?);
        }
        while let Some(document) = source.next()? {
            offsets.push(run.write(&encode(document)?)?);
        }
        Ok(Self { kept: Vec::new(), spilled: Some((Mutex::new(run), offsets)) })
    }

    pub(super) fn len(&self) -> usize {
        match &self.spilled {
            Some((_, offsets)) => offsets.len(),
            None => self.kept.len(),
        }
    }

    /// The document with this number.
    pub(super) fn get(&self, number: usize) -> Result<Option<Value>, Failure> {
        let Some((run, offsets)) = &self.spilled else {
            return Ok(self.kept.get(number).cloned());
        };
        let Some(offset) = offsets.get(number) else { return Ok(None) };
        let (record, _) = run.lock().unwrap_or_else(PoisonError::into_inner).read(*offset)?;
        decode(&record).map(Some)
    }

    /// Calls a function with each document.
    pub(super) fn for_each(
        &self,
        mut visit: impl FnMut(usize, &Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.spilled.is_none() {
            return self.kept.iter().enumerate().try_for_each(|(at, value)| visit(at, value));
        }
        for number in 0..self.len() {
            if let Some(document) = self.get(number)? {
                visit(number, &document)?;
            }
        }
        Ok(())
    }
}

/// The documents of a buffer, from the first on.
pub(super) struct Reading {
    pub(super) buffer: Arc<Buffer>,
    pub(super) next: usize,
}

impl Documents for Reading {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        self.next += 1;
        self.buffer.get(self.next - 1)
    }
}
