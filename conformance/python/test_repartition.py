"""Partitions are split and merged under live traffic, and no client notices."""

import json
import random
import threading
import urllib.request

import pytest
from azure.cosmos import CosmosClient

from server import Server
from support import KEY_PK

CLIENTS = 8
CHANGES = 24
KEYS = 40


@pytest.fixture(params=["http", "https"])
def endpoint(request):
    server = Server("--memory", "--throttling", "off")
    yield server, server.endpoint(request.param)
    server.stop()


@pytest.mark.parametrize(("planned", "ranges"), [("6000", 4), ("10000", 2)])
def test_throughput_decides_the_number_of_ranges(planned, ranges):
    server = Server("--memory", "--throttling", "off", "--partition-ru-planned", planned)
    client = CosmosClient(server.http, server.key)
    container = client.create_database("db").create_container("c", KEY_PK, offer_throughput=20_000)
    assert len(live_ranges(container)) == ranges
    server.stop()


def test_more_throughput_makes_more_ranges_and_no_client_notices(endpoint):
    server, url = endpoint
    owner = CosmosClient(url, server.key, connection_verify=False)
    container = owner.create_database("db").create_container("c", KEY_PK, offer_throughput=20_000)
    assert len(live_ranges(container)) == 4
    stop = threading.Event()
    writers = [Writer(number, url, server.key, stop) for number in range(4)]
    for writer in writers:
        writer.start()
    let_them_work(writers)
    replaced = container.replace_throughput(45_000)
    while replaced.properties["content"].get("isOfferReplacePending"):
        replaced = container.get_throughput()
    let_them_work(writers)
    stop.set()
    for writer in writers:
        writer.join()
        if writer.error is not None:
            raise writer.error
    assert replaced.offer_throughput == 45_000
    assert len(live_ranges(container)) == 5
    expected = {place: n for writer in writers for place, n in writer.expected.items()}
    assert {(item["pk"], item["id"]): item["n"] for item in container.read_all_items()} == expected


class Partitions:
    """Splits and merges through the admin API."""

    def __init__(self, server, database, container):
        self._admin = f"{server.endpoints['admin']}_admin/v1"
        self._partitions = f"{self._admin}/containers/{database}/{container}/partitions"

    def split(self, range_id):
        self._finish(self._call(f"{self._partitions}/{range_id}/split", {"at": "midpoint"}))

    def merge(self, range_ids):
        self._finish(self._call(f"{self._partitions}/merge", {"ids": [str(each) for each in range_ids]}))

    def _finish(self, job):
        while job["phase"] == "preparing":
            job = self._call(f"{self._admin}/jobs/{job['id']}")
        assert job["phase"] == "succeeded", job

    @staticmethod
    def _call(url, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


def live_ranges(container):
    """Ids of the container's ranges in the order of the hash line."""
    ranges = container.client_connection._ReadPartitionKeyRanges(container.container_link)
    return [int(each["id"]) for each in sorted(ranges, key=lambda each: each["minInclusive"])]


class Writer(threading.Thread):
    """One SDK client that checks after every step that it sees what it wrote."""

    def __init__(self, number, endpoint, key, stop):
        super().__init__()
        self.number, self.stop = number, stop
        self.client = CosmosClient(endpoint, key, connection_verify=False)
        self.container = self.client.get_database_client("db").get_container_client("c")
        self.expected, self.error, self.steps = {}, None, 0

    def run(self):
        try:
            chance = random.Random(self.number)
            while not self.stop.is_set():
                self.step(chance)
                self.steps += 1
        except BaseException as error:  # noqa: BLE001 - reported by the test itself
            self.error = error

    def step(self, chance):
        pk = f"p{chance.randrange(KEYS)}"
        item_id = f"{self.number}-{chance.randrange(20)}"
        place = (pk, item_id)
        action = chance.randrange(10)
        if action == 0 and place in self.expected:
            self.container.delete_item(item_id, pk)
            del self.expected[place]
        elif action == 1:
            ids = [f"{self.number}-b{n}" for n in range(3)]
            operations = [("upsert", ({"id": each, "pk": pk, "n": self.steps},)) for each in ids]
            self.container.execute_item_batch(operations, pk)
            self.expected.update({(pk, each): self.steps for each in ids})
        elif action == 2:
            query = "SELECT c.id, c.n FROM c WHERE STARTSWITH(c.id, @prefix)"
            parameters = [{"name": "@prefix", "value": f"{self.number}-"}]
            found = self.container.query_items(query, parameters=parameters, partition_key=pk)
            wanted = {each: n for (key, each), n in self.expected.items() if key == pk}
            assert {item["id"]: item["n"] for item in found} == wanted
        elif action == 3 and self.steps % 5 == 0:
            query = "SELECT c.pk, c.id, c.n FROM c WHERE STARTSWITH(c.id, @prefix)"
            parameters = [{"name": "@prefix", "value": f"{self.number}-"}]
            found = self.container.query_items(query, parameters=parameters, enable_cross_partition_query=True)
            assert {(item["pk"], item["id"]): item["n"] for item in found} == self.expected
        else:
            self.container.upsert_item({"id": item_id, "pk": pk, "n": self.steps})
            self.expected[place] = self.steps
        if place in self.expected:
            assert self.container.read_item(item_id, pk)["n"] == self.expected[place]


def let_them_work(writers):
    """Returns when every client has got on a little, or one has given up."""
    goals = [writer.steps + 4 for writer in writers]
    while any(writer.is_alive() and writer.steps < goal for writer, goal in zip(writers, goals, strict=True)):
        threading.Event().wait(0.005)


class Follower(threading.Thread):
    """Follows the change feed of the whole container and keeps the last version of every item."""

    def __init__(self, endpoint, key, stop):
        super().__init__()
        self.stop = stop
        self.client = CosmosClient(endpoint, key, connection_verify=False)
        self.container = self.client.get_database_client("db").get_container_client("c")
        self.seen, self.lsn, self.error = {}, {}, None

    def run(self):
        try:
            continuation = None
            while True:
                is_last = self.stop.is_set()
                continuation = self.read(continuation)
                if is_last:
                    return
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def read(self, continuation):
        start = {"continuation": continuation} if continuation else {"start_time": "Beginning"}
        feed = self.container.query_items_change_feed(**start)
        for item in feed:
            place = (item["pk"], item["id"])
            # A client that finds its range gone may read a page again.
            assert item["_lsn"] >= self.lsn.get(place, 0), "the changes of an item come in order"
            self.lsn[place] = item["_lsn"]
            self.seen[place] = item["n"]
        return self.container.client_connection.last_response_headers["etag"]


def test_clients_notice_no_split_and_no_merge(endpoint):
    server, url = endpoint
    owner = CosmosClient(url, server.key, connection_verify=False)
    database = owner.create_database("db")
    container = database.create_container("c", KEY_PK)
    partitions = Partitions(server, "db", "c")
    stop, written = threading.Event(), threading.Event()
    writers = [Writer(number, url, server.key, stop) for number in range(CLIENTS)]
    follower = Follower(url, server.key, written)
    for thread in [*writers, follower]:
        thread.start()
    chance = random.Random(7)
    try:
        for _ in range(CHANGES):
            ranges = live_ranges(container)
            if len(ranges) >= 5 or (len(ranges) > 1 and chance.random() < 0.4):
                at = chance.randrange(len(ranges) - 1)
                partitions.merge(ranges[at : at + 2])
            else:
                partitions.split(chance.choice(ranges))
            let_them_work(writers)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
        written.set()
        follower.join()
    for thread in [*writers, follower]:
        if thread.error is not None:
            raise thread.error
    expected = {place: n for writer in writers for place, n in writer.expected.items()}
    stored = [((item["pk"], item["id"]), item["n"]) for item in container.read_all_items()]
    assert len(stored) == len(expected) and dict(stored) == expected
    assert {place: n for place, n in follower.seen.items() if place in expected} == expected
    assert all(writer.steps > CHANGES for writer in writers)
