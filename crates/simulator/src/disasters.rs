//! Crashes, restarts and failing disks.

use storage::LocalStore;
use storage::faulty::Fault;

use crate::executor::Executor;
use crate::plan::Plan;
use crate::random::Stream;
use crate::world::World;

/// Turns between a write that failed and the restart that follows, at most.
const TURNS_TO_REPAIR_MAX: u64 = 200;
/// Turns that a process is down, at most.
const TURNS_DOWN_MAX: u64 = 30;

/// When each disaster happens.
pub(crate) struct Disasters {
    chance: Stream,
    /// Turns between two of them, on average; 0 = none.
    every: u64,
    next: u64,
    /// When the process comes up again, while it is down.
    up_at: Option<u64>,
    /// When a restart follows, while the disk takes no writes.
    repair_at: Option<u64>,
}

impl Disasters {
    pub(crate) fn new(plan: &Plan, mut chance: Stream) -> Self {
        let every = plan.disaster_every;
        let next = if every == 0 { u64::MAX } else { chance.between(1, 2 * every) };
        Self { chance, every, next, up_at: None, repair_at: None }
    }

    /// Causes the disasters that are due after a turn.
    pub(crate) fn strike(&mut self, world: &World, executor: &mut Executor) {
        let step = world.now().step;
        if self.up_at.is_some_and(|at| at <= step) {
            self.come_up(world);
        }
        if self.up_at.is_some() {
            return;
        }
        if world.take_restart_request() || self.is_repair_due(world) {
            return self.go_down(world, executor);
        }
        if step < self.next || world.is_calm() {
            return;
        }
        self.next = step + self.chance.between(1, 2 * self.every);
        match self.chance.below(10) {
            0..5 => self.go_down(world, executor),
            5..9 => self.break_disk(world),
            _ => world.restart_in_order(),
        }
    }

    /// Whether the process was down and has been started, since no actor can run without it.
    pub(crate) fn ends_downtime(&mut self, world: &World) -> bool {
        if self.up_at.is_some() {
            self.come_up(world);
            return true;
        }
        false
    }

    /// A disk that refuses writes needs a restart, sooner or later.
    fn is_repair_due(&mut self, world: &World) -> bool {
        if world.disk().health().writable {
            return false;
        }
        let step = world.now().step;
        let chance = &mut self.chance;
        let at = *self.repair_at.get_or_insert_with(|| step + chance.below(TURNS_TO_REPAIR_MAX));
        world.is_calm() || at <= step
    }

    fn go_down(&mut self, world: &World, executor: &mut Executor) {
        world.note(format_args!("CRASH"));
        world.go_down();
        executor.kill_processes_before(world.process_number());
        self.repair_at = None;
        self.up_at = Some(world.now().step + self.chance.below(TURNS_DOWN_MAX));
    }

    fn come_up(&mut self, world: &World) {
        // Sometimes the disk fails the first writes after a start as well.
        if !world.is_calm() && self.chance.percent(5) {
            self.break_disk(world);
        }
        if world.come_up() {
            self.up_at = None;
        } else {
            world.go_down();
        }
    }

    fn break_disk(&mut self, world: &World) {
        let faults = [Fault::DiskFull, Fault::SyncFailed, Fault::SyncFailedLate];
        let (fault, successes) = (*self.chance.pick(&faults), self.chance.below(6));
        world.note(format_args!("the disk fails after {successes} writes: {fault:?}"));
        world.disk().fail_after(successes, fault);
    }
}
