//! Plans of `ORDER BY RANK`: one query per score, and one for the statistics of words.

use model::Value;
use model::limits::REWRITTEN_TEXT_BYTES_MAX;
use query::plan::{Plan, SortOrder};

use super::super::ast::{
    BinaryOp, Count, CountValue, Direction, Expr, ExprKind, OrderBy, OrderItem, Query, Select,
    Window,
};
use super::super::diagnostic::Diagnostic;
use super::super::lower::aggregates_in;
use super::super::rank::{self, Ranking, Score};
use super::super::{Environment, print};
use super::planner::PlanScope;
use super::rewrite::{self, NOWHERE, aliased, call, name, node, object};
use super::{Feature, GatewayPlan, HybridPlan};

/// Each query for a score requests at least this many rows of every range.
const ROWS_MIN: u64 = 120;
/// The score of a row without a text: less than any score.
const NO_TEXT_SCORE: i64 = -1;
const NO_VECTOR_SCORE: f64 = 1.79769e308;

const DOCUMENTS: &str = "{documentdb-formattablehybridsearchquery-totaldocumentcount}";

pub(super) fn plan_of(
    query: &Query,
    order_by: &OrderBy,
    plan: &Plan,
    parameters: &[(String, Value)],
    environment: &Environment,
    scope: PlanScope<'_>,
) -> Result<GatewayPlan, Diagnostic> {
    let is_plain =
        query.distinct.is_none() && query.group_by.is_empty() && aggregates_in(query).is_empty();
    if !is_plain {
        return Err(Diagnostic::not_supported("groups with ORDER BY RANK", order_by.span));
    }
    let ranking = rank::ranking(query, order_by, parameters)?;
    let text_bytes = query.span.end.saturating_sub(query.span.start);
    if text_bytes.saturating_mul(ranking.scores.len()) > REWRITTEN_TEXT_BYTES_MAX {
        return Err(Diagnostic::not_supported("so many scores of such length", order_by.span));
    }
    let window = plan.clauses().window;
    let skip = window.map(|window| window.offset);
    let take = plan.top().or(window.map(|window| window.limit));
    let components = Components::new(query, &ranking, environment);
    let rows = take.map(|take| {
        let wanted = skip.unwrap_or(0).saturating_add(take).saturating_mul(2);
        wanted.clamp(ROWS_MIN, u64::from(u32::MAX))
    });
    let hybrid = HybridPlan {
        global_statistics_query: statistics(query, &ranking),
        components: (0..ranking.scores.len()).map(|at| components.plan(at, rows)).collect(),
        weights: ranking.weights.iter().map(|weight| weight.abs()).collect(),
        skip,
        take,
        requires_global_statistics: ranking.texts().next().is_some(),
    };
    let mut planned = GatewayPlan::plain(String::new());
    planned.hybrid = Some(hybrid);
    planned.keys = plan.key_scope(scope.key_paths);
    planned.required_features = vec![Feature::HybridSearch];
    if !ranking.weights.is_empty() {
        planned.required_features.push(Feature::WeightedRankFusion);
    }
    Ok(planned)
}

impl<'q> Ranking<'q> {
    /// The paths and terms of the full-text scores.
    fn texts(&self) -> impl Iterator<Item = (&'q Expr, &'q [Expr])> {
        self.scores.iter().filter_map(|score| match *score {
            Score::FullText { path, terms } => Some((path, terms)),
            Score::Vector { .. } => None,
        })
    }
}

/// A score as ranges compute it.
struct Component {
    expr: Expr,
    order: SortOrder,
    /// The direction as given; the direction of a distance is implied.
    direction: Option<Direction>,
    /// The value that replaces a missing score.
    default: Value,
}

struct Components<'q> {
    query: &'q Query,
    all: Vec<Component>,
}

impl<'q> Components<'q> {
    fn new(query: &'q Query, ranking: &Ranking<'_>, environment: &Environment) -> Self {
        let mut texts = 0;
        let component = |(at, score): (usize, &Score<'_>)| {
            // A negative weight makes the worst row the best.
            let is_turned = ranking.weights.get(at).is_some_and(|weight| *weight < 0.0);
            match score {
                Score::FullText { path, terms } => {
                    texts += 1;
                    text_component(path, terms, texts - 1, is_turned)
                }
                Score::Vector { args, .. } => vector_component(args, is_turned, environment),
            }
        };
        Self { query, all: ranking.scores.iter().enumerate().map(component).collect() }
    }

    /// The plan of the query for the score at `at`, which requests `rows` rows.
    fn plan(&self, at: usize, rows: Option<u64>) -> GatewayPlan {
        let mut query = self.query.clone();
        let has_window = query.window.is_some();
        rewrite::drop_counts(&mut query);
        let mut plan = GatewayPlan::plain(String::new());
        if let Some(rows) = rows {
            let count = |rows| {
                let mut count = Count { value: CountValue::Number(Value::Null), span: NOWHERE };
                rewrite::set_count(&mut count, rows);
                count
            };
            match has_window {
                true => {
                    let (offset, limit) = (count(0), count(rows));
                    query.window = Some(Window { offset, limit, span: NOWHERE });
                    (plan.offset, plan.limit) = (Some(0), Some(rows));
                }
                false => {
                    query.top = Some(count(rows));
                    plan.top = Some(rows);
                }
            }
        }
        if let Some(component) = self.all.get(at) {
            let scores = self.all.iter().map(Component::or_default).collect();
            let payload = object([
                ("payload", rewrite::payload(self.query)),
                ("componentScores", node(ExprKind::Array(scores))),
            ]);
            let key = vec![component.expr.clone()];
            query.select = rewrite::sorted_select(self.query, key, payload);
            query.filter = Some(rewrite::ordered_filter(self.query));
            let item = OrderItem { expr: component.expr.clone(), direction: component.direction };
            query.order_by = Some(OrderBy { items: vec![item], is_rank: false, span: NOWHERE });
            plan.order_by = vec![component.order];
            plan.order_by_expressions = vec![print::expr_text(&component.expr)];
        }
        plan.has_select_value = matches!(self.query.select, Select::Value(_));
        plan.has_non_streaming_order_by = true;
        plan.rewritten_query = print::query_text(&query);
        plan
    }
}

impl Component {
    /// The score, or the value that replaces a missing one.
    fn or_default(&self) -> Expr {
        let default = node(ExprKind::Literal(Some(self.default.clone())));
        let (left, right) = (Box::new(self.expr.clone()), Box::new(default));
        node(ExprKind::Binary { op: BinaryOp::Coalesce, left, right })
    }
}

/// A full-text score with placeholders for its statistics, which the client fills in.
fn text_component(path: &Expr, terms: &[Expr], number: usize, is_turned: bool) -> Component {
    let place = |what: &str| {
        let text = format!("{{documentdb-formattablehybridsearchquery-{what}-{number}}}");
        node(ExprKind::Identifier(text))
    };
    let args = vec![
        path.clone(),
        node(ExprKind::Array(terms.to_vec())),
        node(ExprKind::Identifier(DOCUMENTS.to_owned())),
        place("totalwordcount"),
        place("hitcountsarray"),
    ];
    let (order, direction) = match is_turned {
        true => (SortOrder::Ascending, Direction::Ascending),
        false => (SortOrder::Descending, Direction::Descending),
    };
    Component {
        expr: function("_FullTextScore", args),
        order,
        direction: Some(direction),
        default: Value::Int64(NO_TEXT_SCORE),
    }
}

fn vector_component(args: &[Expr], is_turned: bool, environment: &Environment) -> Component {
    let best_first = rank::best_first(args, &environment.vectors);
    let is_ascending = (best_first == SortOrder::Ascending) != is_turned;
    let (order, direction, worst) = match is_ascending {
        true => (SortOrder::Ascending, Direction::Ascending, NO_VECTOR_SCORE),
        false => (SortOrder::Descending, Direction::Descending, -NO_VECTOR_SCORE),
    };
    Component {
        expr: function("_VectorScore", args.to_vec()),
        order,
        direction: is_turned.then_some(direction),
        default: Value::Double(worst),
    }
}

/// The query for how many items there are and, for each full-text score, how many words there are
/// and how many items have each term. It ignores the filter.
fn statistics(query: &Query, ranking: &Ranking<'_>) -> String {
    let of_text = |(path, terms): (&Expr, &[Expr])| {
        let words = call("SUM", function("_FullTextWordCount", vec![path.clone()]));
        let hits = terms.iter().map(|term| {
            call("COUNTIF", function("FullTextContains", vec![path.clone(), term.clone()]))
        });
        let hits = node(ExprKind::Array(hits.collect()));
        object([("totalWordCount", words), ("hitCounts", hits)])
    };
    let texts = node(ExprKind::Array(ranking.texts().map(of_text).collect()));
    let one = node(ExprKind::Literal(Some(Value::Int64(1))));
    let select = Select::List(vec![
        aliased(call("COUNT", one), "documentCount"),
        aliased(texts, "fullTextStatistics"),
    ]);
    print::query_text(&Query {
        distinct: None,
        top: None,
        select,
        from: query.from.clone(),
        filter: None,
        group_by: Vec::new(),
        order_by: None,
        window: None,
        span: NOWHERE,
    })
}

fn function(text: &str, args: Vec<Expr>) -> Expr {
    node(ExprKind::Call { name: name(text), is_user_defined: false, args })
}
