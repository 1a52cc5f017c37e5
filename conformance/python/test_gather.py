"""The server's own answer over all partitions, beside what the SDK puts together by itself."""

import json
import urllib.error
import urllib.request

import pytest

from support import KEY_PK, collect, cross_partition, done, new_id

POLICY = {
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [],
    "compositeIndexes": [[{"path": "/n", "order": "ascending"}, {"path": "/name", "order": "descending"}]],
}


@pytest.fixture(scope="module", params=[400, 30_000], ids=["one-range", "five-ranges"])
async def filled(request, database):
    """Many ties in `n`, every type in `v`, and some items without either."""
    created = await done(
        database.create_container(
            new_id("g"), KEY_PK, offer_throughput=request.param, indexing_policy=POLICY
        )
    )
    for n in range(60):
        item = {"id": str(n), "pk": f"p{n % 23}", "n": n % 4, "name": f"name {n % 9}", "half": n / 2}
        if n % 5:
            item["v"] = [None, False, n, f"text {n % 3}"][n % 4]
        await done(created.create_item(item))
    return created


class Admin:
    """The admin API of a server, for one container."""

    def __init__(self, server, database, container):
        self.url = f"{server.endpoints['admin'].rstrip('/')}/v1/containers/{database.id}/{container.id}"

    def post(self, what, **body):
        request = urllib.request.Request(
            f"{self.url}/{what}", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def rows(self, query, **options):
        rows = []
        while True:
            page = self.post("query", query=query, **options)
            rows += page["rows"]
            if "continuation" not in page:
                return rows
            options["continuation"] = page["continuation"]


@pytest.fixture
def admin(server, database, filled):
    return Admin(server, database, filled)


ORDERED = {
    "ties": "SELECT * FROM c ORDER BY c.n",
    "ties-downwards": "SELECT c.id FROM c ORDER BY c.n DESC",
    "composite": "SELECT c.id, c.name FROM c ORDER BY c.n, c.name DESC",
    "values": "SELECT VALUE c.name FROM c WHERE c.half > 3 ORDER BY c.name",
    "top": "SELECT TOP 7 c.id FROM c ORDER BY c.n DESC",
    "window": "SELECT c.id FROM c ORDER BY c.n OFFSET 5 LIMIT 9",
    "plain": "SELECT c.id FROM c WHERE c.n != 2",
    "plain-top": "SELECT TOP 11 VALUE c.id FROM c",
    "plain-window": "SELECT VALUE c.id FROM c OFFSET 7 LIMIT 30",
}


@pytest.mark.parametrize("name", ORDERED)
async def test_rows_come_in_the_order_of_the_sdk(admin, filled, name):
    query = ORDERED[name]
    expected = await collect(filled.query_items(query, **cross_partition(filled)))
    assert admin.rows(query) == expected
    assert admin.rows(query, maxItems=4, parallelism=1) == expected
    assert admin.rows(query, maxItems=1000, parallelism=8, buffered=2) == expected


TOGETHER = {
    "count": "SELECT VALUE COUNT(1) FROM c",
    "sum": "SELECT VALUE SUM(c.half) FROM c WHERE c.n > 0",
    "average": "SELECT VALUE AVG(c.half) FROM c",
    "least": "SELECT VALUE MIN(c.name) FROM c",
    # The SDK takes a row that is null for the end of all rows.
    "distinct": "SELECT DISTINCT VALUE c.v FROM c WHERE NOT IS_NULL(c.v)",
    "distinct-objects": "SELECT DISTINCT c.n, c.name FROM c",
}


@pytest.mark.parametrize("name", TOGETHER)
async def test_what_is_put_together_is_what_the_sdk_makes_of_it(admin, filled, name):
    query = TOGETHER[name]
    expected = await collect(filled.query_items(query, **cross_partition(filled)))

    def in_order(rows):
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))

    assert in_order(admin.rows(query)) == in_order(expected)
    assert in_order(admin.rows(query, maxItems=2)) == in_order(expected)


async def test_the_server_groups_over_partitions(admin):
    """Which the Python SDK can't."""
    rows = admin.rows("SELECT c.n, COUNT(1) AS k, SUM(c.half) AS s FROM c GROUP BY c.n ORDER BY c.n DESC")
    expected = [
        {"n": n, "k": 15, "s": sum(i / 2 for i in range(60) if i % 4 == n)} for n in (3, 2, 1, 0)
    ]
    assert rows == expected


async def test_a_query_is_explained_as_it_is_run(admin, filled):
    query = "SELECT * FROM c WHERE c.name = @name"
    parameters = [{"name": "@name", "value": "name 3"}]
    explained = admin.post("explain", query=query, parameters=parameters, analyze=True)
    assert explained["conditions"][0]["text"] == '(ROOT.name = "name 3")'
    assert explained["conditions"][0]["index"] == "/name/? 1 range"
    rows = await collect(filled.query_items(query, parameters=parameters, **cross_partition(filled)))
    assert explained["outcome"]["rows"] == len(rows)
    assert sum(partition["work"]["itemsRead"] for partition in explained["partitions"]) == len(rows)


async def test_nonsense_is_refused(admin):
    with pytest.raises(urllib.error.HTTPError) as refused:
        admin.post("query", query="SELECT * FROM")
    assert refused.value.code == 400
    assert "Syntax error" in json.load(refused.value)["message"]
