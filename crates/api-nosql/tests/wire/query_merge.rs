//! Queries whose rows only the client can merge: the error that tells it so, and the rewritten
//! queries that it sends to each range.

use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const CROSS: &str = "x-ms-documentdb-query-enablecrosspartition";
const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// A container of two ranges with items `0` to `19`, each under its own key; `n` has ties.
async fn service() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(body).send().await.expect(201);
    for n in 0..20 {
        let item = json!({"id": n.to_string(), "pk": n.to_string(), "n": n / 3, "long": "x".repeat(900 + n)});
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    s
}

fn query<'s>(s: &'s TestService, body: &Value) -> Call<'s> {
    s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True").body(body.to_string())
}

async fn plan(s: &TestService, text: &str, features: &str) -> Answer {
    query(s, &json!({"query": text}))
        .header("x-ms-cosmos-is-query-plan-request", "True")
        .header("x-ms-cosmos-supported-query-features", features)
        .send()
        .await
}

/// The rows of a range, page by page.
async fn rows_of_range(s: &TestService, range: &str, body: &Value, page: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let mut call = query(s, body).header(RANGE, range).header("x-ms-max-item-count", page);
        call = call.header("x-ms-documentdb-responsecontinuationtokenlimitinkb", "1");
        if let Some(token) = &token {
            call = call.header("x-ms-continuation", token);
        }
        let answer = call.send().await.expect(200);
        // Ties fall where the first sort key descends.
        let text = body["query"].as_str().expect("a text");
        let (_, order) = text.split_once("ORDER BY ").unwrap_or_default();
        let info = match order.split(',').next().is_some_and(|key| key.contains("DESC")) {
            true => r#"{"reverseRidEnabled":false,"reverseIndexScan":true}"#,
            false => r#"{"reverseRidEnabled":false,"reverseIndexScan":false}"#,
        };
        assert_eq!(answer.header("x-ms-cosmos-query-execution-info"), Some(info));
        rows.extend(answer.json()["Documents"].as_array().expect("rows").iter().cloned());
        token = answer.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            return rows;
        }
    }
}

#[tokio::test]
async fn clients_are_told_to_merge() {
    let s = service().await;
    for text in [
        "SELECT * FROM c ORDER BY c.n",
        "SELECT TOP 3 * FROM c",
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        "SELECT DISTINCT c.n FROM c",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT c.n FROM c GROUP BY c.n",
    ] {
        let refused = query(&s, &json!({"query": text})).header(CROSS, "True").send().await;
        let refused = refused.expect(400);
        assert_eq!(refused.header("x-ms-substatus"), Some("1004"), "{text}");
        assert!(refused.message().contains("can not be directly served by the gateway"), "{text}");
        let info = refused.json()["additionalErrorInfo"].as_str().unwrap().to_owned();
        let all = "OrderBy,Top,OffsetAndLimit,Distinct,Aggregate,GroupBy";
        let asked = plan(&s, text, all).await.expect(200).json();
        assert_eq!(serde_json::from_str::<Value>(&info).unwrap(), asked, "{text}");
        let without = plan(&s, text, "Nothing").await.expect(400);
        assert!(without.message().contains("which the calling client does not support"), "{text}");
    }
    for text in ["SELECT COUNT(1) FROM c", "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n"] {
        let refused = query(&s, &json!({"query": text})).header(CROSS, "True").send().await;
        let refused = refused.expect(400);
        assert_eq!(refused.header("x-ms-substatus"), None, "{text}");
        assert!(refused.message().contains("Cross partition query only supports"), "{text}");
    }
    // Within one key there is nothing to merge.
    let one =
        query(&s, &json!({"query": "SELECT TOP 1 c.id FROM c WHERE c.pk = '7' ORDER BY c.n"}));
    let one = one.header(CROSS, "True").send().await.expect(200);
    assert_eq!(one.json()["Documents"], json!([{"id": "7"}]));
}

#[tokio::test]
async fn ranges_run_the_rewritten_order_by() {
    let s = service().await;
    for (text, key) in [
        ("SELECT VALUE c.id FROM c ORDER BY c.n DESC", "n"),
        ("SELECT VALUE c.id FROM c ORDER BY c.long", "long"),
    ] {
        let plan = plan(&s, text, "OrderBy").await.expect(200).json();
        let rewritten = plan["queryInfo"]["rewrittenQuery"].as_str().unwrap();
        let body = json!({"query": rewritten.replace(FILTER, "true")});
        let mut ids = Vec::new();
        for range in ["0", "1"] {
            let rows = rows_of_range(&s, range, &body, "100").await;
            for page in ["1", "2", "3"] {
                assert_eq!(rows_of_range(&s, range, &body, page).await, rows, "{text} {page}");
            }
            let keys: Vec<&Value> =
                rows.iter().map(|row| &row["orderByItems"][0]["item"]).collect();
            let in_order = |pair: &[&Value]| match key {
                "n" => pair[0].as_i64() >= pair[1].as_i64(),
                _ => pair[0].as_str() <= pair[1].as_str(),
            };
            assert!(keys.windows(2).all(in_order), "{text}: {keys:?}");
            ids.extend(rows.iter().map(|row| row["payload"].as_str().unwrap().to_owned()));
        }
        ids.sort_by_key(|id| id.parse::<u32>().unwrap());
        let all: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(ids, all, "{text}");
    }
}

#[tokio::test]
async fn a_resume_filter_starts_at_a_row() {
    let s = service().await;
    check_resuming(&s, "ASC").await;
    check_resuming(&s, "DESC").await;
}

async fn check_resuming(s: &TestService, direction: &str) {
    let text = format!(
        "SELECT c._rid, [{{\"item\": c.n}}] AS orderByItems, c AS payload FROM c ORDER BY c.n \
         {direction}"
    );
    let all = rows_of_range(s, "0", &json!({"query": text}), "100").await;
    let resumed = |filter: Value| {
        let body = json!({"query": text, "resumeFilter": filter});
        async move { rows_of_range(s, "0", &body, "2").await }
    };
    for (at, row) in all.iter().enumerate() {
        let (value, rid) = (&row["orderByItems"][0]["item"], &row["_rid"]);
        let from_row = json!({"value": [value], "rid": rid, "exclude": false});
        assert_eq!(resumed(from_row).await, all[at..]);
        let from_value = json!({"value": [value], "exclude": false});
        let first = all
            .iter()
            .position(|row| row["orderByItems"][0]["item"] == *value)
            .expect("the test's own data");
        assert_eq!(resumed(from_value).await, all[first..]);
        let beyond_value = json!({"value": [value], "exclude": true});
        let next = all
            .iter()
            .rposition(|row| row["orderByItems"][0]["item"] == *value)
            .expect("the test's own data");
        assert_eq!(resumed(beyond_value).await, all[next + 1..]);
    }
    let undefined = json!({"value": [[]], "exclude": false});
    let object = json!({"value": [{"type": "object", "low": 1, "high": -1}], "exclude": false});
    let (first, last) = match direction {
        "ASC" => (undefined, object),
        _ => (object, undefined),
    };
    assert_eq!(resumed(first).await, all);
    assert_eq!(resumed(last).await, Vec::<Value>::new());
    for filter in [json!({}), json!({"value": [1, 2]}), json!({"value": [1], "rid": "x"})] {
        let body = json!({"query": text, "resumeFilter": filter});
        query(s, &body).header(RANGE, "0").send().await.expect(400);
    }
}

/// More items than a page sorts have keys with a common prefix that is longer than the key prefix
/// in the index and the token.
#[tokio::test]
async fn many_rows_with_keys_that_begin_alike_come_once_each() {
    let s = TestService::new().with_container().await;
    const ITEMS: usize = 1100;
    for n in 0..ITEMS {
        let (key, id) = ("x".repeat(600), n * 7 % ITEMS);
        let item = json!({"id": n.to_string(), "pk": "k", "s": format!("{key}{id:04}")});
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    for (order, is_descending) in [("c.s", false), ("c.s DESC", true)] {
        let text = format!("SELECT VALUE RIGHT(c.s, 4) FROM c ORDER BY {order}");
        let (mut rows, mut token, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let mut call = query(&s, &json!({"query": text})).header(RANGE, "0");
            call = call.header("x-ms-max-item-count", "130");
            if let Some(token) = &token {
                call = call.header("x-ms-continuation", token);
            }
            let answer = call.send().await.expect(200);
            rows.extend(answer.json()["Documents"].as_array().unwrap().clone());
            token = answer.header("x-ms-continuation").map(str::to_owned);
            pages += 1;
            assert!(pages < 50, "pages without end, {} rows", rows.len());
            if token.is_none() {
                break;
            }
        }
        let mut expected: Vec<Value> = (0..ITEMS).map(|n| json!(format!("{n:04}"))).collect();
        if is_descending {
            expected.reverse();
        }
        assert!(rows == expected, "{order}: {} rows", rows.len());
    }
}

/// .NET sends both the token of the next page and the last row of the previous one; the later
/// position counts.
#[tokio::test]
async fn a_token_and_a_resume_filter_begin_at_the_later_one() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let by = |a: &str, b: &str| json!([{"path": "/s", "order": a}, {"path": "/t", "order": b}]);
    let container = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "indexingPolicy": {"compositeIndexes": [by("ascending", "descending")]},
    });
    s.post("/dbs/d/colls", &container.to_string()).await.expect(201);
    // Keys of many lengths with a common prefix, some of them equal; two are long in combination,
    // too.
    let lengths = (0..=8).map(|n| n * 50).chain(396..=402).chain([900, 1500]);
    for (n, length) in lengths.flat_map(|length| [length; 3]).enumerate() {
        let item = json!({
            "id": n.to_string(),
            "pk": n.to_string(),
            "s": "x".repeat(length) + ["", "", "y"][n % 3],
            "t": "z".repeat(length / 2) + ["b", "a", "a"][n % 3],
        });
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    for order in ["c.s", "c.s DESC", "c.s, c.t DESC", "c.s DESC, c.t"] {
        let keys: Vec<String> = order
            .split(", ")
            .map(|key| format!("{{\"item\": {}}}", key.trim_end_matches(" DESC")))
            .collect();
        let text = format!(
            "SELECT c._rid, [{}] AS orderByItems, c.id AS payload FROM c ORDER BY {order}",
            keys.join(", ")
        );
        let all = rows_of_range(&s, "0", &json!({"query": text}), "100").await;
        assert_eq!(all.len(), 54);
        for page_size in [1, 2, 5, 7] {
            let (mut rows, mut token, mut filter) = (Vec::new(), None::<String>, Value::Null);
            loop {
                let body = json!({"query": text, "resumeFilter": filter});
                let mut call = query(&s, &body).header(RANGE, "0");
                call = call.header("x-ms-max-item-count", page_size.to_string());
                if let Some(token) = &token {
                    call = call.header("x-ms-continuation", token);
                }
                let answer = call.send().await.expect(200);
                rows.extend(answer.json()["Documents"].as_array().expect("rows").iter().cloned());
                assert!(rows.len() <= all.len(), "{order} in pages of {page_size} repeats rows");
                token = answer.header("x-ms-continuation").map(str::to_owned);
                if token.is_none() {
                    break;
                }
                let last = rows.last().expect("no page is empty");
                let keys = last["orderByItems"].as_array().expect("keys").iter();
                let value: Vec<&Value> = keys.map(|key| &key["item"]).collect();
                filter = json!({"value": value, "rid": last["_rid"], "exclude": false});
            }
            assert_eq!(rows, all, "{order} in pages of {page_size}");
        }
    }
}

#[tokio::test]
async fn ranges_run_the_rewritten_aggregates_and_groups() {
    let s = service().await;
    let all = "Aggregate,GroupBy,MultipleAggregates,NonValueAggregate";
    let partials = async |text: &str| {
        let plan = plan(&s, text, all).await.expect(200).json();
        let rewritten = plan["queryInfo"]["rewrittenQuery"].as_str().unwrap().to_owned();
        let mut rows = Vec::new();
        for range in ["0", "1"] {
            rows.extend(rows_of_range(&s, range, &json!({"query": rewritten}), "2").await);
        }
        rows
    };
    let sum = |rows: &[Value], of: &dyn Fn(&Value) -> &Value| -> i64 {
        rows.iter().map(|row| of(row).as_i64().unwrap()).sum()
    };
    let counts = partials("SELECT VALUE COUNT(1) FROM c").await;
    assert_eq!(counts.len(), 2);
    assert_eq!(sum(&counts, &|row| &row[0]["item"]), 20);
    let averages = partials("SELECT VALUE AVG(c.n) FROM c WHERE c.n > 2").await;
    assert_eq!(sum(&averages, &|row| &row[0]["item"]["sum"]), 48);
    assert_eq!(sum(&averages, &|row| &row[0]["item"]["count"]), 11);
    let best = partials("SELECT MAX(c.n) AS m, MIN(c.zz) FROM c").await;
    assert!(best.iter().any(|row| row["payload"]["m"]["item2"]["max"] == 6));
    assert_eq!(best[0]["payload"]["$1"], json!({"item2": {"count": 0}}));
    let groups = partials("SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n").await;
    assert_eq!(sum(&groups, &|row| &row["payload"]["k"]["item"]), 20);
    assert!(groups.iter().all(|row| row["groupByItems"][0]["item"] == row["payload"]["n"]));
}

#[tokio::test]
async fn numbers_that_json_lacks_have_their_own_error() {
    let s = service().await;
    let answer =
        query(&s, &json!({"query": "SELECT VALUE 1/0"})).header(CROSS, "True").send().await;
    let answer = answer.expect(400);
    assert_eq!(answer.header("x-ms-substatus"), Some("4001"));
    assert!(answer.message().contains("\"code\":4001"), "{}", answer.message());
    let answer = query(&s, &json!({"query": "SELECT * FROM c ORDER BY LOWER(c.n)"}));
    let answer = answer.header(CROSS, "True").send().await.expect(400);
    assert!(answer.message().contains("\"code\":2206"), "{}", answer.message());
    assert!(!answer.message().contains("location"), "{}", answer.message());
}
