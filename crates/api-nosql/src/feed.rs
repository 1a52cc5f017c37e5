//! Feeds of items, and the envelope that feeds and queries of items share. The change feed is in
//! [`crate::change_feed`].

use std::sync::Arc;

use bytes::Bytes;
use engine::ops::{Page, Row};
use engine::{Container, RequestContext};
use model::{json, limits};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, binary_json, change_feed, payload, scope, session, system_properties};

pub(crate) async fn list(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    if request.headers.has(HeaderName::AIm) {
        return change_feed::read(service, ctx, container, request).await;
    }
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    let limit = TokenLimit::of(request)?;
    let scope = scope::of(container, request)?;
    let page = service.engine().list_items(ctx, container, scope, request.page()?).await?;
    limit.check(&page)?;
    Ok(reply(container, &page, payload::demands_binary(request)).0)
}

/// The response with a page, and the size of its rows in bytes.
pub(crate) fn reply(container: &Container, page: &Page, is_binary: bool) -> (Reply, usize) {
    let (text, rows_bytes) = envelope(container, &page.rows);
    let body = if is_binary { to_binary(text) } else { text };
    let reply = Reply::ok(body).item_count(page.rows.len()).continuation(page.continuation.clone());
    (reply, rows_bytes)
}

/// The binary form of a feed's text. Rows that are too deeply nested for the parser stay text;
/// clients tell the two forms apart by the first byte.
pub(crate) fn to_binary(text: Bytes) -> Bytes {
    match json::parse(&text, limits::JSON_DEPTH_MAX) {
        Ok(parsed) => binary_json::encode(&parsed.value).into(),
        Err(_) => text,
    }
}

fn envelope(container: &Container, rows: &[Row]) -> (Bytes, usize) {
    let expected: usize = rows.iter().map(expected_bytes).sum();
    let mut out = Vec::with_capacity(expected + 64);
    out.extend_from_slice(format!("{{\"_rid\":\"{}\",\"Documents\":[", container.rid).as_bytes());
    let start = out.len();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match row {
            Row::Item(item) => system_properties::write_item(item, &mut out),
            Row::Json(text) => out.extend_from_slice(text),
        }
    }
    let rows_bytes = out.len() - start;
    out.extend_from_slice(format!("],\"_count\":{}}}", rows.len()).as_bytes());
    (out.into(), rows_bytes)
}

fn expected_bytes(row: &Row) -> usize {
    match row {
        Row::Item(item) => item.body().len() + system_properties::BYTES,
        Row::Json(text) => text.len() + 1,
    }
}

/// The text around the token of a query over all ranges. Clients of the service may parse such a
/// token, so it has the service's form.
const FAN_OUT: (&str, &str) = ("{\"token\":\"", "\",\"range\":{\"min\":\"\",\"max\":\"FF\"}}");

/// Wraps a token of a query over all ranges for the client, unless it would exceed the client's
/// limit.
pub(crate) fn fan_out_token(token: String, limit: &TokenLimit) -> String {
    let length = token.len() + FAN_OUT.0.len() + FAN_OUT.1.len();
    match limit.bytes_max.is_none_or(|max| length <= max) {
        true => format!("{}{token}{}", FAN_OUT.0, FAN_OUT.1),
        false => token,
    }
}

/// The inner token of one that covers all ranges; `None` if the text is no such token.
pub(crate) fn range_token(token: &str) -> Option<&str> {
    token.strip_prefix(FAN_OUT.0)?.strip_suffix(FAN_OUT.1)
}

/// The longest continuation token that the client accepts.
pub(crate) struct TokenLimit {
    bytes_max: Option<usize>,
}

impl TokenLimit {
    pub(crate) fn of(request: &Request) -> Result<Self, ApiError> {
        let Some(text) = request.headers.text_or(HeaderName::ContinuationLimitKb, "") else {
            return Ok(Self { bytes_max: None });
        };
        match text.parse::<u32>() {
            Ok(n) if n > 0 => {
                let bytes = usize::try_from(n).unwrap_or(usize::MAX).saturating_mul(1024);
                Ok(Self { bytes_max: Some(bytes) })
            }
            Ok(_) => Err(Self::too_small()),
            Err(_) => Err(ApiError::bad_request(
                "Please pass in a valid continuation token size limit which must be a positive \
                 integer.",
            )),
        }
    }

    fn too_small() -> ApiError {
        ApiError::bad_request("The continuation token limit specified is not large enough.")
    }

    pub(crate) fn check(&self, page: &Page) -> Result<(), ApiError> {
        let length = page.continuation.as_ref().map_or(0, String::len);
        match self.bytes_max {
            Some(max) if length > max => Err(Self::too_small()),
            _ => Ok(()),
        }
    }
}
