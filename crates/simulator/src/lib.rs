//! Runs the real engine on one thread under a seeded scheduler, with a clock that only the
//! scheduler advances, a disk that fails as the seed decides, competing clients, and crashes
//! between any two turns; and checks that every answer and everything stored is consistent.
//!
//! A run is decided by its seed alone. Start reading at [`simulate`]; the checks are in `record`,
//! the clients in `client`, the faults in `disasters`.
#![forbid(unsafe_code)]
#![expect(clippy::wildcard_enum_match_arm, reason = "whatever is not foreseen is a violation")]

mod accounts;
mod admin;
pub mod campaign;
mod client;
mod clock;
mod director;
mod disasters;
mod disk;
mod executor;
mod feed_reader;
mod item;
mod operator;
mod plan;
mod random;
mod record;
mod trace;
mod world;

use std::rc::Rc;

use disasters::Disasters;
use executor::{Executor, Step};
use random::Stream;
use world::World;

/// Turns after which a run counts as endless.
const TURNS_MAX: u64 = 400_000;
/// Simulated time in which a client must get something done.
const STUCK_MICROS: u64 = 300_000_000;
/// One turn in so many is followed by an audit.
const AUDIT_EVERY: u64 = 64;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed that decided it.
    pub seed: u64,
    /// Two runs with the same digest did the same.
    pub digest: u64,
    /// Turns taken.
    pub turns: u64,
    /// Operations that clients finished.
    pub operations: u64,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Processes started.
    pub processes: u64,
    /// Splits and merges that were carried out.
    pub cut_overs: u64,
    /// The first violation, if there was one.
    pub violation: Option<String>,
    /// The trace: all of it if requested, else its end.
    pub trace: Vec<String>,
}

/// Runs one seed to its end or to the first violation.
pub fn simulate(seed: u64, keeps_trace: bool) -> Outcome {
    let root = Stream::new(seed);
    let world = World::new(&root, keeps_trace);
    let shares = world.plan.shares;
    let mut executor = Executor::new(world.inbox.clone(), shares, root.fork("schedule"));
    let mut chance = root.fork("time and audits");
    let mut clock_chance = root.fork("clock");
    let mut disasters = Disasters::new(&world.plan, root.fork("disasters"));
    world.note(format_args!("{:?}", world.plan));
    world.come_up();
    director::start(&world, &root, &mut executor);
    while !world.is_finished() && !world.has_failed() {
        take_turn(&world, &mut executor, &mut disasters);
        world.clock.advance(world.plan.turn_micros(&mut chance));
        world.set_clock(&mut clock_chance);
        if chance.below(AUDIT_EVERY) == 0 {
            world.audit();
        }
        disasters.strike(&world, &mut executor);
    }
    drop(executor);
    world.outcome(seed)
}

fn take_turn(world: &Rc<World>, executor: &mut Executor, disasters: &mut Disasters) {
    world.begin_turn();
    match executor.step() {
        Step::Ran(name) => world.note(format_args!("{name}")),
        Step::Idle => {}
        Step::Panicked(name) => world.fail(format!("{name} panicked")),
        Step::NobodyReady => match world.clock.micros_to_next_timer() {
            _ if disasters.ends_downtime(world) => {}
            Some(micros) => world.clock.advance(micros),
            None => world.fail("every actor waits for ever".to_owned()),
        },
    }
    world.end_turn();
    if world.now().step > TURNS_MAX {
        world.fail("the run does not end".to_owned());
    }
    if world.engine().is_some() && world.micros_without_progress() > STUCK_MICROS {
        world.fail("no actor gets anything done any more".to_owned());
    }
}
