"""Metrics: of the server, read by Prometheus' own parser, and of single queries."""

import json
import urllib.error
import urllib.request

import pytest
from azure.cosmos import CosmosClient
from azure.cosmos.documents import ConnectionPolicy
from azure.cosmos.exceptions import CosmosHttpResponseError
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from server import Server
from support import KEY_PK


@pytest.fixture
def server():
    running = Server("--memory", "--throttling", "on")
    yield running
    running.stop()


def scrape(url):
    """All samples by name and labels."""
    with urllib.request.urlopen(url) as response:
        assert response.headers["content-type"].startswith("application/openmetrics-text")
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples), "two lines are about the same"
    return found


def value(found, name, **labels):
    return found[(name, frozenset(labels.items()))]


def operate(server, path, body):
    """Has a partition split or merged."""
    admin = server.endpoints["admin"].rstrip("/")
    operation = call(f"{admin}/databases/db/containers/c/partitions/{path}", body)
    while operation["phase"] != "Succeeded":
        assert operation["phase"] != "Failed", operation
        operation = call(f"{admin}/operations/{operation['operationId']}")
    return operation


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data)) as response:
        return json.load(response)


def fill(server):
    """A container whose only partition is asked for more than it has."""
    policy = ConnectionPolicy()
    policy.RetryOptions._max_retry_attempt_count = 0
    client = CosmosClient(server.http, server.key, connection_policy=policy)
    container = client.create_database("db").create_container("c", KEY_PK, offer_throughput=400)
    created = throttled = 0
    while throttled == 0:
        item = {"id": str(created), "pk": f"k{created % 7}", "fill": "x" * 2000}
        try:
            container.create_item(item)
            created += 1
        except CosmosHttpResponseError as error:
            assert error.status_code == 429
            throttled += 1
    return created, throttled


def test_partitions_and_requests_are_counted(server):
    created, throttled = fill(server)
    for url in (f"{server.endpoints['admin']}metrics", f"{server.http}metrics"):
        found = scrape(url)
        partition = {"database": "db", "container": "c", "partition": "0"}
        assert value(found, "planisphere_partition_items", **partition) == created
        assert value(found, "planisphere_partition_bytes", **partition) > created * 2000
        assert value(found, "planisphere_partition_request_units_limit", **partition) == 400
        assert value(found, "planisphere_partition_request_units_total", **partition) >= 400
        assert value(found, "planisphere_partition_requests_total", **partition) == created
        assert value(found, "planisphere_partition_throttled_requests_total", **partition) == throttled
        assert value(found, "planisphere_partition_status", **partition, status="online") == 1
        asked = {"api": "nosql", "wire": "http", "operation": "create_item"}
        assert value(found, "planisphere_requests_total", **asked, status="201") == created
        assert value(found, "planisphere_requests_total", **asked, status="429") == throttled
        assert value(found, "planisphere_request_duration_seconds_count", **asked) == created + throttled
        assert value(found, "planisphere_store_writable") == 1
        assert value(found, "process_resident_memory_bytes") > 1 << 20
        assert value(found, "planisphere_connections_open") >= 1


def test_splits_are_counted_and_their_children_take_over(server):
    created, _ = fill(server)
    operate(server, "0/split", {"mode": "midpoint"})
    operate(server, "1/split", {"mode": "midpoint"})
    operate(server, "merge", {"partitionIds": [3, 4]})
    found = scrape(f"{server.endpoints['admin']}metrics")
    assert value(found, "planisphere_repartitions_total", kind="split", outcome="succeeded") == 2
    assert value(found, "planisphere_repartitions_total", kind="merge", outcome="succeeded") == 1
    assert value(found, "planisphere_repartition_duration_seconds_count", kind="split") == 2
    assert value(found, "planisphere_repartition_hold_seconds_count", kind="merge") == 1
    assert value(found, "planisphere_repartitions_running", kind="split") == 0
    shown = {dict(labels)["partition"] for name, labels in found if name == "planisphere_partition_items"}
    assert shown == {"2", "5"}
    items = [
        value(found, "planisphere_partition_items", database="db", container="c", partition=number) for number in shown
    ]
    assert sum(items) == created
    assert 1 <= value(found, "planisphere_container_skew", database="db", container="c") <= 2


def test_names_of_all_kinds_are_legible(server):
    client = CosmosClient(server.http, server.key)
    name = 'a "quoted" name'
    client.create_database("db").create_container(name, KEY_PK)
    found = scrape(f"{server.endpoints['admin']}metrics")
    assert value(found, "planisphere_container_partitions", database="db", container=name) == 1


def test_with_a_key_of_its_own_metrics_need_it():
    server = Server("--memory", "--key", "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l")
    for base in (server.endpoints["admin"], server.http):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}metrics")
        assert refused.value.code == 401
        request = urllib.request.Request(f"{base}metrics", headers={"Authorization": f"Bearer {server.key}"})
        assert urllib.request.urlopen(request).status == 200
    server.stop()


QUERIES = {
    "scan": ("SELECT * FROM c", {"documentLoad", "writeOutput"}),
    "filter": ("SELECT * FROM c WHERE c.n >= 100", {"indexLookup", "documentLoad", "writeOutput"}),
    "order": ("SELECT TOP 500 * FROM c ORDER BY c.n DESC", {"indexLookup", "documentLoad"}),
    "function": ("SELECT VALUE UPPER(c.fill) FROM c", {"documentLoad", "systemFunctionExecute"}),
}


def test_queries_say_what_took_how_long():
    server = Server("--memory")
    client = CosmosClient(server.http, server.key)
    container = client.create_database("db").create_container("c", KEY_PK)
    for n in range(600):
        container.create_item({"id": str(n), "pk": "k", "n": n, "fill": "x" * 2000})
    for name, (query, phases) in QUERIES.items():
        list(container.query_items(query, partition_key="k", populate_query_metrics=True, max_item_count=1000))
        header = container.client_connection.last_response_headers["x-ms-documentdb-query-metrics"]
        metrics = {key: float(number) for key, number in (part.split("=") for part in header.split(";"))}
        time = {key.removesuffix("TimeInMs"): number for key, number in metrics.items() if key.endswith("TimeInMs")}
        for phase in phases:
            assert time[phase] > 0, (name, phase, header)
        # Clients subtract these from one another; each is rounded.
        parts = time["indexLookup"] + time["documentLoad"] + time["writeOutput"]
        assert parts <= time["VMExecution"] + 0.05, (name, header)
        assert time["VMExecution"] <= time["totalExecution"] + 0.05, (name, header)
        assert time["userFunctionExecute"] == 0, (name, header)
    list(container.query_items("SELECT * FROM c", partition_key="k"))
    assert "x-ms-documentdb-query-metrics" not in container.client_connection.last_response_headers
    server.stop()
