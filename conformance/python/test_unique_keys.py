"""Unique keys hold within one logical partition, for every kind of write."""

import pytest

from support import done, refused


@pytest.fixture
async def unique(make_container):
    return await make_container(unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/a/x", "/b"]}]})


def item(id, pk="p", **properties):
    return {"id": id, "pk": pk, **properties}


async def test_create_and_upsert_conflict(unique):
    await done(unique.create_item(item("1", email="e")))
    with refused(409):
        await done(unique.create_item(item("2", email="e")))
    with refused(409):
        await done(unique.upsert_item(item("2", email="e")))
    await done(unique.upsert_item(item("1", email="e", n=2)))


async def test_other_partition_is_free(unique):
    await done(unique.create_item(item("1", pk="p", email="e")))
    await done(unique.create_item(item("1", pk="q", email="e")))


async def test_replace_and_patch_conflict(unique):
    await done(unique.create_item(item("1", email="e1", b=1)))
    await done(unique.create_item(item("2", email="e2", b=2)))
    with refused(409):
        await done(unique.replace_item("2", item("2", email="e1", b=2)))
    with refused(409):
        await done(unique.patch_item("2", "p", [{"op": "set", "path": "/email", "value": "e1"}]))
    assert (await done(unique.read_item("2", "p")))["email"] == "e2"


async def test_value_is_free_again_after_delete_and_replace(unique):
    await done(unique.create_item(item("1", email="e")))
    await done(unique.delete_item("1", "p"))
    await done(unique.create_item(item("2", email="e")))
    await done(unique.replace_item("2", item("2", email="other")))
    await done(unique.create_item(item("3", email="e", b=3)))


async def test_composite_key(unique):
    await done(unique.create_item(item("1", email="e1", a={"x": 1}, b=1)))
    await done(unique.create_item(item("2", email="e2", a={"x": 1}, b=2)))
    with refused(409):
        await done(unique.create_item(item("3", email="e3", a={"x": 1}, b=1)))


async def test_missing_value_counts_once(unique):
    await done(unique.create_item(item("1", b=1)))
    with refused(409):
        await done(unique.create_item(item("2", b=2)))


async def test_numbers_compare_as_numbers_and_text_apart(unique):
    await done(unique.create_item(item("1", email=1, b=1)))
    await done(unique.create_item(item("2", email="1", b=2)))
    with refused(409):
        await done(unique.create_item(item("3", email=1.0, b=3)))
