//! One request of a client in Direct mode, from its frame to its answer.

use std::pin::pin;
use std::sync::Arc;

use account::RequestSource;
use front_http::catch_panic;
use hyper::body::Body;
use tracing::error;

use super::answer::{self, FrameAnswer};
use super::context::DirectClient;
use super::fields::Fields;
use super::frame::Frame;
use super::operations::{self, Operation};
use crate::Service;
use crate::address::Segments;
use crate::errors::ApiError;
use crate::headers::{HeaderName, Headers, invalid_value};
use crate::observe::Wire;
use crate::reply::Reply;
use crate::request::RequestHead;

impl Service {
    /// Answers one request. Infallible: every error, a panic included, becomes an answer.
    ///
    /// Dropping the future abandons the request; writes that the engine has already received are
    /// still committed. The payload of a refused request may be left unread.
    pub async fn serve_frame<B: Body>(
        self: Arc<Self>,
        frame: Frame,
        payload: B,
        client: Arc<DirectClient>,
        source: RequestSource,
    ) -> FrameAnswer {
        let Frame { id, resource, operation, head: bytes, mut fields } = frame;
        let operation = operations::find(operation).ok_or_else(operations::unsupported);
        let address = operation.and_then(|operation| {
            let segments = operation.segments(resource, &fields, &bytes)?;
            check(&fields)?;
            Ok((operation, segments))
        });
        let (method, segments, refusal) = match address {
            Ok((operation, segments)) => {
                complete(&mut fields, operation, &bytes);
                (operation.verb, segments, None)
            }
            Err(error) => ("", Segments::new(), Some(error)),
        };
        let activity = activity_text(&id.activity);
        fields.headers.set(HeaderName::ActivityId, &activity);
        let (headers, direct) = (fields.headers, fields.direct);
        let path = path_of(&segments);
        let head = RequestHead {
            method,
            path: &path,
            bytes: bytes.len(),
            endpoint: None,
            headers,
            direct: Some(direct),
            source,
        };
        let mut exchange = self.exchange(&head, Wire::Rntbd);
        let caught: Result<Result<Reply, ApiError>, String> = {
            let answer = pin!(async {
                if let Some(refusal) = refusal {
                    return Err(refusal);
                }
                let target = self.admit(&head, Ok(segments), &mut exchange)?;
                let payload = self.bodies().read(payload, self.clock()).await?;
                self.answer(head.with_body(target, payload.bytes.clone()), &mut exchange).await
            });
            catch_panic(answer).await
        };
        let result = caught.unwrap_or_else(|message| {
            let activity = String::from_utf8_lossy(&activity);
            error!(%activity, panic = message, "a request handler panicked");
            Err(ApiError::internal())
        });
        let (reply, envelope) = self.finish(result, &mut exchange);
        answer::answer(&id, &client, &direct, self.clock().now(), &reply, &envelope)
    }
}

/// Refuses values that their headers can't have.
fn check(fields: &Fields) -> Result<(), ApiError> {
    match fields.invalid {
        Some(invalid) => Err(invalid_value(&invalid.number.to_string(), invalid.header)),
        None => Ok(()),
    }
}

/// Adds the headers that follow from the operation.
pub(super) fn complete(fields: &mut Fields, operation: &Operation, head: &[u8]) {
    let headers: &mut Headers = &mut fields.headers;
    operation.add_headers(headers);
    if let Some(condition) = fields.condition.of(head) {
        let header = if operation.is_read { HeaderName::IfNoneMatch } else { HeaderName::IfMatch };
        headers.set(header, condition);
    }
    // The container that the client has under the name; of a resource in it, its own id says it.
    if let Some(rid) = fields.resource_id.of(head).and_then(|rid| rid.first_chunk::<8>())
        && fields.direct.container.is_none()
    {
        fields.direct.container = model::ContainerRid::of_bytes(*rid);
    }
}

/// The path that HTTP has for the request, with its names as they are; for the log.
fn path_of(segments: &Segments<'_>) -> String {
    let length = segments.iter().map(|segment| segment.len() + 1).sum();
    let mut path = String::with_capacity(length);
    for segment in segments {
        path.push('/');
        path.push_str(segment);
    }
    path
}

/// An activity id as text. The first three of its groups are sent with their lowest byte first.
pub(super) fn activity_text(bytes: &[u8; 16]) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (place, from) in ORDER.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = HEX[usize::from(bytes[from] >> 4)];
        text[at + 1] = HEX[usize::from(bytes[from] & 15)];
        at += 2;
    }
    text
}
