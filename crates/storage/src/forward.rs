//! Stores that wrap another store.

/// Within an `impl LocalStore`, the methods that only pass a call on to another store: the store,
/// then the names of the methods.
///
/// ```
/// use storage::{Durability, LocalStore, StoreError, WriteBatch, forward_store};
///
/// struct Counting<S> {
///     store: S,
///     writes: std::sync::atomic::AtomicU64,
/// }
///
/// impl<S: LocalStore> LocalStore for Counting<S> {
///     fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
///         self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.store.write(batch, durability)
///     }
///
///     forward_store!(self => self.store; view, retire, reclaim, approximate_bytes, health);
///     forward_store!(self => self.store; room, can_reopen, reopen, close);
/// }
/// ```
#[macro_export]
macro_rules! forward_store {
    ($this:ident => $store:expr; $($method:ident),+) => {
        $($crate::forward_store!(@$method $this, $store);)+
    };
    (@write $this:ident, $store:expr) => {
        fn write(
            &$this,
            batch: $crate::WriteBatch,
            durability: $crate::Durability,
        ) -> ::std::result::Result<(), $crate::StoreError> {
            $store.write(batch, durability)
        }
    };
    (@view $this:ident, $store:expr) => {
        fn view(&$this) -> ::std::sync::Arc<dyn $crate::View> {
            $store.view()
        }
    };
    (@retire $this:ident, $store:expr) => {
        fn retire(
            &$this,
            p: $crate::forward::PartitionId,
        ) -> ::std::result::Result<(), $crate::StoreError> {
            $store.retire(p)
        }
    };
    (@reclaim $this:ident, $store:expr) => {
        fn reclaim(
            &$this,
            budget: ::std::time::Duration,
        ) -> ::std::result::Result<$crate::ReclaimProgress, $crate::StoreError> {
            $store.reclaim(budget)
        }
    };
    (@approximate_bytes $this:ident, $store:expr) => {
        fn approximate_bytes(
            &$this,
            p: $crate::forward::PartitionId,
        ) -> ::std::result::Result<u64, $crate::StoreError> {
            $store.approximate_bytes(p)
        }
    };
    (@health $this:ident, $store:expr) => {
        fn health(&$this) -> $crate::Health {
            $store.health()
        }
    };
    (@room $this:ident, $store:expr) => {
        fn room(&$this) -> ::std::option::Option<$crate::Room> {
            $store.room()
        }
    };
    (@can_reopen $this:ident, $store:expr) => {
        fn can_reopen(&$this) -> bool {
            $store.can_reopen()
        }
    };
    (@reopen $this:ident, $store:expr) => {
        fn reopen(&$this) -> ::std::result::Result<(), $crate::StoreError> {
            $store.reopen()
        }
    };
    (@close $this:ident, $store:expr) => {
        fn close(&$this) -> ::std::result::Result<(), $crate::StoreError> {
            $store.close()
        }
    };
}

pub use model::PartitionId;
