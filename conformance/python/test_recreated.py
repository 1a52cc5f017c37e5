"""A container that was deleted and made again under the same name is another container."""

from azure.cosmos import PartitionKey

from support import KEY_PK, collect, cross_partition, done, refused


async def recreate(database, container, partition_key=KEY_PK, **properties):
    await done(database.delete_container(container.id))
    return await done(database.create_container(container.id, partition_key, **properties))


async def test_recreated_container_is_empty_and_new(account, database, container):
    before = await done(container.read())
    await done(container.create_item({"id": "1", "pk": "a"}))
    await recreate(database, container)
    fresh = account.client()
    again = fresh.get_database_client(database.id).get_container_client(container.id)
    after = await done(again.read())
    assert after["_rid"] != before["_rid"]
    assert await collect(again.read_all_items()) == []
    with refused(404, substatus=0):
        await done(again.read_item("1", "a"))
    await done(fresh.close())


async def test_stale_client_notices_and_goes_on(account, database, container):
    stale = account.client()
    there = stale.get_database_client(database.id).get_container_client(container.id)
    await done(there.create_item({"id": "1", "pk": "a"}))
    await recreate(database, container, PartitionKey(path="/other"))
    await done(there.create_item({"id": "2", "other": "x"}))
    assert (await done(there.read_item("2", "x")))["other"] == "x"
    assert len(await collect(there.query_items("SELECT * FROM c", **cross_partition(there)))) == 1
    await done(stale.close())


async def test_intended_container_is_checked(database, container):
    """The raw answer to a stale client, before the SDK heals it."""
    old = (await done(container.read()))["_rid"]
    again = await recreate(database, container)
    statuses = []

    def stale(request):
        request.http_request.headers["x-ms-cosmos-intended-collection-rid"] = old

    def remember(response):
        headers = response.http_response.headers
        statuses.append((response.http_response.status_code, headers.get("x-ms-substatus")))

    with refused(400, substatus=1024):
        await done(again.read_item("1", "a", raw_request_hook=stale, raw_response_hook=remember))
    assert (400, "1024") in statuses
