//! What a seed decides before a run begins.

use engine::{ContainerSpec, Settings, Throttling};
use model::{Epk, PartitionKey, PartitionKeyComponent, PartitionKeyVersion, epk};
use storage::Durability;
use testkit::harness::{key_of, spec_with_paths};

use crate::disk::Slowness;
use crate::executor::Shares;
use crate::random::Stream;

/// The partition keys of a run's containers. Items have the same value in all paths of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// One path, with the current hash.
    Single,
    /// One path, with the old hash.
    SingleOld,
    /// Two paths, one below the other.
    Tree,
}

/// The throughput of a run, and how it is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Request units per second for each range that is wanted.
    pub(crate) per_range: u32,
    /// Most request units per second that a partition serves.
    pub(crate) partition_max: u32,
    pub(crate) is_enforced: bool,
    /// What all containers share, when they have none of their own.
    pub(crate) shared: Option<u32>,
}

const PLENTY: Scale =
    Scale { per_range: 6_000, partition_max: 10_000, is_enforced: false, shared: None };
const SCARCE: Scale = Scale { per_range: 400, partition_max: 700, is_enforced: true, shared: None };
const SHARED: Scale = Scale { shared: Some(400), ..SCARCE };

/// In seconds.
const DAY: i64 = 24 * 60 * 60;

/// The conditions of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clients: u64,
    /// Operations of each client.
    pub(crate) operations: u64,
    pub(crate) key_kind: KeyKind,
    pub(crate) scale: Scale,
    /// Values of the partition key that clients choose from.
    pub(crate) keys: u64,
    /// Ids per partition key.
    pub(crate) ids: u64,
    pub(crate) shares: Shares,
    pub(crate) slowness: Slowness,
    /// How often a client pauses after an operation, in percent.
    pub(crate) rest_percent: u64,
    /// How many items are large, in percent.
    pub(crate) large_percent: u64,
    /// Turns between two disasters, on average; 0 = none at all.
    pub(crate) disaster_every: u64,
    /// Most microseconds that pass with a turn.
    pub(crate) turn_micros_max: u64,
    /// One turn in so many takes up to [`Plan::JUMP_MICROS_MAX`]; 0 = none.
    pub(crate) jump_every: u64,
    /// Turns between two changes of the wall clock, on average; 0 = it is never set.
    pub(crate) clock_every: u64,
    pub(crate) settings: Settings,
    /// The longest pause of the operator that splits and merges; 0 = there is no operator.
    pub(crate) operator_pause_millis: u64,
    /// Followers of change feeds.
    pub(crate) followers: u64,
    /// How often a client abandons an operation, in percent.
    pub(crate) hang_up_percent: u64,
}

impl Plan {
    /// The longest time that a turn can take.
    pub(crate) const JUMP_MICROS_MAX: u64 = 2_000_000;

    /// The offset to which the wall clock is set after this turn, if it is, in seconds.
    pub(crate) fn clock_set(&self, chance: &mut Stream) -> Option<i64> {
        let is_set = self.clock_every > 0 && chance.below(self.clock_every) == 0;
        is_set.then(|| *chance.pick(&[0, 0, 2, -3, -DAY, 400 * DAY]))
    }

    /// Microseconds that pass with a turn.
    pub(crate) fn turn_micros(&self, chance: &mut Stream) -> u64 {
        match self.jump_every > 0 && chance.below(self.jump_every) == 0 {
            true => chance.below(Self::JUMP_MICROS_MAX),
            false => chance.below(self.turn_micros_max),
        }
    }

    pub(crate) fn of(seed: &Stream) -> Self {
        let mut chance = seed.fork("plan");
        let durability = match chance.percent(20) {
            true => Durability::Buffered,
            false => Durability::Synced,
        };
        let scale = *chance.pick(&[PLENTY, PLENTY, PLENTY, SCARCE, SHARED]);
        // Small partitions fill up and are split automatically.
        let partition_bytes_max = if chance.percent(25) { 2_500 } else { u64::MAX };
        let settings = Settings {
            partition_ru_planned: scale.per_range,
            partition_ru_max: scale.partition_max,
            throttling: match scale.is_enforced {
                true => Throttling::On,
                false => Throttling::Off,
            },
            partition_bytes_max,
            default_ranges: u32::try_from(chance.between(1, 3)).unwrap_or(1),
            durability,
            auto_merge: chance.percent(20),
            copy_rows_max: *chance.pick(&[1, 3, 10, 1_000]),
            // Work done inline is over before any other actor can run.
            items_at_once_max: 0,
            // Items are small here.
            old_version_bytes_min: 0,
            ..Settings::default()
        };
        let kinds = [KeyKind::Single, KeyKind::Single, KeyKind::SingleOld, KeyKind::Tree];
        Self {
            key_kind: *chance.pick(&kinds),
            scale,
            clients: chance.between(2, 6),
            operations: chance.between(15, 45),
            keys: chance.between(2, 6),
            ids: chance.between(2, 4),
            shares: Shares {
                task: *chance.pick(&[4, 8, 20]),
                blocking: *chance.pick(&[1, 8]),
                worker: *chance.pick(&[1, 4, 32]),
            },
            rest_percent: if scale.is_enforced { 1 } else { 10 },
            large_percent: if scale.is_enforced { 40 } else { 6 },
            slowness: match chance.percent(30) {
                true => Slowness { every: chance.between(1, 8), micros_max: 400_000 },
                false => Slowness::default(),
            },
            disaster_every: *chance.pick(&[0, 150, 400, 1_000]),
            turn_micros_max: match scale.is_enforced {
                // Many requests must come in little time for any to be throttled.
                true => 200,
                false => *chance.pick(&[200, 5_000, 50_000]),
            },
            jump_every: match scale.is_enforced {
                true => 0,
                false => *chance.pick(&[0, 40, 200]),
            },
            // From a stream of its own, so that the rest of a seed's plan is as it was before
            // clocks were set.
            clock_every: *seed.fork("clocks").pick(&[0, 0, 100, 500]),
            settings,
            operator_pause_millis: *chance.pick(&[0, 30, 200, 800]),
            followers: chance.between(1, 2),
            hang_up_percent: *chance.pick(&[0, 3, 10]),
        }
    }

    /// The partition key of the items whose key is `key`.
    pub(crate) fn partition_key(&self, key: &str) -> PartitionKey {
        let component = || PartitionKeyComponent::String(key.to_owned());
        match self.key_kind {
            KeyKind::Single | KeyKind::SingleOld => key_of([component()]),
            KeyKind::Tree => key_of([component(), component()]),
        }
    }

    /// The position of a key on the hash line.
    pub(crate) fn epk(&self, key: &str) -> Epk {
        let definition = self.spec("any").partition_key;
        epk::effective_partition_key(&definition, &self.partition_key(key))
    }

    /// The spec of a container with the keys of the plan.
    pub(crate) fn spec(&self, id: &str) -> ContainerSpec {
        match self.key_kind {
            KeyKind::Single => spec_with_paths(id, &["/pk"]),
            KeyKind::SingleOld => {
                let mut spec = spec_with_paths(id, &["/pk"]);
                spec.partition_key.version = PartitionKeyVersion::V1;
                spec
            }
            KeyKind::Tree => spec_with_paths(id, &["/pk", "/below"]),
        }
    }

    /// Whether logical partitions can get full.
    pub(crate) fn has_small_partitions(&self) -> bool {
        self.settings.partition_bytes_max < u64::MAX
    }

    pub(crate) fn is_relaxed(&self) -> bool {
        self.settings.durability == Durability::Buffered
    }
}
