"""What the SDKs need of SQL from the first day: SELECT * or VALUE, WHERE and parameters."""

import pytest

from support import KEY_PK, collect, cross_partition, done, new_id, refused

ITEMS = [
    {"id": "1", "pk": "a", "n": 1, "name": "one", "tags": ["odd"], "child": {"x": 1}, "flag": True},
    {"id": "2", "pk": "a", "n": 2, "name": "two", "tags": ["even"], "child": {"x": 2}, "flag": False},
    {"id": "3", "pk": "b", "n": 3, "name": "three", "tags": ["odd"], "child": {"x": 3}, "maybe": None},
    {"id": "4", "pk": "b", "n": 4.5, "name": "four", "tags": ["even"], "child": {"x": 4}},
    {"id": "5", "pk": "c", "n": "5", "name": "fünf", "tags": [], "with space": 1},
]


@pytest.fixture(scope="module", params=[400, 12_000, 30_000], ids=["one-range", "two-ranges", "five-ranges"])
async def filled(request, database):
    created = await done(database.create_container(new_id("q"), KEY_PK, offer_throughput=request.param))
    for item in ITEMS:
        await done(created.create_item(item))
    return created


async def everywhere(container, query, **parameters):
    named = [{"name": f"@{name}", "value": value} for name, value in parameters.items()]
    return await collect(container.query_items(query, parameters=named, **cross_partition(container)))


FILTERS = {
    "all": ("true", "12345"),
    "none": ("false", ""),
    "equal-number": ("c.n = 2", "2"),
    "equal-double": ("c.n = 4.5", "4"),
    "equal-text": ("c.name = 'two'", "2"),
    "double-quotes": ('c.name = "two"', "2"),
    "unicode": ("c.name = 'fünf'", "5"),
    "not-equal": ("c.pk != 'a'", "345"),
    "less": ("c.n < 3", "12"),
    "at-least": ("c.n >= 3", "34"),
    "between-by-and": ("c.n > 1 AND c.n < 4", "23"),
    "or": ("c.id = '1' OR c.id = '5'", "15"),
    "not": ("NOT (c.pk = 'a')", "345"),
    "in": ("c.id IN ('1', '3', '9')", "13"),
    "nested": ("c.child.x = 3", "3"),
    "index": ("c.tags[0] = 'odd'", "13"),
    "bracketed-name": ('c["with space"] = 1', "5"),
    "boolean": ("c.flag = true", "1"),
    "null": ("c.maybe = null", "3"),
    "undefined-is-not-null": ("c.absent = null", ""),
    "grouped": ("(c.pk = 'a' OR c.pk = 'b') AND (c.n = 1 OR c.n = 3)", "13"),
}


@pytest.mark.parametrize("condition, expected", FILTERS.values(), ids=FILTERS)
async def test_filter(filled, condition, expected):
    found = await everywhere(filled, f"SELECT * FROM c WHERE {condition}")
    assert sorted(item["id"] for item in found) == list(expected)


@pytest.mark.parametrize(
    "query", ["SELECT * FROM c", "select * from c", "SELECT * FROM root r", "SELECT * FROM x AS y"]
)
async def test_select_everything(filled, query):
    assert len(await everywhere(filled, query)) == 5


async def test_items_come_whole(filled):
    found = {item["id"]: item for item in await everywhere(filled, "SELECT * FROM c")}
    for item in ITEMS:
        read = await done(filled.read_item(item["id"], item["pk"]))
        assert found[item["id"]] == read


async def test_select_value(filled):
    assert sorted(await everywhere(filled, "SELECT VALUE c.id FROM c WHERE c.pk = 'b'")) == ["3", "4"]
    found = await everywhere(filled, "SELECT VALUE c.child FROM c WHERE c.pk = 'a'")
    assert sorted(child["x"] for child in found) == [1, 2]
    assert len(await everywhere(filled, "SELECT VALUE c.child FROM c")) == 4
    assert sorted(item["id"] for item in await everywhere(filled, "SELECT VALUE c FROM c")) == list("12345")


async def test_select_list(filled):
    found = await everywhere(filled, "SELECT c.id, c.child.x AS deep FROM c WHERE c.n = 1")
    assert found == [{"id": "1", "deep": 1}]
    assert await everywhere(filled, "SELECT c.absent FROM c WHERE c.id = '1'") == [{}]


async def test_parameters(filled):
    found = await everywhere(filled, "SELECT * FROM c WHERE c.pk = @pk AND c.n > @n", pk="a", n=1)
    assert [item["id"] for item in found] == ["2"]
    assert len(await everywhere(filled, "SELECT * FROM c WHERE c.flag = @flag", flag=False)) == 1
    assert len(await everywhere(filled, "SELECT * FROM c WHERE c.maybe = @null", null=None)) == 1
    assert len(await everywhere(filled, "SELECT * FROM c WHERE c.tags = @tags", tags=["odd"])) == 2
    assert len(await everywhere(filled, "SELECT * FROM c WHERE c.child = @child", child={"x": 3})) == 1
    injected = await everywhere(filled, "SELECT * FROM c WHERE c.name = @name", name="x' OR true OR 'x' = 'x")
    assert injected == []


async def test_one_partition(filled):
    found = await collect(filled.query_items("SELECT * FROM c", partition_key="b"))
    assert sorted(item["id"] for item in found) == ["3", "4"]
    found = await collect(filled.query_items("SELECT * FROM c WHERE c.n = 3", partition_key="a"))
    assert found == []


async def test_query_sees_every_write(container):
    query = "SELECT VALUE c.n FROM c WHERE c.id = '1'"
    await done(container.create_item({"id": "1", "pk": "a", "n": 1}))
    assert await everywhere(container, query) == [1]
    await done(container.replace_item("1", {"id": "1", "pk": "a", "n": 2}))
    assert await everywhere(container, query) == [2]
    await done(container.delete_item("1", "a"))
    assert await everywhere(container, query) == []


async def test_query_headers(filled):
    found = filled.query_items("SELECT * FROM c", partition_key="a")
    assert len(await collect(found)) == 2
    headers = filled.client_connection.last_response_headers
    assert float(headers["x-ms-request-charge"]) > 0
    assert headers["x-ms-session-token"] and headers["x-ms-activity-id"]
    assert int(headers["x-ms-item-count"]) == 2


BROKEN = {
    "empty": "",
    "no-from-list": "SELECT FROM c",
    "typo": "SELEC * FROM c",
    "dangling": "SELECT * FROM c WHERE c.n =",
    "unbalanced": "SELECT * FROM c WHERE (c.n = 1",
    "open-text": "SELECT * FROM c WHERE c.name = 'x",
    "unknown-alias": "SELECT x.id FROM c",
}


@pytest.mark.parametrize("query", BROKEN.values(), ids=BROKEN)
async def test_broken_query_is_refused(filled, query):
    with refused(400):
        await collect(filled.query_items(query, partition_key="a"))


async def test_missing_parameter_is_undefined(filled):
    assert await everywhere(filled, "SELECT * FROM c WHERE c.n = @n") == []


async def test_cross_partition_query_must_be_allowed(account, filled):
    if account.flavour == "aio":
        assert len(await collect(filled.query_items("SELECT * FROM c"))) == 5
        return
    with refused(400, text="Cross partition query is required but disabled"):
        await collect(filled.query_items("SELECT * FROM c"))


async def test_query_in_a_missing_container_is_not_found(database):
    with refused(404):
        await collect(database.get_container_client("absent").query_items("SELECT * FROM c", partition_key="a"))
