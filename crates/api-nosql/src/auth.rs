//! Authentication: signatures made with the account's keys, and the other forms of authorization.
//!
//! A request is signed over its verb, resource type, resource link and date. The link is rebuilt
//! here from the same decoded segments the address is parsed from, so the two cannot disagree. No
//! handler is reached without an [`Identity`](crate::access::Identity), which starts with a
//! [`Proof`].

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use account::{Caller, Key, KeyRing, Signers};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{DatabaseRid, ErrorKind, Timestamp, limits};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::address;
use crate::errors::ApiError;
use crate::headers::{HeaderName, Headers};

/// The keys of an account, ready for use.
pub(crate) struct Authenticator(pub(crate) Signers);

/// The parts of a request that are signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'r> {
    pub method: &'r str,
    pub segments: &'r [Cow<'r, str>],
    pub headers: &'r Headers,
}

/// An authorization header, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// A signature with an account key.
    Master(Vec<u8>),
    /// A bearer token of the directory.
    Directory(String),
    /// A resource token.
    Resource(String),
    /// Some other kind of token, by its type.
    Other(String),
}

/// The result of checking an authorization header; tokens are verified later.
#[derive(Debug)]
pub(crate) enum Proof {
    /// A key of the account.
    Key(Caller),
    /// A resource token, not verified yet.
    ResourceToken(String),
    /// A token of the directory, not verified yet.
    DirectoryToken(String),
}

impl Authenticator {
    pub(crate) fn new(keys: &KeyRing) -> Self {
        Self(Signers::new(keys))
    }

    /// Identifies the sender of a request. `name_exists` tells whether a database of the name in
    /// the path exists, which decides how an ambiguous path was most likely signed.
    pub(crate) fn authenticate(
        &self,
        signed: Signed<'_>,
        now: Timestamp,
        name_exists: impl FnOnce(&str) -> bool,
    ) -> Result<Proof, ApiError> {
        let text = signed.headers.text_or(HeaderName::Authorization, "").ok_or_else(|| {
            unauthorized(
                "Required Header authorization is missing. Ensure a valid Authorization token is \
                 passed.",
            )
        })?;
        match parse_authorization(text).ok_or_else(malformed)? {
            Authorization::Master(signature) => {
                let date = SignedDate::of(signed.headers)?;
                let caller = self.verify_master(signed, &date, &signature, name_exists)?;
                date.check(now)?;
                Ok(Proof::Key(caller))
            }
            Authorization::Directory(token) => Ok(Proof::DirectoryToken(token)),
            Authorization::Resource(token) => Ok(Proof::ResourceToken(token)),
            Authorization::Other(_) => Err(unauthorized(
                "The authorization token is of a type that this server does not accept. Use an \
                 account key, a resource token or a token of the directory.",
            )),
        }
    }

    fn verify_master(
        &self,
        signed: Signed<'_>,
        date: &SignedDate<'_>,
        signature: &[u8],
        name_exists: impl FnOnce(&str) -> bool,
    ) -> Result<Caller, ApiError> {
        let (likely, other) = links(signed.segments, name_exists);
        let payload = payload(signed.method, signed.segments, &likely, date);
        if let Some(caller) = self.0.signer_of(payload.as_bytes(), signature) {
            return Ok(caller);
        }
        if let Some(other) = other {
            let payload = self::payload(signed.method, signed.segments, &other, date);
            if let Some(caller) = self.0.signer_of(payload.as_bytes(), signature) {
                return Ok(caller);
            }
        }
        Err(unauthorized(format!(
            "The input authorization token can't serve the request. The wrong key is being used or \
             the expected payload is not built as per the protocol. Server used the following \
             payload to sign: '{payload}'. {}",
            self.0.advice()
        )))
    }
}

/// The headers `x-ms-date` and `authorization` of a request signed with an account key (base64) at
/// `now`, for our own clients. `None` if the key or the path is invalid.
pub fn sign(key: &str, method: &str, path: &str, now: SystemTime) -> Option<(String, String)> {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let segments = address::segments_of(path, query).ok()?;
    let text = httpdate::fmt_http_date(now);
    let (link, _) = links(&segments, |_| false);
    let date = SignedDate { text: &text, is_x_ms: true };
    let signature =
        account::sign(&Key::parse(key).ok()?, payload(method, &segments, &link, &date).as_bytes());
    let plain = format!("type=master&ver=1.0&sig={signature}");
    let authorization = utf8_percent_encode(&plain, NON_ALPHANUMERIC).to_string();
    Some((text, authorization))
}

/// Parses `type=master&ver=1.0&sig=...`, percent-encoded as a whole or not.
pub(crate) fn parse_authorization(header: &str) -> Option<Authorization> {
    let text = percent_decode_str(header).decode_utf8().ok()?;
    let (mut kind, mut version, mut signature) = (None, None, None);
    for field in text.split('&') {
        let (name, value) = field.split_once('=')?;
        match name {
            "type" => kind = Some(value),
            "ver" => version = Some(value),
            "sig" => signature = Some(value),
            _ => return None,
        }
    }
    match (kind?, version?, signature?) {
        ("master", "1.0", signature) => STANDARD.decode(signature).ok().map(Authorization::Master),
        ("aad", "1.0", token) => Some(Authorization::Directory(token.to_owned())),
        ("resource", "1" | "1.0", token) => Some(Authorization::Resource(token.to_owned())),
        ("master" | "aad" | "resource", ..) => None,
        (other, ..) => Some(Authorization::Other(other.to_owned())),
    }
}

/// The date that a request was signed with, and its slot in the signed payload.
struct SignedDate<'r> {
    text: &'r str,
    is_x_ms: bool,
}

impl<'r> SignedDate<'r> {
    fn of(headers: &'r Headers) -> Result<Self, ApiError> {
        if let Some(text) = headers.text(HeaderName::XmsDate) {
            return Ok(Self { text, is_x_ms: true });
        }
        let date = headers.text(HeaderName::Date);
        date.map(|text| Self { text, is_x_ms: false }).ok_or_else(mandates_date)
    }

    fn check(&self, now: Timestamp) -> Result<(), ApiError> {
        let date = date_of(self.text.trim()).ok_or_else(mandates_date)?;
        let now = UNIX_EPOCH + Duration::from_millis(now.0);
        let (apart, is_early) = match now.duration_since(date) {
            Ok(apart) => (apart, false),
            Err(error) => (error.duration(), true),
        };
        if apart <= limits::SIGNED_DATE_SKEW_MAX {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorKind::Forbidden,
            format!(
                "The authorization token is not valid at the current time. Please create another \
                 token and retry (token start time: {}, token expiry time: {}, current server \
                 time: {}). The date that was signed is {} s {} the server's clock, and at most {} \
                 s are allowed: check the clocks of both machines.",
                httpdate::fmt_http_date(date),
                httpdate::fmt_http_date(date + limits::SIGNED_DATE_SKEW_MAX),
                httpdate::fmt_http_date(now),
                apart.as_secs(),
                if is_early { "ahead of" } else { "behind" },
                limits::SIGNED_DATE_SKEW_MAX.as_secs(),
            ),
        ))
    }
}

/// A date in the form of RFC 1123, with letters of either case: the text that is signed is in lower
/// case, and clients that are written by hand send it so.
fn date_of(text: &str) -> Option<SystemTime> {
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(date);
    }
    let (words, zone) = text.split_at_checked(text.len().checked_sub(3)?)?;
    let mut spelled = String::with_capacity(text.len());
    for character in words.chars() {
        let continues_word = spelled.ends_with(|before: char| before.is_ascii_alphabetic());
        spelled.push(match continues_word {
            true => character.to_ascii_lowercase(),
            false => character.to_ascii_uppercase(),
        });
    }
    spelled.push_str(&zone.to_ascii_uppercase());
    httpdate::parse_http_date(&spelled).ok()
}

/// The link that was most likely signed and, for a path that can be read in two ways, the other.
fn links(
    segments: &[Cow<'_, str>],
    name_exists: impl FnOnce(&str) -> bool,
) -> (String, Option<String>) {
    let owner = owner_segments(segments);
    match segments.first().map(AsRef::as_ref) {
        Some("offers") => (owner.get(1).map(|id| id.to_lowercase()).unwrap_or_default(), None),
        _ => match owner.get(1).filter(|d| DatabaseRid::parse(d).is_some()) {
            None => (owner.join("/"), None),
            Some(database) => {
                // A link ends with an id, since a feed's own type is no part of it.
                let last_rid = owner.last().unwrap_or(database).to_lowercase();
                if name_exists(database) {
                    (owner.join("/"), Some(last_rid))
                } else {
                    (last_rid, Some(owner.join("/")))
                }
            }
        },
    }
}

/// The segments of the signed link: all segments of a resource, and those of a feed without its own
/// type.
fn owner_segments<'a, 'p>(segments: &'a [Cow<'p, str>]) -> &'a [Cow<'p, str>] {
    match segments {
        [owner @ .., operations, _] if is_operation(operations) && owner.len() == 4 => owner,
        [owner @ .., _] if segments.len() % 2 == 1 => owner,
        all => all,
    }
}

fn resource_type<'a>(segments: &'a [Cow<'_, str>]) -> &'a str {
    match segments {
        [] => "",
        [_, _, _, _, operations, _] if is_operation(operations) => "colls",
        [.., kind] if segments.len() % 2 == 1 => kind,
        [.., kind, _] => kind,
        [kind] => kind,
    }
}

fn is_operation(segment: &str) -> bool {
    segment == "operations"
}

fn payload(method: &str, segments: &[Cow<'_, str>], link: &str, date: &SignedDate<'_>) -> String {
    let kind = resource_type(segments);
    let mut out = String::with_capacity(48 + kind.len() + link.len() + date.text.len());
    let push_lower = |text: &str, out: &mut String| {
        out.extend(text.chars().map(|c| c.to_ascii_lowercase()));
    };
    push_lower(method, &mut out);
    out.push('\n');
    push_lower(kind, &mut out);
    out.push('\n');
    out.push_str(link);
    out.push('\n');
    if date.is_x_ms {
        push_lower(date.text, &mut out);
        out.push_str("\n\n");
    } else {
        out.push('\n');
        push_lower(date.text, &mut out);
        out.push('\n');
    }
    out
}

pub(crate) fn unauthorized(message: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError::new(ErrorKind::Unauthorized, message)
}

fn malformed() -> ApiError {
    unauthorized(
        "The format of the authorization header is invalid: expected the percent-encoded text \
         type={master|resource|aad}&ver=1.0&sig={signature}.",
    )
}

fn mandates_date() -> ApiError {
    unauthorized(
        "Authorization token mandates Date header. Please pass in RFC 1123 style date format.",
    )
}

#[cfg(test)]
mod tests;
