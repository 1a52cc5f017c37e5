//! Queries over all partitions of a container: their result and execution plan.

use api_nosql::{AdminQuery, AdminQueryError, Explanation, PartitionExplanation, QueryErrorSpan};
use engine::gather::GatherRequest;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Admin;
use super::partitions::units;
use super::reply::{AdminError, Reply};
use super::request::Request;
use super::routes::ContainerName;
use super::types::{
    ExplainedCondition, ExplainedPartition, ExplainedQuery, PartitionWork, QueryErrorInfo,
    QueryOptions, QueryOutcome, QueryPage,
};

impl Admin {
    /// `POST /_admin/v1/containers/{database}/{container}/query`
    pub(super) async fn query(
        &self,
        name: &ContainerName,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let container = self.find(&self.engine.catalog(), name)?;
        let options: QueryOptions = request.json()?;
        let admin_query = AdminQuery::parse(request.body())?;
        let gather = GatherRequest {
            items_max: options.max_items,
            continuation: options.continuation,
            parallelism: options.parallelism,
            buffered_max: options.buffered,
            ..GatherRequest::default()
        };
        let answer = self.service.run_admin_query(&container, &admin_query, gather).await?;
        let rows = answer.rows.into_iter().map(raw).collect::<Result<_, _>>()?;
        let continuation = answer.continuation;
        Ok(Reply::ok(&QueryPage { rows, continuation, request_charge: units(answer.charge) }))
    }

    /// `POST /_admin/v1/containers/{database}/{container}/explain`
    pub(super) async fn explain(
        &self,
        name: &ContainerName,
        request: &Request,
    ) -> Result<Reply, AdminError> {
        let container = self.find(&self.engine.catalog(), name)?;
        let options: QueryOptions = request.json()?;
        let admin_query = AdminQuery::parse(request.body())?;
        let explained = self.service.explain(&container, &admin_query, options.analyze).await?;
        Ok(Reply::ok(&shown(explained)?))
    }
}

impl From<AdminQueryError> for AdminError {
    fn from(refused: AdminQueryError) -> Self {
        let query_error = refused.query_error.map(|query_error| {
            let QueryErrorSpan { code, span } = *query_error;
            Box::new(QueryErrorInfo { code, start: span.start, end: span.end })
        });
        Self::of_kind(refused.kind, refused.message)
            .with_retry_after(refused.retry_after)
            .with_query_error(query_error)
    }
}

/// A row in its stored text form.
fn raw(text: Vec<u8>) -> Result<Box<RawValue>, AdminError> {
    let text = String::from_utf8(text).map_err(|_| AdminError::internal())?;
    RawValue::from_string(text).map_err(|_| AdminError::internal())
}

fn shown(explained: Explanation) -> Result<ExplainedQuery, AdminError> {
    let (client_plan, client_plan_error) = match explained.client_plan {
        Ok(plan) => {
            let plan: Value = serde_json::from_slice(&plan).map_err(|_| AdminError::internal())?;
            (Some(plan), None)
        }
        Err(error) => (None, Some(error)),
    };
    let conditions = explained.conditions.into_iter().map(|condition| ExplainedCondition {
        text: condition.text,
        index: condition.access,
        exact: condition.is_exact,
        unindexed: condition.unindexed,
    });
    let outcome = explained.outcome.map(|outcome| QueryOutcome {
        rows: outcome.rows,
        pages: outcome.pages,
        complete: outcome.is_complete,
        request_charge: units(outcome.charge),
    });
    Ok(ExplainedQuery {
        rewritten: Some(explained.rewritten).filter(|text| !text.is_empty()),
        client_plan,
        client_plan_error,
        merging: explained.merging.to_owned(),
        filter: explained.filter,
        conditions: conditions.collect(),
        index: explained.access,
        partitions: explained.partitions.into_iter().map(partition).collect(),
        outcome,
    })
}

fn partition(share: PartitionExplanation) -> ExplainedPartition {
    ExplainedPartition {
        ids: share.ids,
        epk_min: share.epk.min.to_hex(),
        epk_max: share.epk.max.to_hex(),
        partition_key: share.key.as_deref().and_then(|key| serde_json::from_str(key).ok()),
        way: share.access_path,
        indexed: share.is_indexed,
        index_entries: share.entries,
        work: share.work.map(|work| PartitionWork {
            pages: work.pages,
            items_looked_at: work.items_looked_at,
            items_read: work.items_read,
            bytes_read: work.bytes_read,
            rows: work.rows,
            request_charge: units(work.charge),
        }),
    }
}
