"""Physical partitions as the SDK sees them."""

import pytest
from azure.cosmos import PartitionKey, ThroughputProperties

from support import collect, done

RANGES = {400: 1, 6000: 1, 6100: 2, 12_000: 2, 30_000: 5}


async def ranges(container):
    return await collect(container.read_feed_ranges())


@pytest.mark.parametrize("throughput, count", RANGES.items())
async def test_throughput_decides_the_number_of_ranges(make_container, throughput, count):
    assert len(await ranges(await make_container(offer_throughput=throughput))) == count


async def test_autoscale_maximum_decides_the_number_of_ranges(make_container):
    wanted = ThroughputProperties(auto_scale_max_throughput=30_000)
    assert len(await ranges(await make_container(offer_throughput=wanted))) == 5


@pytest.mark.parametrize(
    "definition",
    [
        {"paths": ["/pk"], "kind": "Hash"},
        {"paths": ["/pk"], "kind": "Hash", "version": 2},
        {"paths": ["/pk", "/sub"], "kind": "MultiHash", "version": 2},
    ],
    ids=["v1", "v2", "multihash"],
)
async def test_ranges_partition_the_items(make_container, definition):
    container = await make_container(definition, offer_throughput=30_000)
    keys = [f"key{number}" for number in range(60)] + list(range(20)) + [True, False, None, 0.5]
    for number, key in enumerate(keys):
        await done(container.create_item({"id": str(number), "pk": key, "sub": number}))
    seen = []
    occupied = 0
    for feed_range in await ranges(container):
        found = await collect(container.query_items("SELECT * FROM c", feed_range=feed_range))
        occupied += bool(found)
        seen += [item["id"] for item in found]
    assert sorted(seen, key=int) == [str(number) for number in range(len(keys))]
    assert occupied == 5


async def test_key_feed_range_lies_in_one_range_and_holds_its_items(make_container):
    container = await make_container(offer_throughput=30_000)
    for number in range(10):
        await done(container.create_item({"id": str(number), "pk": f"p{number % 2}"}))
    of_key = await done(container.feed_range_from_partition_key("p1"))
    holders = [
        feed_range
        for feed_range in await ranges(container)
        if await done(container.is_feed_range_subset(feed_range, of_key))
    ]
    assert len(holders) == 1
    found = await collect(container.query_items("SELECT * FROM c", feed_range=of_key))
    assert {item["pk"] for item in found} == {"p1"} and len(found) == 5


async def test_items_name_the_range_that_served_them(make_container):
    container = await make_container(offer_throughput=30_000)
    served = set()
    for number in range(40):
        created = await done(container.create_item({"id": str(number), "pk": f"p{number}"}))
        served.add(created.get_response_headers()["x-ms-documentdb-partitionkeyrangeid"])
    assert served == {"0", "1", "2", "3", "4"}


async def test_key_is_the_id_over_ranges(make_container):
    container = await make_container(PartitionKey(path="/id"), offer_throughput=12_000)
    for number in range(30):
        await done(container.create_item({"id": f"i{number}"}))
    for number in range(30):
        assert (await done(container.read_item(f"i{number}", f"i{number}")))["id"] == f"i{number}"
    assert len(await collect(container.read_all_items())) == 30
