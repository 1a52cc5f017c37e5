//! Users of a database: names that hold permissions.

use engine::RequestContext;
use engine::catalog::{NewOpaque, OpaqueKind, OpaqueResource};
use model::{ErrorKind, Object, Value};

use crate::address::{DatabaseAddress, UserAddress};
use crate::errors::ApiError;
use crate::opaque::{self, Family, ParentResource};
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, resolve, resource};

struct Users;

impl Family for Users {
    const KIND: OpaqueKind = OpaqueKind::User;
    const SEGMENT: &'static str = "users";
    const FEED: &'static str = "Users";
    const IS_DELETABLE: bool = true;

    fn parse(&self, body: &Object, _: Option<&OpaqueResource>) -> Result<NewOpaque, ApiError> {
        let id = resource::id_of(body)?.to_owned();
        Ok(NewOpaque { id, alias: None, body: Value::from(Object::default()) })
    }

    fn complete(&self, _: &OpaqueResource, out: &mut Object) {
        out.insert("_permissions", "permissions/".into());
    }
}

/// `/dbs/{db}/users`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    address: &DatabaseAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    opaque::feed_of_database(service, ctx, address, &Users, request).await
}

/// `/dbs/{db}/users/{user}`
pub(crate) async fn user(
    service: &Service,
    ctx: &mut RequestContext,
    address: &UserAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    let user = resolve::user(&service.engine().catalog(), address, ErrorKind::NotFound)?;
    let parent = ParentResource::in_database(user.key.owner.database());
    opaque::one(service, ctx, &parent, &Users, &user, request).await
}
