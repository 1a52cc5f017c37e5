//! Responses, with every header that the protocol requires on all of them.

use bytes::Bytes;
use front_http::decimal;
use http_body_util::Full;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    SERVER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use model::edm::{DateDigits, date_text};
use model::{Charge, json};

use crate::Flavour;
use crate::edm::Metadata;
use crate::errors::TableError;
use crate::headers::name;
use crate::stored;

const SERVER_NAME: &str = concat!("Planisphere-Table/", env!("CARGO_PKG_VERSION"));

/// A handler's reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// A reply without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::with_capacity(16), body: Bytes::new() }
    }

    pub(crate) fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    /// A reply with a JSON body.
    pub(crate) fn json(status: StatusCode, metadata: Metadata, body: impl Into<Bytes>) -> Self {
        let reply = Self { body: body.into(), ..Self::empty(status) };
        reply.typed(json_type(metadata))
    }

    /// A reply with an XML body.
    pub(crate) fn xml(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let reply = Self { body: body.into(), ..Self::empty(status) };
        reply.typed(HeaderValue::from_static("application/xml"))
    }

    fn typed(mut self, media_type: HeaderValue) -> Self {
        self.headers.insert(CONTENT_TYPE, media_type);
        self
    }

    /// Adds one more header. A text that is no valid header value is left out.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, text: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(text) {
            self.headers.insert(name, value);
        }
        self
    }

    #[must_use]
    pub(crate) fn etag(self, etag: &str) -> Self {
        self.header(ETAG, etag)
    }

    /// Adds the address of the written resource.
    #[must_use]
    pub(crate) fn located(self, url: &str) -> Self {
        self.header(LOCATION, url)
    }
}

fn json_type(metadata: Metadata) -> HeaderValue {
    HeaderValue::from_static(match metadata {
        Metadata::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        Metadata::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        Metadata::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
    })
}

/// Values for the headers of every response, besides the handler's reply.
pub(crate) struct Envelope<'a> {
    pub(crate) flavour: Flavour,
    pub(crate) request_id: &'a HeaderValue,
    pub(crate) client_request_id: Option<&'a HeaderValue>,
    pub(crate) version: Option<&'a HeaderValue>,
    pub(crate) charge: Charge,
    /// The current time in seconds and ticks, for errors.
    pub(crate) now_ticks: u64,
    /// Whether errors are written in XML.
    pub(crate) wants_xml: bool,
    /// Whether it is a CORS preflight request.
    pub(crate) is_preflight: bool,
}

impl Envelope<'_> {
    /// The response.
    pub(crate) fn send(&self, reply: Reply) -> Response<Full<Bytes>> {
        let Reply { status, mut headers, body } = reply;
        headers.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(name::REQUEST_ID, self.request_id.clone());
        headers.insert(name::REQUEST_CHARGE, decimal(self.charge.as_milli()));
        let version = self.version.cloned().unwrap_or(HeaderValue::from_static("2019-02-02"));
        headers.insert(name::VERSION, version);
        if let Some(id) = self.client_request_id {
            headers.insert(name::CLIENT_REQUEST_ID, id.clone());
        }
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// The reply for an error.
    pub(crate) fn error(&self, error: &TableError) -> Reply {
        let code = error.code_in(self.flavour);
        let message = self.message_of(error, None);
        let reply = match (self.is_preflight, self.wants_xml) {
            // The errors of preflight requests have the same form in all storage services.
            (true, _) => Reply::xml(error.status, plain_error(code, &message)),
            (false, true) => Reply::xml(error.status, xml_error(code, &message)),
            (false, false) => {
                Reply::json(error.status, Metadata::Minimal, self.json_error(code, &message))
            }
        };
        let mut reply = reply.header(name::ERROR_CODE, code);
        if let Some(retry_after) = error.retry_after() {
            // Rounded up, because a client that retries slightly too early is refused again.
            let millis = retry_after.as_nanos().div_ceil(1_000_000).max(1);
            let seconds = millis.div_ceil(1000);
            reply = reply
                .header(RETRY_AFTER, &seconds.to_string())
                .header(name::RETRY_AFTER_MS, &millis.to_string());
            if self.flavour == Flavour::Cosmos {
                reply = reply.header(name::SUBSTATUS, "3200");
            }
        }
        if let Some(challenge) = error.extra.as_ref().and_then(|extra| extra.challenge.as_ref()) {
            reply = reply.header(WWW_AUTHENTICATE, challenge);
        }
        reply
    }

    /// The text of an error: its message and ids to search logs for. Errors of an operation in a
    /// batch begin with its number.
    pub(crate) fn message_of(&self, error: &TableError, index: Option<usize>) -> String {
        let index = index.map(|index| format!("{index}:")).unwrap_or_default();
        let id = self.request_id.to_str().unwrap_or_default();
        let time = date_text(stored::date_of(self.now_ticks), DateDigits::Seven);
        format!("{index}{}\nRequestId:{id}\nTime:{time}", error.message)
    }

    /// The body of an error, with members in the order that clients search for.
    pub(crate) fn json_error(&self, code: &str, message: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(br#"{"odata.error":{"code":"#);
        json::write_str(code, &mut out);
        out.extend_from_slice(br#","message":{"lang":"#);
        json::write_str(
            match self.flavour {
                Flavour::Storage => "en-US",
                Flavour::Cosmos => "en-us",
            },
            &mut out,
        );
        out.extend_from_slice(br#","value":"#);
        json::write_str(message, &mut out);
        out.extend_from_slice(b"}}}");
        out
    }
}

fn plain_error(code: &str, message: &str) -> String {
    let (code, message) = (crate::xml::escaped(code), crate::xml::escaped(message));
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>{message}\
         </Message></Error>"
    )
}

fn xml_error(code: &str, message: &str) -> String {
    let (code, message) = (crate::xml::escaped(code), crate::xml::escaped(message));
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?><error \
         xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><code>{code}\
         </code><message xml:lang=\"en-US\">{message}</message></error>"
    )
}
