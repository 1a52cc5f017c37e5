"""Tables through the NoSQL API, and its items through the Table API."""

import os
import subprocess
from datetime import datetime, timezone
from uuid import UUID

import pytest
from azure.cosmos import CosmosClient, PartitionKey
from azure.data.tables import EdmType, EntityProperty

from support import collect, done, page_list
from tables import entity, keys, new_table, put_all, refused_table

ENTITY = entity(
    "r1",
    "p1",
    name="x",
    age=39,
    big=EntityProperty(1099511627776, EdmType.INT64),
    less=EntityProperty(-5, EdmType.INT64),
    ok=True,
    ratio=3.1,
    when=datetime(2019, 12, 30, 15, 30, 45, 678901, tzinfo=timezone.utc),
    gid=UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
    bin=b"\x01\x02",
)

DOCUMENT = {
    "id": "r1",
    "$id": "r1",
    "$pk": "p1",
    "name": {"$t": 2, "$v": "x"},
    "age": {"$t": 16, "$v": 39},
    "big": {"$t": 18, "$v": "00000001099511627776"},
    "less": {"$t": 18, "$v": "-00000000000000000005"},
    "ok": {"$t": 8, "$v": True},
    "ratio": {"$t": 1, "$v": 3.1},
    "when": {"$t": 9, "$v": "00637133166456789010"},
    "gid": {"$t": 0, "$v": "c9da6455-213d-42c9-9a79-3e9149a57833"},
    "bin": {"$t": 5, "$v": "AQI="},
}


@pytest.fixture(scope="session")
def tables_database(server):
    return CosmosClient(server.http, server.key).get_database_client("TablesDB")


def shown(document):
    return {name: value for name, value in document.items() if not name.startswith("_") and name != "Timestamp"}


async def test_an_entity_is_an_item(table, tables_database):
    await done(table.create_entity(ENTITY))
    container = tables_database.get_container_client(table.table_name)
    assert shown(container.read_item("r1", "p1")) == DOCUMENT
    text = 'SELECT c["$pk"] AS pk, c.age["$v"] AS age FROM c WHERE c.age["$v"] > 30'
    found = container.query_items(text, enable_cross_partition_query=True)
    assert list(found) == [{"pk": "p1", "age": 39}]
    assert [shown(item) for item in container.query_items_change_feed(is_start_from_beginning=True)] == [DOCUMENT]


async def test_an_item_is_an_entity(table, tables_database):
    container = tables_database.get_container_client(table.table_name)
    container.create_item({**DOCUMENT, "plain": 1})
    read = await done(table.get_entity("p1", "r1"))
    assert dict(read) == ENTITY
    assert keys(await collect(table.query_entities("age eq 39"))) == [("p1", "r1")]
    before = read.metadata["etag"]
    container.upsert_item({**DOCUMENT, "age": {"$t": 16, "$v": 40}})
    read = await done(table.get_entity("p1", "r1"))
    assert read["age"] == 40
    assert read.metadata["etag"] != before


async def test_a_container_is_a_table(tables, table_service, tables_database):
    name = new_table()
    tables_database.create_container(name, PartitionKey("/$pk"), offer_throughput=700)
    table = table_service.get_table_client(name)
    await done(table.create_entity(ENTITY))
    assert keys(await collect(table.list_entities())) == [("p1", "r1")]
    assert name in {each.name for each in await collect(table_service.list_tables())}
    await done(table_service.delete_table(name))
    with refused_table(404, "TableNotFound"):
        await done(table.get_entity("p1", "r1"))


async def test_a_table_is_scaled_by_every_api(server, table_service, tables_database):
    name = new_table()
    await done(table_service.create_table(name, headers={"x-ms-offer-throughput": "700"}))
    container = tables_database.get_container_client(name)
    assert container.get_throughput().offer_throughput == 700
    assert container.replace_throughput(800).offer_throughput == 800
    # The command asks the admin API.
    command = [os.environ["PLANISPHERE_BIN"], "throughput", "set", f"TablesDB/{name}", "manual", "900"]
    subprocess.run([*command, "--endpoint", server.endpoints["admin"]], check=True)
    assert container.get_throughput().offer_throughput == 900
    await done(table_service.delete_table(name))


async def test_a_container_lists_in_the_order_of_keys_at_once(tables, tables_database):
    name = new_table()
    tables_database.create_container(name, PartitionKey("/$pk"), offer_throughput=18_000)
    service = tables.connect(retry_total=0)
    try:
        table = service.get_table_client(name)
        entities = [entity(f"r{n}", f"p{n % 8}", n=n) for n in range(40)]
        await put_all(table, entities)
        # The first query asks for the index; those behind it come before, while and after it is made.
        for _ in range(3):
            pages, _ = await page_list(table.list_entities(results_per_page=9))
            assert [len(page) for page in pages] == [9, 9, 9, 9, 4]
            assert keys(each for page in pages for each in page) == sorted(keys(entities))
        assert keys(await collect(table.query_entities("n ge 38"))) == [("p6", "r38"), ("p7", "r39")]
    finally:
        await done(service.close())
