//! Ordered sources: the same rows and positions as [`super::super::sort`], without reading all
//! items.

use std::cmp::Ordering;

use model::order::{TypeOrder, compare, encode};
use proptest::prelude::*;

use super::*;

/// Items in the order of a plan, from the first one that is needed.
struct InOrder<'v> {
    items: Vec<(u64, &'v Value)>,
    next: usize,
    /// Items to show before the source asks for a pause.
    patience: usize,
}

struct Shown<'v> {
    number: u64,
    value: &'v Value,
}

impl<'v> InOrder<'v> {
    fn of(clauses: &Clauses, items: &'v [Value]) -> Self {
        let mut items: Vec<(u64, &Value)> = (0..).zip(items).collect();
        let plan = Plan::new(clauses.clone());
        items.sort_by(|(a_number, a), (b_number, b)| {
            let keys = clauses.order.iter().map(|key| {
                let order = compare(TypeOrder::NoSql, value_of(key, a), value_of(key, b));
                match key.order {
                    SortOrder::Ascending => order,
                    SortOrder::Descending => order.reverse(),
                }
            });
            let order = keys.fold(Ordering::Equal, Ordering::then);
            order.then(plan.tie_of(*a_number).cmp(&plan.tie_of(*b_number)))
        });
        Self { items, next: 0, patience: usize::MAX }
    }

    /// Moves to the first item that is at or after a position in the index.
    fn seek(&mut self, clauses: &Clauses, start: Option<IndexStart>) {
        let Some(start) = start else {
            self.next = 0;
            return;
        };
        let plan = Plan::new(clauses.clone());
        let is_before = |(number, item): &&(u64, &Value)| {
            (index_key_of(clauses, item), plan.tie_of(*number)) < (start.key.clone(), start.tie)
        };
        self.next = self.items.iter().take_while(is_before).count();
    }
}

fn value_of<'v>(key: &SortKey, item: &'v Value) -> Option<&'v Value> {
    let Expr::Property { name, .. } = &key.expr else { panic!("not a property") };
    item.field(name)
}

/// The terms of an item in an index with a column for each sort key.
fn index_key_of(clauses: &Clauses, item: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for key in &clauses.order {
        let start = out.len();
        let value = value_of(key, item);
        encode(TypeOrder::NoSql, value, &mut out);
        if value.is_some_and(|value| value.as_array().is_some() || value.as_object().is_some()) {
            out.truncate(start + 1);
        }
        if key.order == SortOrder::Descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    out
}

impl Item for Shown<'_> {
    type WholeItem = Value;
    type Error = EvalError;

    fn number(&self) -> u64 {
        self.number
    }

    fn identity(&self) -> &[u8] {
        b"anywhere"
    }

    fn read(&self, _: &FieldMask) -> Result<Value, EvalError> {
        Ok(self.value.clone())
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        json::write(self.value, out);
    }

    fn bytes(&self) -> usize {
        1
    }

    fn to_whole_item(&self) -> Value {
        self.value.clone()
    }
}

impl Source for InOrder<'_> {
    type WholeItem = Value;
    type Error = EvalError;
    type Item<'s>
        = Shown<'s>
    where
        Self: 's;

    fn next(&mut self) -> Result<Next<Shown<'_>>, EvalError> {
        let Some(&(number, value)) = self.items.get(self.next) else { return Ok(Next::End) };
        if self.patience == 0 {
            return Ok(Next::Pause);
        }
        self.patience -= 1;
        self.next += 1;
        Ok(Next::Item(Shown { number, value }))
    }
}

struct Page {
    rows: Vec<Row<Value>>,
    next: Option<Position>,
    /// How many items were read.
    looked_at: usize,
}

fn page(
    clauses: &Clauses,
    items: &[Value],
    at: Position,
    rows_max: usize,
    patience: usize,
) -> Page {
    let limits = Limits { rows_max, bytes_max: usize::MAX };
    let mut execution = Execution::ordered(Plan::new(clauses.clone()), at, limits);
    assert!(execution.can_pause());
    let mut source = InOrder::of(clauses, items);
    if execution.must_look_up() {
        source.seek(clauses, execution.start_in_index());
        execution.look_up(&mut source).unwrap();
    }
    source.seek(clauses, execution.start_in_index());
    source.patience = patience;
    let first = source.next;
    let mut end = PageEnd::Satisfied;
    if !execution.is_satisfied() {
        end = execution.pull(&mut source).unwrap();
    }
    if end == PageEnd::Exhausted {
        end = execution.finish(&mut Values::new(Vec::new())).unwrap();
    }
    let next = (end == PageEnd::Full).then(|| execution.position(None));
    Page { looked_at: source.next - first, rows: execution.into_rows(), next }
}

/// All rows in pages, with each position cut to `key_max` bytes.
fn paged(
    clauses: &Clauses,
    items: &[Value],
    (rows_max, mut patience, key_max): (usize, usize, usize),
) -> Vec<Row<Value>> {
    let mut out = Vec::new();
    let mut position = Position::default();
    for _ in 0..1000 {
        let page = page(clauses, items, position.clone(), rows_max, patience);
        out.extend(page.rows);
        let Some(next) = page.next else { return out };
        if next == position {
            // Where an index cannot distinguish items, more of them must be read.
            patience *= 2;
        }
        position = next;
        position.at.cut_long_key(key_max);
    }
    panic!("pages without end");
}

fn sorted(clauses: &Clauses, items: &[Value]) -> Vec<Row<Value>> {
    let limits = Limits { rows_max: usize::MAX, bytes_max: usize::MAX };
    let plan = Plan::new(clauses.clone());
    let (rows, next) =
        Values::new(items.to_vec()).page(&plan, Position::default(), limits).unwrap();
    assert_eq!(next, None);
    rows
}

#[test]
fn a_page_ends_as_soon_as_it_is_full() {
    let items = numbered(100);
    let mut clauses = plan(values_of("n"), &[("n", SortOrder::Ascending)]);
    let first = page(&clauses, &items, Position::default(), 5, usize::MAX);
    assert_eq!((first.rows.len(), first.looked_at), (5, 6));
    let second = page(&clauses, &items, first.next.unwrap(), 5, usize::MAX);
    assert_eq!(second.rows[0], Row::Json(b"5".to_vec()));
    assert!(second.looked_at <= 7, "{}", second.looked_at);
    clauses.top = Some(3);
    let top = page(&clauses, &items, Position::default(), 5, usize::MAX);
    assert_eq!((top.rows.len(), top.looked_at, top.next), (3, 3, None));
}

#[test]
fn a_paused_page_comes_further_without_rows() {
    let items = numbered(20);
    let filter = Expr::Constant(Some(Value::Bool(false).into()));
    let select = Select::new(1, Vec::new(), Some(filter), Projection::Value(Expr::Variable(0)));
    let clauses = plan(select, &[("n", SortOrder::Descending)]);
    let mut position = Position::default();
    for _ in 0..3 {
        let page = page(&clauses, &items, position.clone(), 5, 3);
        assert!(page.rows.is_empty());
        let next = page.next.unwrap();
        assert_ne!(next, position);
        position = next;
    }
}

#[test]
fn positions_are_those_of_sorting() {
    let items = numbered(20);
    let clauses = plan(values_of("id"), &[("t", SortOrder::Descending)]);
    let limits = Limits { rows_max: 3, bytes_max: usize::MAX };
    let mut source = Values::new(items.clone());
    let mut position = Position::default();
    loop {
        let (rows, next) =
            source.page(&Plan::new(clauses.clone()), position.clone(), limits).unwrap();
        let page = page(&clauses, &items, position, 3, usize::MAX);
        assert_eq!((&page.rows, &page.next), (&rows, &next));
        let Some(next) = next else { return };
        position = next;
    }
}

#[test]
fn a_cut_key_that_is_gone_is_not_looked_for_to_the_end() {
    let items: Vec<Value> = ["a", "b", "c"]
        .iter()
        .flat_map(|s| (0..4).map(move |n| item(&format!(r#"{{"s":"{}{n}"}}"#, s.repeat(20)))))
        .collect();
    let clauses = plan(values_of("s"), &[("s", SortOrder::Ascending)]);
    let mut position = page(&clauses, &items, Position::default(), 2, usize::MAX).next.unwrap();
    position.at.cut_long_key(8);
    let left: Vec<Value> =
        items.iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, i)| i.clone()).collect();
    let limits = Limits { rows_max: 100, bytes_max: usize::MAX };
    let mut execution = Execution::ordered(Plan::new(clauses.clone()), position.clone(), limits);
    assert_eq!(execution.start_key().map(|(key, is_cut)| (key.len(), is_cut)), Some((8, true)));
    let mut source = InOrder::of(&clauses, &left);
    assert!(!execution.look_up(&mut source).unwrap());
    assert_eq!(source.next, 4, "up to the first that begins otherwise");
    let rest = page(&clauses, &left, position, 100, usize::MAX);
    assert_eq!(rest.rows.len(), left.len(), "rather twice than never");
}

#[test]
fn sorting_goes_on_behind_an_item_without_rows() {
    let items: Vec<Value> =
        (0..6).map(|n| item(&format!(r#"{{"id":{n},"s":"{}{n}"}}"#, "x".repeat(30)))).collect();
    let filter = Expr::Binary {
        op: BinaryOp::NotEqual,
        left: Box::new(path(&["id"])),
        right: Box::new(Expr::Constant(Some(Value::Int64(1).into()))),
    };
    let select = Select::new(1, Vec::new(), Some(filter), Projection::Value(path(&["id"])));
    let clauses = plan(select, &[("s", SortOrder::Ascending)]);
    let first = page(&clauses, &items, Position::default(), 10, 2);
    let mut position = first.next.unwrap();
    position.at.cut_long_key(8);
    let limits = Limits { rows_max: 10, bytes_max: usize::MAX };
    let (rest, _) = Values::new(items).page(&Plan::new(clauses), position, limits).unwrap();
    assert_eq!((first.rows.len(), rest.len()), (1, 4));
}

#[test]
fn other_queries_are_run_as_ever() {
    let limits = Limits { rows_max: 1, bytes_max: 1 };
    for clauses in [
        plan(values_of("n"), &[]),
        plan(values_of("n").distinct(true), &[("n", SortOrder::Ascending)]),
    ] {
        let execution: Execution<Value> =
            Execution::ordered(Plan::new(clauses), Position::default(), limits);
        assert!(!matches!(execution.mode, Mode::Ordered(_)));
        assert_eq!(execution.start_key(), None);
    }
}

/// All rows in pages by sorting. Each page begins at a position that is cut to `key_max` bytes and
/// at a row that the client names, which `named` derives from the whole position.
fn resumed(
    clauses: &Clauses,
    items: &[Value],
    (first, rows_max, key_max): (Position, usize, usize),
    named: impl Fn(&RowPosition) -> RowPosition,
) -> Vec<Row<Value>> {
    let plan = Plan::new(clauses.clone());
    let limits = Limits { rows_max, bytes_max: usize::MAX };
    let (mut out, mut position) = (Vec::new(), first);
    for _ in 0..1000 {
        let (rows, next) = Values::new(items.to_vec()).page(&plan, position, limits).unwrap();
        out.extend(rows);
        let Some(next) = next else { return out };
        position = next;
        let start = named(&position.at);
        position.at.cut_long_key(key_max);
        position.resume_at(start);
    }
    panic!("pages without end");
}

/// The same position, with all rows of its item still to come.
fn row_at(at: &RowPosition) -> RowPosition {
    let RowPosition::Key { key, tie, .. } = at else { panic!("no key") };
    RowPosition::Key { key: key.clone(), cut: None, tie: *tie, rows: 0 }
}

#[test]
fn a_position_that_is_gone_gives_way_to_the_row_that_the_client_names() {
    let items: Vec<Value> =
        (0..6).map(|n| item(&format!(r#"{{"id":{n},"s":"{}{n}"}}"#, "x".repeat(30)))).collect();
    let clauses = plan(values_of("id"), &[("s", SortOrder::Ascending)]);
    let plan = Plan::new(clauses.clone());
    let limits = Limits { rows_max: 3, bytes_max: usize::MAX };
    let page = |position| Values::new(items.clone()).page(&plan, position, limits).unwrap().1;
    let mut position = page(Position::default()).unwrap();
    let named =
        row_at(&page(Position { at: row_at(&position.at), ..Position::default() }).unwrap().at);
    position.at.cut_long_key(8);
    position.resume_at(named);
    let mut changed = items.clone();
    changed[2] = item(r#"{"id":2,"s":"before all others"}"#);
    let limits = Limits { rows_max: 10, bytes_max: usize::MAX };
    let (rows, _) = Values::new(changed).page(&plan, position, limits).unwrap();
    assert_eq!(rows, [Row::Json(b"4".to_vec()), Row::Json(b"5".to_vec())]);
}

#[test]
fn rows_of_queries_over_queries_are_resumed_by_cut_keys_too() {
    let items: Vec<Value> = (0..6)
        .map(|n| item(&format!(r#"{{"o":{{"s":"{}{}"}}}}"#, "x".repeat(30), n * 5 % 6)))
        .collect();
    for (order, is_reversed) in [(SortOrder::Ascending, false), (SortOrder::Descending, true)] {
        let inner = Plan::new(plan(values_of("o").distinct(true), &[]));
        let mut outer = plan(values_of("s"), &[("s", order)]);
        outer.input = Input::Rows(Box::new(inner));
        let mut expected: Vec<String> =
            (0..6).map(|n| format!(r#""{}{n}""#, "x".repeat(30))).collect();
        if is_reversed {
            expected.reverse();
        }
        check(&outer, &items, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        // Without an order, rows come in the order of the inner query.
        outer.order = Vec::new();
        let all = rows(&outer, &items, 10, usize::MAX);
        assert_eq!((all.len(), &rows(&outer, &items, 2, 8)), (6, &all));
    }
}

fn any_key() -> impl Strategy<Value = Option<Value>> {
    let x = |count: usize, tail: &str| Value::String("x".repeat(count) + tail);
    let texts = vec![
        x(0, "a"),
        x(0, "a\0"),
        x(3, ""),
        x(511, "\0"),
        x(511, "\0b"),
        x(512, ""),
        x(600, "a"),
        x(600, "b"),
        Value::String("\0".repeat(300)),
        Value::String("\0".repeat(299) + "a"),
    ];
    let large =
        vec![Value::Int64((1 << 53) + 1), Value::Int64(-(1 << 53) - 1), Value::Int64(1 << 53)];
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Value::Null)),
        1 => any::<bool>().prop_map(|b| Some(Value::Bool(b))),
        3 => (-2_i64..3).prop_map(|n| Some(Value::Int64(n))),
        1 => prop::sample::select(large).prop_map(Some),
        4 => prop::sample::select(texts).prop_map(Some),
        1 => (0_i64..4).prop_map(|n| Some(Value::Array(vec![Value::Int64(n)]))),
        1 => Just(Some(item("{}"))),
    ]
}

fn any_item() -> impl Strategy<Value = Value> {
    (any_key(), any_key(), 0_i64..4, 0..4_usize).prop_map(|(s, t, n, joined)| {
        let mut object = model::Object::new();
        object.insert("n", Value::Int64(n));
        object.insert("a", Value::Array((0..4).map(Value::Int64).take(joined).collect()));
        for (name, key) in [("s", s), ("t", t)] {
            if let Some(key) = key {
                object.insert(name, key);
            }
        }
        Value::Object(object)
    })
}

fn any_clauses() -> impl Strategy<Value = Clauses> {
    let order = prop::sample::select(vec![SortOrder::Ascending, SortOrder::Descending]);
    let keys = prop::collection::vec((prop::sample::select(vec!["s", "t", "n"]), order), 1..3);
    let window = prop::option::of((0..5_u64, 0..20_u64));
    (keys, any::<bool>(), any::<bool>(), window).prop_map(
        |(keys, is_joined, is_filtered, window)| {
            let filter = is_filtered.then(|| Expr::Binary {
                op: BinaryOp::Less,
                left: Box::new(path(&["n"])),
                right: Box::new(Expr::Constant(Some(Value::Int64(2).into()))),
            });
            let select = if is_joined {
                let elements = vec![Binding::Elements(path(&["a"]))];
                let row = Expr::Array(vec![Expr::Variable(0), Expr::Variable(1)]);
                Select::new(1, elements, filter, Projection::Value(row))
            } else {
                Select::new(1, Vec::new(), filter, Projection::Value(Expr::Variable(0)))
            };
            let mut clauses = plan(select, &keys);
            clauses.window = window.map(|(offset, limit)| Window { offset, limit });
            clauses
        },
    )
}

fn order_of(at: &RowPosition) -> (&[u8], u64, u64) {
    let RowPosition::Key { key, tie, rows, .. } = at else { panic!("no key") };
    (key, *tie, *rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_sorting(
        clauses in any_clauses(),
        items in prop::collection::vec(any_item(), 0..24),
        rows_max in 1..8_usize,
        patience in 1..30_usize,
        key_max in prop::sample::select(vec![3, 8, 20, 513, 520, usize::MAX]),
    ) {
        let expected = sorted(&clauses, &items);
        prop_assert_eq!(&paged(&clauses, &items, (usize::MAX, usize::MAX, usize::MAX)), &expected);
        prop_assert_eq!(&paged(&clauses, &items, (rows_max, usize::MAX, key_max)), &expected);
        prop_assert_eq!(&paged(&clauses, &items, (rows_max, patience, usize::MAX)), &expected);
    }

    /// A client names the last row beside its continuation: the start of the page does not change.
    #[test]
    fn naming_the_last_row_changes_nothing(
        clauses in any_clauses(),
        items in prop::collection::vec(any_item(), 0..24),
        rows_max in 1..8_usize,
        key_max in prop::sample::select(vec![1, 3, 8, 20, 400, 513, 520, usize::MAX]),
    ) {
        let start = (Position::default(), rows_max, key_max);
        prop_assert_eq!(resumed(&clauses, &items, start, row_at), sorted(&clauses, &items));
    }

    /// A page begins at the later one of a position and the row that the client names, whatever
    /// that row is and however short the position was cut.
    #[test]
    fn the_later_one_of_two_positions_is_taken(
        clauses in any_clauses(),
        items in prop::collection::vec(any_item(), 1..24),
        rows_max in 1..8_usize,
        key_max in prop::sample::select(vec![1, 3, 8, 20, 400, 513, 520, usize::MAX]),
        named in any::<prop::sample::Index>(),
        behind in any::<bool>(),
    ) {
        let clauses = Clauses { window: None, ..clauses };
        let named = named.get(&items);
        let mut key = Vec::new();
        for sort in &clauses.order {
            crate::value_keys::push_sort_key(TypeOrder::NoSql, value_of(sort, named), sort.order, &mut key);
        }
        let own = items.iter().position(|item| std::ptr::eq(item, named)).unwrap() as u64;
        let limits = Limits { rows_max, bytes_max: usize::MAX };
        let plan = Plan::new(clauses.clone());
        let (tie, rows) = if behind { (u64::MAX, u64::MAX) } else { (plan.tie_of(own), 0) };
        let named = RowPosition::Key { key, cut: None, tie, rows };
        let (_, next) = Values::new(items.clone()).page(&plan, Position::default(), limits).unwrap();
        let Some(next) = next else { return Ok(()) };
        let later = if order_of(&named) > order_of(&next.at) { &named } else { &next.at };
        let whole = Position { at: later.clone(), ..Position::default() };
        let expected = resumed(&clauses, &items, (whole, usize::MAX, usize::MAX), row_at);
        let mut first = next;
        first.at.cut_long_key(key_max);
        first.resume_at(named.clone());
        let rows = resumed(&clauses, &items, (first, rows_max, key_max), |_| named.clone());
        prop_assert_eq!(rows, expected);
    }

    /// No item that a page from a position on needs is before that position in the index.
    #[test]
    fn no_item_is_before_its_place_in_the_index(
        clauses in any_clauses(),
        item in any_item(),
        key_max in 1..700_usize,
    ) {
        let orders: Vec<_> = clauses.order.iter().map(|key| key.order).collect();
        let mut key = Vec::new();
        for sort in &clauses.order {
            crate::value_keys::push_sort_key(TypeOrder::NoSql, value_of(sort, &item), sort.order, &mut key);
        }
        let in_index = index_key_of(&clauses, &item);
        let start = seek::index_start(&key, 7, &orders);
        prop_assert!((start.key, start.tie) <= (in_index.clone(), 7));
        let is_cut = key_max < key.len();
        key.truncate(key_max);
        let start = seek::index_start(&key, 7, &orders);
        let tie = if is_cut { 0 } else { 7 };
        prop_assert!((start.key, start.tie) <= (in_index, tie));
    }
}
