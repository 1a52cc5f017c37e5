//! The cost of searches: the nearest vectors by cells compared with a scan of all vectors, and the
//! best texts for two words. The data are sentences and their embeddings (`search/make_data.py`).

pub mod data;
pub mod report;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use testkit::server::{ServerBuilder, TestServer};

use crate::client::Connection;
use crate::process;
use crate::request::{Account, Draft};
use crate::server::account_of;
use data::{Corpus, DIMENSIONS};
use report::{QueryTimes, Report};

/// Connections that load.
const LOADERS: usize = 8;
/// Items that are created with one request.
const BATCH: usize = 50;
/// How long an index rebuild may take.
const REBUILD_MAX: Duration = Duration::from_secs(1200);
const SETTLE: Duration = Duration::from_secs(60);
/// Number of requested results.
const TOP: usize = 10;
const VECTORS: &str = "dbs/search/colls/vectors";
const TEXTS: &str = "dbs/search/colls/texts";

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to measure.
    pub binary: PathBuf,
    /// Directory with the sentences and embeddings.
    pub cache: PathBuf,
    /// Directory for the server's data, removed afterwards.
    pub scratch: PathBuf,
    /// How many items there are.
    pub items: usize,
    /// How many vectors and pairs of words are searched for.
    pub questions: usize,
}

/// Measures everything. Server and data are removed when it returns.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let corpus = Arc::new(Corpus::read(&options.cache, options.items)?);
    let scratch = tempfile::tempdir_in(&options.scratch)?;
    let builder = ServerBuilder::new(&options.binary).data_dir(scratch.path().join("data"));
    let server = builder.args(["--throttling", "off"]).start()?;
    let bench = Bench { account: account_of(&server)?, server, corpus };
    let database = Draft::feed("POST", "", "dbs").body(r#"{"id":"search"}"#);
    bench.account.expect(&database, &[201]).await?;
    let mut report = Report { items: options.items, ..Report::default() };
    bench.vectors(options.questions, &mut report).await?;
    bench.texts(options.questions, &mut report).await?;
    report.resident_bytes = process::resident_bytes(bench.server.pid())?;
    Ok(report)
}

struct Bench {
    server: TestServer,
    account: Account,
    corpus: Arc<Corpus>,
}

impl Bench {
    async fn vectors(&self, questions: usize, report: &mut Report) -> anyhow::Result<()> {
        let description = json!({
            "id": "vectors",
            "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
            "vectorEmbeddingPolicy": {"vectorEmbeddings": [{
                "path": "/v", "dataType": "float32", "distanceFunction": "cosine",
                "dimensions": DIMENSIONS,
            }]},
            "indexingPolicy": {
                "includedPaths": [{"path": "/*"}],
                "excludedPaths": [{"path": "/v/*"}],
                "vectorIndexes": [{"path": "/v", "type": "diskANN"}],
            },
        });
        let begin = Instant::now();
        self.load("vectors", &description, Corpus::item_with_vector).await?;
        report.vectors_load_seconds = begin.elapsed().as_secs_f64();
        self.rebuilt().await?;
        report.vectors_ready_seconds = begin.elapsed().as_secs_f64();
        process::settle(self.server.pid(), SETTLE).await?;
        let vectors: Vec<String> =
            (0..questions).filter_map(|at| self.corpus.question(at)).collect();
        let ask = |vector: &String, is_exhaustive: bool| {
            let text = format!(
                "SELECT TOP {TOP} c.id, VectorDistance(c.v, @v) AS s FROM c \
                 ORDER BY VectorDistance(c.v, @v, {is_exhaustive})"
            );
            query(VECTORS, &text, &format!(r#"[{{"name":"@v","value":{vector}}}]"#))
        };
        let near: Vec<_> = vectors.iter().map(|vector| vec![ask(vector, false)]).collect();
        let flat: Vec<_> = vectors.iter().map(|vector| vec![ask(vector, true)]).collect();
        // The first reads come from disk.
        self.measure(&near[..near.len().min(20)]).await?;
        let (by_cells, found) = self.measure(&near).await?;
        self.measure(&flat[..flat.len().min(2)]).await?;
        let (by_all, wanted) = self.measure(&flat).await?;
        let hits: usize = found.iter().zip(&wanted).map(|(a, b)| common(a, b)).sum();
        report.recall = hits as f64 / (TOP * vectors.len()).max(1) as f64;
        (report.by_cells, report.by_all) = (by_cells, by_all);
        Ok(())
    }

    async fn texts(&self, questions: usize, report: &mut Report) -> anyhow::Result<()> {
        let description = json!({
            "id": "texts",
            "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
            "fullTextPolicy": {
                "defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text"}],
            },
            "indexingPolicy": {
                "includedPaths": [{"path": "/*"}],
                "excludedPaths": [{"path": "/text/?"}],
                "fullTextIndexes": [{"path": "/text"}],
            },
        });
        self.load("texts", &description, Corpus::item).await?;
        process::settle(self.server.pid(), SETTLE).await?;
        let words = self.usual_words().await?;
        ensure!(words.len() >= 2, "there are no words in about 1% of the sentences");
        report.words = words.clone();
        let mut asked = Vec::new();
        for at in 0..questions {
            let (a, b) = (at % words.len(), (at * 7 + at / words.len() + 1) % words.len());
            if a != b {
                asked.push(self.ranking(&words[a], &words[b]).await?);
            }
        }
        self.measure(&asked[..asked.len().min(20)]).await?;
        let (ranked, _) = self.measure(&asked).await?;
        report.ranked = ranked;
        Ok(())
    }

    /// The requests that a client sends to rank texts by two words: a query for statistics, then
    /// one for the best rows.
    async fn ranking(&self, a: &str, b: &str) -> anyhow::Result<Vec<Draft<'static>>> {
        let text = format!(
            "SELECT TOP {TOP} c.id FROM c ORDER BY RANK FullTextScore(c.text, '{a}', '{b}')"
        );
        let plan = Draft::feed("POST", TEXTS, "docs")
            .header("Content-Type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-cosmos-is-query-plan-request", "True")
            .header("x-ms-cosmos-supported-query-features", "HybridSearch")
            .body(json!({"query": text}).to_string());
        let plan = self.account.expect(&plan, &[200]).await?.json()?;
        let plan = &plan["hybridSearchQueryInfo"];
        let statistics = plan["globalStatisticsQuery"].as_str().context("no statistics")?;
        let statistics = query(TEXTS, statistics, "[]");
        let counted = self.account.expect(&statistics, &[200]).await?.json()?;
        let counted = &counted["Documents"][0];
        let of_text = &counted["fullTextStatistics"][0];
        let place = |name: &str| format!("{{documentdb-formattablehybridsearchquery-{name}}}");
        let best = plan["componentQueryInfos"][0]["rewrittenQuery"].as_str().context("no query")?;
        let best = best
            .replace(&place("totaldocumentcount"), &counted["documentCount"].to_string())
            .replace(&place("totalwordcount-0"), &of_text["totalWordCount"].to_string())
            .replace(&place("hitcountsarray-0"), &of_text["hitCounts"].to_string())
            .replace("{documentdb-formattableorderbyquery-filter}", "true");
        Ok(vec![statistics, query(TEXTS, &best, "[]")])
    }

    /// Words that about 1% of the sentences have.
    async fn usual_words(&self) -> anyhow::Result<Vec<String>> {
        let mut usual = Vec::new();
        for word in self.corpus.words_in_about(0.01) {
            let text =
                format!("SELECT VALUE COUNT(1) FROM c WHERE FullTextContains(c.text, '{word}')");
            let counted = self.account.expect(&query(TEXTS, &text, "[]"), &[200]).await?.json()?;
            let count = counted["Documents"][0].as_u64().unwrap_or(0) as f64;
            let part = count / self.corpus.len() as f64;
            if (0.008..0.013).contains(&part) {
                usual.push(word);
            }
        }
        Ok(usual)
    }

    /// Sends the requests of each search in order, and returns the ids of the last response's rows.
    async fn measure(
        &self,
        questions: &[Vec<Draft<'static>>],
    ) -> anyhow::Result<(QueryTimes, Vec<BTreeSet<String>>)> {
        let mut connection = Connection::open(self.account.address).await?;
        let (mut answers, mut times) = (Vec::new(), Vec::new());
        let before = process::cpu_time(self.server.pid())?;
        for question in questions {
            let begin = Instant::now();
            let mut rows = Value::Null;
            for draft in question {
                let reply = self.account.send_on(&mut connection, draft).await?;
                ensure!(reply.status == 200, "a query answered {}", reply.text());
                rows = reply.json()?["Documents"].take();
            }
            times.push(begin.elapsed().as_secs_f64() * 1000.0);
            let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
            let id = |row: &Value| Some(row["id"].as_str()?.to_owned());
            answers.push(rows.iter().filter_map(id).collect());
        }
        let spent = process::cpu_time(self.server.pid())? - before;
        Ok((QueryTimes::new(times, spent), answers))
    }

    /// Creates a container and loads it.
    async fn load(
        &self,
        id: &'static str,
        description: &Value,
        item: fn(&Corpus, usize) -> String,
    ) -> anyhow::Result<()> {
        let container = Draft::feed("POST", "dbs/search", "colls").body(description.to_string());
        self.account.expect(&container, &[201]).await?;
        let next = Arc::new(AtomicUsize::new(0));
        let loaders: Vec<_> = (0..LOADERS)
            .map(|_| {
                let (next, account) = (Arc::clone(&next), self.account.clone());
                let corpus = Arc::clone(&self.corpus);
                tokio::spawn(async move {
                    let mut connection = Connection::open(account.address).await?;
                    let link = format!("dbs/search/colls/{id}");
                    loop {
                        let first = next.fetch_add(BATCH, Ordering::Relaxed);
                        if first >= corpus.len() {
                            return anyhow::Ok(());
                        }
                        let numbers = first..(first + BATCH).min(corpus.len());
                        let create = |at: usize| {
                            let body = item(&corpus, at);
                            format!(r#"{{"operationType":"Create","resourceBody":{body}}}"#)
                        };
                        let operations: Vec<_> = numbers.map(create).collect();
                        let draft = Draft::feed("POST", &link, "docs")
                            .batch()
                            .key(&data::key_of(first))
                            .body(format!("[{}]", operations.join(",")));
                        let reply = account.send_on(&mut connection, &draft).await?;
                        ensure!(reply.status == 200, "loading answered {}", reply.text());
                    }
                })
            })
            .collect();
        for loader in loaders {
            loader.await??;
        }
        Ok(())
    }

    /// Waits until vectors are assigned to cells.
    async fn rebuilt(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + REBUILD_MAX;
        let mut was_under_way = false;
        loop {
            let read = Draft::one("GET", "dbs/search", "colls", "vectors")
                .header("x-ms-documentdb-populatequotainfo", "True");
            let reply = self.account.expect(&read, &[200]).await?;
            let progress = reply.header("x-ms-documentdb-collection-index-transformation-progress");
            match progress {
                Some("100") if was_under_way => return Ok(()),
                Some("100") => {}
                _ => was_under_way = true,
            }
            ensure!(Instant::now() < deadline, "vectors were not put into cells in time");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn query(link: &str, text: &str, parameters: &str) -> Draft<'static> {
    let body = format!(r#"{{"query":{},"parameters":{parameters}}}"#, json!(text));
    Draft::feed("POST", link, "docs")
        .header("Content-Type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-max-item-count", "1000")
        .header("x-ms-documentdb-partitionkeyrangeid", "0")
        .body(body)
}

fn common(a: &BTreeSet<String>, b: &BTreeSet<String>) -> usize {
    a.intersection(b).count()
}
