//! Databases: create, read, delete, list, query.

use bytes::Bytes;
use engine::catalog::{NewSubject, resource_etag};
use engine::{Database, RequestContext};
use model::{ErrorKind, Object, Value};

use crate::address::DatabaseAddress;
use crate::errors::ApiError;
use crate::reply::Reply;
use crate::request::{Request, Verb};
use crate::resource_query::{Resource, ResourceFeed};
use crate::{Service, offers, resolve, resource};

/// `/dbs`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Post if !request.is_query() => create(service, ctx, request).await,
        Verb::Get | Verb::Post => {
            ctx.served.charge += resource::LIST_CHARGE;
            let catalog = service.engine().catalog();
            let resources = catalog.databases().map(|database| Resource {
                position: u64::from(database.rid.0),
                value: Box::new(|| to_value(database)),
                alias: None,
            });
            let feed = ResourceFeed { parent_rid: String::new(), key: "Databases", resources };
            feed.answer(service, request).await
        }
        // Clients in Direct mode ask for it to learn how far the account's resources are.
        Verb::Head => {
            ctx.served.charge += resource::READ_CHARGE;
            Ok(Reply::ok(Bytes::new()))
        }
        Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => Err(ApiError::method_not_allowed()),
    }
}

/// `/dbs/{db}`
pub(crate) async fn database(
    service: &Service,
    ctx: &mut RequestContext,
    address: &DatabaseAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    let database = resolve::database(&service.engine().catalog(), address, ErrorKind::NotFound)?;
    match request.verb {
        Verb::Get => {
            ctx.served.charge += resource::READ_CHARGE;
            resource::read_reply(request, &to_value(&database), etag(&database))
        }
        Verb::Delete => {
            ctx.served.charge += resource::WRITE_CHARGE;
            service.engine().delete_database(ctx, database.rid, request.if_match()).await?;
            Ok(Reply::no_content())
        }
        Verb::Head | Verb::Post | Verb::Put | Verb::Patch | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

async fn create(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.served.charge += resource::WRITE_CHARGE;
    let body = resource::parse_body(request)?;
    let id = resource::id_of(&body)?;
    let engine = service.engine();
    let throughput = offers::requested_throughput(engine, NewSubject::Database, request)?;
    let database = engine.create_database(ctx, id, throughput).await?;
    Ok(Reply::created(resource::body(&to_value(&database))).etag(etag(&database)))
}

fn etag(database: &Database) -> String {
    resource_etag(database.rid.0, database.version)
}

fn to_value(database: &Database) -> Value {
    let rid = database.rid.to_string();
    let mut out = Object::with_capacity(8);
    out.insert("id", database.id.as_str().into());
    out.insert("_self", format!("dbs/{rid}/").into());
    out.insert("_rid", rid.into());
    out.insert("_etag", etag(database).into());
    out.insert("_colls", "colls/".into());
    out.insert("_users", "users/".into());
    out.insert("_ts", resource::int(database.ts));
    out.into()
}
