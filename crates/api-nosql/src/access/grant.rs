//! What the holder of a resource token may do.

use std::sync::Arc;

use engine::catalog::{OpaqueId, ScriptKind, ScriptRid};
use engine::{Catalog, Container, RequestContext};
use model::{ContainerRid, DocumentRid, ErrorKind, PartitionKey, Timestamp, Value, epk};

use super::insufficient;
use super::token::TokenKey;
use crate::address::Target;
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::operation::Operation;
use crate::permissions::{Child, Permission};
use crate::request::Request;
use crate::{
    Service, batch_operations, items, partition_key_header, payload, resolve, scope, scripts,
};

/// A permission that the caller has proved to hold.
#[derive(Debug)]
pub(crate) struct Grant {
    permission: OpaqueId,
    container: Option<ContainerRid>,
    child: Option<(Child, String)>,
    /// Whether the permission names its resource by resource ids.
    is_by_rid: bool,
    key: Option<PartitionKey>,
    /// The key in the form that requests send in the header.
    key_header: Option<String>,
    may_write: bool,
}

impl Grant {
    /// The grant of a token.
    pub(crate) fn of(
        tokens: &TokenKey,
        token: &str,
        now: Timestamp,
        catalog: &Catalog,
    ) -> Result<Self, ApiError> {
        let claims = tokens.open(token, now)?;
        let permission = catalog
            .opaque_by_number(claims.permission)
            .filter(|permission| permission.version == claims.version)
            .and_then(|permission| Permission::of(permission, catalog))
            .ok_or_else(|| {
                ApiError::new(
                    ErrorKind::Unauthorized,
                    "The input authorization token can't serve the request. The permission behind \
                     the resource token was changed or deleted; read it again for a new token.",
                )
            })?;
        let Permission { container, child, key, key_text, may_write } = permission;
        let is_by_rid = resolve::has_rids(catalog, &container.database);
        let (permission, container) = (claims.permission, claims.container);
        let key_header = key_text;
        Ok(Self { permission, container, child, is_by_rid, key, key_header, may_write })
    }

    /// The resource id of the permission.
    pub(super) fn rid(&self) -> String {
        self.permission.rid()
    }

    /// Whether it covers this container or a resource in it.
    pub(super) fn is_about(&self, container: &Container) -> bool {
        self.container == Some(container.rid)
    }

    /// Refuses operations that it does not allow in its container. All holders may read the
    /// container's metadata, because clients can't address its items without it.
    pub(super) async fn check(
        &self,
        service: &Service,
        ctx: &RequestContext,
        request: &Request,
        operation: Operation,
        container: &Arc<Container>,
    ) -> Result<(), ApiError> {
        let is_read = request.is_read();
        let is_whole = self.child.is_none() && self.key.is_none();
        let is_granted = match &request.target {
            Target::Container(_) => is_read || (is_whole && self.may_write),
            Target::PartitionKeyRanges(_) | Target::Addresses(..) => is_read,
            _ if !is_read && !self.may_write => false,
            Target::Items(_) | Target::PartitionKeyDelete(_) => {
                self.child.is_none() && self.has_keys_of(container, request, operation)
            }
            Target::Item(_, id) => {
                self.has_keys_of(container, request, operation)
                    && self.has_item(service, ctx, request, container, id).await?
                    && self.keeps_item((service, ctx), request, operation, container, id).await?
            }
            // A holder of one key may run procedures within it, but not read the scripts.
            Target::Script(_, kind, id) => {
                let is_within = match operation == Operation::ExecuteProcedure {
                    true => self.has_keys_of(container, request, operation),
                    false => self.child.is_some() || self.key.is_none(),
                };
                is_within && self.has_script(service, request, container, (*kind, id))
            }
            Target::Conflicts(_) | Target::Conflict(_) | Target::Scripts(..) => is_whole,
            Target::Account
            | Target::MasterAddresses
            | Target::Databases
            | Target::Database(_)
            | Target::Containers(_)
            | Target::Users(_)
            | Target::User(_)
            | Target::Permissions(_)
            | Target::Permission(..)
            | Target::EncryptionKeys(_)
            | Target::EncryptionKey(..)
            | Target::Offers
            | Target::Offer(_)
            | Target::NotSupported(_) => false,
        };
        if is_granted { Ok(()) } else { Err(insufficient()) }
    }

    /// Some clients read the change feed or query by a range of the hash line, which may hold other
    /// keys too. Adds the granted key to such requests.
    pub(super) fn confine(
        &self,
        request: &mut Request,
        operation: Operation,
        container: &Container,
    ) {
        if self.is_within_key_range(container, request, operation)
            && let Some(header) = &self.key_header
        {
            request.headers.set(HeaderName::PartitionKey, header.as_bytes());
        }
    }

    /// Whether a request names no key, but a range of the hash line within that of the granted key.
    fn is_within_key_range(
        &self,
        container: &Container,
        request: &Request,
        operation: Operation,
    ) -> bool {
        let is_feed =
            matches!(operation, Operation::ListItems | Operation::ChangeFeed | Operation::Query);
        let (Some(granted), Some(_), true) = (&self.key, &self.key_header, is_feed) else {
            return false;
        };
        if request.headers.has(HeaderName::PartitionKey) {
            return false;
        }
        let Ok(Some(requested)) = scope::epk_bounds(request) else { return false };
        let granted_range = epk::key_range(&container.spec.partition_key, granted);
        granted_range.min <= requested.min && requested.max <= granted_range.max
    }

    /// Whether all that a request touches lies within the granted key.
    fn has_keys_of(&self, container: &Container, request: &Request, operation: Operation) -> bool {
        let Some(granted) = &self.key else { return true };
        // A query plan reveals nothing about data.
        if operation == Operation::QueryPlan {
            return true;
        }
        let given = partition_key_header::scope_key(container, request).ok().flatten();
        let is_given = given.is_some_and(|key| begins_with(&key, granted));
        if operation == Operation::Bulk {
            return has_keys_of_bulk(container, request, granted, is_given);
        }
        is_given || self.is_within_key_range(container, request, operation)
    }

    /// Whether the grant covers the item: it names this item, or all items of the container.
    async fn has_item(
        &self,
        service: &Service,
        ctx: &RequestContext,
        request: &Request,
        container: &Arc<Container>,
        id: &str,
    ) -> Result<bool, ApiError> {
        let Some((kind, granted)) = &self.child else { return Ok(true) };
        if *kind != Child::Item {
            return Ok(false);
        }
        let is_by_rid = resolve::is_by_rid(&service.engine().catalog(), request);
        let granted_rid = self.item_rid(container, granted);
        match (granted_rid, is_by_rid) {
            (None, false) => Ok(granted == id),
            (Some(rid), true) => Ok(DocumentRid::parse(id) == Some(rid)),
            // The grant and the request name the item differently, one by id and one by resource
            // id: only the stored item has both.
            (granted_rid, _) => {
                let ctx = &mut ctx.part();
                let key = partition_key_header::required_item_key(container, request)?;
                let id = items::name_of(service, ctx, container, &key, id, request).await?;
                let Some(rid) = granted_rid else { return Ok(*granted == id) };
                let found = service.engine().read_item(ctx, container, &key, id.as_bytes(), None);
                match found {
                    Ok(item) => Ok(item.rid() == rid),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Whether the granted item keeps its id after the write: a body with another id would rename
    /// it, and the outcome would reveal which other ids exist.
    async fn keeps_item(
        &self,
        (service, ctx): (&Service, &RequestContext),
        request: &Request,
        operation: Operation,
        container: &Arc<Container>,
        id: &str,
    ) -> Result<bool, ApiError> {
        if self.child.is_none() || operation != Operation::ReplaceItem {
            return Ok(true);
        }
        let body = payload::item(&request.body)?;
        let ctx = &mut ctx.part();
        let key = items::key_of_replace(container, request, &body)?;
        let id = items::name_of(service, ctx, container, &key, id, request).await?;
        // A body without a valid id is refused when it is stored.
        let new_id = body.value().field("id").and_then(Value::as_str);
        Ok(new_id.is_none_or(|new_id| new_id == id))
    }

    /// The resource id of the granted item, if the permission names it by resource id.
    fn item_rid(&self, container: &Container, id: &str) -> Option<DocumentRid> {
        let rid = DocumentRid::parse(id).filter(|_| self.is_by_rid)?;
        (rid.container == container.rid).then_some(rid)
    }

    /// Whether the grant covers the script: it names this script, or all scripts of the container.
    fn has_script(
        &self,
        service: &Service,
        request: &Request,
        container: &Container,
        (kind, id): (ScriptKind, &str),
    ) -> bool {
        let Some((child, granted)) = &self.child else { return true };
        if *child != Child::Script(kind) {
            return false;
        }
        let catalog = service.engine().catalog();
        let granted = match self.is_by_rid {
            true => ScriptRid::parse(granted).and_then(|rid| catalog.script_by_rid(rid)),
            false => catalog.script(container.rid, kind, granted),
        };
        let asked = scripts::find(service, container, kind, id, request);
        granted.is_some_and(|granted| asked.is_ok_and(|asked| asked.rid == granted.rid))
    }
}

/// Whether every operation has a granted key: its own, or that of the request.
fn has_keys_of_bulk(
    container: &Container,
    request: &Request,
    granted: &PartitionKey,
    is_given: bool,
) -> bool {
    let definition = &container.spec.partition_key;
    let is_granted = |text: &[u8]| {
        let key = partition_key_header::whole(definition, text);
        key.is_ok_and(|key| begins_with(&key, granted))
    };
    let Ok(operations) = batch_operations::parse(&request.body) else { return false };
    operations.iter().all(|operation| match &operation.partition_key {
        Some(own) => is_granted(own.as_bytes()),
        None => is_given,
    })
}

/// Whether a key is `granted`, or a longer one that begins with it.
fn begins_with(key: &PartitionKey, granted: &PartitionKey) -> bool {
    key.0.len() >= granted.0.len() && key.0.iter().zip(&granted.0).all(|(a, b)| a == b)
}
