"""Full-text search, vector search and both together, as the SDK runs them over one range and several."""

import pytest

from support import KEY_PK, collect, cross_partition, done, new_id, refused

TEXTS = [
    "A red bicycle stands in the street",
    "The river runs past a red house with a red roof",
    "We swim in the river and run in the street",
    "Stones and light",
    "Red stones, red light, red everything",
    "The house at the river is green",
]
ITEMS = [
    {"id": str(n), "pk": f"p{n}", "n": n, "text": text, "v": [float(n), float(n % 2)]} for n, text in enumerate(TEXTS)
]
ITEMS.append({"id": "bare", "pk": "none", "n": 99})
FULL_TEXT = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text", "language": "en-US"}]}
VECTORS = {
    "vectorEmbeddings": [{"path": "/v", "dataType": "float32", "distanceFunction": "euclidean", "dimensions": 2}]
}


def indexing(kind):
    return {
        "indexingMode": "consistent",
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/v/*"}],
        "fullTextIndexes": [{"path": "/text"}],
        "vectorIndexes": [{"path": "/v", "type": kind}],
    }


@pytest.fixture(scope="module", params=[(400, "flat"), (12_000, "diskANN")], ids=["one-range", "two-ranges"])
async def filled(request, database):
    throughput, kind = request.param
    created = await done(
        database.create_container(
            new_id("s"),
            KEY_PK,
            offer_throughput=throughput,
            indexing_policy=indexing(kind),
            full_text_policy=FULL_TEXT,
            vector_embedding_policy=VECTORS,
        )
    )
    for item in ITEMS:
        await done(created.create_item(item))
    return created


async def ids(container, query, **options):
    rows = await collect(container.query_items(query, **cross_partition(container), **options))
    return [row["id"] if isinstance(row, dict) else row for row in rows]


async def test_policies_are_shown_as_given(filled):
    shown = await done(filled.read())
    assert shown["fullTextPolicy"] == FULL_TEXT
    assert shown["vectorEmbeddingPolicy"] == VECTORS
    assert shown["indexingPolicy"]["fullTextIndexes"] == [{"path": "/text"}]
    assert shown["indexingPolicy"]["vectorIndexes"][0]["path"] == "/v"


async def test_words(filled):
    def where(condition):
        return f"SELECT VALUE c.id FROM c WHERE {condition}"

    assert sorted(await ids(filled, where("FullTextContains(c.text, 'RED')"))) == ["0", "1", "4"]
    assert sorted(await ids(filled, where("FullTextContains(c.text, 'red house')"))) == ["1"]
    assert sorted(await ids(filled, where("FullTextContainsAll(c.text, 'river', 'house')"))) == ["1", "5"]
    assert sorted(await ids(filled, where("FullTextContainsAny(c.text, 'swim', 'green')"))) == ["2", "5"]
    assert await ids(filled, where("FullTextContains(c.text, 'the')")) == []
    term = [{"name": "@t", "value": "stones"}]
    assert sorted(await ids(filled, where("FullTextContains(c.text, @t)"), parameters=term)) == ["3", "4"]


async def test_nearest(filled):
    query = "SELECT TOP 3 c.id, VectorDistance(c.v, [2.1, 0]) AS s FROM c ORDER BY VectorDistance(c.v, [2.1, 0])"
    assert await ids(filled, query) == ["2", "3", "1"]
    query = "SELECT c.id FROM c WHERE c.n != 2 ORDER BY VectorDistance(c.v, @v) OFFSET 1 LIMIT 2"
    assert await ids(filled, query, parameters=[{"name": "@v", "value": [2.1, 0]}]) == ["1", "4"]


async def test_ranking(filled):
    query = "SELECT TOP 3 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'red')"
    found = await ids(filled, query)
    assert found[0] == "4" and set(found) == {"4", "1", "0"}
    both = (
        "SELECT TOP 2 c.id FROM c ORDER BY RANK "
        "RRF(FullTextScore(c.text, 'river', 'swim'), VectorDistance(c.v, [2, 0]))"
    )
    assert (await ids(filled, both))[0] == "2"
    weighed = both.replace("[2, 0]))", "[0, 0]), [0.01, 10])")
    assert (await ids(filled, weighed))[0] == "0"
    turned = (
        "SELECT TOP 3 c.id FROM c WHERE FullTextContains(c.text, 'red') ORDER BY RANK "
        "RRF(FullTextScore(c.text, 'red'), FullTextScore(c.text, 'light'), [-1, -1])"
    )
    assert (await ids(filled, turned))[-1] == "4"


async def test_ranking_within_a_key(filled):
    query = "SELECT TOP 5 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'red'), VectorDistance(c.v, [0, 0]))"
    rows = await collect(filled.query_items(query, partition_key="p4"))
    assert [row["id"] for row in rows] == ["4"]


async def test_refusals(filled, database):
    async def asked(query):
        return await collect(filled.query_items(query, **cross_partition(filled)))

    for query in [
        "SELECT TOP 1 VALUE FullTextScore(c.text, 'a') FROM c",
        "SELECT TOP 1 * FROM c ORDER BY RANK FullTextScore(c.text, 'a') DESC",
        "SELECT TOP 1 * FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'a'), FullTextScore(c.text, 'b'), [1])",
        "SELECT TOP 1 * FROM c ORDER BY VectorDistance(c.v, [1, 2]) ASC",
        "SELECT TOP 1 VectorDistance(c.v, [1, 2], false, {'searchListSizeMultiplier': 101}) FROM c",
    ]:
        with refused(400):
            await asked(query)
    with refused(400):
        await done(
            database.create_container(new_id("s"), KEY_PK, indexing_policy={"vectorIndexes": [{"path": "/v", "type": "flat"}]})
        )


async def test_a_new_policy_is_applied_to_what_is_there(database):
    created = await done(database.create_container(new_id("s"), KEY_PK))
    for item in ITEMS:
        await done(created.create_item(item))
    policy = {"fullTextIndexes": [{"path": "/text"}]}
    await done(database.replace_container(created, KEY_PK, indexing_policy=policy, full_text_policy=FULL_TEXT))
    query = "SELECT VALUE c.id FROM c WHERE FullTextContains(c.text, 'red')"
    assert sorted(await ids(created, query)) == ["0", "1", "4"]
