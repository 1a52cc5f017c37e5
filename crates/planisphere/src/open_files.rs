//! The operating system's limit on open files, which connections and the store share.

/// Files reserved for the store; without free ones all its writes would stop.
const RESERVED_FOR_STORE: u64 = 512;

/// Raises the limit to its maximum and returns how many connections it allows.
#[cfg(unix)]
pub(crate) fn connections_max() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit.current = limit.maximum;
        }
    }
    room_for_connections(limit.current)
}

/// No such limit is known on this system.
#[cfg(not(unix))]
pub(crate) fn connections_max() -> usize {
    room_for_connections(None)
}

fn room_for_connections(files_max: Option<u64>) -> usize {
    let Some(files_max) = files_max else { return usize::MAX };
    let room = files_max.saturating_sub(RESERVED_FOR_STORE).max(files_max / 2);
    usize::try_from(room).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_keeps_its_share() {
        assert_eq!(room_for_connections(None), usize::MAX);
        assert_eq!(room_for_connections(Some(4096)), 3584);
        assert_eq!(room_for_connections(Some(256)), 128);
    }
}
