"""The Table API: transactions within one partition."""

import pytest
from azure.core import MatchConditions
from azure.data.tables import TableTransactionError, UpdateMode

from support import collect, done
from tables import entity, keys


async def test_all_kinds_of_operations_in_one(table):
    await done(table.create_entity(entity("merged", a=1, b=1)))
    await done(table.create_entity(entity("replaced", a=1, b=1)))
    await done(table.create_entity(entity("deleted")))
    results = await done(
        table.submit_transaction(
            [
                ("create", entity("created", a=1)),
                ("update", entity("merged", b=2), {"mode": UpdateMode.MERGE}),
                ("update", entity("replaced", b=2), {"mode": UpdateMode.REPLACE}),
                ("upsert", entity("upserted", c=3)),
                ("delete", entity("deleted")),
            ]
        )
    )
    assert len(results) == 5
    assert all(result["etag"].startswith('W/"') for result in results[:4])
    assert "etag" not in results[4]
    found = {each["RowKey"]: dict(each) for each in await collect(table.list_entities())}
    assert found == {
        "created": entity("created", a=1),
        "merged": entity("merged", a=1, b=2),
        "replaced": entity("replaced", b=2),
        "upserted": entity("upserted", c=3),
    }


async def test_a_failing_operation_undoes_the_others(table):
    await done(table.create_entity(entity("3", n=1)))
    operations = [("create", entity(str(n), n=2)) for n in range(6)]
    with pytest.raises(TableTransactionError) as caught:
        await done(table.submit_transaction(operations))
    assert caught.value.index == 3
    assert caught.value.error_code == "EntityAlreadyExists"
    assert keys(await collect(table.list_entities())) == [("p", "3")]


async def test_conditions_count_inside_transactions(table):
    old = (await done(table.create_entity(entity(n=1))))["etag"]
    await done(table.upsert_entity(entity(n=2)))
    stale = {"etag": old, "match_condition": MatchConditions.IfNotModified, "mode": UpdateMode.REPLACE}
    with pytest.raises(TableTransactionError) as caught:
        await done(table.submit_transaction([("upsert", entity("new")), ("update", entity(n=3), stale)]))
    assert (caught.value.index, caught.value.error_code) == (1, "UpdateConditionNotSatisfied")
    assert [dict(each) for each in await collect(table.list_entities())] == [entity(n=2)]


async def test_an_entity_appears_once(table):
    with pytest.raises(TableTransactionError) as caught:
        await done(table.submit_transaction([("upsert", entity(n=1)), ("upsert", entity(n=2))]))
    assert caught.value.error_code == "InvalidDuplicateRow"
    assert await collect(table.list_entities()) == []


async def test_one_partition_only(table):
    """The SDK checks this itself, so the second entity is moved as the request leaves."""

    first = entity("1", "there")
    second = entity("2", "there")

    def move_second(request):
        body = request.http_request.body
        body = body if isinstance(body, bytes) else body.encode()
        head, _, tail = body.rpartition(b'"PartitionKey": "there"')
        request.http_request.set_bytes_body(head + b'"PartitionKey": "elsewhere"' + tail)

    with pytest.raises(TableTransactionError) as caught:
        await done(table.submit_transaction([("create", first), ("create", second)], raw_request_hook=move_second))
    assert caught.value.error_code == "CommandsInBatchActOnDifferentPartitions"
    assert await collect(table.list_entities()) == []


async def test_a_hundred_operations_and_no_more(table):
    await done(table.submit_transaction([("create", entity(f"{n:03}")) for n in range(100)]))
    with pytest.raises(TableTransactionError) as caught:
        await done(table.submit_transaction([("upsert", entity(f"{n:03}", n=n)) for n in range(101)]))
    assert "100 changes" in str(caught.value)
    found = await collect(table.list_entities())
    assert len(found) == 100 and all("n" not in each for each in found)


async def test_missing_tables(tables, table_service):
    missing = table_service.get_table_client("missing0table")
    with pytest.raises(TableTransactionError) as caught:
        await done(missing.submit_transaction([("create", entity())]))
    assert caught.value.error_code == ("TableNotFound" if tables.is_storage else "ResourceNotFound")


async def test_texts_that_look_like_boundaries(table):
    text = "--changeset_x\r\n\r\nHTTP/1.1 500 {\"odata.error\":1}\r\n--batch_y--"
    await done(table.submit_transaction([("create", entity("1", s=text)), ("create", entity("2", s=text))]))
    assert [each["s"] for each in await collect(table.list_entities())] == [text, text]
