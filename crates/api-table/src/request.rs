//! The request value that handlers receive: its account, target, options and whole body.

use account::Scheme;
use bytes::Bytes;
use engine::ops::EtagCondition;
use hyper::Method;
use hyper::header::{ACCEPT, HeaderMap, HeaderName, IF_MATCH};

use crate::Flavour;
use crate::address::{Address, Target};
use crate::auth::Identity;
use crate::edm::{self, Metadata, Rules};
use crate::errors::TableError;
use crate::headers::name;
use crate::options::Options;
use crate::stored;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
}

impl Verb {
    /// The verb of a request: its method, or the override in a POST.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Result<Self, TableError> {
        let mut tunnelled = headers.get_all(name::X_HTTP_METHOD).iter();
        let Some(tunnel) = tunnelled.next() else { return Self::named(method.as_str()) };
        if tunnelled.next().is_some() {
            return Err(x_method(
                "XMethodIncorrectCount",
                "More than one X-HTTP-Method specified.",
            ));
        }
        if method != Method::POST {
            return Err(x_method("XMethodNotUsingPost", "Invalid use of X-HTTP-Method."));
        }
        match tunnel.to_str() {
            Ok("MERGE" | "PATCH") => Ok(Verb::Merge),
            Ok("PUT") => Ok(Verb::Put),
            Ok("DELETE") => Ok(Verb::Delete),
            _ => Err(x_method("XMethodIncorrectValue", "The specified X-HTTP-Method is invalid.")),
        }
    }

    pub(crate) fn named(method: &str) -> Result<Self, TableError> {
        match method {
            "GET" | "HEAD" => Ok(Verb::Get),
            "POST" => Ok(Verb::Post),
            "PUT" => Ok(Verb::Put),
            "PATCH" | "MERGE" => Ok(Verb::Merge),
            "DELETE" => Ok(Verb::Delete),
            _ => Err(TableError::method_not_allowed()),
        }
    }
}

fn x_method(code: &'static str, message: &'static str) -> TableError {
    TableError::new(400, code, message)
}

/// What a client wants in the response to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    Content,
    NoContent,
}

impl Preference {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(name::PREFER)?.to_str().ok()?.trim();
        if text.eq_ignore_ascii_case("return-no-content") {
            return Some(Preference::NoContent);
        }
        text.eq_ignore_ascii_case("return-content").then_some(Preference::Content)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Preference::Content => "return-content",
            Preference::NoContent => "return-no-content",
        }
    }
}

/// Values that a request shares with the operations of its batch.
#[derive(Debug)]
pub(crate) struct TableContext {
    pub(crate) flavour: Flavour,
    /// The account's name.
    pub(crate) account: String,
    pub(crate) identity: Identity,
    pub(crate) is_secondary: bool,
    /// Scheme, host and, where it is in the path, account: without a trailing slash.
    pub(crate) service_url: String,
}

impl TableContext {
    pub(crate) fn new(
        flavour: Flavour,
        address: &Address,
        account: String,
        identity: Identity,
        (scheme, host): (Scheme, &str),
    ) -> Self {
        let service_url = format!("{}://{host}{}", scheme.as_str(), address.prefix);
        Self { flavour, account, identity, is_secondary: address.is_secondary, service_url }
    }

    /// The rules for entities.
    pub(crate) fn rules(&self) -> &'static Rules {
        stored::rules(self.flavour)
    }
}

/// A request whose address is parsed, whose caller is known and whose body is complete.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) context: TableContext,
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) options: Options,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        text(&self.headers, name)
    }

    pub(crate) fn preference(&self) -> Option<Preference> {
        Preference::of(&self.headers)
    }

    /// How much of types and addresses the reply includes.
    pub(crate) fn metadata(&self) -> Result<Metadata, TableError> {
        let wanted = self.options.get("$format").or_else(|| self.header(&ACCEPT));
        metadata_of(wanted.unwrap_or_default())
    }

    /// The condition of `If-Match`.
    pub(crate) fn condition(&self) -> Result<Option<EtagCondition>, TableError> {
        condition_of(&self.headers)
    }
}

pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The condition of `If-Match`, the only conditional header.
pub(crate) fn condition_of(headers: &HeaderMap) -> Result<Option<EtagCondition>, TableError> {
    if headers.contains_key(hyper::header::IF_NONE_MATCH) {
        return Err(TableError::invalid_inputs());
    }
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    Ok(Some(match edm::parse_condition(text.trim())? {
        edm::Condition::Exists => EtagCondition::Any,
        edm::Condition::Version(date) => EtagCondition::ChangedAt(stored::ticks_of(date)),
        // No version has this time.
        edm::Condition::Unknown => EtagCondition::ChangedAt(u64::MAX),
    }))
}

/// Parses a list of media types.
pub(crate) fn metadata_of(accept: &str) -> Result<Metadata, TableError> {
    let accept: String =
        accept.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    if accept.contains("atom+xml") && !accept.contains("json") {
        return Err(TableError::atom_not_supported());
    }
    Ok(if accept.contains("odata=nometadata") {
        Metadata::None
    } else if accept.contains("odata=fullmetadata") {
        Metadata::Full
    } else {
        Metadata::Minimal
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_level_of_metadata_is_in_the_media_type() {
        for (accept, level) in [
            ("", Metadata::Minimal),
            ("*/*", Metadata::Minimal),
            ("application/json", Metadata::Minimal),
            ("application/json;odata=minimalmetadata", Metadata::Minimal),
            ("application/json; odata = nometadata", Metadata::None),
            ("application/json;odata=fullmetadata;q=1", Metadata::Full),
            ("application/atom+xml,application/json", Metadata::Minimal),
        ] {
            assert_eq!(metadata_of(accept).ok(), Some(level), "{accept}");
        }
        assert_eq!(metadata_of("application/atom+xml").unwrap_err().code, "AtomFormatNotSupported");
    }

    #[test]
    fn a_post_may_stand_for_a_merge_and_nothing_else_may() {
        let merge = Method::from_bytes(b"MERGE").unwrap();
        let verb = |method: &Method, tunnel: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(tunnel) = tunnel {
                headers.insert(name::X_HTTP_METHOD, HeaderValue::from_static(tunnel));
            }
            Verb::of(method, &headers).map_err(|error| error.code.to_owned())
        };
        assert_eq!(verb(&Method::POST, Some("MERGE")), Ok(Verb::Merge));
        assert_eq!(verb(&merge, None), Ok(Verb::Merge));
        assert_eq!(verb(&Method::PATCH, None), Ok(Verb::Merge));
        assert_eq!(verb(&Method::PUT, Some("MERGE")), Err("XMethodNotUsingPost".into()));
        assert_eq!(verb(&Method::POST, Some("GET")), Err("XMethodIncorrectValue".into()));
        assert_eq!(verb(&Method::TRACE, None), Err("UnsupportedHttpVerb".into()));
    }
}
