//! Tables: create, list, read and delete.

use std::sync::Arc;

use engine::{Container, RequestContext, Throughput};
use hyper::StatusCode;
use lang::odata::TableFilter;
use model::{ErrorKind, Value, json, limits};

use crate::Flavour;
use crate::auth::RequiredPermission;
use crate::continuation::{key_of, token_of};
use crate::edm::{Metadata, write_list_end, write_list_start};
use crate::errors::TableError;
use crate::headers::name;
use crate::names;
use crate::query::top;
use crate::reply::Reply;
use crate::request::{Preference, Request, TableContext};
use crate::service::Service;
use crate::stored;

/// Deepest nesting of the body that names a table.
const BODY_DEPTH_MAX: usize = 8;

impl Service {
    /// The table of a name, compared with or without case as the flavour requires.
    pub(crate) fn find_table(
        &self,
        context: &TableContext,
        table: &str,
    ) -> Result<Arc<Container>, TableError> {
        let catalog = self.engine().catalog();
        let database = catalog.database(self.database_of(context));
        let database = database.ok_or_else(TableError::table_not_found)?.rid;
        if let Some(container) = catalog.container(database, table) {
            let found = Arc::clone(container);
            return Some(found)
                .filter(|container| stored::is_table(container))
                .ok_or_else(TableError::table_not_found);
        }
        if context.flavour == Flavour::Cosmos {
            return Err(TableError::table_not_found());
        }
        let is_it =
            |c: &&Arc<Container>| c.spec.id.eq_ignore_ascii_case(table) && stored::is_table(c);
        let found = catalog.containers(database).find(is_it).cloned();
        found.ok_or_else(TableError::table_not_found)
    }

    fn table_names(&self, context: &TableContext) -> Vec<String> {
        let catalog = self.engine().catalog();
        let Some(database) = catalog.database(self.database_of(context)) else { return Vec::new() };
        let tables = catalog.containers(database.rid).filter(|c| stored::is_table(c));
        let mut names: Vec<String> = tables.map(|c| c.spec.id.clone()).collect();
        names.sort_unstable();
        names
    }
}

/// `GET /Tables`.
pub(crate) fn list(service: &Service, request: &Request) -> Result<Reply, TableError> {
    let context = &request.context;
    context.identity.check(RequiredPermission::ListTables, None)?;
    let metadata = request.metadata()?;
    crate::query::check_options(&request.options)?;
    let filter = TableFilter::compile(request.options.get("$filter").unwrap_or_default())?;
    let most = top(&request.options, context.flavour)?.unwrap_or(limits::TABLE_PAGE_ITEMS_MAX);
    let from = request.options.get("NextTableName").map(key_of).transpose()?.unwrap_or_default();
    let names = service.table_names(context);
    let mut wanted = names.iter().filter(|name| **name >= from && filter.matches(name));
    let page: Vec<&String> = wanted.by_ref().take(most).collect();
    let next = wanted.next().filter(|_| most > 0);

    let mut body = Vec::with_capacity(64 + 64 * page.len());
    write_list_start(metadata, &context.service_url, "Tables", &mut body);
    for (n, name) in page.into_iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        write_table(context, metadata, name, false, &mut body);
    }
    write_list_end(&mut body);
    let reply = Reply::json(StatusCode::OK, metadata, body);
    Ok(match next {
        Some(next) => reply.header(name::NEXT_TABLE_NAME, &token_of(next)),
        None => reply,
    })
}

/// `GET /Tables('T')`.
pub(crate) fn get(service: &Service, request: &Request, table: &str) -> Result<Reply, TableError> {
    let context = &request.context;
    context.identity.check(RequiredPermission::ListTables, Some(table))?;
    names::check_table(table, context.flavour)?;
    let metadata = request.metadata()?;
    let found = service.find_table(context, table);
    let found = found.map_err(|_| TableError::resource_not_found())?;
    let mut body = Vec::with_capacity(128);
    write_table(context, metadata, &found.spec.id, true, &mut body);
    Ok(Reply::json(StatusCode::OK, metadata, body))
}

/// `POST /Tables`.
pub(crate) async fn create(
    service: &Service,
    ctx: &RequestContext,
    request: &Request,
) -> Result<Reply, TableError> {
    let context = &request.context;
    context.identity.check(RequiredPermission::CreateTable, None)?;
    let metadata = request.metadata()?;
    let name = table_name(&request.body)?;
    names::check_new_table(&name, context.flavour)?;
    let throughput = throughput(service, request)?;
    if service.find_table(context, &name).is_ok() {
        return Err(TableError::table_exists());
    }
    let database = database(service, ctx, context).await?;
    let spec = stored::table_spec(&name)?;
    let created = service.engine().create_container(ctx, database, spec, throughput).await;
    created.map_err(|error| of_creation(error, context.flavour))?;

    let url = format!("{}/Tables('{name}')", context.service_url);
    let reply = match request.preference() {
        Some(Preference::NoContent) => Reply::no_content().header(name::DATA_SERVICE_ID, &url),
        Some(Preference::Content) | None => {
            let mut body = Vec::with_capacity(128);
            write_table(context, metadata, &name, true, &mut body);
            Reply::json(StatusCode::CREATED, metadata, body)
        }
    };
    Ok(applied(reply.located(&url), request.preference()))
}

/// Adds the applied preference, if there was one.
pub(crate) fn applied(reply: Reply, preference: Option<Preference>) -> Reply {
    match preference {
        Some(preference) => reply.header(name::PREFERENCE_APPLIED, preference.text()),
        None => reply,
    }
}

/// `DELETE /Tables('T')`.
pub(crate) async fn delete(
    service: &Service,
    ctx: &RequestContext,
    request: &Request,
    table: &str,
) -> Result<Reply, TableError> {
    let context = &request.context;
    context.identity.check(RequiredPermission::DeleteTable, Some(table))?;
    names::check_deleted_table(table, context.flavour)?;
    let found = service.find_table(context, table);
    let found = found.map_err(|_| TableError::resource_not_found())?;
    let deleted = service.engine().delete_container(ctx, found.rid, None).await;
    deleted.map_err(|error| TableError::of_table(error, context.flavour))?;
    crate::acl::forget(service, ctx, &found).await;
    Ok(Reply::no_content())
}

/// The database with the account's tables, created on first use.
pub(crate) async fn database(
    service: &Service,
    ctx: &RequestContext,
    context: &TableContext,
) -> Result<model::DatabaseRid, TableError> {
    let name = service.database_of(context);
    let known = || service.engine().catalog().database(name).map(|database| database.rid);
    if let Some(rid) = known() {
        return Ok(rid);
    }
    match service.engine().create_database(ctx, name, None).await {
        Ok(database) => Ok(database.rid),
        // Another request created it first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            known().ok_or_else(|| TableError::internal("a database that is and is not"))
        }
        Err(error) => Err(TableError::of_table(error, context.flavour)),
    }
}

/// The table name in the body of a request.
fn table_name(body: &[u8]) -> Result<String, TableError> {
    let parsed = json::parse(body, BODY_DEPTH_MAX).map_err(|_| TableError::unprocessable())?;
    match parsed.value.field("TableName") {
        Some(Value::String(name)) => Ok(name.clone()),
        Some(Value::Null) | None => Err(crate::edm::EntityError::KeyMissing.into()),
        Some(_) => Err(TableError::invalid_inputs()),
    }
}

/// The provisioned throughput: from the request, or the default.
fn throughput(service: &Service, request: &Request) -> Result<Option<Throughput>, TableError> {
    let Some(text) = request.header(&name::OFFER_THROUGHPUT) else {
        return Ok(service.default_throughput().map(Throughput::Manual));
    };
    let wanted: i64 = text.parse().map_err(|_| TableError::invalid_header())?;
    let wanted = u32::try_from(wanted).map_err(|_| TableError::invalid_header())?;
    Ok(Some(Throughput::Manual(wanted)))
}

fn of_creation(error: engine::Error, flavour: Flavour) -> TableError {
    if let engine::Error::OfferRefused(_) = error {
        return TableError::new(400, "InvalidHeaderValue", error.to_string());
    }
    TableError::of_table(error, flavour)
}

fn write_table(
    context: &TableContext,
    metadata: Metadata,
    table: &str,
    is_single: bool,
    out: &mut Vec<u8>,
) {
    let service = &context.service_url;
    let field = |name: &str, value: &str, out: &mut Vec<u8>| {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        json::write_str(name, out);
        out.push(b':');
        json::write_str(value, out);
    };
    out.push(b'{');
    if metadata != Metadata::None && is_single {
        field("odata.metadata", &format!("{service}/$metadata#Tables/@Element"), out);
    }
    if metadata == Metadata::Full {
        field("odata.type", &format!("{}.Tables", context.account), out);
        field("odata.id", &format!("{service}/Tables('{table}')"), out);
        field("odata.editLink", &format!("Tables('{table}')"), out);
    }
    field("TableName", table, out);
    out.push(b'}');
}
