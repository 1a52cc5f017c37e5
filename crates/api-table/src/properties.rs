//! Properties and statistics of the service. Logging and metrics settings are only stored and
//! returned; CORS rules are applied ([`crate::cors`]).

use engine::RequestContext;
use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner};
use hyper::StatusCode;
use model::{Object, Value};

use crate::Flavour;
use crate::auth::RequiredPermission;
use crate::errors::TableError;
use crate::reply::Reply;
use crate::request::{Request, TableContext};
use crate::service::Service;
use crate::tables;
use crate::xml::{self, Element};

const RETENTION_DAYS: std::ops::RangeInclusive<u32> = 1..=365;
const RULES_MAX: usize = 5;
const ORIGINS_MAX: usize = 64;
const ORIGIN_CHARS_MAX: usize = 256;
const SETTING_NAME: &str = "table-service";

/// How long data is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Retention {
    days: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Logging {
    version: String,
    read: bool,
    write: bool,
    delete: bool,
    retention: Retention,
}

impl Default for Logging {
    fn default() -> Self {
        let version = "1.0".to_owned();
        Self { version, read: false, write: false, delete: false, retention: Retention::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Metrics {
    version: String,
    enabled: bool,
    include_apis: Option<bool>,
    retention: Retention,
}

impl Default for Metrics {
    fn default() -> Self {
        let version = "1.0".to_owned();
        Self { version, enabled: false, include_apis: None, retention: Retention::default() }
    }
}

/// A CORS rule: which origins may send which requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CorsRule {
    pub(crate) origins: String,
    pub(crate) methods: String,
    pub(crate) allowed_headers: String,
    pub(crate) exposed_headers: String,
    pub(crate) max_age: String,
}

/// All properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    logging: Logging,
    hour: Metrics,
    minute: Metrics,
    pub(crate) cors: Vec<CorsRule>,
}

/// `GET /?restype=service&comp=properties`.
pub(crate) fn get(service: &Service, request: &Request) -> Result<Reply, TableError> {
    let context = &request.context;
    admit(context, RequiredPermission::ReadService)?;
    Ok(Reply::xml(StatusCode::OK, written(&of(service, context))))
}

/// `PUT /?restype=service&comp=properties`. Omitted members stay as they are.
pub(crate) async fn set(
    service: &Service,
    ctx: &RequestContext,
    request: &Request,
) -> Result<Reply, TableError> {
    let context = &request.context;
    admit(context, RequiredPermission::WriteService)?;
    let root = xml::parse(&request.body, "StorageServiceProperties")?;
    let properties = changed(of(service, context), &root)?;
    let database = tables::database(service, ctx, context).await?;
    let mut body = Object::new();
    body.insert("xml", Value::from(written(&properties)));
    let small = NewOpaque { id: SETTING_NAME.to_owned(), alias: None, body: body.into() };
    let owner = OpaqueOwner::Database(database);
    let stored = service.engine().upsert_opaque(ctx, owner, OpaqueKind::Setting, small, None).await;
    stored.map_err(|error| TableError::of_table(error, context.flavour))?;
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// `GET /?restype=service&comp=stats`, on the secondary only.
pub(crate) fn stats(request: &Request, now: model::Timestamp) -> Result<Reply, TableError> {
    let context = &request.context;
    admit(context, RequiredPermission::ReadService)?;
    if !context.is_secondary {
        return Err(TableError::invalid_query_parameter());
    }
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_millis(now.0);
    let time = httpdate::fmt_http_date(now);
    Ok(Reply::xml(
        StatusCode::OK,
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication>\
             <Status>live</Status><LastSyncTime>{time}</LastSyncTime></GeoReplication>\
             </StorageServiceStats>"
        ),
    ))
}

fn admit(context: &TableContext, required: RequiredPermission) -> Result<(), TableError> {
    if context.flavour == Flavour::Cosmos {
        return Err(TableError::not_implemented());
    }
    context.identity.check(required, None)
}

/// The properties of an account's service.
fn of(service: &Service, context: &TableContext) -> Properties {
    stored(service, service.database_of(context))
}

/// The stored properties of a database.
pub(crate) fn stored(service: &Service, database: &str) -> Properties {
    let catalog = service.engine().catalog();
    let read = || {
        let owner = OpaqueOwner::Database(catalog.database(database)?.rid);
        let small = catalog.opaque(owner, OpaqueKind::Setting, SETTING_NAME)?;
        let text = small.spec.body.field("xml").and_then(Value::as_str)?;
        let root = xml::parse(text.as_bytes(), "StorageServiceProperties").ok()?;
        changed(Properties::default(), &root).ok()
    };
    read().unwrap_or_default()
}

fn changed(mut properties: Properties, root: &Element) -> Result<Properties, TableError> {
    for element in &root.children {
        match element.name.as_str() {
            "Logging" => properties.logging = read_logging(element)?,
            "HourMetrics" => properties.hour = read_metrics(element)?,
            "MinuteMetrics" => properties.minute = read_metrics(element)?,
            "Cors" => properties.cors = read_rules(element)?,
            // Members of other services, or of other versions.
            "DefaultServiceVersion" => {}
            _ => return Err(TableError::invalid_xml()),
        }
    }
    Ok(properties)
}

fn flag(element: &Element, name: &str) -> Result<bool, TableError> {
    match element.text_of(name) {
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(TableError::invalid_xml()),
    }
}

fn version(element: &Element) -> String {
    element.text_of("Version").filter(|text| !text.is_empty()).unwrap_or("1.0").to_owned()
}

fn read_retention(element: &Element) -> Result<Retention, TableError> {
    let Some(policy) = element.child("RetentionPolicy") else { return Ok(Retention::default()) };
    if !flag(policy, "Enabled")? {
        return Ok(Retention::default());
    }
    let days = policy.text_of("Days").and_then(|text| text.parse().ok());
    let days = days.filter(|days| RETENTION_DAYS.contains(days));
    days.map(|days| Retention { days: Some(days) }).ok_or_else(TableError::invalid_xml)
}

fn read_logging(element: &Element) -> Result<Logging, TableError> {
    Ok(Logging {
        version: version(element),
        read: flag(element, "Read")?,
        write: flag(element, "Write")?,
        delete: flag(element, "Delete")?,
        retention: read_retention(element)?,
    })
}

fn read_metrics(element: &Element) -> Result<Metrics, TableError> {
    let enabled = flag(element, "Enabled")?;
    let include_apis = match element.child("IncludeAPIs") {
        Some(_) => Some(flag(element, "IncludeAPIs")?),
        None => None,
    };
    Ok(Metrics {
        version: version(element),
        enabled,
        include_apis: include_apis.filter(|_| enabled),
        retention: read_retention(element)?,
    })
}

fn read_rules(element: &Element) -> Result<Vec<CorsRule>, TableError> {
    if element.children.len() > RULES_MAX {
        return Err(TableError::invalid_xml());
    }
    element.children.iter().map(read_rule).collect()
}

fn read_rule(element: &Element) -> Result<CorsRule, TableError> {
    let text = |name: &str| element.text_of(name).unwrap_or_default().to_owned();
    let rule = CorsRule {
        origins: text("AllowedOrigins"),
        methods: text("AllowedMethods"),
        allowed_headers: text("AllowedHeaders"),
        exposed_headers: text("ExposedHeaders"),
        max_age: text("MaxAgeInSeconds"),
    };
    let origins: Vec<&str> = rule.origins.split(',').collect();
    let is_good = element.name == "CorsRule"
        && !rule.origins.is_empty()
        && !rule.methods.is_empty()
        && origins.len() <= ORIGINS_MAX
        && origins.iter().all(|origin| origin.chars().count() <= ORIGIN_CHARS_MAX)
        && (rule.max_age.is_empty() || rule.max_age.parse::<u32>().is_ok());
    if is_good { Ok(rule) } else { Err(TableError::invalid_xml()) }
}

fn written(properties: &Properties) -> String {
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties>");
    let bool = |value: bool| if value { "true" } else { "false" };
    let Logging { version, read, write, delete, retention } = &properties.logging;
    out.push_str("<Logging>");
    xml::write("Version", version, &mut out);
    xml::write("Read", bool(*read), &mut out);
    xml::write("Write", bool(*write), &mut out);
    xml::write("Delete", bool(*delete), &mut out);
    write_retention(*retention, &mut out);
    out.push_str("</Logging>");
    for (name, metrics) in
        [("HourMetrics", &properties.hour), ("MinuteMetrics", &properties.minute)]
    {
        out.push_str(&format!("<{name}>"));
        xml::write("Version", &metrics.version, &mut out);
        xml::write("Enabled", bool(metrics.enabled), &mut out);
        if let Some(include_apis) = metrics.include_apis {
            xml::write("IncludeAPIs", bool(include_apis), &mut out);
        }
        write_retention(metrics.retention, &mut out);
        out.push_str(&format!("</{name}>"));
    }
    out.push_str("<Cors>");
    for rule in &properties.cors {
        out.push_str("<CorsRule>");
        xml::write("AllowedOrigins", &rule.origins, &mut out);
        xml::write("AllowedMethods", &rule.methods, &mut out);
        xml::write("AllowedHeaders", &rule.allowed_headers, &mut out);
        xml::write("ExposedHeaders", &rule.exposed_headers, &mut out);
        xml::write("MaxAgeInSeconds", &rule.max_age, &mut out);
        out.push_str("</CorsRule>");
    }
    out.push_str("</Cors></StorageServiceProperties>");
    out
}

fn write_retention(retention: Retention, out: &mut String) {
    out.push_str("<RetentionPolicy>");
    xml::write("Enabled", if retention.days.is_some() { "true" } else { "false" }, out);
    if let Some(days) = retention.days {
        xml::write("Days", &days.to_string(), out);
    }
    out.push_str("</RetentionPolicy>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(inner: &str) -> Result<Properties, TableError> {
        let text = format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
        let root = xml::parse(text.as_bytes(), "StorageServiceProperties")?;
        changed(Properties::default(), &root)
    }

    const METRICS: &str = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>\
        true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy>\
        </HourMetrics>";

    #[test]
    fn what_was_set_is_read_back() {
        let cors = "<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET,PUT\
            </AllowedMethods><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>500\
            </MaxAgeInSeconds></CorsRule></Cors>";
        let properties = parse(&format!("{METRICS}{cors}")).unwrap();
        let text = written(&properties);
        let root = xml::parse(text.as_bytes(), "StorageServiceProperties").unwrap();
        assert_eq!(changed(Properties::default(), &root).unwrap(), properties);
        assert!(text.contains("<IncludeAPIs>true</IncludeAPIs>"));
        assert!(!written(&Properties::default()).contains("IncludeAPIs"));
    }

    #[test]
    fn what_is_not_sent_stays_as_it_is() {
        let before = parse(METRICS).unwrap();
        let root = xml::parse(
            b"<StorageServiceProperties><Cors/></StorageServiceProperties>",
            "StorageServiceProperties",
        );
        assert_eq!(changed(before.clone(), &root.unwrap()).unwrap(), before);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in [
            METRICS.replace("<Days>5", "<Days>366").as_str(),
            METRICS.replace("<Days>5", "<Days>0").as_str(),
            METRICS.replace("<Enabled>true</Enabled><I", "<I").as_str(),
            "<Unknown/>",
            "<Cors><CorsRule><AllowedOrigins></AllowedOrigins></CorsRule></Cors>",
        ] {
            assert_eq!(parse(bad).unwrap_err().code, "InvalidXmlDocument", "{bad}");
        }
        let rule = "<CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET\
                    </AllowedMethods></CorsRule>";
        assert!(parse(&format!("<Cors>{}</Cors>", rule.repeat(5))).is_ok());
        assert!(parse(&format!("<Cors>{}</Cors>", rule.repeat(6))).is_err());
    }
}
