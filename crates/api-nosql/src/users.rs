//! Users of a database: names that permissions are given to.

use engine::RequestContext;
use engine::catalog::{NewSmall, SmallKind, SmallOwner, SmallResource};
use model::{DatabaseRid, ErrorKind, Object, Value};

use crate::address::{DatabaseAddress, UserAddress};
use crate::errors::ApiError;
use crate::reply::Reply;
use crate::request::Request;
use crate::small::{self, Family, Place};
use crate::{Service, resolve, resource};

struct Users;

impl Family for Users {
    const KIND: SmallKind = SmallKind::User;
    const SEGMENT: &'static str = "users";
    const FEED: &'static str = "Users";
    const IS_DELETABLE: bool = true;

    fn parse(&self, body: &Object, _: Option<&SmallResource>) -> Result<NewSmall, ApiError> {
        let id = resource::id_of(body)?.to_owned();
        Ok(NewSmall { id, alias: None, body: Value::from(Object::default()) })
    }

    fn complete(&self, _: &SmallResource, out: &mut Object) {
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
    let catalog = service.engine().catalog();
    let database = resolve::database(&catalog, address, ErrorKind::OwnerNotFound)?;
    small::feed(service, ctx, &in_database(database.rid), &Users, request).await
}

/// `/dbs/{db}/users/{user}`
pub(crate) async fn user(
    service: &Service,
    ctx: &mut RequestContext,
    address: &UserAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    let user = resolve::user(&service.engine().catalog(), address, ErrorKind::NotFound)?;
    let place = in_database(user.key.owner.database());
    small::one(service, ctx, &place, &Users, &user, request).await
}

/// Where what belongs to a database itself is.
pub(crate) fn in_database(rid: DatabaseRid) -> Place {
    let owner_rid = rid.to_string();
    let owner_link = format!("dbs/{owner_rid}/");
    Place { owner: SmallOwner::Database(rid), owner_rid, owner_link }
}
