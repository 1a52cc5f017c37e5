//! The indexes that a query used or could use, if the client asked for index metrics.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::Container;
use engine::index::{Composite, CompositeColumn};
use engine::ops::{AccessPathKind, IndexOrder, PageReport, Scope};
use model::{Object, Value, json, limits};
use percent_encoding::NON_ALPHANUMERIC;
use query::access::Step;
use query::explain::{Comparison, path_text};
use query::plan::SortOrder;

use crate::headers::HeaderName;
use crate::reply::{Reply, ReplyHeader};
use crate::request::Request;

/// Most indexes of each kind that are listed.
const LISTED_MAX: usize = 20;
/// Most bytes of the header: some clients accept at most 16 KB for all headers.
const HEADER_BYTES_MAX: usize = 6 * 1024;

/// Whether a request asks for index metrics.
pub(crate) fn are_wanted(request: &Request) -> bool {
    request.flag(HeaderName::PopulateIndexMetrics)
        || request.flag(HeaderName::PopulateIndexMetricsV2)
}

/// The indexes that a query used, and indexes that do not exist but would help it.
#[derive(Debug, Default)]
pub(crate) struct IndexMetrics {
    utilized: Indexes,
    potential: Indexes,
}

#[derive(Debug, Default)]
struct Indexes {
    single: Vec<SingleIndex>,
    composite: Vec<CompositeIndex>,
    /// Indexes of paths that functions and aggregates of the select list are over; only the second
    /// form lists them.
    projected: Vec<SingleIndex>,
}

/// An index of the values at one path.
#[derive(Clone, Debug, PartialEq)]
struct SingleIndex {
    /// The condition that it serves.
    filter: String,
    path: String,
    /// Whether it selects exactly the items that satisfy the condition.
    is_precise: bool,
}

impl SingleIndex {
    /// The index of a path without a condition.
    fn of(path: &[Step]) -> Self {
        Self { filter: String::new(), path: spec_of(path), is_precise: true }
    }
}

/// An index of the values at several paths together.
#[derive(Clone, Debug, PartialEq)]
struct CompositeIndex {
    columns: Vec<String>,
    is_precise: bool,
    /// Whether it would serve no more than equalities.
    is_of_equalities: bool,
}

impl IndexMetrics {
    /// The index metrics of a page.
    pub(crate) fn of(container: &Container, scope: &Scope, report: &PageReport) -> Self {
        let mut metrics = Self::default();
        metrics.utilized.add_key(container, scope);
        match &report.access_path {
            AccessPathKind::NoItems => {}
            AccessPathKind::InIndexOrder(order) | AccessPathKind::FirstInIndexOrder(order) => {
                metrics.utilized.add_order(order, report);
            }
            AccessPathKind::InStorageOrder | AccessPathKind::Sorted | AccessPathKind::Counted
                if report.uses_index() =>
            {
                metrics.utilized.add_used_conditions(report);
            }
            AccessPathKind::InStorageOrder | AccessPathKind::Sorted | AccessPathKind::Counted => {}
        }
        let is_indexed = |path: &&Vec<Step>| container.indexed_paths().includes(path);
        let projected = report.projected.iter().filter(is_indexed);
        metrics.utilized.projected = projected.map(|path| SingleIndex::of(path)).collect();
        metrics.utilized.projected.truncate(LISTED_MAX);
        metrics.potential.add_missing(report);
        metrics.potential.add_composite(&container.spec.indexing.composites, report);
        metrics
    }

    /// Adds the metrics to a reply: in base64 or percent-encoded, depending on which header asks.
    /// Leaves out entries that do not fit into a header.
    pub(crate) fn add_to(mut self, reply: Reply, request: &Request) -> Reply {
        let is_first_form = request.flag(HeaderName::PopulateIndexMetrics);
        let mut text = self.encoded(is_first_form);
        while text.len() > HEADER_BYTES_MAX && self.drop_one() {
            text = self.encoded(is_first_form);
        }
        reply.header(ReplyHeader::IndexUtilization, text)
    }

    fn encoded(&self, is_first_form: bool) -> String {
        if is_first_form {
            return STANDARD.encode(json::to_string(&self.first_form()));
        }
        let text = json::to_string(&self.second_form());
        percent_encoding::utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
    }

    /// Removes the last entry of the longest list; false if all are empty.
    fn drop_one(&mut self) -> bool {
        let lists = [&mut self.utilized, &mut self.potential];
        let longest = lists.into_iter().max_by_key(|indexes| indexes.single.len());
        let is_dropped = longest.is_some_and(|indexes| indexes.single.pop().is_some());
        is_dropped
            || self.potential.composite.pop().is_some()
            || self.utilized.composite.pop().is_some()
    }

    fn first_form(&self) -> Value {
        let single = |index: &SingleIndex| {
            object([
                ("FilterExpression", index.filter.as_str().into()),
                ("IndexSpec", index.path.as_str().into()),
                ("FilterPreciseSet", index.is_precise.into()),
                ("IndexPreciseSet", index.is_precise.into()),
                ("IndexImpactScore", impact(index.is_precise)),
            ])
        };
        let composite = |index: &CompositeIndex| {
            object([
                ("IndexSpecs", columns_of(index)),
                ("IndexPreciseSet", index.is_precise.into()),
                ("IndexImpactScore", "High".into()),
            ])
        };
        object([
            ("UtilizedSingleIndexes", list(&self.utilized.single, single)),
            ("PotentialSingleIndexes", list(&self.potential.single, single)),
            ("UtilizedCompositeIndexes", list(&self.utilized.composite, composite)),
            ("PotentialCompositeIndexes", list(&self.potential.composite, composite)),
        ])
    }

    fn second_form(&self) -> Value {
        let single = |index: &SingleIndex| object([("IndexSpec", index.path.as_str().into())]);
        let composite = |index: &CompositeIndex| {
            object([("IndexSpecs", columns_of(index)), ("IndexImpactScore", "High".into())])
        };
        let indexes = |indexes: &Indexes| {
            // Without conditions, one path is one line. The last comes first.
            let mut paths: Vec<SingleIndex> = Vec::new();
            for index in indexes.single.iter().rev().chain(&indexes.projected) {
                if paths.iter().all(|known| known.path != index.path) {
                    paths.push(index.clone());
                }
            }
            // Equalities alone are met by the indexes of their paths together.
            let composites: Vec<_> =
                indexes.composite.iter().filter(|index| !index.is_of_equalities).cloned().collect();
            object([
                ("SingleIndexes", list(&paths, single)),
                ("CompositeIndexes", list(&composites, composite)),
            ])
        };
        object([
            ("UtilizedIndexes", indexes(&self.utilized)),
            ("PotentialIndexes", indexes(&self.potential)),
        ])
    }
}

impl Indexes {
    fn add_single(&mut self, filter: &str, path: String, is_precise: bool) {
        let index = SingleIndex { filter: filter.to_owned(), path, is_precise };
        if self.single.len() < LISTED_MAX && !self.single.contains(&index) {
            self.single.push(index);
        }
    }

    /// Adds the paths of the partition key, by which a query within one key finds its items.
    fn add_key(&mut self, container: &Container, scope: &Scope) {
        let paths = &container.spec.partition_key.paths;
        let used = match scope {
            Scope::Key(key) => key.0.len().min(paths.len()),
            Scope::All | Scope::Range { .. } | Scope::Epk(_) => 0,
        };
        for path in paths.iter().take(used) {
            self.add_single("", format!("{path}/?"), true);
        }
    }

    /// Adds the paths, of those that `is_used` accepts, by which conditions find items.
    fn add_conditions(&mut self, report: &PageReport, is_used: &dyn Fn(&[Step]) -> bool) {
        for conjunct in &report.conjuncts {
            conjunct.index_set.for_each_terms(&mut |terms| {
                if is_used(&terms.path) {
                    self.add_single(&conjunct.text, spec_of(&terms.path), terms.is_exact);
                }
            });
        }
    }

    /// Adds the composite index that conditions use, if any, and the paths that the other
    /// conditions use.
    fn add_used_conditions(&mut self, report: &PageReport) {
        let Some(composite) = report.composite() else {
            return self.add_conditions(report, &|_| true);
        };
        let columns = composite.columns.iter().map(column_text).collect();
        self.composite.push(CompositeIndex { columns, is_precise: true, is_of_equalities: false });
        let is_column = |path: &[Step]| composite.columns.iter().any(|c| c.is_path(path));
        self.add_conditions(report, &|path| !is_column(path));
    }

    /// Adds the index that provides the order of the rows.
    fn add_order(&mut self, order: &IndexOrder, report: &PageReport) {
        let first = order.columns.first().map(|(path, _)| path.as_slice());
        if order.is_composite {
            let columns = order.columns.iter().map(|(path, order)| column_of(path, *order));
            let columns = columns.collect();
            let index = CompositeIndex { columns, is_precise: true, is_of_equalities: false };
            self.composite.push(index);
        } else if let Some(path) = first
            && !order.is_bounded
        {
            self.add_single("", spec_of(path), true);
        }
        if order.is_bounded {
            self.add_conditions(report, &|path| Some(path) == first);
        }
    }

    /// Adds the paths that conditions would be looked up by if they were indexed.
    fn add_missing(&mut self, report: &PageReport) {
        for conjunct in &report.conjuncts {
            for path in &conjunct.unindexed {
                self.add_single(&conjunct.text, spec_of(path), true);
            }
        }
    }

    /// The composite index that would serve all comparisons at once: first the equalities, then at
    /// most one range.
    fn add_composite(&mut self, known: &[Composite], report: &PageReport) {
        let of_kind = |wanted: Comparison| {
            let compared = report.conjuncts.iter().filter_map(|c| c.comparison.as_ref());
            compared.filter(move |(_, kind)| *kind == wanted).map(|(path, _)| path)
        };
        let mut columns: Vec<&Vec<Step>> = Vec::new();
        for path in of_kind(Comparison::Equal).chain(of_kind(Comparison::Ordered).take(1)) {
            if !columns.contains(&path) {
                columns.push(path);
            }
        }
        let is_known = |composite: &Composite| {
            let pairs = composite.columns.iter().zip(&columns);
            composite.columns.len() >= columns.len()
                && pairs.into_iter().all(|(column, path)| column.is_path(path))
        };
        if !(2..=limits::COMPOSITE_INDEX_PATHS_MAX).contains(&columns.len())
            || known.iter().any(is_known)
        {
            return;
        }
        let columns =
            columns.into_iter().map(|path| column_of(path, SortOrder::Ascending)).collect();
        let is_of_equalities = of_kind(Comparison::Ordered).next().is_none();
        self.composite.push(CompositeIndex { columns, is_precise: false, is_of_equalities });
    }
}

fn spec_of(path: &[Step]) -> String {
    path_text(path) + "/?"
}

/// A column of a composite index in the form that clients know.
pub(crate) fn column_text(column: &CompositeColumn) -> String {
    let path: Vec<_> = column.path.iter().cloned().map(Step::Name).collect();
    column_of(&path, column.order())
}

/// A path and the order of its values.
pub(crate) fn column_of(path: &[Step], order: SortOrder) -> String {
    let direction = match order {
        SortOrder::Ascending => "ASC",
        SortOrder::Descending => "DESC",
    };
    format!("{} {direction}", path_text(path))
}

/// How much an index matters. One that also selects other items leaves filtering to be done.
fn impact(is_precise: bool) -> Value {
    if is_precise { "High".into() } else { "Low".into() }
}

fn columns_of(index: &CompositeIndex) -> Value {
    list(&index.columns, |column| column.as_str().into())
}

fn list<T>(items: &[T], to_value: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(to_value).collect())
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect::<Object>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_list_what_is_used_and_what_could_be() {
        let mut metrics = IndexMetrics::default();
        metrics.utilized.add_single("", "/pk/?".to_owned(), true);
        metrics.utilized.add_single("(ROOT.a = 1)", "/a/?".to_owned(), true);
        metrics.utilized.add_single("CONTAINS(ROOT.a, \"x\")", "/a/?".to_owned(), false);
        let columns = vec!["/a ASC".to_owned(), "/b ASC".to_owned()];
        metrics.potential.composite.push(CompositeIndex {
            columns,
            is_precise: false,
            is_of_equalities: false,
        });
        assert_eq!(
            json::to_string(&metrics.first_form()),
            r#"{"UtilizedSingleIndexes":[{"FilterExpression":"","IndexSpec":"/pk/?","FilterPreciseSet":true,"IndexPreciseSet":true,"IndexImpactScore":"High"},{"FilterExpression":"(ROOT.a = 1)","IndexSpec":"/a/?","FilterPreciseSet":true,"IndexPreciseSet":true,"IndexImpactScore":"High"},{"FilterExpression":"CONTAINS(ROOT.a, \"x\")","IndexSpec":"/a/?","FilterPreciseSet":false,"IndexPreciseSet":false,"IndexImpactScore":"Low"}],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[{"IndexSpecs":["/a ASC","/b ASC"],"IndexPreciseSet":false,"IndexImpactScore":"High"}]}"#
        );
        assert_eq!(
            json::to_string(&metrics.second_form()),
            r#"{"UtilizedIndexes":{"SingleIndexes":[{"IndexSpec":"/a/?"},{"IndexSpec":"/pk/?"}],"CompositeIndexes":[]},"PotentialIndexes":{"SingleIndexes":[],"CompositeIndexes":[{"IndexSpecs":["/a ASC","/b ASC"],"IndexImpactScore":"High"}]}}"#
        );
    }

    #[test]
    fn lists_become_shorter_until_there_is_nothing_left() {
        let mut metrics = IndexMetrics::default();
        for n in 0..100 {
            metrics.utilized.add_single("", n.to_string(), true);
        }
        assert_eq!(metrics.utilized.single.len(), LISTED_MAX);
        metrics.potential.add_single("", "/a/?".to_owned(), true);
        let drops = (0..).take_while(|_| metrics.drop_one()).count();
        assert_eq!(drops, LISTED_MAX + 1);
    }
}
