"""Containers: definitions and their defaults, replace rules, and what is refused."""

import pytest
from azure.cosmos import PartitionKey

from support import KEY_PK, charge, collect, done, new_id, refused

ETAG_PATH = '/"_etag"/?'


async def read(container):
    return await done(container.read())


async def test_created_container_has_the_service_defaults(make_container):
    properties = await read(await make_container())
    assert properties["partitionKey"] == {"paths": ["/pk"], "kind": "Hash", "version": 2}
    policy = properties["indexingPolicy"]
    assert policy["indexingMode"] == "consistent"
    assert policy["automatic"] is True
    assert policy["includedPaths"] == [{"path": "/*"}]
    assert policy["excludedPaths"] == [{"path": ETAG_PATH}]
    assert properties["conflictResolutionPolicy"]["mode"] == "LastWriterWins"
    assert properties["conflictResolutionPolicy"]["conflictResolutionPath"] == "/_ts"
    assert properties["geospatialConfig"] == {"type": "Geography"}
    assert "defaultTtl" not in properties
    assert properties["_docs"] == "docs/"
    assert properties["_self"].endswith(f"/colls/{properties['_rid']}/")
    assert charge(properties) > 0


async def test_duplicate_container_conflicts(database, container):
    with refused(409):
        await done(database.create_container(container.id, KEY_PK))


async def test_create_if_not_exists_finds_the_existing_container(database, container):
    found = await done(database.create_container_if_not_exists(container.id, KEY_PK))
    assert (await read(found))["_rid"] == (await read(container))["_rid"]


async def test_missing_container_is_not_found(database):
    missing = database.get_container_client(new_id("absent"))
    with refused(404, text="Resource Not Found"):
        await done(missing.read())
    with refused(404):
        await done(database.delete_container(missing))


async def test_missing_owner_has_its_own_substatus(client):
    orphan = client.get_database_client(new_id("absent"))
    with refused(404, substatus=1003):
        await done(orphan.create_container("c", KEY_PK))


async def test_containers_are_listed_and_queried(database, container):
    listed = [entry["id"] for entry in await collect(database.list_containers())]
    assert listed.count(container.id) == 1
    found = await collect(
        database.query_containers(
            "SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": container.id}]
        )
    )
    assert [entry["id"] for entry in found] == [container.id]


async def test_deleted_container_is_gone(database, container):
    await done(container.create_item({"id": "1", "pk": "a"}))
    await done(database.delete_container(container))
    with refused(404):
        await done(container.read())
    with refused(404):
        await done(container.read_item("1", "a"))


@pytest.mark.parametrize(
    "partition_key",
    [
        {"paths": "/pk", "kind": "Hash"},
        {"paths": [], "kind": "Hash", "version": 2},
        {"paths": ["pk"], "kind": "Hash", "version": 2},
        {"paths": ["/pk"], "kind": "Hash", "version": 3},
        {"paths": ["/pk"], "kind": "Nonsense", "version": 2},
        {"paths": ["/a", "/b"], "kind": "Hash", "version": 2},
        {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 1},
        {"paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash", "version": 2},
    ],
    ids=["not-a-list", "no-path", "no-slash", "version", "kind", "hash-of-two", "multihash-v1", "four-levels"],
)
async def test_bad_partition_key_is_refused(database, partition_key):
    with refused(400):
        await done(database.create_container(new_id("c"), partition_key))


async def test_missing_partition_key_is_refused(database):
    with refused(400):
        await done(database.create_container(new_id("c"), None))


@pytest.mark.parametrize("ttl", [0, -10, -2, 2**31, 1.5, "5"])
async def test_bad_default_ttl_is_refused(database, ttl):
    with refused(400):
        await done(database.create_container(new_id("c"), KEY_PK, default_ttl=ttl))


@pytest.mark.parametrize("ttl", [-1, 1, 3600, 2**31 - 1])
async def test_default_ttl_reads_back(make_container, ttl):
    assert (await read(await make_container(default_ttl=ttl)))["defaultTtl"] == ttl


async def test_version_one_key_reads_back_without_version(make_container):
    container = await make_container({"paths": ["/pk"], "kind": "Hash"})
    assert (await read(container))["partitionKey"] == {"paths": ["/pk"], "kind": "Hash"}


async def test_nested_and_quoted_key_paths_read_back(make_container):
    for path in ["/a/b/c", '/"with space"/"a/b"']:
        container = await make_container(PartitionKey(path=path))
        assert (await read(container))["partitionKey"]["paths"] == [path]


@pytest.mark.parametrize("policy", [{}, {"indexingMode": "consistent"}, {"automatic": True}])
async def test_partial_indexing_policy_is_completed(make_container, policy):
    completed = (await read(await make_container(indexing_policy=policy)))["indexingPolicy"]
    assert completed["indexingMode"] == "consistent"
    assert completed["includedPaths"] == [{"path": "/*"}]
    assert completed["excludedPaths"] == [{"path": ETAG_PATH}]


async def test_indexing_mode_is_normalised_to_lower_case(make_container):
    policy = (await read(await make_container(indexing_policy={"indexingMode": "Consistent"})))["indexingPolicy"]
    assert policy["indexingMode"] == "consistent"


async def test_indexing_mode_none_has_no_paths(make_container):
    policy = {"indexingMode": "none", "automatic": False}
    completed = (await read(await make_container(indexing_policy=policy)))["indexingPolicy"]
    assert completed["indexingMode"] == "none"
    assert completed["automatic"] is False
    assert completed.get("includedPaths", []) == []
    assert completed.get("excludedPaths", []) == []


async def test_own_excluded_path_keeps_the_etag_exclusion(make_container):
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/large/*"}]}
    completed = (await read(await make_container(indexing_policy=policy)))["indexingPolicy"]
    assert [entry["path"] for entry in completed["excludedPaths"]] == ["/large/*", ETAG_PATH]


async def test_special_indexes_read_back(make_container):
    composite = [[{"path": "/name", "order": "ascending"}, {"path": "/age", "order": "descending"}]]
    spatial = [{"path": "/location/*", "types": ["Point", "Polygon"]}]
    policy = {"compositeIndexes": composite, "spatialIndexes": spatial}
    completed = (await read(await make_container(indexing_policy=policy)))["indexingPolicy"]
    assert completed["compositeIndexes"] == composite
    assert completed["spatialIndexes"][0]["path"] == "/location/*"
    assert set(completed["spatialIndexes"][0]["types"]) >= {"Point", "Polygon"}


@pytest.mark.parametrize(
    "policy",
    [
        {"indexingMode": "sometimes"},
        {"includedPaths": [{"path": "no-slash/*"}]},
        {"includedPaths": [{"path": "/a"}]},
        {"includedPaths": [{"path": "/a/?"}], "excludedPaths": []},
    ],
    ids=["mode", "no-slash", "no-ending", "no-root"],
)
async def test_bad_indexing_policy_is_refused(database, policy):
    with refused(400):
        await done(database.create_container(new_id("c"), KEY_PK, indexing_policy=policy))


async def test_computed_properties_and_policies_read_back(make_container):
    computed = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    unique = {"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/a", "/b"]}]}
    conflict = {"mode": "LastWriterWins", "conflictResolutionPath": "/priority"}
    container = await make_container(
        computed_properties=computed, unique_key_policy=unique, conflict_resolution_policy=conflict
    )
    properties = await read(container)
    assert properties["computedProperties"] == computed
    assert [key["paths"] for key in properties["uniqueKeyPolicy"]["uniqueKeys"]] == [["/email"], ["/a", "/b"]]
    assert properties["conflictResolutionPolicy"]["conflictResolutionPath"] == "/priority"


@pytest.mark.parametrize(
    "keys",
    [[{"paths": []}], [{"paths": ["no-slash"]}], [{"paths": [f"/p{n}"]} for n in range(11)]],
    ids=["no-path", "no-slash", "eleven-keys"],
)
async def test_bad_unique_key_policy_is_refused(database, keys):
    with refused(400):
        await done(database.create_container(new_id("c"), KEY_PK, unique_key_policy={"uniqueKeys": keys}))


async def test_replace_changes_ttl_and_indexing(database, container):
    before = await read(container)
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/big/*"}]}
    await done(database.replace_container(container, KEY_PK, default_ttl=300, indexing_policy=policy))
    after = await read(container)
    assert after["defaultTtl"] == 300
    assert {entry["path"] for entry in after["indexingPolicy"]["excludedPaths"]} == {"/big/*", ETAG_PATH}
    assert after["_rid"] == before["_rid"]
    assert after["_etag"] != before["_etag"]


async def test_replace_without_ttl_turns_it_off(database, make_container):
    container = await make_container(default_ttl=60)
    await done(database.replace_container(container, KEY_PK))
    assert "defaultTtl" not in await read(container)


@pytest.mark.parametrize(
    "partition_key", [PartitionKey(path="/other"), {"paths": ["/pk"], "kind": "Hash"}], ids=["path", "version"]
)
async def test_replace_keeps_the_partition_key(database, container, partition_key):
    with refused(400):
        await done(database.replace_container(container, partition_key))


async def test_replace_of_a_missing_container_is_not_found(database):
    with refused(404):
        await done(database.replace_container(new_id("absent"), KEY_PK))


async def test_quota_and_statistics_on_request(container):
    await done(container.create_item({"id": "1", "pk": "a"}))
    properties = await done(container.read(populate_partition_key_range_statistics=True, populate_quota_info=True))
    assert sum(entry["documentCount"] for entry in properties["statistics"]) == 1
    headers = properties.get_response_headers()
    assert "documentSize=" in headers["x-ms-resource-quota"]
    assert "documentsCount=" in headers["x-ms-resource-usage"]


@pytest.mark.parametrize("name", ["With Space", "ünïcode-鱀", "a.b_c-d~(1)", "x" * 255])
async def test_container_names(database, name):
    created = await done(database.create_container(name, KEY_PK))
    await done(created.create_item({"id": "1", "pk": "a"}))
    assert (await done(created.read_item("1", "a")))["id"] == "1"
    await done(database.delete_container(created))
