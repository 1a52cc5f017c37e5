//! Compiles `find` to a [`Plan`]: filter, order and window. Its rows are whole documents, which a
//! projection then changes.

use std::sync::Arc;

use model::{Object, Value};
use query::Plan;
use query::document::index_keys::{ColumnKind, IndexColumn};
use query::document::types::is_number;
use query::document::{
    Failure, FieldPath, FindClauses, FirstFailure, Predicate, Variables, code, find_plan,
};

use super::field_names::path_parts;
use super::filter::{self, FilterOptions};
use super::integers::integer;

/// Most keys of a sort, which are those of an index.
const SORT_KEYS_MAX: usize = 32;

/// The parts of a `find` that decide which documents it yields, and in which order.
#[derive(Clone, Copy, Debug, Default)]
pub struct FindRequest<'r> {
    /// What documents match; all if there is none.
    pub filter: Option<&'r Object>,
    /// What they are sorted by.
    pub sort: Option<&'r Object>,
    /// How many are left out.
    pub skip: u64,
    /// How many are returned after that; 0 for all.
    pub limit: u64,
}

/// A compiled `find`.
#[derive(Clone, Debug)]
pub struct Find {
    /// What the engine runs.
    pub plan: Plan,
    /// The filter, which a positional projection and an update need.
    pub filter: Arc<Predicate>,
    /// Why evaluation failed, once the engine says that it did.
    pub failure: FirstFailure,
}

/// Compiles a `find`.
pub fn compile(
    request: &FindRequest<'_>,
    options: &FilterOptions<'_>,
    variables: &Arc<Variables>,
) -> Result<Find, Failure> {
    let filter = match request.filter {
        Some(filter) => filter::compile(filter, options)?,
        None => Predicate::And(Vec::new()),
    };
    let filter = Arc::new(filter);
    let failure = FirstFailure::default();
    let columns = match request.sort {
        Some(sort) => sort_columns(sort)?,
        None => Vec::new(),
    };
    let clauses = FindClauses {
        filter: Some(Arc::clone(&filter)),
        sort: columns,
        skip: request.skip,
        limit: (request.limit > 0).then_some(request.limit),
    };
    Ok(Find { plan: find_plan(clauses, variables, &failure), filter, failure })
}

/// The columns of a sort; none for the natural order, which is that of the `_id`.
pub fn sort_columns(sort: &Object) -> Result<Vec<IndexColumn>, Failure> {
    if let Some(direction) = sort.get("$natural") {
        return natural(sort, direction);
    }
    if sort.len() > SORT_KEYS_MAX {
        return Err(Failure::new(13103, "too many compound keys"));
    }
    sort.iter().map(|(path, direction)| column(path, direction)).collect()
}

fn natural(sort: &Object, direction: &Value) -> Result<Vec<IndexColumn>, Failure> {
    let direction = integer("$natural", direction).ok().filter(|_| sort.len() == 1);
    match direction {
        Some(1) => Ok(Vec::new()),
        Some(-1) => {
            let path = FieldPath::parse("_id");
            Ok(vec![IndexColumn { path, kind: ColumnKind::Descending }])
        }
        Some(_) | None => {
            let message = "$natural sort cannot be set to a value other than -1 or 1.";
            Err(Failure::new(code::BAD_VALUE, message))
        }
    }
}

fn column(path: &str, direction: &Value) -> Result<IndexColumn, Failure> {
    if direction.field("$meta").is_some() {
        let message = "query requires text score metadata, but it is not available";
        return Err(Failure::new(40218, message));
    }
    path_parts(path)?;
    let direction = is_number(direction).then(|| integer(path, direction).ok()).flatten();
    let kind = match direction {
        Some(1) => ColumnKind::Ascending,
        Some(-1) => ColumnKind::Descending,
        Some(_) | None => {
            return Err(Failure::new(code::BAD_VALUE, "bad sort specification"));
        }
    };
    Ok(IndexColumn { path: FieldPath::parse(path), kind })
}

#[cfg(test)]
mod tests {
    use model::PropertyPath;
    use query::KeyScope;
    use query::exec::memory::Values;
    use query::exec::{Limits, Position, Row};

    use super::*;
    use crate::mongo::test_support::{bson, bson_object, options, variables};

    fn find(filter: &str, sort: &str, skip: u64, limit: u64) -> Result<Find, Failure> {
        let (filter, sort) = (bson_object(filter), bson_object(sort));
        let request = FindRequest { filter: Some(&filter), sort: Some(&sort), skip, limit };
        compile(&request, &options(), &Arc::new(variables()))
    }

    /// The `_id`s that a find yields, in pages of `rows` rows.
    fn ids(find: &Find, documents: &[&str], rows: usize) -> Vec<Value> {
        let mut source = Values::new(documents.iter().map(|text| bson(text)).collect());
        let mut position = Some(Position::default());
        let mut ids = Vec::new();
        while let Some(from) = position {
            let limits = Limits { rows_max: rows, bytes_max: usize::MAX };
            let (page, next) = source.page(&find.plan, from, limits).unwrap();
            for row in page {
                let Row::WholeItem(document) = row else { panic!("a part of a document") };
                ids.push(document.field("_id").cloned().unwrap());
            }
            position = next;
        }
        ids
    }

    fn check(filter: &str, sort: &str, window: (u64, u64), documents: &[&str], expected: &[i32]) {
        let find = find(filter, sort, window.0, window.1).unwrap();
        for rows in [1, 2, 100] {
            let found = ids(&find, documents, rows);
            let expected: Vec<Value> = expected.iter().copied().map(Value::Int32).collect();
            assert_eq!(found, expected, "{filter} {sort} in pages of {rows}");
        }
    }

    const LIMITS: Limits = Limits { rows_max: 100, bytes_max: usize::MAX };

    const DOCUMENTS: [&str; 6] = [
        r#"{"_id": 0, "a": 5, "b": [{"x": 1, "y": 9}, {"x": 3, "y": 1}]}"#,
        r#"{"_id": 1, "a": [1, 9]}"#,
        r#"{"_id": 2, "b": [{"x": 2, "y": 2}]}"#,
        r#"{"_id": 3, "a": []}"#,
        r#"{"_id": 4, "a": "text"}"#,
        r#"{"_id": 5, "a": null, "n": {"$special": "NaN"}}"#,
    ];

    #[test]
    fn documents_are_filtered_and_paged() {
        check("{}", "{}", (0, 0), &DOCUMENTS, &[0, 1, 2, 3, 4, 5]);
        check(r#"{"a": {"$gt": 4}}"#, "{}", (0, 0), &DOCUMENTS, &[0, 1]);
        check(r#"{"a": null}"#, "{}", (0, 0), &DOCUMENTS, &[2, 5]);
        check("{}", "{}", (2, 3), &DOCUMENTS, &[2, 3, 4]);
        check("{}", "{}", (4, 0), &DOCUMENTS, &[4, 5]);
        check("{}", "{}", (0, 2), &DOCUMENTS, &[0, 1]);
        check(r#"{"$expr": {"$eq": ["$a", 5]}}"#, "{}", (0, 0), &DOCUMENTS, &[0]);
    }

    #[test]
    fn arrays_are_sorted_by_their_least_and_greatest_elements() {
        // An empty array is below null, and what is missing is null.
        check("{}", r#"{"a": 1}"#, (0, 0), &DOCUMENTS, &[3, 2, 5, 1, 0, 4]);
        check("{}", r#"{"a": -1, "_id": 1}"#, (0, 0), &DOCUMENTS, &[4, 1, 0, 2, 5, 3]);
        check("{}", r#"{"a": -1, "_id": 1}"#, (1, 2), &DOCUMENTS, &[1, 0]);
        // The second key is that of the element that has the first.
        check(
            r#"{"b": {"$exists": true}}"#,
            r#"{"b.x": 1, "b.y": 1}"#,
            (0, 0),
            &DOCUMENTS,
            &[0, 2],
        );
        check(r#"{"b": {"$exists": true}}"#, r#"{"b.y": 1}"#, (0, 0), &DOCUMENTS, &[0, 2]);
        check(r#"{"b": {"$exists": true}}"#, r#"{"b.y": -1}"#, (0, 0), &DOCUMENTS, &[0, 2]);
        check("{}", r#"{"$natural": -1}"#, (0, 2), &DOCUMENTS, &[5, 4]);
        check("{}", r#"{"$natural": 1}"#, (0, 2), &DOCUMENTS, &[0, 1]);
    }

    #[test]
    fn the_first_failure_is_kept() {
        let find = find(r#"{"$expr": {"$divide": [1, "$a"]}}"#, "{}", 0, 0).unwrap();
        let mut source = Values::new(vec![bson(r#"{"a": 0}"#), bson(r#"{"a": 0}"#)]);
        let page = source.page(&find.plan, Position::default(), LIMITS);
        assert_eq!(page.map(|_| ()).unwrap_err(), query::EvalError::Document);
        assert_eq!(find.failure.get().unwrap().code, 2);
    }

    #[test]
    fn arrays_side_by_side_cannot_be_sorted() {
        let find = find("{}", r#"{"a": 1, "b": 1}"#, 0, 0).unwrap();
        let mut source = Values::new(vec![bson(r#"{"a": [1], "b": [1]}"#)]);
        assert!(source.page(&find.plan, Position::default(), LIMITS).is_err());
        let expected = Failure::new(2, "cannot sort with keys that are parallel arrays");
        assert_eq!(find.failure.get(), Some(&expected));
    }

    #[test]
    fn mistakes_in_sorts_have_numbers_and_texts() {
        for (sort, code, message) in [
            (r#"{"a": 2}"#, 2, "bad sort specification"),
            (r#"{"a": "x"}"#, 2, "bad sort specification"),
            (r#"{"a": true}"#, 2, "bad sort specification"),
            (r#"{"$natural": 2}"#, 2, "$natural sort cannot be set to a value other than -1 or 1."),
            (
                r#"{"a": {"$meta": "textScore"}}"#,
                40218,
                "query requires text score metadata, but it is not available",
            ),
            (r#"{"": 1}"#, 40352, "FieldPath cannot be constructed with empty string"),
        ] {
            let failure = find("{}", sort, 0, 0).map(|_| ()).expect_err(sort);
            assert_eq!(failure, Failure::new(code, message), "{sort}");
        }
    }

    #[test]
    fn only_what_is_needed_is_read() {
        let plan = find(r#"{"a.b": 1}"#, r#"{"c": 1}"#, 0, 0).unwrap().plan;
        let mask = plan.fields_to_match();
        assert!(mask.has_field("a") && !mask.has_field("c") && !mask.has_field("d"));
        assert!(plan.is_select_all());
    }

    #[test]
    fn equalities_find_the_partition() {
        let path = PropertyPath::parse("/region").unwrap();
        let scope = |filter: &str| {
            find(filter, "{}", 0, 0).unwrap().plan.key_scope(std::slice::from_ref(&path))
        };
        let keys = |values: &[&str]| {
            KeyScope::Keys(values.iter().map(|value| vec![Some(Value::from(*value))]).collect())
        };
        assert_eq!(scope(r#"{"region": "eu", "a": {"$gt": 1}}"#), keys(&["eu"]));
        assert_eq!(scope(r#"{"region": {"$in": ["eu", "us"]}}"#), keys(&["eu", "us"]));
        assert_eq!(scope(r#"{"$or": [{"region": "eu"}, {"region": "us"}]}"#), keys(&["eu", "us"]));
        assert_eq!(scope(r#"{"region": "eu", "$nor": [{"a": 1}]}"#), keys(&["eu"]));
        assert_eq!(scope(r#"{"$and": [{"region": "eu"}, {"region": "us"}]}"#), keys(&[]));
        for all in [
            "{}",
            r#"{"region": null}"#,
            r#"{"region": {"$ne": "eu"}}"#,
            r#"{"region": {"$re": ["^eu", ""]}}"#,
            r#"{"$or": [{"region": "eu"}, {"a": 1}]}"#,
            r#"{"region": {"$date": 1}}"#,
            r#"{"region.name": "eu"}"#,
        ] {
            assert_eq!(scope(all), KeyScope::All, "{all}");
        }
    }
}
