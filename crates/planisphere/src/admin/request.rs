//! A request with its body, which is limited in size.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Method;
use hyper::body::Body;
use hyper::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use super::reply::AdminError;

/// A request that passed the access check.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    head: Parts,
    body: Bytes,
}

impl Request {
    /// Reads the body.
    pub(super) async fn read<B>(
        head: Parts,
        body: B,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<Self, AdminError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let body = std::pin::pin!(body);
        let read = Limited::new(body, bytes_max).collect();
        let body = match tokio::time::timeout(timeout, read).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(AdminError::too_large(bytes_max));
            }
            Ok(Err(_)) => return Err(AdminError::bad_request("The body can't be read.")),
            Err(_) => return Err(AdminError::timeout()),
        };
        Ok(Self { method: head.method.clone(), head, body })
    }

    pub(super) fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// The raw body.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as JSON; an empty body counts as an empty object.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, AdminError> {
        let text = match self.body.trim_ascii() {
            b"" => b"{}",
            text if text.starts_with(b"{") => text,
            // An array of the fields without their names would be accepted too.
            _ => return Err(AdminError::bad_request("The body must be a JSON object.")),
        };
        serde_json::from_slice(text)
            .map_err(|error| AdminError::bad_request(format!("The body is invalid: {error}.")))
    }

    /// The number of the query parameter `name`, if present.
    pub(super) fn number(&self, name: &str, max: usize) -> Result<Option<usize>, AdminError> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number <= max);
        number.map(Some).ok_or_else(|| {
            AdminError::bad_request(format!("The parameter '{name}' is a number from 0 to {max}."))
        })
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.head.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.into_iter().find(|(known, _)| *known == name)?;
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
    }
}
