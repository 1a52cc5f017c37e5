//! The collection object of scripts: a transaction with links, options and error numbers.

use std::sync::Arc;

use bytes::Bytes;
use engine::components::Random;
use engine::ops::{EtagCondition, ItemBody, ItemOp, ItemOutcome, Page, PageRequest, Row};
use engine::transaction::Transaction;
use engine::{Container, StoredItem};
use hashbrown::HashMap;
use lang::nosql::Environment;
use model::{DocumentRid, Object, Value, json, limits};
use script::{Host, HostCall, HostError, HostOperation, HostReply, SpatialFunction};

use crate::Service;
use crate::errors::ApiError;
use crate::payload;
use crate::query;
use crate::query_text::QueryText;
use crate::script_functions::QueryFunctions;
use crate::system_properties;

/// Deepest nesting of a call's options.
const OPTIONS_DEPTH_MAX: usize = 16;

/// What the option `indexAction` of a write may say.
const INDEX_ACTIONS: [&str; 3] = ["default", "include", "exclude"];

/// A container in the form that scripts see, for one run.
pub(crate) struct ScriptHost {
    transaction: Option<Transaction>,
    container: Arc<Container>,
    environment: Environment,
    functions: QueryFunctions,
    random: Arc<dyn Random>,
    /// Ids of items that the script received, by item number: scripts name items by resource ids.
    ids: HashMap<u64, String>,
    size_mb: u64,
}

impl ScriptHost {
    pub(crate) fn new(
        service: &Service,
        container: &Arc<Container>,
        transaction: Transaction,
    ) -> Self {
        let (_, bytes) = container.stored();
        let functions = QueryFunctions::of(service, container);
        Self {
            transaction: Some(transaction),
            environment: query::environment(service, container, &functions),
            functions,
            random: Arc::clone(&service.engine().components().random),
            container: Arc::clone(container),
            ids: HashMap::new(),
            size_mb: bytes.div_ceil(1024 * 1024),
        }
    }

    /// The transaction, unless the host has ended.
    pub(crate) fn transaction(&mut self) -> Result<&mut Transaction, ApiError> {
        self.transaction.as_mut().ok_or_else(ApiError::internal)
    }

    /// Ends the host and returns its transaction.
    pub(crate) fn end(&mut self) -> Transaction {
        self.transaction.take().expect("a host ends once")
    }

    /// The item with this id, if there is one.
    pub(crate) fn item(&mut self, id: &str) -> Result<Option<StoredItem>, ApiError> {
        let read = ItemOp::Read { id: id.into(), if_none_match: None };
        match self.transaction()?.apply(read) {
            Ok(outcome) => {
                let item = outcome.item().cloned();
                if let Some(item) = &item {
                    self.ids.insert(item.rid().number, item.id().into_owned());
                }
                Ok(item)
            }
            Err(engine::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&mut self, op: ItemOp) -> Result<HostReply, ApiError> {
        let outcome = match self.transaction()?.apply(op) {
            Err(engine::Error::NotModified { .. }) => {
                return Ok(HostReply { status: 304, not_modified: true, ..HostReply::default() });
            }
            outcome => outcome?,
        };
        let status = match &outcome {
            ItemOutcome::Created(_) => 201,
            ItemOutcome::Replaced(_) | ItemOutcome::Read(_) => 200,
            ItemOutcome::Deleted => 204,
            // Scripts make no updates that are code.
            ItemOutcome::Updated { .. } | ItemOutcome::Repeated(_) => {
                return Err(ApiError::internal());
            }
        };
        let body = outcome.item().map(|item| self.show(item)).transpose()?;
        Ok(HostReply { status, body, ..HostReply::default() })
    }

    fn page(&mut self, plan: ::query::Plan, request: PageRequest) -> Result<HostReply, ApiError> {
        let page = self.transaction()?.query(plan, request);
        let page = page.map_err(|error| self.functions.explain(error))?;
        let Page { rows, continuation, .. } = page;
        let mut out = Vec::with_capacity(64 + 512 * rows.len());
        out.push(b'[');
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            match row {
                Row::Item(item) => {
                    self.ids.insert(item.rid().number, item.id().into_owned());
                    system_properties::write_item(item, &mut out);
                }
                Row::Json(text) => out.extend_from_slice(text),
            }
        }
        out.push(b']');
        Ok(HostReply { status: 200, body: Some(text(out)?), continuation, not_modified: false })
    }

    /// An item in the form that scripts receive.
    fn show(&mut self, item: &StoredItem) -> Result<String, ApiError> {
        self.ids.insert(item.rid().number, item.id().into_owned());
        item_text(item)
    }

    /// The body of a new item, with a generated id if it has none.
    fn new_body(&self, body: Option<String>, options: &Options) -> Result<ItemBody, ApiError> {
        let body = payload::item_of_text(Bytes::from(body.unwrap_or_default()))?;
        if body.value().field("id").is_some() || options.is_set("disableAutomaticIdGeneration") {
            return Ok(body);
        }
        let mut fields = body.value().as_object().cloned().unwrap_or_default();
        fields.insert("id", new_id(self.random.as_ref()).into());
        payload::item_of_value(fields.into())
    }

    fn check_collection(&self, link: &str) -> Result<(), ApiError> {
        let link = link.trim_matches('/');
        match self.links().iter().any(|own| own.trim_matches('/') == link) {
            true => Ok(()),
            false => Err(foreign_link(link)),
        }
    }

    /// The id of the item that a link names.
    fn id_of(&mut self, link: &str) -> Result<String, ApiError> {
        let link = link.trim_matches('/');
        let below = |collection: &str| {
            let rest = link.strip_prefix(collection.trim_matches('/'))?;
            rest.strip_prefix("/docs/").map(str::to_owned)
        };
        let [by_rid, by_name] = self.links();
        if let Some(id) = below(&by_name) {
            return Ok(id);
        }
        let rid = below(&by_rid)
            .and_then(|rid| DocumentRid::parse(&rid))
            .filter(|rid| rid.container == self.container.rid)
            .ok_or_else(|| foreign_link(link))?;
        match self.ids.get(&rid.number) {
            Some(id) => Ok(id.clone()),
            None => self.id_behind(rid),
        }
    }

    /// Scans the logical partition for the item with this resource id.
    fn id_behind(&mut self, rid: DocumentRid) -> Result<String, ApiError> {
        let mut request = PageRequest::default();
        loop {
            let page = self.transaction()?.query(::query::Plan::all_items(), request)?;
            for row in &page.rows {
                if let Row::Item(item) = row {
                    self.ids.insert(item.rid().number, item.id().into_owned());
                }
            }
            if let Some(id) = self.ids.get(&rid.number) {
                return Ok(id.clone());
            }
            if page.continuation.is_none() {
                return Err(ApiError::missing(model::ErrorKind::NotFound));
            }
            request = PageRequest { continuation: page.continuation, ..PageRequest::default() };
        }
    }
}

impl Host for ScriptHost {
    fn links(&self) -> [String; 2] {
        let rid = self.container.rid;
        let by_rid = format!("dbs/{}/colls/{rid}/", rid.database);
        [by_rid, format!("dbs/{}/colls/{}", self.container.database_id, self.container.spec.id)]
    }

    fn size_mb(&self) -> u64 {
        self.size_mb
    }

    fn accepts(&self) -> bool {
        self.transaction.as_ref().is_some_and(Transaction::has_room)
    }

    fn spatial(&self, question: SpatialFunction, args: &str) -> Option<String> {
        let name = match question {
            SpatialFunction::Distance => "ST_DISTANCE",
            SpatialFunction::Within => "ST_WITHIN",
            SpatialFunction::Intersects => "ST_INTERSECTS",
            SpatialFunction::IsValid => "ST_ISVALID",
            SpatialFunction::IsValidDetailed => "ST_ISVALIDDETAILED",
        };
        let function = ::query::functions::lookup_in(name, self.environment.geospatial)?;
        let Ok(Value::Array(args)) =
            json::parse(args.as_bytes(), limits::ITEM_DEPTH_MAX).map(|parsed| parsed.value)
        else {
            return None;
        };
        let args: Vec<_> = args.into_iter().map(Some).collect();
        function.apply(&args).ok().flatten().map(|answer| json::to_string(&answer))
    }

    fn call(&mut self, call: HostCall) -> Result<HostReply, HostError> {
        let options = Options::parse(&call.options)?;
        options.check_index_action()?;
        let if_match = options.condition("etag")?;
        let reply = match call.operation {
            HostOperation::Create => {
                self.check_collection(&call.link)?;
                let body = self.new_body(call.body, &options)?;
                self.write(ItemOp::Create { body })
            }
            HostOperation::Upsert => {
                self.check_collection(&call.link)?;
                let body = self.new_body(call.body, &options)?;
                self.write(ItemOp::Upsert { body, if_match })
            }
            HostOperation::Replace => {
                let id = self.id_of(&call.link)?;
                let body = payload::item_of_text(Bytes::from(call.body.unwrap_or_default()))?;
                self.write(ItemOp::Replace { id: id.into(), body, if_match })
            }
            HostOperation::Delete => {
                let id = self.id_of(&call.link)?;
                self.write(ItemOp::Delete { id: id.into(), if_match })
            }
            HostOperation::Read => {
                let id = self.id_of(&call.link)?;
                let if_none_match = options.condition("ifNoneMatch")?;
                self.write(ItemOp::Read { id: id.into(), if_none_match })
            }
            HostOperation::List => {
                self.check_collection(&call.link)?;
                self.page(::query::Plan::all_items(), options.page()?)
            }
            HostOperation::Query => {
                self.check_collection(&call.link)?;
                let text = call.body.unwrap_or_default();
                let query = json::parse(text.as_bytes(), limits::ITEM_DEPTH_MAX)
                    .map_err(|error| ApiError::bad_request(error.to_string()))?;
                let query = QueryText::from_value(query.value)?;
                let plan = query.compile(&self.environment)?;
                self.page(plan, options.page()?)
            }
        };
        Ok(reply?)
    }
}

impl From<ApiError> for HostError {
    fn from(error: ApiError) -> Self {
        HostError { number: error.status(), message: error.message().to_owned() }
    }
}

/// The options of a script's call.
struct Options(Object);

impl Options {
    fn parse(text: &str) -> Result<Self, ApiError> {
        match json::parse(text.as_bytes(), OPTIONS_DEPTH_MAX).map(|parsed| parsed.value) {
            Ok(Value::Object(options)) => Ok(Self(options)),
            Ok(_) | Err(_) => Err(ApiError::bad_request("The options are not valid.")),
        }
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn condition(&self, name: &str) -> Result<Option<EtagCondition>, ApiError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(EtagCondition::parse(text))),
            Some(_) => Err(ApiError::bad_request(format!("The option '{name}' must be a string."))),
        }
    }

    /// Indexing follows the policy of the container alone, but its names are known.
    fn check_index_action(&self) -> Result<(), ApiError> {
        match self.0.get("indexAction") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(action))
                if INDEX_ACTIONS.iter().any(|known| known.eq_ignore_ascii_case(action)) =>
            {
                Ok(())
            }
            Some(_) => Err(ApiError::bad_request("The option 'indexAction' is not valid.")),
        }
    }

    fn page(&self) -> Result<PageRequest, ApiError> {
        let items_max = match self.0.get("pageSize") {
            None | Some(Value::Null) => None,
            Some(size) => match size.as_i64() {
                Some(-1) => Some(limits::PAGE_ITEMS_MAX),
                Some(size) if size > 0 => usize::try_from(size).ok(),
                Some(_) | None => {
                    return Err(ApiError::bad_request("The option 'pageSize' must be positive."));
                }
            },
        };
        let continuation = match self.0.get("continuation") {
            None | Some(Value::Null) => None,
            Some(Value::String(token)) => Some(token.clone()).filter(|token| !token.is_empty()),
            Some(_) => return Err(ApiError::bad_request("Invalid Continuation Token")),
        };
        Ok(PageRequest { items_max, continuation, ..PageRequest::default() })
    }
}

/// An item as JSON text, with its system properties.
pub(crate) fn item_text(item: &StoredItem) -> Result<String, ApiError> {
    text(system_properties::text_of(item))
}

fn text(bytes: Vec<u8>) -> Result<String, ApiError> {
    String::from_utf8(bytes).map_err(|_| ApiError::internal())
}

fn foreign_link(link: &str) -> ApiError {
    let shown: String = link.chars().take(128).collect();
    ApiError::bad_request(format!("The link '{shown}' is not of the collection of the script."))
}

/// A unique id in the form of a version 4 GUID.
fn new_id(random: &dyn Random) -> String {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}
