"""Sends the SDK's tests to the server under test, and does not wait for a service to settle.

Some tests make up the address of an account from its name. Connections to such hosts go to the
server's listeners instead; its certificate does not know those names, so none is checked.
"""

import asyncio
import os
import socket
import time
from urllib.parse import urlsplit

import aiohttp.connector
import pytest
import urllib3.connection
import urllib3.util.connection

SLEEP_MAX_S = 0.2

_sleep, _sleep_async = time.sleep, asyncio.sleep
time.sleep = lambda seconds: _sleep(min(seconds, SLEEP_MAX_S))


async def _short_sleep(delay, *args, **kwargs):
    return await _sleep_async(min(delay, SLEEP_MAX_S), *args, **kwargs)


asyncio.sleep = _short_sleep

STORAGE_URL, COSMOS_URL = os.environ["TABLES_STORAGE_URL"], os.environ["TABLES_COSMOS_URL"]
STORAGE_NAME, COSMOS_NAME = os.environ["TABLES_STORAGE_ACCOUNT_NAME"], os.environ["TABLES_COSMOS_ACCOUNT_NAME"]


def listener_of(host):
    """The address that stands for a host of the service; none for other hosts."""
    is_cosmos = ".table.cosmos." in host or host.startswith(f"{COSMOS_NAME}-secondary.")
    if ".table.core." not in host and not is_cosmos:
        return None
    port = urlsplit(COSMOS_URL if is_cosmos else STORAGE_URL).port
    return "127.0.0.1", port


_create_connection = urllib3.util.connection.create_connection
_resolve_host = aiohttp.connector.TCPConnector._resolve_host
_connect = urllib3.connection.HTTPSConnection.connect


def create_connection(address, *args, **kwargs):
    return _create_connection(listener_of(address[0]) or address, *args, **kwargs)


def connect(connection):
    connection.cert_reqs, connection.assert_hostname = "CERT_NONE", False
    return _connect(connection)


async def resolve_host(connector, host, port, *args, **kwargs):
    listener = listener_of(host)
    if listener is None:
        return await _resolve_host(connector, host, port, *args, **kwargs)
    address, port = listener
    return [
        {"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
    ]


urllib3.util.connection.create_connection = create_connection
urllib3.connection.HTTPSConnection.connect = connect
aiohttp.connector.TCPConnector._resolve_host = resolve_host
aiohttp.connector._SSL_CONTEXT_VERIFIED = aiohttp.connector._SSL_CONTEXT_UNVERIFIED


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    from _shared.testcase import TableTestCase

    original = TableTestCase.account_url
    urls = {("table", STORAGE_NAME): STORAGE_URL, ("cosmos", COSMOS_NAME): COSMOS_URL}

    def account_url(case, account, kind):
        name = getattr(account, "name", account)
        return urls.get((kind, name)) or original(case, account, kind)

    TableTestCase.account_url = account_url
