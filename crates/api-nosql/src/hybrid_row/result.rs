//! Results as rows.

use model::Charge;

use super::schema::{FIELDS_MAX, RESULT};
use super::{Row, Scalar, write};

/// One result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultRow<'b> {
    pub(crate) status: u16,
    /// 0 = none.
    pub(crate) substatus: u32,
    /// With its quotes.
    pub(crate) etag: Option<&'b str>,
    pub(crate) body: Option<&'b [u8]>,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) charge: Charge,
}

/// A body of results.
#[derive(Debug)]
pub(crate) struct ResultRows(Vec<u8>);

impl Default for ResultRows {
    fn default() -> Self {
        Self(write::begin())
    }
}

impl ResultRows {
    pub(crate) fn push(&mut self, result: &ResultRow<'_>) {
        let mut row: Row<'_> = [None; FIELDS_MAX];
        row[0] = Some(Scalar::Int32(result.status.into()));
        row[1] = Some(Scalar::Int32(i32::try_from(result.substatus).unwrap_or_default()));
        row[2] = result.etag.map(Scalar::Text);
        row[3] = result.body.map(Scalar::Binary);
        let wait_ms = |ms: u64| Scalar::UInt32(u32::try_from(ms).unwrap_or(u32::MAX));
        row[4] = result.retry_after_ms.map(wait_ms);
        row[5] = Some(Scalar::Float64(result.charge.as_milli() as f64 / 1000.0));
        write::row(&RESULT, &row, &mut self.0);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}
