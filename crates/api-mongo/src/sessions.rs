//! Logical sessions: what clients group their commands by.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Object, Value};

use crate::MongoError;
use crate::errors::codes as code;

/// How long a session lasts after its last command.
pub(crate) const TIMEOUT_MINUTES: i32 = 30;
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Most sessions that are remembered. Those beyond end when their cursors do.
const SESSIONS_MAX: usize = 100_000;

/// The number of a session, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId {
    pub(crate) id: [u8; 16],
    /// The beginning of a digest of the user; 0 without one.
    pub(crate) owner: u64,
}

impl SessionId {
    /// The session of an `lsid`.
    pub(crate) fn read(lsid: &Object, owner: u64) -> Result<Self, MongoError> {
        let id = lsid.get("id").ok_or_else(|| {
            MongoError::new(
                code::MISSING_FIELD,
                "BSON field 'OperationSessionInfo.lsid.id' is missing but a required field",
            )
        })?;
        let id = if let Value::Binary { subtype: 4, bytes } = id {
            <[u8; 16]>::try_from(bytes.as_slice()).ok()
        } else if let Value::Guid(bytes) = id {
            Some(*bytes)
        } else {
            None
        };
        match id {
            Some(id) => Ok(Self { id, owner }),
            None => Err(MongoError::new(
                code::INVALID_UUID,
                "uuid must be a 16-byte binary field with UUID (4) subtype",
            )),
        }
    }
}

/// The sessions that clients use.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// When each was last used.
    used: Mutex<BTreeMap<SessionId, Duration>>,
}

impl Sessions {
    /// Records that a session is used.
    pub(crate) fn touch(&self, session: SessionId, now: Duration) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = used.get_mut(&session) {
            *last = now;
            return;
        }
        if used.len() >= SESSIONS_MAX {
            used.retain(|_, last| now.saturating_sub(*last) < TIMEOUT);
        }
        if used.len() < SESSIONS_MAX {
            used.insert(session, now);
        }
    }

    /// Forgets a session.
    pub(crate) fn end(&self, session: SessionId) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }

    /// Forgets all sessions, or those of one user, and returns them.
    pub(crate) fn end_all(&self, owner: Option<u64>) -> Vec<SessionId> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |session: &SessionId| owner.is_none_or(|owner| session.owner == owner);
        let ended = used.keys().copied().filter(is_meant).collect::<Vec<_>>();
        used.retain(|session, _| !is_meant(session));
        ended
    }

    /// The sessions that have not expired, with the time since they were used.
    pub(crate) fn active(&self, now: Duration) -> Vec<(SessionId, Duration)> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let since = used.iter().map(|(session, last)| (*session, now.saturating_sub(*last)));
        since.filter(|(_, since)| *since < TIMEOUT).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{document, uuid};

    #[test]
    fn sessions_are_known_while_they_are_used() {
        let sessions = Sessions::default();
        let id = |byte, owner| SessionId { id: [byte; 16], owner };
        sessions.touch(id(1, 0), Duration::ZERO);
        sessions.touch(id(2, 7), Duration::from_secs(1700));
        assert_eq!(sessions.active(Duration::from_secs(1750)).len(), 2);
        assert_eq!(
            sessions.active(Duration::from_secs(1801)),
            [(id(2, 7), Duration::from_secs(101))]
        );
        assert_eq!(sessions.end_all(Some(7)), [id(2, 7)]);
        sessions.end(id(1, 0));
        assert_eq!(sessions.active(Duration::ZERO), []);
    }

    #[test]
    fn the_number_of_a_session_is_a_uuid() {
        let read = |lsid: Object| SessionId::read(&lsid, 3).map_err(|error| error.code());
        let session = SessionId { id: [5; 16], owner: 3 };
        assert_eq!(read(document! { "id" => uuid([5; 16]) }), Ok(session));
        assert_eq!(read(document! { "id" => 1 }), Err(code::INVALID_UUID));
        assert_eq!(read(Object::new()), Err(code::MISSING_FIELD));
    }
}
