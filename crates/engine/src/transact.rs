//! A script, or other slow code, as one transaction that is run again after conflicts.

use std::hash::BuildHasher;
use std::sync::Arc;

use model::PartitionKey;
use tokio::sync::{Mutex, MutexGuard};

use crate::catalog::Container;
use crate::transaction::{Committed, Transaction};
use crate::{Engine, Error, RequestContext};

/// Most runs of the code when it conflicts with concurrent writes.
const ATTEMPTS_MAX: usize = 10;
/// Number of locks that logical partitions share. Conflicting transactions of partitions with the
/// same lock run one after the other.
const LOCKS: usize = 64;

/// Serialises transactions that conflicted with each other.
pub(crate) struct ConflictLocks([Mutex<()>; LOCKS]);

impl Default for ConflictLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl ConflictLocks {
    async fn wait(&self, container: &Container, key: &PartitionKey) -> MutexGuard<'_, ()> {
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        let hash = foldhash::fast::FixedState::default().hash_one((container.rid, bytes));
        let at = usize::try_from(hash % LOCKS as u64).unwrap_or_default();
        self.0[at].lock().await
    }
}

impl Engine {
    /// Carries out one transaction on the logical partition `key`.
    ///
    /// `prepare` receives the transaction and makes the work, which runs on a thread for scripts
    /// and gives the transaction back with its result. If that is `Ok`, the transaction is
    /// committed. If a concurrent write changed what it had read, all happens again; after too many
    /// attempts the result is [`Error::Overtaken`], and after the deadline of the request
    /// [`Error::DeadlinePassed`]. Code that takes long looks at [`Transaction::stop_signal`].
    pub async fn transact<T, E, W>(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: &PartitionKey,
        prepare: impl Fn(Transaction) -> W,
    ) -> Result<(T, Committed), E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        W: FnOnce() -> (Transaction, Result<T, E>) + Send + 'static,
    {
        let timer = self.time_operation("transact");
        let clock = Arc::clone(&self.inner.components.clock);
        let stop = ctx.stop_signal();
        let mut lock_guard = None;
        for _ in 0..ATTEMPTS_MAX {
            stop.check(clock.monotonic())?;
            let work = prepare(self.begin(ctx, container, key)?);
            let (clock, stop) = (Arc::clone(&clock), stop.clone());
            let (transaction, done) = self
                .run_script(move || {
                    let (mut transaction, done) = work();
                    let checked = |transaction: &mut Transaction| {
                        stop.check(clock.monotonic())?;
                        transaction.check()
                    };
                    let done = done.map(|done| (done, checked(&mut transaction)));
                    (transaction, done)
                })
                .await?;
            let (done, checked) = match done {
                Ok(done) => done,
                Err(error) => {
                    ctx.served.charge += transaction.charge();
                    return Err(error);
                }
            };
            let committed = match checked {
                Ok(()) => self.commit_transaction(ctx, transaction).await,
                Err(error) => {
                    ctx.served.charge += transaction.charge();
                    Err(error)
                }
            };
            match committed {
                Err(Error::Overtaken) if lock_guard.is_none() => {
                    let lock = self.inner.conflicts.wait(container, key);
                    lock_guard = Some(self.before_deadline(ctx, lock).await?);
                }
                Err(Error::Overtaken) => {}
                Ok(committed) => {
                    self.end_operation(timer, ctx, container, None);
                    return Ok((done, committed));
                }
                Err(error) => {
                    self.end_operation(timer, ctx, container, Some(&error));
                    return Err(error.into());
                }
            }
        }
        Err(Error::Overtaken.into())
    }
}
