//! Full-text and vector indexes: an answer is the same with and without them, whatever happens to
//! the container, and the audit finds every entry that should exist.

use std::sync::Arc;
use std::time::Duration;

use engine::index::{TextIndex, VectorIndex};
use engine::ops::{ItemOp, PageRequest, Row, Scope};
use engine::repartition::{JobId, JobPhase, Progression, SplitPoint};
use engine::{Container, ContainerSpec, IndexingPolicy, Settings};
use lang::nosql::Environment;
use model::{Value, json};
use query::fulltext::Language;
use query::vector::VectorMetric;
use storage::{EmbeddedOptions, EmbeddedStore, LocalStore, MemoryStore};
use testkit::harness::{Harness, body, path, spec, string_key, test_context};

const WORDS: [&str; 12] = [
    "red", "bicycle", "swim", "run", "the", "street", "house", "green", "and", "river", "stone",
    "light",
];
const KEYS: usize = 4;

/// Pseudo-random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        const STEP: u64 = 1_442_695_040_888_963_407;
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(STEP);
        u32::try_from(self.0 >> 33).expect("31 bits") % end
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(12) as usize]
    }

    fn text(&mut self) -> String {
        let count = self.below(9);
        let words = (0..count).map(|_| self.word());
        words.collect::<Vec<_>>().join(" ")
    }

    fn vector(&mut self) -> String {
        let numbers: Vec<String> =
            (0..3).map(|_| (f64::from(self.below(64)) / 8.0 - 4.0).to_string()).collect();
        format!("[{}]", numbers.join(","))
    }

    /// An item; some have no text or no vector.
    fn item(&mut self, id: usize) -> String {
        let text = match self.below(10) {
            0 => "7".to_owned(),
            1 => "null".to_owned(),
            _ => format!("{:?}", self.text()),
        };
        let vector = match self.below(10) {
            0 => "[1,2]".to_owned(),
            1 => "\"none\"".to_owned(),
            _ => self.vector(),
        };
        let key = id % KEYS;
        format!(r#"{{"id":"{id}","pk":"{key}","n":{id},"text":{text},"v":{vector}}}"#)
    }
}

fn searched(metric: VectorMetric, is_exact: bool) -> IndexingPolicy {
    let text = TextIndex { path: vec!["text".to_owned()], language: Language::English };
    let path = vec!["v".to_owned()];
    let vector = VectorIndex { path, dimensions: 3, metric, is_exact, cells: None };
    IndexingPolicy { texts: vec![text], vectors: vec![vector], ..IndexingPolicy::default() }
}

fn environment(metric: VectorMetric) -> Environment {
    Environment { vectors: vec![(path("/v"), metric)], ..Environment::default() }
}

fn audit(h: &Harness) {
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}

async fn upsert(h: &Harness, c: &Arc<Container>, id: usize, text: &str) {
    let op = ItemOp::Upsert { body: body(text), if_match: None };
    h.write(c, &(id % KEYS).to_string(), op).await.expect("an item");
}

async fn rows(
    h: &Harness,
    c: &Arc<Container>,
    text: &str,
    metric: VectorMetric,
    scope: Scope,
) -> Vec<String> {
    let plan = lang::nosql::compile_in(&environment(metric), text, &[]).expect(text);
    let (mut rows, mut continuation) = (Vec::new(), None);
    loop {
        let request = PageRequest { items_max: Some(7), continuation, ..PageRequest::default() };
        let mut ctx = test_context();
        let page = h.engine.query(&mut ctx, c, plan.clone(), scope.clone(), request).await;
        let page = page.unwrap_or_else(|error| panic!("{text}: {error}"));
        rows.extend(page.rows.iter().map(|row| match row {
            Row::Json(text) => String::from_utf8_lossy(text).into_owned(),
            Row::Item(item) => item.id().into_owned(),
        }));
        continuation = page.continuation;
        if continuation.is_none() {
            return rows;
        }
    }
}

fn questions(numbers: &mut Numbers) -> Vec<String> {
    let (a, b) = (numbers.word(), numbers.word());
    let vector = numbers.vector();
    let score = format!(r#"_FullTextScore(c.text, ["{a}", "{b} {a}"], 90, 300, [20, 3])"#);
    vec![
        format!(r#"SELECT VALUE c.n FROM c WHERE FullTextContains(c.text, "{a}")"#),
        format!(r#"SELECT VALUE c.n FROM c WHERE FullTextContains(c.text, "{a} {b}")"#),
        format!(r#"SELECT VALUE c.n FROM c WHERE FullTextContainsAll(c.text, "{a}", "{b}")"#),
        format!(
            r#"SELECT VALUE c.n FROM c WHERE FullTextContainsAny(c.text, "{a}", "{b}") AND c.n > 9"#
        ),
        format!(
            r#"SELECT VALUE c.n FROM c WHERE FullTextContains(c.text, "{a}") OR FullTextContains(c.text, "{b}")"#
        ),
        format!(r#"SELECT VALUE c.n FROM c WHERE NOT FullTextContains(c.text, "{a}")"#),
        format!(
            r#"SELECT COUNT(1) AS items, SUM(_FullTextWordCount(c.text)) AS words, COUNTIF(FullTextContains(c.text, "{a}")) AS a, COUNTIF(FullTextContains(c.text, "{a} {b}")) AS b FROM c"#
        ),
        format!("SELECT TOP 5 VALUE c.n FROM c ORDER BY {score} DESC"),
        format!("SELECT TOP 60 c.n, {score} AS s FROM c ORDER BY {score} DESC"),
        format!("SELECT VALUE c.n FROM c WHERE c.n > 20 ORDER BY {score} DESC OFFSET 2 LIMIT 9"),
        format!("SELECT VALUE c.n FROM c ORDER BY {score} DESC"),
        format!("SELECT TOP 5 VALUE c.n FROM c ORDER BY VectorDistance(c.v, {vector}, true)"),
        format!("SELECT TOP 70 VALUE c.n FROM c ORDER BY VectorDistance(c.v, {vector}, true)"),
        format!(
            "SELECT c.n FROM c WHERE c.n > 30 ORDER BY VectorDistance(c.v, {vector}, true) OFFSET 3 LIMIT 9"
        ),
        format!(
            r#"SELECT TOP 4 VALUE c.n FROM c ORDER BY VectorDistance(c.v, {vector}, true, {{"distanceFunction": "dotproduct"}})"#
        ),
    ]
}

/// Compares the answers of a container that has indexes with those of one that has none.
async fn compare(
    h: &Harness,
    indexed: &Arc<Container>,
    plain: &Arc<Container>,
    numbers: &mut Numbers,
    metric: VectorMetric,
) {
    let mut scopes = vec![Scope::All, Scope::Key(string_key("1"))];
    scopes.push(Scope::Epk(model::EpkRange::full()));
    for question in questions(numbers) {
        for scope in &scopes {
            let found = rows(h, indexed, &question, metric, scope.clone()).await;
            let wanted = rows(h, plain, &question, metric, scope.clone()).await;
            assert_eq!(found, wanted, "{question} in {scope:?}");
        }
    }
}

fn plain_spec(id: &str) -> ContainerSpec {
    spec(id)
}

#[tokio::test]
async fn answers_are_those_of_a_scan_whatever_is_written() {
    let h = Harness::in_memory();
    for (metric, ranges) in
        [(VectorMetric::Cosine, 1), (VectorMetric::Euclidean, 1), (VectorMetric::DotProduct, 1)]
    {
        let name = format!("{metric:?}");
        let indexing = searched(metric, true);
        let indexed = h.container_with(ContainerSpec { indexing, ..spec(&name) }, ranges).await;
        let plain = h.container_with(plain_spec(&format!("plain {name}")), ranges).await;
        let mut numbers = Numbers(7);
        for round in 0..3 {
            for id in 0..60 {
                if round > 0 && numbers.below(3) == 0 {
                    continue;
                }
                let text = numbers.item(id);
                upsert(&h, &indexed, id, &text).await;
                upsert(&h, &plain, id, &text).await;
            }
            for id in (round..60).step_by(7) {
                for c in [&indexed, &plain] {
                    let delete = ItemOp::Delete { id: id.to_string().into(), if_match: None };
                    let _ = h.write(c, &(id % KEYS).to_string(), delete).await;
                }
            }
            audit(&h);
            compare(&h, &indexed, &plain, &mut numbers, metric).await;
        }
    }
}

async fn fill(h: &Harness, c: &Arc<Container>, count: usize, seed: u64) {
    let mut numbers = Numbers(seed);
    for id in 0..count {
        upsert(h, c, id, &numbers.item(id)).await;
    }
}

async fn split(h: &Harness, c: &Container) {
    let range = c.routing().ranges()[0].id;
    let how = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, range, SplitPoint::Midpoint, how)
        .await
        .expect("a split");
    finished(h, job.id).await;
}

async fn finished(h: &Harness, job: JobId) {
    assert_eq!(h.engine.finish_job(job).await.expect("the job").phase, JobPhase::Succeeded);
}

/// Waits until the entries fit the policy.
async fn rebuilt(
    h: &Harness,
    c: &Container,
    is_done: impl Fn(&Container) -> bool,
) -> Arc<Container> {
    loop {
        let now = h.engine.catalog().container_by_rid(c.rid).expect("the container").clone();
        if is_done(&now) && h.engine.index_progress(&now).expect("a percentage") == 100 {
            return now;
        }
        h.clock.advance(Duration::from_millis(50));
        tokio::task::yield_now().await;
    }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[tokio::test]
async fn entries_and_what_is_counted_of_them_follow_splits() {
    let h = Harness::in_memory();
    let metric = VectorMetric::Euclidean;
    let indexing = searched(metric, true);
    let c = h.container_with(ContainerSpec { indexing, ..spec("c") }, 1).await;
    fill(&h, &c, 60, 3).await;
    let mut numbers = Numbers(11);
    let asked = questions(&mut numbers);
    let mut before = Vec::new();
    for question in &asked {
        before.push(sorted(rows(&h, &c, question, metric, Scope::All).await));
    }
    split(&h, &c).await;
    audit(&h);
    let c = h.find("c");
    assert_eq!(c.routing().ranges().len(), 2);
    for (question, before) in asked.iter().zip(before) {
        // Items of different ranges have no common order of age.
        if !question.contains("TOP") && !question.contains("LIMIT") {
            assert_eq!(
                sorted(rows(&h, &c, question, metric, Scope::All).await),
                before,
                "{question}"
            );
        }
    }
    // Written while the range is split again.
    let range = c.routing().ranges()[0].id;
    let how = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, range, SplitPoint::Midpoint, how)
        .await
        .expect("a split");
    fill(&h, &c, 60, 5).await;
    finished(&h, job.id).await;
    audit(&h);
    let ids: Vec<_> = h.find("c").routing().ranges().iter().map(|range| range.id).collect();
    assert_eq!(ids.len(), 3);
    let job = h.engine.start_merge(&test_context(), c.rid, &ids, how).await.expect("a merge");
    fill(&h, &c, 30, 6).await;
    finished(&h, job.id).await;
    audit(&h);
}

#[tokio::test]
async fn a_new_policy_is_applied_to_texts_and_vectors_that_are_there() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let plain = h.container_with(plain_spec("plain"), 2).await;
    fill(&h, &c, 40, 3).await;
    fill(&h, &plain, 40, 3).await;
    let metric = VectorMetric::Cosine;
    let french = |mut policy: IndexingPolicy| {
        policy.texts[0].language = Language::French;
        policy
    };
    let policies = [
        searched(metric, true),
        french(searched(metric, true)),
        IndexingPolicy::default(),
        IndexingPolicy { vectors: Vec::new(), ..searched(metric, true) },
    ];
    for (round, indexing) in policies.into_iter().enumerate() {
        let spec = ContainerSpec { indexing, ..h.find("c").spec.clone() };
        let now = h
            .engine
            .replace_container(&test_context(), c.rid, spec, None)
            .await
            .expect("a new policy");
        // Queried and written while the rebuild is under way.
        fill(&h, &now, 40, 4 + round as u64).await;
        fill(&h, &plain, 40, 4 + round as u64).await;
        compare(&h, &now, &plain, &mut Numbers(5), metric).await;
        let now = rebuilt(&h, &c, |_| true).await;
        audit(&h);
        compare(&h, &now, &plain, &mut Numbers(6), metric).await;
    }
}

fn point(numbers: &mut Numbers, dimensions: usize) -> Vec<f64> {
    // Around some points, as embeddings of texts about some subjects are.
    let place = numbers.below(12);
    let mut around = Numbers(u64::from(place) + 1);
    (0..dimensions)
        .map(|_| {
            let centre = (f64::from(around.below(1000)) - 500.0) / 100.0;
            centre + f64::from(numbers.below(1000)) / 400.0
        })
        .collect()
}

fn vector_text(vector: &[f64]) -> String {
    json::to_string(&Value::Array(vector.iter().map(|n| Value::Double(*n)).collect()))
}

/// How many of the nearest ten are found, over some queries.
async fn recall(h: &Harness, c: &Arc<Container>, metric: VectorMetric) -> f64 {
    let mut numbers = Numbers(99);
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..20 {
        let vector = vector_text(&point(&mut numbers, 8));
        let ask = |is_exact: bool| {
            format!(
                "SELECT TOP 10 VALUE c.id FROM c ORDER BY VectorDistance(c.v, {vector}, {is_exact})"
            )
        };
        let exact = rows(h, c, &ask(true), metric, Scope::All).await;
        let near = rows(h, c, &ask(false), metric, Scope::All).await;
        assert_eq!(near.len(), 10);
        wanted += exact.len();
        found += near.iter().filter(|id| exact.contains(id)).count();
    }
    f64::from(u32::try_from(found).expect("few")) / f64::from(u32::try_from(wanted).expect("few"))
}

#[tokio::test]
async fn vectors_are_put_into_cells_and_stay_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || -> Arc<dyn LocalStore> {
        Arc::new(
            EmbeddedStore::open(dir.path(), EmbeddedOptions::new(engine::KEY_TAGS))
                .expect("a store"),
        )
    };
    let settings = || Settings { vectors_in_cells: 300, ..Settings::default() };
    for (name, metric) in [("cosine", VectorMetric::Cosine), ("far", VectorMetric::Euclidean)] {
        let h = Harness::with_settings(open(), settings());
        let vector = VectorIndex {
            path: vec!["v".to_owned()],
            dimensions: 8,
            metric,
            is_exact: false,
            cells: None,
        };
        let indexing = IndexingPolicy { vectors: vec![vector], ..IndexingPolicy::default() };
        let c = h.container_with(ContainerSpec { indexing, ..spec(name) }, 1).await;
        let mut numbers = Numbers(42);
        for id in 0..400 {
            let vector = vector_text(&point(&mut numbers, 8));
            let text = format!(r#"{{"id":"{id}","pk":"{}","v":{vector}}}"#, id % KEYS);
            upsert(&h, &c, id, &text).await;
        }
        let has_cells = |c: &Container| c.spec.indexing.vectors[0].cells.is_some();
        let c = rebuilt(&h, &c, has_cells).await;
        audit(&h);
        assert!(recall(&h, &c, metric).await >= 0.9);
        // A change of the policy that is not about vectors keeps the cells.
        let mut indexing = c.spec.indexing.clone();
        indexing.vectors[0].cells = None;
        indexing.texts = searched(metric, true).texts;
        let spec = ContainerSpec { indexing, ..c.spec.clone() };
        h.engine.replace_container(&test_context(), c.rid, spec, None).await.expect("a new policy");
        let c = rebuilt(&h, &c, has_cells).await;
        // New items are in cells from their commit on, and are found.
        let near = r#"{"id":"new","pk":"0","v":[9,9,9,9,9,9,9,9]}"#;
        upsert(&h, &c, 0, near).await;
        let ask = "SELECT TOP 1 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [9,9,9,9,9,9,9,9])";
        assert_eq!(rows(&h, &c, ask, metric, Scope::All).await, [r#""new""#]);
        split(&h, &c).await;
        audit(&h);
        h.engine.close().await.expect("the engine closes");
        drop(h);
        let h = Harness::with_settings(open(), settings());
        let c = h.find(name);
        assert!(has_cells(&c));
        audit(&h);
        assert_eq!(rows(&h, &c, ask, metric, Scope::All).await, [r#""new""#]);
        assert!(recall(&h, &c, metric).await >= 0.9);
        h.engine.close().await.expect("the engine closes");
    }
}

#[tokio::test]
async fn expired_items_are_neither_found_nor_counted() {
    let h = Harness::on(Arc::new(MemoryStore::new()));
    let metric = VectorMetric::Euclidean;
    let indexing = searched(metric, true);
    let spec = ContainerSpec { indexing, default_ttl: Some(-1), ..spec("c") };
    let c = h.container_with(spec, 1).await;
    for (id, ttl) in [(0, 10), (4, 1000), (8, 1000)] {
        let text = format!(
            r#"{{"id":"{id}","pk":"0","n":{id},"ttl":{ttl},"text":"red stone","v":[{id},0,0]}}"#
        );
        upsert(&h, &c, id, &text).await;
    }
    let asked = [
        ("SELECT VALUE c.n FROM c WHERE FullTextContains(c.text, 'red stone')", vec!["4", "8"]),
        ("SELECT VALUE COUNTIF(FullTextContains(c.text, 'red')) FROM c", vec!["2"]),
        ("SELECT TOP 1 VALUE c.n FROM c ORDER BY VectorDistance(c.v, [0, 0, 0])", vec!["4"]),
        (
            "SELECT TOP 2 VALUE c.n FROM c ORDER BY _FullTextScore(c.text, ['red'], 3, 6, [2]) DESC",
            vec!["4", "8"],
        ),
    ];
    h.clock.advance(Duration::from_secs(11));
    for (question, wanted) in asked {
        assert_eq!(rows(&h, &c, question, metric, Scope::All).await, wanted, "{question}");
    }
}

#[tokio::test]
async fn indexes_are_used() {
    let h = Harness::in_memory();
    let metric = VectorMetric::Euclidean;
    let indexing = searched(metric, true);
    let c = h.container_with(ContainerSpec { indexing, ..spec("c") }, 1).await;
    for id in 0..300 {
        let word = if id % 30 == 0 { "rare" } else { "usual" };
        let text = format!(
            r#"{{"id":"{id}","pk":"{}","text":"some {word} words","v":[{id},0,0]}}"#,
            id % KEYS
        );
        upsert(&h, &c, id, &text).await;
    }
    let score = r#"_FullTextScore(c.text, ["rare"], 300, 600, [10])"#;
    for (question, rows_max) in [
        ("SELECT * FROM c WHERE FullTextContains(c.text, 'rare')".to_owned(), 10),
        (
            "SELECT COUNT(1) AS n, SUM(_FullTextWordCount(c.text)) AS w, \
             COUNTIF(FullTextContains(c.text, 'usual')) AS u FROM c"
                .to_owned(),
            0,
        ),
        // Each row is read to be sorted, and again to be written.
        (format!("SELECT TOP 5 * FROM c ORDER BY {score} DESC"), 2 * 5),
        (format!("SELECT TOP 20 * FROM c ORDER BY {score} DESC"), 2 * 20),
        ("SELECT TOP 5 * FROM c ORDER BY VectorDistance(c.v, [7, 0, 0])".to_owned(), 2 * 5 + 16),
    ] {
        let plan = lang::nosql::compile_in(&environment(metric), &question, &[]).expect("a plan");
        let mut ctx = test_context();
        let request = PageRequest::default();
        let page = h.engine.query(&mut ctx, &c, plan, Scope::All, request).await.expect("a page");
        assert!(page.retrieved.rows <= rows_max, "{question}: {:?}", page.retrieved);
        assert!(!page.rows.is_empty(), "{question}");
    }
}
