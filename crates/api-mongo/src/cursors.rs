//! Cursors: what is left of a result that its client has read in part.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use engine::components::Random;

use crate::MongoError;
use crate::errors::codes as code;
use crate::find::Scan;
use crate::sessions::SessionId;

/// How long a cursor lasts after it was last read from.
const IDLE: Duration = Duration::from_secs(600);
/// Most bytes of results that are kept for clients, in all.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Most cursors.
const CURSORS_MAX: usize = 100_000;
/// Numbers have the number of the node in their upper 16 bits, which is 0.
const NUMBER_MASK: u64 = (1 << 48) - 1;

/// An open cursor.
pub(crate) struct Cursor {
    pub(crate) namespace: String,
    pub(crate) session: Option<SessionId>,
    /// The user that opened it.
    pub(crate) owner: u64,
    pub(crate) rest: Rest,
    /// Whether it stays however long its client does not read from it.
    pub(crate) never_expires: bool,
    pub(crate) used: Duration,
}

/// What a cursor has not given out.
pub(crate) enum Rest {
    /// A result that is complete.
    Documents(VecDeque<Bytes>),
    /// A position in a collection, from which the result goes on.
    Scan(Box<Scan>),
}

impl Rest {
    fn bytes(&self) -> usize {
        match self {
            Rest::Documents(documents) => documents.iter().map(Bytes::len).sum(),
            Rest::Scan(scan) => scan.bytes(),
        }
    }
}

/// The cursors of a service.
#[derive(Default)]
pub(crate) struct Cursors {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_number: BTreeMap<i64, (Cursor, usize)>,
    /// Bytes that they keep.
    bytes: usize,
    /// When the idle ones were last removed.
    swept: Duration,
}

impl Open {
    fn remove(&mut self, number: i64) -> Option<Cursor> {
        let (cursor, bytes) = self.by_number.remove(&number)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(cursor)
    }

    fn sweep(&mut self, now: Duration) {
        /// How often.
        const PERIOD: Duration = Duration::from_secs(10);
        if now.saturating_sub(self.swept) < PERIOD {
            return;
        }
        self.swept = now;
        let is_idle =
            |cursor: &Cursor| !cursor.never_expires && now.saturating_sub(cursor.used) >= IDLE;
        self.remove_where(|_, cursor| is_idle(cursor));
    }

    fn remove_where(&mut self, is_removed: impl Fn(i64, &Cursor) -> bool) {
        let removed =
            self.by_number.iter().filter(|(number, (cursor, _))| is_removed(**number, cursor));
        let removed = removed.map(|(number, _)| *number).collect::<Vec<_>>();
        for number in removed {
            self.remove(number);
        }
    }
}

impl Cursors {
    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a new cursor and returns its number.
    pub(crate) fn open(&self, cursor: Cursor, random: &dyn Random) -> Result<i64, MongoError> {
        let mut open = self.lock();
        open.sweep(cursor.used);
        let bytes = cursor.rest.bytes();
        if open.by_number.len() >= CURSORS_MAX || open.bytes + bytes > KEPT_BYTES_MAX {
            return Err(MongoError::new(
                code::EXCEEDED_MEMORY_LIMIT,
                "too many results are kept for clients that have not read them",
            ));
        }
        loop {
            let mut number = [0; 8];
            random.fill(&mut number);
            let number = (u64::from_be_bytes(number) & NUMBER_MASK).cast_signed();
            if number != 0 && !open.by_number.contains_key(&number) {
                open.bytes += bytes;
                open.by_number.insert(number, (cursor, bytes));
                return Ok(number);
            }
        }
    }

    /// Takes a cursor to read from it.
    pub(crate) fn take(
        &self,
        number: i64,
        namespace: &str,
        owner: u64,
        now: Duration,
    ) -> Result<Cursor, MongoError> {
        let mut open = self.lock();
        open.sweep(now);
        let unknown =
            || MongoError::new(code::CURSOR_NOT_FOUND, format!("cursor id {number} not found"));
        let (cursor, _) = open.by_number.get(&number).ok_or_else(unknown)?;
        if cursor.namespace != namespace {
            return Err(MongoError::new(
                code::UNAUTHORIZED,
                format!(
                    "Requested getMore on namespace '{namespace}', but cursor belongs to a \
                     different namespace {}",
                    cursor.namespace
                ),
            ));
        }
        if cursor.owner != owner {
            return Err(MongoError::new(
                code::UNAUTHORIZED,
                format!("cursor id {number} was not created by the authenticated user"),
            ));
        }
        open.remove(number).ok_or_else(unknown)
    }

    /// Keeps a cursor again that was read from.
    pub(crate) fn put_back(&self, number: i64, cursor: Cursor) {
        let mut open = self.lock();
        let bytes = cursor.rest.bytes();
        open.bytes += bytes;
        open.by_number.insert(number, (cursor, bytes));
    }

    /// Closes a cursor of this user; false if there is none.
    pub(crate) fn close(&self, number: i64, owner: u64) -> bool {
        let mut open = self.lock();
        let is_own = open.by_number.get(&number).is_some_and(|(cursor, _)| cursor.owner == owner);
        is_own && open.remove(number).is_some()
    }

    /// Closes the cursors of a session.
    pub(crate) fn close_session(&self, session: SessionId) {
        self.lock().remove_where(|_, cursor| cursor.session == Some(session));
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.lock().by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use engine::components::SystemRandom;

    use super::*;

    fn cursor(used: u64) -> Cursor {
        Cursor {
            namespace: "db.c".to_owned(),
            session: Some(SessionId { id: [1; 16], owner: 7 }),
            owner: 7,
            rest: Rest::Documents([Bytes::from_static(b"x")].into()),
            never_expires: false,
            used: Duration::from_secs(used),
        }
    }

    #[test]
    fn a_cursor_is_its_users_until_it_is_closed_or_idle() {
        let cursors = Cursors::default();
        let number = cursors.open(cursor(0), &SystemRandom).unwrap();
        assert!(number > 0 && number >> 48 == 0);
        let take = |namespace, owner, now| {
            let now = Duration::from_secs(now);
            cursors.take(number, namespace, owner, now).map_err(|error| error.code())
        };
        assert_eq!(take("db.d", 7, 1).err(), Some(code::UNAUTHORIZED));
        assert_eq!(take("db.c", 8, 1).err(), Some(code::UNAUTHORIZED));
        let taken = take("db.c", 7, 1).unwrap();
        assert_eq!(take("db.c", 7, 1).err(), Some(code::CURSOR_NOT_FOUND));
        cursors.put_back(number, taken);
        assert!(!cursors.close(number, 8) && cursors.close(number, 7));
        let number = cursors.open(cursor(0), &SystemRandom).unwrap();
        let later = Duration::from_secs(601);
        assert!(cursors.take(number, "db.c", 7, later).is_err());
        assert_eq!((cursors.count(), cursors.lock().bytes), (0, 0));
        cursors.open(cursor(601), &SystemRandom).unwrap();
        cursors.close_session(SessionId { id: [1; 16], owner: 7 });
        assert_eq!(cursors.count(), 0);
    }
}
