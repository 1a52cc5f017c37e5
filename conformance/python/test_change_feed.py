"""The change feed: latest versions, all versions and deletes, every start and every scope."""

import asyncio
import time
from datetime import datetime, timedelta, timezone

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.partition_key import NonePartitionKeyValue

from support import collect, done, page_list, refused

THROUGHPUTS = {"one-range": 400, "five-ranges": 30_000}
LATEST = "LatestVersion"
ALL_VERSIONS = "AllVersionsAndDeletes"


pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")


@pytest.fixture(params=THROUGHPUTS.values(), ids=THROUGHPUTS.keys())
async def spread(request, make_container):
    return await make_container(offer_throughput=request.param)


@pytest.fixture(params=THROUGHPUTS.values(), ids=THROUGHPUTS.keys())
async def versioned(request, make_container):
    return await make_container(offer_throughput=request.param, change_feed_policy={"retentionDuration": 10})


async def changes(container, **options):
    """Everything a feed has to say, and where to go on."""
    items = await collect(container.query_items_change_feed(**options))
    return items, container.client_connection.last_response_headers["etag"]


async def create(container, *ids, key=None):
    for id in ids:
        await done(container.create_item({"id": id, "pk": key or f"p{id}"}))


def ids(items):
    return [item["id"] for item in items]


def events(items):
    """Operation and id of what the feed of all versions shows."""
    found = []
    for item in items:
        metadata = item["metadata"]
        id = metadata["id"] if metadata["operationType"] == "delete" else item["current"]["id"]
        found.append((metadata["operationType"], id))
    return found


async def test_latest_versions_from_the_beginning(spread):
    assert (await changes(spread, start_time="Beginning"))[0] == []
    await create(spread, "a", "b", "c", "d")
    await done(spread.upsert_item({"id": "a", "pk": "pa", "again": True}))
    await done(spread.delete_item("b", "pb"))
    items, _ = await changes(spread, start_time="Beginning")
    assert sorted(ids(items)) == ["a", "c", "d"]
    a = next(item for item in items if item["id"] == "a")
    read = await done(spread.read_item("a", "pa"))
    assert a == {**read, "_lsn": a["_lsn"]}
    assert isinstance(a["_lsn"], int)


async def test_one_key_is_read_in_order_and_page_by_page(spread):
    await create(spread, *[f"{n:02}" for n in range(25)], key="a")
    await create(spread, "other", key="b")
    expected = [f"{n:02}" for n in range(25)]
    for size in (1, 7, 100):
        feed = spread.query_items_change_feed(start_time="Beginning", partition_key="a", max_item_count=size)
        pages, _ = await page_list(feed)
        assert [item["id"] for page in pages for item in page] == expected
        assert all(len(page) <= size for page in pages)


async def test_now_shows_only_what_comes(spread):
    await create(spread, "old")
    items, etag = await changes(spread, start_time="Now")
    assert items == []
    await create(spread, "new", "newer")
    items, etag = await changes(spread, continuation=etag)
    assert sorted(ids(items)) == ["new", "newer"]
    items, etag = await changes(spread, continuation=etag)
    assert items == []
    await create(spread, "newest")
    assert ids((await changes(spread, continuation=etag))[0]) == ["newest"]


async def test_a_point_in_time(spread):
    await create(spread, "before")
    written = (await done(spread.read_item("before", "pbefore")))["_ts"]
    while time.time() < written + 2:
        await asyncio.sleep(0.1)
    await create(spread, "after")
    start = datetime.fromtimestamp(written, tz=timezone.utc)
    assert ids((await changes(spread, start_time=start))[0]) == ["after"]
    earlier = start - timedelta(seconds=5)
    assert sorted(ids((await changes(spread, start_time=earlier))[0])) == ["after", "before"]
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    assert (await changes(spread, start_time=later))[0] == []


async def test_feed_ranges_share_the_changes(spread):
    await create(spread, *[str(n) for n in range(40)])
    ranges = await collect(spread.read_feed_ranges())
    shares = [ids((await changes(spread, start_time="Beginning", feed_range=range))[0]) for range in ranges]
    together = [id for share in shares for id in share]
    assert sorted(together, key=int) == [str(n) for n in range(40)]
    assert len(ranges) == 1 or sum(1 for share in shares if share) > 1


async def test_feed_range_of_a_key_is_part_of_one_range(spread):
    await create(spread, "1", "2")
    own = await done(spread.feed_range_from_partition_key("p1"))
    ranges = await collect(spread.read_feed_ranges())
    inside = [await done(spread.is_feed_range_subset(range, own)) for range in ranges]
    assert inside.count(True) == 1
    assert await done(spread.is_feed_range_subset(own, ranges[0])) is False
    assert ids((await changes(spread, start_time="Beginning", feed_range=own))[0]) == ["1"]


async def test_latest_session_token_of_a_feed_range(spread):
    own = await done(spread.feed_range_from_partition_key("a"))
    tokens = []
    for id in ("1", "2"):
        written = await done(spread.create_item({"id": id, "pk": "a"}))
        tokens.append((own, written.get_response_headers()["x-ms-session-token"]))
    latest = await done(spread.get_latest_session_token(tokens, own))
    assert latest == tokens[1][1]
    assert (await done(spread.read_item("2", "a", session_token=latest)))["id"] == "2"


async def test_prefix_of_a_hierarchical_key(make_container):
    container = await make_container(PartitionKey(path=["/a", "/b"], kind="MultiHash"), offer_throughput=30_000)
    for id, a, b in (("1", "x", "1"), ("2", "x", "2"), ("3", "y", "1")):
        await done(container.create_item({"id": id, "a": a, "b": b}))
    items, etag = await changes(container, start_time="Beginning", partition_key=["x"])
    assert sorted(ids(items)) == ["1", "2"]
    await done(container.create_item({"id": "4", "a": "x", "b": "1"}))
    await done(container.create_item({"id": "5", "a": "y", "b": "1"}))
    assert ids((await changes(container, continuation=etag))[0]) == ["4"]
    assert ids((await changes(container, start_time="Beginning", partition_key=["x", "2"]))[0]) == ["2"]


@pytest.mark.parametrize("key", ["text", 5, 1.5, True, NonePartitionKeyValue])
async def test_keys_of_every_kind(spread, key):
    await done(spread.create_item({"id": "1"} if key is NonePartitionKeyValue else {"id": "1", "pk": key}))
    await create(spread, "2", key="another")
    assert ids((await changes(spread, start_time="Beginning", partition_key=key))[0]) == ["1"]


async def test_a_transaction_is_read_as_one(container):
    batch = [("create", ({"id": str(n), "pk": "a"},)) for n in range(5)]
    await done(container.execute_item_batch(batch, "a"))
    pages, _ = await page_list(container.query_items_change_feed(start_time="Beginning", max_item_count=2))
    assert [len(page) for page in pages if page] == [5]


async def test_an_expired_item_is_not_shown(make_container):
    container = await make_container(default_ttl=-1)
    await done(container.create_item({"id": "short", "pk": "a", "ttl": 1}))
    await create(container, "long", key="a")
    end = time.monotonic() + 15
    while ids((await changes(container, start_time="Beginning"))[0]) != ["long"]:
        assert time.monotonic() < end
        await asyncio.sleep(0.1)


async def test_positions_outlive_splits(make_container):
    container = await make_container(offer_throughput=400, change_feed_policy={"retentionDuration": 10})
    await create(container, *[f"a{n}" for n in range(20)])
    latest = (await changes(container, start_time="Beginning"))[1]
    versions = (await changes(container, mode=ALL_VERSIONS))[1]
    await done(container.replace_throughput(25_000))
    end = time.monotonic() + 60
    while len(await collect(container.read_feed_ranges(force_refresh=True))) < 3:
        assert time.monotonic() < end
        await asyncio.sleep(0.2)
    expected = [f"b{n}" for n in range(20)]
    await create(container, *expected)
    items, latest = await changes(container, continuation=latest)
    assert sorted(ids(items)) == sorted(expected)
    items, _ = await changes(container, continuation=versions)
    assert sorted(events(items)) == sorted(("create", id) for id in expected)
    assert (await changes(container, continuation=latest))[0] == []


async def test_all_versions_and_deletes(versioned):
    items, etag = await changes(versioned, mode=ALL_VERSIONS)
    assert items == []
    created = await done(versioned.create_item({"id": "1", "pk": "a"}))
    replaced = await done(versioned.replace_item("1", {"id": "1", "pk": "a", "n": 1}))
    patched = await done(versioned.patch_item("1", "a", [{"op": "incr", "path": "/n", "value": 1}]))
    await done(versioned.delete_item("1", "a"))
    upserted = await done(versioned.upsert_item({"id": "1", "pk": "a"}))
    items, etag = await changes(versioned, continuation=etag, max_item_count=2)
    assert [item["metadata"]["operationType"] for item in items] == ["create", "replace", "replace", "delete", "create"]
    assert [item["current"] for item in items] == [created, replaced, patched, {}, upserted]
    assert [item.get("previous") for item in items] == [None, None, None, patched, None]
    metadata = [item["metadata"] for item in items]
    lsns = [of["lsn"] for of in metadata]
    assert lsns == sorted(set(lsns))
    assert "previousImageLSN" not in metadata[0] and "previousImageLSN" not in metadata[4]
    assert [of["previousImageLSN"] for of in metadata[1:4]] == lsns[:3]
    assert [of["crts"] for of in metadata] == [created["_ts"], replaced["_ts"], patched["_ts"], metadata[3]["crts"], upserted["_ts"]]
    assert metadata[3]["id"] == "1" and metadata[3]["partitionKey"] == {"pk": "a"}
    assert metadata[3]["timeToLiveExpired"] is False
    assert (await changes(versioned, continuation=etag))[0] == []


async def test_all_versions_of_one_key_and_of_a_range(versioned):
    _, of_key = await changes(versioned, mode=ALL_VERSIONS, partition_key="pa")
    ranges = await collect(versioned.read_feed_ranges())
    of_ranges = [(await changes(versioned, mode=ALL_VERSIONS, feed_range=range))[1] for range in ranges]
    await create(versioned, "a", "b", "c")
    await done(versioned.delete_item("a", "pa"))
    assert events((await changes(versioned, continuation=of_key))[0]) == [("create", "a"), ("delete", "a")]
    seen = [event for etag in of_ranges for event in events((await changes(versioned, continuation=etag))[0])]
    assert sorted(seen) == [("create", "a"), ("create", "b"), ("create", "c"), ("delete", "a")]


async def test_expiry_shows_as_a_delete(make_container):
    container = await make_container(default_ttl=-1, change_feed_policy={"retentionDuration": 10})
    _, etag = await changes(container, mode=ALL_VERSIONS)
    await done(container.create_item({"id": "short", "pk": "a", "ttl": 1}))
    seen = []
    end = time.monotonic() + 30
    while len(seen) < 2:
        assert time.monotonic() < end
        items, etag = await changes(container, continuation=etag)
        seen += items
        await asyncio.sleep(0.1)
    assert events(seen) == [("create", "short"), ("delete", "short")]
    assert seen[1]["metadata"]["timeToLiveExpired"] is True


async def test_all_versions_need_the_policy(container, versioned):
    with refused(400, text="must be enabled") as refusal:
        await changes(container, mode=ALL_VERSIONS)
    assert "All Versions and Deletes" in refusal.text
    assert "changeFeedPolicy" not in await done(container.read())
    assert (await done(versioned.read()))["changeFeedPolicy"] == {"retentionDuration": 10}


@pytest.mark.parametrize("minutes", [-1, 1.5, "10", 2**31])
async def test_bad_retentions_are_refused(make_container, minutes):
    with refused(400):
        await make_container(change_feed_policy={"retentionDuration": minutes})


async def test_etags_of_one_range_are_positions(container):
    await create(container, "1")
    _, etag = await changes(container, partition_key_range_id="0", is_start_from_beginning=True)
    position = (await done(container.read_item("1", "p1"))).get_response_headers()["lsn"]
    assert etag == f'"{position}"'
    await create(container, "2")
    assert ids((await changes(container, partition_key_range_id="0", continuation=etag))[0]) == ["2"]
    with refused(400):
        await changes(container, partition_key_range_id="0", continuation='"99999999999999999999"')
