//! Random filters over random items: the items found by terms include all that the filter keeps,
//! and no others where the set claims to be exact.

use std::sync::LazyLock;

use super::*;

type Term = (Vec<Step>, Vec<u8>);

/// All items and their terms.
static ITEMS: LazyLock<Vec<(Value, Vec<Term>)>> = LazyLock::new(|| {
    let with_terms = |item| {
        let mut terms = Vec::new();
        terms_of(&item, &mut Vec::new(), &mut terms);
        (item, terms)
    };
    items().into_iter().map(with_terms).collect()
});

/// Every term of a value and of the values within it.
fn terms_of(value: &Value, path: &mut Vec<Step>, out: &mut Vec<Term>) {
    let mut encoded = Vec::new();
    encode(TypeOrder::NoSql, Some(value), &mut encoded);
    if let Some(elements) = value.as_array() {
        encoded.truncate(1);
        path.push(Step::Elements);
        elements.iter().for_each(|element| terms_of(element, path, out));
        path.pop();
    }
    if let Some(object) = value.as_object() {
        encoded.truncate(1);
        for (name, field) in object.iter() {
            path.push(Step::Name(name.to_owned()));
            terms_of(field, path, out);
            path.pop();
        }
    }
    if !path.is_empty() {
        out.push((path.clone(), encoded));
    }
}

fn holds(index_set: &IndexSet, terms: &[Term]) -> bool {
    match index_set {
        IndexSet::Everything => true,
        IndexSet::Nothing => false,
        IndexSet::All(parts) => parts.iter().all(|part| holds(part, terms)),
        IndexSet::Any(parts) => parts.iter().any(|part| holds(part, terms)),
        IndexSet::Terms(wanted) => terms.iter().any(|(path, encoded)| {
            *path == wanted.path
                && wanted.ranges.iter().any(|range| range.lo <= *encoded && *encoded < range.hi)
        }),
    }
}

fn check_form(index_set: &IndexSet) {
    match index_set {
        IndexSet::Everything | IndexSet::Nothing => {}
        IndexSet::All(parts) | IndexSet::Any(parts) => {
            assert!(parts.len() > 1);
            parts.iter().for_each(check_form);
        }
        IndexSet::Terms(Terms { path, ranges, .. }) => {
            assert!(!path.is_empty() && !ranges.is_empty());
            assert!(ranges.iter().all(|range| range.lo < range.hi));
            assert!(ranges.windows(2).all(|pair| pair[0].hi < pair[1].lo));
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    let x = |count: usize, tail: &str| "x".repeat(count) + tail;
    prop_oneof![
        12 => prop::sample::select(vec!["a", "ab"]).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["", "abc", "b", "B", "\0", "a\0", "\u{10000}", "\u{FFFF}"])
            .prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            x(511, "\0"), x(512, ""), x(600, "a"), x(600, "b"), x(600, "ba"), "\0".repeat(300),
        ]),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => (0..2_i64).prop_map(Value::Int64),
        1 => prop::sample::select(vec![-0.0, 0.5, 1.0, -1.5, 9_007_199_254_740_992.0, 1e300])
            .prop_map(Value::Double),
        1 => prop::sample::select(vec![(1_i64 << 53) + 1, 1 << 53, i64::MAX, i64::MIN])
            .prop_map(Value::Int64),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        4 => number(),
        4 => text().prop_map(Value::String),
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "a", "b"])
}

fn object_of(fields: Vec<(&'static str, Value)>) -> Value {
    let mut object = model::Object::new();
    for (name, field) in fields {
        object.insert(name, field);
    }
    Value::Object(object)
}

fn item_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            1 => prop::collection::vec((name(), inner), 0..3).prop_map(object_of),
        ]
    })
}

/// Items that differ in details, with and without arrays and objects.
fn items() -> Vec<Value> {
    let long = "x".repeat(600);
    let texts = [
        "null",
        "false",
        "true",
        "0",
        "-0.0",
        "1",
        "0.5",
        "-1.5",
        "9007199254740993",
        "9007199254740992",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"abc\"",
        "\"b\"",
        "\"B\"",
        "\"a\\u0000\"",
        "\"\u{10000}\"",
        "\"\u{FFFF}\"",
        "[]",
        "[0]",
        "[0,1]",
        "[1,0.5]",
        "[\"a\"]",
        "[\"a\",\"ab\"]",
        "[\"ab\",0]",
        "[true,null]",
        "[[]]",
        "[[0],1]",
        "[{}]",
        r#"[{"a":0}]"#,
        r#"[{"a":1},{"a":0}]"#,
        r#"[{"a":"a","b":0},{"a":"ab","b":1}]"#,
        r#"[{"a":["a"]},{"a":[0,1]}]"#,
        "{}",
        r#"{"a":0}"#,
        r#"{"a":"a","b":1}"#,
        r#"{"a":true}"#,
        r#"{"a":[0,"a"]}"#,
        r#"{"b":{"a":1}}"#,
    ];
    let mut values: Vec<Value> = texts.iter().map(|text| value(text)).collect();
    let longs = ["a", "b", "ba", "\0"].map(|end| Value::String(long.clone() + end));
    values.extend(longs);
    values.push(Value::String("x".repeat(512)));
    values.push(Value::String("x".repeat(511) + "\0"));
    values.push(Value::String("\0".repeat(300)));
    let mut items = vec![value("{}")];
    for (at, first) in values.iter().enumerate() {
        items.push(object_of(vec![("a", first.clone())]));
        items.push(object_of(vec![("b", first.clone())]));
        for step in [3, 7] {
            let second = values[(at * step + 11) % values.len()].clone();
            items.push(object_of(vec![("a", first.clone()), ("b", second)]));
        }
    }
    items
}

/// A constant, now and then *undefined* or one that JSON cannot express.
fn any_constant() -> impl Strategy<Value = Expr> {
    prop_oneof![
        30 => scalar().prop_map(constant_of),
        3 => item_value().prop_map(constant_of),
        1 => Just(Expr::Constant(None)),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY])
            .prop_map(|n| constant_of(Value::Double(n))),
    ]
}

/// A path from one of the first `variables` variables.
fn any_path(variables: usize) -> BoxedStrategy<Expr> {
    let step = prop_oneof![6 => name().prop_map(str::to_owned), 1 => (0..2_i64).prop_map(|n| n.to_string())];
    let steps = prop_oneof![
        3 => Just(Vec::new()),
        2 => prop::collection::vec(step, 1..3),
    ];
    (0..variables, name(), steps)
        .prop_map(|(slot, first, mut steps)| {
            // A variable that is bound to an element is tested without steps, too.
            if slot == 0 || steps.len() == 1 {
                steps.insert(0, first.to_owned());
            }
            from_variable(slot, &steps.join("."))
        })
        .boxed()
}

fn operand(variables: usize) -> BoxedStrategy<Expr> {
    prop_oneof![1 => any_constant(), 4 => any_path(variables)].boxed()
}

fn comparison(variables: usize) -> BoxedStrategy<Expr> {
    let ops = vec![
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::Less,
        BinaryOp::LessOrEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterOrEqual,
    ];
    (prop::sample::select(ops), any_path(variables), operand(variables), any_constant(), 0..6)
        .prop_map(|(op, path, other, constant, shape)| match shape {
            0 => binary(op, constant, path),
            1 => binary(op, path, other),
            _ => binary(op, path, constant),
        })
        .boxed()
}

fn membership(variables: usize) -> BoxedStrategy<Expr> {
    let list =
        prop::collection::vec(prop_oneof![9 => any_constant(), 1 => any_path(variables)], 0..4);
    let between =
        (any_path(variables), operand(variables), any_constant()).prop_map(|(x, y, z)| {
            Expr::Between { operand: Box::new(x), low: Box::new(y), high: Box::new(z) }
        });
    prop_oneof![
        (operand(variables), list)
            .prop_map(|(needle, list)| Expr::In { needle: Box::new(needle), list }),
        between,
    ]
    .boxed()
}

fn text_test(variables: usize) -> BoxedStrategy<Expr> {
    let names = vec!["STARTSWITH", "STRINGEQUALS", "CONTAINS", "ENDSWITH"];
    let flag = prop::option::of(any::<bool>());
    let tested =
        (prop::sample::select(names), operand(variables), operand(variables), text(), flag)
            .prop_map(|(name, x, y, text, flag)| {
                let part = if flag == Some(true) { y } else { constant_of(Value::String(text)) };
                let mut args = vec![x, part];
                args.extend(flag.map(|flag| constant_of(Value::Bool(flag))));
                call(name, args)
            });
    let regex = any_path(variables).prop_map(|x| call("RegexMatch", vec![x, constant("\"^a\"")]));
    let pattern = (text(), prop::sample::select(vec!["", "%", "_", "%b", "[ab]%"]));
    let liked = (any_path(variables), pattern).prop_map(|(operand, (text, end))| {
        let pattern = LikePattern::Compiled(Pattern::compile(&(text + end), None));
        Expr::Like { operand: Box::new(operand), pattern }
    });
    prop_oneof![4 => tested, 1 => regex, 3 => liked].boxed()
}

fn call_of_one(variables: usize) -> BoxedStrategy<Expr> {
    let names = vec![
        "IS_ARRAY",
        "IS_BOOL",
        "IS_DEFINED",
        "IS_FINITE_NUMBER",
        "IS_INTEGER",
        "IS_NULL",
        "IS_NUMBER",
        "IS_OBJECT",
        "IS_PRIMITIVE",
        "IS_STRING",
    ];
    (prop::sample::select(names), any_path(variables))
        .prop_map(|(name, path)| call(name, vec![path]))
        .boxed()
}

fn array_test(variables: usize) -> BoxedStrategy<Expr> {
    let flag = prop::option::weighted(0.4, any::<bool>());
    let constants = prop::collection::vec(item_value(), 0..4).prop_map(Value::Array);
    let array = prop_oneof![3 => any_path(variables), 1 => constants.prop_map(constant_of)];
    let contains =
        (array, operand(variables), item_value(), flag).prop_map(|(x, y, value, flag)| {
            let needle = if matches!(x, Expr::Constant(_)) { y } else { constant_of(value) };
            let mut args = vec![x, needle];
            args.extend(flag.map(|flag| constant_of(Value::Bool(flag))));
            call("ARRAY_CONTAINS", args)
        });
    let names = vec!["ARRAY_CONTAINS_ANY", "ARRAY_CONTAINS_ALL"];
    let needles =
        prop::collection::vec(prop_oneof![6 => any_constant(), 1 => any_path(variables)], 1..4);
    let many = (prop::sample::select(names), any_path(variables), needles).prop_map(
        |(name, array, needles)| call(name, [array].into_iter().chain(needles).collect()),
    );
    prop_oneof![3 => contains, 1 => many].boxed()
}

fn condition(variables: usize, depth: u32) -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        5 => comparison(variables),
        2 => membership(variables),
        3 => text_test(variables),
        2 => call_of_one(variables),
        3 => array_test(variables),
        1 => any_path(variables),
        1 => any_constant(),
    ];
    let leaf = if depth == 0 {
        leaf.boxed()
    } else {
        let inner = condition(variables + 1, depth - 1);
        let exists = (any_path(variables), inner)
            .prop_map(move |(array, filter)| exists(variables, array, filter));
        prop_oneof![8 => leaf, 1 => exists].boxed()
    };
    leaf.prop_recursive(2, 4, 3, |inner| {
        let many = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => many.clone().prop_map(Expr::And),
            4 => many.prop_map(Expr::Or),
            3 => inner.clone().prop_map(not),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(x, y, z)| {
                Expr::Conditional {
                    condition: Box::new(x),
                    then: Box::new(y),
                    otherwise: Box::new(z),
                }
            }),
            1 => (inner.clone(), inner)
                .prop_map(|(x, y)| Expr::Coalesce(Box::new(x), Box::new(y))),
        ]
    })
    .boxed()
}

fn check_sound(plan: &Plan) -> Result<(), TestCaseError> {
    let everywhere = plan.index_set(&|_| true);
    let somewhere = plan.index_set(&|path| path.first() != Some(&Step::Name("b".to_owned())));
    check_form(&everywhere);
    check_form(&somewhere);
    prop_assert!(is_without_b(&somewhere), "{}", shown(&somewhere));
    for (item, terms) in ITEMS.iter() {
        let is_match = plan.matches(item).unwrap();
        for index_set in [&everywhere, &somewhere] {
            let is_found = holds(index_set, terms);
            prop_assert!(is_found || !is_match, "lost {item:?} by {}", shown(index_set));
            if index_set.is_exact() {
                prop_assert_eq!(is_found, is_match, "{:?} by {}", item, shown(index_set));
            }
        }
    }
    Ok(())
}

fn is_without_b(index_set: &IndexSet) -> bool {
    match index_set {
        IndexSet::Everything | IndexSet::Nothing => true,
        IndexSet::All(parts) | IndexSet::Any(parts) => parts.iter().all(is_without_b),
        IndexSet::Terms(terms) => terms.path.first() != Some(&Step::Name("b".to_owned())),
    }
}

/// A source of rows over the item: elements, a value or rows of a subquery.
fn binding() -> impl Strategy<Value = Binding> {
    let rows = (any_path(1), condition(2, 0), any_path(2)).prop_map(|(array, filter, value)| {
        let bindings = vec![Binding::Elements(array)];
        Binding::Rows(Box::new(Select::new(1, bindings, Some(filter), Projection::Value(value))))
    });
    prop_oneof![
        2 => any_path(1).prop_map(Binding::Elements),
        1 => any_path(1).prop_map(Binding::Value),
        1 => rows,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_item_is_lost(filter in condition(1, 1)) {
        check_sound(&plan(filter))?;
    }

    #[test]
    fn no_item_of_a_join_is_lost(binding in binding(), filter in condition(2, 1)) {
        let projection = Projection::Value(Expr::Variable(1));
        let plan = plan_of(Select::new(1, vec![binding], Some(filter), projection));
        // A row needs the source too, so exactness concerns the filter alone.
        let index_set = plan.index_set(&|_| true);
        for (item, terms) in ITEMS.iter() {
            let is_found = holds(&index_set, terms);
            prop_assert!(is_found || !plan.matches(item).unwrap(), "lost {item:?}");
            if index_set.is_exact() && is_found {
                let rows = |plan: &Plan| plan.rows_of(item).unwrap();
                prop_assert_eq!(rows(&plan), rows(&plan.unfiltered()), "{:?}", item);
            }
        }
    }
}
