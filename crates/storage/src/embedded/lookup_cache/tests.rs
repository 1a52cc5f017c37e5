use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Room;

use super::*;

const P: PartitionId = PartitionId(1);
const MEGA: u64 = 1 << 20;

const ROOMY: Room = Room { free_bytes: 1 << 40, floor_bytes: 96 * MEGA };

struct Rig {
    copies: Copies,
    _directory: tempfile::TempDir,
}

impl Rig {
    /// Nobody copies by itself here.
    fn new(bytes_max: u64, places_bytes_max: u64) -> Self {
        Self::on(Box::new(|| Some(ROOMY)), bytes_max, places_bytes_max)
    }

    fn on(room: LookAtRoom, bytes_max: u64, places_bytes_max: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let copies = Copies::new(directory.path(), bytes_max, places_bytes_max, room);
        copies.pending.open();
        Self { copies, _directory: directory }
    }

    fn roomy() -> Self {
        Self::new(16 * MEGA, MEGA)
    }

    fn get(&self, k: &[u8], seqno: SeqNo) -> Option<Bytes> {
        self.copies.get(self.copies.wanted(P, k).unwrap(), seqno)
    }

    /// Somebody found the value in a view.
    fn remember(&self, k: &[u8], seqno: SeqNo, value: &[u8]) {
        self.copies.remember(self.copies.wanted(P, k).unwrap(), seqno, value);
        self.copies.copy_pending();
    }

    fn write(&self, ops: &[Op], seqno: SeqNo) {
        self.copies.note_writes(self.copies.gather(ops), seqno, true);
    }
}

fn item(number: u32) -> Vec<u8> {
    [&[LOOKED_UP_KEYS.start][..], &number.to_be_bytes()].concat()
}

fn put(k: &[u8], v: &[u8]) -> Op {
    Op::Put { p: P, k: Bytes::copy_from_slice(k), v: Bytes::copy_from_slice(v) }
}

fn del(k: &[u8]) -> Op {
    Op::Del { p: P, k: Bytes::copy_from_slice(k) }
}

#[test]
fn a_value_is_that_of_its_view_and_later_ones() {
    let rig = Rig::roomy();
    rig.remember(&item(1), 100, b"v");
    assert_eq!(rig.get(&item(1), 99), None);
    assert_eq!(rig.get(&item(1), 100).as_deref(), Some(&b"v"[..]));
    assert_eq!(rig.get(&item(1), 500).as_deref(), Some(&b"v"[..]));
    assert_eq!(rig.get(&item(2), 500), None);
    let elsewhere = PartitionId(2);
    let key = item(1);
    assert_eq!(rig.copies.get(rig.copies.wanted(elsewhere, &key).unwrap(), 500), None);
}

/// Where the temporary directory is in memory, this only reads once more.
#[cfg(target_os = "linux")]
#[test]
fn what_is_on_disk_only_is_read_from_there() {
    let rig = Rig::roomy();
    let values: Vec<_> = (0..=u8::MAX).map(|byte| vec![byte; 1_400]).collect();
    for (number, value) in (0..).zip(&values) {
        rig.remember(&item(number), 100, value);
    }
    for _ in 0..2 {
        rig.copies.files.evict();
        for (number, value) in (0..).zip(&values) {
            assert_eq!(rig.get(&item(number), 100).as_deref(), Some(&value[..]));
        }
    }
}

#[test]
fn a_write_ends_it_also_for_those_who_come_late() {
    let rig = Rig::roomy();
    rig.remember(&item(1), 100, b"old");
    rig.write(&[put(&item(1), b"new")], 200);
    // Between the write and the copy there is none.
    assert_eq!(rig.get(&item(1), 150), None);
    assert_eq!(rig.get(&item(1), 200), None);
    // Somebody who still reads an older view found the old value there.
    rig.remember(&item(1), 199, b"old");
    assert_eq!(rig.get(&item(1), 300).as_deref(), Some(&b"new"[..]));
    assert_eq!(rig.get(&item(1), 199), None);
    rig.write(&[del(&item(1))], 400);
    rig.remember(&item(1), 399, b"new");
    assert_eq!(rig.get(&item(1), 400), None);
}

#[test]
fn the_last_of_several_writes_counts() {
    let rig = Rig::roomy();
    rig.write(&[put(&item(1), b"a"), put(&item(2), b"b"), put(&item(1), b"c")], 100);
    rig.write(&[put(&item(2), b"d")], 101);
    rig.copies.copy_pending();
    assert_eq!(rig.get(&item(1), 100).as_deref(), Some(&b"c"[..]));
    assert_eq!(rig.get(&item(2), 100), None);
    assert_eq!(rig.get(&item(2), 101).as_deref(), Some(&b"d"[..]));
}

/// No matter when somebody looks, copies that the same batch makes useless are not there.
#[test]
fn what_a_batch_overwrites_itself_is_not_copied() {
    let rig = Rig::roomy();
    let mut gathered =
        rig.copies.gather(&[put(&item(1), b"a"), put(&item(1), b"b"), put(&item(2), b"c")]);
    assert_eq!(gathered.seal(1), 2);
    let copied: Vec<_> = gathered.changes.iter().map(|change| change.copy.is_some()).collect();
    assert_eq!(copied, [false, true, true]);
}

#[test]
fn a_removal_behind_a_put_in_one_batch_counts() {
    let rig = Rig::roomy();
    rig.write(&[put(&item(1), b"a"), del(&item(1))], 100);
    rig.copies.copy_pending();
    assert_eq!(rig.get(&item(1), 100), None);
}

#[test]
fn what_many_find_at_once_is_copied_once() {
    let rig = Rig::roomy();
    rig.write(&[put(&item(1), &[7; 1_000])], 100);
    let key = item(1);
    for seqno in 100..150 {
        rig.copies.remember(rig.copies.wanted(P, &key).unwrap(), seqno, &[7; 1_000]);
    }
    rig.copies.copy_pending();
    assert_eq!(rig.copies.disk_bytes(), 1_088);
    assert!(rig.get(&item(1), 100).is_some());
}

#[test]
fn what_may_not_have_been_written_is_not_copied() {
    let rig = Rig::roomy();
    rig.remember(&item(1), 100, b"old");
    rig.copies.note_writes(rig.copies.gather(&[put(&item(1), b"new")]), 200, false);
    rig.copies.copy_pending();
    assert_eq!(rig.get(&item(1), 300), None);
}

#[test]
fn only_items_of_common_size_are_copied() {
    let rig = Rig::roomy();
    assert!(rig.copies.wanted(P, &[LOOKED_UP_KEYS.end]).is_none());
    assert!(rig.copies.wanted(P, &[]).is_none());
    let (longest, too_long) = (vec![7; VALUE_BYTES_MAX], vec![7; VALUE_BYTES_MAX + 1]);
    rig.write(&[put(&item(1), b""), put(&item(2), &longest), put(&item(3), &too_long)], 100);
    rig.copies.copy_pending();
    assert_eq!(rig.get(&item(1), 100).as_deref(), Some(&b""[..]));
    assert_eq!(rig.get(&item(2), 100).as_deref(), Some(&longest[..]));
    assert_eq!(rig.get(&item(3), 100), None);
}

#[test]
fn damage_and_other_keys_with_the_same_hash_are_noticed() {
    let rig = Rig::roomy();
    let (one, other) = (item(1), item(2));
    rig.remember(&one, 100, b"value");
    let wanted = rig.copies.wanted(P, &one).unwrap();
    let place = rig.copies.places.get(wanted.hash).unwrap();
    let impostor = Wanted { k: &other, ..wanted };
    assert_eq!(rig.copies.get(impostor, 500), None);
    rig.remember(&one, 100, b"value");
    assert!(rig.get(&one, 500).is_some());
    let place_now = rig.copies.places.get(wanted.hash).unwrap();
    assert_ne!(place, place_now);
    for at in 0..place_now.bytes() as u64 {
        rig.copies.places.note_copy(wanted.hash, 100, place_now);
        assert!(rig.get(&one, 500).is_some());
        let read = rig.copies.files.read(place_now).unwrap();
        let damaged = [read[usize::try_from(at).unwrap()] ^ 1];
        rig.copies.files.overwrite(place_now, at, &damaged);
        assert_eq!(rig.get(&one, 500), None, "byte {at}");
        // Not looked into again.
        assert_eq!(rig.copies.places.get(wanted.hash), None);
        rig.copies.files.overwrite(place_now, at, &[damaged[0] ^ 1]);
    }
}

#[test]
fn it_takes_no_more_than_it_may_and_keeps_the_newest() {
    let rig = Rig::new(MEGA, MEGA);
    for number in 0..5_000 {
        rig.write(&[put(&item(number), &[7; 1_000])], u64::from(number));
        rig.copies.copy_pending();
        assert!(rig.copies.disk_bytes() <= MEGA, "{}", rig.copies.disk_bytes());
    }
    let kept = |number: &u32| rig.get(&item(*number), 9_999).is_some();
    let numbers: Vec<_> = (0..5_000).filter(kept).collect();
    assert!((800..1_000).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers.last(), Some(&4_999));
    // The newest ones, less a few that had to make room in the table of places.
    let since_first = 5_000 - numbers[0] as usize;
    assert!(numbers.len() * 50 >= since_first * 49, "{} of {since_first}", numbers.len());
}

#[test]
fn places_take_no_more_than_they_may() {
    let places_bytes = 128 << 10;
    let rig = Rig::new(16 * MEGA, places_bytes);
    let most = Places::bytes_of(places_bytes) / 16;
    assert_eq!(most, 8_192);
    for hundred in 0..300 {
        let small: Vec<_> = (0..100).map(|n| put(&item(hundred * 100 + n), b"small")).collect();
        rig.write(&small, u64::from(hundred));
        rig.copies.copy_pending();
    }
    let kept = |number: &u32| rig.get(&item(*number), 99_999).is_some();
    let all = (0..30_000).filter(kept).count() as u64;
    assert!((most / 10 * 9..=most).contains(&all), "{all} of {most}");
    let newest = (25_000..30_000).filter(kept).count();
    assert!(newest > 4_500, "{newest}");
}

#[test]
fn places_are_found_while_their_table_grows() {
    let places = Places::new(MEGA);
    let place = |number: u64| Place::new(number / 1_000, number % 1_000 * 64, 64).unwrap();
    let hash = |number: u64| xxh3_64(&number.to_be_bytes());
    let mut lost = 0;
    for number in 0..30_000 {
        lost += usize::from(places.note_copy(hash(number), 1, place(number)).is_some());
        if number.is_multiple_of(3) {
            assert!(places.note_write(hash(number), 1).is_some());
            assert_eq!(places.get(hash(number)), None);
        }
    }
    // There is room for three times as many as are left.
    assert!(lost < 1_000, "{lost}");
    let kept = (0..30_000).filter(|n| places.get(hash(*n)) == Some(place(*n))).count();
    assert_eq!(kept + lost, 20_000);
    places.retain(|place| place.file() >= 15);
    let kept = |range: Range<u64>| range.filter(|n| places.get(hash(*n)).is_some());
    assert_eq!(kept(0..15_000).count(), 0);
    assert!(kept(15_000..30_000).count() > 9_000);
}

#[test]
fn files_of_what_was_written_again_go() {
    let rig = Rig::new(16 * MEGA, MEGA);
    rig.write(&[put(&item(0), b"never written again")], 1);
    for round in 0..40_000 {
        rig.write(&[put(&item(1 + round % 10), &[7; 1_000])], u64::from(2 + round));
        rig.copies.copy_pending();
    }
    // A file has a megabyte, and what is in use has eleven kilobytes.
    assert!(rig.copies.disk_bytes() <= 2 * MEGA, "{}", rig.copies.disk_bytes());
    assert!((1..11).all(|number| rig.get(&item(number), 99_999).is_some()));
}

#[test]
fn without_a_directory_nothing_is_copied_and_nothing_fails() {
    let rig = Rig::roomy();
    let nowhere = rig._directory.path().join("nowhere");
    let copies = Copies::new(&nowhere, 16 * MEGA, MEGA, Box::new(|| Some(ROOMY)));
    copies.pending.open();
    for round in 0..3 {
        copies.note_writes(copies.gather(&[put(&item(1), b"v")]), 100 + round, true);
        copies.copy_pending();
        let key = item(1);
        assert_eq!(copies.get(copies.wanted(P, &key).unwrap(), 500), None);
    }
    assert_eq!(copies.disk_bytes(), 0);
}

#[test]
fn a_file_that_cannot_be_written_ends_all_copies() {
    let rig = Rig::roomy();
    rig.remember(&item(1), 100, b"v");
    rig.copies.files.make_unwritable();
    rig.remember(&item(2), 100, b"v");
    assert_eq!(rig.get(&item(1), 500), None);
    assert_eq!(rig.get(&item(2), 500), None);
    assert_eq!(rig.copies.disk_bytes(), 0);
    rig.remember(&item(3), 100, b"v");
    assert_eq!(rig.get(&item(3), 500), None);
}

#[test]
fn places_know_their_limits() {
    let place = Place::new((1 << 28) - 1, (1 << 30) - 64, 4_095 * 64).unwrap();
    assert_eq!((place.file(), place.offset()), ((1 << 28) - 1, (1 << 30) - 64));
    assert_eq!(place.bytes(), 4_095 * 64);
    assert_eq!(Place::new(1 << 28, 0, 64), None);
    assert_eq!(Place::new(0, 1 << 30, 64), None);
    assert_eq!(Place::new(0, 0, 4_096 * 64), None);
    let longest = HEADER_BYTES + crate::KEY_BYTES_MAX + VALUE_BYTES_MAX;
    assert!(Place::new(0, 0, longest).is_some(), "every copy has a place");
}

#[test]
fn what_comes_too_fast_is_left_out() {
    let rig = Rig::roomy();
    for number in 0..400 {
        rig.write(&[put(&item(number), &[7; 60_000])], u64::from(number));
    }
    rig.copies.copy_pending();
    let copied = (0..400).filter(|number| rig.get(&item(*number), 999).is_some()).count();
    assert!((100..300).contains(&copied), "{copied}");
}

#[test]
fn copies_give_way_when_others_fill_the_disk() {
    let free = Arc::new(AtomicU64::new(ROOMY.free_bytes));
    let look = Arc::clone(&free);
    let room = move || Some(Room { free_bytes: look.load(Ordering::SeqCst), ..ROOMY });
    let rig = Rig::on(Box::new(room), 16 * MEGA, MEGA);
    for number in 0..100 {
        rig.remember(&item(number), 1, &[7; 50_000]);
    }
    let bytes = rig.copies.disk_bytes();
    assert!(bytes > 4 * MEGA, "{bytes}");
    free.store(2 * ROOMY.floor_bytes, Ordering::SeqCst);
    rig.copies.give_way();
    assert_eq!(rig.copies.disk_bytes(), bytes, "there is room");

    free.store(2 * ROOMY.floor_bytes - MEGA, Ordering::SeqCst);
    rig.copies.give_way();
    let given = bytes - rig.copies.disk_bytes();
    assert!((MEGA..2 * MEGA).contains(&given), "{given}");
    assert_eq!(rig.get(&item(0), 1), None);
    assert!(rig.get(&item(99), 1).is_some());

    free.store(0, Ordering::SeqCst);
    rig.copies.give_way();
    assert_eq!(rig.copies.disk_bytes(), 0);
    rig.remember(&item(200), 1, b"v");
    assert_eq!(rig.get(&item(200), 1), None, "and no file is begun");
}
