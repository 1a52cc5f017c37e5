"""Transactional batches: all or nothing."""

from copy import deepcopy

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosBatchOperationError

from support import collect, done, refused, session_token, token_lsn

STALE = '"00000000-0000-0000-0000-000000000000"'


def item(id, **properties):
    return {"id": id, "pk": "a", **properties}


async def run(container, *operations, partition_key="a", **options):
    return await done(container.execute_item_batch(list(operations), partition_key, **options))


async def failed(container, *operations, partition_key="a"):
    """The statuses of a batch that must fail, and the error."""
    with pytest.raises(CosmosBatchOperationError) as caught:
        await run(container, *operations, partition_key=partition_key)
    return [response["statusCode"] for response in caught.value.operation_responses], caught.value


async def ids(container):
    return sorted(entry["id"] for entry in await collect(container.read_all_items()))


async def test_every_operation_in_one_batch(container):
    for number in range(4):
        await done(container.create_item(item(f"old{number}", n=number)))
    results = await run(
        container,
        ("create", (item("new"),)),
        ("upsert", (item("up"),)),
        ("upsert", (item("old0", n=10),)),
        ("replace", ("old1", item("old1", n=11))),
        ("patch", ("old2", [{"op": "incr", "path": "/n", "value": 10}])),
        ("read", ("old2",)),
        ("delete", ("old3",)),
    )
    assert [result["statusCode"] for result in results] == [201, 201, 200, 200, 200, 200, 204]
    assert results[5]["resourceBody"]["n"] == 12
    assert all(result["requestCharge"] > 0 for result in results)
    assert results[0]["eTag"] == results[0]["resourceBody"]["_etag"]
    assert "resourceBody" not in results[6]
    assert await ids(container) == ["new", "old0", "old1", "old2", "up"]
    headers = results.get_response_headers()
    assert float(headers["x-ms-request-charge"]) > 0


async def test_operations_see_earlier_ones(container):
    results = await run(
        container,
        ("create", (item("1", n=1),)),
        ("patch", ("1", [{"op": "incr", "path": "/n", "value": 1}])),
        ("replace", ("1", item("1", n=7))),
        ("read", ("1",)),
        ("delete", ("1",)),
        ("create", (item("1", n=9),)),
    )
    assert [result["statusCode"] for result in results] == [201, 200, 200, 200, 204, 201]
    assert results[3]["resourceBody"]["n"] == 7
    assert (await done(container.read_item("1", "a")))["n"] == 9


async def test_failure_rolls_everything_back(container):
    statuses, error = await failed(container, ("create", (item("1"),)), ("delete", ("absent",)))
    assert statuses == [424, 404]
    assert error.error_index == 1 and error.status_code == 404
    assert await ids(container) == []


async def test_failure_in_the_middle(container):
    await done(container.create_item(item("taken", n=1)))
    statuses, error = await failed(
        container,
        ("replace", ("taken", item("taken", n=2))),
        ("create", (item("1"),)),
        ("create", (item("taken"),)),
        ("create", (item("2"),)),
    )
    assert statuses == [424, 424, 409, 424]
    assert error.error_index == 2
    assert await ids(container) == ["taken"]
    assert (await done(container.read_item("taken", "a")))["n"] == 1


async def test_second_create_of_an_id_conflicts(container):
    statuses, _ = await failed(container, ("create", (item("1"),)), ("create", (item("1"),)))
    assert statuses == [424, 409]
    assert await ids(container) == []


FAILING = {
    "replace-missing": (("replace", ("absent", item("absent"))), 404),
    "read-missing": (("read", ("absent",)), 404),
    "patch-missing": (("patch", ("absent", [{"op": "set", "path": "/n", "value": 1}])), 404),
    "bad-patch": (("patch", ("old", [{"op": "remove", "path": "/absent"}])), 400),
    "false-patch-condition": (
        ("patch", ("old", [{"op": "set", "path": "/n", "value": 1}]), {"filter_predicate": "from c where c.n = 5"}),
        412,
    ),
    "stale-replace": (("replace", ("old", item("old")), {"if_match_etag": STALE}), 412),
    "stale-upsert": (("upsert", (item("old"),), {"if_match_etag": STALE}), 412),
    "stale-delete": (("delete", ("old",), {"if_match_etag": STALE}), 412),
    "other-partition": (("create", ({"id": "x", "pk": "b"},)), 400),
    "no-id": (("create", ({"pk": "a"},)), 400),
}


@pytest.mark.parametrize("operation, status", FAILING.values(), ids=FAILING)
async def test_each_failure(container, operation, status):
    old = await done(container.create_item(item("old", n=1)))
    # The SDK empties the options of an operation, which the other variants still need.
    statuses, _ = await failed(container, ("create", (item("1"),)), deepcopy(operation))
    assert statuses == [424, status]
    assert await ids(container) == ["old"]
    assert await done(container.read_item("old", "a")) == old


async def test_matching_conditions_pass(container):
    old = await done(container.create_item(item("old", n=1)))
    results = await run(
        container,
        ("replace", ("old", item("old", n=2)), {"if_match_etag": old["_etag"]}),
        (
            "patch",
            ("old", [{"op": "incr", "path": "/n", "value": 1}]),
            {"filter_predicate": "from c where c.n = 2"},
        ),
    )
    assert [result["statusCode"] for result in results] == [200, 200]
    assert results[1]["resourceBody"]["n"] == 3


async def test_not_modified_read_does_not_fail_the_batch(container):
    old = await done(container.create_item(item("old")))
    results = await run(
        container, ("create", (item("1"),)), ("read", ("old",), {"if_none_match_etag": old["_etag"]})
    )
    assert [result["statusCode"] for result in results] == [201, 304]
    assert await ids(container) == ["1", "old"]


async def test_one_to_a_hundred_operations(container):
    with refused(400, text="Batch request has no operations"):
        await run(container)
    operations = [("create", (item(f"{number:03}"),)) for number in range(101)]
    with refused(400, text="Batch request has more operations than what is supported"):
        await run(container, *operations)
    assert await ids(container) == []
    results = await run(container, *operations[:100])
    assert {result["statusCode"] for result in results} == {201}
    assert len(await ids(container)) == 100


async def test_too_large_batch_is_refused(container):
    big = "x" * 1_100_000
    with refused(413):
        await run(container, ("create", (item("1", text=big),)), ("create", (item("2", text=big),)))
    assert await ids(container) == []


async def test_batch_moves_the_session_once(container):
    before = token_lsn(session_token(await done(container.create_item(item("0")))))
    results = await run(container, *[("create", (item(str(number)),)) for number in range(1, 6)])
    after = token_lsn(session_token(results))
    assert after > before
    assert token_lsn(session_token(await done(container.read_item("5", "a")))) == after


async def test_batch_respects_unique_keys(make_container):
    container = await make_container(unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}]})
    statuses, _ = await failed(container, ("create", (item("1", email="e"),)), ("create", (item("2", email="e"),)))
    assert statuses == [424, 409]
    results = await run(
        container,
        ("create", (item("1", email="e"),)),
        ("delete", ("1",)),
        ("create", (item("2", email="e"),)),
    )
    assert [result["statusCode"] for result in results] == [201, 204, 201]


async def test_batch_with_hierarchical_key(make_container):
    container = await make_container(PartitionKey(path=["/t", "/u"], kind="MultiHash"))
    results = await run(
        container,
        ("create", ({"id": "1", "t": "x", "u": 5},)),
        ("create", ({"id": "2", "t": "x", "u": 5},)),
        partition_key=["x", 5],
    )
    assert [result["statusCode"] for result in results] == [201, 201]
    assert (await done(container.read_item("2", ["x", 5])))["u"] == 5
