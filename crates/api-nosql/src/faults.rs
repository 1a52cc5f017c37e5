//! Fault injection, so that tests can see how clients handle failures.

use std::time::Duration;

use engine::ops::Scope;
use engine::{Container, RangeId};
use model::epk;

use crate::operation::Operation;
use crate::request::Request;
use crate::scope;

/// A request that a fault may match.
pub struct FaultSubject<'r> {
    /// Its operation.
    pub operation: Operation,
    /// The container that it addresses.
    pub container: Option<&'r Container>,
    /// None if the admin API makes the request.
    request: Option<&'r Request>,
}

/// The response that a request gets instead of being carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedAnswer {
    /// HTTP status, 400 or above.
    pub status: u16,
    /// `x-ms-substatus`; 0 = none.
    pub substatus: u32,
    /// `x-ms-retry-after-ms`.
    pub retry_after: Option<Duration>,
}

/// Decides which requests fail. Called once for every request that has passed authentication.
pub trait FaultInjector: Send + Sync {
    /// The answer that `request` gets instead of being carried out, if any.
    fn answer_instead(&self, request: &FaultSubject<'_>) -> Option<InjectedAnswer>;
}

impl<'r> FaultSubject<'r> {
    pub(crate) fn new(
        request: &'r Request,
        operation: Operation,
        container: Option<&'r Container>,
    ) -> Self {
        Self { operation, container, request: Some(request) }
    }

    /// The subject of an admin request for a whole container, or for none.
    pub(crate) fn of_process(operation: Operation, container: Option<&'r Container>) -> Self {
        Self { operation, container, request: None }
    }

    /// Whether the request reads or writes a range of its container. A request that does not name a
    /// range touches all of them.
    pub fn touches(&self, range: RangeId) -> bool {
        let Some(container) = self.container else { return false };
        let routing = container.routing();
        let Some(live) = routing.by_id(range) else { return false };
        let Some(request) = self.request else { return true };
        match scope::of(container, request) {
            Ok(Scope::All) => true,
            Ok(Scope::Range { id, .. }) => id == range,
            Ok(Scope::Epk(epk_range)) => live.epk.intersect(&epk_range).is_some(),
            Ok(Scope::Key(key)) => {
                let definition = &container.spec.partition_key;
                live.epk.contains(&epk::effective_partition_key(definition, &key))
            }
            // The handler will refuse the request as invalid.
            Err(_) => false,
        }
    }
}
