"""If-Match and If-None-Match."""

import pytest
from azure.core import MatchConditions

from support import charge, done, refused

ITEM = {"id": "1", "pk": "a", "n": 1}
STALE = {"etag": '"00000000-0000-0000-0000-000000000000"', "match_condition": MatchConditions.IfNotModified}


def only_if(etag):
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def if_changed_since(etag):
    return {"etag": etag, "match_condition": MatchConditions.IfModified}


@pytest.fixture
async def item(container):
    return await done(container.create_item(ITEM))


async def test_current_etag_lets_writes_through(container, item):
    replaced = await done(container.replace_item("1", {**ITEM, "n": 2}, **only_if(item["_etag"])))
    operations = [{"op": "set", "path": "/n", "value": 3}]
    patched = await done(container.patch_item("1", "a", operations, **only_if(replaced["_etag"])))
    upserted = await done(container.upsert_item({**ITEM, "n": 4}, **only_if(patched["_etag"])))
    await done(container.delete_item("1", "a", **only_if(upserted["_etag"])))
    with refused(404):
        await done(container.read_item("1", "a"))


async def test_stale_etag_fails_every_write(container, item):
    await done(container.replace_item("1", {**ITEM, "n": 2}))
    stale = only_if(item["_etag"])
    with refused(412, substatus=0, text="One of the specified pre-condition is not met"):
        await done(container.replace_item("1", {**ITEM, "n": 3}, **stale))
    with refused(412):
        await done(container.upsert_item({**ITEM, "n": 3}, **stale))
    with refused(412, substatus=0):
        await done(container.patch_item("1", "a", [{"op": "set", "path": "/n", "value": 3}], **stale))
    with refused(412):
        await done(container.delete_item("1", "a", **stale))
    assert (await done(container.read_item("1", "a")))["n"] == 2


async def test_condition_on_a_missing_item_is_not_found(container):
    with refused(404):
        await done(container.replace_item("1", ITEM, **STALE))
    with refused(404):
        await done(container.delete_item("1", "a", **STALE))


async def test_condition_of_an_upsert_that_creates_is_ignored(container):
    assert (await done(container.upsert_item(ITEM, **STALE)))["n"] == 1


async def test_read_if_none_match_answers_not_modified(container, item):
    unchanged = await done(container.read_item("1", "a", **if_changed_since(item["_etag"])))
    assert unchanged == {}
    assert unchanged.get_response_headers()["etag"] == item["_etag"]
    assert charge(unchanged) >= 1


async def test_read_if_none_match_answers_the_new_version(container, item):
    await done(container.replace_item("1", {**ITEM, "n": 2}))
    assert (await done(container.read_item("1", "a", **if_changed_since(item["_etag"]))))["n"] == 2


async def test_read_if_none_match_of_a_missing_item_is_not_found(container, item):
    with refused(404):
        await done(container.read_item("2", "a", **if_changed_since(item["_etag"])))


async def test_wildcards(container, item):
    await done(container.replace_item("1", {**ITEM, "n": 2}, match_condition=MatchConditions.IfPresent))
    with refused(404):
        await done(container.replace_item("2", {**ITEM, "id": "2"}, match_condition=MatchConditions.IfPresent))
    assert await done(container.read_item("1", "a", match_condition=MatchConditions.IfMissing)) == {}
