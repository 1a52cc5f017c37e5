//! Failing on purpose, so that tests can see what clients make of it.

use std::time::Duration;

use engine::ops::Scope;
use engine::{Container, RangeId};
use model::epk;

use crate::observe::Operation;
use crate::request::Request;
use crate::scope;

/// A request that may be made to fail.
pub struct FaultSubject<'r> {
    /// What it asks for.
    pub operation: Operation,
    /// The container it is about.
    pub container: Option<&'r Container>,
    /// None where the process itself asks, for people.
    request: Option<&'r Request>,
}

/// What a request is answered with instead of being carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedAnswer {
    /// HTTP status, 400 or above.
    pub status: u16,
    /// `x-ms-substatus`; 0 = none.
    pub substatus: u32,
    /// `x-ms-retry-after-ms`.
    pub retry_after: Option<Duration>,
}

/// Decides which requests fail. Asked once for every request that has passed authentication.
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

    /// What the process does itself to a whole container, or to none.
    pub(crate) fn of_process(operation: Operation, container: Option<&'r Container>) -> Self {
        Self { operation, container, request: None }
    }

    /// Whether the request needs a range of its container. One that does not say which it needs
    /// needs all.
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
            // It will be refused for what is wrong with it.
            Err(_) => false,
        }
    }
}
