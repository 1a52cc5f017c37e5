"""The six patch operations, their conditions and their errors."""

import asyncio

import pytest

from support import done, refused, without_system

ITEM = {
    "id": "1",
    "pk": "a",
    "number": 5,
    "text": "abc",
    "list": [1, 2, 3],
    "child": {"x": 1, "y": {"z": 2}},
    "a/b": 1,
    "c~d": 2,
}


@pytest.fixture
async def item(container):
    return await done(container.create_item(ITEM))


@pytest.fixture
def patch(container, item):
    """Applies operations to the item and checks that the answer is what is stored."""

    async def apply(*operations, **options):
        patched = await done(container.patch_item("1", "a", list(operations), **options))
        assert patched == await done(container.read_item("1", "a"))
        assert patched["_etag"] != item["_etag"]
        return without_system(patched)

    return apply


CASES = {
    "add-member": ({"op": "add", "path": "/new", "value": {"k": 1}}, "new", {"k": 1}),
    "add-overwrites": ({"op": "add", "path": "/text", "value": "xyz"}, "text", "xyz"),
    "add-null": ({"op": "add", "path": "/new", "value": None}, "new", None),
    "add-inserts": ({"op": "add", "path": "/list/1", "value": 9}, "list", [1, 9, 2, 3]),
    "add-appends": ({"op": "add", "path": "/list/-", "value": 9}, "list", [1, 2, 3, 9]),
    "add-at-length": ({"op": "add", "path": "/list/3", "value": 9}, "list", [1, 2, 3, 9]),
    "add-nested": ({"op": "add", "path": "/child/y/w", "value": 3}, "child", {"x": 1, "y": {"z": 2, "w": 3}}),
    "set-member": ({"op": "set", "path": "/new", "value": [1]}, "new", [1]),
    "set-element": ({"op": "set", "path": "/list/1", "value": 9}, "list", [1, 9, 3]),
    "replace-member": ({"op": "replace", "path": "/text", "value": 7}, "text", 7),
    "replace-element": ({"op": "replace", "path": "/list/0", "value": 9}, "list", [9, 2, 3]),
    "remove-element": ({"op": "remove", "path": "/list/0"}, "list", [2, 3]),
    "remove-nested": ({"op": "remove", "path": "/child/y"}, "child", {"x": 1}),
    "incr": ({"op": "incr", "path": "/number", "value": 3}, "number", 8),
    "incr-negative": ({"op": "incr", "path": "/number", "value": -7}, "number", -2),
    "incr-double": ({"op": "incr", "path": "/number", "value": 0.5}, "number", 5.5),
    "incr-creates": ({"op": "incr", "path": "/count", "value": 2}, "count", 2),
    "incr-nested": ({"op": "incr", "path": "/child/x", "value": 1}, "child", {"x": 2, "y": {"z": 2}}),
    "move-overwrites": ({"op": "move", "from": "/number", "path": "/text"}, "text", 5),
    "move-out": ({"op": "move", "from": "/child/y", "path": "/moved"}, "moved", {"z": 2}),
    "move-to-front": ({"op": "move", "from": "/list/2", "path": "/list/0"}, "list", [3, 1, 2]),
    "move-to-end": ({"op": "move", "from": "/list/0", "path": "/list/2"}, "list", [2, 3, 1]),
    "slash-in-name": ({"op": "set", "path": "/a~1b", "value": 5}, "a/b", 5),
    "tilde-in-name": ({"op": "set", "path": "/c~0d", "value": 5}, "c~d", 5),
}


@pytest.mark.parametrize("operation, member, expected", CASES.values(), ids=CASES)
async def test_operation(patch, operation, member, expected):
    assert (await patch(operation))[member] == expected


async def test_remove_and_move_take_the_member_away(patch):
    patched = await patch({"op": "remove", "path": "/text"}, {"op": "move", "from": "/number", "path": "/count"})
    assert "text" not in patched and "number" not in patched
    assert patched["count"] == 5


async def test_operations_apply_in_order(patch):
    patched = await patch(
        {"op": "add", "path": "/made", "value": {}},
        {"op": "set", "path": "/made/deep", "value": 1},
        {"op": "incr", "path": "/made/deep", "value": 1},
        {"op": "move", "from": "/made/deep", "path": "/result"},
    )
    assert patched["made"] == {} and patched["result"] == 2


FAILURES = {
    "add-without-parent": {"op": "add", "path": "/absent/child", "value": 1},
    "add-past-the-end": {"op": "add", "path": "/list/5", "value": 1},
    "set-without-parent": {"op": "set", "path": "/absent/child", "value": 1},
    "set-past-the-end": {"op": "set", "path": "/list/9", "value": 1},
    "replace-missing": {"op": "replace", "path": "/absent", "value": 1},
    "remove-missing": {"op": "remove", "path": "/absent"},
    "remove-past-the-end": {"op": "remove", "path": "/list/3"},
    "incr-text": {"op": "incr", "path": "/text", "value": 1},
    "incr-by-text": {"op": "incr", "path": "/number", "value": "1"},
    "move-missing": {"op": "move", "from": "/absent", "path": "/b"},
    "move-into-itself": {"op": "move", "from": "/child", "path": "/child/inner"},
    "unknown-operation": {"op": "test", "path": "/number", "value": 5},
    "no-operation-name": {"path": "/number", "value": 5},
    "no-path": {"op": "set", "value": 5},
    "relative-path": {"op": "set", "path": "number", "value": 5},
    "no-value": {"op": "set", "path": "/number"},
    "through-a-number": {"op": "add", "path": "/number/x", "value": 1},
    "id": {"op": "set", "path": "/id", "value": "2"},
    "partition-key": {"op": "set", "path": "/pk", "value": "b"},
    "remove-partition-key": {"op": "remove", "path": "/pk"},
    "system-property": {"op": "set", "path": "/_ts", "value": 1},
}


@pytest.mark.parametrize("operation", FAILURES.values(), ids=FAILURES)
async def test_failure_leaves_the_item_alone(container, item, operation):
    first = {"op": "set", "path": "/first", "value": True}
    with refused(400):
        await done(container.patch_item("1", "a", [first, operation]))
    assert await done(container.read_item("1", "a")) == item


async def test_failure_names_the_operation(container, item):
    operations = [{"op": "add", "path": "/nonExistentParent/child", "value": 1}]
    with refused(400, text="For Operation(1): Add Operation can only create a child object of an existing node"):
        await done(container.patch_item("1", "a", operations))


async def test_between_one_and_ten_operations(container, item):
    operations = [{"op": "set", "path": f"/p{number}", "value": number} for number in range(11)]
    with refused(400):
        await done(container.patch_item("1", "a", []))
    with refused(400):
        await done(container.patch_item("1", "a", operations))
    patched = await done(container.patch_item("1", "a", operations[:10]))
    assert patched["p9"] == 9 and "p10" not in patched


async def test_true_condition_applies(patch):
    operation = {"op": "set", "path": "/done", "value": True}
    assert (await patch(operation, filter_predicate="from c where c.number = 5 and c.text = 'abc'"))["done"] is True


async def test_false_condition_fails(container, item):
    operations = [{"op": "set", "path": "/done", "value": True}]
    with refused(412, substatus=1110):
        await done(container.patch_item("1", "a", operations, filter_predicate="from c where c.number > 5"))
    assert await done(container.read_item("1", "a")) == item


async def test_broken_condition_is_refused(container, item):
    with refused(400):
        operations = [{"op": "set", "path": "/done", "value": True}]
        await done(container.patch_item("1", "a", operations, filter_predicate="from c where c.number ="))


async def test_missing_item_is_not_found(container):
    with refused(404, substatus=0):
        await done(container.patch_item("absent", "a", [{"op": "set", "path": "/n", "value": 1}]))


async def test_increments_add_up_under_contention(account, container):
    """Concurrent clients, each its own connection, must not lose an increment."""
    await done(container.create_item({"id": "counter", "pk": "a", "n": 0}))
    operations = [{"op": "incr", "path": "/n", "value": 1}]

    async def add(times):
        for _ in range(times):
            if account.flavour == "sync":
                await asyncio.to_thread(container.patch_item, "counter", "a", operations)
            else:
                await container.patch_item("counter", "a", operations)

    await asyncio.gather(*(add(10) for _ in range(8)))
    assert (await done(container.read_item("counter", "a")))["n"] == 80
