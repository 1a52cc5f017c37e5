//! The writes that clients asked for.

use engine::Etag;
use model::Lsn;

use super::{Moment, Record, Violation};
use crate::item::{ItemName, WriteId};

/// What a write is meant to do.
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

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its client waits for an answer.
    Open,
    /// Its client was told that it happened.
    Acknowledged,
    /// Its client was told that it did not happen.
    Refused,
    /// Its client will never know; it may still happen.
    Unanswered,
    /// It can't happen any more: the process it was sent to is gone.
    Over,
}

/// A write, as asked for.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) name: ItemName,
    pub(super) intent: Intent,
    /// The version it is meant for, if any.
    pub(super) if_match: Option<Etag>,
    /// Writes of one request share its number.
    pub(super) request: u64,
    /// Whether it happens only together with the others of its request.
    pub(super) is_atomic: bool,
    pub(super) begun: u64,
    /// When its client was told what became of it.
    pub(super) answered: Option<u64>,
    pub(super) state: State,
    /// The batch that stored it.
    pub(super) applied: Option<u64>,
}

impl Write {
    /// Whether it may turn up in the store from now on.
    pub(super) fn may_apply(&self) -> bool {
        matches!(self.state, State::Open | State::Unanswered) && self.applied.is_none()
    }

    /// Whether it may make `name` go away.
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

    /// The client was told that its write happened; `left` is what it was told is there now.
    pub(crate) fn acknowledge(
        &mut self,
        id: WriteId,
        left: Option<(Etag, Lsn)>,
        now: Moment,
    ) -> Result<(), Violation> {
        let Some(write) = self.writes.get_mut(&id) else { return Ok(()) };
        // The answer was on its way when the process died, and its write was lost with it.
        let may_be_lost = self.has_lost_batches && write.state == State::Over;
        write.state = State::Acknowledged;
        write.answered = Some(now.step);
        if write.applied.is_some() || write.intent == Intent::EraseKey || may_be_lost {
            return Ok(());
        }
        // It is stored nowhere: fine only if the same batch went on to something newer.
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

    /// The client was told that its write did not happen.
    pub(crate) fn refuse(&mut self, id: WriteId) -> Result<(), Violation> {
        let Some(write) = self.writes.get_mut(&id) else { return Ok(()) };
        write.state = State::Refused;
        match write.applied {
            Some(_) => Err(format!("write {id} of {} was refused, but is stored", write.name)),
            None => Ok(()),
        }
    }

    /// The client will never know.
    pub(crate) fn leave_unanswered(&mut self, id: WriteId) {
        if let Some(write) = self.writes.get_mut(&id)
            && write.state == State::Open
        {
            write.state = State::Unanswered;
        }
    }

    /// How a write was meant, for messages.
    pub(super) fn describe(&self, id: WriteId) -> String {
        match self.writes.get(&id) {
            Some(w) => format!("write {id} ({:?} of {}, {:?})", w.intent, w.name, w.state),
            None => format!("write {id}, which nobody asked for"),
        }
    }

    /// Whether other writes of an item may have happened in between, unseen.
    pub(super) fn has_competitors(&self, name: &ItemName, besides: &[WriteId]) -> bool {
        self.writes.iter().any(|(id, write)| {
            let concerns = write.name == *name || write.may_delete(name);
            concerns && write.may_apply() && !besides.contains(id)
        })
    }

    /// Nothing of a process that is gone can happen any more.
    pub(super) fn close_open_writes(&mut self) {
        for write in self.writes.values_mut() {
            if matches!(write.state, State::Open | State::Unanswered) {
                write.state = State::Over;
            }
        }
    }

    /// Writes that were asked for and answered in the affirmative.
    pub(crate) fn acknowledged(&self) -> usize {
        self.writes.values().filter(|write| write.state == State::Acknowledged).count()
    }
}
