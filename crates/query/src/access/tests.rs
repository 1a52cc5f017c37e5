use std::sync::Arc;

use model::order::{TypeOrder, encode};
use model::{Value, json};
use proptest::prelude::*;

use super::*;
use crate::algebra::{BinaryOp, ComputedProperty, LikePattern, SubqueryForm};
use crate::functions;
use crate::like::Pattern;
use crate::plan::{AggregateCall, Binding, Clauses, Grouping, Projection, Select, SortKey};

mod soundness;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), 20).unwrap().value
}

fn constant(text: &str) -> Expr {
    constant_of(value(text))
}

fn constant_of(value: Value) -> Expr {
    Expr::Constant(Some(Arc::new(value)))
}

/// `a.b[]`: the path that begins with variable `slot`; `3` is an element.
fn from_variable(slot: usize, names: &str) -> Expr {
    let names = names.split('.').filter(|name| !name.is_empty());
    names.fold(Expr::Variable(slot), |base, name| match name.parse::<i64>() {
        Ok(n) => {
            Expr::Element { base: Box::new(base), index: Box::new(constant_of(Value::Int64(n))) }
        }
        Err(_) => Expr::Property { base: Box::new(base), name: name.to_owned() },
    })
}

fn path(names: &str) -> Expr {
    from_variable(0, names)
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn equal(names: &str, text: &str) -> Expr {
    binary(BinaryOp::Equal, path(names), constant(text))
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::call(functions::lookup(name).unwrap(), args).unwrap()
}

fn like(names: &str, pattern: &str) -> Expr {
    let pattern = LikePattern::Compiled(Pattern::compile(pattern, None));
    Expr::Like { operand: Box::new(path(names)), pattern }
}

fn not(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}

fn plan_of(select: Select) -> Plan {
    let input = Input::Items;
    let type_order = TypeOrder::NoSql;
    Plan::new(Clauses { input, select, order: Vec::new(), top: None, window: None, type_order })
}

fn plan(filter: Expr) -> Plan {
    plan_of(Select::new(1, Vec::new(), Some(filter), Projection::Value(Expr::Variable(0))))
}

/// `EXISTS(SELECT VALUE e FROM e IN array WHERE filter)` with `e` as variable `slot`.
fn exists(slot: usize, array: Expr, filter: Expr) -> Expr {
    let projection = Projection::Value(Expr::Variable(slot));
    let select = Select::new(slot, vec![Binding::Elements(array)], Some(filter), projection);
    Expr::Subquery { form: SubqueryForm::Exists, select: Box::new(select) }
}

fn index_set(filter: Expr) -> IndexSet {
    plan(filter).index_set(&|_| true)
}

/// `path: lo..hi lo..hi`, followed by `?` if inexact; parts in parentheses.
fn shown(index_set: &IndexSet) -> String {
    let joined = |parts: &[IndexSet], by: &str| {
        format!("({})", parts.iter().map(shown).collect::<Vec<_>>().join(by))
    };
    match index_set {
        IndexSet::Everything => "everything".to_owned(),
        IndexSet::Nothing => "nothing".to_owned(),
        IndexSet::All(parts) => joined(parts, " and "),
        IndexSet::Any(parts) => joined(parts, " or "),
        IndexSet::Terms(terms) => {
            let steps = terms.path.iter().map(|step| match step {
                Step::Name(name) => format!("/{name}"),
                Step::Elements => "/[]".to_owned(),
                Step::Cells(space) => format!("/{space:?}"),
            });
            let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let ranges = terms.ranges.iter().map(|r| format!(" {}..{}", hex(&r.lo), hex(&r.hi)));
            let mark = if terms.is_exact { "" } else { "?" };
            steps.chain([":".to_owned()]).chain(ranges).chain([mark.to_owned()]).collect()
        }
    }
}

#[track_caller]
fn check(filter: Expr, expected: &str) {
    assert_eq!(shown(&index_set(filter)), expected);
}

#[test]
fn comparisons_stay_within_their_type() {
    let table = [
        (BinaryOp::Equal, "\"a\"", "/x: 38610001..38610002"),
        (BinaryOp::Less, "\"a\"", "/x: 38..38610001"),
        (BinaryOp::LessOrEqual, "\"a\"", "/x: 38..38610002"),
        (BinaryOp::Greater, "\"a\"", "/x: 38610002..39"),
        (BinaryOp::GreaterOrEqual, "\"a\"", "/x: 38610001..39"),
        (BinaryOp::GreaterOrEqual, "1", "/x: 30bff000000000000080..31"),
        (BinaryOp::Less, "true", "/x: 20..28"),
        (BinaryOp::Less, "null", "nothing"),
        (BinaryOp::LessOrEqual, "null", "/x: 18..19"),
        (BinaryOp::Equal, "null", "/x: 18..19"),
        (BinaryOp::Equal, "[1]", "/x: 40..41?"),
        (BinaryOp::Equal, "{}", "/x: 48..49?"),
        (BinaryOp::Less, "[1]", "nothing"),
        (BinaryOp::NotEqual, "1", "everything"),
    ];
    for (op, text, expected) in table {
        let index_set = index_set(binary(op, path("x"), constant(text)));
        assert_eq!(shown(&index_set), expected, "{op:?} {text}");
    }
    check(binary(BinaryOp::Less, constant("\"a\""), path("x")), "/x: 38610002..39");
    check(binary(BinaryOp::Equal, path("x"), Expr::Constant(None)), "nothing");
    let nan = || constant_of(Value::Double(f64::NAN));
    check(binary(BinaryOp::Equal, path("x"), nan()), "nothing");
    check(binary(BinaryOp::Less, path("x"), nan()), "nothing");
    check(not(binary(BinaryOp::Less, path("x"), nan())), "/x: 30..31");
    check(binary(BinaryOp::Equal, path("x"), path("y")), "everything");
}

#[test]
fn negation_is_pushed_down() {
    check(not(not(equal("x", "null"))), "/x: 18..19");
    check(not(equal("x", "null")), "everything");
    check(not(binary(BinaryOp::NotEqual, path("x"), constant("null"))), "/x: 18..19");
    check(not(binary(BinaryOp::Less, path("x"), constant("\"a\""))), "/x: 38610001..39");
    check(path("x.y"), "/x/y: 28..29");
    check(not(path("x")), "/x: 20..21");
    let both = Expr::And(vec![path("x"), path("y")]);
    check(not(both), "(/x: 20..21 or /y: 20..21)");
}

#[test]
fn conditions_on_one_value_become_one_range() {
    let at_least = binary(BinaryOp::GreaterOrEqual, path("x"), constant("\"a\""));
    let below = binary(BinaryOp::Less, path("x"), constant("\"b\""));
    let both = Expr::And(vec![at_least.clone(), below.clone()]);
    check(both.clone(), "/x: 38610001..38620001");
    let nested = Expr::And(vec![path("y"), Expr::And(vec![both, equal("x", "\"b\"")])]);
    check(nested, "nothing");
    check(Expr::And(vec![at_least, equal("x", "1")]), "nothing");
    let between = Expr::Between {
        operand: Box::new(path("x")),
        low: Box::new(constant("\"a\"")),
        high: Box::new(constant("\"b\"")),
    };
    check(between.clone(), "/x: 38610001..38620002");
    check(not(between), "/x: 38..38610001 38620002..39");
    let either = Expr::Or(vec![equal("x", "\"b\""), equal("x", "null"), equal("x", "\"b\"")]);
    check(either, "/x: 18..19 38620001..38620002");
    let list = Expr::In {
        needle: Box::new(path("x")),
        list: vec![constant("\"b\""), Expr::Constant(None), constant("null")],
    };
    check(list.clone(), "/x: 18..19 38620001..38620002");
    check(not(list), "everything");
    let reversed = Expr::In { needle: Box::new(constant("1")), list: vec![path("x"), path("y")] };
    check(
        reversed,
        "(/x: 30bff000000000000080..30bff000000000000081 or \
         /y: 30bff000000000000080..30bff000000000000081)",
    );
}

#[test]
fn a_condition_that_is_not_understood_makes_the_rest_inexact() {
    let unknown = || binary(BinaryOp::Equal, path("x"), path("y"));
    check(Expr::And(vec![path("a"), unknown()]), "/a: 28..29?");
    check(Expr::Or(vec![path("a"), unknown()]), "everything");
    check(Expr::And(vec![path("a"), constant("true")]), "/a: 28..29");
    check(Expr::Or(vec![path("a"), constant("false")]), "/a: 28..29");
    check(Expr::And(vec![path("a"), constant("1")]), "nothing");
    let weak = Expr::And(vec![path("a"), path("b"), unknown()]);
    check(weak, "(/a: 28..29? and /b: 28..29?)");
}

#[test]
fn texts_are_found_by_their_beginning() {
    check(like("x", "ab%"), "/x: 386162..386163");
    check(like("x", "ab%c"), "/x: 386162..386163?");
    check(like("x", "a"), "/x: 38610001..38610002");
    check(like("x", "%"), "/x: 38..39");
    check(not(like("x", "a%")), "/x: 38..39?");
    check(call("STARTSWITH", vec![path("x"), constant("\"ab\"")]), "/x: 386162..386163");
    let flagged = |flag| vec![path("x"), constant("\"a\""), constant(flag)];
    check(call("STARTSWITH", flagged("false")), "/x: 3861..3862");
    check(call("STARTSWITH", flagged("true")), "/x: 38..39?");
    check(call("StringEquals", flagged("false")), "/x: 38610001..38610002");
    check(call("StringEquals", vec![constant("\"a\""), path("x")]), "/x: 38610001..38610002");
    for name in ["CONTAINS", "ENDSWITH", "RegexMatch"] {
        check(call(name, vec![path("x"), constant("\"a\"")]), "/x: 38..39?");
    }
    check(call("CONTAINS", vec![constant("\"a\""), path("x")]), "/x: 38..39?");
}

#[test]
fn long_texts_are_found_by_what_is_encoded_of_them() {
    let long = |last: char| constant_of(Value::String("x".repeat(600) + &last.to_string()));
    let IndexSet::Terms(equal) = index_set(binary(BinaryOp::Equal, path("x"), long('a'))) else {
        panic!("no terms");
    };
    assert!(equal.is_exact);
    assert_eq!(equal.ranges[0].lo.len(), 1 + 512 + 2 + 16);
    for op in [BinaryOp::Less, BinaryOp::Greater] {
        let IndexSet::Terms(range) = index_set(binary(op, path("x"), long('a'))) else {
            panic!("no terms");
        };
        assert!(!range.is_exact);
        let mut other = Vec::new();
        encode(TypeOrder::NoSql, Some(&Value::String("x".repeat(601))), &mut other);
        assert!(range.ranges[0].lo <= other && other < range.ranges[0].hi, "{op:?}");
    }
}

#[test]
fn type_checks() {
    let table = [
        ("IS_NULL", "/x: 18..19"),
        ("IS_BOOL", "/x: 20..29"),
        ("IS_NUMBER", "/x: 30..31"),
        ("IS_INTEGER", "/x: 30..31?"),
        ("IS_STRING", "/x: 38..39"),
        ("IS_ARRAY", "/x: 40..41"),
        ("IS_OBJECT", "/x: 48..49"),
        ("IS_PRIMITIVE", "/x: 18..39"),
        ("IS_DEFINED", "/x: 00..ff"),
    ];
    for (name, expected) in table {
        assert_eq!(shown(&index_set(call(name, vec![path("x")]))), expected, "{name}");
        assert_eq!(shown(&index_set(not(call(name, vec![path("x")])))), "everything", "{name}");
    }
}

#[test]
fn elements_of_arrays() {
    let contains = |args: &[&str]| {
        let args = args.iter().map(|text| constant(text));
        call("ARRAY_CONTAINS", [path("x")].into_iter().chain(args).collect())
    };
    check(contains(&["\"a\""]), "/x/[]: 38610001..38610002");
    check(contains(&["\"a\"", "true"]), "/x/[]: 38610001..38610002");
    check(contains(&["{\"n\":null}"]), "/x/[]: 48..49?");
    check(
        contains(&[r#"{"n":null,"o":{"p":true,"e":{}}}"#, "true"]),
        "(/x/[]/n: 18..19 and /x/[]/o/p: 28..29 and /x/[]/o/e: 48..49?)",
    );
    check(contains(&["{}", "true"]), "/x/[]: 48..49?");
    check(not(contains(&["1"])), "/x: 40..41?");
    check(call("ARRAY_CONTAINS", vec![constant("[true,null]"), path("x")]), "/x: 18..19 28..29");
    let many = |name| call(name, vec![path("x"), constant("null"), constant("true")]);
    check(many("ARRAY_CONTAINS_ANY"), "/x/[]: 18..19 28..29");
    check(many("ARRAY_CONTAINS_ALL"), "(/x/[]: 18..19 and /x/[]: 28..29)");
    check(equal("x.3.y", "null"), "/x/[]/y: 18..19?");
    check(
        Expr::And(vec![equal("x.3", "null"), equal("x.4", "true")]),
        "(/x/[]: 18..19? and /x/[]: 28..29?)",
    );
}

#[test]
fn conditions_on_an_element_may_hold_for_different_ones() {
    let element = |op, text| binary(op, from_variable(1, "n"), constant(text));
    let one = Expr::And(vec![
        element(BinaryOp::GreaterOrEqual, "\"a\""),
        element(BinaryOp::Less, "\"b\""),
        binary(BinaryOp::Equal, from_variable(1, "m"), constant("null")),
    ]);
    check(exists(1, path("x"), one), "(/x/[]/m: 18..19? and /x/[]/n: 38610001..38620001?)");
    let two = Expr::And(vec![
        exists(1, path("x"), binary(BinaryOp::Equal, Expr::Variable(1), constant("null"))),
        exists(1, path("x"), binary(BinaryOp::Equal, Expr::Variable(1), constant("true"))),
    ]);
    check(two, "(/x/[]: 18..19? and /x/[]: 28..29?)");
    let none = exists(1, path("x"), constant("false"));
    check(none.clone(), "nothing");
    check(not(none), "everything");
}

#[test]
fn joins_and_derived_sources() {
    let filter = Expr::And(vec![
        binary(BinaryOp::Equal, from_variable(1, "n"), constant("null")),
        equal("y", "true"),
    ]);
    let projection = Projection::Value(Expr::Variable(0));
    let elements = Binding::Elements(path("x"));
    let join = Select::new(1, vec![elements.clone()], Some(filter.clone()), projection.clone());
    let expected = "(/y: 28..29 and /x/[]/n: 18..19?)";
    assert_eq!(shown(&plan_of(join).index_set(&|_| true)), expected);
    let inner_filter = binary(BinaryOp::Equal, from_variable(1, "m"), constant("true"));
    let inner = Select::new(
        1,
        vec![elements],
        Some(inner_filter),
        Projection::Value(from_variable(1, "o")),
    );
    let derived = |inner| {
        let rows = Binding::Rows(Box::new(inner));
        plan_of(Select::new(1, vec![rows], Some(filter.clone()), projection.clone()))
    };
    let expected = "(/y: 28..29 and /x/[]/m: 28..29? and /x/[]/o/n: 18..19?)";
    assert_eq!(shown(&derived(inner.clone()).index_set(&|_| true)), expected);
    let count = AggregateCall { aggregate: Aggregate::Count, operand: constant("1") };
    let grouped = inner.grouped(Some(Grouping { keys: Vec::new(), aggregates: vec![count] }));
    assert_eq!(shown(&derived(grouped).index_set(&|_| true)), "/y: 28..29?");
    let value = Binding::Value(path("a"));
    let filter = binary(BinaryOp::Equal, from_variable(1, "b"), constant("null"));
    let select = Select::new(1, vec![value], Some(filter), projection);
    assert_eq!(shown(&plan_of(select).index_set(&|_| true)), "/a/b: 18..19");
}

#[test]
fn choices() {
    let choice = Expr::Conditional {
        condition: Box::new(path("a")),
        then: Box::new(path("b")),
        otherwise: Box::new(path("c")),
    };
    check(choice, "(/c: 28..29? or (/a: 28..29? and /b: 28..29?))");
    let coalesce = Expr::Coalesce(Box::new(path("a")), Box::new(constant("false")));
    check(coalesce.clone(), "/a: 28..29?");
    check(not(coalesce), "everything");
}

#[test]
fn computed_properties_are_what_they_are_defined_as() {
    let computed = |definition| {
        Expr::Computed(ComputedProperty { name: "p".into(), definition: Arc::new(definition) })
    };
    check(computed(equal("x", "null")), "/x: 18..19");
    check(binary(BinaryOp::Equal, computed(path("x.y")), constant("null")), "/x/y: 18..19");
    let lower = computed(call("LOWER", vec![path("x")]));
    check(binary(BinaryOp::Equal, lower, constant("null")), "everything");
}

#[test]
fn only_indexed_paths_are_used() {
    let plan = plan(Expr::And(vec![equal("x", "null"), equal("y.z", "null")]));
    let is_indexed = |path: &[Step]| path.len() == 1;
    assert_eq!(shown(&plan.index_set(&is_indexed)), "/x: 18..19?");
    assert_eq!(plan.index_set(&|_| false), IndexSet::Everything);
    check(binary(BinaryOp::Equal, Expr::Variable(0), constant("{}")), "everything");
}

#[test]
fn plans_without_filter_or_items() {
    assert_eq!(Plan::all_items().index_set(&|_| true), IndexSet::Everything);
    let with_input = |input| {
        let select = Select::new(1, Vec::new(), None, Projection::Value(Expr::Variable(0)));
        let type_order = TypeOrder::NoSql;
        Plan::new(Clauses { input, select, order: Vec::new(), top: None, window: None, type_order })
    };
    assert_eq!(with_input(Input::Nothing).index_set(&|_| true), IndexSet::Nothing);
    let outer = with_input(Input::Rows(Box::new(plan(path("x")))));
    assert_eq!(shown(&outer.index_set(&|_| true)), "/x: 28..29?");
}

#[test]
fn long_lists_stay_lists_and_longer_ones_become_ranges() {
    let list = |count: i64| {
        let list = (0..count).map(|n| constant_of(Value::Int64(n * 7 % count))).collect();
        Expr::In { needle: Box::new(path("x")), list }
    };
    let ranges = |filter| {
        let IndexSet::Terms(terms) = index_set(filter) else { panic!("no terms") };
        (terms.ranges.len(), terms.is_exact)
    };
    assert_eq!(ranges(list(20_000)), (20_000, true));
    assert_eq!(ranges(list(30_001)), (1, false));
    let either = (0..5000).map(|n| equal("x", &n.to_string())).collect();
    assert_eq!(ranges(Expr::Or(either)), (5000, true));
}

#[test]
fn hostile_filters_are_cut_short() {
    let paths: Vec<Expr> = (0..5000).map(|n| path(&format!("p{n}"))).collect();
    let IndexSet::All(parts) = index_set(Expr::And(paths.clone())) else {
        panic!("no intersection")
    };
    assert!(parts.len() == 1000 && !parts[0].is_exact());
    assert_eq!(index_set(Expr::Or(paths)), IndexSet::Everything);
    // Far more work than is granted: each list is cheap to describe, but not to encode.
    let large = Arc::new(Value::Array((0..50_000).map(Value::Int64).collect()));
    let contains = call("ARRAY_CONTAINS", vec![Expr::Constant(Some(large)), path("x")]);
    let filter = Expr::Or(vec![contains; 1000]);
    assert_eq!(index_set(filter), IndexSet::Everything);
}

#[test]
fn order_by_plain_paths_is_known() {
    let key = |expr| SortKey { expr, order: SortOrder::Descending };
    let ordered = |keys: Vec<Expr>, is_distinct| {
        let clauses = Plan::all_items().clauses().clone();
        let select = clauses.select.clone().distinct(is_distinct);
        let order = keys.into_iter().map(key).collect();
        Plan::new(Clauses { select, order, ..clauses }).order_paths()
    };
    let name = |name: &str| Step::Name(name.to_owned());
    assert_eq!(
        ordered(vec![path("a.b"), path("c")], false),
        Some(vec![
            (vec![name("a"), name("b")], SortOrder::Descending),
            (vec![name("c")], SortOrder::Descending)
        ])
    );
    assert_eq!(ordered(vec![path("a")], true), None);
    assert_eq!(ordered(Vec::new(), false), None);
    for other in [path("a.3"), path(""), constant("1"), from_variable(1, "a")] {
        assert_eq!(ordered(vec![path("a"), other], false), None);
    }
}

#[test]
fn extremes_are_single_aggregates_of_a_path() {
    let grouped = |calls: &[(Aggregate, Expr)], keys| {
        let call = |(aggregate, operand): &(Aggregate, Expr)| AggregateCall {
            aggregate: *aggregate,
            operand: operand.clone(),
        };
        let grouping = Grouping { keys, aggregates: calls.iter().map(call).collect() };
        let item = Expr::Object(vec![("item".to_owned(), Expr::Variable(1))]);
        let projection = Projection::Value(Expr::Array(vec![item]));
        plan_of(Select::new(1, Vec::new(), None, projection).grouped(Some(grouping))).extreme()
    };
    let least = (Aggregate::Min, path("a"));
    let a = vec![Step::Name("a".to_owned())];
    assert_eq!(
        grouped(std::slice::from_ref(&least), Vec::new()),
        Some((a.clone(), SortOrder::Ascending))
    );
    assert_eq!(
        grouped(&[(Aggregate::Max, path("a"))], Vec::new()),
        Some((a, SortOrder::Descending))
    );
    assert_eq!(grouped(&[(Aggregate::Sum, path("a"))], Vec::new()), None);
    assert_eq!(grouped(&[(Aggregate::Min, path("a.0"))], Vec::new()), None);
    assert_eq!(grouped(&[least.clone(), least.clone()], Vec::new()), None);
    assert_eq!(grouped(&[least], vec![path("b")]), None);
    assert_eq!(Plan::all_items().extreme(), None);
}
