use model::order::TypeOrder;
use model::{Value, json};

use super::memory::Values;
use super::*;
use crate::algebra::{BinaryOp, Expr};
use crate::plan::{
    Aggregate, AggregateCall, Binding, Clauses, Grouping, Select, SortKey, SortOrder, Window,
};

mod ordered;

fn item(text: &str) -> Value {
    json::parse(text.as_bytes(), 10).unwrap().value
}

fn path(names: &[&str]) -> Expr {
    names.iter().fold(Expr::Variable(0), |base, name| Expr::Property {
        base: Box::new(base),
        name: (*name).to_owned(),
    })
}

fn plan(select: Select, order: &[(&str, SortOrder)]) -> Clauses {
    let key = |(name, order): &(&str, SortOrder)| SortKey { expr: path(&[name]), order: *order };
    let order = order.iter().map(key).collect();
    let type_order = TypeOrder::NoSql;
    Clauses { input: Input::Items, select, order, top: None, window: None, type_order }
}

fn values_of(name: &str) -> Select {
    Select::new(1, Vec::new(), None, Projection::Value(path(&[name])))
}

/// All rows, in pages of `rows_max` whose positions are cut to `key_max` bytes.
fn rows(clauses: &Clauses, items: &[Value], rows_max: usize, key_max: usize) -> Vec<String> {
    let plan = Plan::new(clauses.clone());
    let mut source = Values::new(items.to_vec());
    let mut out = Vec::new();
    let mut position = Position::default();
    for _ in 0..1000 {
        let limits = Limits { rows_max, bytes_max: usize::MAX };
        let (rows, next) = source.page(&plan, position, limits).unwrap();
        out.extend(rows.into_iter().map(|row| match row {
            Row::WholeItem(value) => json::to_string(&value),
            Row::Json(text) => String::from_utf8(text).unwrap(),
        }));
        let Some(next) = next else { return out };
        position = next;
        position.at.cut_long_key(key_max);
    }
    panic!("pages without end");
}

#[track_caller]
fn check(clauses: &Clauses, items: &[Value], expected: &[&str]) {
    for rows_max in [usize::MAX, 1, 2, 3, 5] {
        for key_max in [usize::MAX, 8] {
            assert_eq!(rows(clauses, items, rows_max, key_max), expected, "{rows_max} {key_max}");
        }
    }
}

fn numbered(count: usize) -> Vec<Value> {
    // Visits all remainders in an irregular order.
    (0..count)
        .map(|n| item(&format!(r#"{{"id":{n},"n":{},"t":{}}}"#, n * 7 % count, n % 3)))
        .collect()
}

#[test]
fn sorted_rows_are_found_however_small_the_pages() {
    let items = numbered(10);
    let up = plan(values_of("n"), &[("n", SortOrder::Ascending)]);
    check(&up, &items, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let down = plan(values_of("n"), &[("n", SortOrder::Descending)]);
    check(&down, &items, &["9", "8", "7", "6", "5", "4", "3", "2", "1", "0"]);
    let ties = plan(values_of("id"), &[("t", SortOrder::Descending)]);
    check(&ties, &items, &["8", "5", "2", "7", "4", "1", "9", "6", "3", "0"]);
}

#[test]
fn windows_and_tops_are_counted_over_pages() {
    let items = numbered(10);
    let mut clauses = plan(values_of("n"), &[("n", SortOrder::Ascending)]);
    clauses.window = Some(Window { offset: 3, limit: 4 });
    check(&clauses, &items, &["3", "4", "5", "6"]);
    clauses.window = Some(Window { offset: 12, limit: 4 });
    check(&clauses, &items, &[]);
    clauses.window = None;
    clauses.top = Some(2);
    check(&clauses, &items, &["0", "1"]);
    clauses.top = Some(0);
    check(&clauses, &items, &[]);
}

#[test]
fn long_sort_keys_that_begin_alike_are_resumed_by_their_digest() {
    let items: Vec<Value> = (0..6)
        .map(|n| item(&format!(r#"{{"id":{n},"s":"{}{}"}}"#, "x".repeat(30), (n * 5) % 6)))
        .collect();
    let clauses = plan(values_of("id"), &[("s", SortOrder::Ascending)]);
    check(&clauses, &items, &["0", "5", "4", "3", "2", "1"]);
    let distinct = plan(values_of("s").distinct(true), &[("s", SortOrder::Ascending)]);
    assert_eq!(rows(&distinct, &items, 1, 8), rows(&distinct, &items, 10, 8));
}

#[test]
fn a_row_whose_key_was_cut_is_rather_shown_twice_than_lost() {
    let all: Vec<Value> =
        (0..4).map(|n| item(&format!(r#"{{"id":{n},"s":"{}{n}"}}"#, "x".repeat(30)))).collect();
    let plan = Plan::new(plan(values_of("id"), &[("s", SortOrder::Ascending)]));
    let limits = Limits { rows_max: 2, bytes_max: usize::MAX };
    let (_, next) = Values::new(all.clone()).page(&plan, Position::default(), limits).unwrap();
    let mut next = next.unwrap();
    next.at.cut_long_key(8);
    // The item at which the page ended is deleted.
    let left = vec![all[0].clone(), all[2].clone(), all[3].clone()];
    let limits = Limits { rows_max: 10, bytes_max: usize::MAX };
    let (rows, next) = Values::new(left).page(&plan, next, limits).unwrap();
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| {
            if let Row::Json(text) = row { String::from_utf8(text).unwrap() } else { String::new() }
        })
        .collect();
    assert_eq!((rows.join(" ").as_str(), next), ("0 2 3", None));
}

#[test]
fn rows_of_a_join_are_cut_between_pages() {
    let items =
        [item(r#"{"id":1,"a":[1,2,3]}"#), item(r#"{"id":0,"a":[]}"#), item(r#"{"id":2,"a":[4]}"#)];
    let elements = Binding::Elements(path(&["a"]));
    let select = Select::new(1, vec![elements], None, Projection::Value(Expr::Variable(1)));
    check(&plan(select.clone(), &[]), &items, &["1", "2", "3", "4"]);
    check(&plan(select, &[("id", SortOrder::Descending)]), &items, &["4", "1", "2", "3"]);
}

#[test]
fn groups_come_in_the_order_in_which_they_are_first_met() {
    let items = numbered(10);
    let count = AggregateCall { aggregate: Aggregate::Count, operand: path(&["id"]) };
    let sum = AggregateCall { aggregate: Aggregate::Sum, operand: path(&["n"]) };
    let grouping = Grouping { keys: vec![path(&["t"])], aggregates: vec![count, sum] };
    let variables = Expr::Array((1..4).map(Expr::Variable).collect());
    let select = Select::new(1, Vec::new(), None, Projection::Value(variables));
    let clauses = plan(select.grouped(Some(grouping)), &[]);
    check(&clauses, &items, &["[0,4,6]", "[1,3,24]", "[2,3,15]"]);
}

#[test]
fn an_aggregate_without_rows_is_still_one_row() {
    let count = AggregateCall { aggregate: Aggregate::Count, operand: path(&["id"]) };
    let grouping = Grouping { keys: Vec::new(), aggregates: vec![count] };
    let select = Select::new(1, Vec::new(), None, Projection::Value(Expr::Variable(1)));
    check(&plan(select.grouped(Some(grouping)), &[]), &[], &["0"]);
}

#[test]
fn distinct_rows_in_a_foreign_order_are_shown_where_they_appear_first() {
    let items = numbered(10);
    let clauses = plan(values_of("t").distinct(true), &[("n", SortOrder::Descending)]);
    // Greatest n first: 9 (id 7), 8 (id 4), 7 (id 1), 6 (id 8), 5 (id 5), ...
    check(&clauses, &items, &["1", "2", "0"]);
}

#[test]
fn a_page_that_would_keep_too_much_is_shorter() {
    let large = "y".repeat(PAGE_MEMORY_BYTES_MAX / 4);
    let items: Vec<Value> =
        (0..8).map(|n| item(&format!(r#"{{"id":{n},"s":"{n}{large}"}}"#))).collect();
    let clauses = plan(values_of("id"), &[("s", SortOrder::Descending)]);
    let plan = Plan::new(clauses.clone());
    let limits = Limits { rows_max: 100, bytes_max: usize::MAX };
    let (page, next) = Values::new(items.clone()).page(&plan, Position::default(), limits).unwrap();
    assert!((1..5).contains(&page.len()) && next.is_some(), "{}", page.len());
    assert_eq!(rows(&clauses, &items, 100, 100), ["7", "6", "5", "4", "3", "2", "1", "0"]);
}

#[test]
fn a_query_that_must_keep_everything_fails_when_it_is_too_much() {
    let large = "y".repeat(limits::QUERY_KEPT_BYTES_MAX / 8);
    let items: Vec<Value> =
        (0..8).map(|n| item(&format!(r#"{{"id":{n},"s":"{n}{large}"}}"#))).collect();
    let plan = Plan::new(plan(values_of("s").distinct(true), &[("id", SortOrder::Ascending)]));
    let limits = Limits { rows_max: 1, bytes_max: usize::MAX };
    let page = Values::new(items).page(&plan, Position::default(), limits);
    assert_eq!(page.map(|_| ()), Err(EvalError::MemoryExceeded));
}

#[test]
fn items_are_read_only_as_far_as_a_query_looks() {
    let filter = Expr::Binary {
        op: BinaryOp::Greater,
        left: Box::new(path(&["a", "b"])),
        right: Box::new(path(&["c"])),
    };
    let select = Select::new(
        1,
        Vec::new(),
        Some(filter),
        Projection::Fields(vec![
            ("x".to_owned(), path(&["d"])),
            ("whole".to_owned(), Expr::Variable(0)),
        ]),
    );
    let required = RequiredFields::of(&Plan::new(plan(select, &[("e", SortOrder::Ascending)])));
    let field_mask = |paths: &[&[&str]]| {
        let mut field_mask = FieldMask::NOTHING;
        for path in paths {
            let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
            field_mask.add(&path, FieldMask::All);
        }
        field_mask
    };
    assert_eq!(required.to_match, field_mask(&[&["a", "b"], &["c"]]));
    assert_eq!(required.to_order, field_mask(&[&["a", "b"], &["c"], &["e"]]));
    assert_eq!(required.to_write, field_mask(&[&["a", "b"], &["c"], &["d"]]));
    let elements = Binding::Elements(path(&["tags"]));
    let name = Expr::Property { base: Box::new(Expr::Variable(1)), name: "name".to_owned() };
    let select = Select::new(1, vec![elements], None, Projection::Value(name));
    let required = RequiredFields::of(&Plan::new(plan(select, &[])));
    assert_eq!(required.to_write, field_mask(&[&["tags", "name"]]));
}

#[test]
fn equal_rows_are_counted_in_one_step() {
    let aggregates = |calls: &[(Aggregate, Expr)]| {
        let call = |(aggregate, operand): &(Aggregate, Expr)| AggregateCall {
            aggregate: *aggregate,
            operand: operand.clone(),
        };
        let values = (1..=calls.len()).map(Expr::Variable).collect();
        let select = Select::new(1, Vec::new(), None, Projection::Value(Expr::Array(values)));
        let aggregates = calls.iter().map(call).collect();
        plan(select.grouped(Some(Grouping { keys: Vec::new(), aggregates })), &[])
    };
    let constant = |text: &str| Expr::Constant(Some(item(text).into()));
    let counted = |clauses: &Clauses, counts: &[u64]| {
        let plan = Plan::new(clauses.clone());
        assert!(plan.only_counts());
        let limits = Limits { rows_max: 10, bytes_max: usize::MAX };
        let mut execution: Execution<Value> = Execution::new(plan, Position::default(), limits);
        counts.iter().for_each(|count| execution.take_counted(*count).unwrap());
        execution.finish(&mut Values::new(Vec::new())).unwrap();
        let rows = execution.into_rows();
        let [Row::Json(text)] = rows.as_slice() else { panic!("{rows:?}") };
        String::from_utf8(text.clone()).unwrap()
    };
    let all = aggregates(&[
        (Aggregate::Count, constant("1")),
        (Aggregate::Count, constant("null")),
        (Aggregate::Count, Expr::Constant(None)),
        (Aggregate::CountIf, constant("true")),
        (Aggregate::CountIf, constant("1")),
        (Aggregate::Sum, constant("-3")),
        (Aggregate::Average, constant("7")),
        (Aggregate::Max, constant("\"a\"")),
        (Aggregate::MakeSet, constant("[1]")),
    ]);
    // Too many to be added one by one within a test.
    let counts = [1_000_000_000_000_000, 0, 1];
    assert_eq!(
        counted(&all, &counts),
        "[1000000000000001,1000000000000001,0,1000000000000001,0,-3000000000000003,7,\"a\",[[1]]]"
    );
    // Undefined as a whole, like the average of no values.
    let none = aggregates(&[(Aggregate::Count, constant("1")), (Aggregate::Max, constant("2"))]);
    assert_eq!(counted(&none, &[0, 0]), "[0]");
    // Values for which adding many at once is not the same are added one by one.
    let each = aggregates(&[
        (Aggregate::Count, constant("1")),
        (Aggregate::Sum, constant("0.1")),
        (Aggregate::MakeList, constant("true")),
    ]);
    assert_eq!(counted(&each, &[2, 1]), "[3,0.30000000000000004,[true,true,true]]");
}
