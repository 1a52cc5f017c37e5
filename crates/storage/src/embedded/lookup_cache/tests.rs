use std::sync::atomic::{AtomicU64, Ordering};

use crate::Room;
use crate::testing::{LOOKED_UP_KEYS, Random};

use super::files::SPARE_BYTES;
use super::*;

const P: PartitionId = PartitionId(1);
const MEGA: u64 = 1 << 20;

const ROOMY: Room = Room { free_bytes: 1 << 40, floor_bytes: 96 * MEGA };

struct Rig {
    cache: FileLookupCache,
    _directory: tempfile::TempDir,
}

impl Rig {
    /// No writer thread runs here.
    fn new(bytes_max: u64, cache_index_bytes_max: u64) -> Self {
        Self::on(roomy(), bytes_max, cache_index_bytes_max)
    }

    fn on(surroundings: Surroundings, bytes_max: u64, cache_index_bytes_max: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = options(bytes_max, cache_index_bytes_max);
        let cache = FileLookupCache::new(directory.path(), &options, surroundings);
        cache.pending.open();
        Self { cache, _directory: directory }
    }

    fn roomy() -> Self {
        Self::new(16 * MEGA, MEGA)
    }

    fn get(&self, k: &[u8], seqno: SeqNo) -> Option<Bytes> {
        self.cache.get(P, k, seqno)
    }

    /// As if a reader had found the value in a view.
    fn cache_value(&self, k: &[u8], seqno: SeqNo, value: &[u8]) {
        self.cache.note_read(P, k, seqno, value);
        self.cache.write_pending();
    }

    fn write(&self, ops: &[Op], seqno: SeqNo) {
        self.cache.note_writes(self.cache.prepare_update(ops), seqno, true);
    }
}

fn options(lookup_cache_bytes: u64, cache_index_bytes_max: u64) -> EmbeddedOptions {
    let cache_bytes = 4 * cache_index_bytes_max;
    EmbeddedOptions { lookup_cache_bytes, cache_bytes, ..EmbeddedOptions::default() }
}

/// A large disk, and a store with more rows than any cache has room for.
fn roomy() -> Surroundings {
    Surroundings { room: Box::new(|| Some(ROOMY)), rows: Box::new(|| u64::MAX) }
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
    rig.cache_value(&item(1), 100, b"v");
    assert_eq!(rig.get(&item(1), 99), None);
    assert_eq!(rig.get(&item(1), 100).as_deref(), Some(&b"v"[..]));
    assert_eq!(rig.get(&item(1), 500).as_deref(), Some(&b"v"[..]));
    assert_eq!(rig.get(&item(2), 500), None);
    assert_eq!(rig.cache.get(PartitionId(2), &item(1), 500), None);
}

/// Where the temporary directory is in memory, this only reads once more.
#[cfg(target_os = "linux")]
#[test]
fn what_is_on_disk_only_is_read_from_there() {
    let rig = Rig::roomy();
    let values: Vec<_> = (0..=u8::MAX).map(|byte| vec![byte; 1_400]).collect();
    for (number, value) in (0..).zip(&values) {
        rig.cache_value(&item(number), 100, value);
    }
    for _ in 0..2 {
        rig.cache.files.evict();
        for (number, value) in (0..).zip(&values) {
            assert_eq!(rig.get(&item(number), 100).as_deref(), Some(&value[..]));
        }
    }
}

#[test]
fn a_write_ends_it_also_for_those_who_come_late() {
    let rig = Rig::roomy();
    rig.cache_value(&item(1), 100, b"old");
    rig.write(&[put(&item(1), b"new")], 200);
    // Between the write and the copy there is none.
    assert_eq!(rig.get(&item(1), 150), None);
    assert_eq!(rig.get(&item(1), 200), None);
    // A reader of an older view found the old value there.
    rig.cache_value(&item(1), 199, b"old");
    assert_eq!(rig.get(&item(1), 300).as_deref(), Some(&b"new"[..]));
    assert_eq!(rig.get(&item(1), 199), None);
    rig.write(&[del(&item(1))], 400);
    rig.cache_value(&item(1), 399, b"new");
    assert_eq!(rig.get(&item(1), 400), None);
}

#[test]
fn the_last_of_several_writes_counts() {
    let rig = Rig::roomy();
    rig.write(&[put(&item(1), b"a"), put(&item(2), b"b"), put(&item(1), b"c")], 100);
    rig.write(&[put(&item(2), b"d")], 101);
    rig.cache.write_pending();
    assert_eq!(rig.get(&item(1), 100).as_deref(), Some(&b"c"[..]));
    assert_eq!(rig.get(&item(2), 100), None);
    assert_eq!(rig.get(&item(2), 101).as_deref(), Some(&b"d"[..]));
}

/// A copy that a later op of the same batch makes useless is never visible.
#[test]
fn what_a_batch_overwrites_itself_is_not_copied() {
    let rig = Rig::roomy();
    let mut update =
        rig.cache.prepare_update(&[put(&item(1), b"a"), put(&item(1), b"b"), put(&item(2), b"c")]);
    assert_eq!(update.seal(1), 2);
    let copied: Vec<_> = update.changes.iter().map(|change| change.copy.is_some()).collect();
    assert_eq!(copied, [false, true, true]);
}

#[test]
fn a_removal_behind_a_put_in_one_batch_counts() {
    let rig = Rig::roomy();
    rig.write(&[put(&item(1), b"a"), del(&item(1))], 100);
    rig.cache.write_pending();
    assert_eq!(rig.get(&item(1), 100), None);
}

#[test]
fn what_many_find_at_once_is_copied_once() {
    let rig = Rig::roomy();
    rig.write(&[put(&item(1), &[7; 1_000])], 100);
    for seqno in 100..150 {
        rig.cache.note_read(P, &item(1), seqno, &[7; 1_000]);
    }
    rig.cache.write_pending();
    assert_eq!(rig.cache.disk_bytes(), 1_088);
    assert!(rig.get(&item(1), 100).is_some());
}

#[test]
fn what_may_not_have_been_written_is_not_copied() {
    let rig = Rig::roomy();
    rig.cache_value(&item(1), 100, b"old");
    rig.cache.note_writes(rig.cache.prepare_update(&[put(&item(1), b"new")]), 200, false);
    rig.cache.write_pending();
    assert_eq!(rig.get(&item(1), 300), None);
}

#[test]
fn only_items_of_common_size_are_copied() {
    let rig = Rig::roomy();
    assert!(rig.cache.lookup_key(P, &[LOOKED_UP_KEYS.end]).is_none());
    assert!(rig.cache.lookup_key(P, &[]).is_none());
    let (longest, too_long) = (vec![7; VALUE_BYTES_MAX], vec![7; VALUE_BYTES_MAX + 1]);
    rig.write(&[put(&item(1), b""), put(&item(2), &longest), put(&item(3), &too_long)], 100);
    rig.cache.write_pending();
    assert_eq!(rig.get(&item(1), 100).as_deref(), Some(&b""[..]));
    assert_eq!(rig.get(&item(2), 100).as_deref(), Some(&longest[..]));
    assert_eq!(rig.get(&item(3), 100), None);
}

#[test]
fn damage_and_other_keys_with_the_same_hash_are_noticed() {
    let rig = Rig::roomy();
    let (one, other) = (item(1), item(2));
    rig.cache_value(&one, 100, b"value");
    let lookup_key = rig.cache.lookup_key(P, &one).unwrap();
    let location = rig.cache.index.get(lookup_key.hash).unwrap();
    let impostor = LookupKey { k: &other, ..lookup_key };
    assert_eq!(rig.cache.find(impostor, 500), None);
    rig.cache_value(&one, 100, b"value");
    assert!(rig.get(&one, 500).is_some());
    let location_now = rig.cache.index.get(lookup_key.hash).unwrap();
    assert_ne!(location, location_now);
    for at in 0..location_now.bytes() as u64 {
        rig.cache.index.note_copy(lookup_key.hash, 100, location_now);
        assert!(rig.get(&one, 500).is_some());
        let read = rig.cache.files.read(location_now).unwrap();
        let damaged = [read[usize::try_from(at).unwrap()] ^ 1];
        rig.cache.files.overwrite(location_now, at, &damaged);
        assert_eq!(rig.get(&one, 500), None, "byte {at}");
        // Its location was removed, so the file is not read again.
        assert_eq!(rig.cache.index.get(lookup_key.hash), None);
        rig.cache.files.overwrite(location_now, at, &[damaged[0] ^ 1]);
    }
}

#[test]
fn it_takes_no_more_than_it_may_and_keeps_the_newest() {
    let rig = Rig::new(MEGA, MEGA);
    for number in 0..5_000 {
        rig.write(&[put(&item(number), &[7; 1_000])], u64::from(number));
        rig.cache.write_pending();
        assert!(rig.cache.disk_bytes() <= MEGA, "{}", rig.cache.disk_bytes());
    }
    let kept = |number: &u32| rig.get(&item(*number), 9_999).is_some();
    let numbers: Vec<_> = (0..5_000).filter(kept).collect();
    assert!((800..1_000).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers.last(), Some(&4_999));
    // The newest ones, less a few that were evicted from the index.
    let since_first = 5_000 - numbers[0] as usize;
    assert!(numbers.len() * 50 >= since_first * 49, "{} of {since_first}", numbers.len());
}

#[test]
fn it_takes_no_more_than_the_items_of_the_store() {
    const COPY_BYTES: u64 = 1_088;
    let stored = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&stored);
    let rows = Box::new(move || count.load(Ordering::SeqCst));
    let rig = Rig::on(Surroundings { rows, ..roomy() }, 1 << 40, 16 * MEGA);
    let limit = |data_bytes: u64| data_bytes / 32 * 33 + SPARE_BYTES;
    let mut seqno = 0;
    let mut write = |numbers: Range<u32>| {
        seqno += 1;
        let items: Vec<_> = numbers.map(|number| put(&item(number), &[7; 1_000])).collect();
        rig.write(&items, seqno);
        rig.cache.write_pending();
        let data_bytes = stored.load(Ordering::SeqCst) * COPY_BYTES;
        let bytes = rig.cache.disk_bytes();
        assert!(bytes <= limit(data_bytes), "{bytes} of {data_bytes}");
    };
    for hundred in 0..200 {
        stored.store((hundred + 1) * 100, Ordering::SeqCst);
        let first = u32::try_from(hundred).unwrap() * 100;
        write(first..first + 100);
    }
    // All of them are there as long as none was written again.
    assert_eq!(rig.cache.disk_bytes(), 20_000 * COPY_BYTES);
    assert!((0..20_000).filter(|number| rig.get(&item(*number), 999).is_some()).count() > 19_500);
    let mut random = Random::new(1);
    for _ in 0..600 {
        let first = u32::try_from(random.below(19_900)).unwrap();
        write(first..first + 100);
    }
    let found = (0..20_000).filter(|number| rig.get(&item(*number), 9_999).is_some()).count();
    assert!(found > 9_000, "{found} are left of 20000");

    stored.store(10_000, Ordering::SeqCst);
    rig.cache.make_room();
    assert!(rig.cache.disk_bytes() <= limit(10_000 * COPY_BYTES));
    stored.store(0, Ordering::SeqCst);
    rig.cache.make_room();
    assert!((1..=SPARE_BYTES).contains(&rig.cache.disk_bytes()));
}

#[test]
fn places_take_no_more_than_they_may() {
    let cache_index_bytes = 128 << 10;
    let rig = Rig::new(16 * MEGA, cache_index_bytes);
    let most = CacheIndex::bytes_of(cache_index_bytes) / 16;
    assert_eq!(most, 8_192);
    for hundred in 0..300 {
        let small: Vec<_> = (0..100).map(|n| put(&item(hundred * 100 + n), b"small")).collect();
        rig.write(&small, u64::from(hundred));
        rig.cache.write_pending();
    }
    let kept = |number: &u32| rig.get(&item(*number), 99_999).is_some();
    let all = (0..30_000).filter(kept).count() as u64;
    assert!((most / 10 * 9..=most).contains(&all), "{all} of {most}");
    let newest = (25_000..30_000).filter(kept).count();
    assert!(newest > 4_500, "{newest}");
}

#[test]
fn places_are_found_while_their_table_grows() {
    let index = CacheIndex::new(MEGA);
    let location =
        |number: u64| CacheLocation::new(number / 1_000, number % 1_000 * 64, 64).unwrap();
    let hash = |number: u64| xxh3_64(&number.to_be_bytes());
    let mut lost = 0;
    for number in 0..30_000 {
        lost += usize::from(index.note_copy(hash(number), 1, location(number)).is_some());
        if number.is_multiple_of(3) {
            assert!(index.note_write(hash(number), 1).is_some());
            assert_eq!(index.get(hash(number)), None);
        }
    }
    // There is room for three times as many as are left.
    assert!(lost < 1_000, "{lost}");
    let kept = (0..30_000).filter(|n| index.get(hash(*n)) == Some(location(*n))).count();
    assert_eq!(kept + lost, 20_000);
    index.retain(|location| location.file() >= 15);
    let kept = |range: Range<u64>| range.filter(|n| index.get(hash(*n)).is_some());
    assert_eq!(kept(0..15_000).count(), 0);
    assert!(kept(15_000..30_000).count() > 9_000);
}

#[test]
fn files_of_what_was_written_again_go() {
    let rig = Rig::new(16 * MEGA, MEGA);
    rig.write(&[put(&item(0), b"never written again")], 1);
    for round in 0..40_000 {
        rig.write(&[put(&item(1 + round % 10), &[7; 1_000])], u64::from(2 + round));
        rig.cache.write_pending();
    }
    // A file has a megabyte, of which eleven kilobytes are in use.
    assert!(rig.cache.disk_bytes() <= 2 * MEGA, "{}", rig.cache.disk_bytes());
    assert!((1..11).all(|number| rig.get(&item(number), 99_999).is_some()));
}

#[test]
fn without_a_directory_nothing_is_copied_and_nothing_fails() {
    let rig = Rig::roomy();
    let nowhere = rig._directory.path().join("nowhere");
    let cache = FileLookupCache::new(&nowhere, &options(16 * MEGA, MEGA), roomy());
    cache.pending.open();
    for round in 0..3 {
        cache.note_writes(cache.prepare_update(&[put(&item(1), b"v")]), 100 + round, true);
        cache.write_pending();
        assert_eq!(cache.get(P, &item(1), 500), None);
    }
    assert_eq!(cache.disk_bytes(), 0);
}

#[test]
fn a_file_that_cannot_be_written_ends_all_copies() {
    let rig = Rig::roomy();
    rig.cache_value(&item(1), 100, b"v");
    rig.cache.files.make_unwritable();
    rig.cache_value(&item(2), 100, b"v");
    assert_eq!(rig.get(&item(1), 500), None);
    assert_eq!(rig.get(&item(2), 500), None);
    assert_eq!(rig.cache.disk_bytes(), 0);
    rig.cache_value(&item(3), 100, b"v");
    assert_eq!(rig.get(&item(3), 500), None);
}

#[test]
fn places_know_their_limits() {
    let location = CacheLocation::new((1 << 28) - 1, (1 << 30) - 64, 4_095 * 64).unwrap();
    assert_eq!((location.file(), location.offset()), ((1 << 28) - 1, (1 << 30) - 64));
    assert_eq!(location.bytes(), 4_095 * 64);
    assert_eq!(CacheLocation::new(1 << 28, 0, 64), None);
    assert_eq!(CacheLocation::new(0, 1 << 30, 64), None);
    assert_eq!(CacheLocation::new(0, 0, 4_096 * 64), None);
    let longest = HEADER_BYTES + crate::KEY_BYTES_MAX + VALUE_BYTES_MAX;
    assert!(CacheLocation::new(0, 0, longest).is_some(), "every copy has a place");
}

#[test]
fn what_comes_too_fast_is_left_out() {
    let rig = Rig::roomy();
    for number in 0..400 {
        rig.write(&[put(&item(number), &[7; 60_000])], u64::from(number));
    }
    rig.cache.write_pending();
    let copied = (0..400).filter(|number| rig.get(&item(*number), 999).is_some()).count();
    assert!((100..300).contains(&copied), "{copied}");
}

#[test]
fn copies_give_way_when_others_fill_the_disk() {
    let free = Arc::new(AtomicU64::new(ROOMY.free_bytes));
    let look = Arc::clone(&free);
    let room = move || Some(Room { free_bytes: look.load(Ordering::SeqCst), ..ROOMY });
    let rig = Rig::on(Surroundings { room: Box::new(room), ..roomy() }, 16 * MEGA, MEGA);
    for number in 0..100 {
        rig.cache_value(&item(number), 1, &[7; 50_000]);
    }
    let bytes = rig.cache.disk_bytes();
    assert!(bytes > 4 * MEGA, "{bytes}");
    free.store(2 * ROOMY.floor_bytes, Ordering::SeqCst);
    rig.cache.make_room();
    assert_eq!(rig.cache.disk_bytes(), bytes, "there is room");

    free.store(2 * ROOMY.floor_bytes - MEGA, Ordering::SeqCst);
    rig.cache.make_room();
    let given = bytes - rig.cache.disk_bytes();
    assert!((MEGA..2 * MEGA).contains(&given), "{given}");
    assert_eq!(rig.get(&item(0), 1), None);
    assert!(rig.get(&item(99), 1).is_some());

    free.store(0, Ordering::SeqCst);
    rig.cache.make_room();
    assert_eq!(rig.cache.disk_bytes(), 0);
    rig.cache_value(&item(200), 1, b"v");
    assert_eq!(rig.get(&item(200), 1), None, "and no file is begun");
}
