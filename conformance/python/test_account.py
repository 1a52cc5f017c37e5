"""The account itself: its description, its keys and its certificate."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from server import OTHER_KEY, READONLY_KEY, SECONDARY_KEY, Server, export_certificate
from support import collect, describe_account, done, new_id, refused


async def test_account_describes_itself(account, client):
    described = await describe_account(client)
    assert described.ConsistencyPolicy["defaultConsistencyLevel"] == "Session"
    endpoints = [location["databaseAccountEndpoint"] for location in described.WritableLocations]
    assert endpoints == [account.endpoint]
    assert [location["databaseAccountEndpoint"] for location in described.ReadableLocations] == endpoints


async def test_endpoints_follow_the_name_the_client_used(account):
    endpoint = account.endpoint.replace("127.0.0.1", "localhost")
    named = account.client(endpoint=endpoint)
    described = await describe_account(named)
    assert described.WritableLocations[0]["databaseAccountEndpoint"] == endpoint
    await done(named.close())


async def test_wrong_key_is_unauthorized(account):
    with refused(401, text="The input authorization token can't serve the request") as refusal:
        stranger = account.client(OTHER_KEY)
        try:
            await describe_account(stranger)
        finally:
            await done(stranger.close())
    # What to compare one's own key with.
    assert hashlib.sha256(account.server.key.encode()).hexdigest()[:8] in refusal.text


async def test_secondary_key_is_as_good_as_the_primary(account):
    client = account.client(SECONDARY_KEY)
    database = await done(client.create_database(new_id("db")))
    await done(client.delete_database(database))
    await done(client.close())


async def test_read_only_key_reads_and_does_not_write(account, database, container):
    await done(container.create_item({"id": "1", "pk": "a"}))
    reader = account.client(READONLY_KEY)
    there = reader.get_database_client(database.id).get_container_client(container.id)
    assert (await done(there.read_item("1", "a")))["id"] == "1"
    assert len(await collect(there.read_all_items())) == 1
    assert len(await collect(there.query_items("SELECT * FROM c", partition_key="a"))) == 1
    for attempt in (
        lambda: there.create_item({"id": "2", "pk": "a"}),
        lambda: there.upsert_item({"id": "1", "pk": "a"}),
        lambda: there.replace_item("1", {"id": "1", "pk": "a"}),
        lambda: there.patch_item("1", "a", [{"op": "set", "path": "/n", "value": 1}]),
        lambda: there.delete_item("1", "a"),
        lambda: there.execute_item_batch([("create", ({"id": "2", "pk": "a"},))], "a"),
        lambda: there.delete_all_items_by_partition_key("a"),
        lambda: reader.create_database(new_id("db")),
        lambda: reader.get_database_client(database.id).delete_container(container.id),
    ):
        with refused(403):
            await done(attempt())
    await done(reader.close())
    assert [item["id"] for item in await collect(container.read_all_items())] == ["1"]


def connect_verified(server, flavour, trusted):
    """Runs a client that checks certificates, in an environment that trusts `trusted` alone."""
    endpoint = f"https://[::1]:{server.port}/"
    environment = {**os.environ, "SSL_CERT_FILE": str(trusted), "REQUESTS_CA_BUNDLE": str(trusted)}
    command = [sys.executable, Path(__file__).with_name("verified_client.py"), flavour, endpoint, server.key]
    return endpoint, subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("flavour", ["sync", "aio"])
def test_certificate_verifies(server, flavour, tmp_path):
    endpoint, ended = connect_verified(server, flavour, export_certificate(server, tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == endpoint


@pytest.mark.parametrize("flavour", ["sync", "aio"])
def test_certificate_of_another_server_does_not_verify(server, flavour, tmp_path):
    stranger = Server("--memory")
    trusted = export_certificate(stranger, tmp_path)
    stranger.stop()
    _, ended = connect_verified(server, flavour, trusted)
    assert ended.returncode != 0
    assert "certificate" in ended.stderr.lower()
