"""Connects with certificate checks on and prints what the account calls itself.

The SDK never checks the certificate of `localhost` and `127.0.0.1`, so the endpoint must have
another name. Trust comes from the environment, as `planisphere cert` explains; it is read when the
TLS libraries are loaded, which is why this is a program of its own.
"""

import asyncio
import sys

from azure.cosmos import CosmosClient
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from support import describe_account


async def main(flavour, endpoint, key):
    if flavour == "sync":
        with CosmosClient(endpoint, key) as client:
            account = await describe_account(client)
    else:
        async with AsyncCosmosClient(endpoint, key) as client:
            account = await describe_account(client)
    print(account.WritableLocations[0]["databaseAccountEndpoint"])


asyncio.run(main(*sys.argv[1:]))
