//! Stored procedures that every container has, beside the one in [`crate::execute`].

use std::sync::Arc;

use engine::ops::ItemOp;
use engine::{Container, RequestContext};
use model::{ErrorKind, Object, Value, json};

use crate::errors::ApiError;
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, payload, resource, scope};

/// What the old bulk executor inserts with. Its items have any keys of one range, so it is not one
/// transaction as other procedures are: what was inserted before a failure stays.
pub(crate) const BULK_INSERT: &str = "__.sys.commonBulkInsert";

/// Most items of one call.
const ITEMS_MAX: usize = 10_000;

/// `POST .../sprocs/__.sys.commonBulkInsert` with `[[item, ...], {"softStopOnConflict": true, ...}]`
pub(crate) async fn bulk_insert(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    let range = scope::range_id(request)?;
    let Value::Array(args) = payload::value(&request.body)? else { return Err(bad_arguments()) };
    let mut args = args.into_iter();
    let Some(Value::Array(items)) = args.next().filter(|_| args.len() <= 1) else {
        return Err(bad_arguments());
    };
    if items.len() > ITEMS_MAX {
        return Err(payload::invalid(format!("a bulk insert has at most {ITEMS_MAX} items")));
    }
    let options = args.next().unwrap_or(Value::Null);
    let is_set = |name: &str| options.field(name).and_then(Value::as_bool).unwrap_or(false);
    let (upserts, stops_softly) = (is_set("enableUpsert"), is_set("softStopOnConflict"));
    let mut inserted = 0;
    for item in items {
        let body = if let Value::String(text) = item {
            payload::item_of_text(text.into_bytes().into())?
        } else {
            payload::item_of_value(item)?
        };
        let op = match upserts {
            true => ItemOp::Upsert { body, if_match: None },
            false => ItemOp::Create { body },
        };
        let done = service.engine().bulk(ctx, container, range, vec![(None, op)]).await?;
        let outcome = done.into_iter().next().ok_or_else(ApiError::internal)?.outcome;
        match outcome.map_err(ApiError::from) {
            Ok(_) => inserted += 1,
            Err(error) if stops_softly && error.kind() == ErrorKind::AlreadyExists => {
                return Ok(result(inserted, error.status()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(result(inserted, 0))
}

fn result(inserted: u64, error: u16) -> Reply {
    let mut out = Object::with_capacity(2);
    out.insert("count", resource::int(inserted));
    out.insert("errorCode", resource::int(error.into()));
    Reply::ok(json::to_string(&out.into()))
}

fn bad_arguments() -> ApiError {
    payload::invalid("a bulk insert takes an array of items and an object of options")
}
