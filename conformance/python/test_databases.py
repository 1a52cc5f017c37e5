"""Databases: create, read, list, query, delete and what is refused."""

import pytest

from support import KEY_PK, charge, collect, done, new_id, refused


@pytest.fixture
async def own_database(client):
    created = await done(client.create_database(new_id("db")))
    yield created
    await done(client.delete_database(created))


async def test_created_database_reads_back(own_database):
    properties = await done(own_database.read())
    assert properties["id"] == own_database.id
    assert properties["_self"] == f"dbs/{properties['_rid']}/"
    assert properties["_colls"] == "colls/"
    assert properties["_users"] == "users/"
    assert properties["_etag"].startswith('"')
    assert properties["_ts"] > 1_600_000_000
    assert charge(properties) > 0
    assert properties.get_response_headers()["etag"] == properties["_etag"]


async def test_duplicate_database_conflicts(client, own_database):
    with refused(409):
        await done(client.create_database(own_database.id))


async def test_create_if_not_exists_finds_the_existing_database(client, own_database):
    found = await done(client.create_database_if_not_exists(own_database.id))
    assert (await done(found.read()))["_rid"] == (await done(own_database.read()))["_rid"]


async def test_missing_database_is_not_found(client):
    missing = client.get_database_client(new_id("absent"))
    with refused(404, text="Resource Not Found"):
        await done(missing.read())
    with refused(404):
        await done(client.delete_database(missing))


async def test_databases_are_listed_and_queried(client, own_database):
    listed = [entry["id"] for entry in await collect(client.list_databases())]
    assert listed.count(own_database.id) == 1
    found = await collect(
        client.query_databases(
            "SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": own_database.id}]
        )
    )
    assert [entry["id"] for entry in found] == [own_database.id]
    assert await collect(client.query_databases(f"SELECT * FROM root r WHERE r.id='{new_id('absent')}'")) == []


async def test_deleted_database_takes_its_containers_along(client):
    created = await done(client.create_database(new_id("db")))
    container = await done(created.create_container("c", KEY_PK))
    await done(client.delete_database(created))
    with refused(404):
        await done(created.read())
    with refused(404):
        await done(container.read())
    again = await done(client.create_database(created.id))
    assert await collect(again.list_containers()) == []
    await done(client.delete_database(again))


@pytest.mark.parametrize("name", ["plain", "With Space", "ünïcode-鱀", "dots.and-dashes_", "x" * 255])
async def test_database_names(client, name):
    name = new_id("db")[:16] + name[: 255 - 16]
    created = await done(client.create_database(name))
    assert (await done(created.read()))["id"] == name
    await done(client.delete_database(name))


async def test_too_long_database_name_is_refused(client):
    with refused(400):
        await done(client.create_database("x" * 256))
