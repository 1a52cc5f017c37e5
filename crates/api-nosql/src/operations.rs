//! The operations of batch and bulk requests as JSON, and their results.

use std::borrow::Cow;

use bytes::Bytes;
use engine::ops::{EtagCondition, ItemOp, ItemOutcome, OpResult};
use model::{Charge, PartitionKeyDefinition, json};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::errors::ApiError;
use crate::request::Request;
use crate::{patch, payload, system_properties};

/// One operation of the body. Item bodies are kept as text, so that an item is stored as the client
/// wrote it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operation<'b> {
    #[serde(borrow)]
    operation_type: Cow<'b, str>,
    #[serde(borrow)]
    id: Option<Cow<'b, str>>,
    #[serde(borrow)]
    resource_body: Option<&'b RawValue>,
    #[serde(borrow)]
    if_match: Option<Cow<'b, str>>,
    #[serde(borrow)]
    if_none_match: Option<Cow<'b, str>>,
    /// A JSON array in a string; bulk requests only.
    #[serde(borrow)]
    pub(crate) partition_key: Option<Cow<'b, str>>,
}

/// Reads a list of operations.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Operation<'_>>, ApiError> {
    serde_json::from_slice(body).map_err(payload::invalid)
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
                let if_none_match = self.if_none_match.as_deref().map(EtagCondition::parse);
                ItemOp::Read { id: self.id()?, if_none_match }
            }
            OperationKind::Delete => ItemOp::Delete { id: self.id()?, if_match },
            OperationKind::Patch => {
                let value = payload::value(self.body()?.as_bytes())?;
                ItemOp::Patch { id: self.id()?, patch: patch::from_value(key, value)?, if_match }
            }
        })
    }

    fn id(&self) -> Result<String, ApiError> {
        match self.id.as_deref() {
            Some(id) if !id.is_empty() => Ok(id.to_owned()),
            _ => Err(payload::invalid(format_args!(
                "the operation {} needs an 'id'",
                self.operation_type
            ))),
        }
    }

    fn body(&self) -> Result<&'b str, ApiError> {
        let missing = || {
            payload::invalid(format_args!(
                "the operation {} needs a 'resourceBody'",
                self.operation_type
            ))
        };
        self.resource_body.map(RawValue::get).ok_or_else(missing)
    }

    fn item(&self, body: &Bytes) -> Result<engine::ops::ItemBody, ApiError> {
        payload::item_of_text(body.slice_ref(self.body()?.as_bytes()))
    }
}

/// The results as a JSON array, one element per operation.
pub(crate) fn results(results: Vec<OpResult>, request: &Request) -> Bytes {
    let mut out = Results::new(request);
    results.into_iter().for_each(|result| out.push(result));
    out.finish()
}

/// Writes the array of results.
pub(crate) struct Results {
    out: Vec<u8>,
    with_bodies: bool,
}

impl Results {
    pub(crate) fn new(request: &Request) -> Self {
        Self { out: b"[".to_vec(), with_bodies: !request.wants_minimal() }
    }

    pub(crate) fn push(&mut self, result: OpResult) {
        let (status, item) = match result.outcome {
            Ok(ItemOutcome::Created(item)) => (201, Some(item)),
            Ok(ItemOutcome::Replaced(item) | ItemOutcome::Read(item)) => (200, Some(item)),
            Ok(ItemOutcome::Deleted) => (204, None),
            Err(error) => return self.push_failure(error, result.charge),
        };
        self.open(status, result.charge);
        if let Some(item) = item {
            self.etag(item.etag());
            if self.with_bodies {
                self.out.extend_from_slice(b",\"resourceBody\":");
                system_properties::write_item(&item, &mut self.out);
            }
        }
        self.out.push(b'}');
    }

    fn push_failure(&mut self, error: engine::Error, charge: Charge) {
        let etag =
            if let engine::Error::NotModified { etag } = &error { Some(*etag) } else { None };
        self.open_error(&error.into(), charge);
        if let Some(etag) = etag {
            self.etag(etag);
        }
        self.out.push(b'}');
    }

    pub(crate) fn push_error(&mut self, error: &ApiError, charge: Charge) {
        self.open_error(error, charge);
        self.out.push(b'}');
    }

    fn open_error(&mut self, error: &ApiError, charge: Charge) {
        self.open(error.status(), charge);
        if error.substatus() != 0 {
            self.number("subStatusCode", u64::from(error.substatus()));
        }
        if let Some(wait_ms) = error.retry_after_ms() {
            self.number("retryAfterMilliseconds", wait_ms);
        }
    }

    pub(crate) fn finish(mut self) -> Bytes {
        self.out.push(b']');
        self.out.into()
    }

    fn open(&mut self, status: u16, charge: Charge) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        let text = format!("{{\"statusCode\":{status},\"requestCharge\":{charge}");
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, name: &str, n: u64) {
        self.out.extend_from_slice(format!(",\"{name}\":{n}").as_bytes());
    }

    fn etag(&mut self, etag: engine::Etag) {
        self.out.extend_from_slice(b",\"eTag\":");
        json::write_str(&etag.to_string(), &mut self.out);
    }
}

#[cfg(test)]
mod tests;
