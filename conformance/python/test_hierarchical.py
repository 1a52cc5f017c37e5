"""Hierarchical partition keys: full keys for items, prefixes for queries."""

import pytest
from azure.cosmos import PartitionKey

from support import by_id, collect, cross_partition, done, refused

THREE = PartitionKey(path=["/tenant", "/user", "/session"], kind="MultiHash")


def item(tenant, user, session):
    return {"id": f"{tenant}.{user}.{session}", "tenant": tenant, "user": user, "session": session}


@pytest.fixture(params=[400, 30_000], ids=["one-range", "five-ranges"])
async def container(request, make_container):
    created = await make_container(THREE, offer_throughput=request.param)
    for tenant in ("t1", "t2", "t3"):
        for user in range(3):
            for session in (True, False):
                await done(created.create_item(item(tenant, user, session)))
    return created


async def query(container, partition_key):
    return by_id(await collect(container.query_items("SELECT * FROM c", partition_key=partition_key)))


async def test_definition_reads_back(container):
    definition = (await done(container.read()))["partitionKey"]
    assert definition == {"paths": ["/tenant", "/user", "/session"], "kind": "MultiHash", "version": 2}


async def test_full_key_addresses_one_item(container):
    key = ["t1", 2, True]
    read = await done(container.read_item("t1.2.True", key))
    assert (read["tenant"], read["user"], read["session"]) == ("t1", 2, True)
    await done(container.replace_item("t1.2.True", {**item("t1", 2, True), "n": 1}))
    assert (await done(container.patch_item("t1.2.True", key, [{"op": "incr", "path": "/n", "value": 1}])))["n"] == 2
    with refused(404):
        await done(container.read_item("t1.2.True", ["t1", 2, False]))
    await done(container.delete_item("t1.2.True", key))
    with refused(404):
        await done(container.read_item("t1.2.True", key))


async def test_prefixes_scope_a_query(container):
    assert len(await query(container, ["t1"])) == 6
    assert set(await query(container, ["t2", 1])) == {"t2.1.True", "t2.1.False"}
    assert set(await query(container, ["t3", 0, False])) == {"t3.0.False"}
    assert await query(container, ["absent"]) == {}


async def test_whole_container(container):
    everything = await collect(container.query_items("SELECT * FROM c", **cross_partition(container)))
    assert len(everything) == 18


async def test_prefix_is_not_enough_for_an_item(container):
    def prefix(request):
        request.http_request.headers["x-ms-documentdb-partitionkey"] = '["t1",2]'

    with refused(400, substatus=1001):
        await done(container.read_item("t1.2.True", ["t1", 2, True], raw_request_hook=prefix))


async def test_too_many_components_are_refused(container):
    def excess(request):
        request.http_request.headers["x-ms-documentdb-partitionkey"] = '["t1",2,true,4]'

    with refused(400):
        await done(container.read_item("t1.2.True", ["t1", 2, True], raw_request_hook=excess))


async def test_delete_by_key_needs_the_full_key(container):
    await done(container.delete_all_items_by_partition_key(["t1", 0, True]))
    assert set(await query(container, ["t1", 0])) == {"t1.0.False"}


async def test_two_levels_with_awkward_values(make_container):
    container = await make_container(PartitionKey(path=["/a", "/b"], kind="MultiHash"))
    keys = [["x", None], ["x", ""], ["x", 0], ["x", False], ["", "x"], [None, None], [5, "ü"]]
    for number, (a, b) in enumerate(keys):
        await done(container.create_item({"id": str(number), "a": a, "b": b}))
    for number, key in enumerate(keys):
        assert (await done(container.read_item(str(number), key)))["id"] == str(number)
    assert len(await query(container, ["x"])) == 4
