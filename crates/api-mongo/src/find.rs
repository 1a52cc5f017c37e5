//! Finding documents: from a filter to the items of a collection that it accepts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use engine::ops::{AccessPathKind, Page, PageRequest, Row, Scope};
use engine::{BodyFormat, Container, Error, RequestContext, StoredItem};
use lang::mongo::CompileOptions;
use lang::mongo::filter::FilterOptions;
use lang::mongo::find::{self as mongo_find, Find, FindRequest};
use lang::mongo::projection::{self, ProjectionOptions, Rules};
use model::{Date, Object, Value, bson};
use query::document::projection::Projection;
use query::document::{Failure, FindClauses, FirstFailure, Predicate, Variables, find_plan};
use query::{EvalError, Plan};

use crate::collections::{document_of, to_bytes, tree_of, whole};
use crate::command::Command;
use crate::errors::codes as code;
use crate::sort::Sort;
use crate::throttle_wait::ThrottleWait;
use crate::{MongoError, Service};

/// Items of one page of a scan. So many are more than those that come in the order of their
/// creation and continue, so that all pages are in the order of keys.
const PAGE_ITEMS: usize = 1_000;
/// Most bytes of documents that are sorted.
const SORTED_BYTES_MAX: usize = 100 << 20;

impl From<Failure> for MongoError {
    fn from(failure: Failure) -> Self {
        MongoError::new(failure.code, failure.message)
    }
}

/// Which documents are meant.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) predicate: Arc<Predicate>,
    pub(crate) variables: Arc<Variables>,
    accepts_all: bool,
    /// What the engine runs to find all of them.
    plan: Plan,
    /// Why that failed, if it did.
    failure: FirstFailure,
    source: Object,
    options: CompileOptions,
    /// The index to use.
    hint: Option<String>,
    /// Their ids, where the filter names them.
    ids: Option<Vec<Value>>,
}

/// Names and values of `let`.
pub(crate) fn variables_of(
    service: &Service,
    command: &Command,
) -> Result<(CompileOptions, Variables), MongoError> {
    let now = service.engine.components().clock.now();
    let millis = i64::try_from(now.0).unwrap_or(i64::MAX);
    let mut variables = Variables::at(Date { millis, ticks: 0 });
    let mut options = CompileOptions::default();
    if let Some(values) = command.object("let") {
        let root = Value::Object(Object::new());
        let mut slots = Vec::new();
        for (_, value) in values.iter() {
            let value = lang::mongo::expression::compile(value, &CompileOptions::default())?;
            let scope = query::document::Scope::new(&root, &variables);
            slots.push(value.evaluate(&scope)?);
        }
        options = options.with_variables(values.iter().map(|(name, _)| name.to_owned()));
        variables.slots = slots;
    }
    Ok((options, variables))
}

impl Filter {
    /// Compiles a filter.
    pub(crate) fn new(
        filter: &Object,
        options: &CompileOptions,
        variables: &Variables,
    ) -> Result<Self, MongoError> {
        let variables = Arc::new(variables.clone());
        let request = FindRequest { filter: Some(filter), ..FindRequest::default() };
        let find = mongo_find::compile(&request, &FilterOptions::new(options), &variables)?;
        let Find { plan, filter: predicate, failure } = find;
        let (accepts_all, ids) = (filter.is_empty(), named_ids(filter));
        let (source, options) = (filter.clone(), options.clone());
        Ok(Self {
            predicate,
            variables,
            accepts_all,
            plan,
            failure,
            source,
            options,
            hint: None,
            ids,
        })
    }

    /// A filter that is compiled; none accepts all.
    pub(crate) fn of_predicate(predicate: Option<Arc<Predicate>>, variables: &Variables) -> Self {
        let (variables, failure) = (Arc::new(variables.clone()), FirstFailure::default());
        let accepts_all = predicate.is_none();
        let clauses = FindClauses { filter: predicate.clone(), ..FindClauses::default() };
        let plan = find_plan(clauses, &variables, &failure);
        let predicate = predicate.unwrap_or_else(|| Arc::new(Predicate::And(Vec::new())));
        let (source, options, ids) = (Object::new(), CompileOptions::default(), None);
        Self { predicate, variables, accepts_all, plan, failure, source, options, hint: None, ids }
    }

    /// The same, by this index.
    pub(crate) fn hinted(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// The same, in an order and a window.
    fn ordered(&self, sort: &Object, skip: u64, limit: u64) -> Result<Self, MongoError> {
        let request = FindRequest { filter: Some(&self.source), sort: Some(sort), skip, limit };
        let options = FilterOptions::new(&self.options);
        let Find { plan, failure, .. } = mongo_find::compile(&request, &options, &self.variables)?;
        Ok(Self { plan, failure, ..self.clone() })
    }

    /// An item, if it accepts it.
    pub(crate) fn check(&self, item: StoredItem) -> Result<Option<Found>, MongoError> {
        let document = document_of(&item)?;
        if self.accepts_all {
            return Ok(Some(Found { item, document, tree: None }));
        }
        let tree = self.accepts(&document)?;
        Ok(tree.map(|tree| Found { item, document, tree: Some(tree) }))
    }

    fn accepts(&self, document: &Bytes) -> Result<Option<Value>, MongoError> {
        let tree = tree_of(document)?;
        let is_match = self.predicate.matches(&tree, &self.variables)?;
        Ok(is_match.then_some(tree))
    }
}

/// Whether an object has operators rather than being a value.
fn has_operators(object: &Object) -> bool {
    object.iter().next().is_some_and(|(name, _)| name.starts_with('$'))
}

/// The ids that a filter names: it accepts no document with another.
fn named_ids(filter: &Object) -> Option<Vec<Value>> {
    let is_plain = |value: &Value| {
        !matches!(value, Value::Regex { .. } | Value::Array(_) | Value::Undefined | Value::Null)
    };
    let id = filter.get("_id")?;
    let Some(operators) = id.as_object().filter(|object| has_operators(object)) else {
        return is_plain(id).then(|| vec![id.clone()]);
    };
    match operators.iter().next()? {
        ("$eq", value) if is_plain(value) => Some(vec![value.clone()]),
        ("$in", Value::Array(values)) if values.iter().all(is_plain) => Some(values.clone()),
        _ => None,
    }
}

/// A document that a filter accepts.
pub(crate) struct Found {
    pub(crate) item: StoredItem,
    pub(crate) document: Bytes,
    /// As a tree, if the filter needed it.
    pub(crate) tree: Option<Value>,
}

/// The documents of a collection that a filter accepts, page by page. It holds no view of the
/// collection between two pages.
#[derive(Clone)]
pub(crate) struct Search {
    container: Arc<Container>,
    filter: Filter,
    /// Whether the documents come in an order that was asked for, and as many as were.
    is_ordered: bool,
    position: Position,
}

#[derive(Clone, Debug, PartialEq)]
enum Position {
    Start,
    After(String),
    End,
}

impl Search {
    pub(crate) fn new(container: Arc<Container>, filter: Filter) -> Self {
        Self { container, filter, is_ordered: false, position: Position::Start }
    }

    /// The documents that a filter accepts, in an order. The engine finds them in it if an index
    /// has it, or if they fit into one page.
    pub(crate) async fn ordered(
        service: &Service,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        filter: &Filter,
        (sort, skip, limit): (&Object, u64, u64),
    ) -> Result<Option<Self>, MongoError> {
        if container.spec.body != BodyFormat::Bson {
            return Ok(None);
        }
        let filter = filter.ordered(sort, skip, limit)?;
        let (container, position) = (Arc::clone(container), Position::Start);
        let search = Self { container, filter, is_ordered: true, position };
        let is_page = limit > 0 && skip.saturating_add(limit) <= PAGE_ITEMS as u64;
        if is_page || search.is_in_index_order(service, ctx).await? {
            return Ok(Some(search));
        }
        Ok(None)
    }

    /// Whether the documents are found in their order, without reading all of them first.
    async fn is_in_index_order(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
    ) -> Result<bool, MongoError> {
        let request =
            PageRequest { items_max: Some(1), wants_report: true, ..PageRequest::default() };
        let page = self.query(service, ctx, request).await?;
        let path = page.report.map(|report| report.access_path);
        Ok(match path {
            Some(AccessPathKind::InIndexOrder(_) | AccessPathKind::FirstInIndexOrder(_)) => true,
            Some(
                AccessPathKind::NoItems
                | AccessPathKind::InStorageOrder
                | AccessPathKind::Sorted
                | AccessPathKind::Counted,
            )
            | None => false,
        })
    }

    /// A page of the engine.
    async fn query(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        request: PageRequest,
    ) -> Result<Page, MongoError> {
        let mut throttle_wait = ThrottleWait::new(service, ctx);
        let request = PageRequest { index_hint: self.filter.hint.clone(), ..request };
        loop {
            let (plan, request) = (self.filter.plan.clone(), request.clone());
            let page = service.engine.query(ctx, &self.container, plan, Scope::All, request);
            match page.await {
                Ok(page) => return Ok(page),
                Err(Error::Evaluation(EvalError::Document))
                    if let Some(failure) = self.filter.failure.get() =>
                {
                    return Err(failure.clone().into());
                }
                Err(error) => throttle_wait.wait(error).await?,
            }
        }
    }

    /// Whether there are no more pages.
    pub(crate) fn is_over(&self) -> bool {
        self.position == Position::End
    }

    /// The documents of the next page.
    pub(crate) async fn page(
        &mut self,
        service: &Service,
        ctx: &mut RequestContext,
    ) -> Result<Vec<Found>, MongoError> {
        let continuation = match &self.position {
            Position::Start => None,
            Position::After(token) => Some(token.clone()),
            Position::End => return Ok(Vec::new()),
        };
        let is_unsharded = self.container.spec.partition_key.is_system;
        let is_own = self.container.spec.body == BodyFormat::Bson;
        if let Some(ids) = self.filter.ids.clone()
            && is_unsharded
            && is_own
            && !self.is_ordered
        {
            self.position = Position::End;
            return self.named(service, ctx, &ids).await;
        }
        service.check_time(ctx)?;
        let request =
            PageRequest { items_max: Some(PAGE_ITEMS), continuation, ..PageRequest::default() };
        let page = match is_own {
            true => self.query(service, ctx, request).await?,
            false => self.list(service, ctx, request).await?,
        };
        self.position = page.continuation.map_or(Position::End, Position::After);
        let items = page.rows.into_iter().filter_map(|row| match row {
            Row::Item(item) => Some(item),
            Row::Json(_) => None,
        });
        let mut items = items.collect::<Vec<_>>();
        if is_unsharded && !self.is_ordered {
            // A result that ends within its first page comes in the order of creation.
            items.sort_by(|a, b| a.row_key().as_bytes().cmp(b.row_key().as_bytes()));
        }
        let found = items.into_iter().map(|item| match is_own {
            // The engine has applied the filter.
            true => Ok(Some(Found { document: document_of(&item)?, item, tree: None })),
            false => self.filter.check(item),
        });
        found.filter_map(Result::transpose).collect()
    }

    /// A page of a container of another API, whose items are no documents yet.
    async fn list(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        request: PageRequest,
    ) -> Result<Page, MongoError> {
        let mut throttle_wait = ThrottleWait::new(service, ctx);
        loop {
            let (container, request) = (&self.container, request.clone());
            match service.engine.list_items(ctx, container, Scope::All, request).await {
                Ok(page) => return Ok(page),
                Err(error) => throttle_wait.wait(error).await?,
            }
        }
    }

    /// The documents with these ids, in the order of ids.
    async fn named(
        &self,
        service: &Service,
        ctx: &mut RequestContext,
        ids: &[Value],
    ) -> Result<Vec<Found>, MongoError> {
        // What can't be an id is none of a document.
        let mut keys = ids.iter().filter_map(|id| bson::row_key(id).ok()).collect::<Vec<_>>();
        keys.sort();
        keys.dedup();
        let mut found = Vec::new();
        for key in keys {
            let mut throttle_wait = ThrottleWait::new(service, ctx);
            loop {
                match service.engine.read_item(ctx, &self.container, &whole(), &key, None) {
                    Ok(item) => found.extend(self.filter.check(item)?),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => {
                        throttle_wait.wait(error).await?;
                        continue;
                    }
                }
                break;
            }
        }
        Ok(found)
    }
}

impl Found {
    /// The document as a tree.
    pub(crate) fn into_tree(self) -> Result<Value, MongoError> {
        match self.tree {
            Some(tree) => Ok(tree),
            None => tree_of(&self.document),
        }
    }
}

/// A result that is read on as its client asks for more: filtered, projected, cut.
pub(crate) struct Scan {
    search: Search,
    projection: Option<Arc<Projection>>,
    variables: Arc<Variables>,
    skip: u64,
    /// How many more documents there may be.
    left: u64,
    /// Documents of the last page that were not given out.
    ready: VecDeque<Bytes>,
}

impl Scan {
    /// Bytes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.ready.iter().map(Bytes::len).sum::<usize>() + 1024
    }

    /// Whether it has no more documents, as far as is known.
    pub(crate) fn is_over(&self) -> bool {
        self.ready.is_empty() && (self.search.is_over() || self.left == 0)
    }

    /// Reads until a document is there, or none is left.
    pub(crate) async fn fill(
        &mut self,
        service: &Service,
        ctx: &mut RequestContext,
    ) -> Result<(), MongoError> {
        while self.ready.is_empty() && self.left > 0 && !self.search.is_over() {
            for found in self.search.page(service, ctx).await? {
                if self.skip > 0 {
                    self.skip -= 1;
                } else if self.left > 0 {
                    self.left -= 1;
                    self.ready.push_back(project(
                        self.projection.as_deref(),
                        &self.variables,
                        found,
                    )?);
                }
            }
        }
        Ok(())
    }

    /// The next document that was read.
    pub(crate) fn next_ready(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// The size of the next document that was read.
    pub(crate) fn next_bytes(&self) -> Option<usize> {
        self.ready.front().map(Bytes::len)
    }
}

fn project(
    projection: Option<&Projection>,
    variables: &Variables,
    found: Found,
) -> Result<Bytes, MongoError> {
    let Some(projection) = projection else { return Ok(found.document) };
    to_bytes(&projection.apply(&found.into_tree()?, variables)?)
}

/// The result of a search: to be read on, or complete.
pub(crate) enum Outcome {
    Scan(Box<Scan>),
    Documents(VecDeque<Bytes>),
}

/// What is asked of the documents that were found.
pub(crate) struct Shape {
    pub(crate) projection: Option<Arc<Projection>>,
    pub(crate) sort: Option<Object>,
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
}

impl Shape {
    /// All of them, whole.
    pub(crate) fn whole() -> Self {
        Self { projection: None, sort: None, skip: 0, limit: None }
    }
}

/// Compiles a projection.
pub(crate) fn projection(
    specification: Option<&Object>,
    predicate: &Arc<Predicate>,
    options: &CompileOptions,
) -> Result<Option<Arc<Projection>>, MongoError> {
    let Some(specification) = specification.filter(|it| !it.is_empty()) else { return Ok(None) };
    let filter = FilterOptions::new(options);
    let options = ProjectionOptions { rules: Rules::Find(Some(predicate)), filter };
    Ok(Some(Arc::new(projection::compile(specification, &options)?)))
}

/// Finds documents in this form.
pub(crate) async fn find(
    service: &Service,
    ctx: &mut RequestContext,
    search: Search,
    shape: Shape,
) -> Result<Outcome, MongoError> {
    let variables = Arc::clone(&search.filter.variables);
    let Shape { projection, sort, skip, limit } = shape;
    let left = limit.unwrap_or(u64::MAX);
    let scan = |search, skip, left| {
        let (projection, ready) = (projection.clone(), VecDeque::new());
        let variables = Arc::clone(&variables);
        Outcome::Scan(Box::new(Scan { search, projection, variables, skip, left, ready }))
    };
    let Some(sort) = sort.filter(|sort| !sort.is_empty()) else {
        return Ok(scan(search, skip, left));
    };
    let window = (&sort, skip, limit.unwrap_or_default());
    let ordered = Search::ordered(service, ctx, &search.container, &search.filter, window).await?;
    if let Some(ordered) = ordered {
        return Ok(scan(ordered, 0, u64::MAX));
    }
    let Some(sort) = Sort::read(&sort)? else { return Ok(scan(search, skip, left)) };
    let kept_max = usize::try_from(skip.saturating_add(left)).unwrap_or(usize::MAX);
    let sorted = sorted(service, ctx, search, &sort, kept_max).await?;
    let skipped = usize::try_from(skip).unwrap_or(usize::MAX);
    let documents = sorted
        .into_iter()
        .skip(skipped)
        .map(|found| project(projection.as_deref(), &variables, found));
    Ok(Outcome::Documents(documents.collect::<Result<_, _>>()?))
}

/// The first document that a filter accepts, in an order if one is given.
pub(crate) async fn first(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    filter: &Filter,
    sort: Option<&Object>,
) -> Result<Option<Found>, MongoError> {
    let mut search = Search::new(Arc::clone(container), filter.clone());
    if let Some(sort) = sort.filter(|sort| !sort.is_empty())
        && let Some(ordered) =
            Search::ordered(service, ctx, container, filter, (sort, 0, 1)).await?
    {
        search = ordered;
    }
    while !search.is_over() {
        if let Some(found) = search.page(service, ctx).await?.into_iter().next() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The first documents in an order. Those that are equal stay in the order in which they were found.
async fn sorted(
    service: &Service,
    ctx: &mut RequestContext,
    mut search: Search,
    sort: &Sort,
    kept_max: usize,
) -> Result<Vec<Found>, MongoError> {
    let mut kept: Vec<(Vec<Value>, Found)> = Vec::new();
    let mut bytes = 0;
    while !search.is_over() {
        for found in search.page(service, ctx).await? {
            let key = match &found.tree {
                Some(tree) => sort.key(tree),
                None => sort.key(&tree_of(&found.document)?),
            };
            bytes += found.document.len();
            // Only the bytes are kept; what is in order is made a tree again if need be.
            kept.push((key, Found { tree: None, ..found }));
        }
        if kept.len() / 2 > kept_max || bytes > SORTED_BYTES_MAX {
            kept.sort_by(|(a, _), (b, _)| sort.compare(a, b));
            kept.truncate(kept_max);
            bytes = kept.iter().map(|(_, found)| found.document.len()).sum();
        }
        if bytes > SORTED_BYTES_MAX {
            return Err(MongoError::new(
                code::MEMORY_LIMIT_NO_DISK_USE,
                format!("Sort exceeded memory limit of {SORTED_BYTES_MAX} bytes"),
            ));
        }
    }
    kept.sort_by(|(a, _), (b, _)| sort.compare(a, b));
    kept.truncate(kept_max);
    Ok(kept.into_iter().map(|(_, found)| found).collect())
}
