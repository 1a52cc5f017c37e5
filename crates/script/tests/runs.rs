//! Scripts in their context: what they can do, and what they cannot.

#![expect(clippy::disallowed_methods, reason = "scripts are stopped by real time")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::{Value, json};
use script::{
    CallerLimit, Functions, Host, HostCall, HostError, HostOperation, HostReply, Job, Limits,
    Operation, ScriptError, ScriptFailure, ScriptResult, Scripts, SpatialFunction, Task,
};

/// A collection in memory, with ids for links.
#[derive(Default)]
struct ItemStore {
    items: BTreeMap<String, String>,
    calls: usize,
    calls_max: Option<usize>,
}

impl ItemStore {
    fn id_of(body: &str) -> Result<String, HostError> {
        let value = json::parse(body.as_bytes(), 100).unwrap().value;
        let id = value.field("id").and_then(Value::as_str).map(str::to_owned);
        id.ok_or(HostError { number: 400, message: "no id".into() })
    }
}

impl Host for ItemStore {
    fn links(&self) -> [String; 2] {
        ["dbs/d/colls/c/".into(), "dbs/d/colls/c".into()]
    }

    fn size_mb(&self) -> u64 {
        1
    }

    fn accepts(&self) -> bool {
        self.calls_max.is_none_or(|max| self.calls < max)
    }

    fn spatial(&self, question: SpatialFunction, args: &str) -> Option<String> {
        (args != "[null]").then(|| format!(r#"["{question:?}",{args}]"#))
    }

    fn call(&mut self, call: HostCall) -> Result<HostReply, HostError> {
        self.calls += 1;
        let missing = || HostError { number: 404, message: "no such item".into() };
        let ok = |body: Option<String>| HostReply { status: 200, body, ..HostReply::default() };
        match call.operation {
            HostOperation::Create => {
                let body = call.body.unwrap();
                let id = Self::id_of(&body)?;
                if self.items.contains_key(&id) {
                    return Err(HostError { number: 409, message: "taken".into() });
                }
                self.items.insert(id, body.clone());
                Ok(HostReply { status: 201, ..ok(Some(body)) })
            }
            HostOperation::Upsert | HostOperation::Replace => {
                let body = call.body.unwrap();
                self.items.insert(Self::id_of(&body)?, body.clone());
                Ok(ok(Some(body)))
            }
            HostOperation::Read => {
                self.items.get(&call.link).cloned().map(|b| ok(Some(b))).ok_or_else(missing)
            }
            HostOperation::Delete => {
                self.items.remove(&call.link).map(|_| ok(None)).ok_or_else(missing)
            }
            HostOperation::List | HostOperation::Query => {
                let options = json::parse(call.options.as_bytes(), 9).unwrap().value;
                let from = options.field("continuation").and_then(Value::as_str);
                let from = from.map_or(0, |text| text.parse().unwrap());
                let size = options.field("pageSize").and_then(Value::as_i64);
                let size = usize::try_from(size.unwrap_or(100)).unwrap();
                let page: Vec<_> = self.items.values().skip(from).take(size).cloned().collect();
                let more = from + page.len() < self.items.len();
                let continuation = more.then(|| (from + page.len()).to_string());
                let body = Some(format!("[{}]", page.join(",")));
                Ok(HostReply { continuation, ..ok(body) })
            }
        }
    }
}

fn limits() -> Limits {
    Limits { time: Duration::from_millis(500), ..Limits::default() }
}

fn scripts(limits: Limits) -> Arc<Scripts> {
    let started = Instant::now();
    Arc::new(Scripts::new(limits, Arc::new(move || started.elapsed())))
}

fn job(source: &str, task: Task) -> Job {
    Job { name: "s".into(), source: source.into(), task, logs: true }
}

fn run_on(
    store: &Arc<Mutex<ItemStore>>,
    source: &str,
    args: &str,
) -> Result<ScriptResult, Box<ScriptFailure>> {
    let task = Task::Procedure { args: Some(args.to_owned()) };
    scripts(limits()).run(
        &job(source, task),
        Arc::<Mutex<ItemStore>>::clone(store),
        CallerLimit::default(),
    )
}

fn run(source: &str, args: &str) -> Result<ScriptResult, Box<ScriptFailure>> {
    run_on(&Arc::default(), source, args)
}

#[track_caller]
fn body(source: &str, args: &str) -> String {
    run(source, args).unwrap().body.unwrap_or_default()
}

#[track_caller]
fn thrown(source: &str) -> (Option<i64>, String) {
    match run(source, "[]").unwrap_err().error {
        ScriptError::Thrown { number, text, .. } => (number, text),
        other
        @ (ScriptError::Compile { .. } | ScriptError::TimedOut | ScriptError::OutOfMemory) => {
            panic!("{source} ended with {other:?}")
        }
    }
}

fn store_of(count: usize) -> Arc<Mutex<ItemStore>> {
    let mut store = ItemStore::default();
    for n in 0..count {
        let id = format!("{n:04}");
        let body = format!(r#"{{"id":"{id}","n":{n},"tags":["a","b"],"nested":[[1],[2,[3]]]}}"#);
        store.items.insert(id, body);
    }
    Arc::new(Mutex::new(store))
}

#[test]
fn arguments_go_in_and_a_body_comes_out() {
    let source = "function (a, b) { getContext().getResponse().setBody({ sum: a + b.x }); }";
    assert_eq!(body(source, r#"[1,{"x":2}]"#), r#"{"sum":3}"#);
    assert_eq!(run("function () {}", "[]").unwrap().body, None);
    assert_eq!(body("function f() { __.response.setBody(f.name) };", "[]"), r#""f""#);
    assert_eq!(body("x => __.response.setBody(x)", "[7]"), "7");
    let helpers = "function main() { __.response.setBody(help()); }\nfunction help() { return 1; }";
    assert_eq!(body(helpers, "[]"), "1");
    let sloppy = "function () { leaked = 3; __.response.setBody(leaked + this.leaked); }";
    assert_eq!(body(sloppy, "[]"), "6");
}

#[test]
fn a_response_is_appended_to() {
    let source = "function () { var r = getContext().getResponse(); \
                  for (var i = 0; i < 10; i++) r.appendValue('Body', i); }";
    assert_eq!(body(source, "[]"), r#""0123456789""#);
    assert_eq!(thrown("function () { __.response.setValue('x', 1); }").0, Some(400));
    assert_eq!(thrown("function () { __.response.setValue('StatusCode', 1); }").0, Some(403));
    let large = "function () { __.response.setBody('x'.repeat(3000000)); }";
    assert_eq!(thrown(large).0, Some(413));
}

#[test]
fn errors_have_numbers_and_texts() {
    assert_eq!(
        thrown("function () { throw new Error(1234, 'why'); }"),
        (Some(1234), "Error: why".into())
    );
    assert_eq!(thrown("function () { throw Error(5, 'why'); }").0, Some(5));
    assert_eq!(thrown("function () { throw new Error('why'); }"), (None, "Error: why".into()));
    assert_eq!(thrown("function () { throw 'plain'; }"), (None, "plain".into()));
    assert_eq!(thrown("function () { class E extends Error {}; throw new E('x'); }").1, "Error: x");
    let is_error = "function () { __.response.setBody([new Error(1,'x') instanceof Error, \
                    new TypeError('x') instanceof Error, new Error(1,'x').message]); }";
    assert_eq!(body(is_error, "[]"), r#"[true,true,"x"]"#);
    let (_, text) = thrown("function () { nothing.here(); }");
    assert!(text.contains("nothing"), "{text}");
    let ScriptError::Thrown { stack, .. } =
        run("function f() { throw new Error('x'); }", "[]").unwrap_err().error
    else {
        panic!()
    };
    assert!(stack.contains("s.js"), "{stack}");
    for bad in
        ["function ( {", "", "7", "'text'", "function () {} function () {}", "function () { \0 }"]
    {
        let error = run(bad, "[]").unwrap_err().error;
        assert!(matches!(error, ScriptError::Compile { .. }), "{bad:?}: {error:?}");
    }
}

#[test]
fn promises_work_and_their_failures_are_swallowed_unless_aborted() {
    let source =
        "async function () { const x = await Promise.resolve(4); __.response.setBody(x); }";
    assert_eq!(body(source, "[]"), "4");
    assert_eq!(run("async function () { throw new Error('lost'); }", "[]").unwrap().body, None);
    let aborted = "async function () { getContext().abort(new Error(99, 'stop')); }";
    assert_eq!(thrown(aborted), (Some(99), "Error: stop".into()));
    let caught = "function () { try { getContext().abort(new Error('a')); } catch (e) {} }";
    assert_eq!(thrown(caught).1, "Error: a");
}

#[test]
fn callbacks_come_after_the_script_in_order_and_do_not_nest() {
    let source = "function (count) {
        var made = 0, order = [];
        var accepted = __.createDocument(__.getSelfLink(), { id: '0' }, next);
        order.push('returned');
        function next(err, item, options) {
            if (err) throw err;
            order.length < 3 && order.push(item.id, options.statusCode);
            if (++made < count) __.createDocument(__.getAltLink(), JSON.stringify({ id: '' + made }), {}, next);
            else __.response.setBody({ made: made, accepted: accepted, order: order });
        }
    }";
    let store = Arc::<Mutex<ItemStore>>::default();
    let done = run_on(&store, source, "[3000]").unwrap();
    let wanted = r#"{"made":3000,"accepted":true,"order":["returned","0",201]}"#;
    assert_eq!(done.body.as_deref(), Some(wanted));
    assert_eq!(store.lock().unwrap().items.len(), 3000);
}

#[test]
fn failures_reach_callbacks_or_end_the_script() {
    let source = "function () { __.readDocument('none', function (err) { \
                  __.response.setBody([err.number, err.message, err.body, err instanceof Error]); }); }";
    assert_eq!(body(source, "[]"), r#"[404,"no such item","no such item",true]"#);
    assert_eq!(thrown("function () { __.readDocument('none'); }").0, Some(404));
    assert_eq!(thrown("function () { __.readDocument(); }").0, Some(400));
    let (number, text) = thrown("function () { __.createDocument('x'); }");
    let wanted = "The function \"createDocument\" requires at least 2 argument(s) but was called with 1 argument(s).";
    assert_eq!((number, text.contains(wanted)), (Some(400), true), "{text}");
    assert_eq!(thrown("function () { __.createDocument(1, {}); }").0, Some(400));
    assert_eq!(thrown("function () { __.createDocument('x', 'not json'); }").0, Some(400));
    assert_eq!(thrown("function () { __.createDocument('x', []); }").0, Some(400));
    assert_eq!(thrown("function () { __.readDocument('x', {}, 7); }").0, Some(400));
    assert_eq!(thrown("function () { __.createAttachment('x', {}); }").0, Some(400));
    let in_callback = "function () { __.createDocument('x', {id:'a'}, function () { throw new Error(7, 'cb'); }); }";
    assert_eq!(thrown(in_callback), (Some(7), "Error: cb".into()));
}

#[test]
fn a_script_is_told_when_there_is_no_budget() {
    let store = Arc::new(Mutex::new(ItemStore { calls_max: Some(5), ..ItemStore::default() }));
    let source = "function () { var n = 0; while (__.createDocument('c', { id: '' + n })) n++; __.response.setBody(n); }";
    assert_eq!(run_on(&store, source, "[]").unwrap().body.as_deref(), Some("5"));
    let late =
        "function () { var n = 0; while (__.readDocuments('c')) n++; __.response.setBody(n > 0); }";
    // A clock that jumps into the last part of the time: a busy machine makes no difference.
    let looks = AtomicU64::new(0);
    let clock = move || match looks.fetch_add(1, Ordering::SeqCst) {
        0..200 => Duration::ZERO,
        _ => limits().time * 9 / 10,
    };
    let task = Task::Procedure { args: Some("[]".to_owned()) };
    let ended = Arc::new(Scripts::new(limits(), Arc::new(clock))).run(
        &job(late, task),
        Arc::<Mutex<ItemStore>>::default(),
        CallerLimit::default(),
    );
    assert_eq!(ended.unwrap().body.as_deref(), Some("true"));
}

#[test]
fn a_script_runs_no_longer_than_its_caller_waits() {
    let run_for = |source: &str, caller: CallerLimit| {
        let task = Task::Procedure { args: Some("[]".to_owned()) };
        let long = Limits { time: Duration::from_secs(3600), ..Limits::default() };
        let host = Arc::<Mutex<ItemStore>>::default();
        scripts(long).run(&job(source, task), host, caller).map_err(|failure| failure.error)
    };
    let endless = "function () { for (;;) ; }";
    let late = CallerLimit { deadline: Some(Duration::from_millis(1)), is_gone: None };
    assert_eq!(run_for(endless, late), Err(ScriptError::TimedOut));
    let looks = AtomicU64::new(0);
    let leaves = move || looks.fetch_add(1, Ordering::SeqCst) > 3;
    let gone = CallerLimit { deadline: None, is_gone: Some(Arc::new(leaves)) };
    assert_eq!(run_for(endless, gone), Err(ScriptError::TimedOut));
    let stays = CallerLimit { deadline: None, is_gone: Some(Arc::new(|| false)) };
    let done = run_for("function () { __.response.setBody(1); }", stays).unwrap();
    assert_eq!(done.body.as_deref(), Some("1"));
}

#[test]
fn logs_are_formatted_and_bounded() {
    let log = |source: &str| run(source, "[]").unwrap().log;
    assert_eq!(
        log(
            "function () { console.log('a %s b %% %s', 1, {x:1}, 'rest'); console.log(); console.log(2); }"
        ),
        r#"a 1 b % {"x":1} rest2"#
    );
    assert_eq!(
        log("function () { for (var i = 0; i < 9; i++) console.log('é'.repeat(5000)); }").len(),
        16 * 1024
    );
    let failed = run("function () { console.log('so far'); throw 1; }", "[]").unwrap_err();
    assert_eq!(failed.log, "so far");
    let quiet = Job {
        logs: false,
        ..job("function () { console.log('x'); }", Task::Procedure { args: None })
    };
    assert_eq!(
        scripts(limits())
            .run(&quiet, Arc::<Mutex<ItemStore>>::default(), CallerLimit::default())
            .unwrap()
            .log,
        ""
    );
}

#[test]
fn triggers_see_the_request_and_the_response() {
    let pre = |source: &str| {
        let task =
            Task::PreTrigger { operation: Operation::Create, body: Some(r#"{"id":"a"}"#.into()) };
        scripts(limits()).run(
            &job(source, task),
            Arc::<Mutex<ItemStore>>::default(),
            CallerLimit::default(),
        )
    };
    let done = pre(
        "function () { var r = getContext().getRequest(); var b = r.getBody(); b.op = r.getOperationType(); r.setBody(b); }",
    );
    assert_eq!(done.unwrap().body.as_deref(), Some(r#"{"id":"a","op":"Create"}"#));
    assert_eq!(pre("function () {}").unwrap().body, None);
    assert!(pre("function () { getContext().getResponse(); }").is_err());
    let post = |source: &str| {
        let task = Task::PostTrigger {
            operation: Operation::Upsert,
            body: Some(r#"{"id":"a"}"#.into()),
            response: Some(r#"{"id":"a","_ts":1}"#.into()),
        };
        scripts(limits()).run(
            &job(source, task),
            Arc::<Mutex<ItemStore>>::default(),
            CallerLimit::default(),
        )
    };
    let seen = post(
        "function () { var c = getContext(); c.getResponse().setBody([c.getRequest().getBody(), c.getResponse().getBody(), c.getRequest().getOperationType()]); }",
    );
    assert_eq!(seen.unwrap().body.as_deref(), Some(r#"[{"id":"a"},{"id":"a","_ts":1},"Upsert"]"#));
    assert!(post("function () { getContext().getRequest().setBody({}); }").is_err());
    assert_eq!(post("function () {}").unwrap().body, None);
}

#[test]
fn the_query_api_filters_maps_sorts_and_chains() {
    let rows = |source: &str| run_on(&store_of(250), source, "[]").unwrap().body.unwrap();
    assert_eq!(
        rows("function () { __.filter(d => d.n === 240); }"),
        r#"[{"id":"0240","n":240,"tags":["a","b"],"nested":[[1],[2,[3]]]}]"#
    );
    assert_eq!(
        rows("function () { __.chain().filter(d => d.n < 3).map(d => d.n * 2).value(); }"),
        "[0,2,4]"
    );
    assert_eq!(
        rows(
            "function () { __.chain().filter(d => d.n > 246).pluck('n').value({pageSize: 2}, (e, r, o) => __.response.setBody([r, !!o.continuation])); }"
        ),
        "[[247,248],true]"
    );
    assert_eq!(
        rows(
            "function () { __.chain().sortByDescending(d => d.n).pluck('id').value({pageSize: 2}); }"
        ),
        r#"["0249","0248"]"#
    );
    assert_eq!(
        rows("function () { __.chain().filter(d => d.n < 2).pluck('nested').flatten().value(); }"),
        "[1,2,3,1,2,3]"
    );
    assert_eq!(
        rows(
            "function () { __.chain().filter(d => d.n < 1).pluck('nested').flatten(true).value(); }"
        ),
        "[[1],[2,[3]]]"
    );
    assert_eq!(
        rows(
            "function () { __.chain().filter(d => d.n < 1).unwind(d => d.tags, (d, t) => d.n + t).value(); }"
        ),
        r#"["0a","0b"]"#
    );
    let paged = "function () { var all = []; next(); function next(token) {
        var r = __.filter(d => d.n % 2 === 0, { pageSize: 30, continuation: token }, (err, rows, options) => {
            if (err) throw err;
            for (const row of rows) all.push(row.n);
            options.continuation ? next(options.continuation) : __.response.setBody([all.length, all[0], all[124], r.isAccepted]);
        }); } }";
    assert_eq!(rows(paged), "[125,0,248,true]");
    assert!(run("function () { __.filter(7); }", "[]").is_err());
}

#[test]
fn hostile_scripts_are_stopped() {
    let in_time = |source: &str| {
        let started = Instant::now();
        let ended = run(source, "[]");
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{source} took {:?}",
            started.elapsed()
        );
        ended.map_err(|failed| failed.error)
    };
    for source in [
        "function () { for (;;) {} }",
        "function () { while (true) try { for (;;) {} } catch (e) {} }",
        "function f() { Promise.resolve().then(f); }",
        "async function () { for (;;) await null; }",
        "function () { __.createDocument('c', {id:'a'}, function again() { __.readDocuments('c', again) || Promise.resolve().then(again); }); }",
        "function () { /(a+)+$/.test('a'.repeat(40) + 'b'); }",
        "function () { const e = { get number() { for (;;) {} } }; throw e; }",
        "function () { throw { toString() { for (;;) {} } }; }",
        "function () { __.response.setBody({ toJSON() { for (;;) {} } }); }",
        "function () { const a = []; for (let i = 0; i < 200000; i++) a.push(i); for (;;) [...a]; }",
        "function () { const s = 'x'.repeat(4000000); for (;;) try { s.split('').join(''); } catch (e) {} }",
        "function () { const t = JSON.stringify(new Array(100000).fill({a:1})); for (;;) try { JSON.parse(t); } catch (e) {} }",
        "function () { const t = new Float64Array(1000000).map((_, i) => -i); for (;;) try { t.sort(); t.reverse(); } catch (e) {} }",
    ] {
        assert_eq!(in_time(source).unwrap_err(), ScriptError::TimedOut, "{source}");
    }
    for source in [
        "function () { 'x'.repeat(1 << 30); }",
        "function () { let s = 'x'; for (;;) s += s; }",
        "function () { const a = []; for (;;) a.push(new Array(1000).fill(1)); }",
        "function () { new ArrayBuffer(1 << 30); }",
        "function () { const a = []; a.length = 4294967295; a.sort(); }",
        "function () { Array.prototype.fill.call({ length: 2 ** 53 - 1 }, 1); }",
        "function () { Array.prototype.join.call({ get length() { return 2 ** 53 - 1; } }); }",
        "function () { Array.prototype.reverse.call(Object.create({ length: 2 ** 40 })); }",
        "function () { Array.from({ length: 2 ** 40 }); }",
        "function () { [].concat({ length: 2 ** 40, [Symbol.isConcatSpreadable]: true }); }",
        "function () { Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); }",
        "function () { 'a'.repeat(3000000).indexOf('a'.repeat(1000000) + 'b'); }",
        "function () { 'a'.repeat(3000000).replace({ toString: () => 'a'.repeat(1000000) + 'b' }, ''); }",
        "function () { let b = 3n; for (;;) b = b * b; }",
        "function () { new Proxy({}, {}); }",
        "function () { const m = new Map(); for (let i = 0; ; i++) m.set(i, 'y'.repeat(1000) + i); }",
        "function f() { f(); }",
        "function () { let a = []; for (let i = 0; i < 1e6; i++) a = [a]; JSON.stringify(a); }",
        "function () { let f = () => 1; for (let i = 0; i < 1e5; i++) { const g = f; f = () => g(); } f(); }",
        "function () { eval('1'); }",
        "function () { new Function('return 1')(); }",
        "function () { (function () {}).constructor('return this')(); }",
        "function () { (async function () {}).constructor('x'); }",
        "function () { setTimeout(function () {}, 1); }",
        "function () { require('fs'); }",
        "function () { std.exit(1); }",
        "function () { new Worker('x'); }",
    ] {
        let error = in_time(source).unwrap_err();
        let ended = matches!(
            error,
            ScriptError::Thrown { .. } | ScriptError::OutOfMemory | ScriptError::TimedOut
        );
        assert!(ended, "{source}: {error:?}");
    }
    // Its own context is all that a script can spoil.
    for source in [
        "function () { Object.prototype.toJSON = () => 'x'; Array.prototype.push = null; JSON.parse = null; Reflect.apply = null; __.createDocument('c', {id:'t'}, () => __.response.setBody(1)); }",
        "function () { globalThis.getContext = null; delete globalThis.Error; Promise.prototype.then = null; }",
        "function () { Object.defineProperty(Object.prototype, 'number', { get() { return 7; } }); }",
        "function () { Function.prototype.call = Function.prototype.apply = function () { throw 1; }; }",
    ] {
        let _ = in_time(source);
        assert_eq!(body("function () { __.response.setBody(1); }", "[]"), "1");
    }
}

#[test]
fn import_is_not_there() {
    let error = run(
        "async function () { try { await import('fs'); } catch (e) { getContext().abort(e); } }",
        "[]",
    );
    assert!(error.is_err());
}

fn functions(sources: &[(&str, &str)]) -> Functions {
    let sources = sources.iter().map(|(name, source)| ((*name).to_owned(), (*source).into()));
    Functions::new(scripts(limits()), sources)
}

#[test]
fn functions_take_and_give_values() {
    let f = functions(&[
        ("same", "function (x) { return x; }"),
        ("kind", "function (x) { return typeof x; }"),
        ("nothing", "function () {}"),
        ("fails", "function () { throw new Error(5, 'no'); }"),
        ("spins", "function () { for (;;) {} }"),
        ("context", "function () { return typeof getContext; }"),
        ("broken", "function ("),
        ("large", "function () { return 'x'.repeat(3000000); }"),
        ("loop", "function () { const a = {}; a.a = a; return a; }"),
    ]);
    for text in
        ["null", "true", "1", "-2.5", "\"é\"", r#"[1,[null,{"a":"b"}]]"#, r#"{"a":{"b":[]}}"#]
    {
        let value = json::parse(text.as_bytes(), 9).unwrap().value;
        let same = f.call("same", &[Some(&value)]).unwrap().unwrap();
        assert_eq!(json::to_string(&same), text);
    }
    assert_eq!(f.call("kind", &[None]).unwrap(), Some("undefined".into()));
    assert_eq!(f.call("nothing", &[]).unwrap(), None);
    assert_eq!(f.call("context", &[]).unwrap(), Some("undefined".into()));
    assert!(matches!(f.call("fails", &[]), Err(ScriptError::Thrown { number: Some(5), .. })));
    assert!(matches!(f.call("broken", &[]), Err(ScriptError::Compile { .. })));
    assert!(f.call("none", &[]).is_err());
    assert!(f.call("large", &[]).is_err());
    assert!(f.call("loop", &[]).is_err());
    assert_eq!(f.call("spins", &[]), Err(ScriptError::TimedOut));
}

#[test]
fn questions_about_geometries_reach_the_host() {
    let source = "function (a) { var s = __.spatial; __.response.setBody([s.distance(a, 2, 3), \
                  s.isValidDetailed(a), s.isValid(null) === undefined]); }";
    assert_eq!(body(source, "[1]"), r#"[["Distance",[1,2]],["IsValidDetailed",[1]],true]"#);
    assert_eq!(thrown("function () { __.spatial.within(1); }").0, Some(400));
}
