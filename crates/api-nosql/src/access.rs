//! Authorization: the only module that decides whether an authenticated request may continue.
//!
//! Keys of the account may do everything, or read everything but permissions. Principals of the
//! directory work with data and read the metadata. Holders of a resource token may do what one
//! permission grants, and nothing else.

mod grant;
mod token;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use account::{Bearer, Caller, Principal};
use engine::{Catalog, Container, RequestContext};
use model::ErrorKind;
use tracing::warn;

use crate::address::Target;
use crate::errors::ApiError;
use crate::operation::Operation;
use crate::request::{Request, Verb};
use crate::{Service, resolve};

pub(crate) use grant::Grant;
pub(crate) use token::{PURPOSE as TOKEN_PURPOSE, TokenKey};

/// An authenticated caller.
#[derive(Debug)]
pub(crate) enum Identity {
    /// A caller with a key of the account.
    Key(Caller),
    /// A caller with a resource token.
    Resource(Box<Grant>),
    /// A principal of the directory.
    Principal(Box<Principal>),
}

impl From<Bearer> for Identity {
    fn from(bearer: Bearer) -> Self {
        match bearer {
            Bearer::Key(caller) => Identity::Key(caller),
            Bearer::Principal(principal) => Identity::Principal(Box::new(principal)),
        }
    }
}

impl Identity {
    /// On whose behalf the engine acts.
    pub(crate) fn caller(&self) -> engine::Caller {
        match self {
            Identity::Key(_) => engine::Caller::KeyHolder,
            Identity::Resource(_) => engine::Caller::Grantee(self.to_string().into()),
            Identity::Principal(principal) => {
                engine::Caller::Principal(principal.id.as_str().into())
            }
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Key(Caller::ReadWrite) => f.write_str("account key"),
            Identity::Key(Caller::ReadOnly) => f.write_str("read-only account key"),
            Identity::Resource(grant) => write!(f, "resource token of permission {}", grant.rid()),
            Identity::Principal(principal) => write!(f, "principal {}", principal.id),
        }
    }
}

/// Refuses requests that the caller may not make, and finds the container of the request. A caller
/// who may not see a container does not learn whether it exists. A grant for one partition key
/// confines the request to that key.
pub(crate) async fn check(
    service: &Service,
    ctx: &RequestContext,
    identity: &Identity,
    request: &mut Request,
    operation: Operation,
) -> Result<Option<Arc<Container>>, ApiError> {
    let catalog = service.engine().catalog();
    match identity {
        Identity::Key(caller) => check_key(*caller, request)?,
        Identity::Principal(principal) => check_principal(principal, request, operation)?,
        Identity::Resource(grant) => {
            // What clients need before they can address anything.
            if is_account_read(request) {
                return Ok(None);
            }
            let container = confine(&catalog, grant, request)?;
            // Boxed, because it is rare and would enlarge the future of every request.
            Box::pin(grant.check(service, ctx, request, operation, &container)).await?;
            grant.confine(request, operation, &container);
        }
    }
    resolve::container_of(&catalog, request)
}

fn check_key(caller: Caller, request: &Request) -> Result<(), ApiError> {
    let is_allowed = match caller {
        Caller::ReadWrite => true,
        // Reading a permission makes a token, which may grant writes.
        Caller::ReadOnly => request.is_read() && !is_about_permissions(&request.target),
    };
    if is_allowed { Ok(()) } else { Err(insufficient()) }
}

fn is_about_permissions(target: &Target) -> bool {
    matches!(target, Target::Permissions(_) | Target::Permission(..))
}

fn is_account_read(request: &Request) -> bool {
    matches!(request.target, Target::Account | Target::MasterAddresses) && request.is_read()
}

/// The container of a request, if the grant covers it.
fn confine(
    catalog: &Catalog,
    grant: &Grant,
    request: &Request,
) -> Result<Arc<Container>, ApiError> {
    let address = request.target.container();
    let found = address.and_then(|address| resolve::find_container(catalog, address));
    found.filter(|container| grant.is_about(container)).ok_or_else(insufficient)
}

/// Principals may use data and metadata; the account's own resources need a key.
fn check_principal(
    principal: &Principal,
    request: &Request,
    operation: Operation,
) -> Result<(), ApiError> {
    let is_data = match &request.target {
        Target::Account
        | Target::MasterAddresses
        | Target::Addresses(..)
        | Target::Databases
        | Target::Database(_)
        | Target::Containers(_)
        | Target::Container(_)
        | Target::PartitionKeyRanges(_)
        | Target::EncryptionKeys(_)
        | Target::EncryptionKey(..) => request.is_read(),
        Target::Items(_)
        | Target::Item(..)
        | Target::PartitionKeyDelete(_)
        | Target::Conflicts(_)
        | Target::Conflict(_) => true,
        Target::Script(..) => operation == Operation::ExecuteProcedure,
        Target::Scripts(..)
        | Target::Users(_)
        | Target::User(_)
        | Target::Permissions(_)
        | Target::Permission(..)
        | Target::Offers
        | Target::Offer(_)
        | Target::NotSupported(_) => false,
    };
    let may = match principal.role {
        Some(Caller::ReadWrite) => is_data,
        Some(Caller::ReadOnly) => is_data && request.is_read(),
        None => false,
    };
    if may { Ok(()) } else { Err(not_assigned(principal, request, operation)) }
}

/// 403 with the sub-status by which SDKs know that a role is missing.
fn not_assigned(principal: &Principal, request: &Request, operation: Operation) -> ApiError {
    ApiError::rbac_denied(format!(
        "Request blocked by Auth: Request is blocked because principal [{}] does not have \
         required RBAC permissions to perform action [{}] on any scope. Learn more: \
         https://aka.ms/cosmos-native-rbac.",
        principal.id,
        action(request, operation)
    ))
}

/// The service's name for the action of a request.
fn action(request: &Request, operation: Operation) -> String {
    let account = "Microsoft.DocumentDB/databaseAccounts";
    let items = |verb: &str| format!("{account}/sqlDatabases/containers/items/{verb}");
    match operation {
        Operation::ReadItem => items("read"),
        Operation::CreateItem => items("create"),
        Operation::UpsertItem => items("upsert"),
        Operation::ReplaceItem | Operation::PatchItem => items("replace"),
        Operation::DeleteItem | Operation::DeletePartitionKey => items("delete"),
        Operation::Batch | Operation::Bulk => items("write"),
        Operation::ListItems | Operation::ChangeFeed => {
            format!("{account}/sqlDatabases/containers/readChangeFeed")
        }
        Operation::Query | Operation::QueryPlan => {
            format!("{account}/sqlDatabases/containers/executeQuery")
        }
        Operation::ExecuteProcedure => {
            format!("{account}/sqlDatabases/containers/executeStoredProcedure")
        }
        Operation::Account
        | Operation::Database
        | Operation::Container
        | Operation::Offer
        | Operation::PartitionKeyRanges
        | Operation::Addresses
        | Operation::Script
        | Operation::Other => match request.verb {
            Verb::Get => format!("{account}/readMetadata"),
            Verb::Head | Verb::Post | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => {
                format!("{account}/write")
            }
        },
    }
}

/// 403 for a caller who may do other things.
pub(crate) fn insufficient() -> ApiError {
    ApiError::new(
        ErrorKind::Forbidden,
        "Insufficient permissions provided in the authorization header for the corresponding \
         request. Please retry with another authorization header.",
    )
}

/// A request that may have been refused because of its sender.
pub(crate) struct RefusedRequest<'r> {
    pub activity: &'r str,
    pub peer: Option<IpAddr>,
    pub method: &'r str,
    pub path: &'r str,
    pub identity: Option<&'r Identity>,
    pub error: &'r ApiError,
}

/// Logs a request that was refused because of its sender. Never logs the sender's credentials.
pub(crate) fn audit(refused: &RefusedRequest<'_>) {
    let error = refused.error;
    if !error.is_denial() {
        return;
    }
    let caller = refused.identity.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    warn!(
        target: "audit",
        activity = refused.activity,
        peer = refused.peer.map(tracing::field::display),
        method = refused.method,
        path = refused.path,
        status = error.status(),
        substatus = error.substatus(),
        caller,
        reason = error.message(),
        "access denied"
    );
}
