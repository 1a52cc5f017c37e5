//! Client encryption keys: keys that clients encrypt properties with, wrapped by a key that only
//! the clients have. For the server they are texts that containers refer to by name.

use engine::RequestContext;
use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner, OpaqueResource};
use model::{ErrorKind, Object, Value};

use crate::address::DatabaseAddress;
use crate::errors::ApiError;
use crate::opaque::{self, Family, ParentResource};
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, resolve, resource};

const REQUIRED: [&str; 3] = ["encryptionAlgorithm", "wrappedDataEncryptionKey", "keyWrapMetadata"];

/// When a key was created, in seconds: a replaced key keeps it in its body.
const CREATED: &str = "_cts";

fn created(key: &OpaqueResource) -> Value {
    key.spec.body.field(CREATED).cloned().unwrap_or_else(|| resource::int(key.ts))
}

struct EncryptionKeys;

impl Family for EncryptionKeys {
    const KIND: OpaqueKind = OpaqueKind::EncryptionKey;
    const SEGMENT: &'static str = "clientencryptionkeys";
    const FEED: &'static str = "ClientEncryptionKeys";
    /// Deleting a key would lose the data that was encrypted with it.
    const IS_DELETABLE: bool = false;

    fn parse(&self, body: &Object, old: Option<&OpaqueResource>) -> Result<NewOpaque, ApiError> {
        let id = resource::id_of(body)?;
        if old.is_some_and(|old| old.spec.id != id) {
            return Err(ApiError::bad_request_errors(
                "Replacing the id of a client encryption key is not allowed.",
            ));
        }
        let missing: Vec<_> = REQUIRED
            .into_iter()
            .filter(|name| matches!(body.get(name), None | Some(Value::Null)))
            .collect();
        if !missing.is_empty() {
            return Err(ApiError::missing_properties(&missing));
        }
        let mut kept = Object::with_capacity(REQUIRED.len() + 1);
        for name in REQUIRED {
            let value = body.get(name).filter(|value| match name {
                "keyWrapMetadata" => value.as_object().is_some(),
                _ => value.as_str().is_some_and(|text| !text.is_empty()),
            });
            let value = value.ok_or_else(|| {
                ApiError::invalid_input(format!("'{name}' does not have the documented form."))
            })?;
            kept.insert(name, value.clone());
        }
        if let Some(old) = old {
            kept.insert(CREATED, created(old));
        }
        Ok(NewOpaque { id: id.to_owned(), alias: None, body: kept.into() })
    }

    fn complete(&self, key: &OpaqueResource, out: &mut Object) {
        out.insert(CREATED, created(key));
    }
}

/// `/dbs/{db}/clientencryptionkeys`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    address: &DatabaseAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    opaque::feed_of_database(service, ctx, address, &EncryptionKeys, request).await
}

/// `/dbs/{db}/clientencryptionkeys/{key}`
pub(crate) async fn key(
    service: &Service,
    ctx: &mut RequestContext,
    address: &DatabaseAddress,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    let catalog = service.engine().catalog();
    let database = resolve::database(&catalog, address, ErrorKind::OwnerNotFound)?;
    let owner = OpaqueOwner::Database(database.rid);
    let by_rid = resolve::has_rids(&catalog, address);
    let found = resolve::opaque(&catalog, owner, OpaqueKind::EncryptionKey, id, by_rid)
        .ok_or_else(|| ApiError::missing(ErrorKind::NotFound))?;
    let parent = ParentResource::in_database(database.rid);
    opaque::one(service, ctx, &parent, &EncryptionKeys, &found, request).await
}
