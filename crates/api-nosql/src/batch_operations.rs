//! The operations of batch and bulk requests and their results, as JSON or as HybridRow: a client is
//! answered in the form that it uses.

use std::borrow::Cow;

use bytes::Bytes;
use engine::ops::{EtagCondition, ItemOp, ItemOutcome, OpResult};
use engine::{RowKey, StoredItem};
use model::{Charge, PartitionKeyDefinition, json, limits};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::errors::ApiError;
use crate::hybrid_row::{self, ResultRow, ResultRows};
use crate::request::Request;
use crate::{patch, payload, system_properties};

/// One operation of the body. Item bodies are kept as text, so that an item is stored as the client
/// wrote it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation<'b> {
    #[serde(borrow)]
    pub(crate) operation_type: Cow<'b, str>,
    #[serde(borrow)]
    pub(crate) id: Option<Cow<'b, str>>,
    /// JSON text or, only within HybridRow, binary JSON.
    #[serde(borrow, default, deserialize_with = "raw_bytes")]
    pub(crate) resource_body: Option<&'b [u8]>,
    #[serde(borrow)]
    pub(crate) if_match: Option<Cow<'b, str>>,
    #[serde(borrow)]
    pub(crate) if_none_match: Option<Cow<'b, str>>,
    /// A JSON array in a string; bulk requests only.
    #[serde(borrow)]
    pub(crate) partition_key: Option<Cow<'b, str>>,
    /// Whether its result needs no item. A header can say so for all writes.
    #[serde(default, rename = "minimalReturnPreference")]
    pub(crate) is_minimal: bool,
}

fn raw_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de [u8]>, D::Error> {
    let raw = Option::<&RawValue>::deserialize(from)?;
    Ok(raw.map(|raw| raw.get().as_bytes()))
}

/// The operations of a batch or bulk request, within the limits that both share. The size is
/// checked before anything is read.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Operation<'_>>, ApiError> {
    let is_rows = hybrid_row::is_rows(body);
    let bytes_max = if is_rows { limits::BATCH_ROWS_BYTES_MAX } else { limits::BATCH_BYTES_MAX };
    if body.len() > bytes_max {
        return Err(ApiError::too_large());
    }
    let operations = match is_rows {
        true => hybrid_row::read_operations(body, limits::BATCH_OPERATIONS_MAX)?,
        false => {
            payload::check_form(body)?;
            serde_json::from_slice(body).map_err(payload::invalid)?
        }
    };
    if operations.is_empty() {
        return Err(ApiError::bad_request("Batch request has no operations."));
    }
    if operations.len() > limits::BATCH_OPERATIONS_MAX {
        return Err(ApiError::bad_request(
            "Batch request has more operations than what is supported.",
        ));
    }
    Ok(operations)
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Create,
    Upsert,
    Replace,
    Read,
    Delete,
    Patch,
}

impl<'b> Operation<'b> {
    /// Its kind, if it is a known one.
    pub(crate) fn kind(&self) -> Result<OperationKind, ApiError> {
        use OperationKind as K;
        let name = self.operation_type.as_ref();
        [
            ("Create", K::Create),
            ("Upsert", K::Upsert),
            ("Replace", K::Replace),
            ("Read", K::Read),
            ("Delete", K::Delete),
            ("Patch", K::Patch),
        ]
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, kind)| kind)
        .ok_or_else(|| payload::invalid(format_args!("there is no operation type '{name}'")))
    }

    /// Converts it for the engine. `body` is the whole request body, which the bodies of items
    /// share.
    pub(crate) fn to_op(
        &self,
        key: &PartitionKeyDefinition,
        body: &Bytes,
    ) -> Result<ItemOp, ApiError> {
        let if_match = self.if_match.as_deref().map(EtagCondition::parse);
        Ok(match self.kind()? {
            OperationKind::Create => ItemOp::Create { body: self.item(body)? },
            OperationKind::Upsert => ItemOp::Upsert { body: self.item(body)?, if_match },
            OperationKind::Replace => {
                ItemOp::Replace { id: self.id()?, body: self.item(body)?, if_match }
            }
            OperationKind::Read => {
                // The service takes both conditions of a read for the same: the item is wanted
                // unless it is the known version.
                let if_none_match = self.if_none_match.as_deref().map(EtagCondition::parse);
                ItemOp::Read { id: self.id()?, if_none_match: if_none_match.or(if_match) }
            }
            OperationKind::Delete => ItemOp::Delete { id: self.id()?, if_match },
            OperationKind::Patch => {
                let value = payload::value(self.body()?)?;
                ItemOp::Patch { id: self.id()?, patch: patch::from_value(key, value)?, if_match }
            }
        })
    }

    fn id(&self) -> Result<RowKey, ApiError> {
        match self.id.as_deref() {
            Some(id) if !id.is_empty() => Ok(id.into()),
            _ => Err(payload::invalid(format_args!(
                "the operation {} needs an 'id'",
                self.operation_type
            ))),
        }
    }

    fn body(&self) -> Result<&'b [u8], ApiError> {
        let missing = || {
            payload::invalid(format_args!(
                "the operation {} needs a 'resourceBody'",
                self.operation_type
            ))
        };
        self.resource_body.ok_or_else(missing)
    }

    /// Whether its result brings the item: that of a read always does.
    pub(crate) fn returns_item(&self, request: &Request) -> bool {
        matches!(self.kind(), Ok(OperationKind::Read))
            || !(self.is_minimal || request.wants_minimal())
    }

    fn item(&self, body: &Bytes) -> Result<engine::ops::ItemBody, ApiError> {
        payload::item(&body.slice_ref(self.body()?))
    }
}

/// Writes the results, one per operation, in the form of the request.
pub(crate) struct Results {
    form: Form,
    /// Bytes of the items so far.
    item_bytes: usize,
    /// The item or error of the current result.
    scratch: Vec<u8>,
}

enum Form {
    Json(Vec<u8>),
    Rows(ResultRows),
}

impl Results {
    pub(crate) fn new(request: &Request) -> Self {
        let form = match hybrid_row::is_rows(&request.body) {
            true => Form::Rows(ResultRows::default()),
            false => Form::Json(b"[".to_vec()),
        };
        Self { form, item_bytes: 0, scratch: Vec::new() }
    }

    /// Whether an item still fits into the answer.
    pub(crate) fn has_room_for(&self, item: &StoredItem) -> bool {
        self.item_bytes + item.body().len() + system_properties::BYTES
            <= limits::BATCH_ANSWER_BYTES_MAX
    }

    /// Adds a result, with the item or without it.
    pub(crate) fn push(&mut self, result: OpResult, with_item: bool) {
        let OpResult { outcome, charge } = result;
        let (status, item) = match outcome {
            Ok(ItemOutcome::Created(item)) => (201, item),
            Ok(ItemOutcome::Replaced(item) | ItemOutcome::Read(item)) => (200, item),
            // This API has no updates that are code, and no sessions that send statements again.
            Ok(ItemOutcome::Updated { .. } | ItemOutcome::Repeated(_)) => {
                return self.push_error(&ApiError::internal(), charge);
            }
            Ok(ItemOutcome::Deleted) => {
                return self.write(&ResultRow { status: 204, charge, ..ResultRow::default() });
            }
            Err(error) => return self.push_error(&error.into(), charge),
        };
        let etag = item.etag().to_string();
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        if with_item {
            system_properties::write_item(&item, &mut text);
            self.item_bytes += item.body().len() + system_properties::BYTES;
        }
        let (etag, body) = (Some(etag.as_str()), with_item.then_some(text.as_slice()));
        self.write(&ResultRow { status, etag, body, charge, ..ResultRow::default() });
        self.scratch = text;
    }

    pub(crate) fn push_error(&mut self, error: &ApiError, charge: Charge) {
        let etag = error.etag().map(|etag| etag.to_string());
        // The .NET SDK shows the text to its caller, and has none for siblings of what failed.
        let has_text = matches!(self.form, Form::Rows(_)) && !matches!(error.status(), 304 | 424);
        let body = has_text.then(|| error.text());
        self.write(&ResultRow {
            status: error.status(),
            substatus: error.substatus(),
            etag: etag.as_deref(),
            body: body.as_deref(),
            retry_after_ms: error.retry_after_ms(),
            charge,
        });
    }

    fn write(&mut self, result: &ResultRow<'_>) {
        match &mut self.form {
            Form::Json(out) => write_json(result, out),
            Form::Rows(rows) => rows.push(result),
        }
    }

    pub(crate) fn finish(self) -> Bytes {
        match self.form {
            Form::Json(mut out) => {
                out.push(b']');
                out.into()
            }
            Form::Rows(rows) => rows.finish().into(),
        }
    }
}

fn write_json(result: &ResultRow<'_>, out: &mut Vec<u8>) {
    let ResultRow { status, substatus, etag, body, retry_after_ms, charge } = *result;
    if out.len() > 1 {
        out.push(b',');
    }
    let mut add = |text: String| out.extend_from_slice(text.as_bytes());
    add(format!("{{\"statusCode\":{status},\"requestCharge\":{charge}"));
    if substatus != 0 {
        add(format!(",\"subStatusCode\":{substatus}"));
    }
    if let Some(wait_ms) = retry_after_ms {
        add(format!(",\"retryAfterMilliseconds\":{wait_ms}"));
    }
    if let Some(etag) = etag {
        out.extend_from_slice(b",\"eTag\":");
        json::write_str(etag, out);
    }
    if let Some(body) = body {
        out.extend_from_slice(b",\"resourceBody\":");
        out.extend_from_slice(body);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests;
