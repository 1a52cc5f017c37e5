"""Items come in the order in which they were created where a query has no order of its own."""

import pytest

from support import KEY_PK, collect, cross_partition, done, new_id

# Neither the ids nor the keys are in the order of creation.
IDS = ["z", "a", "m", "q", "b", "y", "c", "x", "d", "w", "e", "v"]


@pytest.fixture(scope="module")
async def filled(database):
    container = await done(database.create_container(new_id("order"), KEY_PK))
    for number, name in enumerate(IDS):
        item = {"id": name, "pk": f"p{number * 5 % 7}", "n": number, "tie": number % 2, "group": f"g{number * 2 % 3}"}
        await done(container.create_item(item))
    return container


@pytest.mark.parametrize("size", [1, 2, 5, 100])
async def test_items_come_as_they_were_created(filled, size):
    everywhere = cross_partition(filled)
    found = await collect(filled.query_items("SELECT VALUE c.id FROM c", max_item_count=size, **everywhere))
    assert found == IDS
    assert [item["id"] for item in await collect(filled.read_all_items(max_item_count=size))] == IDS
    some = "SELECT VALUE c.id FROM c WHERE c.n > 2 AND c.n != 7"
    assert await collect(filled.query_items(some, max_item_count=size, **everywhere)) == IDS[3:7] + IDS[8:]


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_one_partition_key_has_the_order_too(filled, size):
    own = [name for number, name in enumerate(IDS) if number * 5 % 7 == 5]
    found = filled.query_items("SELECT VALUE c.id FROM c", partition_key="p5", max_item_count=size)
    assert await collect(found) == own and len(own) == 2
    top = filled.query_items("SELECT TOP 1 VALUE c.id FROM c", partition_key="p5")
    assert await collect(top) == own[:1]
    skipped = filled.query_items("SELECT VALUE c.id FROM c OFFSET 1 LIMIT 1", partition_key="p5")
    assert await collect(skipped) == own[1:]


async def test_cuts_and_distinct_rows_take_the_first_ones(filled):
    everywhere = cross_partition(filled)
    assert await collect(filled.query_items("SELECT TOP 4 VALUE c.id FROM c", **everywhere)) == IDS[:4]
    window = "SELECT VALUE c.id FROM c OFFSET 3 LIMIT 5"
    assert await collect(filled.query_items(window, **everywhere)) == IDS[3:8]
    distinct = "SELECT DISTINCT VALUE c[\"group\"] FROM c"
    assert await collect(filled.query_items(distinct, **everywhere)) == ["g0", "g2", "g1"]


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_ties_fall_where_the_first_key_descends(filled, size):
    everywhere = cross_partition(filled)
    for direction, wanted in [("ASC", IDS[0::2] + IDS[1::2]), ("DESC", (IDS[0::2] + IDS[1::2])[::-1])]:
        text = f"SELECT VALUE c.id FROM c ORDER BY c.tie {direction}"
        assert await collect(filled.query_items(text, max_item_count=size, **everywhere)) == wanted
        headers = filled.client_connection.last_response_headers
        info = f'{{"reverseRidEnabled":false,"reverseIndexScan":{"true" if direction == "DESC" else "false"}}}'
        assert headers["x-ms-cosmos-query-execution-info"] == info


async def test_a_new_item_comes_last_and_a_changed_one_stays(database):
    container = await done(database.create_container(new_id("order"), KEY_PK))
    for name in ["c", "b", "a"]:
        await done(container.create_item({"id": name, "pk": name}))
    await done(container.upsert_item({"id": "c", "pk": "c", "changed": True}))
    await done(container.delete_item("b", "b"))
    await done(container.create_item({"id": "b", "pk": "b"}))
    assert [item["id"] for item in await collect(container.read_all_items())] == ["c", "a", "b"]
