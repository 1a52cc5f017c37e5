//! Permissions of a user: the allowed operations on a resource, and the tokens that prove them.
//!
//! A client that reads a permission gets a new token for it. That is why read-only keys may not
//! read permissions.

use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner, OpaqueResource, ScriptKind};
use engine::{Catalog, Container, RequestContext};
use model::{ErrorKind, Object, PartitionKey, Timestamp, Value, json};

use crate::access::TokenKey;
use crate::address::{self, ContainerAddress, Target, UserAddress};
use crate::errors::ApiError;
use crate::headers::{self, HeaderName};
use crate::opaque::{self, Family, ParentResource};
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, partition_key_header, resolve, resource};

/// Default lifetime of a token in seconds.
const EXPIRY_DEFAULT_S: u64 = 3600;
/// Shortest and longest lifetime of a token, in seconds.
const EXPIRY_S: std::ops::RangeInclusive<u64> = 10..=86_400;

/// The content of a permission.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Permission {
    /// The container that it covers, or that holds the resource it covers.
    pub container: ContainerAddress,
    /// The resource in that container, if it covers only one: the segment of its kind, and its id.
    pub child: Option<(Child, String)>,
    /// The partition key, or the leading part of one, that it is confined to.
    pub key: Option<PartitionKey>,
    /// The same key as JSON.
    pub key_text: Option<String>,
    pub may_write: bool,
}

/// The kinds of resources in a container that permissions can cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    Item,
    Script(ScriptKind),
}

impl Child {
    fn parse(segment: &str) -> Option<Self> {
        match segment {
            "docs" => Some(Child::Item),
            other => address::script_kind(other).map(Child::Script),
        }
    }
}

struct Permissions<'s> {
    tokens: &'s TokenKey,
    catalog: &'s Catalog,
    /// When tokens that are made now expire.
    expires: Timestamp,
}

impl Family for Permissions<'_> {
    const KIND: OpaqueKind = OpaqueKind::Permission;
    const SEGMENT: &'static str = "permissions";
    const FEED: &'static str = "Permissions";
    const IS_DELETABLE: bool = true;

    fn parse(&self, body: &Object, _: Option<&OpaqueResource>) -> Result<NewOpaque, ApiError> {
        let id = resource::id_of(body)?.to_owned();
        let missing: Vec<_> = ["permissionMode", "resource"]
            .into_iter()
            .filter(|name| matches!(body.get(name), None | Some(Value::Null)))
            .collect();
        if !missing.is_empty() {
            return Err(ApiError::missing_properties(&missing));
        }
        let mut kept = Object::with_capacity(3);
        for name in ["permissionMode", "resource", "resourcePartitionKey"] {
            if let Some(value) = body.get(name).filter(|value| **value != Value::Null) {
                kept.insert(name, value.clone());
            }
        }
        let permission = Permission::read(&kept, self.catalog)?;
        let alias = Some(alias(&kept));
        self.check_key(&permission)?;
        Ok(NewOpaque { id, alias, body: kept.into() })
    }

    fn complete(&self, resource: &OpaqueResource, out: &mut Object) {
        out.insert("_token", self.tokens.mint(self.catalog, resource, self.expires).into());
    }
}

impl Permissions<'_> {
    /// Checks that a key fits the container, if the container exists.
    fn check_key(&self, permission: &Permission) -> Result<(), ApiError> {
        let Some(key) = &permission.key else { return Ok(()) };
        let paths = resolve::find_container(self.catalog, &permission.container)
            .map_or(usize::MAX, |container| container.spec.partition_key.paths.len());
        match (1..=paths).contains(&key.0.len()) {
            true => Ok(()),
            false => Err(invalid("'resourcePartitionKey' does not fit the container's key.")),
        }
    }
}

impl Permission {
    /// The content of a stored permission.
    pub(crate) fn of(resource: &OpaqueResource, catalog: &Catalog) -> Option<Self> {
        Self::read(resource.spec.body.as_object()?, catalog).ok()
    }

    fn read(body: &Object, catalog: &Catalog) -> Result<Self, ApiError> {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let may_write = match text("permissionMode") {
            Some(mode) if mode.eq_ignore_ascii_case("all") => true,
            Some(mode) if mode.eq_ignore_ascii_case("read") => false,
            _ => return Err(invalid("'permissionMode' must be 'Read' or 'All'.")),
        };
        let link = text("resource").unwrap_or_default();
        let (container, child) = link_target(link, catalog).ok_or_else(|| {
            invalid("'resource' must be the link of a container, or of an item or script in one.")
        })?;
        let key_text = body.get("resourcePartitionKey").map(json::to_string);
        let key = match &key_text {
            Some(text) => Some(partition_key_header::parse(text.as_bytes())?),
            None => None,
        };
        Ok(Self { container, child, key, key_text, may_write })
    }

    /// The container that it covers, if it exists and is in the user's database.
    pub(crate) fn container_in(
        &self,
        catalog: &Catalog,
        owner: OpaqueOwner,
    ) -> Option<std::sync::Arc<Container>> {
        let found = resolve::find_container(catalog, &self.container);
        found.filter(|container| container.rid.database == owner.database())
    }
}

type LinkTarget = (ContainerAddress, Option<(Child, String)>);

/// The resource that a link names. Some clients percent-encode names and some do not, so a
/// container with the undecoded name is used if none has the decoded name.
fn link_target(link: &str, catalog: &Catalog) -> Option<LinkTarget> {
    let decoded = parse_link(&address::segments(link).ok()?);
    let raw: Vec<_> = link.split('/').filter(|s| !s.is_empty()).map(Into::into).collect();
    let is_there =
        |(container, _): &LinkTarget| resolve::find_container(catalog, container).is_some();
    match decoded {
        Some(decoded) if is_there(&decoded) => Some(decoded),
        decoded => parse_link(&raw).filter(is_there).or(decoded),
    }
}

fn parse_link(segments: &[std::borrow::Cow<'_, str>]) -> Option<LinkTarget> {
    let [head @ .., kind, id] = segments else { return None };
    if head.len() == 2
        && let Ok(Target::Container(container)) = address::target(segments)
    {
        return Some((container, None));
    }
    let Ok(Target::Container(container)) = address::target(head) else { return None };
    Some((container, Some((Child::parse(kind)?, id.clone().into_owned()))))
}

/// The unique alias of a permission: a user has one permission for a resource, or for a key of it.
fn alias(body: &Object) -> String {
    let link = body.get("resource").and_then(Value::as_str).unwrap_or_default();
    let key = body.get("resourcePartitionKey").map(json::to_string).unwrap_or_default();
    format!("{} {key}", link.trim_matches('/'))
}

/// `/dbs/{db}/users/{user}/permissions`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    address: &UserAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    let catalog = service.engine().catalog();
    let user = resolve::user(&catalog, address, ErrorKind::OwnerNotFound)?;
    let family = family(service, &catalog, request)?;
    opaque::feed(service, ctx, &of_user(&user)?, &family, request).await
}

/// `/dbs/{db}/users/{user}/permissions/{permission}`
pub(crate) async fn permission(
    service: &Service,
    ctx: &mut RequestContext,
    address: &UserAddress,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    let catalog = service.engine().catalog();
    let user = resolve::user(&catalog, address, ErrorKind::OwnerNotFound)?;
    let parent = of_user(&user)?;
    let by_rid = resolve::has_rids(&catalog, &address.database);
    let found = resolve::opaque(&catalog, parent.owner, OpaqueKind::Permission, id, by_rid)
        .ok_or_else(|| ApiError::missing(ErrorKind::NotFound))?;
    let family = family(service, &catalog, request)?;
    opaque::one(service, ctx, &parent, &family, &found, request).await
}

fn family<'s>(
    service: &'s Service,
    catalog: &'s Catalog,
    request: &Request,
) -> Result<Permissions<'s>, ApiError> {
    let now = service.engine().components().clock.now();
    let expires = Timestamp(now.0.saturating_add(1000 * expiry_seconds(request)?));
    Ok(Permissions { tokens: service.token_key(), catalog, expires })
}

fn expiry_seconds(request: &Request) -> Result<u64, ApiError> {
    let Some(text) = request.header_lossy(HeaderName::ExpirySeconds) else {
        return Ok(EXPIRY_DEFAULT_S);
    };
    let seconds = text.trim().parse().ok().filter(|s| EXPIRY_S.contains(s));
    seconds.ok_or_else(|| headers::invalid_value(&text, HeaderName::ExpirySeconds))
}

fn of_user(user: &OpaqueResource) -> Result<ParentResource, ApiError> {
    let rid = user.key.user().ok_or_else(ApiError::internal)?;
    let owner_link =
        format!("{}users/{rid}/", ParentResource::in_database(rid.database).owner_link);
    Ok(ParentResource { owner: OpaqueOwner::User(rid), owner_rid: rid.to_string(), owner_link })
}

fn invalid(reason: &str) -> ApiError {
    ApiError::invalid_input(reason)
}
