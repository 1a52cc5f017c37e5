"""Requests beyond the provisioned throughput, and what the SDK makes of them."""

import pytest
from azure.cosmos.documents import ConnectionPolicy
from azure.cosmos.exceptions import CosmosHttpResponseError

from conftest import VARIANTS, Account
from server import Server
from support import KEY_PK, collect, done, new_id, refused

# Costs about 50 RU, so that a slow machine asks for more than 400 RU/s, too.
LARGE = "x" * 100_000
# Costs more than two seconds of 400 RU/s.
HUGE = "x" * 1_900_000


@pytest.fixture(scope="module")
def throttling():
    running = Server("--memory")
    yield running
    running.stop()


@pytest.fixture(params=VARIANTS, ids="-".join)
def busy(request, throttling):
    return Account(throttling, *request.param)


async def small_container(client):
    """A container with 400 RU/s in a database of its own."""
    database = await done(client.create_database(new_id("db")))
    return await done(database.create_container("c", KEY_PK, offer_throughput=400))


def client_without_retries(account):
    policy = ConnectionPolicy()
    policy.RetryOptions._max_retry_attempt_count = 0
    return account.client(connection_policy=policy)


async def same_container(client, container):
    """The container as another client sees it, which has made its acquaintance."""
    database = client.get_database_client(container.container_link.split("/")[1])
    same = database.get_container_client(container.id)
    await done(same.read())
    return same


async def test_the_sdk_waits_and_gets_through(busy):
    client = busy.client()
    container = await small_container(client)
    statuses = []

    def note(response):
        statuses.append(response.http_response.status_code)

    for number in range(20):
        item = {"id": str(number), "pk": "a", "text": LARGE}
        await done(container.create_item(item, raw_response_hook=note))
    for number in range(20):
        await done(container.read_item(str(number), "a", raw_response_hook=note))
    ids = await collect(container.query_items("SELECT VALUE c.id FROM c", partition_key="a"))
    assert sorted(ids, key=int) == [str(number) for number in range(20)]
    assert 429 in statuses, "1,000 RU fit into no second"
    await done(client.close())


async def test_without_retries_the_refusal_surfaces(busy):
    patient, hasty = busy.client(), client_without_retries(busy)
    container = await small_container(patient)
    same = await same_container(hasty, container)
    with refused(429, 3200, text="Request rate is large") as refusal:
        for number in range(200):
            await done(same.create_item({"id": str(number), "pk": "a", "text": LARGE}))
    assert int(refusal.headers["x-ms-retry-after-ms"]) >= 1
    assert float(refusal.headers["x-ms-request-charge"]) == 0.38
    await done(patient.close())
    await done(hasty.close())


async def test_more_throughput_counts_at_once(busy):
    patient, hasty = busy.client(), client_without_retries(busy)
    container = await small_container(patient)
    same = await same_container(hasty, container)
    with refused(429):
        for number in range(200):
            await done(same.create_item({"id": str(number), "pk": "a", "text": HUGE}))
    replaced = await done(container.replace_throughput(10_000))
    assert replaced.offer_throughput == 10_000
    # What takes seconds to pay back at 400 RU/s takes less than a tenth of one at 10,000.
    try:
        await done(same.create_item({"id": "after", "pk": "a"}))
    except CosmosHttpResponseError as error:
        assert error.status_code == 429, error
        assert int(error.headers["x-ms-retry-after-ms"]) <= 100
    await done(patient.close())
    await done(hasty.close())


@pytest.mark.parametrize("level", ["High", "Low"])
async def test_priorities_are_accepted(busy, level):
    client = busy.client()
    container = await small_container(client)
    await done(container.create_item({"id": "1", "pk": "a"}, priority=level))
    assert (await done(container.read_item("1", "a", priority=level)))["id"] == "1"
    await done(client.close())


async def test_unknown_priorities_are_refused(busy):
    client = busy.client()
    container = await small_container(client)
    with refused(400):
        await done(container.read_item("1", "a", priority="Medium"))
    await done(client.close())
