//! Resolves addresses to resources of the catalog.

use std::sync::Arc;

use engine::catalog::{OpaqueId, OpaqueKind, OpaqueOwner, OpaqueResource};
use engine::{Catalog, Container, Database};
use model::{ContainerRid, DatabaseRid, EncryptionKeyRid, ErrorKind, PermissionRid, UserRid};

use crate::address::{ContainerAddress, DatabaseAddress, Target, UserAddress};
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::replica;
use crate::request::Request;

/// The database that an address names. If it does not exist, the error is that of a missing
/// resource or of a missing owner.
pub(crate) fn database(
    catalog: &Catalog,
    address: &DatabaseAddress,
    missing: ErrorKind,
) -> Result<Arc<Database>, ApiError> {
    let by_name = catalog.database(&address.database);
    let found = by_name.or_else(|| {
        let rid = address.by_rid.then(|| DatabaseRid::parse(&address.database)).flatten()?;
        catalog.database_by_rid(rid)
    });
    found.cloned().ok_or_else(|| ApiError::missing(missing))
}

/// The container that the request addresses or works in, checked against the container that the
/// caller meant.
pub(crate) fn container_of(
    catalog: &Catalog,
    request: &Request,
) -> Result<Option<Arc<Container>>, ApiError> {
    let Some(address) = request.target.container() else { return Ok(None) };
    let missing = if matches!(request.target, Target::Container(_)) {
        ErrorKind::NotFound
    } else {
        ErrorKind::OwnerNotFound
    };
    let container = match container(catalog, address, missing) {
        // The client has a container that is gone: it learns that from reading it again.
        Err(_) if request.direct.is_some_and(|direct| direct.container.is_some()) => {
            return Err(ApiError::stale_name());
        }
        found => found?,
    };
    check_intended(&container, request)?;
    replica::check(&container, request)?;
    Ok(Some(container))
}

/// The container that an address names, if it exists.
pub(crate) fn find_container(
    catalog: &Catalog,
    address: &ContainerAddress,
) -> Option<Arc<Container>> {
    container(catalog, address, ErrorKind::NotFound).ok()
}

/// The user that an address names. If it does not exist, the error is that of a missing resource or
/// of a missing owner.
pub(crate) fn user(
    catalog: &Catalog,
    address: &UserAddress,
    missing: ErrorKind,
) -> Result<Arc<OpaqueResource>, ApiError> {
    let database = database(catalog, &address.database, ErrorKind::OwnerNotFound)?;
    let owner = OpaqueOwner::Database(database.rid);
    let by_rid = has_rids(catalog, &address.database);
    opaque(catalog, owner, OpaqueKind::User, &address.user, by_rid)
        .ok_or_else(|| ApiError::missing(missing))
}

/// A user, permission or client encryption key by the id in its address.
pub(crate) fn opaque(
    catalog: &Catalog,
    owner: OpaqueOwner,
    kind: OpaqueKind,
    id: &str,
    by_rid: bool,
) -> Option<Arc<OpaqueResource>> {
    if !by_rid {
        return catalog.opaque(owner, kind, id).cloned();
    }
    let number = match (kind, owner) {
        (OpaqueKind::User, OpaqueOwner::Database(database)) => {
            UserRid::parse(id).filter(|rid| rid.database == database)?.number
        }
        (OpaqueKind::EncryptionKey, OpaqueOwner::Database(database)) => {
            EncryptionKeyRid::parse(id).filter(|rid| rid.database == database)?.number
        }
        (OpaqueKind::Permission, OpaqueOwner::User(user)) => {
            let number = PermissionRid::parse(id).filter(|rid| rid.user == user)?.number;
            u32::try_from(number).ok()?
        }
        (OpaqueKind::Setting, _)
        | (OpaqueKind::User | OpaqueKind::EncryptionKey, OpaqueOwner::User(_))
        | (OpaqueKind::Permission, OpaqueOwner::Database(_)) => return None,
    };
    catalog.opaque_by_number(OpaqueId { owner, kind, number }).cloned()
}

/// Whether the ids of an address are resource ids. A database whose name has that form is found by
/// name first.
pub(crate) fn has_rids(catalog: &Catalog, address: &DatabaseAddress) -> bool {
    address.by_rid && catalog.database(&address.database).is_none()
}

fn container(
    catalog: &Catalog,
    address: &ContainerAddress,
    missing: ErrorKind,
) -> Result<Arc<Container>, ApiError> {
    let database_address = &address.database;
    let found = match catalog.database(&database_address.database) {
        Some(database) => catalog.container(database.rid, &address.container),
        None if database_address.by_rid => {
            let database = database(catalog, database_address, ErrorKind::OwnerNotFound)?;
            let rid = ContainerRid::parse(&address.container)
                .filter(|rid| rid.database == database.rid)
                .ok_or_else(|| not_a_rid(&address.container))?;
            catalog.container_by_rid(rid)
        }
        None => return Err(ApiError::missing(ErrorKind::OwnerNotFound)),
    };
    found.cloned().ok_or_else(|| ApiError::missing(missing))
}

fn check_intended(container: &Container, request: &Request) -> Result<(), ApiError> {
    let Some(intended) = request.header_lossy(HeaderName::IntendedCollectionRid) else {
        return Ok(());
    };
    // Java clients leave it empty where they address the container by its resource id.
    let intended = intended.trim();
    match intended.is_empty() || ContainerRid::parse(intended) == Some(container.rid) {
        true => Ok(()),
        false => Err(engine::Error::ContainerRecreated.into()),
    }
}

/// Whether the ids of the request's address are resource ids. A database whose name has the form of
/// a resource id is found by name first.
pub(crate) fn is_by_rid(catalog: &Catalog, request: &Request) -> bool {
    let database = request.target.container().map(|address| &address.database);
    database.is_some_and(|address| has_rids(catalog, address))
}

/// 400 for an invalid resource id in an address by resource ids.
pub(crate) fn not_a_rid(text: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Failed to parse the value '{text}' as ResourceId. An address that begins with a resource \
         id must have resource ids throughout."
    ))
}
