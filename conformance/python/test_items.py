"""Create, read, replace, upsert and delete."""

import pytest

from support import charge, collect, done, refused, without_system

ITEM = {"id": "1", "pk": "a", "n": 1, "nested": {"list": [1, "two", None, True]}}


async def create(container, **properties):
    return await done(container.create_item({**ITEM, **properties}))


async def test_created_item_reads_back_with_system_properties(container):
    created = await create(container)
    read = await done(container.read_item("1", "a"))
    assert without_system(created) == without_system(read) == ITEM
    assert list(without_system(read)) == list(ITEM)
    for name in ("_rid", "_self", "_etag", "_ts", "_attachments"):
        assert created[name] == read[name]
    assert read["_attachments"] == "attachments/"
    assert read["_self"].endswith(f"/docs/{read['_rid']}/")
    assert read.get_response_headers()["etag"] == read["_etag"]


async def test_duplicate_create_conflicts(container):
    await create(container)
    with refused(409, text="already exists"):
        await create(container, n=2)
    assert (await done(container.read_item("1", "a")))["n"] == 1


async def test_same_id_in_another_partition_is_another_item(container):
    await create(container, pk="a", n=1)
    await create(container, pk="b", n=2)
    assert (await done(container.read_item("1", "a")))["n"] == 1
    assert (await done(container.read_item("1", "b")))["n"] == 2


async def test_missing_item_is_not_found(container):
    await create(container)
    with refused(404, substatus=0, text="Resource Not Found"):
        await done(container.read_item("2", "a"))
    with refused(404, substatus=0):
        await done(container.read_item("1", "b"))
    with refused(404, substatus=0):
        await done(container.replace_item("2", {**ITEM, "id": "2"}))
    with refused(404, substatus=0):
        await done(container.delete_item("2", "a"))


BAD_BODIES = {
    "no-id": {"pk": "a"},
    "empty-id": {"id": "", "pk": "a"},
    "number-id": {"id": 5, "pk": "a"},
    "null-id": {"id": None, "pk": "a"},
    "empty-list": [],
    "list": [{"id": "1", "pk": "a"}],
    "text": "text",
    "number": 5,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_item_must_be_an_object_with_a_text_id(container, body):
    def swap(request):
        """The SDK refuses most of these itself, so the body changes on its way out."""
        request.http_request.set_json_body(body)

    with refused(400):
        await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=swap))
    assert await collect(container.read_all_items()) == []


async def test_generated_id(container):
    created = await done(container.create_item({"pk": "a"}, enable_automatic_id_generation=True))
    assert (await done(container.read_item(created["id"], "a")))["id"] == created["id"]


async def test_client_values_of_system_properties_are_overwritten(container):
    created = await create(container, _rid="x", _self="x", _etag="x", _ts=1, _attachments="x")
    assert created["_rid"] != "x" and created["_self"] != "x" and created["_etag"] != "x"
    assert created["_ts"] > 1_600_000_000 and created["_attachments"] == "attachments/"


async def test_replace(container):
    created = await create(container)
    replaced = await done(container.replace_item("1", {"id": "1", "pk": "a", "fresh": True}))
    assert without_system(replaced) == {"id": "1", "pk": "a", "fresh": True}
    assert replaced["_rid"] == created["_rid"]
    assert replaced["_etag"] != created["_etag"]
    assert without_system(await done(container.read_item("1", "a"))) == {"id": "1", "pk": "a", "fresh": True}


async def test_replace_with_another_id_renames(container):
    await create(container)
    renamed = await done(container.replace_item("1", {**ITEM, "id": "2"}))
    assert renamed["id"] == "2"
    with refused(404):
        await done(container.read_item("1", "a"))
    assert (await done(container.read_item("2", "a")))["n"] == 1
    assert len(await collect(container.read_all_items())) == 1


async def test_rename_onto_an_existing_item_conflicts(container):
    await create(container, id="1")
    await create(container, id="2")
    with refused(409):
        await done(container.replace_item("1", {**ITEM, "id": "2"}))
    assert (await done(container.read_item("1", "a")))["id"] == "1"


async def test_upsert_creates_then_replaces(container):
    created = await done(container.upsert_item({"id": "1", "pk": "a", "n": 1}))
    replaced = await done(container.upsert_item({"id": "1", "pk": "a", "n": 2}))
    assert replaced["_rid"] == created["_rid"]
    assert replaced["_etag"] != created["_etag"]
    assert (await done(container.read_item("1", "a")))["n"] == 2
    assert len(await collect(container.read_all_items())) == 1


async def test_upsert_in_another_partition_is_another_item(container):
    await done(container.upsert_item({"id": "1", "pk": "a"}))
    await done(container.upsert_item({"id": "1", "pk": "b"}))
    assert len(await collect(container.read_all_items())) == 2


async def test_delete(container):
    await create(container)
    await done(container.delete_item("1", "a"))
    with refused(404):
        await done(container.read_item("1", "a"))
    created = await create(container, n=9)
    assert created["n"] == 9


async def test_delete_by_partition_key_removes_exactly_that_partition(container):
    for number in range(5):
        await create(container, id=str(number), pk="gone")
        await create(container, id=str(number), pk="kept")
    await done(container.delete_all_items_by_partition_key("gone"))
    with refused(404):
        await done(container.read_item("0", "gone"))
    left = await collect(container.read_all_items())
    assert {item["pk"] for item in left} == {"kept"} and len(left) == 5
    await create(container, id="0", pk="gone")


async def test_no_response_leaves_out_the_body_only(container):
    created = await done(container.create_item(ITEM, no_response=True))
    assert created == {}
    headers = created.get_response_headers()
    assert float(headers["x-ms-request-charge"]) > 0 and headers["x-ms-session-token"] and headers["etag"]
    assert await done(container.replace_item("1", {**ITEM, "n": 2}, no_response=True)) == {}
    assert await done(container.upsert_item({**ITEM, "n": 3}, no_response=True)) == {}
    operations = [{"op": "incr", "path": "/n", "value": 1}]
    assert await done(container.patch_item("1", "a", operations, no_response=True)) == {}
    assert (await done(container.read_item("1", "a")))["n"] == 4


async def test_item_operations_are_charged(container):
    created = await create(container)
    assert charge(created) > 1
    assert charge(await done(container.replace_item("1", ITEM))) > 1
    assert charge(await done(container.upsert_item(ITEM))) > 1
    assert charge(await done(container.read_item("1", "a"))) == 1


async def test_charge_of_a_read_grows_with_size(container):
    await create(container, id="small", text="x" * 500)
    await create(container, id="large", text="x" * 100_000)
    assert charge(await done(container.read_item("small", "a"))) == 1
    assert charge(await done(container.read_item("large", "a"))) > 5


@pytest.mark.parametrize("directive", [0, 1, 2])
async def test_indexing_directive_is_accepted(container, directive):
    await done(container.create_item(ITEM, indexing_directive=directive))
    assert (await done(container.read_item("1", "a")))["n"] == 1
