//! What users, permissions and client encryption keys have in common: they are created, read,
//! replaced, listed and queried in the same way and differ in their bodies.

use std::sync::Arc;

use engine::RequestContext;
use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner, OpaqueResource};
use model::{DatabaseRid, ErrorKind, Object, Value};

use crate::address::DatabaseAddress;
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::{Reply, Status};
use crate::request::{Request, Verb};
use crate::resource_query::{Resource, ResourceFeed};
use crate::{Service, resolve, resource};

/// One kind of opaque resource.
pub(crate) trait Family: Sync {
    /// Its kind in the catalog.
    const KIND: OpaqueKind;
    /// Its segment in addresses.
    const SEGMENT: &'static str;
    /// Name of the array in a feed's body.
    const FEED: &'static str;
    /// Whether resources of this kind can be deleted.
    const IS_DELETABLE: bool;

    /// Parses and checks the body that a client sends. `old` is the resource it replaces.
    fn parse(&self, body: &Object, old: Option<&OpaqueResource>) -> Result<NewOpaque, ApiError>;

    /// Adds the members that are not stored but computed for the response.
    fn complete(&self, resource: &OpaqueResource, out: &mut Object);
}

/// The parent of the resources of a feed.
pub(crate) struct ParentResource {
    pub owner: OpaqueOwner,
    /// Resource id of the owner.
    pub owner_rid: String,
    /// `_self` of the owner.
    pub owner_link: String,
}

impl ParentResource {
    /// The parent of resources that belong directly to a database.
    pub(crate) fn in_database(rid: DatabaseRid) -> Self {
        let owner_rid = rid.to_string();
        let owner_link = format!("dbs/{owner_rid}/");
        Self { owner: OpaqueOwner::Database(rid), owner_rid, owner_link }
    }
}

/// The feed of resources that belong directly to a database.
pub(crate) async fn feed_of_database<F: Family>(
    service: &Service,
    ctx: &mut RequestContext,
    address: &DatabaseAddress,
    family: &F,
    request: &Request,
) -> Result<Reply, ApiError> {
    let catalog = service.engine().catalog();
    let database = resolve::database(&catalog, address, ErrorKind::OwnerNotFound)?;
    feed(service, ctx, &ParentResource::in_database(database.rid), family, request).await
}

/// The feed: create, upsert, list, query.
pub(crate) async fn feed<F: Family>(
    service: &Service,
    ctx: &mut RequestContext,
    parent: &ParentResource,
    family: &F,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Post if !request.is_query() => {
            ctx.served.charge += resource::WRITE_CHARGE;
            let spec = family.parse(&resource::parse_body(request)?, None)?;
            let engine = service.engine();
            let (written, is_new) = match request.flag(HeaderName::IsUpsert) {
                true => {
                    engine
                        .upsert_opaque(ctx, parent.owner, F::KIND, spec, request.if_match())
                        .await?
                }
                false => (engine.create_opaque(ctx, parent.owner, F::KIND, spec).await?, true),
            };
            let status = if is_new { Status::CREATED } else { Status::OK };
            Ok(written_reply(status, parent, family, &written))
        }
        Verb::Get | Verb::Post => {
            ctx.served.charge += resource::LIST_CHARGE;
            let catalog = service.engine().catalog();
            let resources = catalog.opaque_of(parent.owner, F::KIND).map(|found| Resource {
                position: u64::from(found.key.number),
                value: Box::new(|| to_value(parent, family, found)),
                alias: None,
            });
            let parent_rid = parent.owner_rid.clone();
            ResourceFeed { parent_rid, key: F::FEED, resources }.answer(service, request).await
        }
        Verb::Head | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

/// One resource: read, replace, delete.
pub(crate) async fn one<F: Family>(
    service: &Service,
    ctx: &mut RequestContext,
    parent: &ParentResource,
    family: &F,
    found: &Arc<OpaqueResource>,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Get => {
            ctx.served.charge += resource::READ_CHARGE;
            resource::read_reply(request, &to_value(parent, family, found), found.etag())
        }
        Verb::Put => {
            ctx.served.charge += resource::WRITE_CHARGE;
            let spec = family.parse(&resource::parse_body(request)?, Some(found))?;
            let engine = service.engine();
            let replaced = engine.replace_opaque(ctx, found.key, spec, request.if_match()).await?;
            Ok(written_reply(Status::OK, parent, family, &replaced))
        }
        Verb::Delete if F::IS_DELETABLE => {
            ctx.served.charge += resource::WRITE_CHARGE;
            service.engine().delete_opaque(ctx, found.key, request.if_match()).await?;
            Ok(Reply::no_content())
        }
        Verb::Head | Verb::Post | Verb::Patch | Verb::Delete | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

fn written_reply<F: Family>(
    status: Status,
    parent: &ParentResource,
    family: &F,
    written: &OpaqueResource,
) -> Reply {
    let value = to_value(parent, family, written);
    Reply::new(status, resource::body(&value)).etag(written.etag())
}

fn to_value<F: Family>(parent: &ParentResource, family: &F, found: &OpaqueResource) -> Value {
    let rid = found.key.rid();
    let mut out = Object::with_capacity(12);
    out.insert("id", found.spec.id.as_str().into());
    if let Some(body) = found.spec.body.as_object() {
        for (name, value) in body.iter() {
            out.insert(name, value.clone());
        }
    }
    out.insert("_self", format!("{}{}/{rid}/", parent.owner_link, F::SEGMENT).into());
    out.insert("_rid", rid.into());
    out.insert("_ts", resource::int(found.ts));
    out.insert("_etag", found.etag().into());
    family.complete(found, &mut out);
    out.into()
}
