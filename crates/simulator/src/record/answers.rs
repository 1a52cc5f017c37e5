//! Checks that the answers to clients fit what the store held while they waited.

use std::collections::BTreeSet;

use engine::{Error, Etag, StoredItem};
use model::ContainerRid;

use super::history::Version;
use super::{Intent, Moment, Record, Violation};
use crate::item::{Content, ItemName, WriteId};

/// The time for which a client waited for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) from: Moment,
    pub(crate) to: Moment,
}

impl Record {
    /// Checks an item that a read or a page showed.
    pub(crate) fn check_shown(
        &self,
        name: &ItemName,
        item: &StoredItem,
        wait: Wait,
    ) -> Result<(), Violation> {
        if self.is_gone(name.container, wait) {
            return Ok(());
        }
        let parsed = Content::parse(item.body());
        let Some((key, id, content)) = parsed else {
            return Err(format!("the body of {name} can't be read"));
        };
        if key != name.key || id != name.id {
            return Err(format!("{key}/{id} was shown as {name}"));
        }
        let ttls = self.ttls_between(name.container, wait.from.step, wait.to.step);
        let (earliest, _) = self.seconds_between(wait.from, wait.to);
        let versions = self.versions(name, wait);
        let Some(version) = versions.iter().flatten().find(|v| v.etag == item.etag()) else {
            let there: Vec<_> = versions.iter().map(|v| v.as_ref().map(|v| v.etag)).collect();
            let shown = item.etag();
            return Err(format!("{name} was shown as {shown}, but there was {there:?}"));
        };
        if version.content != content {
            return Err(format!("{name} at {} was shown with another body", version.etag));
        }
        if ttls.iter().all(|ttl| version.is_expired(*ttl, earliest)) {
            return Err(format!("{name} was shown after its time was over"));
        }
        Ok(())
    }

    /// Checks that a read may have found nothing.
    pub(crate) fn check_absent(&self, name: &ItemName, wait: Wait) -> Result<(), Violation> {
        match self.may_be_absent(name, wait) {
            true => Ok(()),
            false => Err(format!("{name} was not found, but it was there")),
        }
    }

    /// Checks a read that reported the client's version as the newest one.
    pub(crate) fn check_unchanged(
        &self,
        name: &ItemName,
        etag: Etag,
        wait: Wait,
    ) -> Result<(), Violation> {
        let is_it = |version: &Version| version.etag == etag;
        let versions = self.versions(name, wait);
        let fits = versions.iter().flatten().any(|version| is_it(version));
        match fits || self.is_gone(name.container, wait) {
            true => Ok(()),
            false => Err(format!("{name} counts as unchanged, but was not at {etag}")),
        }
    }

    /// Whether a container was there from the beginning of the wait to its end.
    pub(crate) fn was_alive_throughout(&self, container: ContainerRid, wait: Wait) -> bool {
        !self.is_gone(container, wait)
            && self.lives.get(&container).is_some_and(|life| life.was_there_at(wait.from.step))
    }

    /// Checks that a scan over the part of a container that `is_covered` names showed these items
    /// and no others.
    pub(crate) fn check_scan(
        &self,
        container: ContainerRid,
        is_covered: &dyn Fn(&ItemName) -> bool,
        shown: &BTreeSet<ItemName>,
        wait: Wait,
    ) -> Result<(), Violation> {
        if self.is_gone(container, wait) {
            return Ok(());
        }
        if let Some(name) = shown.iter().find(|name| !is_covered(name)) {
            return Err(format!("a walk over a part of {container} shows {name} from outside it"));
        }
        let in_scope = |name: &ItemName| name.container == container && is_covered(name);
        let missed = self.histories.keys().find(|name| {
            in_scope(name) && !shown.contains(*name) && !self.may_be_absent(name, wait)
        });
        match missed {
            Some(name) => Err(format!("a walk over {container} did not show {name}")),
            None => Ok(()),
        }
    }

    /// Checks that an erased key has no items left of those it had when the erasure was requested.
    pub(crate) fn check_erased(
        &self,
        container: ContainerRid,
        key: &str,
        wait: Wait,
    ) -> Result<(), Violation> {
        let left = self.histories.iter().find(|(name, history)| {
            let is_of_key = name.container == container && name.key == key;
            let is_old = history.current_since() < wait.from.step;
            is_of_key && is_old && history.current().is_some()
        });
        match left {
            Some((name, _)) if !self.may_be_absent(name, wait) => {
                Err(format!("{name} is still there, although its key was erased"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a write was refused for a valid reason.
    pub(crate) fn check_refusal(
        &self,
        id: WriteId,
        error: &Error,
        wait: Wait,
    ) -> Result<(), Violation> {
        let Some(write) = self.writes.get(&id) else { return Ok(()) };
        let name = &write.name;
        if self.is_gone(name.container, wait) || self.is_disturbed(id, wait) {
            return Ok(());
        }
        let is_reason = match error {
            Error::AlreadyExists { .. } => {
                write.intent == Intent::Create && self.may_be_present(name, wait)
            }
            Error::NotFound { .. } => {
                matches!(write.intent, Intent::Replace | Intent::Patch | Intent::Delete)
                    && self.may_be_absent(name, wait)
            }
            Error::PreconditionFailed => {
                let is_other = |v: &Version| write.if_match.is_some_and(|wanted| wanted != v.etag);
                self.versions(name, wait).iter().flatten().any(|version| is_other(version))
            }
            // In a batch an earlier operation may have taken the value.
            Error::UniqueKeyViolation => write.is_atomic || self.may_be_taken(name, wait),
            _ => false,
        };
        match is_reason {
            true => Ok(()),
            false => Err(format!("{} was refused without reason: {error}", self.describe(id))),
        }
    }

    /// Whether writes that share a batch with this one may have been the reason.
    fn is_disturbed(&self, id: WriteId, wait: Wait) -> bool {
        let Some(write) = self.writes.get(&id) else { return true };
        let same_key = self.histories.iter().filter(|(name, _)| {
            name.container == write.name.container && name.key == write.name.key
        });
        same_key.into_iter().any(|(_, history)| history.is_touched(wait.from.step, wait.to.step))
    }

    fn versions(&self, name: &ItemName, wait: Wait) -> Vec<Option<std::rc::Rc<Version>>> {
        match self.histories.get(name) {
            Some(history) => history.between(wait.from.step, wait.to.step),
            None => vec![None],
        }
    }

    fn may_be_absent(&self, name: &ItemName, wait: Wait) -> bool {
        let ttls = self.ttls_between(name.container, wait.from.step, wait.to.step);
        let (_, latest) = self.seconds_between(wait.from, wait.to);
        let expired = |v: &Version| ttls.iter().any(|ttl| v.is_expired(*ttl, latest));
        let versions = self.versions(name, wait);
        self.is_gone(name.container, wait)
            || versions.iter().any(|version| version.as_ref().is_none_or(|v| expired(v)))
    }

    fn may_be_present(&self, name: &ItemName, wait: Wait) -> bool {
        let ttls = self.ttls_between(name.container, wait.from.step, wait.to.step);
        let (earliest, _) = self.seconds_between(wait.from, wait.to);
        let expired = |v: &Version| ttls.iter().all(|ttl| v.is_expired(*ttl, earliest));
        self.versions(name, wait).iter().flatten().any(|version| !expired(version))
    }

    /// Whether another item of the key may hold a unique value. The value that the write wanted is
    /// not known here, so any value counts.
    fn may_be_taken(&self, name: &ItemName, wait: Wait) -> bool {
        let others = self.histories.keys().filter(|other| {
            other.container == name.container && other.key == name.key && *other != name
        });
        others.into_iter().any(|other| self.may_be_present(other, wait))
    }

    pub(super) fn is_gone(&self, container: ContainerRid, wait: Wait) -> bool {
        self.lives.get(&container).is_none_or(|life| life.is_gone_by(wait.to.step))
    }
}
