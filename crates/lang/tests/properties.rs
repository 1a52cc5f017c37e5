//! Properties of any text: no panic, canonical text with the same meaning, key scopes that miss no
//! item.

use lang::nosql::{self, print};
use model::{Object, PropertyPath, Value};
use proptest::prelude::*;
use query::{KeyScope, Plan};

const TOKENS: &[&str] = &[
    "SELECT",
    "VALUE",
    "*",
    "FROM",
    "c",
    "c",
    "c.a",
    "c.b.c",
    "WHERE",
    "TOP",
    "1",
    "2",
    "DISTINCT",
    "ORDER",
    "BY",
    "GROUP",
    "OFFSET",
    "LIMIT",
    "JOIN",
    "IN",
    "(",
    ")",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "=",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "<>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    "<<",
    ">>",
    ">>>",
    "||",
    "??",
    "?",
    ":",
    ",",
    ".",
    "'x'",
    "\"y\"",
    "'!'",
    "0.5",
    "1e3",
    "0xF",
    "@p",
    "@q",
    "true",
    "false",
    "null",
    "undefined",
    "NaN",
    "Infinity",
    "ABS",
    "CONCAT",
    "IS_DEFINED",
    "ARRAY_CONTAINS",
    "EXISTS",
    "ARRAY",
    "ALL",
    "FIRST",
    "LEFT",
    "udf",
    "f",
    "AS",
    "RANK",
    "DESC",
    "ASC",
    "--",
    "\n",
    ";",
    "@",
    "é",
    "'",
    "\"",
    "\\",
];

fn token_soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(TOKENS), 0..40).prop_map(|tokens| tokens.join(" "))
}

/// Valid expressions over the properties of [`item`].
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "c.a",
        "c.b",
        "c.pk",
        "c.pk",
        "c.o.x",
        "c[\"a\"]",
        "c.l[0]",
        "1",
        "-2",
        "2.5",
        "'x'",
        "\"\"",
        "true",
        "false",
        "null",
        "undefined",
        "@p",
        "@missing",
        "[1, c.a]",
        "{\"x\": c.b}",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 40, 4, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "||", "??", "=", "!=", "<",
            "<=", ">", ">=", "=", "=", "AND", "OR", "AND", "OR",
        ]);
        prop_oneof![
            4 => (inner.clone(), binary, inner.clone())
                .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            2 => inner.clone().prop_map(|a| format!("({a})")),
            1 => (prop::sample::select(vec!["NOT", "-", "~", "+"]), inner.clone())
                .prop_map(|(op, a)| format!("{op} ({a})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("(({a}) IN ({b}, {c}))")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("(({a}) NOT BETWEEN ({b}) AND ({c}))")),
            1 => (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("(({a}) LIKE ({b}) ESCAPE '!')")),
            1 => (prop::sample::select(vec!["IS_NULL", "IS_DEFINED", "ABS", "LOWER"]), inner.clone())
                .prop_map(|(f, a)| format!("{f}({a})")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("ARRAY_CONTAINS([{a}], {b})")),
        ]
    })
}

/// Filters on the properties that are keys in [`a_matching_item_has_a_key_in_scope`].
fn filter() -> impl Strategy<Value = String> {
    let path = || prop::sample::select(vec!["c.pk", "c.pk", "c.a", "c.b"]);
    let constant = || {
        prop::sample::select(vec![
            "null", "true", "false", "1", "1.0", "-2", "'x'", "''", "@p", "[1]",
        ])
    };
    let comparison = prop::sample::select(vec!["=", "=", "=", "!=", "<", ">="]);
    let atom = prop_oneof![
        4 => (path(), comparison.clone(), constant()).prop_map(|(p, op, k)| format!("{p} {op} {k}")),
        2 => (constant(), comparison, path()).prop_map(|(k, op, p)| format!("{k} {op} {p}")),
        2 => (path(), constant(), constant()).prop_map(|(p, k, l)| format!("{p} IN ({k}, {l})")),
        1 => (path(), constant(), path()).prop_map(|(p, k, q)| format!("{p} IN ({k}, {q})")),
        1 => (path(), constant(), path()).prop_map(|(p, k, q)| format!("{p} NOT IN ({k}, {q})")),
        1 => path().prop_map(str::to_owned),
        1 => path().prop_map(|p| format!("IS_NULL({p})")),
        1 => path().prop_map(|p| format!("IS_DEFINED({p})")),
        1 => (path(), prop::sample::select(vec!["x", "%", "!%", "_"]))
            .prop_map(|(p, pattern)| format!("{p} LIKE '{pattern}' ESCAPE '!'")),
        1 => (constant(), constant(), path())
            .prop_map(|(k, l, p)| format!("ARRAY_CONTAINS([{k}, {l}], {p})")),
        1 => constant().prop_map(str::to_owned),
    ];
    atom.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|all| format!("({})", all.join(" AND "))),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|all| format!("({})", all.join(" OR "))),
            1 => inner.prop_map(|a| format!("NOT ({a})")),
        ]
    })
}

fn scalar() -> impl Strategy<Value = Option<Value>> {
    prop::sample::select(vec![
        None,
        Some(Value::Null),
        Some(Value::Bool(true)),
        Some(Value::Bool(false)),
        Some(Value::Int64(1)),
        Some(Value::Int64(-2)),
        Some(Value::Double(2.5)),
        Some(Value::from("x")),
        Some(Value::from("")),
    ])
}

fn item() -> impl Strategy<Value = Value> {
    (scalar(), scalar(), scalar()).prop_map(|(a, b, pk)| {
        let inner = Object::from_iter([("x".to_owned(), Value::Int64(1))]);
        let fields = [
            ("a", a),
            ("b", b),
            ("pk", pk),
            ("o", Some(Value::Object(inner))),
            ("l", Some(Value::Array(vec![Value::from("x")]))),
        ];
        let defined =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(defined.collect())
    })
}

fn parameters() -> Vec<(String, Value)> {
    vec![("@p".to_owned(), Value::Int64(1)), ("@q".to_owned(), Value::from("x"))]
}

fn compile(text: &str) -> Plan {
    nosql::compile(text, &parameters()).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Rows as text, since NaN is not equal to itself.
fn row(plan: &Plan, item: &Value) -> String {
    format!("{:?}", plan.rows_of(item))
}

/// Checks that compiling, printing and running `text` does not panic, and that error positions lie
/// within the text.
fn survives(text: &str) -> Result<(), TestCaseError> {
    for compiled in [nosql::compile(text, &parameters()), nosql::compile_condition(text)] {
        match compiled {
            Ok(plan) => {
                let _ = plan.rows_of(&Value::Null);
            }
            Err(error) => {
                prop_assert!(error.start <= error.end, "{error:?}");
                prop_assert!(error.end <= text.encode_utf16().count(), "{error:?}");
            }
        }
    }
    if let Ok(query) = nosql::parse(text) {
        let printed = print::query_text(&query);
        let again = nosql::parse(&printed).map(|query| print::query_text(&query));
        prop_assert_eq!(again.as_ref(), Ok(&printed), "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_compiles_or_fails(text in ".{0,200}") {
        survives(&text)?;
    }

    #[test]
    fn any_soup_of_tokens_compiles_or_fails(text in token_soup()) {
        survives(&text)?;
        survives(&format!("SELECT {text}"))?;
        survives(&format!("SELECT * FROM c WHERE {text}"))?;
    }

    #[test]
    fn canonical_text_means_the_same(expression in expression(), item in item()) {
        let text = format!("SELECT VALUE {expression} FROM c");
        let printed = print::query_text(&nosql::parse(&text).unwrap());
        survives(&text)?;
        prop_assert_eq!(row(&compile(&text), &item), row(&compile(&printed), &item), "{}", printed);
    }

    #[test]
    fn folding_does_not_change_a_result(expression in expression(), item in item()) {
        // Behind a condition that depends on the item, nothing around the expression can be folded.
        let folded = compile(&format!("SELECT VALUE ({expression}) FROM c"));
        let constants = ["1", "-2", "2.5", "'x'", "true", "false", "null"];
        let mut hidden = expression.clone();
        for constant in constants {
            hidden = hidden.replace(&format!("({constant})"), &format!("(c.o.x = 1 ? {constant} : 0)"));
        }
        let hidden = compile(&format!("SELECT VALUE ({hidden}) FROM c"));
        prop_assert_eq!(row(&folded, &item), row(&hidden, &item));
    }

    #[test]
    fn a_matching_item_has_a_key_in_scope(filter in filter(), item in item()) {
        let plan = compile(&format!("SELECT * FROM c WHERE {filter}"));
        let paths = [PropertyPath::parse("/pk").unwrap(), PropertyPath::parse("/a").unwrap()];
        for paths in [&paths[..1], &paths[..]] {
            if plan.matches(&item) == Ok(true) && let KeyScope::Keys(keys) = plan.key_scope(paths) {
                let key: Vec<_> = paths.iter().map(|path| path.get(&item)).collect();
                let is_in_scope = keys.iter().any(|prefix| {
                    prefix.iter().zip(&key).all(|(a, b)| is_same_key(a.as_ref(), *b))
                });
                prop_assert!(is_in_scope, "{filter} {item:?} {keys:?}");
            }
        }
    }
}

fn is_same_key(a: Option<&Value>, b: Option<&Value>) -> bool {
    use model::order::{TypeOrder, compare};
    compare(TypeOrder::NoSql, a, b).is_eq()
}
