//! Resources and operations by their numbers, and the requests of HTTP that they stand for.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fields::Fields;
use super::request_tokens::Name;
use crate::address::Segments;
use crate::errors::ApiError;
use crate::headers::{HeaderName, Headers};

/// An operation and the verb that HTTP has for it, which clients sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub number: u16,
    pub verb: &'static str,
    /// Whether it addresses a feed: its address ends with a type instead of a name.
    pub is_feed: bool,
    /// Whether `Match` is `if-none-match`.
    pub is_read: bool,
    /// A flag of HTTP that tells this operation from others with the same verb.
    pub flag: Option<HeaderName>,
    pub content_type: Option<&'static str>,
}

const QUERY_TYPE: Option<&str> = Some("application/query+json");

#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    operation(0x01, "POST", true, None, None),                            // Create
    operation(0x02, "PATCH", false, None, None),                          // Patch
    operation(0x03, "GET", false, None, None),                            // Read
    operation(0x04, "GET", true, None, None),                             // ReadFeed
    operation(0x05, "DELETE", false, None, None),                         // Delete
    operation(0x06, "PUT", false, None, None),                            // Replace
    operation(EXECUTE, "POST", false, None, None),                        // ExecuteJavaScript
    operation(0x09, "POST", true, Some(HeaderName::IsQuery), QUERY_TYPE), // SQLQuery
    operation(0x0F, "POST", true, Some(HeaderName::IsQuery), QUERY_TYPE), // Query
    operation(0x11, "HEAD", false, None, None),                           // Head
    operation(0x12, "HEAD", true, None, None),                            // HeadFeed
    operation(0x13, "POST", true, Some(HeaderName::IsUpsert), None),      // Upsert
    operation(0x25, "POST", true, Some(HeaderName::IsBatch), None),       // Batch
];

const EXECUTE: u16 = 0x08;

const fn operation(
    number: u16,
    verb: &'static str,
    is_feed: bool,
    flag: Option<HeaderName>,
    content_type: Option<&'static str>,
) -> Operation {
    let is_read = matches!(verb.as_bytes(), b"GET" | b"HEAD");
    Operation { number, verb, is_feed, is_read, flag, content_type }
}

/// A resource: its type in addresses, the type that it is in, and its name.
struct Resource {
    number: u16,
    kind: &'static str,
    parent: Parent,
    name: Name,
}

#[derive(Clone, Copy)]
enum Parent {
    Account,
    Database,
    Container,
    User,
}

#[rustfmt::skip]
const RESOURCES: &[Resource] = &[
    resource(0x01, "dbs", Parent::Account, Name::Database),
    resource(0x02, "colls", Parent::Database, Name::Collection),
    resource(0x03, "docs", Parent::Container, Name::Document),
    resource(0x05, "users", Parent::Database, Name::User),
    resource(0x06, "permissions", Parent::User, Name::Permission),
    resource(0x07, "sprocs", Parent::Container, Name::StoredProcedure),
    resource(0x08, "conflicts", Parent::Container, Name::Conflict),
    resource(0x09, "triggers", Parent::Container, Name::Trigger),
    resource(0x0A, "udfs", Parent::Container, Name::UserDefinedFunction),
    resource(0x16, "pkranges", Parent::Container, Name::PartitionKeyRange),
    resource(0x23, "clientencryptionkeys", Parent::Database, Name::ClientEncryptionKey),
];

/// Offers have no names; a single one is addressed by its resource id.
const OFFER: u16 = 0x0F;
const PROCEDURE: u16 = 0x07;

const fn resource(number: u16, kind: &'static str, parent: Parent, name: Name) -> Resource {
    Resource { number, kind, parent, name }
}

/// The operation with this number.
pub(super) fn find(number: u16) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.number == number)
}

impl Operation {
    /// Adds the headers by which HTTP tells the operation from others.
    pub(super) fn add_headers(&self, headers: &mut Headers) {
        if let Some(flag) = self.flag {
            headers.set(flag, b"True");
        }
        if let Some(content_type) = self.content_type {
            headers.set(HeaderName::ContentType, content_type.as_bytes());
        }
    }

    /// The address of the request, in the segments that HTTP has for it.
    pub(super) fn segments<'f>(
        &self,
        resource: u16,
        fields: &Fields,
        head: &'f [u8],
    ) -> Result<Segments<'f>, ApiError> {
        if self.number == EXECUTE && resource != PROCEDURE {
            return Err(unsupported());
        }
        let rid = fields.resource_id.of(head);
        if resource == OFFER {
            return offer(self.is_feed, rid);
        }
        let resource = RESOURCES.iter().find(|known| known.number == resource);
        let resource = resource.ok_or_else(unsupported)?;
        let has_database = fields.name(head, Name::Database).is_some();
        match rid.filter(|_| !has_database) {
            Some(rid) => by_rid(resource, rid, self.is_feed),
            None => by_name(resource, fields, head, self.is_feed),
        }
    }
}

fn by_name<'f>(
    resource: &Resource,
    fields: &Fields,
    head: &'f [u8],
    is_feed: bool,
) -> Result<Segments<'f>, ApiError> {
    let mut out = Segments::new();
    let mut push = |kind: &'static str, name: Name| match fields.name(head, name) {
        Some(text) => {
            out.push(Cow::Borrowed(kind));
            out.push(Cow::Borrowed(text));
            Ok(())
        }
        None => Err(ApiError::bad_request(format!("The request names nothing of type '{kind}'."))),
    };
    match resource.parent {
        Parent::Account => {}
        Parent::Database => push("dbs", Name::Database)?,
        Parent::Container => {
            push("dbs", Name::Database)?;
            push("colls", Name::Collection)?;
        }
        Parent::User => {
            push("dbs", Name::Database)?;
            push("users", Name::User)?;
        }
    }
    match is_feed {
        true => out.push(Cow::Borrowed(resource.kind)),
        false => push(resource.kind, resource.name)?,
    }
    Ok(out)
}

/// Bytes of the resource ids of a database; of a container or user; and of what is in them.
const RID_BYTES: [usize; 3] = [4, 8, 16];

/// The address of a resource by its resource id, or of a feed by that of its parent.
fn by_rid<'f>(resource: &Resource, rid: &[u8], is_feed: bool) -> Result<Segments<'f>, ApiError> {
    let path: &[&'static str] = match resource.parent {
        Parent::Account => &[],
        Parent::Database => &["dbs"],
        Parent::Container => &["dbs", "colls"],
        Parent::User => &["dbs", "users"],
    };
    let depth = path.len() + usize::from(!is_feed);
    if depth == 0 || rid.len() != RID_BYTES[depth - 1] {
        return Err(ApiError::bad_request("The resource id of the request has a wrong length."));
    }
    let mut out = Segments::new();
    for (kind, length) in path.iter().chain([&resource.kind]).zip(RID_BYTES) {
        out.push(Cow::Borrowed(*kind));
        if let Some(rid) = rid.get(..length) {
            out.push(Cow::Owned(rid_text(rid)));
        }
    }
    Ok(out)
}

fn offer<'f>(is_feed: bool, rid: Option<&[u8]>) -> Result<Segments<'f>, ApiError> {
    let mut out = Segments::new();
    out.push(Cow::Borrowed("offers"));
    if !is_feed {
        let rid = rid.ok_or_else(|| ApiError::bad_request("The request names no offer."))?;
        out.push(Cow::Owned(rid_text(rid)));
    }
    Ok(out)
}

/// A resource id as text.
fn rid_text(rid: &[u8]) -> String {
    STANDARD.encode(rid).replace('/', "-")
}

/// 400 for a pair of resource and operation that the protocol does not have.
pub(super) fn unsupported() -> ApiError {
    ApiError::bad_request("The operation is not supported on this type of resource.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_in_order() {
        assert!(OPERATIONS.is_sorted_by(|a, b| a.number < b.number));
        assert!(RESOURCES.is_sorted_by(|a, b| a.number < b.number));
        assert!(RESOURCES.iter().all(|resource| resource.number != OFFER));
    }

    #[test]
    fn resource_ids_become_addresses() {
        let resource = |kind: &str| RESOURCES.iter().find(|known| known.kind == kind).unwrap();
        let path = |kind: &str, bytes: usize, is_feed: bool| {
            by_rid(resource(kind), &[0xFF; 16][..bytes], is_feed).map(|path| path.join("/")).ok()
        };
        assert_eq!(path("dbs", 4, false).as_deref(), Some("dbs/-----w=="));
        assert_eq!(path("colls", 4, true).as_deref(), Some("dbs/-----w==/colls"));
        let item = "dbs/-----w==/colls/----------8=/docs/---------------------w==";
        assert_eq!(path("docs", 16, false).as_deref(), Some(item));
        assert_eq!(path("docs", 8, true).as_deref(), Some("dbs/-----w==/colls/----------8=/docs"));
        for (kind, bytes, is_feed) in [("dbs", 4, true), ("docs", 8, false), ("docs", 15, false)] {
            assert_eq!(path(kind, bytes, is_feed), None, "{kind} {bytes}");
        }
    }
}
