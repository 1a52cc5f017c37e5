//! The time that replies carry, by which clients order what they do at several servers.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::components::Clock;
use engine::{CommitTime, Engine};
use model::{Object, Value};

use crate::MongoError;
use crate::document::{binary, document};

/// Seconds and, below them, the order within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClusterTime(u64);

const SECONDS_AT: u32 = 32;
/// ClusterTimeFailsRateLimiter.
const TOO_FAR_AHEAD: i32 = 209;
/// Bytes of a signature, which is not checked, as only servers that don't trust clients need it.
const SIGNATURE_BYTES: usize = 20;

impl ClusterTime {
    /// Its value in documents.
    pub(crate) fn to_value(self) -> Value {
        let seconds = u32::try_from(self.0 >> SECONDS_AT).unwrap_or(u32::MAX);
        let increment = u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Value::Timestamp { seconds, increment }
    }

    /// The time of a `$clusterTime`.
    fn of(document: &Object) -> Option<Self> {
        match document.get("clusterTime") {
            Some(Value::Timestamp { seconds, increment }) => {
                Some(Self((u64::from(*seconds) << SECONDS_AT) | u64::from(*increment)))
            }
            Some(_) | None => None,
        }
    }
}

/// A clock that never goes back and is never behind what a client has seen.
#[derive(Debug, Default)]
pub(crate) struct ClusterClock(AtomicU64);

impl ClusterClock {
    /// The time now.
    pub(crate) fn now(&self, clock: &dyn Clock) -> ClusterTime {
        let least = (clock.now().seconds() << SECONDS_AT) | 1;
        let before = self.0.fetch_max(least, Ordering::AcqRel);
        ClusterTime(before.max(least))
    }

    /// Goes on to the time of a commit.
    pub(crate) fn reach(&self, commit: CommitTime) {
        self.0.fetch_max(commit.0, Ordering::AcqRel);
    }

    /// Goes on to the time that a client has seen, and lets later commits have later times.
    pub(crate) fn advance(&self, seen: &Object, engine: &Engine) -> Result<(), MongoError> {
        let Some(seen) = ClusterTime::of(seen) else { return Ok(()) };
        if !engine.advance_commit_clock(CommitTime(seen.0)) {
            return Err(MongoError::new(
                TOO_FAR_AHEAD,
                "New cluster time is too far from this node's wall clock time.",
            ));
        }
        self.0.fetch_max(seen.0, Ordering::AcqRel);
        Ok(())
    }

    /// Adds the times to a reply.
    pub(crate) fn stamp(&self, operation: ClusterTime, clock: &dyn Clock, reply: &mut Object) {
        let signature = document! {
            "hash" => binary([0; SIGNATURE_BYTES]),
            "keyId" => 0i64,
        };
        let now = self.now(clock).max(operation);
        let cluster_time = document! { "clusterTime" => now.to_value(), "signature" => signature };
        reply.insert("operationTime", operation.to_value());
        reply.insert("$clusterTime", cluster_time.into());
    }
}

#[cfg(test)]
mod tests {
    use testkit::harness::Harness;

    use super::*;

    fn seen(seconds: u32, increment: u32) -> Object {
        document! { "clusterTime" => Value::Timestamp { seconds, increment } }
    }

    #[tokio::test]
    async fn time_goes_on_with_commits_and_with_what_clients_have_seen() {
        let harness = Harness::in_memory();
        let (time, clock, engine) = (ClusterClock::default(), &*harness.clock, &harness.engine);
        let first = time.now(clock);
        assert_eq!(time.now(clock), first);
        time.reach(CommitTime(first.0 + 3));
        assert_eq!(time.now(clock).0, first.0 + 3);
        let now = u32::try_from(clock.now().seconds()).unwrap();
        let ahead = Value::Timestamp { seconds: now + 50, increment: 7 };
        time.advance(&seen(now + 50, 7), engine).unwrap();
        assert_eq!(time.now(clock).to_value(), ahead);
        time.advance(&seen(1, 1), engine).unwrap();
        assert_eq!(time.now(clock).to_value(), ahead);
        assert!(time.advance(&seen(u32::MAX, 1), engine).is_err());
        time.advance(&Object::new(), engine).unwrap();
    }
}
