use model::{Object, Value};

use super::{Patch, PatchError, PatchFailure, PatchOp, Pointer};

fn pointer(text: &str) -> Pointer {
    text.split('/').skip(1).map(str::to_owned).collect()
}

fn int(n: i64) -> Value {
    Value::Int64(n)
}

fn object(fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Value::Object(fields.collect::<Object>())
}

fn add(path: &str, value: impl Into<Value>) -> PatchOp {
    PatchOp::Add { path: pointer(path), value: value.into() }
}

fn set(path: &str, value: impl Into<Value>) -> PatchOp {
    PatchOp::Set { path: pointer(path), value: value.into() }
}

fn replace(path: &str, value: impl Into<Value>) -> PatchOp {
    PatchOp::Replace { path: pointer(path), value: value.into() }
}

fn remove(path: &str) -> PatchOp {
    PatchOp::Remove { path: pointer(path) }
}

fn incr(path: &str, by: impl Into<Value>) -> PatchOp {
    PatchOp::Increment { path: pointer(path), by: by.into() }
}

fn moved(from: &str, path: &str) -> PatchOp {
    PatchOp::Move { from: pointer(from), path: pointer(path) }
}

/// `{"a":1,"o":{"x":2.5,"s":"t"},"l":[10,20]}`
fn item() -> Value {
    object(&[
        ("a", int(1)),
        ("o", object(&[("x", Value::Double(2.5)), ("s", "t".into())])),
        ("l", Value::Array(vec![int(10), int(20)])),
    ])
}

fn patched(operations: Vec<PatchOp>) -> Result<Value, PatchError> {
    let mut value = item();
    Patch { operations, ..Patch::default() }.apply(&mut value)?;
    Ok(value)
}

/// After the change, the value at `path` is `expected`.
#[track_caller]
fn gives(operation: PatchOp, path: &str, expected: Option<Value>) {
    let value = patched(vec![operation.clone()]).unwrap();
    let found = pointer(path).iter().try_fold(&value, |at, name| at.field(name));
    assert_eq!(found, expected.as_ref(), "{operation:?} at {path}");
}

#[track_caller]
fn fails(operation: PatchOp, reason: PatchFailure) {
    let error = PatchError { operation: 1, reason };
    assert_eq!(patched(vec![operation.clone()]), Err(error), "{operation:?}");
}

fn out_of_bounds(index: &str) -> PatchFailure {
    PatchFailure::OutOfBounds { index: index.into() }
}

fn absent(path: &str) -> PatchFailure {
    PatchFailure::RemovedIsAbsent { path: path.into() }
}

fn list(items: &[i64]) -> Option<Value> {
    Some(Value::Array(items.iter().map(|n| int(*n)).collect()))
}

#[test]
fn add_creates_or_overwrites_members_and_inserts_elements() {
    gives(add("/b", 5i64), "/b", Some(int(5)));
    gives(add("/a", 5i64), "/a", Some(int(5)));
    gives(add("/o/y", 5i64), "/o/y", Some(int(5)));
    gives(add("/l/0", 5i64), "/l", list(&[5, 10, 20]));
    gives(add("/l/2", 5i64), "/l", list(&[10, 20, 5]));
    gives(add("/l/-", 5i64), "/l", list(&[10, 20, 5]));
    // A name that looks like an index is still a name in an object.
    gives(add("/o/0", 5i64), "/o/0", Some(int(5)));
    gives(add("/o/-", 5i64), "/o/-", Some(int(5)));
    fails(add("/l/3", 5i64), out_of_bounds("3"));
    fails(add("/l/99999999999999999999999", 5i64), out_of_bounds("99999999999999999999999"));
}

#[test]
fn set_overwrites_elements() {
    gives(set("/b", 5i64), "/b", Some(int(5)));
    gives(set("/o/s", 5i64), "/o/s", Some(int(5)));
    gives(set("/l/1", 5i64), "/l", list(&[10, 5]));
    gives(set("/l/-", 5i64), "/l", list(&[10, 20, 5]));
    fails(set("/l/2", 5i64), out_of_bounds("2"));
}

#[test]
fn nothing_is_created_without_its_parent() {
    let no_parent = |operation: &'static str, segment: &str| PatchFailure::NoParent {
        operation,
        segment: segment.into(),
    };
    fails(add("/nonExistentParent/Child", 5i64), no_parent("Add", "nonExistentParent"));
    fails(add("/o/p/q/r", 5i64), no_parent("Add", "p"));
    fails(add("/a/b", 5i64), no_parent("Add", "a"));
    fails(add("/l/x", 5i64), no_parent("Add", "x"));
    fails(add("/l/01", 5i64), no_parent("Add", "01"));
    fails(add("/l/7/b", 5i64), no_parent("Add", "7"));
    fails(add("/l/-/b", 5i64), no_parent("Add", "-"));
    fails(set("/p/q", 5i64), no_parent("Set", "p"));
    fails(incr("/p/q", 5i64), no_parent("Increment", "p"));
    fails(moved("/a", "/p/q"), no_parent("Move", "p"));
}

#[test]
fn replace_needs_something_to_replace() {
    gives(replace("/a", 5i64), "/a", Some(int(5)));
    gives(replace("/l/1", 5i64), "/l", list(&[10, 5]));
    fails(replace("/b", 5i64), PatchFailure::ReplacedIsAbsent { path: "/b".into() });
    fails(replace("/p/q", 5i64), PatchFailure::ReplacedIsAbsent { path: "/p/q".into() });
    fails(replace("/l/x", 5i64), PatchFailure::ReplacedIsAbsent { path: "/l/x".into() });
    fails(replace("/l/2", 5i64), out_of_bounds("2"));
    fails(replace("/l/-", 5i64), out_of_bounds("-"));
}

#[test]
fn remove_takes_members_out_and_shifts_elements() {
    gives(remove("/a"), "/a", None);
    gives(remove("/o/x"), "/o", Some(object(&[("s", "t".into())])));
    gives(remove("/l/0"), "/l", list(&[20]));
    fails(remove("/b"), absent("/b"));
    fails(remove("/p/q"), absent("/p/q"));
    fails(remove("/a/b"), absent("/a/b"));
    fails(remove("/l/2"), out_of_bounds("2"));
}

#[test]
fn increment_keeps_integers_exact() {
    gives(incr("/a", 5i64), "/a", Some(int(6)));
    gives(incr("/a", -5i64), "/a", Some(int(-4)));
    gives(incr("/a", 0.5), "/a", Some(Value::Double(1.5)));
    gives(incr("/o/x", 1i64), "/o/x", Some(Value::Double(3.5)));
    gives(incr("/l/1", 1i64), "/l", list(&[10, 21]));
    gives(incr("/b", 7i64), "/b", Some(int(7)));
    gives(incr("/a", 9_007_199_254_740_992i64), "/a", Some(int(9_007_199_254_740_993)));
    gives(incr("/a", i64::MAX), "/a", Some(Value::Double(9_223_372_036_854_775_808.0)));
    fails(incr("/o/s", 1i64), PatchFailure::NotANumber { path: "/o/s".into() });
    fails(incr("/o", 1i64), PatchFailure::NotANumber { path: "/o".into() });
    fails(incr("/l/2", 1i64), out_of_bounds("2"));
    let twice = vec![incr("/o/x", f64::MAX), incr("/o/x", f64::MAX)];
    let reason = PatchFailure::NotANumber { path: "/o/x".into() };
    assert_eq!(patched(twice), Err(PatchError { operation: 2, reason }));
}

#[test]
fn move_takes_away_and_overwrites() {
    gives(moved("/a", "/b"), "/b", Some(int(1)));
    gives(moved("/a", "/b"), "/a", None);
    gives(moved("/a", "/o/s"), "/o/s", Some(int(1)));
    gives(moved("/a", "/l/0"), "/l", list(&[1, 20]));
    gives(moved("/o/s", "/o"), "/o", Some("t".into()));
    gives(moved("/a", "/a"), "/a", Some(int(1)));
    fails(
        moved("/o", "/o/p"),
        PatchFailure::MoveIntoItself { from: "/o".into(), path: "/o/p".into() },
    );
    fails(moved("/b", "/c"), absent("/b"));
}

#[test]
fn move_within_an_array_keeps_all_elements() {
    let moves = |from: &str, path: &str| {
        let elements =
            [1i64, 2, 3].map(|n| PatchOp::Add { path: pointer("/m/-"), value: n.into() });
        let mut operations = vec![set("/m", Value::Array(Vec::new()))];
        operations.extend(elements);
        operations.push(moved(from, path));
        patched(operations).map(|item| item.field("m").cloned())
    };
    for (from, path, expected) in [
        ("/m/2", "/m/0", [3, 1, 2]),
        ("/m/0", "/m/2", [2, 3, 1]),
        ("/m/0", "/m/1", [2, 1, 3]),
        ("/m/0", "/m/-", [2, 3, 1]),
        ("/m/1", "/m/1", [1, 2, 3]),
    ] {
        assert_eq!(moves(from, path), Ok(list(&expected)), "{from} to {path}");
    }
    assert_eq!(moves("/m/0", "/m/3").unwrap_err().reason, out_of_bounds("3"));
}

#[test]
fn operations_run_in_order_and_name_the_one_that_fails() {
    let value = patched(vec![
        add("/n", object(&[])),
        add("/n/list", Value::Array(vec![])),
        add("/n/list/-", 1i64),
        incr("/n/list/0", 4i64),
        remove("/a"),
    ]);
    let n = object(&[("list", Value::Array(vec![int(5)]))]);
    assert_eq!(value.as_ref().unwrap().field("n"), Some(&n));
    let failed = patched(vec![remove("/a"), set("/b", 1i64), remove("/a")]);
    assert_eq!(failed, Err(PatchError { operation: 3, reason: absent("/a") }));
}

#[test]
fn paths_are_shown_as_they_are_written() {
    let operation = PatchOp::Remove { path: vec!["a/b".into(), "c~d".into()] };
    fails(operation, absent("/a~1b/c~0d"));
}

#[test]
fn the_item_itself_is_no_target() {
    assert!(patched(vec![add("", 1i64)]).is_err());
    assert!(patched(vec![set("", 1i64)]).is_err());
    assert!(patched(vec![replace("", 1i64)]).is_err());
    assert!(patched(vec![remove("")]).is_err());
}
