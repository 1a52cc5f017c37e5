//! Runs the queries of `golden/nosql` through the server's own gather: over one, three and eight
//! ranges, in pages of every size, with any parallelism, and with a split or merge between two
//! pages. Rows come as client libraries would merge them.

use std::cmp::Ordering;
use std::sync::Arc;

use engine::Container;
use engine::gather::GatherRequest;
use engine::ops::{PageRequest, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use lang::nosql::PlanScope;
use lang::nosql::gateway::{DistinctType, GatewayPlan};
use model::order::{TypeOrder, compare};
use model::{Value, limits};
use query::Plan;
use query::plan::SortOrder;
use testkit::harness::{Harness, test_context};

use crate::support::{
    Query, container, environment, files, line, parameters, parse, queries, sorted,
};

const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

async fn page(
    h: &Harness,
    c: &Arc<Container>,
    plan: &Plan,
    request: GatherRequest,
) -> (Vec<String>, Option<String>) {
    let mut ctx = test_context();
    match h.engine.gather(&mut ctx, c, plan.clone(), Scope::All, request.clone()).await {
        Ok(page) => {
            assert!(request.items_max.is_none_or(|max| page.rows.len() <= max));
            let charge = page.parts.iter().map(|part| part.charge).sum();
            assert!(page.parts.is_empty() || ctx.served.charge == charge);
            (page.rows.iter().map(line).collect(), page.continuation)
        }
        Err(error) => (vec![format!("error {error}")], None),
    }
}

async fn drain(
    h: &Harness,
    c: &Arc<Container>,
    plan: &Plan,
    request: &GatherRequest,
    start: (Vec<String>, Option<String>),
) -> Vec<String> {
    let (mut lines, mut token) = start;
    while token.is_some() {
        let request = GatherRequest { continuation: token, ..request.clone() };
        let (more, next) = page(h, c, plan, request).await;
        lines.extend(more);
        token = next;
    }
    lines
}

async fn all(h: &Harness, c: &Arc<Container>, plan: &Plan, request: &GatherRequest) -> Vec<String> {
    let start = page(h, c, plan, request.clone()).await;
    drain(h, c, plan, request, start).await
}

/// All rows of a range, as its client sees them.
async fn rows_of_range(h: &Harness, c: &Arc<Container>, plan: &Plan, scope: Scope) -> Vec<Value> {
    let mut ctx = test_context();
    let request = PageRequest { items_max: Some(limits::PAGE_ITEMS_MAX), ..PageRequest::default() };
    let page = h.engine.query(&mut ctx, c, plan.clone(), scope, request).await.expect("a page");
    assert_eq!(page.continuation, None);
    page.rows.iter().map(|row| parse(&line(row))).collect()
}

/// The rows as a client library merges them, for queries that order or list rows; `None` for
/// others.
async fn client_merge(
    h: &Harness,
    c: &Arc<Container>,
    golden: &golden::Golden,
    query: &Query<'_>,
) -> Option<Vec<String>> {
    let parameters = parameters(query.case);
    let scope = PlanScope { key_paths: &c.spec.partition_key.paths, has_partition_key: false };
    let environment = environment(golden);
    let text = &query.case.text;
    let plan = lang::nosql::gateway_plan(&environment, text, &parameters, scope).ok()?;
    let is_grouped = !plan.group_by_expressions.is_empty()
        || !plan.aggregates.is_empty()
        || plan.dcount_alias.is_some()
        || !plan.group_by_alias_to_aggregate_type.is_empty();
    if is_grouped || plan.distinct_type != DistinctType::None || plan.has_non_streaming_order_by {
        return None;
    }
    // Texts with scores are rewritten by clients already: they are never rewritten again.
    if text.contains("_FullTextScore") || text.contains("_VectorScore") {
        return None;
    }
    if !query.plan.reads_items() || query.case.expected.iter().any(|l| l.starts_with("error")) {
        return None;
    }
    let text = match plan.rewritten_query.as_str() {
        "" => text.clone(),
        rewritten => rewritten.replace(FILTER, "true"),
    };
    let part = lang::nosql::compile_in(&environment, &text, &parameters).expect("a rewritten text");
    let mut parts = Vec::new();
    for range in c.routing().ranges() {
        let scope = Scope::Range { id: range.id, epk: None };
        parts.push(rows_of_range(h, c, &part, scope).await);
    }
    let rows = if plan.order_by.is_empty() { parts.concat() } else { merged(&plan, parts) };
    let offset = usize::try_from(plan.offset.unwrap_or(0)).unwrap_or(usize::MAX);
    let most = [plan.top, plan.limit].into_iter().flatten().min().unwrap_or(u64::MAX);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let rows = rows.into_iter().skip(offset).take(most);
    Some(rows.map(|row| model::json::to_string(&row)).collect())
}

/// Rows in the order of their sort keys, equal ones range after range.
fn merged(plan: &GatewayPlan, parts: Vec<Vec<Value>>) -> Vec<Value> {
    let items = |row: &Value| -> Vec<Option<Value>> {
        let items = row.field("orderByItems").and_then(Value::as_array).expect("sort keys");
        items.iter().map(|item| item.field("item").cloned()).collect()
    };
    let mut rows: Vec<Value> = parts.concat();
    // A sort that keeps the order of equal rows is a merge of sorted lists.
    rows.sort_by(|a, b| {
        let pairs = items(a).into_iter().zip(items(b)).zip(&plan.order_by);
        let orders = pairs.map(|((a, b), order)| {
            let order_of_keys = compare(TypeOrder::NoSql, a.as_ref(), b.as_ref());
            match order {
                SortOrder::Ascending => order_of_keys,
                SortOrder::Descending => order_of_keys.reverse(),
            }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    rows.into_iter().map(|row| row.field("payload").expect("a payload").clone()).collect()
}

async fn check_all(ranges: u32) {
    let mut merges = 0;
    for golden in files() {
        let h = Harness::in_memory();
        let c = container(&h, golden.setup(), ranges).await;
        for query in queries(&golden) {
            let place = format!("{}: {} over {ranges}", query.case.line, query.case.text);
            let serial = GatherRequest { parallelism: Some(1), ..GatherRequest::default() };
            let rows = all(&h, &c, &query.plan, &serial).await;
            match client_merge(&h, &c, &golden, &query).await {
                Some(expected) => {
                    merges += 1;
                    assert_eq!(rows, expected, "{place}, put together by a client");
                }
                None if ranges == 1 => assert_eq!(rows, query.case.expected, "{place}"),
                None => {
                    assert_eq!(
                        sorted(rows.clone()),
                        sorted(query.case.expected.clone()),
                        "{place}"
                    );
                }
            }
            for (parallelism, buffered, items_max) in
                [(8, 1000, 1000), (3, 2, 1000), (8, 1, 1), (2, 100, 2), (1, 3, 3)]
            {
                let request = GatherRequest {
                    items_max: Some(items_max),
                    parallelism: Some(parallelism),
                    buffered_max: Some(buffered),
                    ..GatherRequest::default()
                };
                let other = all(&h, &c, &query.plan, &request).await;
                assert_eq!(other, rows, "{place}: {parallelism} at once, pages of {items_max}");
            }
        }
        h.engine.close().await.expect("the engine closes");
    }
    assert!(merges > 100, "{merges}");
}

#[tokio::test]
async fn rows_come_as_from_a_client_over_one_range() {
    check_all(1).await;
}

#[tokio::test]
async fn rows_come_as_from_a_client_over_three_ranges() {
    check_all(3).await;
}

#[tokio::test]
async fn rows_come_as_from_a_client_over_eight_ranges() {
    check_all(8).await;
}

/// No row is lost or shown twice when ranges change between two pages. Where rows have no order of
/// their own, the order of equal rows may change with the ranges.
#[tokio::test]
async fn answers_are_the_same_when_ranges_change_between_pages() {
    for golden in files() {
        if golden.setup().items.len() < 2 {
            continue;
        }
        let h = Harness::in_memory();
        let c = container(&h, golden.setup(), 2).await;
        let queries = queries(&golden);
        let request = GatherRequest { items_max: Some(1), ..GatherRequest::default() };
        let mut starts = Vec::new();
        for query in &queries {
            starts.push(page(&h, &c, &query.plan, request.clone()).await);
        }
        let how = Progression::Automatic;
        let first = c.routing().ranges()[0].id;
        if let Ok(job) =
            h.engine.start_split(&test_context(), c.rid, first, SplitPoint::Midpoint, how).await
        {
            assert_eq!(
                h.engine.finish_job(job.id).await.expect("a job").phase,
                JobPhase::Succeeded
            );
        }
        let mut seconds = Vec::new();
        for (query, (lines, token)) in queries.iter().zip(&starts) {
            let mut second = (Vec::new(), None);
            if token.is_some() {
                let request = GatherRequest { continuation: token.clone(), ..request.clone() };
                second = page(&h, &c, &query.plan, request).await;
            }
            seconds.push(([lines.clone(), second.0].concat(), second.1));
        }
        let last: Vec<_> =
            c.routing().ranges().iter().rev().take(2).map(|range| range.id).collect();
        let job = h.engine.start_merge(&test_context(), c.rid, &last, how).await.expect("a merge");
        assert_eq!(h.engine.finish_job(job.id).await.expect("a job").phase, JobPhase::Succeeded);
        for (query, start) in queries.iter().zip(seconds) {
            let place = format!("{}: {}", query.case.line, query.case.text);
            let lines = drain(&h, &c, &query.plan, &request, start).await;
            let expected = &query.case.expected;
            let clauses = query.plan.clauses();
            let takes_some = clauses.top.is_some() || clauses.window.is_some();
            match takes_some && query.plan.select().is_row_by_row() {
                true => assert_eq!(lines.len(), expected.len(), "{place}"),
                false => assert_eq!(sorted(lines), sorted(expected.clone()), "{place}"),
            }
        }
    }
}
