//! Queries over the change feed, which choose among the changes of a page.
//!
//! A client posts `{"query": "SELECT * FROM c WHERE ...", "enableQueryOnPreviousImage": true}` where
//! it would otherwise read the feed. The condition is that of the item after the change; of a
//! delete, if the client wants that, that of the item before it.

use std::sync::Arc;

use engine::Container;
use engine::changes::ItemChange;
use model::Value;
use query::Plan;

use crate::errors::ApiError;
use crate::query_text::QueryText;
use crate::request::Request;
use crate::script_functions::QueryFunctions;
use crate::{Service, payload, query as items_query, system_properties};

/// Which changes a client wants.
pub(crate) struct ChangeFilter {
    plan: Plan,
    /// Whether deletes are judged by the item before them, instead of being left out.
    has_deletes: bool,
}

impl ChangeFilter {
    /// The filter in the body of a request.
    pub(crate) async fn of(
        service: &Service,
        container: &Arc<Container>,
        request: &Request,
    ) -> Result<Self, ApiError> {
        let body = payload::value(&request.body)?;
        let has_deletes = match body.field("enableQueryOnPreviousImage") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(has)) => *has,
            Some(_) => {
                return Err(payload::invalid(
                    "the property 'enableQueryOnPreviousImage' must be a boolean",
                ));
            }
        };
        let query = QueryText::from_value(body)?;
        let functions = QueryFunctions::of(service, container);
        let environment = items_query::environment(service, container, &functions);
        let compile = move |query: QueryText| query.compile(&environment);
        let plan = query.run_blocking_if_long(service, compile).await?;
        if functions.is_used() {
            return Err(ApiError::not_supported(
                "user-defined functions in queries over the change feed",
            ));
        }
        let is_cut = plan.top().or(plan.limit()).or(plan.offset()).is_some();
        if is_cut || !plan.is_row_by_row() || !plan.is_select_all() {
            return Err(ApiError::bad_request_errors(
                "A query over the change feed chooses changes: it has the form SELECT * FROM c \
                 WHERE ...",
            ));
        }
        Ok(Self { plan, has_deletes })
    }

    /// Leaves the changes that the client wants.
    pub(crate) async fn apply(
        self,
        service: &Service,
        changes: Vec<ItemChange>,
    ) -> Result<Vec<ItemChange>, ApiError> {
        let kept = service.engine().run_blocking(move || {
            let mut kept = Vec::with_capacity(changes.len());
            for change in changes {
                if self.wants(&change)? {
                    kept.push(change);
                }
            }
            Ok(kept)
        });
        Ok(kept.await?)
    }

    fn wants(&self, change: &ItemChange) -> Result<bool, engine::Error> {
        let item = match change {
            ItemChange::Latest(item) | ItemChange::Put { item, .. } => Some(item),
            ItemChange::Delete(deleted) => deleted.last.as_ref().filter(|_| self.has_deletes),
        };
        match item {
            Some(item) => self
                .plan
                .matches(&system_properties::value_of(item)?)
                .map_err(engine::Error::Evaluation),
            None => Ok(false),
        }
    }
}
