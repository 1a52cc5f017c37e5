//! What the log says of single operations: that one failed by the server's fault, or took long, and
//! which requests changed the catalog.

use std::fmt::Display;
use std::time::Duration;

use crate::catalog::Container;
use crate::{Engine, Error, RequestContext};

/// An operation that took this long is logged. Pages of a query that is gathered from many
/// partitions may take longer by their limits; they are worth a line, too.
const SLOW: Duration = Duration::from_secs(2);

/// An operation under way.
pub(crate) struct OperationTimer {
    operation: &'static str,
    started: Duration,
}

impl Engine {
    /// Starts to measure an operation, which the log knows under this name.
    pub(crate) fn time_operation(&self, operation: &'static str) -> OperationTimer {
        OperationTimer { operation, started: self.inner.components.clock.monotonic() }
    }

    /// Ends an operation, which failed with `failure` if there is one.
    pub(crate) fn end_operation(
        &self,
        timer: OperationTimer,
        ctx: &RequestContext,
        container: &Container,
        failure: Option<&Error>,
    ) {
        let OperationTimer { operation, started } = timer;
        let took = self.inner.components.clock.monotonic().saturating_sub(started);
        let RequestContext { caller, source, activity, served, .. } = ctx;
        let container = &container.spec.id;
        if let Some(error @ (Error::Storage(_) | Error::Internal(_))) = failure {
            tracing::error!(
                operation, container, %activity, ?caller, ?source, ?took, %error,
                "an operation failed"
            );
        } else if took >= SLOW {
            tracing::warn!(
                operation, container, %activity, ?caller, ?source, ?took, charge = %served.charge,
                "an operation took long"
            );
        }
    }

    /// Logs a change of the catalog, or of a split or merge, that a request made.
    pub(crate) fn log_change(
        &self,
        ctx: &RequestContext,
        operation: &'static str,
        subject: &(dyn Display + Sync),
    ) {
        let RequestContext { caller, source, activity, .. } = ctx;
        tracing::info!(operation, %subject, %activity, ?caller, ?source, "a change was made");
    }
}
