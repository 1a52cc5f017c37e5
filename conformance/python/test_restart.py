"""What was acknowledged is still there when the server comes back."""

import pytest
from azure.cosmos import PartitionKey, ThroughputProperties

from conftest import VARIANTS, Account
from server import Server
from support import KEY_PK, collect, done, first_page, page_list, refused, session_token


@pytest.fixture(params=VARIANTS, ids="-".join)
def restartable(request, tmp_path):
    """A durable server; calling the fixture's value stops the old process and starts a new one."""
    flavour, transport = request.param
    running = []

    def start():
        if running:
            running.pop().stop()
        running.append(Server("--data", str(tmp_path / "data"), "--throttling", "off"))
        return Account(running[-1], flavour, transport)

    yield start
    while running:
        running.pop().stop()


async def test_everything_survives_a_restart(restartable):
    client = restartable().client()
    database = await done(client.create_database("db", offer_throughput=800))
    container = await done(
        database.create_container(
            "c",
            KEY_PK,
            offer_throughput=ThroughputProperties(auto_scale_max_throughput=30_000),
            unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}]},
            default_ttl=-1,
        )
    )
    levels = await done(database.create_container("h", PartitionKey(path=["/a", "/b"], kind="MultiHash")))
    for number in range(20):
        await done(container.create_item({"id": str(number), "pk": f"p{number}", "email": "e", "n": 2**60 + number}))
    await done(container.delete_item("0", "p0"))
    await done(container.replace_item("1", {"id": "1", "pk": "p1", "email": "other"}))
    await done(container.execute_item_batch([("create", ({"id": "x", "pk": "batch"},))], "batch"))
    await done(levels.create_item({"id": "1", "a": "x", "b": 5}))
    properties = await done(container.read())
    before = {item["id"]: item for item in await collect(container.read_all_items())}
    last = session_token(await done(container.upsert_item({"id": "last", "pk": "p2", "email": "last"})))
    _, continuation = await first_page(container.read_all_items(max_item_count=5))
    await done(client.close())

    client = restartable().client()
    database = client.get_database_client("db")
    container = database.get_container_client("c")
    assert await done(container.read()) == properties
    assert (await done(database.get_throughput())).offer_throughput == 800
    assert (await done(container.get_throughput())).auto_scale_max_throughput == 30_000
    assert len(await collect(container.read_feed_ranges())) == 5
    after = {item["id"]: item for item in await collect(container.read_all_items())}
    assert after.pop("last")["email"] == "last"
    assert after == before
    rest, _ = await page_list(container.read_all_items(max_item_count=5), continuation)
    assert sum(map(len, rest)) == len(before) + 1 - 5
    with refused(409):
        await done(container.create_item({"id": "new", "pk": "p2", "email": "last"}))
    read = await done(container.read_item("last", "p2", session_token=last))
    assert session_token(read) == last
    written = await done(container.create_item({"id": "0", "pk": "p2", "email": "zero"}))
    assert session_token(written) != last
    assert (await done(database.get_container_client("h").read_item("1", ["x", 5])))["b"] == 5
    await done(client.close())


async def test_recreated_resources_never_share_ids_over_a_restart(restartable):
    client = restartable().client()
    database = await done(client.create_database("db"))
    container = await done(database.create_container("c", KEY_PK))
    await done(container.create_item({"id": "1", "pk": "a"}))
    old = (await done(container.read()))["_rid"]
    await done(database.delete_container("c"))
    await done(client.close())

    client = restartable().client()
    database = client.get_database_client("db")
    container = await done(database.create_container("c", KEY_PK))
    assert (await done(container.read()))["_rid"] != old
    assert await collect(container.read_all_items()) == []
    await done(client.close())
