//! The answer of a gateway to a client that asks how to run a query over several ranges.
//!
//! Pure data, made by [`gateway_plan`]: the front end renders it as JSON and turns [`KeyScope`] into
//! hash ranges.

mod hybrid;
mod planner;
mod rewrite;

use query::KeyScope;
use query::plan::{Aggregate, SortOrder};

pub use planner::{PlanScope, gateway_plan};

/// How the client must remove duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctType {
    /// Not at all.
    None,
    /// By comparing with the previous row.
    Ordered,
    /// By remembering all rows.
    Unordered,
}

/// A capability that the client must have announced to be able to use a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each name is the one used on the wire")]
pub enum Feature {
    Aggregate,
    CountIf,
    DCount,
    Distinct,
    GroupBy,
    HybridSearch,
    MultipleAggregates,
    MultipleOrderBy,
    NonStreamingOrderBy,
    NonValueAggregate,
    OffsetAndLimit,
    OrderBy,
    Top,
    WeightedRankFusion,
}

impl Feature {
    /// The name in the header of supported features.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Aggregate => "Aggregate",
            Feature::CountIf => "CountIf",
            Feature::DCount => "DCount",
            Feature::Distinct => "Distinct",
            Feature::GroupBy => "GroupBy",
            Feature::HybridSearch => "HybridSearch",
            Feature::MultipleAggregates => "MultipleAggregates",
            Feature::MultipleOrderBy => "MultipleOrderBy",
            Feature::NonStreamingOrderBy => "NonStreamingOrderBy",
            Feature::NonValueAggregate => "NonValueAggregate",
            Feature::OffsetAndLimit => "OffsetAndLimit",
            Feature::OrderBy => "OrderBy",
            Feature::Top => "Top",
            Feature::WeightedRankFusion => "WeightedRankFusion",
        }
    }
}

/// How a client runs a query over several ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayPlan {
    /// How duplicates are removed.
    pub distinct_type: DistinctType,
    /// Most rows in all.
    pub top: Option<u64>,
    /// Rows to skip in all.
    pub offset: Option<u64>,
    /// Most rows in all after the skipped ones.
    pub limit: Option<u64>,
    /// Direction of each sort key; empty if nothing is merged by order.
    pub order_by: Vec<SortOrder>,
    /// Text of each sort key.
    pub order_by_expressions: Vec<String>,
    /// Text of each group key.
    pub group_by_expressions: Vec<String>,
    /// Names of the output fields of a grouped query, in order.
    pub group_by_aliases: Vec<String>,
    /// The aggregates of a `SELECT VALUE` query.
    pub aggregates: Vec<Aggregate>,
    /// The aggregate behind each output field; `None` for a plain key.
    pub group_by_alias_to_aggregate_type: Vec<(String, Option<Aggregate>)>,
    /// The text to send to each range; empty for the original one.
    pub rewritten_query: String,
    /// Whether rows are bare values.
    pub has_select_value: bool,
    /// Name of the output field of a count of distinct rows; `Some("")` for a bare value.
    pub dcount_alias: Option<String>,
    /// Whether ranges return their best rows in an order that cannot be merged.
    pub has_non_streaming_order_by: bool,
    /// How rows are ranked by several scores; if set, only `keys` matters beside it.
    pub hybrid: Option<HybridPlan>,
    /// Which partition keys the rows can have.
    pub keys: KeyScope,
    /// The capabilities that the client must have, sorted.
    pub required_features: Vec<Feature>,
}

/// How a client ranks rows: it asks each range for the best rows by each score and combines the
/// ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct HybridPlan {
    /// The query for the statistics that scores are computed from.
    pub global_statistics_query: String,
    /// The plan of the query for each score.
    pub components: Vec<GatewayPlan>,
    /// How much each score counts; empty if all count alike.
    pub weights: Vec<f64>,
    /// Rows to skip in all.
    pub skip: Option<u64>,
    /// Most rows in all after those.
    pub take: Option<u64>,
    /// Whether the first query is needed.
    pub requires_global_statistics: bool,
}

impl GatewayPlan {
    /// A plan that only sends `rewritten_query` to each range.
    pub fn plain(rewritten_query: String) -> Self {
        Self {
            distinct_type: DistinctType::None,
            top: None,
            offset: None,
            limit: None,
            order_by: Vec::new(),
            order_by_expressions: Vec::new(),
            group_by_expressions: Vec::new(),
            group_by_aliases: Vec::new(),
            aggregates: Vec::new(),
            group_by_alias_to_aggregate_type: Vec::new(),
            rewritten_query,
            has_select_value: false,
            dcount_alias: None,
            has_non_streaming_order_by: false,
            hybrid: None,
            keys: KeyScope::All,
            required_features: Vec::new(),
        }
    }

    /// Whether the result is that of one range after the other, in the order of the hash line.
    pub fn is_concatenation(&self) -> bool {
        self.required_features.is_empty()
    }

    /// Whether aggregates are parts of rows, rather than the only value of a single row.
    pub fn has_grouped_aggregates(&self) -> bool {
        let is_in_fields =
            self.group_by_alias_to_aggregate_type.iter().any(|(_, aggregate)| aggregate.is_some());
        is_in_fields || (!self.aggregates.is_empty() && !self.group_by_expressions.is_empty())
    }
}
