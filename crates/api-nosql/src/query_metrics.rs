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

/// The shortest time that the header's two digits show. What was done took at least this long:
/// clients take 0 for a phase that did not happen.
const STEP: Duration = Duration::from_micros(10);

/// A time as it is shown: in whole steps, and 0 only for what took none.
fn shown(took: Duration) -> Duration {
    let steps = (took + STEP / 2).as_micros() / STEP.as_micros();
    match steps {
        0 if !took.is_zero() => STEP,
        steps => STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)),
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
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
        let PageTimes { optimizing, choosing, system_functions, user_functions, .. } = self.page;
        let of_done = |is_done: bool, took: Duration| if is_done { took.max(STEP) } else { took };
        let index_lookup = shown(self.page.index_lookup);
        let loading = shown(of_done(self.retrieved.rows > 0, self.page.loading));
        let writing = shown(of_done(self.rows > 0, self.writing));
        // Clients subtract lookup, load and write times from this to get the remainder, which no
        // query does without.
        let remainder = self.page.total.saturating_sub(optimizing + choosing) + self.writing;
        let execution = shown(remainder).max(index_lookup + loading + writing + STEP);
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
            ms(shown(self.total).max(execution)),
            ms(shown(self.compiling.parsing).max(STEP)),
            ms(shown(self.compiling.lowering)),
            ms(shown(choosing)),
            ms(shown(optimizing)),
            ms(execution),
            ms(index_lookup),
            ms(loading),
            ms(shown(system_functions)),
            ms(shown(user_functions)),
            ms(writing),
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
        let quick = Metrics {
            total: us(3),
            compiling: CompileTimes::default(),
            page: PageTimes { total: us(2), loading: us(1), ..PageTimes::default() },
            writing: Duration::ZERO,
            ..metrics
        };
        let text = quick.to_text();
        for at_least in [
            "totalExecutionTimeInMs=0.03",
            "queryCompileTimeInMs=0.01",
            "VMExecutionTimeInMs=0.03",
            "indexLookupTimeInMs=0.00",
            "documentLoadTimeInMs=0.01",
            "writeOutputTimeInMs=0.01",
        ] {
            assert!(text.split(';').any(|member| member == at_least), "{at_least} in {text}");
        }
        let nothing_read = Metrics { retrieved: Retrieved::default(), ..metrics };
        assert!(nothing_read.to_text().ends_with("indexUtilizationRatio=1.00"));
    }
}
