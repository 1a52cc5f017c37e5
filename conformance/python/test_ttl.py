"""Time to live: expiry is visible at once, and policies are checked."""

import asyncio
import time

import pytest
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from support import collect, done, refused

EXPIRY_SECONDS = 15


async def gone(container, id, deadline=EXPIRY_SECONDS):
    """Waits until the item can no longer be read; True if that happens in time."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        try:
            await done(container.read_item(id, "a"))
        except CosmosResourceNotFoundError:
            return True
        await asyncio.sleep(0.1)
    return False


async def test_expiry_by_default_ttl_and_by_item_ttl(make_container):
    by_default = await make_container(default_ttl=1)
    by_item = await make_container(default_ttl=-1)
    await done(by_default.create_item({"id": "default", "pk": "a"}))
    await done(by_default.create_item({"id": "kept", "pk": "a", "ttl": -1}))
    await done(by_default.create_item({"id": "longer", "pk": "a", "ttl": 3600}))
    await done(by_item.create_item({"id": "own", "pk": "a", "ttl": 1}))
    await done(by_item.create_item({"id": "kept", "pk": "a"}))
    assert await gone(by_default, "default")
    assert await gone(by_item, "own")
    for container, left in ((by_default, {"kept", "longer"}), (by_item, {"kept"})):
        assert {item["id"] for item in await collect(container.read_all_items())} == left
        query = container.query_items("SELECT * FROM c", partition_key="a")
        assert {item["id"] for item in await collect(query)} == left
    with refused(404):
        await done(by_item.replace_item("own", {"id": "own", "pk": "a"}))
    with refused(404):
        await done(by_item.delete_item("own", "a"))
    assert (await done(by_item.create_item({"id": "own", "pk": "a", "again": True})))["again"] is True


async def test_ttl_is_inert_without_a_default(container):
    created = await done(container.create_item({"id": "1", "pk": "a", "ttl": 1}))
    end = created["_ts"] + 3
    while time.time() < end:
        assert (await done(container.read_item("1", "a")))["ttl"] == 1
        await asyncio.sleep(0.2)


async def test_write_renews_the_life(make_container):
    container = await make_container(default_ttl=2)
    await done(container.create_item({"id": "renewed", "pk": "a"}))
    await done(container.create_item({"id": "left", "pk": "a"}))
    end = time.monotonic() + EXPIRY_SECONDS
    expired = False
    while not expired and time.monotonic() < end:
        await done(container.upsert_item({"id": "renewed", "pk": "a"}))
        expired = await gone(container, "left", deadline=0.5)
    assert expired
    assert (await done(container.read_item("renewed", "a")))["id"] == "renewed"


async def test_expired_unique_value_is_free(make_container):
    container = await make_container(default_ttl=-1, unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}]})
    await done(container.create_item({"id": "1", "pk": "a", "email": "e", "ttl": 1}))
    assert await gone(container, "1")
    await done(container.create_item({"id": "2", "pk": "a", "email": "e"}))


@pytest.mark.parametrize("ttl", [None, 0, -5, 1.5, "10", True, 2**31])
async def test_bad_item_ttl_is_refused(container, make_container, ttl):
    with refused(400):
        await done(container.create_item({"id": "1", "pk": "a", "ttl": ttl}))
    expiring = await make_container(default_ttl=100)
    with refused(400):
        await done(expiring.upsert_item({"id": "1", "pk": "a", "ttl": ttl}))


@pytest.mark.parametrize("ttl", [-1, 1, 2**31 - 1])
async def test_good_item_ttl_reads_back(container, ttl):
    assert (await done(container.create_item({"id": "1", "pk": "a", "ttl": ttl})))["ttl"] == ttl
