"""Which indexes a query used, as the SDK tells its callers."""

import json

import pytest
from azure.cosmos.http_constants import HttpHeaders

from support import KEY_PK, collect, cross_partition, done, new_id

POLICY = {
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": "/secret/?"}],
    "compositeIndexes": [[{"path": "/n", "order": "ascending"}, {"path": "/name", "order": "descending"}]],
}


@pytest.fixture(scope="module")
async def filled(database):
    created = await done(database.create_container(new_id("i"), KEY_PK, indexing_policy=POLICY))
    for n in range(20):
        item = {"id": str(n), "pk": "p", "n": n % 5, "name": f"name {n}", "secret": n}
        await done(created.create_item(item))
    return created


async def told(container, query, **options):
    """What the headers of the last page say of indexes, which the SDK has decoded, and of advice."""
    headers = {}

    def note(response_headers, _=None):
        headers.update(response_headers)

    rows = await collect(container.query_items(query, response_hook=note, **options))
    return rows, headers.get(HttpHeaders.IndexUtilization), headers.get("x-ms-cosmos-query-advice")


async def index_metrics(container, query, **options):
    _, metrics, _ = await told(container, query, populate_index_metrics=True, **options)
    return json.loads(metrics) if isinstance(metrics, str) else metrics


async def test_a_key_and_the_conditions_are_utilized(filled):
    metrics = await index_metrics(filled, "SELECT * FROM c WHERE c.name = 'name 7'", partition_key="p")
    specs = {index["IndexSpec"]: index for index in metrics["UtilizedSingleIndexes"]}
    assert set(specs) == {"/pk/?", "/name/?"}
    assert specs["/name/?"]["FilterExpression"] == '(ROOT.name = "name 7")'
    assert specs["/name/?"]["IndexImpactScore"] == "High"
    assert metrics["PotentialSingleIndexes"] == []


async def test_what_is_missing_is_potential(filled):
    query = "SELECT * FROM c WHERE c.secret = 3 AND c.name > 'a'"
    metrics = await index_metrics(filled, query, **cross_partition(filled))
    assert [index["IndexSpec"] for index in metrics["PotentialSingleIndexes"]] == ["/secret/?"]
    assert [index["IndexSpecs"] for index in metrics["PotentialCompositeIndexes"]] == [["/secret ASC", "/name ASC"]]


async def test_a_composite_index_is_utilized(filled):
    query = "SELECT TOP 2 * FROM c ORDER BY c.n, c.name DESC"
    metrics = await index_metrics(filled, query, **cross_partition(filled))
    assert [index["IndexSpecs"] for index in metrics["UtilizedCompositeIndexes"]] == [["/n ASC", "/name DESC"]]


async def test_nothing_is_said_unasked(filled):
    rows, metrics, advice = await told(filled, "SELECT * FROM c WHERE c.n = 1", partition_key="p")
    assert len(rows) == 4
    assert metrics is None
    assert advice is None


async def test_advice_is_one_that_the_sdk_knows(filled):
    query = "SELECT * FROM c WHERE CONTAINS(c.name, '7')"
    _, _, advice = await told(filled, query, partition_key="p", populate_query_advice=True)
    assert advice is not None and "QA1002" in advice and "STARTSWITH" in advice
