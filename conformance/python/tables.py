"""What the table tests need: both flavours of the API through both clients."""

import uuid
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

from support import done

STORAGE_ACCOUNT = "devstoreaccount1"
STORAGE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

VARIANTS = [(client, flavour) for client in ("sync", "aio") for flavour in ("storage", "cosmos")]


class Tables:
    """How this variant of the run talks to the tables of a server."""

    def __init__(self, server, client, flavour):
        self.server = server
        self.client = client
        self.flavour = flavour

    @property
    def is_storage(self):
        return self.flavour == "storage"

    @property
    def endpoint(self):
        if self.is_storage:
            return self.server.endpoints["table_storage"].rstrip("/")
        # The SDK tells the flavours apart by this name.
        return f"http://localhost:{urlsplit(self.server.endpoints['table']).port}"

    @property
    def credential(self):
        if self.is_storage:
            return AzureNamedKeyCredential(STORAGE_ACCOUNT, STORAGE_KEY)
        return AzureNamedKeyCredential("localhost", self.server.key)

    def connect(self, credential=None, **options):
        """A client of the whole account; the caller closes it."""
        make = TableServiceClient if self.client == "sync" else AsyncTableServiceClient
        return make(self.endpoint, credential=credential or self.credential, **options)


class Caught:
    """Filled in by `refused_table` once the call has failed."""

    error = None


@contextmanager
def refused_table(status, code=None):
    """Expects the service to answer with `status` and, in the body, `code`."""
    caught = Caught()
    with pytest.raises(HttpResponseError) as raised:
        yield caught
    caught.error = raised.value
    assert raised.value.status_code == status, raised.value
    if code is not None:
        assert code_of(raised.value) == code, raised.value


def code_of(error):
    """The service's code; not all of the SDK's errors carry it."""
    return getattr(error, "error_code", None) or error.response.headers["x-ms-error-code"]


def new_table():
    return f"t{uuid.uuid4().hex[:12]}"


def entity(row="r", partition="p", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


def keys(entities):
    return [(each["PartitionKey"], each["RowKey"]) for each in entities]


async def put_all(table, entities):
    for each in entities:
        await done(table.upsert_entity(each))
