//! What a query did, for clients that ask: times and counts.

use std::time::Duration;

use engine::ops::Retrieved;

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
}
