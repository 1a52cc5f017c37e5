//! What travels with every request, and what the engine reports back whatever the outcome.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use model::{Charge, Lsn};

use crate::RangeId;
use crate::cancellation::{Cancellation, StopSignal};
use crate::item::{NoSystemProperties, SystemProperties};

/// What the caller supplies besides the operation itself, and where the engine notes what serving
/// it took. Filled in on success *and* on failure, because replies carry it in both cases.
///
/// Dropping it cancels what is done for the request, except writes that the committer has received.
#[derive(Debug)]
pub struct RequestContext {
    /// On whose behalf the request is made.
    pub caller: Caller,
    /// By which interface it came in.
    pub source: Source,
    /// The id by which the client and the log know it.
    pub activity: Arc<str>,
    /// When the caller stops waiting, by [`Clock::monotonic`](crate::components::Clock); `None` if
    /// only the engine's own time limits apply. What can be continued ends there, what can't fails.
    pub deadline: Option<Duration>,
    /// Cancels work that other threads do for it.
    pub cancellation: Cancellation,
    /// Per range: the position the caller has already seen. Reads must not be older.
    pub session: Vec<(RangeId, Lsn)>,
    /// How it is admitted where throughput is short.
    pub admission: Admission,
    /// The properties that its API shows beside those of items.
    pub system: &'static dyn SystemProperties,
    /// What it took.
    pub served: Served,
}

impl RequestContext {
    /// The context of a request. The front end that makes one has checked that the caller may make
    /// the request: the engine checks no rights.
    pub fn new(caller: Caller, source: Source, activity: impl Into<Arc<str>>) -> Self {
        Self {
            caller,
            source,
            activity: activity.into(),
            deadline: None,
            cancellation: Cancellation::default(),
            session: Vec::new(),
            admission: Admission::default(),
            system: &NoSystemProperties,
            served: Served::default(),
        }
    }

    /// A context for one part of the request, which counts what it takes by itself.
    pub fn part(&self) -> Self {
        Self {
            caller: self.caller.clone(),
            source: self.source,
            activity: Arc::clone(&self.activity),
            deadline: self.deadline,
            cancellation: Cancellation::default(),
            session: self.session.clone(),
            admission: self.admission,
            system: self.system,
            served: Served::default(),
        }
    }

    /// What work on other threads needs of it.
    pub(crate) fn work(&mut self) -> WorkContext {
        WorkContext { admission: self.admission, system: self.system, stop: self.stop_signal() }
    }

    /// Tells work on other threads when to stop.
    pub(crate) fn stop_signal(&mut self) -> StopSignal {
        StopSignal::new(self.deadline, &mut self.cancellation)
    }
}

/// What work on other threads needs of the context of its request.
#[derive(Clone, Debug)]
pub(crate) struct WorkContext {
    pub(crate) admission: Admission,
    pub(crate) system: &'static dyn SystemProperties,
    pub(crate) stop: StopSignal,
}

/// On whose behalf a request is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A client with a key of the account.
    KeyHolder,
    /// A client with a token or signature that grants some rights. The text says which it is.
    Grantee(Arc<str>),
    /// A principal of the directory, by its id.
    Principal(Arc<str>),
    /// The operator of the server.
    Operator,
}

/// The interface by which a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The NoSQL API.
    NoSql,
    /// The Table API.
    Table,
    /// The MongoDB API.
    Mongo,
    /// The admin API, or a tool that has the engine in its own process.
    Admin,
}

/// How a request is admitted where throughput is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Its priority.
    pub priority: Priority,
    /// Identifies a request that is sent again, so that it finds the position in the queue that it
    /// was given. Requests with the same digest are interchangeable; 0 is one of the digests.
    pub digest: u64,
    /// Whether throughput limits it only where a client requested throughput.
    pub is_free_by_default: bool,
    /// Whether a refusal does not reach the client, so that no wait is promised; for the engine's
    /// own use.
    pub is_silent: bool,
    /// The shortest wait that a refusal tells.
    pub wait_min: Duration,
}

impl Admission {
    /// The digest of a request that consists of these texts. Of a long text only the ends count.
    pub fn digest_of(texts: &[&[u8]]) -> u64 {
        const END: usize = 512;
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        for text in texts {
            hasher.write_usize(text.len());
            match text.len() <= 2 * END {
                true => hasher.write(text),
                false => {
                    hasher.write(&text[..END]);
                    hasher.write(&text[text.len() - END..]);
                }
            }
        }
        hasher.finish()
    }

    /// For a part of the request with a digest of its own.
    pub(crate) fn of_part(self, texts: &[&[u8]]) -> Self {
        Self { digest: Self::digest_of(texts), ..self }
    }

    /// Without a position in the queue: the client receives what there is, and comes again for the
    /// rest.
    pub(crate) fn silent(self) -> Self {
        Self { is_silent: true, ..self }
    }
}

/// Which requests go first when throughput is short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Served as long as there is anything left.
    #[default]
    High,
    /// Served only while more than a fifth of a second's throughput is left.
    Low,
}

/// What serving a request took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Request units used.
    pub charge: Charge,
    /// The ranges touched, with the position of each.
    pub ranges: Vec<(RangeId, Lsn)>,
    /// Position of the last change to the item read or written, if there was one.
    pub item_lsn: Option<Lsn>,
}

impl Served {
    /// Notes that what was requested of `requested` happened in `range`, now at `lsn`. They differ
    /// after a split or merge in between.
    pub(crate) fn touch_instead(&mut self, requested: RangeId, range: RangeId, lsn: Lsn) {
        if requested != range {
            self.ranges.retain(|(r, _)| *r != requested);
        }
        self.touch(range, lsn);
    }

    /// Notes that `range`, now at `lsn`, took part.
    pub(crate) fn touch(&mut self, range: RangeId, lsn: Lsn) {
        match self.ranges.iter_mut().find(|(r, _)| *r == range) {
            Some((_, seen)) => *seen = lsn.max(*seen),
            None => self.ranges.push((range, lsn)),
        }
    }
}
