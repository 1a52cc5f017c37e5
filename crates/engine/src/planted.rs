//! Bugs that a test can plant, to check that the simulator finds them. A simulator that has never
//! failed is not a test.
//!
//! Without the feature `planted-bugs`, which only tests of the simulator enable, none of this is
//! compiled into the program.

/// A mistake that could easily have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Writes are acknowledged before they are stored.
    AnswerBeforeWriting,
    /// A partition's counters are not stored with its commits.
    StateLeftOut,
    /// Counters keep what a refused request counted.
    CountersNotUndone,
    /// A refused batch keeps what it did before it was refused.
    BatchNotUndone,
    /// Positions of writes that failed are published.
    UnwrittenPublished,
    /// Conditions on the version of an item always hold.
    ConditionIgnored,
    /// The log keeps entries of versions that are replaced.
    OldEntryKept,
    /// The index keeps entries of versions that are replaced.
    OldTermsKept,
    /// The terms that were computed from a version are used though another one is current.
    StaleOldVersion,
    /// Unique values of replaced and deleted items stay taken.
    UniqueValueKept,
    /// An item that was found expired is removed, although it was replaced meanwhile.
    ExpiryNotChecked,
    /// Callers are served by ranges that are behind what they have seen.
    SessionNotChecked,
    /// A page's continuation is past an item that the page did not have room for.
    PageEndPassed,
    /// A feed's position is past changes that the page did not have room for.
    FeedEndPassed,
    /// Deletes of copied items are not repeated in their new partition.
    DeleteNotMirrored,
    /// Copied rows replace what was written since they were read.
    CopyReplacesNewer,
    /// What was written between two chunks of a copy is not copied.
    WrittenNotCopied,
    /// A restart does not know how far a copy was.
    CopyForgotten,
    /// New partitions do not begin at the position of the old ones.
    PositionNotInherited,
    /// Writes that wait while their partition is replaced do not find the new one.
    NotLocatedAnew,
    /// Readers do not notice that their partition was replaced.
    GoneNotNoticed,
    /// Versions have at least the newest time of their partition, however wrong a clock once was.
    TimeOfPartition,
    /// A version that replaces another can have an earlier time.
    TimeGoesBack,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 23] = [
        Bug::AnswerBeforeWriting,
        Bug::StateLeftOut,
        Bug::CountersNotUndone,
        Bug::BatchNotUndone,
        Bug::UnwrittenPublished,
        Bug::ConditionIgnored,
        Bug::OldEntryKept,
        Bug::OldTermsKept,
        Bug::StaleOldVersion,
        Bug::UniqueValueKept,
        Bug::ExpiryNotChecked,
        Bug::SessionNotChecked,
        Bug::PageEndPassed,
        Bug::FeedEndPassed,
        Bug::DeleteNotMirrored,
        Bug::CopyReplacesNewer,
        Bug::WrittenNotCopied,
        Bug::CopyForgotten,
        Bug::PositionNotInherited,
        Bug::NotLocatedAnew,
        Bug::GoneNotNoticed,
        Bug::TimeOfPartition,
        Bug::TimeGoesBack,
    ];
}

#[cfg(feature = "planted-bugs")]
mod on {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        /// A simulation lives on one thread, so another test's bug does not concern it.
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the engines of this thread, or removes it.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use on::is_planted;
#[cfg(feature = "planted-bugs")]
pub use on::plant;

#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
