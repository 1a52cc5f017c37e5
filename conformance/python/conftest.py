"""One server for the whole run; every test sees it through both clients and both transports."""

import pytest
from azure.cosmos import CosmosClient
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from server import READONLY_KEY, SECONDARY_KEY, Server
from support import KEY_PK, done, new_id
from tables import VARIANTS as table_variants
from tables import Tables, new_table

VARIANTS = [(flavour, transport) for flavour in ("sync", "aio") for transport in ("http", "https")]


@pytest.fixture(scope="session")
def server():
    running = Server(
        "--memory", "--throttling", "off", "--secondary-key", SECONDARY_KEY, "--readonly-key", READONLY_KEY
    )
    yield running
    running.stop()


class Account:
    """How this variant of the run talks to a server."""

    def __init__(self, server, flavour, transport):
        self.server = server
        self.flavour = flavour
        self.transport = transport
        self.endpoint = server.endpoint(transport)

    def client(self, key=None, endpoint=None, **options):
        """Another client of this variant; the caller closes it."""
        make = CosmosClient if self.flavour == "sync" else AsyncCosmosClient
        return make(endpoint or self.endpoint, key or self.server.key, **options)


@pytest.fixture(scope="session", params=VARIANTS, ids="-".join)
def account(request, server):
    return Account(server, *request.param)


@pytest.fixture(scope="session")
async def client(account):
    connected = account.client()
    if account.flavour == "aio":
        await connected.__aenter__()
    yield connected
    await done(connected.close())


@pytest.fixture(scope="session")
async def database(client):
    created = await done(client.create_database(new_id("db")))
    yield created
    await done(client.delete_database(created))


@pytest.fixture
def make_container(database):
    """Creates containers; the database that holds them goes away at the end of the run."""

    async def make(partition_key=KEY_PK, **properties):
        return await done(database.create_container(new_id("c"), partition_key, **properties))

    return make


@pytest.fixture
async def container(make_container):
    return await make_container()


@pytest.fixture(scope="session", params=table_variants, ids="-".join)
def tables(request, server):
    return Tables(server, *request.param)


@pytest.fixture(scope="session")
async def table_service(tables):
    connected = tables.connect()
    if tables.client == "aio":
        await connected.__aenter__()
    yield connected
    await done(connected.close())


@pytest.fixture
async def table(table_service):
    return await done(table_service.create_table(new_table()))
