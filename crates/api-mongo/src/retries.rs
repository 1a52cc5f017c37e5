//! Outcomes of retryable writes, for clients that did not receive them and ask again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::Object;

use crate::MongoError;
use crate::errors::codes as code;
use crate::sessions::SessionId;

/// How long an outcome is kept.
const KEPT: Duration = Duration::from_secs(30 * 60);
/// Most sessions whose last outcome is kept.
const SESSIONS_MAX: usize = 100_000;

/// The last write of each session.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    last: Mutex<BTreeMap<SessionId, Last>>,
}

#[derive(Debug)]
struct Last {
    number: i64,
    /// The reply, once there is one.
    reply: Option<Object>,
    at: Duration,
}

impl Retries {
    /// Begins the write with this number. Returns the reply to it, if it was carried out before.
    pub(crate) fn begin(
        &self,
        session: SessionId,
        number: i64,
        now: Duration,
    ) -> Result<Option<Object>, MongoError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= SESSIONS_MAX {
            last.retain(|_, last| now.saturating_sub(last.at) < KEPT);
        }
        match last.get(&session) {
            Some(known) if known.number == number && known.reply.is_some() => {
                Ok(known.reply.clone())
            }
            Some(known) if known.number > number => Err(MongoError::new(
                code::TRANSACTION_TOO_OLD,
                format!(
                    "Cannot start transaction {number} because a newer transaction {} has already \
                     started",
                    known.number
                ),
            )),
            Some(_) | None => {
                last.insert(session, Last { number, reply: None, at: now });
                Ok(None)
            }
        }
    }

    /// Keeps the reply to a write.
    pub(crate) fn finish(&self, session: SessionId, number: i64, reply: &Object) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.get_mut(&session).filter(|known| known.number == number) {
            known.reply = Some(reply.clone());
        }
    }

    /// Forgets a session.
    pub(crate) fn end(&self, session: SessionId) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::document;

    #[test]
    fn a_write_is_carried_out_once() {
        let retries = Retries::default();
        let session = SessionId { id: [1; 16], owner: 0 };
        let begin =
            |number| retries.begin(session, number, Duration::ZERO).map_err(|error| error.code());
        assert_eq!(begin(1), Ok(None));
        assert_eq!(begin(1), Ok(None), "it had no outcome yet");
        retries.finish(session, 1, &document! { "n" => 1 });
        assert_eq!(begin(1), Ok(Some(document! { "n" => 1 })));
        assert_eq!(begin(2), Ok(None));
        retries.finish(session, 1, &document! { "n" => 7 });
        assert_eq!(begin(2), Ok(None), "a late outcome is of another write");
        assert_eq!(begin(1), Err(code::TRANSACTION_TOO_OLD));
        retries.end(session);
        assert_eq!(begin(1), Ok(None));
    }
}
