use engine::patch::{Patch, PatchOp};
use model::{Value, json};

use super::{check_content_type, from_value};
use crate::headers::HeaderName;
use crate::test_support::{key_definition, request_with};

fn read(text: &str) -> Result<Patch, (u16, String)> {
    let value = json::parse(text.as_bytes(), 128).unwrap().value;
    let key = key_definition(&["/pk", "/a/b"]);
    from_value(&key, value).map_err(|error| (error.status(), error.message().to_owned()))
}

fn operations(list: &str) -> Result<Vec<PatchOp>, (u16, String)> {
    read(&format!(r#"{{"operations":[{list}]}}"#)).map(|patch| patch.operations)
}

fn path(segments: &[&str]) -> Vec<String> {
    segments.iter().map(|s| (*s).to_owned()).collect()
}

#[test]
fn every_operation_is_read() {
    let x = || path(&["x"]);
    let cases = [
        (r#"{"op":"add","path":"/x","value":1}"#, PatchOp::Add { path: x(), value: 1i64.into() }),
        (
            r#"{"op":"set","path":"/x","value":null}"#,
            PatchOp::Set { path: x(), value: Value::Null },
        ),
        (
            r#"{"op":"replace","path":"/x","value":"v"}"#,
            PatchOp::Replace { path: x(), value: "v".into() },
        ),
        (r#"{"op":"remove","path":"/x"}"#, PatchOp::Remove { path: x() }),
        (
            r#"{"op":"incr","path":"/x","value":-2}"#,
            PatchOp::Increment { path: x(), by: Value::Int64(-2) },
        ),
        (
            r#"{"op":"increment","path":"/x","value":0.5}"#,
            PatchOp::Increment { path: x(), by: Value::Double(0.5) },
        ),
        (
            r#"{"op":"move","from":"/y/0","path":"/x"}"#,
            PatchOp::Move { from: path(&["y", "0"]), path: x() },
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(operations(text), Ok(vec![expected]), "{text}");
    }
}

#[test]
fn a_bare_list_is_a_patch_too() {
    let patch = read(r#"[{"op":"remove","path":"/x"}]"#).unwrap();
    assert_eq!(patch.operations, [PatchOp::Remove { path: path(&["x"]) }]);
    assert!(patch.condition.is_none());
}

#[test]
fn pointers_are_unescaped() {
    let of = |text: &str| {
        let patch = operations(&format!(r#"{{"op":"remove","path":"{text}"}}"#)).unwrap();
        match patch.into_iter().next() {
            Some(PatchOp::Remove { path }) => path,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of("/a~1b/c~0d/~01"), path(&["a/b", "c~d", "~1"]));
    assert_eq!(of("/x/-"), path(&["x", "-"]));
    assert_eq!(of("/"), path(&[""]));
    assert_eq!(of("/x/"), path(&["x", ""]));
}

#[test]
fn the_number_of_operations_is_bounded() {
    let many = |n: usize| operations(&vec![r#"{"op":"remove","path":"/x"}"#; n].join(","));
    assert!(many(10).is_ok());
    assert_eq!(many(11), Err((400, "The number of patch operations cannot exceed 10.".into())));
    assert_eq!(many(0).unwrap_err().0, 400);
}

#[test]
fn bad_syntax_is_refused() {
    for text in [
        "1",
        "{}",
        r#"{"operations":{}}"#,
        r#"{"operations":[1]}"#,
        r#"{"operations":[{}]}"#,
        r#"{"operations":[{"op":"add","value":1}]}"#,
        r#"{"operations":[{"op":"add","path":"/x"}]}"#,
        r#"{"operations":[{"op":"add","path":"x","value":1}]}"#,
        r#"{"operations":[{"op":"add","path":"","value":1}]}"#,
        r#"{"operations":[{"op":"add","path":7,"value":1}]}"#,
        r#"{"operations":[{"op":"add","path":"/x~2","value":1}]}"#,
        r#"{"operations":[{"op":"add","path":"/x~","value":1}]}"#,
        r#"{"operations":[{"op":"incr","path":"/x","value":"1"}]}"#,
        r#"{"operations":[{"op":"move","path":"/x"}]}"#,
        r#"{"operations":[{"op":"copy","from":"/y","path":"/x"}]}"#,
        r#"{"operations":[{"op":"remove","path":"/x"}],"condition":7}"#,
    ] {
        let (status, message) = read(text).unwrap_err();
        assert_eq!(status, 400, "{text}");
        let wanted = "Invalid patch request: check syntax of patch specification";
        assert!(message.starts_with(wanted), "{text}: {message}");
    }
}

#[test]
fn identity_and_system_properties_are_not_patched() {
    for (path, text) in [
        ("/id", "Cannot patch system property id"),
        ("/_ts", "Cannot patch system property _ts"),
        ("/_etag", "Cannot patch system property _etag"),
        ("/_rid/x", "Cannot patch system property _rid"),
        ("/pk", "Cannot patch the partition key path /pk"),
        ("/a/b", "Cannot patch the partition key path /a/b"),
        ("/a/b/c", "Cannot patch the partition key path /a/b"),
    ] {
        for operation in [
            format!(r#"{{"op":"set","path":"{path}","value":1}}"#),
            format!(r#"{{"op":"remove","path":"{path}"}}"#),
            format!(r#"{{"op":"incr","path":"{path}","value":1}}"#),
            format!(r#"{{"op":"move","from":"/x","path":"{path}"}}"#),
            format!(r#"{{"op":"move","from":"{path}","path":"/x"}}"#),
        ] {
            let (status, message) = operations(&operation).unwrap_err();
            assert_eq!(status, 400, "{operation}");
            assert!(message.contains(text), "{operation}: {message}");
        }
    }
    // Names that only look similar.
    for path in ["/ids", "/x/id", "/pk2", "/a", "/a/c", "/ttl"] {
        let text = format!(r#"{{"op":"set","path":"{path}","value":1}}"#);
        assert!(operations(&text).is_ok(), "{path}");
    }
}

#[test]
fn a_condition_is_compiled() {
    let with = |condition: &str| {
        read(&format!(
            r#"{{"operations":[{{"op":"remove","path":"/x"}}],"condition":{condition}}}"#
        ))
    };
    let condition = with(r#""from c where c.n = 3""#).unwrap().condition.unwrap();
    let item = |text: &str| json::parse(text.as_bytes(), 8).unwrap().value;
    assert!(condition.plan.matches(&item(r#"{"n":3}"#)).unwrap());
    assert!(!condition.plan.matches(&item(r#"{"n":4}"#)).unwrap());
    assert!(with("null").unwrap().condition.is_none());
    let (status, message) = with(r#""from c where""#).unwrap_err();
    assert_eq!(status, 400);
    assert!(message.contains("Syntax error"), "{message}");
}

#[test]
fn only_patches_come_as_patches() {
    let check =
        |text: &str| check_content_type(&request_with(&[(HeaderName::ContentType, text)], b""));
    for good in [
        "application/json-patch+json",
        "application/json_patch+json",
        "Application/JSON; charset=utf-8",
        "text/plain; charset=utf-8",
        "",
    ] {
        assert!(check(good).is_ok(), "{good}");
    }
    assert!(check_content_type(&request_with(&[], b"")).is_ok());
    for bad in ["text/xml", "application/query+json", "application/jsonx"] {
        assert_eq!(check(bad).unwrap_err().status(), 400, "{bad}");
    }
}
