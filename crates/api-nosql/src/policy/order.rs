//! Which orders an indexing policy can serve. Others are refused, as a client would be by the
//! service, before anything is read.

use model::Value;
use query::algebra::Expr;
use query::plan::SortOrder;
use query::select::{Input, SortKey};

use super::index_path::IndexPath;
use crate::errors::ApiError;

/// Paths that are indexed whatever the policy says.
const ALWAYS_INDEXED: [&str; 2] = ["id", "_ts"];

/// Refuses an ORDER BY that no index of the policy can serve.
pub(super) fn check(indexing: &Value, plan: &query::Plan) -> Result<(), ApiError> {
    let clauses = plan.clauses();
    // Groups and the rows of inner queries are sorted in memory.
    let is_of_items = matches!(clauses.input, Input::Items) && clauses.select.grouping().is_none();
    if !is_of_items {
        return Ok(());
    }
    match clauses.order.as_slice() {
        [] => Ok(()),
        [only] => check_single(indexing, only),
        several => check_composite(indexing, several),
    }
}

fn check_single(indexing: &Value, key: &SortKey) -> Result<(), ApiError> {
    let Some(path) = SortPath::of(&key.expr) else { return Ok(()) };
    match path.is_indexed(indexing) {
        true => Ok(()),
        false => Err(ApiError::bad_request_errors(
            "The index path corresponding to the specified order-by item is excluded.",
        )),
    }
}

fn check_composite(indexing: &Value, keys: &[SortKey]) -> Result<(), ApiError> {
    let paths: Option<Vec<SortPath>> = keys.iter().map(|key| SortPath::of(&key.expr)).collect();
    let Some(paths) = paths else { return Ok(()) };
    let is_served = list(indexing, "compositeIndexes").iter().any(|index| {
        let columns = index.as_array().unwrap_or_default();
        let is_same = columns.len() == paths.len()
            && columns.iter().zip(&paths).all(|(column, path)| path.is_column(column));
        let turned = || {
            let pairs = columns.iter().zip(keys);
            pairs.map(|(column, key)| is_descending(column) != (key.order == SortOrder::Descending))
        };
        // Walked backwards an index serves the opposite of every direction.
        is_same && (turned().all(|is_turned| is_turned) || !turned().any(|is_turned| is_turned))
    });
    match is_served {
        true => Ok(()),
        false => Err(ApiError::bad_request_errors(
            "The order by query does not have a corresponding composite index that it can be \
             served from.",
        )),
    }
}

fn list<'v>(indexing: &'v Value, name: &str) -> &'v [Value] {
    indexing.field(name).and_then(Value::as_array).unwrap_or_default()
}

fn path_of(entry: &Value) -> Option<IndexPath> {
    IndexPath::parse(entry.field("path")?.as_str()?).ok()
}

fn is_descending(column: &Value) -> bool {
    column.field("order").and_then(Value::as_str) == Some("descending")
}

/// The path of a sort key, in the segments of indexing policies.
struct SortPath {
    segments: Vec<String>,
    /// Whether it begins with a computed property, which only a path of its own includes.
    is_computed: bool,
}

impl SortPath {
    /// `None` for what is no path; compilers refuse that themselves.
    fn of(expr: &Expr) -> Option<Self> {
        let mut segments = Vec::new();
        let mut at = expr;
        let is_computed = loop {
            if let Expr::Property { base, name } = at {
                segments.push(name.clone());
                at = base;
            } else if let Expr::Element { base, .. } = at {
                segments.push("[]".to_owned());
                at = base;
            } else if let Expr::Computed(property) = at {
                segments.push(property.name.to_string());
                break true;
            } else if let Expr::Variable(_) = at {
                break false;
            } else {
                return None;
            }
        };
        segments.reverse();
        Some(Self { segments, is_computed })
    }

    fn is_column(&self, column: &Value) -> bool {
        path_of(column).is_some_and(|path| path.is_exactly(&self.segments))
    }

    /// Whether the path that fits best is an included one.
    fn is_indexed(&self, indexing: &Value) -> bool {
        if let [only] = self.segments.as_slice()
            && ALWAYS_INDEXED.contains(&only.as_str())
        {
            return true;
        }
        let best = |name: &str| {
            let paths = list(indexing, name).iter().filter_map(path_of);
            let fits = paths.filter_map(|path| path.fit(&self.segments));
            fits.filter(|(depth, _)| *depth > 0 || !self.is_computed).max()
        };
        match (best("includedPaths"), best("excludedPaths")) {
            (Some(included), Some(excluded)) => included > excluded,
            (included, None) => included.is_some(),
            (None, Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::json;

    use super::*;

    fn problem(indexing: &str, order: &str) -> Option<String> {
        let indexing = json::parse(indexing.as_bytes(), 16).unwrap().value;
        let text = format!("SELECT * FROM c ORDER BY {order}");
        let plan = lang::nosql::compile(&text, &[]).unwrap();
        check(&indexing, &plan).err().map(|error| error.message().to_owned())
    }

    #[track_caller]
    fn check_composites(indexing: &str, served: &[&str], refused: &[&str]) {
        for order in served {
            assert_eq!(problem(indexing, order), None, "{order}");
        }
        for order in refused {
            let problem = problem(indexing, order).expect(order);
            assert!(problem.contains("does not have a corresponding composite index"), "{order}");
        }
    }

    #[test]
    fn composite_indexes_serve_their_order_and_its_opposite() {
        check_composites(
            r#"{"compositeIndexes":[[{"path":"/a","order":"ascending"},{"path":"/b"}]]}"#,
            &["c.a, c.b", "c.a DESC, c.b DESC", "c[\"a\"] ASC, c.b ASC"],
            &["c.a, c.b DESC", "c.a DESC, c.b", "c.b, c.a", "c.a, c.b, c.c", "c.a, c.b.c"],
        );
        check_composites(
            r#"{"compositeIndexes":[[{"path":"/x"},{"path":"/y"}],
                [{"path":"/a"},{"path":"/\"b\"/c","order":"descending"}]]}"#,
            &["c.a, c.b.c DESC", "c.a DESC, c.b.c", "c.x DESC, c.y DESC"],
            &["c.a, c.b.c", "c.a DESC, c.b.c DESC", "c.y, c.x"],
        );
        check_composites(
            r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b"},{"path":"/c"}]]}"#,
            &["c.a, c.b, c.c", "c.a DESC, c.b DESC, c.c DESC"],
            &["c.a, c.b", "c.b, c.c"],
        );
        check_composites("{}", &[], &["c.a, c.b", "c.id, c._ts"]);
    }

    #[track_caller]
    fn check_paths(indexing: &str, served: &[&str], refused: &[&str]) {
        for order in served {
            assert_eq!(problem(indexing, order), None, "{order}");
        }
        for order in refused {
            let problem = problem(indexing, order).expect(order);
            assert!(problem.contains("order-by item is excluded"), "{order}");
        }
    }

    #[test]
    fn the_path_that_fits_best_decides() {
        check_paths(
            r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#,
            &["c.a", "c.a.b DESC", "c.a[0]", "c.id"],
            &["c._etag"],
        );
        check_paths(
            r#"{"includedPaths":[{"path":"/*"},{"path":"/a/b/*"},{"path":"/d/?"}],
                "excludedPaths":[{"path":"/a/*"},{"path":"/a/b/c/?"},{"path":"/d/*"}]}"#,
            &["c.x", "c.a.b", "c.a.b.d", "c.a.b.c.d", "c.d", "c._ts"],
            &["c.a", "c.a.x", "c.a.b.c", "c.d.e"],
        );
        check_paths(
            r#"{"includedPaths":[{"path":"/t/[]/?"}],"excludedPaths":[{"path":"/*"}]}"#,
            &["c.t[3]", "c.id", "c._ts"],
            &["c.t", "c.a"],
        );
        check_paths(r#"{"indexingMode":"none"}"#, &["c.id"], &["c.a"]);
    }

    #[test]
    fn groups_need_no_index() {
        let plan = lang::nosql::compile("SELECT c.a FROM c GROUP BY c.a ORDER BY c.a", &[]);
        assert!(check(&Value::Null, &plan.unwrap()).is_ok());
    }
}
