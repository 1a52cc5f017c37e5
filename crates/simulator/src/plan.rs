//! What a seed decides before a run begins.

use engine::Settings;
use storage::Durability;

use crate::disk::Slowness;
use crate::executor::Shares;
use crate::random::Stream;

/// The conditions of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clients: u64,
    /// Operations of each client.
    pub(crate) operations: u64,
    /// Values of the partition key that clients choose from.
    pub(crate) keys: u64,
    /// Ids per partition key.
    pub(crate) ids: u64,
    pub(crate) shares: Shares,
    pub(crate) slowness: Slowness,
    /// Turns between two disasters, on average; 0 = none at all.
    pub(crate) disaster_every: u64,
    /// Most microseconds that pass with a turn.
    pub(crate) turn_micros_max: u64,
    pub(crate) settings: Settings,
    /// The longest rest of the one who splits and merges; 0 = there is none.
    pub(crate) operator_pause_millis: u64,
    /// Followers of change feeds.
    pub(crate) followers: u64,
    /// How often an operation is given up by its client, in percent.
    pub(crate) hang_up_percent: u64,
}

impl Plan {
    pub(crate) fn of(seed: &Stream) -> Self {
        let mut chance = seed.fork("plan");
        let durability = match chance.percent(20) {
            true => Durability::Buffered,
            false => Durability::Synced,
        };
        let settings = Settings {
            default_ranges: u32::try_from(chance.between(1, 3)).unwrap_or(1),
            durability,
            auto_merge: chance.percent(20),
            copy_rows_max: *chance.pick(&[1, 3, 10, 1_000]),
            ..Settings::default()
        };
        Self {
            clients: chance.between(2, 6),
            operations: chance.between(15, 45),
            keys: chance.between(2, 6),
            ids: chance.between(2, 4),
            shares: Shares {
                task: *chance.pick(&[4, 8, 20]),
                blocking: *chance.pick(&[1, 8]),
                worker: *chance.pick(&[1, 4, 32]),
            },
            slowness: match chance.percent(30) {
                true => Slowness { every: chance.between(1, 8), micros_max: 400_000 },
                false => Slowness::default(),
            },
            disaster_every: *chance.pick(&[0, 150, 400, 1_000]),
            turn_micros_max: *chance.pick(&[200, 5_000, 50_000]),
            settings,
            operator_pause_millis: *chance.pick(&[0, 30, 200, 800]),
            followers: chance.between(1, 2),
            hang_up_percent: *chance.pick(&[0, 3, 10]),
        }
    }

    pub(crate) fn is_relaxed(&self) -> bool {
        self.settings.durability == Durability::Buffered
    }
}
