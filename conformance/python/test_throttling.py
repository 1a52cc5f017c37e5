"""Requests beyond the provisioned throughput, and what the SDK makes of them."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.cosmos.documents import ConnectionPolicy
from azure.cosmos.exceptions import CosmosHttpResponseError

from conftest import VARIANTS, Account
from server import Server
from support import KEY_PK, charge, collect, done, new_id, refused

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


class Meter:
    """Adds up what was served of 400 RU/s, and for how long."""

    # The bucket that was full at first, and what comes while the client gets going.
    FIRST = 800

    def __init__(self):
        self._lock = threading.Lock()
        self._units = 0
        self._started = time.monotonic()
        self._mark = None

    def note(self, units):
        with self._lock:
            self._units += units
            if self._mark is None and self._units >= self.FIRST:
                self._mark = self._units, time.monotonic()

    def deviation(self):
        """How far what was served is from what was provisioned: too much since the start, or else after
        the first requests."""
        ended = time.monotonic()
        too_much = (self._units - 400) / (400 * (ended - self._started)) - 1
        units, since = self._mark
        return too_much if too_much > 0 else min(0, (self._units - units) / (400 * (ended - since)) - 1)


async def at_the_rate(client, work):
    """Runs `work` on a container with 400 RU/s, which must be served, and every call of it. A machine that is busy
    with other things may need another attempt for the rate."""
    deviations = []
    while not deviations or (abs(deviations[-1]) >= 0.05 and len(deviations) < 3):
        container = await small_container(client)
        await done(container.read())
        meter = Meter()
        await done(work(container, meter))
        deviations.append(meter.deviation())
    assert abs(deviations[-1]) < 0.05, deviations


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


def small(name):
    """An item of less than 200 bytes."""
    return {"id": name, "pk": name, "text": "x" * 100}


def in_threads(*works):
    """Runs all at once, each in a thread of its own."""
    with ThreadPoolExecutor(len(works)) as threads:
        for ended in [threads.submit(work) for work in works]:
            ended.result()


def upserts(container, meter, name, count, text=None):
    """What upserts new items, one after the other."""

    def work():
        for number in range(count):
            item = small(f"{name}-{number}")
            meter.note(charge(container.upsert_item({**item, "text": text or item["text"]})))

    return work


async def test_sixteen_threads_with_the_sdks_defaults_get_through(throttling):
    client = Account(throttling, "sync", "http").client()
    await at_the_rate(client, lambda c, meter: in_threads(*(upserts(c, meter, n, 40) for n in range(16))))
    client.close()


async def test_a_large_item_gets_its_turn_among_small_ones(throttling):
    client = Account(throttling, "sync", "http").client()

    def work(container, meter):
        many = (upserts(container, meter, n, 20) for n in range(16))
        in_threads(upserts(container, meter, "large", 6, LARGE), *many)

    await at_the_rate(client, work)
    client.close()


async def test_fifty_at_once_with_queries_and_deletes_get_through(throttling):
    async def one(container, meter, number):
        hook = {"response_hook": lambda headers, _: meter.note(float(headers["x-ms-request-charge"]))}
        names = [f"{number}-{n}" for n in range(4)]
        for name in names:
            await container.upsert_item(small(name), **hook)
        for name in names[:2]:
            query = container.query_items("SELECT * FROM c WHERE c.text != ''", partition_key=name, **hook)
            assert [item["id"] async for item in query] == [name]
        await container.read_item(names[0], names[0], **hook)
        for name in names[1:]:
            await container.delete_item(name, name, **hook)

    async def work(container, meter):
        await asyncio.gather(*(one(container, meter, number) for number in range(50)))

    async with Account(throttling, "aio", "http").client() as client:
        await at_the_rate(client, work)


async def exhaust(container):
    """Asks for many seconds of 400 RU/s."""
    for _ in range(8):
        await done(container.create_item({"id": new_id(), "pk": "a", "text": HUGE}))


async def test_throughput_is_a_limit_where_it_was_asked_for(throttling):
    busy = Account(throttling, "sync", "http")
    client, hasty = busy.client(), client_without_retries(busy)
    database = client.create_database(new_id("db"))
    container = database.create_container("c", KEY_PK)
    same = await same_container(hasty, container)
    await exhaust(same)
    # What clients see of it is as ever.
    assert container.get_throughput().offer_throughput == 400
    container.replace_throughput(400)
    with refused(429, 3200):
        await exhaust(same)
    client.close()
    hasty.close()


async def test_throughput_of_a_database_limits_its_containers(throttling):
    busy = Account(throttling, "sync", "http")
    client, hasty = busy.client(), client_without_retries(busy)
    database = client.create_database(new_id("db"), offer_throughput=400)
    container = database.create_container("c", KEY_PK)
    with refused(429, 3200):
        await exhaust(await same_container(hasty, container))
    with refused(429, 3200):
        await exhaust(await same_container(hasty, database.create_container("d", KEY_PK)))
    client.close()
    hasty.close()


async def test_throttling_can_be_on_for_all():
    running = Server("--memory", "--throttling", "on")
    try:
        busy = Account(running, "sync", "http")
        client, hasty = busy.client(), client_without_retries(busy)
        container = client.create_database(new_id("db")).create_container("c", KEY_PK)
        with refused(429, 3200):
            await exhaust(await same_container(hasty, container))
        client.close()
        hasty.close()
    finally:
        running.stop()


async def test_the_first_refusal_of_a_container_is_logged_with_what_to_do():
    running = Server("--memory")
    try:
        busy = Account(running, "sync", "http")
        hasty = client_without_retries(busy)
        database = hasty.create_database(new_id("db"))
        for name in ("first", "second"):
            container = database.create_container(name, KEY_PK, offer_throughput=400)
            for _ in range(2):
                with refused(429, 3200):
                    await exhaust(container)
        hasty.close()
        lines = [line for line in running.log().splitlines() if "429" in line]
        assert len(lines) == 2, lines
        assert "--throttling off" in lines[0] and "first" in lines[0] and "second" in lines[1]
    finally:
        running.stop()
