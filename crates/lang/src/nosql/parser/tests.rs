use model::Object;

use super::super::{compile, compile_condition, parse};
use super::*;
use crate::{SyntaxError, SyntaxErrorKind};

fn error_of(text: &str) -> SyntaxError {
    compile(text, &[]).expect_err(text)
}

fn check_error(text: &str, code: &str, near: &str, start: usize, end: usize) {
    let error = error_of(text);
    assert_eq!((error.code, error.start, error.end), (code, start, end), "{text}: {error}");
    assert!(error.message.contains(near), "{text}: {error}");
}

/// Runs `work` on a stack no larger than the smallest a server thread has.
fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap();
    thread.join().unwrap();
}

#[test]
fn errors_name_the_token_and_its_place() {
    check_error("SELECT FROM c", "SC1001", "near 'FROM'.", 7, 11);
    check_error("INSERT INTO c", "SC1001", "near 'INSERT'.", 0, 6);
    check_error("SELECT c.* FROM c", "SC1001", "near '*'.", 9, 10);
    check_error("SELECT * FROM c WHERE c.x IS NULL", "SC1001", "near 'IS'.", 26, 28);
    check_error("SELECT /* x */ * FROM c", "SC1001", "near '/'.", 7, 8);
    check_error("SELECT TOP -1 * FROM c", "SC1001", "near '-'.", 11, 12);
    check_error("SELECT c.value FROM c", "SC1001", "near 'value'.", 9, 14);
    check_error("SELECT * FROM c;", "SC1010", "invalid token ';'.", 15, 16);
    check_error("SELECT 'abc", "SC1010", "invalid token ''abc'.", 7, 11);
    check_error("SELECT 12abc", "SC1010", "invalid token '12abc'.", 7, 12);
    check_error("SELECT '\\x'", "SC1010", "invalid token", 7, 11);
    check_error("", "SC1002", "unexpected end-of-file", 0, 0);
    check_error("SELECT * FROM", "SC1002", "unexpected end-of-file", 13, 13);
    check_error("SELECT * FROM Root r WHERE a = 1", "SC2001", "Identifier 'a' could", 27, 28);
    check_error("SELECT BADFUNC(1)", "SC2005", "'BADFUNC' is not a recognized", 7, 14);
    check_error("SELECT ABS()", "SC2050", "The ABS function requires 1 argument(s).", 7, 12);
}

#[test]
fn places_are_counted_in_utf16_units() {
    check_error("SELECT '😀' FROM FROM", "SC1001", "near 'FROM'.", 17, 21);
}

#[test]
fn quoted_tokens_are_cut() {
    let error =
        error_of(&format!("SELECT {} {}", "a".repeat(9), "b".repeat(5000)).replace("SELECT", "X"));
    assert!(error.message.len() < 200, "{error}");
    let error = error_of(&format!("SELECT * FROM c '{}'", "b".repeat(5000)));
    assert!(error.message.len() < 200, "{error}");
}

#[test]
fn predicates_do_not_chain() {
    check_error(
        "SELECT VALUE 1 BETWEEN 2 AND 3 BETWEEN 4 AND 5",
        "SC1001",
        "near 'BETWEEN'.",
        31,
        38,
    );
    assert!(compile("SELECT VALUE (1 BETWEEN 2 AND 3) IN (true)", &[]).is_ok());
}

#[test]
fn clauses_that_cannot_run_are_refused_with_their_place() {
    let error = error_of("SELECT * FROM c WHERE FullTextContains(c.a, c.b)");
    assert_eq!((error.kind, error.start), (SyntaxErrorKind::NotSupported, 22));
}

#[test]
fn a_function_that_the_container_lacks_is_named() {
    check_error("SELECT VALUE udf.f(c.a) FROM c", "SC2005", "'udf.f' is not a recognized", 13, 23);
}

#[test]
fn a_mistake_is_reported_before_an_unsupported_clause() {
    let error = error_of("SELECT c.a AS b FROM c ORDER BY b");
    assert_eq!((error.code, error.kind), ("SC2001", SyntaxErrorKind::Syntax));
}

#[test]
fn words_of_later_versions_are_property_names() {
    for text in ["SELECT c.rank, c.first, c.limit, c.offset FROM c", "SELECT first.a FROM first"] {
        assert!(compile(text, &[]).is_ok(), "{text}");
    }
}

#[test]
fn conditions_have_no_select() {
    assert!(compile_condition("from c where c.n = 3").is_ok());
    assert!(compile_condition("FROM root r").is_ok());
    for text in ["SELECT * FROM c", "WHERE c.n = 3", "FROM c WHERE c.n = 3 ORDER BY c.n", ""] {
        assert!(compile_condition(text).is_err(), "{text}");
    }
}

#[test]
fn parameter_names_are_checked() {
    use super::super::{ParameterError, check_parameter_names};
    assert_eq!(check_parameter_names(["@a", "@A", "@_é1"]), Ok(()));
    for name in ["a", "@", "", "@1a", "@a-b", "@a ", "@@a"] {
        assert_eq!(check_parameter_names([name]), Err(ParameterError::Name), "{name}");
    }
    assert_eq!(check_parameter_names(["@a", "@b", "@a"]), Err(ParameterError::Duplicate));
}

#[test]
fn texts_over_the_limit_are_refused() {
    let filler = "-".repeat(model::limits::QUERY_TEXT_BYTES_MAX);
    let error = error_of(&format!("SELECT * FROM c {filler}"));
    assert_eq!(error.code, "SC3020");
    assert_eq!(error_of(&"(".repeat(10 << 20)).code, "SC3020");
    let text = format!("SELECT * FROM c {filler}");
    let longest = text.get(..model::limits::QUERY_TEXT_BYTES_MAX).unwrap();
    assert!(compile(longest, &[]).is_ok());
}

#[test]
fn left_nested_filters_of_any_length_compile() {
    on_small_stack(|| {
        let n = 5000;
        let nested = format!("{}c.a = 0{}", "(".repeat(n), " OR c.a = 1)".repeat(n));
        assert!(compile(&format!("SELECT * FROM c WHERE {nested}"), &[]).is_ok());
        let chain = "c.a = 1 AND ".repeat(n);
        assert!(compile(&format!("SELECT * FROM c WHERE {chain} true"), &[]).is_ok());
    });
}

#[test]
fn deep_nesting_is_refused_without_overflowing_a_small_stack() {
    on_small_stack(|| {
        let deep = 40_000;
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{a:", "}"),
            ("NOT ", ""),
            ("- ", ""),
            ("1 + (", ")"),
            ("ABS(", ")"),
            ("c[", "]"),
            ("true AND (", ")"),
            ("true ? 1 : ", ""),
            ("(SELECT VALUE ", ")"),
            ("ARRAY(SELECT VALUE 1 FROM (", ") x)"),
            ("c.x IN (", ")"),
            ("c.x BETWEEN 1 AND ", ""),
        ] {
            let text = format!("SELECT VALUE {}1{} FROM c", open.repeat(deep), close.repeat(deep));
            let text = text.get(..text.len().min(200_000)).unwrap();
            assert!(parse(text).is_err() || open == "(", "{open}");
        }
        let tail = format!("SELECT VALUE 1{} FROM c", " + 1".repeat(deep));
        assert_eq!(error_of(&tail).kind, SyntaxErrorKind::NotSupported);
        let path = format!("SELECT VALUE c{} FROM c", ".a".repeat(deep));
        assert_eq!(error_of(&path).kind, SyntaxErrorKind::NotSupported);
    });
}

#[test]
fn the_deepest_expression_allowed_compiles_and_runs_on_a_small_stack() {
    on_small_stack(|| {
        for (open, close) in [
            ("[", "]"),
            ("1 + (", ")"),
            ("NOT ", ""),
            ("{a:", "}"),
            ("ABS(", ")"),
            ("c.x IN (", ")"),
        ] {
            run_nested(open, close, QUERY_NESTING_MAX - 1);
        }
        // A subquery adds a level beside the expression it selects.
        run_nested("(SELECT VALUE ", ")", QUERY_NESTING_MAX / 2 - 1);
        run_nested("ARRAY(SELECT VALUE ", ")", QUERY_NESTING_MAX / 2 - 1);
        run_nested("", " + 1", QUERY_DEPTH_MAX - 2);
        run_nested("", " ?? 1", QUERY_DEPTH_MAX - 2);
        run_nested("", ".a", QUERY_DEPTH_MAX - 2);
    });
}

fn run_nested(open: &str, close: &str, levels: usize) {
    let text = format!("SELECT VALUE {}c.x{} FROM c", open.repeat(levels), close.repeat(levels));
    let plan = compile(&text, &[]).expect(open);
    let item = Value::Object(Object::from_iter([("x".to_owned(), Value::Int64(1))]));
    plan.rows_of(&item).unwrap();
    let deeper =
        format!("SELECT VALUE {}c.x{} FROM c", open.repeat(levels + 1), close.repeat(levels + 1));
    assert_eq!(error_of(&deeper).kind, SyntaxErrorKind::NotSupported, "{open}");
}
