"""Containers that the command line and the admin API make are like those that the SDK makes."""

import json
import os
import subprocess
import urllib.request

import pytest

from support import collect, done, new_id, refused

VECTORS = {
    "vectorEmbeddings": [{"path": "/v", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 3}]
}
INDEXING = {"vectorIndexes": [{"path": "/v", "type": "flat"}]}
KEY = {"paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2}


def by_command(server, name, directory):
    """Makes the database `name` and its container `c` through the command line."""

    def command(*arguments):
        endpoint = ["--endpoint", server.endpoints["admin"]]
        subprocess.run([os.environ["PLANISPHERE_BIN"], *arguments, *endpoint], check=True, timeout=60)

    vectors, indexing = directory / "vectors.json", directory / "indexing.json"
    vectors.write_text(json.dumps(VECTORS))
    indexing.write_text(json.dumps(INDEXING))
    command("db", "create", name, "--throughput", "800")
    keys = ["--partition-key", "/tenant", "--partition-key", "/user"]
    policies = ["--unique", "/email", "--ttl", "3600", "--vectors", str(vectors), "--indexing", str(indexing)]
    command("container", "create", f"{name}/c", *keys, *policies)


def by_request(server, name, directory):
    """Makes the same by the admin API."""

    def post(path, body):
        request = urllib.request.Request(
            f"{server.endpoints['admin']}_admin/v1/{path}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 201

    post("databases", {"id": name, "throughput": {"manual": 800}})
    unique = {"uniqueKeys": [{"paths": ["/email"]}]}
    policies = {"uniqueKeyPolicy": unique, "vectorEmbeddingPolicy": VECTORS, "indexingPolicy": INDEXING}
    post(f"containers/{name}", {"id": "c", "partitionKey": KEY, "defaultTtl": 3600, **policies})


@pytest.fixture(params=[by_command, by_request], ids=["command", "request"])
async def made(request, server, client, tmp_path):
    name = new_id("made")
    request.param(server, name, tmp_path)
    database = client.get_database_client(name)
    yield database
    await done(client.delete_database(database))


async def test_a_container_made_by_hand_is_used_by_the_sdk(made):
    assert (await done(made.get_throughput())).offer_throughput == 800
    container = made.get_container_client("c")
    described = await done(container.read())
    assert (described["partitionKey"], described["defaultTtl"]) == (KEY, 3600)
    assert described["vectorEmbeddingPolicy"] == VECTORS

    def item(number, email, vector):
        return {"id": str(number), "tenant": "t", "user": "u", "email": email, "v": vector, "ttl": -1}

    await done(container.create_item(item(1, "a@x", [1.0, 0.0, 0.0])))
    await done(container.create_item(item(2, "b@x", [0.0, 1.0, 0.0])))
    with refused(409):
        await done(container.create_item(item(3, "a@x", [0.0, 0.0, 1.0])))
    assert (await done(container.read_item("2", ["t", "u"])))["email"] == "b@x"
    nearest = "SELECT TOP 1 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [0.1, 0.9, 0.0])"
    assert await collect(container.query_items(nearest, partition_key=["t", "u"])) == ["2"]
    of_tenant = await collect(container.query_items("SELECT VALUE c.id FROM c", partition_key=["t"]))
    assert sorted(of_tenant) == ["1", "2"]
