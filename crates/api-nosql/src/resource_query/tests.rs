//! Paging and filtering of feeds.

use super::*;
use crate::reply::ReplyHeader;

fn feed(n: u64) -> ResourceFeed<impl Iterator<Item = Resource<'static>>> {
    let resources = (1..=n).map(|number| {
        let value = move |end: &str| {
            let link = format!("r{number}{end}");
            let fields = [("id", Value::from(format!("r{number}"))), ("link", link.into())];
            let fields = fields.map(|(name, value)| (name.to_owned(), value));
            Value::Object(fields.into_iter().collect())
        };
        Resource {
            position: (number - 1) * 10,
            value: Box::new(move || value("/")),
            alias: Some(Box::new(move || value(""))),
        }
    });
    ResourceFeed { parent_rid: "parent".into(), key: "Rows", resources }
}

/// All pages of a query, as the ids of each page.
fn pages(query: Option<&str>, page_max: usize) -> Vec<Vec<String>> {
    let plan = query.map(|text| lang::nosql::compile(text, &[]).unwrap());
    let mut start = Start::default();
    let mut pages = Vec::new();
    loop {
        let reply = feed(5).page(plan.as_ref(), start, page_max).unwrap();
        let Ok(parsed) = json::parse(&reply.body, 16) else { panic!("{:?}", reply.body) };
        let rows = parsed.value.field("Rows").and_then(Value::as_array).unwrap().to_vec();
        let id = |row: &Value| row.field("id").and_then(Value::as_str).unwrap().to_owned();
        pages.push(rows.iter().map(id).collect());
        match reply.text_of(ReplyHeader::Continuation) {
            Some(token) => start = Start::parse(&token).unwrap(),
            None => return pages,
        }
    }
}

#[test]
fn a_feed_without_a_query_is_everything() {
    assert_eq!(pages(None, 100), [["r1", "r2", "r3", "r4", "r5"]]);
    assert_eq!(pages(None, 2), [vec!["r1", "r2"], vec!["r3", "r4"], vec!["r5"]]);
}

#[test]
fn filters_keep_what_matches() {
    assert_eq!(pages(Some("SELECT * FROM root r WHERE r.id = 'r3'"), 100), [["r3"]]);
    assert_eq!(pages(Some("SELECT * FROM root WHERE root.id = 'none'"), 100), [[""; 0]]);
}

#[test]
fn a_resource_is_found_by_its_alias_and_shown_as_itself() {
    let plan = lang::nosql::compile("SELECT * FROM c WHERE c.link = 'r2'", &[]).unwrap();
    let reply = feed(5).page(Some(&plan), Start::default(), 100).unwrap();
    let wanted: &[u8] = br#"{"_rid":"parent","Rows":[{"id":"r2","link":"r2/"}],"_count":1}"#;
    assert_eq!(reply.body, wanted);
    assert_eq!(reply.text_of(ReplyHeader::ItemCount).as_deref(), Some("1"));
}

#[test]
fn counts_of_a_query_hold_over_all_pages() {
    let top = pages(Some("SELECT TOP 3 * FROM c"), 2);
    assert_eq!(top, [vec!["r1", "r2"], vec!["r3"]]);
    let window = pages(Some("SELECT * FROM c OFFSET 1 LIMIT 3"), 2);
    assert_eq!(window, [vec!["r2", "r3"], vec!["r4"]]);
}

#[test]
fn tokens_read_as_they_print_and_garbage_is_none() {
    let start = Start { from: 12, skipped: 3, taken: 4 };
    assert_eq!(Start::parse(&start.to_string()), Some(start));
    for text in ["", "1", "1.2", "1.2.x", "-1.2.3", "1.2.3.4", "1..3"] {
        assert_eq!(Start::parse(text), None, "{text}");
    }
}

#[test]
fn only_what_a_page_looks_at_is_rendered() {
    let rendered = std::sync::Mutex::new(Vec::new());
    let resources = (0..9).map(|position| Resource {
        position,
        value: Box::new({
            let rendered = &rendered;
            move || {
                rendered.lock().unwrap().push(position);
                Value::Null
            }
        }),
        alias: Some(Box::new(|| panic!("nobody queries"))),
    });
    let feed = ResourceFeed { parent_rid: String::new(), key: "Rows", resources };
    let reply = feed.page(None, Start { from: 3, ..Start::default() }, 2).unwrap();
    assert!(reply.text_of(ReplyHeader::Continuation).is_some());
    assert_eq!(*rendered.lock().unwrap(), [3, 4]);
}
