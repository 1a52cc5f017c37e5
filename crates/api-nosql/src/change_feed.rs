//! The change feed: a feed of items that clients request with `A-IM`.
//!
//! Conditional request headers say where it starts. `If-None-Match` holds the etag of the previous
//! page, or `*` for changes from now on; `If-Modified-Since` holds a time. Without either the feed
//! starts at the beginning. The etag of every response is the position to continue from, also of
//! 304, which has no body and means that there is nothing new.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use engine::changes::{ChangesMode, ChangesPage, ChangesRequest, ChangesStart, ItemChange};
use engine::{Container, RequestContext, StoredItem};
use model::{Lsn, PartitionKeyDefinition, json};

use crate::change_filter::ChangeFilter;
use crate::errors::ApiError;
use crate::headers::{self, HeaderName};
use crate::reply::{Reply, Status};
use crate::request::{Request, Verb};
use crate::{Service, feed, payload, scope, session, system_properties};

/// The form of an item in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The item itself, with its position as one more property.
    Flat,
    /// The item as `current`, beside `metadata`.
    Envelope,
}

pub(crate) async fn read(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::required_lsns(request, service.account().consistency)?;
    let mode = mode(request)?;
    let wanted = ChangesRequest {
        mode,
        start: start(request)?,
        items_max: headers::page_size(&request.headers)?,
    };
    let filter = match request.verb {
        Verb::Post => Some(ChangeFilter::of(service, container, request).await?),
        Verb::Get | Verb::Head | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => None,
    };
    let scope = scope::of(container, request)?;
    let mut page = service.engine().read_changes(ctx, container, scope, wanted).await?;
    let etag = format!("\"{}\"", page.position);
    if page.changes.is_empty() && page.is_caught_up {
        let nothing_new = Reply::new(Status::NOT_MODIFIED, Bytes::new());
        return Ok(nothing_new.etag(etag).item_count(0));
    }
    if let Some(filter) = filter {
        page.changes = filter.apply(service, page.changes).await?;
    }
    let shape = match mode {
        ChangesMode::LatestVersion if !request.headers.has(HeaderName::ChangeFeedWireFormat) => {
            Shape::Flat
        }
        ChangesMode::LatestVersion | ChangesMode::AllVersionsAndDeletes => Shape::Envelope,
    };
    let text = Bytes::from(text(container, &page, shape));
    let body = if payload::demands_binary(request) { feed::to_binary(text) } else { text };
    Ok(Reply::ok(body).etag(etag).item_count(page.changes.len()))
}

fn mode(request: &Request) -> Result<ChangesMode, ApiError> {
    let text = request.header(HeaderName::AIm).unwrap_or_default();
    if text.eq_ignore_ascii_case("Incremental Feed") {
        Ok(ChangesMode::LatestVersion)
    } else if text.eq_ignore_ascii_case("Full-Fidelity Feed") {
        Ok(ChangesMode::AllVersionsAndDeletes)
    } else {
        Err(ApiError::bad_request(format!(
            "The value '{text}' specified for the header 'a-im' is invalid."
        )))
    }
}

/// Where the feed starts. An etag wins over a time, because some clients keep sending the time with
/// it.
fn start(request: &Request) -> Result<ChangesStart, ApiError> {
    if let Some(etag) = request.header_lossy(HeaderName::IfNoneMatch) {
        let etag = etag.trim();
        return Ok(match etag {
            "*" => ChangesStart::Now,
            etag => ChangesStart::After(unquoted(etag).to_owned()),
        });
    }
    let Some(time) = request.header_lossy(HeaderName::IfModifiedSince) else {
        return Ok(ChangesStart::Beginning);
    };
    match seconds(time.trim()) {
        Some(since) => Ok(ChangesStart::Time(since)),
        None => Err(ApiError::invalid_input(
            "The header 'if-modified-since' does not hold a date of the form of RFC 1123.",
        )),
    }
}

/// The seconds of the epoch that a date of the form of RFC 1123 stands for. One SDK writes the zone
/// as `UTC`.
fn seconds(date: &str) -> Option<u64> {
    let date = match date.strip_suffix("UTC") {
        Some(rest) => Cow::Owned(format!("{rest}GMT")),
        None => Cow::Borrowed(date),
    };
    let time = httpdate::parse_http_date(&date).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

fn unquoted(etag: &str) -> &str {
    let etag = etag.strip_prefix("W/").unwrap_or(etag);
    etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(etag)
}

fn text(container: &Container, page: &ChangesPage, shape: Shape) -> Vec<u8> {
    let expected: usize = page.changes.iter().map(expected_bytes).sum();
    let mut out = Vec::with_capacity(expected + 64);
    out.extend_from_slice(format!("{{\"_rid\":\"{}\",\"Documents\":[", container.rid).as_bytes());
    for (at, change) in page.changes.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match shape {
            Shape::Flat => push_flat(change, &mut out),
            Shape::Envelope => push_envelope(change, &container.spec.partition_key, &mut out),
        }
    }
    out.extend_from_slice(format!("],\"_count\":{}}}", page.changes.len()).as_bytes());
    out
}

fn expected_bytes(change: &ItemChange) -> usize {
    match change {
        ItemChange::Latest(item) | ItemChange::Put { item, .. } => {
            item.body().len() + 2 * system_properties::BYTES
        }
        ItemChange::Delete(deleted) => {
            deleted.last.as_ref().map_or(0, |item| item.body().len()) + 2 * system_properties::BYTES
        }
    }
}

/// Writes the item with its position; a delete is an empty object in this form.
fn push_flat(change: &ItemChange, out: &mut Vec<u8>) {
    match change {
        ItemChange::Latest(item) | ItemChange::Put { item, .. } => {
            system_properties::write_item(item, out);
            // Replaces the closing brace.
            out.pop();
            push(out, format_args!(",\"_lsn\":{}}}", item.lsn()));
        }
        ItemChange::Delete(_) => out.extend_from_slice(b"{}"),
    }
}

fn push_envelope(change: &ItemChange, key: &PartitionKeyDefinition, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"current\":");
    match change {
        ItemChange::Latest(item) => {
            push_current(item, out);
            push(out, format_args!("\"lsn\":{},\"crts\":{}", item.lsn(), item.ts()));
        }
        ItemChange::Put { item, previous } => {
            push_current(item, out);
            let operation = if previous.is_some() { "replace" } else { "create" };
            push_operation(out, operation, item.lsn(), item.ts(), *previous);
        }
        ItemChange::Delete(deleted) => {
            out.extend_from_slice(b"{},\"metadata\":{");
            push_operation(out, "delete", deleted.lsn, deleted.ts, deleted.previous);
            push(out, format_args!(",\"timeToLiveExpired\":{},\"id\":", deleted.is_expired));
            json::write_str(&deleted.id.as_text(), out);
            out.extend_from_slice(b",\"partitionKey\":{");
            push_key(key, &deleted.partition_key(), out);
            out.push(b'}');
            if let Some(last) = &deleted.last {
                out.extend_from_slice(b"},\"previous\":");
                system_properties::write_item(last, out);
                return out.push(b'}');
            }
        }
    }
    out.extend_from_slice(b"}}");
}

fn push_current(item: &StoredItem, out: &mut Vec<u8>) {
    system_properties::write_item(item, out);
    out.extend_from_slice(b",\"metadata\":{");
}

fn push_operation(out: &mut Vec<u8>, name: &str, lsn: Lsn, ts: u64, previous: Option<Lsn>) {
    push(out, format_args!("\"operationType\":\"{name}\",\"lsn\":{lsn},\"crts\":{ts}"));
    if let Some(previous) = previous {
        push(out, format_args!(",\"previousImageLSN\":{previous}"));
    }
}

/// The key's values by path; undefined components are left out.
fn push_key(definition: &PartitionKeyDefinition, key: &model::PartitionKey, out: &mut Vec<u8>) {
    let mut is_first = true;
    for (path, component) in definition.paths.iter().zip(&key.0) {
        let Some(value) = component.to_value() else { continue };
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        json::write_str(path.to_string().trim_start_matches('/'), out);
        out.push(b':');
        json::write(&value, out);
    }
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::request_with;

    fn start_of(headers: &[(HeaderName, &str)]) -> Result<ChangesStart, u16> {
        start(&request_with(headers, b"")).map_err(|error| error.status())
    }

    #[test]
    fn an_etag_wins_over_a_time_and_nothing_is_the_beginning() {
        let after = |text: &str| Ok(ChangesStart::After(text.into()));
        let date = (HeaderName::IfModifiedSince, "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(start_of(&[]), Ok(ChangesStart::Beginning));
        assert_eq!(start_of(std::slice::from_ref(&date)), Ok(ChangesStart::Time(1_700_000_000)));
        for (text, expected) in [
            ("*", Ok(ChangesStart::Now)),
            ("\"57\"", after("57")),
            ("57", after("57")),
            ("W/\"57\"", after("57")),
            (" \"abc\" ", after("abc")),
            ("\"", after("\"")),
        ] {
            assert_eq!(start_of(&[(HeaderName::IfNoneMatch, text), date]), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in ["", "yesterday", "2023-11-14T22:13:20Z", "1700000000", "Tue, 99 Nov 2023"] {
            assert_eq!(start_of(&[(HeaderName::IfModifiedSince, text)]), Err(400), "{text}");
        }
    }

    #[test]
    fn modes_have_names() {
        let mode_of = |text| mode(&request_with(&[(HeaderName::AIm, text)], b"")).ok();
        assert_eq!(mode_of("Incremental Feed"), Some(ChangesMode::LatestVersion));
        assert_eq!(mode_of("incremental feed"), Some(ChangesMode::LatestVersion));
        assert_eq!(mode_of("Full-Fidelity Feed"), Some(ChangesMode::AllVersionsAndDeletes));
        assert_eq!(mode_of("Whole Feed"), None);
        assert_eq!(mode_of(""), None);
    }
}
