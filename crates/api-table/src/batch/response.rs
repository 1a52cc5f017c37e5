//! The multipart responses of batches, in the spelling that clients expect.

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, LOCATION};

use crate::errors::TableError;
use crate::headers::name;
use crate::reply::{Envelope, Reply};

/// A response under construction.
pub(super) struct Response<'e> {
    envelope: &'e Envelope<'e>,
    id: String,
    is_changeset: bool,
}

/// Headers of parts, as clients spell them.
const HEADERS: [(HeaderName, &str); 5] = [
    (name::PREFERENCE_APPLIED, "Preference-Applied"),
    (CONTENT_TYPE, "Content-Type"),
    (LOCATION, "Location"),
    (name::DATA_SERVICE_ID, "DataServiceId"),
    (ETAG, "ETag"),
];

impl<'e> Response<'e> {
    pub(super) fn new(envelope: &'e Envelope<'e>, is_changeset: bool) -> Self {
        let id = envelope.request_id.to_str().unwrap_or_default().to_owned();
        Self { envelope, id, is_changeset }
    }

    /// All operations were committed.
    pub(super) fn of_replies(&self, replies: Vec<(Option<String>, Reply)>) -> Reply {
        let mut parts = Vec::with_capacity(512 * replies.len());
        for (content_id, reply) in replies {
            self.write_part(content_id.as_deref(), reply.status, &reply.headers, &mut parts);
            parts.extend_from_slice(&reply.body);
            parts.extend_from_slice(b"\r\n");
        }
        self.wrapped(parts)
    }

    /// None was committed, because one failed.
    pub(super) fn of_error(
        &self,
        index: usize,
        content_id: Option<&str>,
        error: &TableError,
    ) -> Reply {
        let message = self.envelope.message_of(error, Some(index));
        let body = self.envelope.json_error(error.code_in(self.envelope.flavour), &message);
        let reply = Reply::json(error.status, crate::edm::Metadata::Minimal, body);
        let mut parts = Vec::with_capacity(1024);
        self.write_part(content_id, reply.status, &reply.headers, &mut parts);
        parts.extend_from_slice(&reply.body);
        parts.extend_from_slice(b"\r\n");
        self.wrapped(parts)
    }

    fn boundary(&self) -> String {
        match self.is_changeset {
            true => format!("changesetresponse_{}", self.id),
            false => format!("batchresponse_{}", self.id),
        }
    }

    fn write_part(
        &self,
        content_id: Option<&str>,
        status: StatusCode,
        headers: &HeaderMap,
        out: &mut Vec<u8>,
    ) {
        let reason = status.canonical_reason().unwrap_or("Unknown");
        let mut text = format!(
            "--{}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             HTTP/1.1 {} {reason}\r\n",
            self.boundary(),
            status.as_u16(),
        );
        // A line end in it would end the header.
        if let Some(id) = content_id.filter(|id| !id.contains(['\r', '\n'])) {
            text.push_str(&format!("Content-ID: {id}\r\n"));
        }
        text.push_str(
            "X-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n\
             DataServiceVersion: 3.0;\r\n",
        );
        for (header, spelling) in &HEADERS {
            if let Some(value) = headers.get(header).and_then(|value| value.to_str().ok()) {
                text.push_str(&format!("{spelling}: {value}\r\n"));
            }
        }
        text.push_str("\r\n");
        out.extend_from_slice(text.as_bytes());
    }

    /// 202 with the parts as its body.
    fn wrapped(&self, parts: Vec<u8>) -> Reply {
        let id = &self.id;
        let mut body = Vec::with_capacity(parts.len() + 256);
        if self.is_changeset {
            let head = format!(
                "--batchresponse_{id}\r\nContent-Type: multipart/mixed; \
                 boundary=changesetresponse_{id}\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
        }
        body.extend_from_slice(&parts);
        if self.is_changeset {
            body.extend_from_slice(format!("--changesetresponse_{id}--\r\n").as_bytes());
        }
        body.extend_from_slice(format!("--batchresponse_{id}--\r\n").as_bytes());
        let mut reply = Reply::empty(StatusCode::ACCEPTED)
            .header(CONTENT_TYPE, &format!("multipart/mixed; boundary=batchresponse_{id}"));
        reply.body = body.into();
        reply
    }
}
