//! Random queries over random items, answered by the engine and by the simplest code that can be
//! right: filter all, sort all, group all, cut. Pages of any size, any number of ranges.

use std::cmp::Ordering;
use std::sync::Arc;

use engine::Container;
use engine::ops::{ItemOp, PageRequest, Row, Scope};
use model::{Object, Value, json};
use proptest::prelude::*;
use proptest::sample::select;
use testkit::harness::{Harness, body, string_key, test_context};

const FIELDS: [&str; 3] = ["x", "y", "z"];

/// A field's value, if the item has it.
type Field = Option<Value>;

#[derive(Clone, Debug)]
struct Query {
    filter: Option<Filter>,
    shape: Shape,
    window: Window,
}

/// Conditions that indexes serve, and their combinations.
#[derive(Clone, Debug)]
enum Filter {
    Compare(usize, &'static str, Value),
    Between(usize, Value, Value),
    In(usize, Vec<Value>),
    Like(usize, &'static str),
    StartsWith(usize, &'static str),
    Contains(usize, Value),
    Exists(usize, Value),
    IsDefined(usize),
    Not(Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
}

#[derive(Clone, Debug)]
enum Shape {
    Rows,
    Joined(usize, Value),
    Ordered(Vec<(usize, bool)>),
    Distinct(usize),
    OrderedDistinct(usize, bool),
    Grouped(usize, usize),
    Aggregated(usize),
}

#[derive(Clone, Copy, Debug)]
enum Window {
    All,
    Top(usize),
    Offset(usize, usize),
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..4).prop_map(Value::Int64),
        (-3_i64..4).prop_map(|n| Value::Double(n as f64 / 2.0)),
        select(vec!["", "a", "ab", "b", "B", "é"]).prop_map(Value::from),
    ]
}

fn any_item() -> impl Strategy<Value = Vec<Field>> {
    let field = prop_oneof![
        4 => any_scalar().prop_map(Some),
        1 => Just(None),
        1 => prop::collection::vec(any_scalar(), 0..3).prop_map(|v| Some(Value::Array(v))),
    ];
    prop::collection::vec(field, FIELDS.len())
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let field = || 0..FIELDS.len();
    let operator = select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let prefix = || select(vec!["", "a", "ab", "B", "é", "c"]);
    let condition = prop_oneof![
        4 => (field(), operator, any_scalar()).prop_map(|(f, op, v)| Filter::Compare(f, op, v)),
        1 => (field(), any_scalar(), any_scalar()).prop_map(|(f, a, b)| Filter::Between(f, a, b)),
        1 => (field(), prop::collection::vec(any_scalar(), 1..4))
            .prop_map(|(f, list)| Filter::In(f, list)),
        1 => (field(), prefix()).prop_map(|(f, prefix)| Filter::Like(f, prefix)),
        1 => (field(), prefix()).prop_map(|(f, prefix)| Filter::StartsWith(f, prefix)),
        1 => (field(), any_scalar()).prop_map(|(f, v)| Filter::Contains(f, v)),
        1 => (field(), any_scalar()).prop_map(|(f, v)| Filter::Exists(f, v)),
        1 => field().prop_map(Filter::IsDefined),
    ];
    condition.prop_recursive(3, 8, 2, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            1 => boxed().prop_map(Filter::Not),
            2 => (boxed(), boxed()).prop_map(|(a, b)| Filter::And(a, b)),
            2 => (boxed(), boxed()).prop_map(|(a, b)| Filter::Or(a, b)),
        ]
    })
}

fn any_query() -> impl Strategy<Value = Query> {
    let field = || 0..FIELDS.len();
    let filter = prop::option::of(any_filter());
    let shape = prop_oneof![
        Just(Shape::Rows),
        (field(), any_scalar()).prop_map(|(field, wanted)| Shape::Joined(field, wanted)),
        prop::collection::vec((field(), any::<bool>()), 1..3).prop_map(Shape::Ordered),
        field().prop_map(Shape::Distinct),
        (field(), any::<bool>()).prop_map(|(f, desc)| Shape::OrderedDistinct(f, desc)),
        (field(), field()).prop_map(|(key, of)| Shape::Grouped(key, of)),
        field().prop_map(Shape::Aggregated),
    ];
    let window = prop_oneof![
        Just(Window::All),
        (0_usize..5).prop_map(Window::Top),
        (0_usize..4, 0_usize..5).prop_map(|(offset, limit)| Window::Offset(offset, limit)),
    ];
    (filter, shape, window).prop_map(|(filter, shape, window)| Query { filter, shape, window })
}

impl Filter {
    fn text(&self) -> String {
        let path = |field: &usize| format!("c.{}", FIELDS[*field]);
        let value = json::to_string;
        match self {
            Filter::Compare(f, operator, v) => format!("{} {operator} {}", path(f), value(v)),
            Filter::Between(f, a, b) => {
                format!("({} BETWEEN {} AND {})", path(f), value(a), value(b))
            }
            Filter::In(f, list) => {
                let list: Vec<String> = list.iter().map(value).collect();
                format!("{} IN ({})", path(f), list.join(", "))
            }
            Filter::Like(f, prefix) => format!("{} LIKE '{prefix}%'", path(f)),
            Filter::StartsWith(f, prefix) => format!("STARTSWITH({}, '{prefix}')", path(f)),
            Filter::Contains(f, v) => format!("ARRAY_CONTAINS({}, {})", path(f), value(v)),
            Filter::Exists(f, v) => {
                format!("EXISTS(SELECT VALUE e FROM e IN {} WHERE e = {})", path(f), value(v))
            }
            Filter::IsDefined(f) => format!("IS_DEFINED({})", path(f)),
            Filter::Not(inner) => format!("NOT ({})", inner.text()),
            Filter::And(a, b) => format!("({} AND {})", a.text(), b.text()),
            Filter::Or(a, b) => format!("({} OR {})", a.text(), b.text()),
        }
    }

    /// True, false or undefined.
    fn truth(&self, item: &[Field]) -> Option<bool> {
        let starts = |f: &usize, prefix: &str| {
            item[*f].as_ref().and_then(|v| Some(v.as_str()?.starts_with(prefix)))
        };
        let holds = |f: &usize, wanted: &Value| {
            let elements = item[*f].as_ref().and_then(Value::as_array)?;
            let wanted = Some(wanted.clone());
            Some(elements.iter().any(|element| is_equal(&Some(element.clone()), &wanted)))
        };
        match self {
            Filter::Compare(f, operator, wanted) => compared(&item[*f], operator, wanted),
            Filter::Between(f, low, high) => {
                both(compared(&item[*f], ">=", low), compared(&item[*f], "<=", high))
            }
            Filter::In(f, list) => {
                let is_one = |wanted: &Value| compared(&item[*f], "=", wanted);
                list.iter().map(is_one).reduce(either).flatten()
            }
            Filter::Like(f, prefix) | Filter::StartsWith(f, prefix) => starts(f, prefix),
            Filter::Contains(f, wanted) => holds(f, wanted),
            Filter::Exists(f, wanted) => Some(holds(f, wanted).unwrap_or(false)),
            Filter::IsDefined(f) => Some(item[*f].is_some()),
            Filter::Not(inner) => inner.truth(item).map(|truth| !truth),
            Filter::And(a, b) => both(a.truth(item), b.truth(item)),
            Filter::Or(a, b) => either(a.truth(item), b.truth(item)),
        }
    }
}

fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn either(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    both(a.map(|a| !a), b.map(|b| !b)).map(|neither| !neither)
}

impl Query {
    fn text(&self) -> String {
        let top =
            if let Window::Top(n) = self.window { format!("TOP {n} ") } else { String::new() };
        let path = |field: usize| format!("c.{}", FIELDS[field]);
        let direction = |is_descending: bool| if is_descending { "DESC" } else { "ASC" };
        let (select, tail) = match &self.shape {
            Shape::Rows => (format!("{top}VALUE c.id"), String::new()),
            Shape::Joined(..) => (format!("{top}VALUE c.id"), String::new()),
            Shape::Ordered(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(field, desc)| format!("{} {}", path(*field), direction(*desc)))
                    .collect();
                let items: Vec<String> =
                    keys.iter().map(|key| format!("{{k: {}}}", &key[..3])).collect();
                let tail = format!(" ORDER BY {}", keys.join(", "));
                (format!("{top}VALUE [{}, c.id]", items.join(", ")), tail)
            }
            Shape::Distinct(field) => (format!("DISTINCT {top}{}", path(*field)), String::new()),
            Shape::OrderedDistinct(field, desc) => {
                let tail = format!(" ORDER BY {} {}", path(*field), direction(*desc));
                (format!("DISTINCT {top}VALUE {}", path(*field)), tail)
            }
            Shape::Grouped(key, of) => {
                let (key, of) = (path(*key), path(*of));
                let select =
                    format!("{top}{key} AS k, COUNT({of}) AS n, SUM({of}) AS s, MIN({of}) AS m");
                (select, format!(" GROUP BY {key}"))
            }
            Shape::Aggregated(of) => {
                let of = path(*of);
                (
                    format!("{top}COUNT(1) AS r, COUNT({of}) AS n, SUM({of}) AS s, MAX({of}) AS m"),
                    String::new(),
                )
            }
        };
        let mut conditions: Vec<String> = self.filter.iter().map(Filter::text).collect();
        let mut source = "c".to_owned();
        if let Shape::Joined(field, wanted) = &self.shape {
            source = format!("c JOIN e IN {}", path(*field));
            conditions.push(format!("e = {}", json::to_string(wanted)));
        }
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let window = match self.window {
            Window::Offset(offset, limit) => format!(" OFFSET {offset} LIMIT {limit}"),
            Window::All | Window::Top(_) => String::new(),
        };
        format!("SELECT {select} FROM {source}{filter}{tail}{window}")
    }

    fn cut<T>(&self, rows: Vec<T>) -> Vec<T> {
        let (offset, limit) = match self.window {
            Window::All => (0, usize::MAX),
            Window::Top(n) => (0, n),
            Window::Offset(offset, limit) => (offset, limit),
        };
        rows.into_iter().skip(offset).take(limit).collect()
    }
}

/// The hash that arrays are ordered by.
fn hashed(array: &Value) -> [u8; 16] {
    model::hash::hash_bytes(model::hash::distinct_hash(array))
}

fn rank(value: &Field) -> u8 {
    match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(false)) => 2,
        Some(Value::Bool(true)) => 3,
        Some(value) if value.as_f64().is_some() => 4,
        Some(value) if value.as_str().is_some() => 5,
        Some(_) => 6,
    }
}

fn compare(a: &Field, b: &Field) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.partial_cmp(&b).expect("finite numbers"),
            _ if a.as_array().is_some() => hashed(a).cmp(&hashed(b)),
            _ => a.as_str().cmp(&b.as_str()),
        },
        _ => Ordering::Equal,
    })
}

fn is_equal(a: &Field, b: &Field) -> bool {
    match (a, b) {
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            let pairs = || a.iter().cloned().map(Some).zip(b.iter().cloned().map(Some));
            a.len() == b.len() && pairs().all(|(a, b)| is_equal(&a, &b))
        }
        _ => rank(a) != 6 && compare(a, b).is_eq(),
    }
}

/// True, false or undefined.
fn compared(value: &Field, operator: &str, wanted: &Value) -> Option<bool> {
    let wanted = &Some(wanted.clone());
    value.as_ref()?;
    let is_bool = |rank: u8| rank == 2 || rank == 3;
    let (left, right) = (rank(value), rank(wanted));
    let is_comparable = (left == right && left != 6) || (is_bool(left) && is_bool(right));
    let order = compare(value, wanted);
    match operator {
        "=" => Some(is_equal(value, wanted)),
        "!=" => Some(!is_equal(value, wanted)),
        _ if !is_comparable => None,
        "<" => Some(order.is_lt()),
        "<=" => Some(order.is_le()),
        ">" => Some(order.is_gt()),
        _ => Some(order.is_ge()),
    }
}

/// Rows as text; of an ordered query only its keys, since ties may come in any order.
fn naive(query: &Query, items: &[Vec<Field>]) -> Vec<String> {
    let kept: Vec<(usize, &Vec<Field>)> = items
        .iter()
        .enumerate()
        .filter(|(_, item)| {
            query.filter.as_ref().is_none_or(|filter| filter.truth(item) == Some(true))
        })
        .collect();
    match &query.shape {
        Shape::Rows => query.cut(kept.iter().map(|(id, _)| format!("\"{id}\"")).collect()),
        Shape::Joined(field, wanted) => {
            let wanted = Some(wanted.clone());
            let rows = kept.iter().flat_map(|(id, item)| {
                let elements = item[*field].as_ref().and_then(Value::as_array).unwrap_or_default();
                let found = elements.iter().filter(|e| is_equal(&Some((*e).clone()), &wanted));
                std::iter::repeat_n(format!("\"{id}\""), found.count())
            });
            query.cut(rows.collect())
        }
        Shape::Ordered(keys) => {
            let mut rows: Vec<Vec<Field>> = kept
                .iter()
                .map(|(_, item)| keys.iter().map(|(field, _)| item[*field].clone()).collect())
                .collect();
            rows.sort_by(|a, b| {
                let by_key = keys.iter().enumerate().map(|(at, (_, is_descending))| {
                    let order = compare(&a[at], &b[at]);
                    if *is_descending { order.reverse() } else { order }
                });
                by_key.fold(Ordering::Equal, Ordering::then)
            });
            query.cut(rows).iter().map(|row| keys_text(row)).collect()
        }
        Shape::Distinct(field) => {
            let values = distinct(kept.iter().map(|(_, item)| item[*field].clone()));
            query.cut(values.iter().map(|value| object(&[(FIELDS[*field], value)])).collect())
        }
        Shape::OrderedDistinct(field, is_descending) => {
            let mut values = distinct(kept.iter().map(|(_, item)| item[*field].clone()));
            values.sort_by(compare);
            if *is_descending {
                values.reverse();
            }
            query.cut(values.into_iter().flatten().map(|value| key_text(&Some(value))).collect())
        }
        Shape::Grouped(key, of) => {
            let keys = distinct(kept.iter().map(|(_, item)| item[*key].clone()));
            let rows = keys.iter().map(|value| {
                let members = kept.iter().filter(|(_, item)| {
                    is_equal(&item[*key], value) || (item[*key].is_none() && value.is_none())
                });
                let values: Vec<Value> =
                    members.filter_map(|(_, item)| item[*of].clone()).collect();
                let count = Some(Value::Int64(values.len() as i64));
                object(&[
                    ("k", value),
                    ("n", &count),
                    ("s", &sum(&values)),
                    ("m", &extreme(&values, Ordering::Less)),
                ])
            });
            query.cut(rows.collect())
        }
        Shape::Aggregated(of) => {
            let values: Vec<Value> =
                kept.iter().filter_map(|(_, item)| item[*of].clone()).collect();
            let rows = Some(Value::Int64(kept.len() as i64));
            let count = Some(Value::Int64(values.len() as i64));
            let row = object(&[
                ("r", &rows),
                ("n", &count),
                ("s", &sum(&values)),
                ("m", &extreme(&values, Ordering::Greater)),
            ]);
            query.cut(vec![row])
        }
    }
}

fn distinct(values: impl Iterator<Item = Field>) -> Vec<Field> {
    let mut seen: Vec<Field> = Vec::new();
    for value in values {
        if !seen.iter().any(|known| is_equal(known, &value) || (known.is_none() && value.is_none()))
        {
            seen.push(value);
        }
    }
    seen
}

fn sum(values: &[Value]) -> Field {
    let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
    numbers.map(|numbers| Value::Double(numbers.iter().sum()))
}

fn extreme(values: &[Value], wanted: Ordering) -> Field {
    if values.iter().any(|value| value.as_array().is_some()) {
        return None;
    }
    values
        .iter()
        .cloned()
        .reduce(|best, value| {
            let is_better = compare(&Some(value.clone()), &Some(best.clone())) == wanted;
            if is_better { value } else { best }
        })
        .map(Some)
        .unwrap_or(None)
}

fn object(fields: &[(&str, &Field)]) -> String {
    let fields =
        fields.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value).clone()?)));
    json::to_string(&Value::Object(fields.collect::<Object>()))
}

fn key_text(value: &Field) -> String {
    value.as_ref().map_or("undefined".to_owned(), json::to_string)
}

fn keys_text(keys: &[Field]) -> String {
    keys.iter().map(key_text).collect::<Vec<_>>().join(" ")
}

/// The part of an engine's row that the query determines.
fn decided(query: &Query, row: &Row) -> String {
    let Row::Json(text) = row else { panic!("a projected row") };
    let value = json::parse(text, 20).expect("JSON").value;
    match &query.shape {
        Shape::Ordered(keys) => {
            let row = value.as_array().expect("keys and an id");
            let keys: Vec<Field> =
                row.iter().take(keys.len()).map(|key| key.field("k").cloned()).collect();
            keys_text(&keys)
        }
        Shape::OrderedDistinct(..) => key_text(&Some(value)),
        Shape::Rows
        | Shape::Joined(..)
        | Shape::Distinct(_)
        | Shape::Grouped(..)
        | Shape::Aggregated(_) => json::to_string(&value),
    }
}

async fn answer(h: &Harness, c: &Arc<Container>, query: &Query, page: usize) -> Vec<String> {
    let plan = lang::nosql::compile(&query.text(), &[]).expect("a query");
    let mut rows = Vec::new();
    let mut continuation = None;
    loop {
        let request = PageRequest { items_max: Some(page), continuation, ..PageRequest::default() };
        let mut ctx = test_context();
        let page = h.engine.query(&mut ctx, c, plan.clone(), Scope::All, request).await;
        let page = page.expect("a page");
        rows.extend(page.rows.iter().map(|row| decided(query, row)));
        continuation = page.continuation;
        if continuation.is_none() {
            return rows;
        }
    }
}

fn check(query: &Query, expected: Vec<String>, mut rows: Vec<String>) {
    let is_ordered = matches!(query.shape, Shape::Ordered(_) | Shape::OrderedDistinct(..));
    let is_cut = !matches!(query.window, Window::All);
    if is_ordered {
        assert_eq!(rows, expected, "{}", query.text());
    } else if is_cut {
        assert_eq!(rows.len(), expected.len(), "{}", query.text());
    } else {
        let mut expected = expected;
        expected.sort();
        rows.sort();
        assert_eq!(rows, expected, "{}", query.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_plain_code(
        items in prop::collection::vec(any_item(), 0..14),
        queries in prop::collection::vec(any_query(), 12),
        ranges in 1_u32..4,
        page in 1_usize..6,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let h = Harness::in_memory();
            let c = h.container("c", ranges).await;
            for (id, item) in items.iter().enumerate() {
                let mut object = Object::new();
                object.insert("id", id.to_string().into());
                object.insert("pk", id.to_string().into());
                for (name, value) in FIELDS.iter().zip(item) {
                    if let Some(value) = value {
                        object.insert(*name, value.clone());
                    }
                }
                let text = json::to_string(&Value::Object(object));
                let mut ctx = test_context();
                let op = ItemOp::Create { body: body(&text) };
                let key = Some(string_key(&id.to_string()));
                h.engine.write_item(&mut ctx, &c, key, op).await.expect("an item");
            }
            for query in &queries {
                let expected = naive(query, &items);
                check(query, expected.clone(), answer(&h, &c, query, page).await);
                check(query, expected, answer(&h, &c, query, 1000).await);
            }
        });
    }
}
