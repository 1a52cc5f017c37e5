//! What is only counted is not looked at, however much of it there is.

use std::sync::Arc;

use engine::gather::GatherRequest;
use engine::ops::{PageRequest, Row, Scope, WayTaken};
use engine::{Container, ContainerSpec, RequestContext};
use testkit::harness::{Harness, spec, string_key};

/// The forms in which clients ask, their own and those that SDKs send to ranges, and what they
/// answer before and after the number.
const FORMS: [(&str, &str, &str); 6] = [
    ("SELECT VALUE COUNT(1) FROM c", "", ""),
    ("SELECT COUNT(1) AS n FROM c", "{\"n\":", "}"),
    ("SELECT VALUE COUNT(\"any\") FROM c", "", ""),
    ("SELECT VALUE COUNT(false) FROM c", "", ""),
    ("SELECT VALUE [{\"item\": COUNT(1)}] FROM c", "[{\"item\":", "}]"),
    (
        "SELECT VALUE {\"payload\": {\"n\": {\"item\": COUNT(1)}}} FROM c",
        "{\"payload\":{\"n\":{\"item\":",
        "}}}",
    ),
];

async fn fill(h: &Harness, c: &Arc<Container>, items: std::ops::Range<u32>) {
    for n in items {
        let key = if n % 2 == 0 { "even".to_owned() } else { n.to_string() };
        h.create(c, &key, &format!(r#"{{"id":"{n}","pk":"{key}"}}"#)).await.expect("an item");
    }
}

/// The row, what it cost and whether it was made without items.
async fn page(h: &Harness, c: &Arc<Container>, text: &str, scope: Scope) -> (String, String, bool) {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let mut ctx = RequestContext::default();
    let request = PageRequest { items_max: Some(10), wants_report: true, ..PageRequest::default() };
    let page = h.engine.query(&mut ctx, c, plan, scope, request).await.expect("a page");
    let [Row::Json(text)] = page.rows.as_slice() else { panic!("{:?}", page.rows) };
    let is_counted = page.report.expect("a report").way == WayTaken::Counted;
    let text = String::from_utf8(text.clone()).expect("text");
    (text, ctx.served.charge.to_string(), is_counted)
}

#[tokio::test]
async fn a_count_looks_at_no_item_and_costs_the_same_however_many_there_are() {
    let h = Harness::in_memory();
    let c = h.container_with(spec("c"), 3).await;
    for items in [0..6, 6..40, 40..100] {
        let count = items.end;
        fill(&h, &c, items).await;
        for (text, before, after) in FORMS {
            let expected = format!("{before}{count}{after}");
            let all = page(&h, &c, text, Scope::All).await;
            assert_eq!(all, (expected.clone(), "6.75".to_owned(), true), "{text}");
            let key = page(&h, &c, text, Scope::Key(string_key("even"))).await;
            let half = format!("{before}{}{after}", count / 2);
            assert_eq!(key, (half, "2.25".to_owned(), true), "{text}");
            let none = page(&h, &c, text, Scope::Key(string_key("nothing"))).await;
            assert_eq!(none, (format!("{before}0{after}"), "2.25".to_owned(), true), "{text}");
            let plan = lang::nosql::compile(text, &[]).expect("a query");
            let mut ctx = RequestContext::default();
            let request = GatherRequest { wants_report: true, ..GatherRequest::default() };
            let gathered = h.engine.gather(&mut ctx, &c, plan, Scope::All, request).await;
            let gathered = gathered.expect("a page");
            let [Row::Json(row)] = gathered.rows.as_slice() else { panic!("{gathered:?}") };
            assert_eq!(row, expected.as_bytes(), "{text}");
            assert_eq!(ctx.served.charge.to_string(), "6.75", "{text}");
            for part in &gathered.parts {
                let report = part.report.as_ref().expect("a report");
                assert_eq!(report.way, WayTaken::Counted, "{text}");
            }
        }
    }
}

#[tokio::test]
async fn items_that_may_have_expired_are_looked_at() {
    let h = Harness::in_memory();
    let c = h.container_with(ContainerSpec { default_ttl: Some(-1), ..spec("c") }, 1).await;
    fill(&h, &c, 0..10).await;
    let body = r#"{"id":"short","pk":"even","ttl":1}"#;
    h.create(&c, "even", body).await.expect("an item");
    for (text, before, after) in FORMS {
        let all = page(&h, &c, text, Scope::All).await;
        assert_eq!(all, (format!("{before}11{after}"), "2.58".to_owned(), false), "{text}");
    }
    h.clock.advance(std::time::Duration::from_secs(5));
    for (text, before, after) in FORMS {
        let (row, _, is_counted) = page(&h, &c, text, Scope::All).await;
        assert_eq!((row, is_counted), (format!("{before}10{after}"), false), "{text}");
    }
}
