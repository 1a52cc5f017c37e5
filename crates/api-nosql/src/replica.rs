//! Replicas: the addresses of a range, among which clients in Direct mode choose.

use engine::RangeId;
use model::ContainerRid;

/// What a replica's address stands for. One server holds all replicas, so they differ in nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "made by the first wire that sends addresses")]
pub(crate) enum Replica {
    /// The resources of the account.
    Master,
    /// A range of a container.
    Range {
        /// The container.
        container: ContainerRid,
        /// The range.
        range: RangeId,
    },
}
