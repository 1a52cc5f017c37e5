//! What a query did, for clients that ask: times and counts, and the indexes it used.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::Container;
use engine::ops::{Retrieved, Scope};
use hyper::header::HeaderName;
use model::{Object, Value, json};
use percent_encoding::NON_ALPHANUMERIC;

use crate::reply::Reply;
use crate::request::Request;

const POPULATE_INDEX_METRICS: HeaderName =
    HeaderName::from_static("x-ms-cosmos-populateindexmetrics");
const POPULATE_INDEX_METRICS_V2: HeaderName =
    HeaderName::from_static("x-ms-cosmos-populateindexmetrics-v2");
const INDEX_UTILIZATION: HeaderName = HeaderName::from_static("x-ms-cosmos-index-utilization");

/// What `x-ms-documentdb-query-metrics` tells.
pub(crate) struct Metrics {
    pub compile: Duration,
    pub total: Duration,
    pub retrieved: Retrieved,
    pub rows: usize,
    pub rows_bytes: usize,
}

impl Metrics {
    pub(crate) fn to_text(&self) -> String {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let (total, compile) = (ms(self.total), ms(self.compile));
        let execution = ms(self.total.saturating_sub(self.compile));
        let (rows, bytes) = (self.rows, self.rows_bytes);
        let Retrieved { rows: seen, bytes: bytes_seen } = self.retrieved;
        let utilization = self.index_utilization();
        format!(
            "totalExecutionTimeInMs={total:.2};queryCompileTimeInMs={compile:.2};\
             queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;\
             queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs={execution:.2};\
             indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;\
             systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;\
             retrievedDocumentCount={seen};retrievedDocumentSize={bytes_seen};\
             outputDocumentCount={rows};outputDocumentSize={bytes};writeOutputTimeInMs=0.00;\
             indexUtilizationRatio={utilization:.2}"
        )
    }

    /// How much of what was read was needed: all of it, if nothing had to be read.
    fn index_utilization(&self) -> f64 {
        match self.retrieved.rows {
            0 => 1.0,
            read => (self.rows as f64 / read as f64).min(1.0),
        }
    }
}

/// The indexes that a query used.
pub(crate) struct IndexMetrics {
    /// Paths of the partition key, by which a query within one key finds its items.
    key_paths: Vec<String>,
}

impl IndexMetrics {
    pub(crate) fn of(container: &Container, scope: &Scope) -> Self {
        let paths = &container.spec.partition_key.paths;
        let used = match scope {
            Scope::Key(key) => key.0.len().min(paths.len()),
            Scope::All | Scope::Range { .. } | Scope::Epk(_) => 0,
        };
        Self { key_paths: paths.iter().take(used).map(|path| format!("{path}/?")).collect() }
    }

    /// Adds them if they are asked for: in base64 or percent-encoded, depending on which header
    /// asks.
    pub(crate) fn add_to(&self, reply: Reply, request: &Request) -> Reply {
        if request.flag(&POPULATE_INDEX_METRICS) {
            reply.header(INDEX_UTILIZATION, &STANDARD.encode(json::to_string(&self.first_form())))
        } else if request.flag(&POPULATE_INDEX_METRICS_V2) {
            let text = json::to_string(&self.second_form());
            let text = percent_encoding::utf8_percent_encode(&text, NON_ALPHANUMERIC);
            reply.header(INDEX_UTILIZATION, &text.to_string())
        } else {
            reply
        }
    }

    fn first_form(&self) -> Value {
        let index = |path: &String| {
            object([
                ("FilterExpression", "".into()),
                ("IndexSpec", path.as_str().into()),
                ("FilterPreciseSet", true.into()),
                ("IndexPreciseSet", true.into()),
                ("IndexImpactScore", "High".into()),
            ])
        };
        object([
            ("UtilizedSingleIndexes", self.key_paths.iter().map(index).collect::<Vec<_>>().into()),
            ("PotentialSingleIndexes", Vec::new().into()),
            ("UtilizedCompositeIndexes", Vec::new().into()),
            ("PotentialCompositeIndexes", Vec::new().into()),
        ])
    }

    fn second_form(&self) -> Value {
        let index = |path: &String| {
            object([("IndexSpec", path.as_str().into()), ("IndexImpactScore", "High".into())])
        };
        let used = self.key_paths.iter().map(index).collect::<Vec<_>>();
        let indexes = |single: Vec<Value>| {
            object([("SingleIndexes", single.into()), ("CompositeIndexes", Vec::new().into())])
        };
        object([("Utilized", indexes(used)), ("Potential", indexes(Vec::new()))])
    }
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect::<Object>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_every_member_clients_read() {
        let metrics = Metrics {
            compile: Duration::from_micros(50),
            total: Duration::from_micros(430),
            retrieved: Retrieved { rows: 6, bytes: 2100 },
            rows: 3,
            rows_bytes: 900,
        };
        let text = metrics.to_text();
        assert!(
            text.starts_with("totalExecutionTimeInMs=0.43;queryCompileTimeInMs=0.05;"),
            "{text}"
        );
        assert!(text.contains("VMExecutionTimeInMs=0.38;"));
        assert!(text.contains("retrievedDocumentCount=6;retrievedDocumentSize=2100;"));
        assert!(text.contains("outputDocumentCount=3;outputDocumentSize=900;"));
        assert!(text.ends_with("indexUtilizationRatio=0.50"), "{text}");
        assert_eq!(text.split(';').count(), 17);
        assert!(text.split(';').all(|entry| {
            entry.split_once('=').is_some_and(|(_, number)| number.parse::<f64>().is_ok())
        }));
        let nothing_read = Metrics { retrieved: Retrieved::default(), ..metrics };
        assert!(nothing_read.to_text().ends_with("indexUtilizationRatio=1.00"));
    }

    #[test]
    fn a_key_is_an_index_that_is_used() {
        let metrics = IndexMetrics { key_paths: vec!["/pk/?".to_owned()] };
        assert!(
            json::to_string(&metrics.first_form())
                .contains(r#"{"FilterExpression":"","IndexSpec":"/pk/?","FilterPreciseSet":true,"#)
        );
        assert_eq!(
            json::to_string(&metrics.second_form()),
            r#"{"Utilized":{"SingleIndexes":[{"IndexSpec":"/pk/?","IndexImpactScore":"High"}],"CompositeIndexes":[]},"Potential":{"SingleIndexes":[],"CompositeIndexes":[]}}"#
        );
    }
}
