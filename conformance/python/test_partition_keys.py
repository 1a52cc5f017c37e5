"""Partition key values of every type, on V1 and V2 keys, and keys that do not fit."""

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from support import collect, done, new_id, refused

VERSIONS = {"v1": {"paths": ["/pk"], "kind": "Hash"}, "v2": {"paths": ["/pk"], "kind": "Hash", "version": 2}}

VALUES = {
    "text": "text",
    "empty": "",
    "unicode": "café 東京 🚀",
    "quotes": 'say "hi" \\ there',
    "99": "a" * 99,
    "100": "a" * 100,
    "101": "a" * 101,
    "1024": "a" * 1024,
    "2048": "a" * 2048,
    "zero": 0,
    "int": 5,
    "negative": -128,
    "float": 5.5,
    "precise": 5.123124190509124,
    "int32-max": 2**31 - 1,
    "2-to-53": 2**53,
    "large": 1.7976931348623157e308,
    "small": 5e-324,
    "true": True,
    "false": False,
}


@pytest.fixture(params=VERSIONS, scope="module")
async def keyed(request, database):
    return await done(database.create_container(new_id(request.param), VERSIONS[request.param]))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_every_operation_with_a_key_of_this_type(keyed, value):
    await done(keyed.create_item({"id": "1", "pk": value, "n": 1}))
    assert (await done(keyed.read_item("1", value)))["pk"] == value
    assert (await done(keyed.replace_item("1", {"id": "1", "pk": value, "n": 2})))["n"] == 2
    assert (await done(keyed.upsert_item({"id": "1", "pk": value, "n": 3})))["n"] == 3
    patched = await done(keyed.patch_item("1", value, [{"op": "incr", "path": "/n", "value": 1}]))
    assert patched["n"] == 4
    assert [item["n"] for item in await collect(keyed.query_items("SELECT * FROM c", partition_key=value))] == [4]
    await done(keyed.execute_item_batch([("upsert", ({"id": "2", "pk": value},))], value))
    await done(keyed.delete_item("1", value))
    with refused(404):
        await done(keyed.read_item("1", value))
    await done(keyed.delete_all_items_by_partition_key(value))
    assert await collect(keyed.query_items("SELECT * FROM c", partition_key=value)) == []


@pytest.mark.parametrize("key", [NonePartitionKeyValue, NullPartitionKeyValue], ids=["undefined", "null"])
async def test_undefined_and_null_keys(keyed, key):
    body = {"id": "1", "n": 1}
    if key is NullPartitionKeyValue:
        body["pk"] = None
    await done(keyed.create_item(body))
    assert (await done(keyed.read_item("1", key)))["n"] == 1
    assert (await done(keyed.replace_item("1", {**body, "n": 2})))["n"] == 2
    assert (await done(keyed.upsert_item({**body, "n": 3})))["n"] == 3
    assert (await done(keyed.patch_item("1", key, [{"op": "set", "path": "/n", "value": 4}])))["n"] == 4
    found = await collect(keyed.query_items("SELECT * FROM c", partition_key=key))
    assert [item["n"] for item in found] == [4]
    await done(keyed.delete_item("1", key))
    with refused(404):
        await done(keyed.read_item("1", key))


async def test_null_undefined_empty_and_zero_are_four_partitions(container):
    await done(container.create_item({"id": "1", "is": "undefined"}))
    await done(container.create_item({"id": "1", "pk": None, "is": "null"}))
    await done(container.create_item({"id": "1", "pk": "", "is": "empty"}))
    await done(container.create_item({"id": "1", "pk": 0, "is": "zero"}))
    keys = {"undefined": NonePartitionKeyValue, "null": NullPartitionKeyValue, "empty": "", "zero": 0}
    for name, key in keys.items():
        assert (await done(container.read_item("1", key)))["is"] == name


async def test_equal_numbers_are_one_key(container):
    await done(container.create_item({"id": "1", "pk": 1}))
    assert (await done(container.read_item("1", 1.0)))["pk"] == 1
    with refused(409):
        await done(container.create_item({"id": "1", "pk": 1.0}))


async def test_number_and_text_are_two_keys(container):
    await done(container.create_item({"id": "1", "pk": 1}))
    with refused(404):
        await done(container.read_item("1", "1"))


@pytest.mark.parametrize("body", [{"pk": {"x": 1}}, {}], ids=["object", "missing"])
async def test_key_path_without_a_scalar_is_undefined(container, body):
    await done(container.create_item({"id": "1", **body}))
    assert (await done(container.read_item("1", NonePartitionKeyValue)))["id"] == "1"


async def test_too_long_key_is_refused(keyed):
    with refused(400):
        await done(keyed.create_item({"id": "long", "pk": "a" * 2049}))


async def test_replace_keeps_the_key(container):
    """The SDK takes the key of a replace from the new body, so a moved item is simply not there."""
    await done(container.create_item({"id": "1", "pk": "a"}))
    with refused(404):
        await done(container.replace_item("1", {"id": "1", "pk": "b"}))

    def keep_old_key(request):
        request.http_request.headers["x-ms-documentdb-partitionkey"] = '["a"]'

    with refused(400, substatus=1001):
        await done(container.replace_item("1", {"id": "1", "pk": "b"}, raw_request_hook=keep_old_key))
    assert (await done(container.read_item("1", "a")))["pk"] == "a"


async def test_header_that_contradicts_the_body_is_refused(container):
    def other_key(request):
        request.http_request.headers["x-ms-documentdb-partitionkey"] = '["b"]'

    with refused(400, substatus=1001, text="PartitionKey extracted from document doesn't match"):
        await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=other_key))
    assert await collect(container.read_all_items()) == []


@pytest.mark.parametrize("header", ['["a","b"]', "[]", '[["a"]]', '[{"x":1}]', "a", '{"a":1}'])
async def test_malformed_key_header_is_refused(container, header):
    await done(container.create_item({"id": "1", "pk": "a"}))

    def malformed(request):
        request.http_request.headers["x-ms-documentdb-partitionkey"] = header

    with refused(400):
        await done(container.read_item("1", "a", raw_request_hook=malformed))


async def test_nested_key_path(make_container):
    container = await make_container(PartitionKey(path="/address/zip"))
    await done(container.create_item({"id": "1", "address": {"zip": "98052"}}))
    assert (await done(container.read_item("1", "98052")))["address"]["zip"] == "98052"
    await done(container.create_item({"id": "2", "address": "flat"}))
    assert (await done(container.read_item("2", NonePartitionKeyValue)))["address"] == "flat"


async def test_quoted_key_path(make_container):
    container = await make_container(PartitionKey(path='/"first level\' 1*()"/"le/vel2"'))
    await done(container.create_item({"id": "1", "first level' 1*()": {"le/vel2": "v"}}))
    assert (await done(container.read_item("1", "v")))["id"] == "1"


async def test_container_without_a_key_is_a_fixed_one(database):
    """Containers of old API versions have no partition key; newer clients see a system key."""

    def old_version(request):
        request.http_request.headers["x-ms-version"] = "2018-06-18"

    name = new_id("fixed")
    await done(database.create_container(name, None, raw_request_hook=old_version))
    container = database.get_container_client(name)
    properties = await done(container.read())
    assert properties["partitionKey"]["paths"] == ["/_partitionKey"]
    assert properties["partitionKey"]["systemKey"] is True
    await done(container.create_item({"id": "1", "n": 1}))
    assert (await done(container.read_item("1", NonePartitionKeyValue)))["n"] == 1
    with refused(409):
        await done(container.create_item({"id": "1", "n": 2}))
    assert (await done(container.replace_item("1", {"id": "1", "n": 3})))["n"] == 3
    assert (await done(container.upsert_item({"id": "2", "n": 4})))["n"] == 4
    operations = [{"op": "incr", "path": "/n", "value": 1}]
    assert (await done(container.patch_item("2", NonePartitionKeyValue, operations)))["n"] == 5
    await done(container.execute_item_batch([("create", ({"id": "3"},))], NonePartitionKeyValue))
    assert len(await collect(container.read_all_items())) == 3
    await done(container.delete_item("1", NonePartitionKeyValue))
    with refused(404):
        await done(container.read_item("1", NonePartitionKeyValue))
