"""The Table API: filters, selection, pages and the order of keys."""

from datetime import datetime, timezone
from uuid import UUID

import pytest
from azure.data.tables import EdmType, EntityProperty

from support import collect, done, first_page, page_list
from tables import Tables, entity, keys, new_table, put_all, refused_table
from server import Server
from test_repartition import Partitions

GUID = UUID("c9da6455-213d-42c9-9a79-3e9149a57833")
WHEN = datetime(2020, 2, 29, 12, 30, 1, 500000, tzinfo=timezone.utc)
ENTITIES = [
    entity("1", "a", s="x", i=1, big=EntityProperty(1 << 40, EdmType.INT64), d=1.5, b=True),
    entity("2", "a", s="it's", i=2, when=WHEN, guid=GUID),
    entity("1", "b", s="x", i=EntityProperty(2, EdmType.INT64), d=2.0, b=False, bytes=b"\x00\xff"),
    entity("2", "b", other="x"),
    entity("1", "c", i="1"),
]

FILTERS = [
    ("PartitionKey eq 'a'", "a1 a2"),
    ("PartitionKey eq 'a' and RowKey eq '2'", "a2"),
    ("PartitionKey ge 'a' and PartitionKey lt 'c' and RowKey eq '1'", "a1 b1"),
    ("PartitionKey eq 'c' or PartitionKey eq 'a'", "a1 a2 c1"),
    ("RowKey eq '2'", "a2 b2"),
    ("PartitionKey gt 'a' and RowKey le '1'", "b1 c1"),
    ("not (PartitionKey eq 'a')", "b1 b2 c1"),
    ("PartitionKey eq 'nobody'", ""),
    ("s eq 'x'", "a1 b1"),
    ("s eq 'it''s'", "a2"),
    ("s ne 'x'", "a2"),
    ("not (s eq 'x')", "a2 b2 c1"),
    ("i eq 2", "a2 b1"),
    ("i eq 2L", "a2 b1"),
    ("i ge 1.5", "a2 b1"),
    ("i eq '1'", "c1"),
    ("big eq 1099511627776L", "a1"),
    ("big gt 1", "a1"),
    ("d lt 2", "a1"),
    ("d eq 2.0", "b1"),
    ("b", "a1"),
    ("b eq false", "b1"),
    ("not b", "a2 b1 b2 c1"),
    ("when eq datetime'2020-02-29T12:30:01.5Z'", "a2"),
    ("when lt datetime'2020-02-29T12:30:01.5000001Z'", "a2"),
    ("guid eq guid'C9DA6455-213d-42c9-9a79-3e9149a57833'", "a2"),
    ("bytes eq X'00ff'", "b1"),
    ("i eq 1 or i eq 2 and b eq false", "a1 b1"),
    ("(i eq 1 or i eq 2) and b eq false", "b1"),
    ("Timestamp gt datetime'2000-01-01T00:00:00Z'", "a1 a2 b1 b2 c1"),
    ("PartitionKey eq 'a' and missing eq 1", ""),
    ("2 gt i", "a1"),
    ("", "a1 a2 b1 b2 c1"),
]


@pytest.fixture(scope="module")
async def filled(table_service):
    table = await done(table_service.create_table(new_table()))
    await put_all(table, reversed(ENTITIES))
    return table


@pytest.mark.parametrize(("text", "expected"), FILTERS)
async def test_filters(filled, text, expected):
    found = await collect(filled.query_entities(text))
    assert " ".join("".join(pair) for pair in keys(found)) == expected


async def test_parameters(filled):
    for text, value, expected in [
        ("s eq @v", "it's", [("a", "2")]),
        ("i eq @v", 2, [("a", "2"), ("b", "1")]),
        ("when eq @v", WHEN, [("a", "2")]),
        ("guid eq @v", GUID, [("a", "2")]),
        ("bytes eq @v", b"\x00\xff", [("b", "1")]),
        ("b eq @v", True, [("a", "1")]),
        ("d eq @v", 1.5, [("a", "1")]),
    ]:
        assert keys(await collect(filled.query_entities(text, parameters={"v": value}))) == expected, text


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("s eq", 400, "InvalidInput"),
        ("s eq 'open", 400, "InvalidInput"),
        ("1 eq 1", 400, "InvalidInput"),
        ("(s eq 'x'", 400, "InvalidInput"),
        ("guid eq guid'1'", 400, "InvalidInput"),
        ("startswith(s, 'x')", 501, "NotImplemented"),
        ("s eq other", 501, "NotImplemented"),
    ],
)
async def test_wrong_filters(filled, text, status, code):
    with refused_table(status, code):
        await collect(filled.query_entities(text, retry_total=0))


async def test_selection(filled):
    found = await collect(filled.query_entities("PartitionKey eq 'a'", select=["i", "PartitionKey", "missing"]))
    assert [dict(each) for each in found] == [{"PartitionKey": "a", "i": 1}, {"PartitionKey": "a", "i": 2}]
    assert all(each.metadata["etag"] for each in found)
    assert dict(await done(filled.get_entity("a", "1", select=["s", "i"]))) == {"s": "x", "i": 1}


async def test_options_that_do_not_exist(filled):
    for option in ("$orderby=i", "$skip=1", "$count=true", "$expand=x", "$inlinecount=allpages"):

        def add(request, option=option):
            request.http_request.url += ("&" if "?" in request.http_request.url else "?") + option

        with refused_table(501, "NotImplemented"):
            await collect(filled.list_entities(raw_request_hook=add, retry_total=0))


async def test_pages(table):
    rows = [entity(f"{n:02}", "p" if n < 7 else "q", n=n) for n in range(10)]
    await put_all(table, rows)
    pages, tokens = await page_list(table.list_entities(results_per_page=2))
    assert [len(page) for page in pages] == [2] * 5
    assert tokens[-1] is None
    assert [each["n"] for page in pages for each in page] == list(range(10))
    page, token = await first_page(table.query_entities("n ge 3", results_per_page=3))
    assert [each["n"] for each in page] == [3, 4, 5]
    page, _ = await first_page(table.query_entities("n ge 3", results_per_page=3), token)
    assert [each["n"] for each in page] == [6, 7, 8]


async def test_results_come_in_the_order_of_keys(table):
    pairs = [(p, r) for p in ("", "A", "a", "b", "é", "\uff5e") for r in ("", "0", "00", "z", "ü")]
    pairs = [pair for pair in pairs if all(pair)]
    await put_all(table, [entity(r, p) for p, r in sorted(pairs, key=lambda pair: pair[::-1], reverse=True)])
    pages, _ = await page_list(table.list_entities(results_per_page=7))
    assert [pair for page in pages for pair in keys(page)] == sorted(pairs)


async def test_a_thousand_entities_are_a_page(table):
    for start in range(0, 1100, 100):
        batch = [("upsert", entity(f"{n:04}", n=n)) for n in range(start, start + 100)]
        await done(table.submit_transaction(batch))
    pages, _ = await page_list(table.list_entities())
    assert [len(page) for page in pages] == [1000, 100]
    await done(table.delete_entity("p", "0000"))


async def test_splits_between_pages_are_not_noticed(tables):
    """A server of its own, whose table is split while its pages are read."""
    server = Server("--memory", "--throttling", "off")
    own = Tables(server, tables.client, tables.flavour)
    service = own.connect()
    name = new_table()
    table = await done(service.create_table(name))
    expected = [(f"p{n:02}", r) for n in range(20) for r in ("1", "2", "3")]
    await put_all(table, [entity(r, p, even=int(r) % 2 == 0) for p, r in expected])
    partitions = Partitions(server, "TablesDB", name)
    found, token, splits = [], None, [0, 1, 2]
    while True:
        page, token = await first_page(table.list_entities(results_per_page=9), token)
        found.extend(keys(page))
        if splits:
            partitions.split(splits.pop(0))
        if token is None:
            break
    assert found == expected
    filtered = await collect(table.query_entities("even and PartitionKey ge 'p05' and PartitionKey lt 'p10'"))
    assert keys(filtered) == [(f"p{n:02}", "2") for n in range(5, 10)]
    await done(service.close())
    server.stop()
