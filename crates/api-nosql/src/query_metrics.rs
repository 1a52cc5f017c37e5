//! What a query did, as times and counts, if the client asked for query metrics.

use std::time::Duration;

use engine::ops::{PageTimes, Retrieved};

/// The values of `x-ms-documentdb-query-metrics`.
pub(crate) struct Metrics {
    /// From the request to its response.
    pub total: Duration,
    pub compiling: CompileTimes,
    pub page: PageTimes,
    /// Time to write rows into the response body.
    pub writing: Duration,
    pub retrieved: Retrieved,
    pub rows: usize,
    pub rows_bytes: usize,
}

/// How long parsing and planning took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompileTimes {
    /// Time to parse the text.
    pub parsing: Duration,
    /// Time to lower the syntax tree to a plan.
    pub lowering: Duration,
}

impl Metrics {
    pub(crate) fn to_text(&self) -> String {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let PageTimes { optimizing, choosing, index_lookup, loading, .. } = self.page;
        let PageTimes { system_functions, user_functions, .. } = self.page;
        // Clients subtract lookup, load and write times from this to get the remainder.
        let execution = self.page.total.saturating_sub(optimizing + choosing) + self.writing;
        let (rows, bytes) = (self.rows, self.rows_bytes);
        let Retrieved { rows: seen, bytes: bytes_seen } = self.retrieved;
        let utilization = self.index_utilization();
        format!(
            "totalExecutionTimeInMs={:.2};queryCompileTimeInMs={:.2};\
             queryLogicalPlanBuildTimeInMs={:.2};queryPhysicalPlanBuildTimeInMs={:.2};\
             queryOptimizationTimeInMs={:.2};VMExecutionTimeInMs={:.2};\
             indexLookupTimeInMs={:.2};instructionCount=0;documentLoadTimeInMs={:.2};\
             systemFunctionExecuteTimeInMs={:.2};userFunctionExecuteTimeInMs={:.2};\
             retrievedDocumentCount={seen};retrievedDocumentSize={bytes_seen};\
             outputDocumentCount={rows};outputDocumentSize={bytes};writeOutputTimeInMs={:.2};\
             indexUtilizationRatio={utilization:.2}",
            ms(self.total),
            ms(self.compiling.parsing),
            ms(self.compiling.lowering),
            ms(choosing),
            ms(optimizing),
            ms(execution),
            ms(index_lookup),
            ms(loading),
            ms(system_functions),
            ms(user_functions),
            ms(self.writing),
        )
    }

    /// The fraction of the read items that was needed: 1 if none had to be read.
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
        let us = Duration::from_micros;
        let metrics = Metrics {
            total: us(1_400),
            compiling: CompileTimes { parsing: us(50), lowering: us(60) },
            page: PageTimes {
                total: us(900),
                optimizing: us(70),
                choosing: us(80),
                index_lookup: us(110),
                loading: us(120),
                system_functions: us(130),
                user_functions: us(140),
            },
            writing: us(150),
            retrieved: Retrieved { rows: 6, bytes: 2100 },
            rows: 3,
            rows_bytes: 900,
        };
        let text = metrics.to_text();
        assert_eq!(
            text.split(';').collect::<Vec<_>>(),
            [
                "totalExecutionTimeInMs=1.40",
                "queryCompileTimeInMs=0.05",
                "queryLogicalPlanBuildTimeInMs=0.06",
                "queryPhysicalPlanBuildTimeInMs=0.08",
                "queryOptimizationTimeInMs=0.07",
                "VMExecutionTimeInMs=0.90",
                "indexLookupTimeInMs=0.11",
                "instructionCount=0",
                "documentLoadTimeInMs=0.12",
                "systemFunctionExecuteTimeInMs=0.13",
                "userFunctionExecuteTimeInMs=0.14",
                "retrievedDocumentCount=6",
                "retrievedDocumentSize=2100",
                "outputDocumentCount=3",
                "outputDocumentSize=900",
                "writeOutputTimeInMs=0.15",
                "indexUtilizationRatio=0.50",
            ]
        );
        let nothing_read = Metrics { retrieved: Retrieved::default(), ..metrics };
        assert!(nothing_read.to_text().ends_with("indexUtilizationRatio=1.00"));
    }
}
