//! Stored procedures, triggers and user-defined functions: create, read, replace, delete, list,
//! query.

use std::sync::Arc;

use engine::catalog::{
    Script, ScriptKind, ScriptRid, ScriptSpec, TriggerOperation, TriggerSpec, TriggerTime,
};
use engine::{Container, RequestContext};
use model::{ErrorKind, Object, Value};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::Reply;
use crate::request::{Request, Verb};
use crate::resource_query::{Resource, ResourceFeed};
use crate::{Service, resolve, resource};

/// `.../sprocs`, `.../triggers`, `.../udfs`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Container,
    kind: ScriptKind,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Post if !request.is_query() => create(service, ctx, container, kind, request).await,
        Verb::Get | Verb::Post => {
            ctx.served.charge += resource::LIST_CHARGE;
            let catalog = service.engine().catalog();
            let resources = catalog.scripts(container.rid, kind).map(|script| Resource {
                position: u64::from(script.rid.number),
                value: Box::new(|| to_value(script)),
                alias: None,
            });
            let (parent_rid, key) = (container.rid.to_string(), feed_key(kind));
            ResourceFeed { parent_rid, key, resources }.answer(service, request).await
        }
        Verb::Head | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

/// Reads, replaces or deletes one script; execution is elsewhere.
pub(crate) async fn script(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Container,
    kind: ScriptKind,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    let script = find(service, container, kind, id, request)?;
    match request.verb {
        Verb::Get => {
            ctx.served.charge += resource::READ_CHARGE;
            resource::read_reply(request, &to_value(&script), script.etag())
        }
        Verb::Put => {
            ctx.served.charge += resource::WRITE_CHARGE;
            let spec = spec_of(kind, request)?;
            replace(service, ctx, script.rid, spec, request).await
        }
        Verb::Delete => {
            ctx.served.charge += resource::WRITE_CHARGE;
            service.engine().delete_script(ctx, script.rid, request.if_match()).await?;
            Ok(Reply::no_content())
        }
        Verb::Head | Verb::Post | Verb::Patch | Verb::Other => Err(ApiError::method_not_allowed()),
    }
}

/// The script that an address names, by name or resource id.
pub(crate) fn find(
    service: &Service,
    container: &Container,
    kind: ScriptKind,
    id: &str,
    request: &Request,
) -> Result<Arc<Script>, ApiError> {
    let catalog = service.engine().catalog();
    let found = match resolve::is_by_rid(&catalog, request) {
        false => catalog.script(container.rid, kind, id),
        true => {
            let rid = ScriptRid::parse(id)
                .filter(|rid| rid.container == container.rid && rid.kind == kind)
                .ok_or_else(|| resolve::not_a_rid(id))?;
            catalog.script_by_rid(rid)
        }
    };
    found.cloned().ok_or_else(|| ApiError::missing(ErrorKind::NotFound))
}

async fn create(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Container,
    kind: ScriptKind,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.served.charge += resource::WRITE_CHARGE;
    let spec = spec_of(kind, request)?;
    if request.flag(HeaderName::IsUpsert)
        && let Some(old) = service.engine().catalog().script(container.rid, kind, &spec.id)
    {
        return replace(service, ctx, old.rid, spec, request).await;
    }
    let script = service.engine().create_script(ctx, container.rid, kind, spec).await?;
    Ok(Reply::created(resource::body(&to_value(&script))).etag(script.etag()))
}

async fn replace(
    service: &Service,
    ctx: &RequestContext,
    rid: ScriptRid,
    spec: ScriptSpec,
    request: &Request,
) -> Result<Reply, ApiError> {
    let script = service.engine().replace_script(ctx, rid, spec, request.if_match()).await?;
    Ok(Reply::ok(resource::body(&to_value(&script))).etag(script.etag()))
}

fn spec_of(kind: ScriptKind, request: &Request) -> Result<ScriptSpec, ApiError> {
    let body = resource::parse_body(request)?;
    let id = resource::id_of(&body)?.to_owned();
    let text = text_of(&body, "body")?.into();
    let trigger = match kind {
        ScriptKind::Trigger => Some(trigger_of(&body)?),
        ScriptKind::StoredProcedure | ScriptKind::UserDefinedFunction => None,
    };
    Ok(ScriptSpec { id, body: text, trigger })
}

fn trigger_of(body: &Object) -> Result<TriggerSpec, ApiError> {
    let (time, operation) = (text_of(body, "triggerType")?, text_of(body, "triggerOperation")?);
    let parsed_time = match time.to_ascii_lowercase().as_str() {
        "pre" => TriggerTime::Pre,
        "post" => TriggerTime::Post,
        _ => return Err(unknown("triggerType", time)),
    };
    let parsed_operation = match operation.to_ascii_lowercase().as_str() {
        "all" => TriggerOperation::All,
        "create" => TriggerOperation::Create,
        "update" => TriggerOperation::Update,
        "delete" => TriggerOperation::Delete,
        "replace" => TriggerOperation::Replace,
        "upsert" => TriggerOperation::Upsert,
        _ => return Err(unknown("triggerOperation", operation)),
    };
    let spelled = [time.to_owned(), operation.to_owned()];
    Ok(TriggerSpec { time: parsed_time, operation: parsed_operation, spelled })
}

fn unknown(property: &str, value: &str) -> ApiError {
    let shown: String = value.chars().take(64).collect();
    ApiError::invalid_input(format!("The value '{shown}' of '{property}' is not known."))
}

fn text_of<'b>(body: &'b Object, name: &'static str) -> Result<&'b str, ApiError> {
    match body.get(name) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Err(ApiError::missing_properties(&[name])),
        Some(_) => Err(ApiError::invalid_input(format!("'{name}' must be a string."))),
    }
}

fn feed_key(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::StoredProcedure => "StoredProcedures",
        ScriptKind::Trigger => "Triggers",
        ScriptKind::UserDefinedFunction => "UserDefinedFunctions",
    }
}

fn segment(kind: ScriptKind) -> &'static str {
    match kind {
        ScriptKind::StoredProcedure => "sprocs",
        ScriptKind::Trigger => "triggers",
        ScriptKind::UserDefinedFunction => "udfs",
    }
}

fn to_value(script: &Script) -> Value {
    let ScriptRid { container, kind, .. } = script.rid;
    let (database, rid) = (container.database, script.rid.to_string());
    let mut out = Object::with_capacity(8);
    out.insert("id", script.spec.id.as_str().into());
    out.insert("body", script.spec.body.as_ref().into());
    if let Some(TriggerSpec { spelled: [time, operation], .. }) = &script.spec.trigger {
        out.insert("triggerType", time.as_str().into());
        out.insert("triggerOperation", operation.as_str().into());
    }
    let segment = segment(kind);
    out.insert("_self", format!("dbs/{database}/colls/{container}/{segment}/{rid}/").into());
    out.insert("_rid", rid.into());
    out.insert("_etag", script.etag().into());
    out.insert("_ts", resource::int(script.ts));
    out.into()
}
