//! Plants every kind of violation once; the check must find it, and nothing else.

use super::*;
use crate::crash::ledger::Ack;

const RANGE: &str = "0";

fn key(id: &str) -> ItemKey {
    ItemKey { partition: "p".into(), id: id.into() }
}

fn version(stamp: u64) -> Version {
    Version { stamp, count: 0 }
}

fn etag(stamp: u64) -> String {
    format!("etag-{stamp}")
}

/// A server that follows the rules, with the ledger of its writers.
#[derive(Clone, Default)]
struct Scene {
    ledger: Ledger,
    server: Observed,
    lsn: u64,
}

impl Scene {
    /// Owned items `a`, `b`, `c` at stamps 101.., contended `x` at 104, counter `n` at 0.
    fn new() -> Self {
        let mut scene = Self::default();
        for id in ["a", "b", "c"] {
            scene.ledger.own(key(id));
        }
        scene.ledger.contend(key("x"));
        scene.ledger.count(key("n"));
        scene.ledger.adopt(&BTreeMap::new(), &[(RANGE.into(), 0)].into_iter().collect());
        scene.show("n", 100);
        for (id, stamp) in [("a", 101), ("b", 102), ("c", 103)] {
            scene.write(&[(id, Some(stamp))]);
        }
        scene.overwrite(104);
        scene
    }

    fn next_lsn(&mut self) -> u64 {
        self.lsn += 1;
        self.server.lsns.insert(RANGE.into(), self.lsn);
        self.lsn
    }

    fn show(&mut self, id: &str, stamp: u64) {
        let lsn = Some(self.lsn);
        let item =
            ObservedItem { version: version(stamp), etag: etag(stamp), lsn, is_intact: true };
        self.server.items.insert(key(id), item);
        self.sync_feed();
    }

    fn hide(&mut self, id: &str) {
        self.server.items.remove(&key(id));
        self.sync_feed();
    }

    fn sync_feed(&mut self) {
        self.server.feed = self.server.items.clone().into_iter().collect();
    }

    fn intent(changes: &[(&str, Option<u64>)]) -> Intent {
        let change =
            |(id, stamp): &(&str, Option<u64>)| Change { key: key(id), after: stamp.map(version) };
        Intent::Owned(changes.iter().map(change).collect())
    }

    fn apply(&mut self, changes: &[(&str, Option<u64>)]) -> u64 {
        let lsn = self.next_lsn();
        for (id, stamp) in changes {
            match stamp {
                Some(stamp) => self.show(id, *stamp),
                None => self.hide(id),
            }
        }
        lsn
    }

    /// A write that is applied and acknowledged.
    fn write(&mut self, changes: &[(&str, Option<u64>)]) {
        let op = self.ledger.begin("p", Self::intent(changes));
        let lsn = self.apply(changes);
        let etags = changes.iter().map(|(_, stamp)| stamp.map(etag)).collect();
        self.ledger.acknowledge(op, Ack { range: RANGE.into(), lsn, item_lsn: Some(lsn), etags });
    }

    /// A write whose outcome the writer does not learn.
    fn doubt(&mut self, changes: &[(&str, Option<u64>)]) {
        self.ledger.begin("p", Self::intent(changes));
    }

    fn overwrite(&mut self, stamp: u64) {
        let op = self.ledger.begin("p", Intent::Contended(key("x"), stamp));
        let lsn = self.apply(&[("x", Some(stamp))]);
        self.ledger
            .acknowledge(op, Ack { range: RANGE.into(), lsn, item_lsn: Some(lsn), etags: vec![] });
    }

    fn set_count(&mut self, count: u64) {
        let counter = self.server.items.get_mut(&key("n")).unwrap();
        counter.version.count = count;
        self.sync_feed();
    }

    fn increment(&mut self, count: u64) {
        let op = self.ledger.begin("p", Intent::Increment(key("n")));
        let lsn = self.next_lsn();
        self.set_count(count);
        self.ledger
            .acknowledge(op, Ack { range: RANGE.into(), lsn, item_lsn: Some(lsn), etags: vec![] });
    }

    fn violations(&self) -> Vec<Violation> {
        let mut all = self.ledger.clone().take_violations();
        all.extend(check(&self.ledger, &self.server));
        all
    }
}

/// Asserts that there is exactly one violation and that it matches.
macro_rules! assert_only {
    ($scene:expr, $pattern:pat) => {
        let found = $scene.violations();
        assert!(matches!(found.as_slice(), [$pattern]), "{found:?}");
    };
}

#[test]
fn a_server_that_keeps_its_word_passes() {
    let mut scene = Scene::new();
    scene.write(&[("a", None), ("b", Some(110))]);
    scene.increment(1);
    scene.overwrite(111);
    assert_eq!(scene.violations(), []);
}

#[test]
fn an_operation_in_doubt_may_be_there_or_not() {
    let mut scene = Scene::new();
    scene.doubt(&[("a", Some(110)), ("b", None)]);
    assert_eq!(scene.violations(), []);
    scene.apply(&[("a", Some(110)), ("b", None)]);
    assert_eq!(scene.violations(), []);
}

#[test]
fn a_lost_write_is_found() {
    let mut scene = Scene::new();
    scene.write(&[("a", Some(110))]);
    scene.server.items.get_mut(&key("a")).unwrap().version = version(101);
    scene.sync_feed();
    assert_only!(scene, Violation::WrongVersion { found: Some(Version { stamp: 101, .. }), .. });
}

#[test]
fn a_lost_create_is_found() {
    let mut scene = Scene::new();
    scene.hide("a");
    assert_only!(scene, Violation::WrongVersion { found: None, .. });
}

#[test]
fn a_resurrected_delete_is_found() {
    let mut scene = Scene::new();
    scene.write(&[("a", None)]);
    scene.show("a", 101);
    assert_only!(scene, Violation::WrongVersion { acknowledged: None, found: Some(_), .. });
}

#[test]
fn a_torn_batch_is_found() {
    let mut scene = Scene::new();
    scene.doubt(&[("a", Some(110)), ("b", Some(111)), ("c", None)]);
    scene.apply(&[("a", Some(110)), ("c", None)]);
    assert_only!(scene, Violation::TornBatch { .. });
}

#[test]
fn a_lost_increment_of_an_owned_item_is_found() {
    let mut scene = Scene::new();
    let after = Some(Version { stamp: 101, count: 1 });
    let op = scene.ledger.begin("p", Intent::Owned(vec![Change { key: key("a"), after }]));
    let lsn = scene.next_lsn();
    scene
        .ledger
        .acknowledge(op, Ack { range: RANGE.into(), lsn, item_lsn: Some(lsn), etags: vec![None] });
    assert_only!(scene, Violation::WrongVersion { .. });
}

#[test]
fn another_etag_or_lsn_on_the_same_version_is_found() {
    let mut scene = Scene::new();
    scene.server.items.get_mut(&key("a")).unwrap().etag = "other".into();
    scene.sync_feed();
    assert_only!(scene, Violation::WrongEtag { .. });
    let mut scene = Scene::new();
    scene.server.items.get_mut(&key("a")).unwrap().lsn = Some(99);
    assert_only!(scene, Violation::WrongEtag { .. });
}

#[test]
fn a_contended_item_may_show_only_the_last_write_or_one_in_doubt() {
    let mut scene = Scene::new();
    scene.ledger.begin("p", Intent::Contended(key("x"), 120));
    assert_eq!(scene.violations(), []);
    scene.apply(&[("x", Some(120))]);
    assert_eq!(scene.violations(), []);
    scene.show("x", 90);
    assert_only!(scene, Violation::WrongContender { found: Some(90), .. });
    scene.hide("x");
    assert_only!(scene, Violation::WrongContender { found: None, .. });
}

#[test]
fn an_acknowledged_overwrite_with_a_lower_lsn_does_not_win() {
    let mut scene = Scene::new();
    let slow = scene.ledger.begin("p", Intent::Contended(key("x"), 120));
    let fast = scene.ledger.begin("p", Intent::Contended(key("x"), 121));
    let (first, second) = (scene.next_lsn(), scene.next_lsn());
    let ack = |lsn| Ack { range: RANGE.into(), lsn, item_lsn: Some(lsn), etags: vec![] };
    scene.ledger.acknowledge(fast, ack(second));
    scene.ledger.acknowledge(slow, ack(first));
    scene.show("x", 121);
    assert_eq!(scene.violations(), []);
    scene.show("x", 120);
    assert_only!(scene, Violation::WrongContender { .. });
}

#[test]
fn a_counter_outside_its_bounds_is_found() {
    let mut scene = Scene::new();
    scene.increment(1);
    scene.increment(2);
    scene.set_count(1);
    assert_only!(scene, Violation::WrongCount { least: 2, most: 2, found: Some(1), .. });
    scene.set_count(3);
    assert_only!(scene, Violation::WrongCount { .. });
    scene.ledger.begin("p", Intent::Increment(key("n")));
    scene.next_lsn();
    assert_eq!(scene.violations(), []);
}

#[test]
fn a_damaged_or_unknown_item_is_found() {
    let mut scene = Scene::new();
    scene.server.items.get_mut(&key("a")).unwrap().is_intact = false;
    assert_only!(scene, Violation::Damaged { .. });
    let mut scene = Scene::new();
    scene.show("nobody", 1);
    assert_only!(scene, Violation::Unknown { .. });
}

#[test]
fn lsns_that_go_back_repeat_or_skip_are_found() {
    let mut scene = Scene::new();
    scene.server.lsns.insert(RANGE.into(), 3);
    assert_only!(scene, Violation::LsnWentBack { before: 4, after: 3, .. });

    // A range made by a split or merge may begin at any LSN.
    let mut scene = Scene::new();
    scene.server.lsns.insert(RANGE.into(), 5);
    scene.ledger.ranges.get_mut(RANGE).unwrap().rest = None;
    assert_eq!(scene.violations(), []);

    let mut scene = Scene::new();
    scene.server.lsns.insert(RANGE.into(), 5);
    assert_only!(scene, Violation::LsnGap { used: 5, acknowledged: 4, .. });
    scene.doubt(&[("a", Some(110))]);
    assert_eq!(scene.violations(), []);

    let mut scene = Scene::new();
    let (first, second) = (
        scene.ledger.begin("p", Intent::Owned(vec![])),
        scene.ledger.begin("p", Intent::Owned(vec![])),
    );
    let lsn = scene.next_lsn();
    for op in [first, second] {
        scene
            .ledger
            .acknowledge(op, Ack { range: RANGE.into(), lsn, item_lsn: Some(lsn), etags: vec![] });
    }
    // Two commits cannot have used one LSN, so the count is wrong too.
    let found = scene.violations();
    assert!(found.contains(&Violation::LsnTwice { range: RANGE.into(), lsn: 5 }), "{found:?}");

    let mut scene = Scene::new();
    let op = scene.ledger.begin("p", Intent::Owned(vec![]));
    scene
        .ledger
        .acknowledge(op, Ack { range: RANGE.into(), lsn: 2, item_lsn: None, etags: vec![] });
    let found = scene.violations();
    assert!(found.contains(&Violation::LsnWentBack { range: RANGE.into(), before: 4, after: 2 }));
}

#[test]
fn a_feed_that_differs_from_reads_is_found() {
    let mut scene = Scene::new();
    scene.server.feed.pop();
    assert_only!(scene, Violation::FeedDiffers { feed: None, .. });
    let mut scene = Scene::new();
    scene.server.feed[0].1.etag = "older".into();
    assert_only!(scene, Violation::FeedDiffers { .. });
    let mut scene = Scene::new();
    let again = scene.server.feed[0].clone();
    scene.server.feed.push(again);
    assert_only!(scene, Violation::FeedRepeats { .. });
}

#[test]
fn what_was_seen_after_a_crash_must_stay() {
    let mut scene = Scene::new();
    scene.doubt(&[("a", Some(110))]);
    scene.apply(&[("a", Some(110))]);
    assert_eq!(scene.violations(), []);
    let server = scene.server.clone();
    scene.ledger.adopt(&server.items, &server.lsns);
    assert_eq!(scene.violations(), []);
    scene.show("a", 101);
    assert_only!(scene, Violation::WrongVersion { .. });
}
