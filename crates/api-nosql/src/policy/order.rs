//! Which orders an indexing policy can serve. Other orders are refused before anything is read, as
//! the service does.

use engine::index::{Composite, IndexedPaths};
use query::access::Step;
use query::algebra::Expr;
use query::plan::{Input, SortKey, SortOrder};

use crate::errors::ApiError;

/// Paths that are indexed regardless of the policy.
const ALWAYS_INDEXED: [&str; 2] = ["id", "_ts"];

/// Refuses an ORDER BY that no index can serve.
pub(super) fn check(
    paths: &IndexedPaths,
    composites: &[Composite],
    plan: &query::Plan,
) -> Result<(), ApiError> {
    let clauses = plan.clauses();
    // Groups and the rows of inner queries are sorted in memory.
    let is_of_items = matches!(clauses.input, Input::Items) && clauses.select.grouping().is_none();
    if !is_of_items {
        return Ok(());
    }
    match clauses.order.as_slice() {
        [] => Ok(()),
        [only] => check_single(paths, only),
        several => check_composite(composites, several),
    }
}

fn check_single(paths: &IndexedPaths, key: &SortKey) -> Result<(), ApiError> {
    let Some(path) = SortPath::of(&key.expr) else { return Ok(()) };
    match path.is_indexed(paths) {
        true => Ok(()),
        false => Err(ApiError::bad_request_errors(
            "The index path corresponding to the specified order-by item is excluded.",
        )),
    }
}

fn check_composite(composites: &[Composite], keys: &[SortKey]) -> Result<(), ApiError> {
    let paths: Option<Vec<SortPath>> = keys.iter().map(|key| SortPath::of(&key.expr)).collect();
    let Some(paths) = paths else { return Ok(()) };
    let is_served = composites.iter().any(|Composite { columns }| {
        let is_same = columns.len() == paths.len()
            && columns.iter().zip(&paths).all(|(column, path)| column.is_path(&path.steps));
        let turned = || {
            let pairs = columns.iter().zip(keys);
            pairs.map(|(column, key)| column.is_descending != (key.order == SortOrder::Descending))
        };
        // A backward scan of an index serves the opposite of every direction.
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

/// The path of a sort key.
struct SortPath {
    steps: Vec<Step>,
    /// Whether it begins with a computed property, which must be included by its own path.
    is_computed: bool,
}

impl SortPath {
    /// `None` if the expression is not a path; the compiler refuses that itself.
    fn of(expr: &Expr) -> Option<Self> {
        let mut steps = Vec::new();
        let mut at = expr;
        let is_computed = loop {
            if let Expr::Property { base, name } = at {
                steps.push(Step::Name(name.clone()));
                at = base;
            } else if let Expr::Element { base, .. } = at {
                steps.push(Step::Elements);
                at = base;
            } else if let Expr::Computed(property) = at {
                steps.push(Step::Name(property.name.to_string()));
                break true;
            } else if let Expr::Variable(_) = at {
                break false;
            } else {
                return None;
            }
        };
        steps.reverse();
        Some(Self { steps, is_computed })
    }

    fn is_indexed(&self, paths: &IndexedPaths) -> bool {
        if let [Step::Name(only)] = self.steps.as_slice()
            && ALWAYS_INDEXED.contains(&only.as_str())
        {
            return true;
        }
        match self.is_computed {
            true => paths.includes_by_name(&self.steps),
            false => paths.includes(&self.steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::json;

    use super::*;
    use crate::policy::indexing::{self, Geospatial};

    fn problem(indexing: &str, order: &str) -> Option<String> {
        let indexing = json::parse(indexing.as_bytes(), 16).unwrap().value;
        let policy = indexing::normalise(
            Some(&indexing),
            Geospatial::Geography,
            crate::policy::ClientVersion::Current,
        )
        .unwrap()
        .policy;
        let text = format!("SELECT * FROM c ORDER BY {order}");
        let plan = lang::nosql::compile(&text, &[]).unwrap();
        let paths = IndexedPaths::of(&policy, &[]);
        check(&paths, &policy.composites, &plan).err().map(|error| error.message().to_owned())
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
        assert!(check(&IndexedPaths::default(), &[], &plan.unwrap()).is_ok());
    }
}
