"""The Table API: tables, entities, versions, types and limits."""

import asyncio
import json
from datetime import datetime, timezone
from uuid import UUID

import pytest
from azure.core import MatchConditions
from azure.data.tables import EdmType, EntityProperty, UpdateMode

from support import collect, done
from tables import entity, keys, new_table, refused_table

TYPED = {
    "text": "naïve 'quoted' \u2603",
    "small": 2147483647,
    "large": EntityProperty(9223372036854775807, EdmType.INT64),
    "ratio": 0.1,
    "whole": 3.0,
    "yes": True,
    "when": datetime(2013, 8, 22, 1, 12, 6, 260859, tzinfo=timezone.utc),
    "guid": UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
    "bytes": bytes(range(256)),
    "ETag": "an ordinary name",
    "größe": 1,
}


async def test_tables_are_created_listed_and_deleted(table_service):
    names = sorted(new_table() for _ in range(3))
    for name in names:
        await done(table_service.create_table(name))
    with refused_table(409, "TableAlreadyExists"):
        await done(table_service.create_table(names[0]))
    wanted = {"low": names[0], "high": names[2]}
    found = table_service.query_tables("TableName ge @low and TableName lt @high", parameters=wanted)
    assert {each.name for each in await collect(found)} >= set(names[:2])
    assert names[2] in {each.name for each in await collect(table_service.list_tables(results_per_page=1))}
    await done(table_service.delete_table(names[0]))
    await done(table_service.delete_table(names[0]))
    missing = table_service.get_table_client(names[0])
    with refused_table(404, "TableNotFound"):
        await done(missing.create_entity(entity()))


async def test_every_type_comes_back(table):
    await done(table.create_entity(entity(**TYPED)))
    read = await done(table.get_entity("p", "r"))
    assert dict(read) == {**entity(), **TYPED}
    assert isinstance(read["whole"], float) and isinstance(read["small"], int)
    assert read.metadata["etag"].startswith("W/\"datetime'")
    assert read.metadata["timestamp"].tzinfo is not None
    assert list(read)[2:] == list(TYPED)


async def test_hundred_nanoseconds_survive(table):
    text = "2013-08-22T01:12:06.2608595Z"
    await done(table.create_entity(entity(when=(text, EdmType.DATETIME))))
    read = await done(table.get_entity("p", "r"))
    assert read["when"].tables_service_value == text


async def test_entities_are_inserted_once(table):
    await done(table.create_entity(entity(n=1)))
    with refused_table(409, "EntityAlreadyExists"):
        await done(table.create_entity(entity(n=2)))
    assert (await done(table.get_entity("p", "r")))["n"] == 1
    with refused_table(404, "ResourceNotFound"):
        await done(table.get_entity("p", "other"))


async def test_merging_keeps_and_replacing_drops(table):
    await done(table.upsert_entity(entity(a=1, b=2)))
    await done(table.update_entity(entity(b="new", c=3, a=None), mode=UpdateMode.MERGE))
    assert dict(await done(table.get_entity("p", "r"))) == entity(a=1, b="new", c=3)
    await done(table.upsert_entity(entity(d=4), mode=UpdateMode.MERGE))
    assert dict(await done(table.get_entity("p", "r"))) == entity(a=1, b="new", c=3, d=4)
    await done(table.update_entity(entity(e=5), mode=UpdateMode.REPLACE))
    assert dict(await done(table.get_entity("p", "r"))) == entity(e=5)
    with refused_table(404, "ResourceNotFound"):
        await done(table.update_entity(entity("missing"), mode=UpdateMode.MERGE))
    await done(table.delete_entity("p", "r"))
    await done(table.delete_entity("p", "r"))


@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE])
async def test_only_the_current_version_is_changed(table, mode):
    old = (await done(table.create_entity(entity(n=1))))["etag"]
    new = (await done(table.update_entity(entity(n=2), mode=mode)))["etag"]
    assert old != new
    condition = {"mode": mode, "match_condition": MatchConditions.IfNotModified}
    with refused_table(412, "UpdateConditionNotSatisfied"):
        await done(table.update_entity(entity(n=3), etag=old, **condition))
    await done(table.update_entity(entity(n=4), etag=new, **condition))
    with refused_table(412, "UpdateConditionNotSatisfied"):
        await done(table.delete_entity("p", "r", etag=new, match_condition=MatchConditions.IfNotModified))
    read = await done(table.get_entity("p", "r"))
    assert read["n"] == 4
    now = read.metadata["etag"]
    await done(table.delete_entity("p", "r", etag=now, match_condition=MatchConditions.IfNotModified))


async def test_no_update_is_lost(table):
    """Counters raised by many clients at once, each giving up a round when somebody was faster."""
    await done(table.create_entity(entity(n=0)))

    async def raise_once():
        while True:
            read = await done(table.get_entity("p", "r"))
            read["n"] += 1
            etag = read.metadata["etag"]
            condition = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
            try:
                return await done(table.update_entity(read, mode=UpdateMode.REPLACE, **condition))
            except Exception as error:
                assert error.status_code == 412, error

    await asyncio.gather(*(raise_once() for _ in range(20)))
    assert (await done(table.get_entity("p", "r")))["n"] == 20


async def test_names_are_told_apart_by_case(table):
    await done(table.create_entity(entity(Birthday=1, birthday=2, timestamp="x")))
    read = await done(table.get_entity("p", "r"))
    assert (read["Birthday"], read["birthday"], read["timestamp"]) == (1, 2, "x")


@pytest.mark.parametrize("key", ["it's", "a b", "100%", "=(x),", "ü\u2603", "\U0001f600", "+&:@"])
async def test_keys_of_all_sorts(table, key):
    await done(table.create_entity(entity(key, key, n=1)))
    assert keys([await done(table.get_entity(key, key))]) == [(key, key)]
    await done(table.update_entity(entity(key, key, m=2), mode=UpdateMode.MERGE))
    condition = {"pk": key, "rk": key}
    found = table.query_entities("PartitionKey eq @pk and RowKey eq @rk", parameters=condition)
    assert [dict(each) for each in await collect(found)] == [entity(key, key, n=1, m=2)]
    await done(table.delete_entity(key, key))


async def test_empty_keys(tables, table):
    if tables.is_storage:
        await done(table.create_entity(entity("", "", n=1)))
        assert (await done(table.get_entity("", "")))["n"] == 1
        assert keys(await collect(table.list_entities())) == [("", "")]
        await done(table.delete_entity("", ""))
    else:
        with refused_table(400) as caught:
            await done(table.create_entity(entity("", "p")))
        assert "PartitionKey/RowKey cannot be empty" in str(caught.error)


@pytest.mark.parametrize("key", ["a/b", "a\\b", "a#b", "a?b"])
async def test_forbidden_characters(table, key):
    with refused_table(400):
        await done(table.create_entity(entity(key)))


async def test_limits_of_entities(tables, table):
    with refused_table(400, "TooManyProperties"):
        await done(table.create_entity(entity(**{f"p{n}": n for n in range(253)})))
    await done(table.create_entity(entity(**{f"p{n}": n for n in range(252)})))
    for name, code in [("n" * 256, "PropertyNameTooLong"), ("1a", "PropertyNameInvalid"), ("a-b", "PropertyNameInvalid")]:
        with refused_table(400, code):
            await done(table.create_entity(entity("names", **{name: 1})))
    if tables.is_storage:
        await done(table.create_entity(entity("text", s="x" * 32 * 1024)))
        with refused_table(400, "PropertyValueTooLarge"):
            await done(table.create_entity(entity("text+1", s="x" * (32 * 1024 + 1))))
        await done(table.create_entity(entity("bytes", b=bytes(64 * 1024))))
        with refused_table(400, "PropertyValueTooLarge"):
            await done(table.create_entity(entity("bytes+1", b=bytes(64 * 1024 + 1))))
        large = {f"p{n}": "x" * 30_000 for n in range(20)}
        with refused_table(400, "EntityTooLarge"):
            await done(table.create_entity(entity("large", **large)))
        half = {f"p{n}": "x" * 30_000 for n in range(10)}
        other = {f"q{n}": "x" * 30_000 for n in range(10)}
        await done(table.create_entity(entity("merged", **half)))
        with refused_table(400, "EntityTooLarge"):
            await done(table.update_entity(entity("merged", **other), mode=UpdateMode.MERGE))
        assert dict(await done(table.get_entity("p", "merged"))) == entity("merged", **half)


@pytest.mark.parametrize(
    "value",
    [
        EntityProperty("not a guid", "Edm.Guid"),
        EntityProperty("not a date", "Edm.DateTime"),
        EntityProperty("*", "Edm.Binary"),
        EntityProperty("2147483648", "Edm.Int32"),
        EntityProperty("9223372036854775808", "Edm.Int64"),
        EntityProperty("yes", "Edm.Boolean"),
    ],
    ids=lambda value: value.edm_type,
)
async def test_values_fit_their_types(table, value):
    """What the SDK would not send is put in its place as the request leaves."""

    def spoil(request):
        spoilt = entity(v=value.value, **{"v@odata.type": str(value.edm_type)})
        request.http_request.set_bytes_body(json.dumps(spoilt).encode())

    with refused_table(400, "InvalidInput"):
        await done(table.create_entity(entity(v="placeholder"), raw_request_hook=spoil))
