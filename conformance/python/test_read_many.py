"""read_items: many point reads in as few requests as the SDK sees fit."""

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.partition_key import NonePartitionKeyValue

from support import by_id, done


async def seed(container, count, **properties):
    for number in range(count):
        await done(container.create_item({"id": f"i{number}", "pk": f"p{number % 7}", "n": number, **properties}))


async def read(container, wanted, **options):
    return await done(container.read_items(items=wanted, **options))


async def test_nothing_wanted(container):
    assert await read(container, []) == []


async def test_one_item(container):
    await seed(container, 1)
    assert [item["n"] for item in await read(container, [("i0", "p0")])] == [0]


@pytest.mark.parametrize("throughput", [400, 30_000], ids=["one-range", "five-ranges"])
async def test_many_items_over_partitions(make_container, throughput):
    container = await make_container(offer_throughput=throughput)
    await seed(container, 40)
    found = await read(container, [(f"i{number}", f"p{number % 7}") for number in range(0, 40, 2)])
    assert {item["n"] for item in found} == set(range(0, 40, 2))
    assert float(found.get_response_headers()["x-ms-request-charge"]) > 0


async def test_missing_items_are_left_out(container):
    await seed(container, 3)
    found = await read(container, [("i0", "p0"), ("i0", "p1"), ("absent", "p0"), ("i2", "p2")])
    assert set(by_id(found)) == {"i0", "i2"}


async def test_key_is_the_id(make_container):
    container = await make_container(PartitionKey(path="/id"))
    for number in range(10):
        await done(container.create_item({"id": f"i{number}"}))
    found = await read(container, [(f"i{number}", f"i{number}") for number in range(5)])
    assert set(by_id(found)) == {f"i{number}" for number in range(5)}


async def test_mixed_key_types(container):
    keys = ["text", 5, 5.5, True, "", "ünïcode"]
    for number, key in enumerate(keys):
        await done(container.create_item({"id": f"i{number}", "pk": key}))
    await done(container.create_item({"id": f"i{len(keys)}"}))
    keys.append(NonePartitionKeyValue)
    found = await read(container, [(f"i{number}", key) for number, key in enumerate(keys)])
    assert len(found) == len(keys)


async def test_hierarchical_keys(make_container):
    container = await make_container(PartitionKey(path=["/t", "/u"], kind="MultiHash"))
    for number in range(12):
        await done(container.create_item({"id": f"i{number}", "t": f"t{number % 3}", "u": number}))
    found = await read(container, [(f"i{number}", [f"t{number % 3}", number]) for number in range(6)])
    assert {item["u"] for item in found} == set(range(6))
