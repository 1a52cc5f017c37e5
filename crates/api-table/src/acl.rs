//! Stored access policies of a table.

use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner};
use engine::{Container, RequestContext};
use hyper::StatusCode;
use model::{Object, Value};

use crate::Flavour;
use crate::auth::{Policy, RequiredPermission, parse_time};
use crate::errors::TableError;
use crate::names;
use crate::reply::Reply;
use crate::request::{Request, TableContext};
use crate::service::Service;
use crate::xml::{self, Element};

/// Most policies of a table.
const POLICIES_MAX: usize = 5;
/// Longest id of a policy in characters.
const ID_CHARS_MAX: usize = 64;

/// A policy with its id; `None` if only the id is given.
type Named = (String, Option<Policy>);

/// `GET /T?comp=acl`.
pub(crate) fn get(service: &Service, request: &Request, table: &str) -> Result<Reply, TableError> {
    let context = &request.context;
    let container = admitted(service, context, table)?;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>");
    for (id, policy) in policies(service, &container) {
        out.push_str("<SignedIdentifier>");
        xml::write("Id", &id, &mut out);
        if let Some(Policy { start, expiry, permissions }) = policy {
            out.push_str("<AccessPolicy>");
            for (name, value) in [("Start", start), ("Expiry", expiry), ("Permission", permissions)]
            {
                if let Some(value) = value {
                    xml::write(name, &value, &mut out);
                }
            }
            out.push_str("</AccessPolicy>");
        }
        out.push_str("</SignedIdentifier>");
    }
    out.push_str("</SignedIdentifiers>");
    Ok(Reply::xml(StatusCode::OK, out))
}

/// `PUT /T?comp=acl`.
pub(crate) async fn set(
    service: &Service,
    ctx: &RequestContext,
    request: &Request,
    table: &str,
) -> Result<Reply, TableError> {
    let context = &request.context;
    let container = admitted(service, context, table)?;
    let given = match request.body.is_empty() {
        true => Vec::new(),
        false => read(&xml::parse(&request.body, "SignedIdentifiers")?)?,
    };
    let small = NewOpaque { id: name_of(&container), alias: None, body: to_value(&given) };
    let owner = OpaqueOwner::Database(container.rid.database);
    let stored = service.engine().upsert_opaque(ctx, owner, OpaqueKind::Setting, small, None).await;
    stored.map_err(|error| TableError::of_table(error, context.flavour))?;
    Ok(Reply::no_content())
}

fn admitted(
    service: &Service,
    context: &TableContext,
    table: &str,
) -> Result<std::sync::Arc<Container>, TableError> {
    if context.flavour == Flavour::Cosmos {
        return Err(TableError::not_implemented());
    }
    names::check_table(table, context.flavour)?;
    context.identity.check(RequiredPermission::Policies, Some(table))?;
    service.find_table(context, table)
}

/// The table policy that a signature names.
pub(crate) fn find(service: &Service, container: &Container, id: &str) -> Option<Policy> {
    let mut policies = policies(service, container).into_iter();
    policies.find(|(known, _)| known == id).map(|(_, policy)| policy.unwrap_or_default())
}

/// Deletes the policies of a deleted table. If that fails it does no harm: no other table has the
/// same key.
pub(crate) async fn forget(service: &Service, ctx: &RequestContext, container: &Container) {
    let catalog = service.engine().catalog();
    let owner = OpaqueOwner::Database(container.rid.database);
    if let Some(known) = catalog.opaque(owner, OpaqueKind::Setting, &name_of(container)) {
        let _ = service.engine().delete_opaque(ctx, known.key, None).await;
    }
}

fn policies(service: &Service, container: &Container) -> Vec<Named> {
    let catalog = service.engine().catalog();
    let owner = OpaqueOwner::Database(container.rid.database);
    let known = catalog.opaque(owner, OpaqueKind::Setting, &name_of(container));
    known.map(|known| from_value(&known.spec.body)).unwrap_or_default()
}

fn name_of(container: &Container) -> String {
    format!("acl-{}", container.rid.number)
}

fn read(root: &Element) -> Result<Vec<Named>, TableError> {
    if root.children.len() > POLICIES_MAX {
        return Err(TableError::invalid_xml());
    }
    let mut all: Vec<Named> = Vec::with_capacity(root.children.len());
    for element in &root.children {
        let id = element.text_of("Id").filter(|id| !id.is_empty());
        let id = id.filter(|id| id.chars().count() <= ID_CHARS_MAX);
        let id = id.filter(|_| element.name == "SignedIdentifier");
        let id = id.ok_or_else(TableError::invalid_xml)?.to_owned();
        if all.iter().any(|(known, _)| *known == id) {
            return Err(TableError::invalid_xml());
        }
        let policy = element.child("AccessPolicy").map(read_policy).transpose()?;
        all.push((id, policy.filter(|policy| *policy != Policy::default())));
    }
    Ok(all)
}

fn read_policy(element: &Element) -> Result<Policy, TableError> {
    let field =
        |name: &str| element.text_of(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let time = |name: &str| match field(name) {
        Some(text) if parse_time(&text).is_none() => Err(TableError::invalid_xml()),
        text => Ok(text),
    };
    let permissions = field("Permission");
    if permissions.as_ref().is_some_and(|p| !p.chars().all(|c| "raud".contains(c))) {
        return Err(TableError::invalid_xml());
    }
    Ok(Policy { start: time("Start")?, expiry: time("Expiry")?, permissions })
}

fn to_value(policies: &[Named]) -> Value {
    let policies = policies.iter().map(|(id, policy)| {
        let mut fields = Object::new();
        fields.insert("id", Value::from(id.as_str()));
        if let Some(Policy { start, expiry, permissions }) = policy {
            let parts = [("start", start), ("expiry", expiry), ("permissions", permissions)];
            for (name, value) in parts {
                if let Some(value) = value {
                    fields.insert(name, Value::from(value.as_str()));
                }
            }
        }
        Value::Object(fields)
    });
    let mut body = Object::new();
    body.insert("policies", Value::Array(policies.collect()));
    body.into()
}

fn from_value(body: &Value) -> Vec<Named> {
    let policies = body.field("policies").and_then(Value::as_array).unwrap_or_default();
    let read = |policy: &Value| {
        let text = |name: &str| policy.field(name).and_then(Value::as_str).map(str::to_owned);
        let fields = Policy {
            start: text("start"),
            expiry: text("expiry"),
            permissions: text("permissions"),
        };
        Some((text("id")?, Some(fields).filter(|fields| *fields != Policy::default())))
    };
    policies.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Named>, TableError> {
        read(&xml::parse(text.as_bytes(), "SignedIdentifiers")?)
    }

    #[test]
    fn policies_may_be_whole_partial_or_empty() {
        let text = "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2020-01-01\
            T00:00:00Z</Start><Permission>ra</Permission></AccessPolicy></SignedIdentifier>\
            <SignedIdentifier><Id>b</Id><AccessPolicy /></SignedIdentifier><SignedIdentifier>\
            <Id>c</Id></SignedIdentifier></SignedIdentifiers>";
        let policies = parse(text).unwrap();
        assert_eq!(policies.len(), 3);
        assert_eq!(policies[0].1.as_ref().unwrap().permissions.as_deref(), Some("ra"));
        assert_eq!((&policies[1].1, &policies[2].1), (&None, &None));
        assert_eq!(from_value(&to_value(&policies)), policies);
    }

    #[test]
    fn there_are_at_most_five_with_short_ids_of_their_own() {
        let all = |ids: &[String]| {
            let each = |id: &String| format!("<SignedIdentifier><Id>{id}</Id></SignedIdentifier>");
            let list: String = ids.iter().map(each).collect();
            parse(&format!("<SignedIdentifiers>{list}</SignedIdentifiers>"))
        };
        let numbered = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        assert!(all(&numbered(5)).is_ok());
        assert_eq!(all(&numbered(6)).unwrap_err().code, "InvalidXmlDocument");
        assert!(all(&["x".repeat(64)]).is_ok() && all(&["x".repeat(65)]).is_err());
        assert!(all(&["a".into(), "a".into()]).is_err() && all(&[String::new()]).is_err());
    }
}
