//! Which indexes a query used or could use, and advice on its text, according to the plan that was
//! run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const UTILIZATION: &str = "x-ms-cosmos-index-utilization";

/// A container of two ranges with 40 items; `secret` has no index, `a` and `b` have a composite
/// index.
async fn service() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = json!({
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "indexingPolicy": {
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [{"path": "/secret/?"}],
            "compositeIndexes": [[{"path": "/a"}, {"path": "/b", "order": "descending"}]],
        },
    });
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(body.to_string()).send().await.expect(201);
    for n in 0..40 {
        let item = json!({
            "id": n.to_string(), "pk": (n % 8).to_string(), "a": n % 5, "b": n, "secret": n,
            "name": format!("name {n}"), "tags": [n % 3, {"x y": n}],
        });
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    s
}

fn query<'s>(s: &'s TestService, text: &str) -> Call<'s> {
    s.call("POST", DOCS)
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", "0")
        .body(json!({"query": text}).to_string())
}

fn first_form(answer: &Answer) -> Value {
    let text = STANDARD.decode(answer.header(UTILIZATION).expect("index metrics")).expect("base64");
    serde_json::from_slice(&text).expect("JSON")
}

async fn metrics(s: &TestService, text: &str) -> Value {
    let call = query(s, text).header("x-ms-cosmos-populateindexmetrics", "True");
    first_form(&call.send().await.expect(200))
}

/// Condition, path and impact of each index in a list.
fn singles(metrics: &Value, list: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let index = |index: &Value| {
        let precise = index["IndexPreciseSet"].as_bool().expect("a flag");
        assert_eq!(index["IndexImpactScore"], if precise { "High" } else { "Low" });
        let impact = text(&index["IndexImpactScore"]);
        (text(&index["FilterExpression"]), text(&index["IndexSpec"]), impact)
    };
    metrics[list].as_array().expect("a list").iter().map(index).collect()
}

fn index(filter: &str, path: &str, impact: &str) -> (String, String, String) {
    (filter.to_owned(), path.to_owned(), impact.to_owned())
}

#[tokio::test]
async fn conditions_that_an_index_answered_are_listed() {
    let s = service().await;
    let utilized = |metrics: &Value| singles(metrics, "UtilizedSingleIndexes");
    let both =
        metrics(&s, "SELECT * FROM c WHERE c.name = 'name 3' AND STARTSWITH(c.name, 'na')").await;
    assert_eq!(
        utilized(&both),
        [
            index("(ROOT.name = \"name 3\")", "/name/?", "High"),
            index("STARTSWITH(ROOT.name, \"na\")", "/name/?", "High"),
        ]
    );
    let inside = metrics(&s, "SELECT * FROM c WHERE CONTAINS(c.name, '3')").await;
    assert_eq!(utilized(&inside), [index("CONTAINS(ROOT.name, \"3\")", "/name/?", "Low")]);
    let element = metrics(&s, "SELECT c.id FROM c JOIN t IN c.tags WHERE t['x y'] = 7").await;
    let condition = "(ROOT.tags[][\"x y\"] = 7)";
    assert_eq!(utilized(&element), [index(condition, "/tags/[]/\"x y\"/?", "Low")]);
    let counted = metrics(&s, "SELECT VALUE COUNT(1) FROM c WHERE c.a = 1").await;
    assert_eq!(utilized(&counted), [index("(ROOT.a = 1)", "/a/?", "High")]);
    let ordered = metrics(&s, "SELECT TOP 3 * FROM c ORDER BY c.b").await;
    assert_eq!(utilized(&ordered), [index("", "/b/?", "High")]);
    let best = metrics(&s, "SELECT VALUE MAX(c.b) FROM c").await;
    assert_eq!(utilized(&best), [index("", "/b/?", "High")]);
    for text in ["SELECT * FROM c", "SELECT * FROM c WHERE c.a + 1 = 2", "SELECT 1"] {
        assert_eq!(utilized(&metrics(&s, text).await), [], "{text}");
    }
}

#[tokio::test]
async fn what_has_no_index_could_have_one() {
    let s = service().await;
    let text = "SELECT * FROM c WHERE c.secret > 3 AND c.name = 'name 5'";
    let missing = metrics(&s, text).await;
    assert_eq!(
        singles(&missing, "PotentialSingleIndexes"),
        [index("(ROOT.secret > 3)", "/secret/?", "High")]
    );
    assert_eq!(
        singles(&missing, "UtilizedSingleIndexes"),
        [index("(ROOT.name = \"name 5\")", "/name/?", "High")]
    );
    let composites = &missing["PotentialCompositeIndexes"];
    assert_eq!(
        composites,
        &json!([{"IndexSpecs": ["/name ASC", "/secret ASC"], "IndexPreciseSet": false, "IndexImpactScore": "High"}])
    );
}

#[tokio::test]
async fn composite_indexes_are_told_apart() {
    let s = service().await;
    let text = "SELECT TOP 5 * FROM c ORDER BY c.a DESC, c.b";
    let ordered = metrics(&s, text).await;
    assert_eq!(
        ordered["UtilizedCompositeIndexes"],
        json!([{"IndexSpecs": ["/a DESC", "/b ASC"], "IndexPreciseSet": true, "IndexImpactScore": "High"}])
    );
    // Such an index exists already.
    let known = metrics(&s, "SELECT * FROM c WHERE c.a = 1 AND c.b > 3").await;
    assert_eq!(known["PotentialCompositeIndexes"], json!([]));
    let single = metrics(&s, "SELECT * FROM c WHERE c.b > 3").await;
    assert_eq!(single["PotentialCompositeIndexes"], json!([]));
}

#[tokio::test]
async fn every_page_tells_in_the_form_that_was_asked_for() {
    let s = service().await;
    let mut token: Option<String> = None;
    let mut pages = 0;
    loop {
        let call = query(&s, "SELECT * FROM c WHERE c.a = 1")
            .header("x-ms-cosmos-populateindexmetrics-V2", "true")
            .header("x-ms-max-item-count", "2");
        let call = match &token {
            Some(token) => call.header("x-ms-continuation", token),
            None => call,
        };
        let answer = call.send().await.expect(200);
        let text = answer.header(UTILIZATION).expect("index metrics on every page");
        let text = percent_encoding::percent_decode_str(text).decode_utf8().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({
                "UtilizedIndexes": {
                    "SingleIndexes": [{"IndexSpec": "/a/?"}],
                    "CompositeIndexes": [],
                },
                "PotentialIndexes": {"SingleIndexes": [], "CompositeIndexes": []},
            })
        );
        pages += 1;
        token = answer.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    assert!(pages > 1);
}

#[tokio::test]
async fn the_second_form_lists_paths_the_last_first_and_those_of_the_select_list() {
    let s = service().await;
    let metrics = async |text: &str| {
        let call = query(&s, text).header("x-ms-cosmos-populateindexmetrics-V2", "true");
        let answer = call.send().await.expect(200);
        let text = answer.header(UTILIZATION).expect("index metrics").to_owned();
        let text = percent_encoding::percent_decode_str(&text).decode_utf8().unwrap().into_owned();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let paths = |metrics: &Value| -> Vec<String> {
        let list = metrics["UtilizedIndexes"]["SingleIndexes"].as_array().unwrap();
        list.iter()
            .map(|index| index["IndexSpec"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let both = metrics("SELECT * FROM c WHERE c.id = '1' AND c.name = 'x'").await;
    assert_eq!(paths(&both), ["/name/?", "/id/?"]);
    assert_eq!(both["PotentialIndexes"]["CompositeIndexes"], json!([]));
    let range = metrics("SELECT * FROM c WHERE c.id = '1' AND c.name > 'x'").await;
    assert_eq!(
        range["PotentialIndexes"]["CompositeIndexes"],
        json!([{"IndexSpecs": ["/id ASC", "/name ASC"], "IndexImpactScore": "High"}])
    );
    for (text, path) in [
        ("SELECT VALUE SUM(c.a) FROM c", "/a/?"),
        ("SELECT VALUE STARTSWITH(c['ı'], 's', false) FROM c", "/ı/?"),
        ("SELECT STARTSWITH(c['x y'], 's') AS s FROM c", "/\"x y\"/?"),
    ] {
        assert_eq!(paths(&metrics(text).await), [path], "{text}");
    }
    for text in
        ["SELECT c.a FROM c", "SELECT VALUE c.a + 1 FROM c", "SELECT VALUE LOWER(c.secret) FROM c"]
    {
        assert_eq!(paths(&metrics(text).await), [""; 0], "{text}");
    }
}

#[tokio::test]
async fn headers_stay_short_whatever_is_asked() {
    let s = service().await;
    let long = "x".repeat(5_000);
    let conditions: Vec<_> =
        (0..60).map(|n| format!("c['é{}{n}'] = 'é{long}'", "p".repeat(n + 1))).collect();
    let text = format!("SELECT * FROM c WHERE {}", conditions.join(" AND "));
    for form in ["x-ms-cosmos-populateindexmetrics", "x-ms-cosmos-populateindexmetrics-V2"] {
        let answer = query(&s, &text).header(form, "True").send().await.expect(200);
        assert!(answer.header(UTILIZATION).expect("index metrics").len() <= 6 * 1024, "{form}");
    }
}

#[tokio::test]
async fn advice_comes_when_asked_for() {
    let s = service().await;
    let text = "SELECT * FROM c WHERE CONTAINS(c.name, 'x') AND STARTSWITH(c.name, 'N', true)";
    let plain = query(&s, text).send().await.expect(200);
    assert_eq!(plain.header("x-ms-cosmos-query-advice"), None);
    let advised = query(&s, text).header("x-ms-cosmos-populatequeryadvice", "True").send().await;
    let advised = advised.expect(200);
    let advice = advised.header("x-ms-cosmos-query-advice").expect("advice");
    let advice = percent_encoding::percent_decode_str(advice).decode_utf8().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&advice).unwrap(),
        json!([{"Id": "QA1002", "Params": []}, {"Id": "QA1003", "Params": []}])
    );
}
