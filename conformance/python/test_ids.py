"""Ids with awkward characters: what is stored must be reachable by its id."""

import pytest

from support import KEY_PK, collect, done, new_id, refused

REACHABLE = {
    "plain": "plain",
    "inner-space": "with inner space",
    "leading-space": " leading",
    "unicode": "WithUnicode鱀",
    "emoji": "🚀",
    "punctuation": "WithAllowedSpecial,=.:~+-@()^${}[]!_Chars",
    "percent-20": "With%20Percent",
    "percent-unicode": "With%E9%B1%80Percent",
    "percent": "100%",
    "plus": "a+b",
    "ampersand": "a&b=c",
    "quotes": 'it\'s "quoted"',
    "asterisk": "a*b",
    "pipe": "a|b<c>d",
    "base64": "BQE1D3PdG4N4bzU9TKaCIM3qc0TVcZ2-Y3jnsRfwdHC1ombkX3F1dot-SG0-UTq9AZVRoAA=",
    "digits": "0012",
    "1023-bytes": "x" * 1023,
}


@pytest.mark.parametrize("id", REACHABLE.values(), ids=REACHABLE)
async def test_item_is_reachable_by_its_id(container, id):
    created = await done(container.create_item({"id": id, "pk": "a"}))
    assert created["id"] == id
    assert (await done(container.read_item(id, "a")))["_rid"] == created["_rid"]
    assert (await done(container.replace_item(id, {"id": id, "pk": "a", "n": 1})))["n"] == 1
    assert (await done(container.patch_item(id, "a", [{"op": "incr", "path": "/n", "value": 1}])))["n"] == 2
    with refused(409):
        await done(container.create_item({"id": id, "pk": "a"}))
    found = await collect(
        container.query_items(
            "SELECT VALUE c.id FROM c WHERE c.id = @id", parameters=[{"name": "@id", "value": id}], partition_key="a"
        )
    )
    assert found == [id]
    await done(container.execute_item_batch([("read", (id,)), ("delete", (id,))], "a"))
    with refused(404):
        await done(container.read_item(id, "a"))


def with_id(id):
    """The SDK checks ids, so ids that it refuses itself are put into the body on its way out."""

    def swap(request):
        request.http_request.set_json_body({"id": id, "pk": "a"})

    return swap


@pytest.mark.parametrize("id", ["x" * 1024, "é" * 512], ids=["1024-bytes", "1024-utf8"])
async def test_id_is_refused(container, id):
    with refused(400):
        await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=with_id(id)))
    assert await collect(container.read_all_items()) == []


async def test_ids_compare_exactly(container):
    for id in ("a", "A", "a ", "é", "e\u0301"):
        await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=with_id(id)))
    assert len(await collect(container.read_all_items())) == 5


async def test_names_with_percent_signs(client):
    name = new_id("100%25 ü")
    database = await done(client.create_database(name))
    container = await done(database.create_container("c%2Fd", KEY_PK))
    await done(container.create_item({"id": "1", "pk": "a"}))
    assert (await done(container.read_item("1", "a")))["id"] == "1"
    assert (await done(database.read()))["id"] == name
    assert (await done(container.read()))["id"] == "c%2Fd"
    await done(client.delete_database(database))
