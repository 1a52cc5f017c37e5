"""Clients with a credential instead of a key, whose tokens a directory would issue."""

import base64
import json
import time

import pytest
from azure.core.credentials import AccessToken

from server import READONLY_KEY, Server
from support import KEY_PK, collect, describe_account, done, new_id, refused


def part(content):
    return base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()


class Credential:
    """Issues tokens whose signature is `signature`, as the emulator's credential does with its key."""

    def __init__(self, signature, flavour):
        now = int(time.time())
        claims = {"aud": "https://localhost.localhost", "iat": now, "nbf": now, "exp": now + 7200, "oid": "somebody"}
        header = {"typ": "JWT", "alg": "RS256", "kid": "CosmosEmulatorPrimaryMaster"}
        token = ".".join([part(json.dumps(header)), part(json.dumps(claims)), part(signature)])
        self.token = AccessToken(token, now + 7200)
        self.is_async = flavour == "aio"

    def get_token(self, *scopes, **_):
        async def later():
            return self.token

        return later() if self.is_async else self.token


def client_with(account, signature, server=None):
    """A client with a credential. The SDK sends tokens over https only."""
    endpoint = (server or account.server).endpoint("https")
    return account.client(Credential(signature, account.flavour), endpoint)


async def test_a_token_with_the_account_key_is_as_good_as_the_key(account):
    client = client_with(account, account.server.key)
    database = await done(client.create_database(new_id("db")))
    container = await done(database.create_container("c", KEY_PK))
    await done(container.create_item({"id": "1", "pk": "a"}))
    assert (await done(container.read_item("1", "a")))["id"] == "1"
    assert len(await collect(container.query_items("SELECT * FROM c", partition_key="a"))) == 1
    await done(client.delete_database(database))
    await done(client.close())


async def test_a_token_with_a_read_only_key_reads(account, database):
    client = client_with(account, READONLY_KEY)
    assert (await done(client.get_database_client(database.id).read()))["id"] == database.id
    with refused(403):
        await done(client.create_database(new_id("db")))
    await done(client.close())


async def test_other_tokens_are_refused(account):
    with refused(401):
        client = client_with(account, "not a key")
        try:
            await describe_account(client)
        finally:
            await done(client.close())


@pytest.fixture(scope="module")
def trusting():
    running = Server("--memory", "--directory", "trust-any")
    yield running
    running.stop()


async def test_a_server_can_be_told_to_trust_any_token(account, trusting):
    client = client_with(account, "anything", trusting)
    database = await done(client.create_database(new_id("db")))
    await done(client.delete_database(database))
    await done(client.close())
