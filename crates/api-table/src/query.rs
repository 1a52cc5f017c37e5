//! Entities by a filter, in key order.
//!
//! The conditions of a filter on keys become ranges of the key order ([`lang::odata`]), which the
//! engine lists; the rest of the filter is tested on each entity. One entity is a point read,
//! entities of one partition are a scan of its rows, and all others are read from each range's
//! index in order.

use std::ops::Bound;
use std::sync::Arc;

use engine::listing::{IdBounds, ItemKey, ListedPage, Listing};
use engine::{Container, RequestContext, StoredItem};
use hyper::StatusCode;
use lang::odata::{EntityFilter, KeyRange, KeyRanges, Selection, check_option};
use model::edm::{item_id_of, row_key_of};
use model::{Charge, limits};

use crate::Flavour;
use crate::address::Keys;
use crate::auth::{GrantRange, RequiredPermission};
use crate::continuation::{key_of, token_of};
use crate::edm::{Form, Metadata, Output, write_list_end, write_list_start};
use crate::entities;
use crate::errors::TableError;
use crate::headers::name;
use crate::names;
use crate::options::Options;
use crate::reply::Reply;
use crate::request::{Request, TableContext};
use crate::service::Service;
use crate::stored;

/// Lists up to this size are written inline.
const INLINE_BYTES_MAX: usize = 128 * 1024;
/// Ranges that are read ahead to find out whether a full page is the last one.
const RANGES_AHEAD_MAX: usize = 16;

/// Refuses options that the service does not have.
pub(crate) fn check_options(options: &Options) -> Result<(), TableError> {
    options.names().try_for_each(|name| check_option(name).map_err(TableError::from))
}

/// The maximum number of entities or tables of a page.
pub(crate) fn top(options: &Options, flavour: Flavour) -> Result<Option<usize>, TableError> {
    let Some(text) = options.get("$top") else { return Ok(None) };
    let top: usize = text.trim().parse().map_err(|_| TableError::invalid_inputs())?;
    if flavour == Flavour::Storage && top > limits::TABLE_PAGE_ITEMS_MAX {
        return Err(TableError::invalid_inputs());
    }
    Ok(Some(top.min(limits::TABLE_PAGE_ITEMS_MAX)))
}

/// `GET /T()`.
pub(crate) async fn query(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
    table: &str,
) -> Result<Reply, TableError> {
    let context = &request.context;
    names::check_table(table, context.flavour)?;
    context.identity.check(RequiredPermission::ReadEntities, Some(table))?;
    let metadata = request.metadata()?;
    check_options(&request.options)?;
    let selection = Selection::parse(request.options.get("$select").unwrap_or_default())?;
    let filter = EntityFilter::compile(request.options.get("$filter").unwrap_or_default())?;
    let most = top(&request.options, context.flavour)?.unwrap_or(limits::TABLE_PAGE_ITEMS_MAX);
    let from = start_of(&request.options)?;
    let container = service.find_table(context, table)?;
    let result = if most == 0 {
        QueryResult::default()
    } else {
        let entity_query =
            EntityQuery { service, context, container: &container, filter: &filter, most };
        entity_query.run(ctx, from.as_ref()).await?
    };

    let plan = result.plan();
    let list = List {
        items: result.items,
        metadata,
        selection,
        service_url: context.service_url.clone(),
        account: context.account.clone(),
        table: table.to_owned(),
    };
    let body = list.written(service).await?;
    let reply = Reply::json(StatusCode::OK, metadata, body).header(name::PLAN, &plan);
    Ok(match result.next {
        Some(next) => reply
            .header(name::NEXT_PARTITION_KEY, &token_of(&next.key))
            .header(name::NEXT_ROW_KEY, &token_of(&next.id)),
        None => reply,
    })
}

/// Entities to be written into a reply.
struct List {
    items: Vec<StoredItem>,
    metadata: Metadata,
    selection: Selection,
    service_url: String,
    account: String,
    table: String,
}

impl List {
    /// The text of the list. A long one is written on another thread, so that other requests do not
    /// wait.
    async fn written(self, service: &Service) -> Result<Vec<u8>, TableError> {
        if self.bytes() <= INLINE_BYTES_MAX {
            return self.write();
        }
        let written = service.engine().run_blocking(move || Ok(self.write())).await;
        written.map_err(|error| TableError::internal(error.to_string()))?
    }

    fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.body().len()).sum()
    }

    fn write(&self) -> Result<Vec<u8>, TableError> {
        let Self { metadata, selection, service_url, account, table, .. } = self;
        let output = Output { metadata: *metadata, selection, service_url, account, table };
        let bytes = self.bytes();
        let mut body = Vec::with_capacity(128 + bytes + bytes / 2);
        write_list_start(*metadata, service_url, table, &mut body);
        for (n, item) in self.items.iter().enumerate() {
            if n > 0 {
                body.push(b',');
            }
            output.write(&stored::entity_of(item)?, Form::Member, &mut body);
        }
        write_list_end(&mut body);
        Ok(body)
    }
}

/// The keys at which a page begins, from the continuation of the previous page.
fn start_of(options: &Options) -> Result<Option<ItemKey>, TableError> {
    let key = options.get("NextPartitionKey").filter(|token| !token.is_empty());
    let id = options.get("NextRowKey").filter(|token| !token.is_empty());
    let Some(key) = key else { return Ok(None) };
    let id = id.map(key_of).transpose()?.unwrap_or_default();
    Ok(Some(ItemKey { key: key_of(key)?, id }))
}

/// The contents of a page.
#[derive(Default)]
struct QueryResult {
    items: Vec<StoredItem>,
    /// The keys at which the next page begins: partition key and row key.
    next: Option<ItemKey>,
    points: usize,
    scan_ranges: usize,
    ranges: usize,
    scans: usize,
}

impl QueryResult {
    /// Adds a page. Returns where the next one begins, if there is more in its range.
    fn take(&mut self, page: ListedPage) -> Option<ItemKey> {
        self.ranges += page.ranges;
        self.scans += usize::from(page.is_scanned);
        self.items.extend(page.items);
        page.next.map(|next| ItemKey { id: row_key_of(&next.id).to_owned(), ..next })
    }

    /// The access path, for people.
    fn plan(&self) -> String {
        let Self { points, scan_ranges, ranges, scans, .. } = self;
        let plan = format!("points={points};stretches={scan_ranges};ranges={ranges}");
        if *scans == 0 { plan } else { format!("{plan};scans={scans}") }
    }
}

/// A running query.
struct EntityQuery<'q> {
    service: &'q Service,
    context: &'q TableContext,
    container: &'q Arc<Container>,
    filter: &'q EntityFilter,
    most: usize,
}

impl EntityQuery<'_> {
    async fn run(
        &self,
        ctx: &mut RequestContext,
        from: Option<&ItemKey>,
    ) -> Result<QueryResult, TableError> {
        let (engine, flavour) = (self.service.engine(), self.context.flavour);
        let mut result = QueryResult::default();
        let mut charge = Charge::ZERO;
        let mut ranges_ahead = 0;
        for range in self.keys().as_slice() {
            let scan_range = ScanRange::of(range, from);
            let room = self.most - result.items.len();
            if room == 0 {
                ranges_ahead += 1;
            }
            if ranges_ahead > RANGES_AHEAD_MAX {
                result.next = Some(scan_range.from);
                break;
            }
            if scan_range.is_empty() {
                continue;
            }
            let start = scan_range.from.clone();
            let point = range.point().filter(|_| self.filter.is_exact() && room > 0);
            let next = if let Some((partition, row)) = point {
                result.points += 1;
                let keys = Keys { partition: partition.to_owned(), row: row.to_owned() };
                match entities::read(self.service, ctx, self.context, self.container, &keys) {
                    Ok(item) => {
                        result.items.push(item);
                        Ok(None)
                    }
                    Err(error) if error.code == "ResourceNotFound" => Ok(None),
                    Err(error) => Err(error),
                }
            } else {
                result.scan_ranges += 1;
                let listing = scan_range.listing(self.filter, room);
                let listable = match listing.is_within_one_partition() {
                    true => Ok(()),
                    false => self.service.make_listable(ctx, self.container).await,
                };
                match listable {
                    Ok(()) => match engine.list_in_key_order(ctx, self.container, listing).await {
                        Ok(page) => Ok(result.take(page)),
                        Err(error) => Err(TableError::of_entity(error, flavour)),
                    },
                    Err(error) => Err(TableError::of_table(error, flavour)),
                }
            };
            charge += ctx.served.charge;
            result.next = match next {
                // The client gets the entities read so far and continues with the rest.
                Err(error) if error.retry_after().is_some() && !result.items.is_empty() => {
                    Some(start)
                }
                next => next?,
            };
            if result.next.is_some() {
                break;
            }
        }
        ctx.served.charge = charge;
        Ok(result)
    }

    /// The keys of entities that can match and that the caller may read.
    fn keys(&self) -> KeyRanges {
        let keys = self.filter.keys().clone();
        let Some(GrantRange { first, last }) = self.context.identity.key_range() else {
            return keys;
        };
        keys.intersection(&KeyRanges::between(
            first.as_ref().map(|(p, r)| (p.as_str(), r.as_deref())),
            last.as_ref().map(|(p, r)| (p.as_str(), r.as_deref())),
        ))
    }
}

/// A range of the key order, and bounds of row keys within it.
struct ScanRange {
    from: ItemKey,
    end: Option<ItemKey>,
    rows: (Bound<String>, Bound<String>),
}

impl ScanRange {
    /// The part of a range from the given keys on.
    fn of(range: &KeyRange, from: Option<&ItemKey>) -> Self {
        let (first, last) = (&range.partition, &range.row);
        let lower = match (&first.lower, &last.lower) {
            (Bound::Unbounded, _) => ItemKey::default(),
            (Bound::Excluded(key), _) => ItemKey::after_partition(key.clone()),
            (Bound::Included(key), Bound::Unbounded) => {
                ItemKey { key: key.clone(), id: String::new() }
            }
            (Bound::Included(key), Bound::Included(row)) => {
                ItemKey { key: key.clone(), id: row.clone() }
            }
            (Bound::Included(key), Bound::Excluded(row)) => {
                ItemKey { key: key.clone(), id: row.clone() }.successor()
            }
        };
        let end = match (&first.upper, &last.upper) {
            (Bound::Unbounded, _) => None,
            (Bound::Excluded(key), _) => Some(ItemKey { key: key.clone(), id: String::new() }),
            (Bound::Included(key), Bound::Unbounded) => Some(ItemKey::after_partition(key.clone())),
            (Bound::Included(key), Bound::Included(row)) => {
                Some(ItemKey { key: key.clone(), id: row.clone() }.successor())
            }
            (Bound::Included(key), Bound::Excluded(row)) => {
                Some(ItemKey { key: key.clone(), id: row.clone() })
            }
        };
        let from = from.filter(|from| **from > lower).cloned().unwrap_or(lower);
        Self { from, end, rows: (last.lower.clone(), last.upper.clone()) }
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.from)
    }

    /// The same range in terms of items, whose ids have the order of row keys.
    fn listing(self, filter: &EntityFilter, items_max: usize) -> Listing {
        let id_of = |row: String| match row.is_empty() {
            // No id is smaller than that of the empty row key.
            true => row,
            false => item_id_of(&row).into_owned(),
        };
        let key_of = |key: ItemKey| ItemKey { id: id_of(key.id), key: key.key };
        let bound_of = |bound: Bound<String>| bound.map(|row| item_id_of(&row).into_owned());
        Listing {
            from: key_of(self.from),
            end: self.end.map(key_of),
            ids: IdBounds(bound_of(self.rows.0), bound_of(self.rows.1)),
            filter: (!filter.is_exact()).then(|| filter.plan().clone()),
            items_max,
        }
    }
}
