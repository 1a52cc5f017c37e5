//! The operator: splits and merges partitions, whether that is a good idea or not.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::components::Clock;
use engine::repartition::{JobId, JobInfo, Progression, SplitPoint};
use engine::{Container, Engine, Error, PartitionRange};
use testkit::harness::test_context;

use crate::random::Stream;
use crate::world::{Unanswered, World};

/// With more ranges than this a container is only merged.
const RANGES_MAX: usize = 6;

pub(crate) struct Operator {
    world: Rc<World>,
    chance: Stream,
    /// How many clients are still at work.
    busy: Rc<Cell<u64>>,
}

impl Operator {
    pub(crate) fn new(world: Rc<World>, chance: Stream, busy: Rc<Cell<u64>>) -> Self {
        Self { world, chance, busy }
    }

    pub(crate) async fn run(mut self) {
        let pause_max = self.world.plan.operator_pause_millis;
        let cancels = self.chance.percent(30);
        while self.busy.get() > 0 && !self.world.has_failed() {
            let pause = Duration::from_millis(self.chance.between(1, pause_max));
            self.world.clock.sleep(pause).await;
            self.world.up().await;
            match self.chance.below(if cancels { 20 } else { 10 }) {
                0..6 => self.begin_something().await,
                6 => self.pause_something().await,
                7 => self.advance_something().await,
                _ => self.cancel_something().await,
            }
        }
    }

    /// Starts a split or a merge of some container.
    async fn begin_something(&mut self) {
        let Some(catalog) = self.world.catalog() else { return };
        let databases = catalog.databases();
        let all: Vec<_> = databases.flat_map(|d| catalog.containers(d.rid)).collect();
        if all.is_empty() {
            return;
        }
        let container = Arc::clone(*self.chance.pick(&all));
        let routing = container.routing();
        let ranges = routing.ranges();
        let progression = match self.chance.percent(8) {
            true => Progression::Manual,
            false => Progression::Automatic,
        };
        if progression == Progression::Manual {
            self.world.expect_moving(container.rid);
        }
        let merges = ranges.len() > 1 && (ranges.len() > RANGES_MAX || self.chance.percent(45));
        match merges {
            true => self.merge(&container, ranges, progression).await,
            false => self.split(&container, ranges, progression).await,
        }
    }

    async fn split(
        &mut self,
        container: &Container,
        ranges: &[PartitionRange],
        progression: Progression,
    ) {
        let (rid, range) = (container.rid, self.chance.pick(ranges).id);
        let points = [SplitPoint::ByteMedian, SplitPoint::ByteMedian, SplitPoint::Midpoint];
        let at = self.chance.pick(&points).clone();
        let what = format!("split {range} of {rid} at {at:?}, {progression:?}");
        let asked = |engine: Engine| async move {
            engine.start_split(&test_context(), rid, range, at, progression).await
        };
        let begun = self.world.call("split", None, asked).await;
        self.note(&what, begun);
    }

    async fn merge(
        &mut self,
        container: &Container,
        ranges: &[PartitionRange],
        progression: Progression,
    ) {
        let rid = container.rid;
        let first = self.chance.index(ranges.len() - 1);
        let count = self.chance.index((ranges.len() - first - 1).min(2)) + 2;
        let chosen: Vec<_> = ranges.iter().skip(first).take(count).map(|r| r.id).collect();
        let what = format!("merge {chosen:?} of {rid}, {progression:?}");
        let asked = |engine: Engine| async move {
            engine.start_merge(&test_context(), rid, &chosen, progression).await
        };
        let begun = self.world.call("merge", None, asked).await;
        self.note(&what, begun);
    }

    async fn pause_something(&mut self) {
        let Some(engine) = self.world.engine() else { return };
        let Some(job) = self.choose_job(&engine) else { return };
        let is_paused = self.chance.percent(40);
        let asked =
            |engine: Engine| async move { engine.pause_job(&test_context(), job, is_paused).await };
        let paused = self.world.call("pause", None, asked).await;
        self.note(&format!("pause {job:?}: {is_paused}"), paused);
    }

    async fn advance_something(&mut self) {
        let Some(engine) = self.world.engine() else { return };
        let Some(job) = self.choose_job(&engine) else { return };
        // The steps of a paused job are never taken, so the wait for one has a timeout.
        let timeout = Some(Duration::from_secs(2));
        // The state between two steps exists to be observed; clients can do nothing meanwhile.
        let at_once = self.chance.percent(70);
        let asked = |engine: Engine| async move {
            let advanced = engine.advance_job(&test_context(), job).await;
            match at_once && advanced.is_ok() {
                true => engine.advance_job(&test_context(), job).await,
                false => advanced,
            }
        };
        let advanced = self.world.call("advance", timeout, asked).await;
        self.note(&format!("advance {job:?}"), advanced);
    }

    /// Cancels a job, and often starts another one of the same range at once.
    async fn cancel_something(&mut self) {
        let Some(engine) = self.world.engine() else { return };
        let Some(job) = self.choose_job(&engine) else { return };
        let begins_anew = self.chance.percent(70);
        let asked = |engine: Engine| async move {
            let cancelled = engine.cancel_job(&test_context(), job).await?;
            if !begins_anew {
                return Ok(cancelled);
            }
            let (container, range) = (cancelled.container, cancelled.sources[0]);
            let (at, progression) = (SplitPoint::Midpoint, Progression::Automatic);
            engine.start_split(&test_context(), container, range, at, progression).await
        };
        let cancelled = self.world.call("cancel", None, asked).await;
        self.note(&format!("cancel {job:?}, begin anew: {begins_anew}"), cancelled);
    }

    fn choose_job(&mut self, engine: &Engine) -> Option<JobId> {
        let jobs = engine.jobs();
        let under_way: Vec<_> = jobs.iter().filter(|job| !job.phase.is_over()).collect();
        (!under_way.is_empty()).then(|| self.chance.pick(&under_way).id)
    }

    fn note(&self, what: &str, answer: Result<Result<JobInfo, Error>, Unanswered>) {
        let shown = match &answer {
            Ok(Ok(job)) => format!("{:?} {:?}", job.id, job.phase),
            Ok(Err(error)) => format!("{error:?}"),
            Err(Unanswered) => "no answer".to_owned(),
        };
        self.world.note(format_args!("operator: {what}: {shown}"));
        let is_foreseen = match &answer {
            Ok(Err(error)) => matches!(
                error,
                Error::RangeGone
                    | Error::Busy(_)
                    | Error::NotPartitionable(_)
                    | Error::NotFound { .. }
                    | Error::Storage(_)
                    | Error::Unavailable(_)
            ),
            Ok(Ok(_)) | Err(Unanswered) => true,
        };
        if !is_foreseen {
            self.world.fail(format!("{what}: {shown}"));
        }
    }
}
