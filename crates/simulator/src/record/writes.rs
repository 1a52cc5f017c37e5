//! The writes that clients requested.

use engine::Etag;
use model::Lsn;

use super::{Moment, Record, Violation};
use crate::item::{ItemName, WriteId};

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Create,
    Upsert,
    Replace,
    Patch,
    Delete,
    /// Deletes everything under the name's key.
    EraseKey,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its client waits for an answer.
    Open,
    /// Its client received an acknowledgement.
    Acknowledged,
    /// Its client was told that it did not happen.
    Refused,
    /// Its client will never know; it may still happen.
    Unanswered,
    /// It can't happen any more: its process is gone.
    Over,
}

/// A write, as requested.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) name: ItemName,
    pub(super) intent: Intent,
    /// The version that it requires, if any.
    pub(super) if_match: Option<Etag>,
    /// Writes of one request share its number.
    pub(super) request: u64,
    /// Whether it happens only together with the others of its request.
    pub(super) is_atomic: bool,
    pub(super) begun: u64,
    /// When its client received the outcome.
    pub(super) answered: Option<u64>,
    pub(super) state: State,
    /// The batch that stored it.
    pub(super) applied: Option<u64>,
}

impl Write {
    /// Whether it may still be stored.
    pub(super) fn may_apply(&self) -> bool {
        matches!(self.state, State::Open | State::Unanswered) && self.applied.is_none()
    }

    /// Whether it may delete `name`.
    pub(super) fn may_delete(&self, name: &ItemName) -> bool {
        match self.intent {
            Intent::Delete => self.may_apply() && self.name == *name,
            Intent::EraseKey => {
                matches!(self.state, State::Open | State::Unanswered)
                    && self.name.container == name.container
                    && self.name.key == name.key
            }
            Intent::Create | Intent::Upsert | Intent::Replace | Intent::Patch => false,
        }
    }
}

impl Record {
    /// A number for a request, which all its writes share.
    pub(crate) fn new_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Notes a write before it is sent.
    pub(crate) fn begin(
        &mut self,
        request: u64,
        is_atomic: bool,
        name: &ItemName,
        intent: Intent,
        if_match: Option<Etag>,
        now: Moment,
    ) -> WriteId {
        let id = self.writes.len() as u64 + 1;
        let write = Write {
            name: name.clone(),
            intent,
            if_match,
            request,
            is_atomic,
            begun: now.step,
            answered: None,
            state: State::Open,
            applied: None,
        };
        self.writes.insert(id, write);
        id
    }

    /// Notes that a write was acknowledged; `left` is the version that its answer reported.
    pub(crate) fn acknowledge(
        &mut self,
        id: WriteId,
        left: Option<(Etag, Lsn)>,
        now: Moment,
    ) -> Result<(), Violation> {
        let Some(write) = self.writes.get_mut(&id) else { return Ok(()) };
        // The answer was under way when the process died, and the write was lost with the process.
        let may_be_lost = self.has_lost_batches && write.state == State::Over;
        write.state = State::Acknowledged;
        write.answered = Some(now.step);
        if write.applied.is_some() || write.intent == Intent::EraseKey || may_be_lost {
            return Ok(());
        }
        // It is not stored: valid only if the same batch replaced it with a newer version.
        let (name, begun) = (write.name.clone(), write.begun);
        let history = self.histories.get(&name);
        let is_passed = history.is_some_and(|history| match left {
            Some((_, lsn)) => history.is_passed(begun, now.step, lsn),
            None => history.is_touched(begun, now.step),
        });
        match is_passed {
            true => Ok(()),
            false => Err(format!("write {id} of {name} was acknowledged, but is not stored")),
        }
    }

    /// Notes that the client was told that its write did not happen.
    pub(crate) fn refuse(&mut self, id: WriteId) -> Result<(), Violation> {
        let Some(write) = self.writes.get_mut(&id) else { return Ok(()) };
        write.state = State::Refused;
        match write.applied {
            Some(_) => Err(format!("write {id} of {} was refused, but is stored", write.name)),
            None => Ok(()),
        }
    }

    /// Notes that the client will never know the outcome.
    pub(crate) fn leave_unanswered(&mut self, id: WriteId) {
        if let Some(write) = self.writes.get_mut(&id)
            && write.state == State::Open
        {
            write.state = State::Unanswered;
        }
    }

    /// Describes a write, for messages.
    pub(super) fn describe(&self, id: WriteId) -> String {
        match self.writes.get(&id) {
            Some(w) => format!("write {id} ({:?} of {}, {:?})", w.intent, w.name, w.state),
            None => format!("write {id}, which no client sent"),
        }
    }

    /// Whether other writes of an item may have happened in between, unseen.
    pub(super) fn has_competitors(&self, name: &ItemName, besides: &[WriteId]) -> bool {
        self.writes.iter().any(|(id, write)| {
            let concerns = write.name == *name || write.may_delete(name);
            concerns && write.may_apply() && !besides.contains(id)
        })
    }

    /// Closes the writes of a process that is gone: none of them can happen any more.
    pub(super) fn close_open_writes(&mut self) {
        for write in self.writes.values_mut() {
            if matches!(write.state, State::Open | State::Unanswered) {
                write.state = State::Over;
            }
        }
    }

    /// How many writes were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.writes.values().filter(|write| write.state == State::Acknowledged).count()
    }
}
