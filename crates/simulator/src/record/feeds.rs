//! What a follower of a feed must have been shown.

use model::ContainerRid;

use super::answers::Wait;
use super::writes::State;
use super::{Intent, Moment, Record, Violation};
use crate::feed_reader::ObservedChanges;
use crate::item::{Content, ItemName};

/// The start of a feed, behind which it shows everything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FeedStart {
    Beginning,
    /// Changes after this second.
    Seconds(u64),
    /// Changes after this turn.
    Turn(u64),
}

impl Record {
    /// Checks a version that a feed of all versions showed: it must come from a write that was not
    /// refused.
    pub(crate) fn check_version(
        &self,
        name: &ItemName,
        content: &Content,
        wait: Wait,
    ) -> Result<(), Violation> {
        let write = self.writes.get(&content.last());
        let is_possible = write.is_some_and(|write| {
            write.name == *name && write.state != State::Refused && write.begun <= wait.to.step
        });
        match is_possible {
            true => Ok(()),
            false => Err(format!("{name} was shown with {}", self.describe(content.last()))),
        }
    }

    /// Checks a follower of latest versions that has caught up: it must have been shown everything
    /// that was stored when it sent its request.
    pub(crate) fn check_latest_shown(
        &self,
        container: ContainerRid,
        key: Option<&str>,
        start: FeedStart,
        observed: &ObservedChanges,
        wait: Wait,
    ) -> Result<(), Violation> {
        if self.is_gone(container, wait) {
            return Ok(());
        }
        for (name, history) in &self.histories {
            if name.container != container || key.is_some_and(|key| name.key != key) {
                continue;
            }
            // Changes made while the follower waited may be shown now or with the next page.
            let versions = history.between(wait.from.step, wait.to.step);
            let [Some(version)] = versions.as_slice() else { continue };
            let is_wanted = match start {
                FeedStart::Beginning => true,
                FeedStart::Seconds(seconds) => version.ts > seconds,
                FeedStart::Turn(step) => history.current_since() > step,
            };
            // An item that counted as expired while the feed passed it may be live again since,
            // because the container's ttl became longer.
            let since = Moment { step: history.current_since(), ..wait.to };
            let ttls = self.ttls_between(container, since.step, wait.to.step);
            let (_, latest) = self.seconds_between(since, wait.to);
            let was_expired = ttls.iter().any(|ttl| version.is_expired(*ttl, latest));
            let is_shown = observed.last.get(name).is_some_and(|last| last.lsn >= version.lsn);
            if is_wanted && !is_shown && !was_expired {
                return Err(format!("was not shown {name} at {:?}", version.lsn));
            }
        }
        Ok(())
    }

    /// Checks a follower of all versions that has caught up: it must have been shown every write
    /// that began after the follower did and was acknowledged before its request.
    pub(crate) fn check_all_shown(
        &self,
        container: ContainerRid,
        key: Option<&str>,
        since: u64,
        observed: &ObservedChanges,
        wait: Wait,
    ) -> Result<(), Violation> {
        if self.is_gone(container, wait) {
            return Ok(());
        }
        let mut deletes = std::collections::BTreeMap::new();
        for (id, write) in &self.writes {
            let is_of_feed =
                write.name.container == container && key.is_none_or(|key| write.name.key == key);
            let is_before = write.answered.is_some_and(|step| step < wait.from.step);
            let counts = is_of_feed && is_before && write.begun > since;
            if !counts || write.state != State::Acknowledged {
                continue;
            }
            match write.intent {
                Intent::Create | Intent::Upsert | Intent::Replace | Intent::Patch => {
                    if !observed.writes.contains(id) {
                        return Err(format!("was not shown {}", self.describe(*id)));
                    }
                }
                Intent::Delete => *deletes.entry(&write.name).or_insert(0) += 1,
                Intent::EraseKey => {}
            }
        }
        let missed = deletes
            .into_iter()
            .find(|(name, count)| observed.deletes.get(*name).copied().unwrap_or(0) < *count);
        match missed {
            Some((name, count)) => Err(format!("was not shown {count} deletes of {name}")),
            None => Ok(()),
        }
    }
}
