"""Queries whose rows the SDK puts together from several ranges: order, aggregates, DISTINCT, cuts."""

import pytest

from support import KEY_PK, collect, cross_partition, done, new_id, refused

ITEMS = [
    {
        "id": f"{n:02}",
        "pk": f"p{n}",
        "n": n % 7,
        "name": f"name {n * 11 % 30:02}",
        "even": n % 2 == 0,
        "tags": ["red", "blue"] if n % 3 == 0 else ["blue"],
    }
    for n in range(30)
]
POLICY = {
    "indexingMode": "consistent",
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [],
    "compositeIndexes": [[{"path": "/n", "order": "ascending"}, {"path": "/id", "order": "descending"}]],
}


@pytest.fixture(scope="module", params=[400, 12_000, 30_000], ids=["one-range", "two-ranges", "five-ranges"])
async def filled(request, database):
    created = await done(
        database.create_container(new_id("m"), KEY_PK, offer_throughput=request.param, indexing_policy=POLICY)
    )
    for item in ITEMS:
        await done(created.create_item(item))
    return created


async def rows(container, query, **options):
    return await collect(container.query_items(query, **cross_partition(container), **options))


@pytest.mark.parametrize("page", [2, 100])
async def test_order(filled, page):
    names = sorted(item["name"] for item in ITEMS)
    assert await rows(filled, "SELECT VALUE c.name FROM c ORDER BY c.name", max_item_count=page) == names
    found = await rows(filled, "SELECT c.id, c.n FROM c WHERE c.n > 1 ORDER BY c.n DESC", max_item_count=page)
    expected = sorted((item["n"] for item in ITEMS if item["n"] > 1), reverse=True)
    assert [row["n"] for row in found] == expected
    assert len({row["id"] for row in found}) == len(expected)
    both = await rows(filled, "SELECT VALUE c.id FROM c ORDER BY c.n ASC, c.id DESC", max_item_count=page)
    assert both == [item["id"] for item in sorted(reversed(ITEMS), key=lambda item: item["n"])]


async def test_cuts(filled):
    assert len(await rows(filled, "SELECT TOP 7 * FROM c", max_item_count=2)) == 7
    assert await rows(filled, "SELECT TOP 3 VALUE c.id FROM c ORDER BY c.id DESC") == ["29", "28", "27"]
    window = "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 3 LIMIT 4"
    assert await rows(filled, window, max_item_count=3) == ["03", "04", "05", "06"]
    assert len(await rows(filled, "SELECT * FROM c OFFSET 25 LIMIT 100")) == 5
    assert await rows(filled, "SELECT * FROM c OFFSET 30 LIMIT 1") == []


async def test_distinct(filled):
    assert sorted(await rows(filled, "SELECT DISTINCT VALUE c.n FROM c", max_item_count=2)) == list(range(7))
    assert await rows(filled, "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n") == list(range(7))
    assert len(await rows(filled, "SELECT DISTINCT c.n, c.even FROM c")) == 14


AGGREGATES = {
    "COUNT(1)": 30,
    "COUNT(c.zz)": 0,
    "SUM(c.n)": sum(item["n"] for item in ITEMS),
    "AVG(c.n)": sum(item["n"] for item in ITEMS) / 30,
    "MIN(c.n)": 0,
    "MAX(c.name)": "name 29",
}


@pytest.mark.parametrize("aggregate, expected", AGGREGATES.items(), ids=AGGREGATES)
async def test_aggregate(filled, aggregate, expected):
    assert await rows(filled, f"SELECT VALUE {aggregate} FROM c") == [expected]


async def test_what_the_sdk_cannot_merge_is_refused(filled):
    for query in ["SELECT COUNT(1) FROM c", "SELECT c.n, COUNT(1) FROM c GROUP BY c.n"]:
        with refused(400):
            await rows(filled, query)


async def test_joins_and_subqueries(filled):
    found = await rows(filled, "SELECT c.id, t FROM c JOIN t IN c.tags WHERE t = 'red'")
    assert sorted(row["id"] for row in found) == [item["id"] for item in ITEMS if "red" in item["tags"]]
    exists = "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'red')"
    assert sorted(await rows(filled, exists)) == sorted(row["id"] for row in found)


async def test_in_over_a_subquery_goes_through_its_elements(filled):
    """The form that Microsoft documents for joining with external reference data."""
    joined = """
        SELECT c.id, r.name FROM c
        JOIN r IN (SELECT VALUE [{unit: 1, name: "one"}, {unit: 2, name: "two"}])
        WHERE r.unit = c.n
    """
    names = {1: "one", 2: "two"}
    found = await rows(filled, joined, max_item_count=4)
    expected = {item["id"]: names[item["n"]] for item in ITEMS if item["n"] in names}
    assert {row["id"]: row["name"] for row in found} == expected
    assert len(found) == len(expected)
    exists = "SELECT VALUE c.id FROM c WHERE EXISTS (SELECT 1 FROM a IN (SELECT VALUE @ns) WHERE a = c.n)"
    found = await rows(filled, exists, parameters=[{"name": "@ns", "value": [2, 5, 99]}])
    assert sorted(found) == [item["id"] for item in ITEMS if item["n"] in (2, 5)]
    # The SDK gets this text back to skip the rows itself.
    window = "SELECT VALUE x FROM c JOIN x IN (SELECT VALUE [c.n, c.n]) OFFSET 40 LIMIT 100"
    assert len(await rows(filled, window)) == 20
    arrays = "SELECT VALUE x FROM c JOIN (SELECT VALUE [1, c.n]) AS x OFFSET 20 LIMIT 100"
    assert [x[0] for x in await rows(filled, arrays)] == [1] * 10


async def test_one_partition_is_answered_by_the_server(database):
    container = await done(database.create_container(new_id("o"), KEY_PK))
    for item in ITEMS:
        await done(container.create_item({**item, "pk": "same"}))

    async def within(query, **options):
        return await collect(container.query_items(query, partition_key="same", **options))

    assert await within("SELECT COUNT(1) AS k, MAX(c.id) AS m FROM c") == [{"k": 30, "m": "29"}]
    assert await within("SELECT VALUE c.id FROM c ORDER BY c.id DESC", max_item_count=4) == [
        item["id"] for item in reversed(ITEMS)
    ]
    groups = await within("SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n", max_item_count=2)
    assert {group["n"]: group["k"] for group in groups} == {n: 5 if n < 2 else 4 for n in range(7)}
    assert await within("SELECT DISTINCT VALUE c.even FROM c", max_item_count=1) == [True, False]


async def test_subqueries(filled):
    blue = "SELECT VALUE ARRAY(SELECT VALUE UPPER(t) FROM t IN c.tags) FROM c WHERE c.id = '01'"
    assert await rows(filled, blue) == [["BLUE"]]
    count = "SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c WHERE c.id IN ('00', '01') ORDER BY c.id"
    assert await rows(filled, count) == [2, 1]
    joined = "SELECT VALUE t.short FROM c JOIN (SELECT LEFT(t, 1) AS short FROM t IN c.tags) t WHERE c.id = '03'"
    assert await rows(filled, joined) == ["r", "b"]


async def test_parameters_in_every_clause(filled):
    named = {"@n": 3, "@red": "red", "@none": None, "@skip": 1, "@take": 2}
    parameters = [{"name": name, "value": value} for name, value in named.items()]
    query = (
        "SELECT VALUE {id: c.id, none: @none} FROM c JOIN t IN c.tags "
        "WHERE c.n = @n AND t = @red ORDER BY c.id OFFSET @skip LIMIT @take"
    )
    expected = [item["id"] for item in ITEMS if item["n"] == 3 and "red" in item["tags"]][1:3]
    found = await rows(filled, query, parameters=parameters)
    assert found == [{"id": id, "none": None} for id in expected]


@pytest.mark.parametrize("throughput", [400, 30_000], ids=["one-range", "five-ranges"])
@pytest.mark.parametrize(
    "query", ["SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c ORDER BY c.id"], ids=["plain", "ordered"]
)
async def test_items_come_and_go_between_pages(database, throughput, query):
    container = await done(database.create_container(new_id("m"), KEY_PK, offer_throughput=throughput))
    for item in ITEMS:
        await done(container.create_item(item))
    pages = container.query_items(query, max_item_count=2, **cross_partition(container)).by_page()
    seen, gone = [], set()
    for round in range(100):
        try:
            page = await pages.__anext__() if hasattr(pages, "__anext__") else next(pages)
        except (StopIteration, StopAsyncIteration):
            break
        seen += await collect(page)
        # One item after the other goes, wherever the query stands; others come before and behind it.
        if round < 10:
            gone.add(ITEMS[3 * round]["id"])
            await done(container.delete_item(ITEMS[3 * round]["id"], ITEMS[3 * round]["pk"]))
            for id in (f"!{round}", f"z{round}"):
                await done(container.create_item({"id": id, "pk": f"new {id}"}))
    assert len(seen) == len(set(seen)), "an item was shown twice"
    assert {item["id"] for item in ITEMS} - gone <= set(seen), "an item that was there all the time is missing"
    if "ORDER" in query:
        assert seen == sorted(seen)
    await done(database.delete_container(container))
