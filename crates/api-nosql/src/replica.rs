//! Replicas: the addresses of a range, among which clients in Direct mode choose.
//!
//! A client sends back the path of the address that it used. In an operation on one item it is all
//! that tells which range the client believes to hold the item.

use engine::{Container, RangeId};
use model::{ContainerRid, epk};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::partition_key_header;
use crate::request::Request;

/// What a replica's address stands for. One server holds all replicas, so they differ in nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// An address that this server does not give.
    Unknown,
}

/// The beginning of all paths. Clients send a path with every request, so it is short; one SDK
/// expects its eight parts.
const PATH_START: &str = "/apps/p/services/p/partitions/";
/// What follows the partition.
const REPLICAS: &str = "/replicas/";
const MASTER: &str = "master";

/// The replicas of each range: the primary and three secondaries, as the service has them. With a
/// single one, clients ask for fresh addresses before each read that needs a quorum; with fewer than
/// four, those of Java take the set for incomplete and ask for it again every ten minutes.
pub(crate) const REPLICAS_OF_RANGE: [(&str, bool); 4] =
    [("1p", true), ("2s", false), ("3s", false), ("4s", false)];

/// The path of a replica's address, without a slash at its end.
pub(crate) fn path(replica: Replica, name: &str) -> String {
    let partition = match replica {
        Replica::Range { container, range } => {
            let ContainerRid { database, number } = container;
            format!("{:x}.{number:x}-{range}", database.0)
        }
        Replica::Master | Replica::Unknown => MASTER.to_owned(),
    };
    format!("{PATH_START}{partition}{REPLICAS}{name}")
}

/// The replica with this path.
pub(crate) fn of_path(path: &str) -> Replica {
    let partition = path.strip_prefix(PATH_START).and_then(|rest| rest.split_once(REPLICAS));
    match partition {
        Some((MASTER, _)) => Replica::Master,
        Some((partition, _)) => range_of(partition).unwrap_or(Replica::Unknown),
        None => Replica::Unknown,
    }
}

fn range_of(partition: &str) -> Option<Replica> {
    let (container, range) = partition.split_once('-')?;
    let (database, number) = container.split_once('.')?;
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let database = model::DatabaseRid(hex(database)?);
    let container = ContainerRid { database, number: hex(number)? };
    Some(Replica::Range { container, range: RangeId(range.parse().ok()?) })
}

/// Refuses a request of a client that has another container under the name of this one, or that
/// believes the request to belong to a range that is gone.
pub(crate) fn check(container: &Container, request: &Request) -> Result<(), ApiError> {
    let Some(direct) = request.direct else { return Ok(()) };
    let is_other = direct.container.is_some_and(|rid| rid != container.rid);
    if is_other || direct.is_unknown_container {
        return Err(ApiError::stale_name());
    }
    let range = match direct.replica {
        Some(Replica::Range { container: rid, .. }) if rid != container.rid => {
            return Err(ApiError::stale_name());
        }
        Some(Replica::Range { range, .. }) => range,
        Some(Replica::Unknown) => return Err(ApiError::stale_address()),
        Some(Replica::Master) | None => return Ok(()),
    };
    // A request that names a range itself is judged by that name.
    if request.headers.has(HeaderName::PartitionKeyRangeId) {
        return Ok(());
    }
    let routing = container.routing();
    let live = routing.by_id(range).ok_or(engine::Error::RangeMoving)?;
    if routing.ranges().len() == 1 {
        return Ok(());
    }
    // An invalid key is refused by the handler.
    let Ok(Some(key)) = partition_key_header::scope_key(container, request) else { return Ok(()) };
    let definition = &container.spec.partition_key;
    let is_whole = key.0.len() == definition.paths.len();
    match is_whole && !live.epk.contains(&epk::effective_partition_key(definition, &key)) {
        true => Err(engine::Error::RangeMoving.into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use model::DatabaseRid;

    use super::*;

    #[test]
    fn a_path_is_read_back() {
        let container = ContainerRid { database: DatabaseRid(0xFFFF_FFFF), number: 0x7FFF_FFFF };
        let range = RangeId(u32::MAX);
        let longest = path(Replica::Range { container, range }, "2s");
        assert!(longest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-.".contains(&b)));
        assert_eq!(of_path(&longest), Replica::Range { container, range });
        assert_eq!(of_path(&path(Replica::Master, "1p")), Replica::Master);
        assert_eq!(longest.split('/').count(), 1 + 8);
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in [
            "",
            "/",
            "/apps/p/services/p/partitions/",
            "/apps/p/services/p/partitions/1.1-0",
            "/apps/p/services/p/partitions/1-0/replicas/1p",
            "/apps/p/services/p/partitions/1.1/replicas/1p",
            "/apps/p/services/p/partitions/1.1-x/replicas/1p",
            "/apps/p/services/p/partitions/g.1-0/replicas/1p",
            "/apps/p/services/p/partitions/1.111111111-0/replicas/1p",
            "/apps/A/services/S/partitions/1.1-0/replicas/1p",
        ] {
            assert_eq!(of_path(path), Replica::Unknown, "{path}");
        }
    }
}
