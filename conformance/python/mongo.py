"""Clients of the MongoDB API."""

from contextlib import contextmanager
from urllib.parse import quote

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure

from support import done

# How a client reaches the server: which listener, and whether over TLS.
VARIANTS = [
    (flavour, listener, tls)
    for flavour in ("sync", "aio")
    for listener, tls in (("mongo", False), ("mongo", True), ("mongo_cosmos", True))
]


class Mongo:
    """How this variant of the run talks to a server."""

    def __init__(self, server, certificate, flavour, listener, tls):
        self.server = server
        self.flavour = flavour
        self.listener = listener
        self.tls = tls
        self.certificate = str(certificate)

    @property
    def port(self):
        return port_of(self.server, self.listener)

    def uri(self, user="planisphere", key=None):
        """A connection string; the one of Cosmos DB's form has credentials."""
        if self.listener == "mongo_cosmos":
            secret = quote(key or self.server.key, safe="")
            options = "ssl=true&replicaSet=globaldb&retrywrites=false"
            return f"mongodb://{user}:{secret}@localhost:{self.port}/?{options}"
        return f"mongodb://127.0.0.1:{self.port}/"

    def client(self, uri=None, **options):
        """Another client of this variant; the caller closes it."""
        make = MongoClient if self.flavour == "sync" else AsyncMongoClient
        if self.tls:
            options = {"tls": True, "tlsCAFile": self.certificate, **options}
        return make(uri or self.uri(), serverSelectionTimeoutMS=5000, **options)

    async def command(self, client, name, value=1, database="admin", **fields):
        return await done(client[database].command(name, value, **fields))


def port_of(server, listener):
    return int(server.endpoints[listener].split("//")[1].split("/")[0].rsplit(":", 1)[1])


@contextmanager
def refused_command(code, name=None):
    """Expects a command to fail with this number."""
    with pytest.raises(OperationFailure) as failed:
        yield failed
    assert failed.value.code == code, failed.value
    if name is not None:
        assert failed.value.details["codeName"] == name, failed.value.details
