"""Values come back exactly as they were sent, up to the limits."""

import json

import pytest

from support import collect, done, refused

VALUES = {
    "int64-max": 2**63 - 1,
    "int64-min": -(2**63),
    "2-to-53-plus-1": 2**53 + 1,
    "double": 0.1,
    "double-max": 1.7976931348623157e308,
    "double-min": 5e-324,
    "negative": -17,
    "empty-text": "",
    "control-characters": "\u0001\t\n\r\u001f",
    "quotes": "\"\\/'",
    "nul": "a\u0000b",
    "line-separators": "\u2028\u2029",
    "unicode": "ÄÖÜ 東京 العربية हिन्दी",
    "emoji": "👩‍👩‍👧‍👦🚀",
    "lone-tilde": "~0~1",
    "empty-list": [],
    "empty-object": {},
    "null": None,
    "nested": [[[[{"a": [{"b": [None, True, False]}]}]]]],
    "long-text": "x" * 100_000,
    "long-list": list(range(5_000)),
    "many-members": {f"m{number}": number for number in range(1_000)},
    "empty-name": {"": 1},
    "odd-names": {"with space": 1, "a/b": 2, 'q"': 3, "ü": 4, "$x": 5, "a.b": 6},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_value_reads_back_exactly(container, value):
    created = await done(container.create_item({"id": "1", "pk": "a", "value": value}))
    read = await done(container.read_item("1", "a"))
    queried = await collect(container.query_items('SELECT VALUE c["value"] FROM c', partition_key="a"))
    for answer in (created["value"], read["value"], *queried):
        assert json.dumps(answer) == json.dumps(value)
    assert len(queried) == 1


async def test_integers_stay_integers_and_doubles_doubles(container):
    raw = {}

    def remember(response):
        raw["text"] = response.http_response.text()

    body = {"id": "1", "pk": "a", "big": 9007199254740993, "half": 1.5, "order": {"z": 1, "a": 2}}
    await done(container.create_item(body))
    await done(container.read_item("1", "a", raw_response_hook=remember))
    assert "9007199254740993" in raw["text"]
    assert raw["text"].index('"z"') < raw["text"].index('"a":2')


async def test_item_just_under_the_limit(container):
    text = "x" * (2 * 1024 * 1024 - 400)
    await done(container.create_item({"id": "1", "pk": "a", "text": text}))
    assert (await done(container.read_item("1", "a")))["text"] == text
    assert (await done(container.replace_item("1", {"id": "1", "pk": "a", "text": text[::-1]})))["id"] == "1"
    assert len(await collect(container.query_items("SELECT * FROM c", partition_key="a"))) == 1


async def test_too_large_item_is_refused(container):
    text = "x" * (2 * 1024 * 1024 + 1)
    with refused(413):
        await done(container.create_item({"id": "1", "pk": "a", "text": text}))
    with refused(413):
        await done(container.upsert_item({"id": "1", "pk": "a", "text": text}))
    await done(container.create_item({"id": "1", "pk": "a", "text": text[:1_500_000]}))
    with refused(413):
        await done(container.replace_item("1", {"id": "1", "pk": "a", "text": text}))
    with refused(413):
        operations = [{"op": "add", "path": "/more", "value": text[:1_000_000]}]
        await done(container.patch_item("1", "a", operations))
    assert "more" not in await done(container.read_item("1", "a"))
    # The client sends all of it before it looks for an answer.
    with refused(413):
        await done(container.create_item({"id": "2", "pk": "a", "text": text * 15}, retry_write=0))


async def test_large_pages_are_cut(container):
    for number in range(6):
        await done(container.create_item({"id": str(number), "pk": "a", "text": "x" * 1_500_000}))
    assert len(await collect(container.read_all_items(max_item_count=100))) == 6


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"n": value}
    return value


async def test_nesting_up_to_the_limit(container):
    await done(container.create_item({"id": "1", "pk": "a", "deep": nested(120)}))
    assert (await done(container.read_item("1", "a")))["deep"] == nested(120)
    with refused(400):
        await done(container.create_item({"id": "2", "pk": "a", "deep": nested(200)}))


BROKEN = {
    "truncated": b'{"id":"1","pk":"a"',
    "trailing": b'{"id":"1","pk":"a"} x',
    "invalid-utf8": b'{"id":"1","pk":"\xff\xfe"}',
    "empty": b"",
    "nan": b'{"id":"1","pk":"a","n":NaN}',
    "single-quotes": b"{'id':'1','pk':'a'}",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
async def test_broken_body_is_refused(container, body):
    def spoil(request):
        request.http_request.set_bytes_body(body)
        request.http_request.headers["content-type"] = "application/json"
        request.http_request.headers["content-length"] = str(len(body))

    with refused(400):
        await done(container.create_item({"id": "1", "pk": "a"}, raw_request_hook=spoil))
    assert await collect(container.read_all_items()) == []
