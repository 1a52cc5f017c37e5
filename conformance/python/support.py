"""What every test needs: one way to call both clients, and one way to expect a refusal."""

import inspect
import uuid
from contextlib import contextmanager

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

KEY_PK = PartitionKey(path="/pk")


async def done(result):
    """The answer of a call, from the blocking client or from the asyncio one."""
    return await result if inspect.isawaitable(result) else result


async def describe_account(client):
    """The account's description; the asyncio client keeps that call to itself."""
    call = getattr(client, "get_database_account", None) or client._get_database_account
    return await done(call())


def cross_partition(container):
    """The option that lets a query visit every partition; the asyncio client always does."""
    return {} if inspect.iscoroutinefunction(container.read_item) else {"enable_cross_partition_query": True}


async def collect(pages):
    """Every element of a feed or query of either client."""
    if hasattr(pages, "__aiter__"):
        return [element async for element in pages]
    return list(pages)


async def page_list(paged, continuation=None):
    """The pages of a feed or query, each as a list, and the continuation behind each page."""
    by_page = paged.by_page(continuation) if continuation else paged.by_page()
    pages, tokens = [], []
    if hasattr(by_page, "__anext__"):
        async for page in by_page:
            pages.append([element async for element in page])
            tokens.append(by_page.continuation_token)
    else:
        for page in by_page:
            pages.append(list(page))
            tokens.append(by_page.continuation_token)
    return pages, tokens


async def first_page(paged, continuation=None):
    """One page of a feed or query and the continuation behind it."""
    by_page = paged.by_page(continuation) if continuation else paged.by_page()
    if hasattr(by_page, "__anext__"):
        page = [element async for element in await by_page.__anext__()]
    else:
        page = list(next(by_page))
    return page, by_page.continuation_token


class Refusal:
    """Filled in by `refused` once the call has failed."""

    error = None

    @property
    def headers(self):
        return self.error.response.headers

    @property
    def text(self):
        return str(self.error.message)


@contextmanager
def refused(status, substatus=None, text=None):
    """Expects the service to answer with `status` (and `substatus`, and `text` in the message)."""
    refusal = Refusal()
    with pytest.raises(CosmosHttpResponseError) as caught:
        yield refusal
    refusal.error = caught.value
    assert caught.value.status_code == status, caught.value
    if substatus is not None:
        assert (caught.value.sub_status or 0) == substatus, caught.value
    if text is not None:
        assert text in refusal.text
    assert refusal.headers["x-ms-activity-id"]
    assert refusal.headers["content-type"].startswith("application/json")


def new_id(prefix="i"):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def by_id(items):
    return {item["id"]: item for item in items}


def without_system(item):
    """The item as its writer sent it."""
    return {name: value for name, value in item.items() if not name.startswith("_")}


def charge(result):
    return float(result.get_response_headers()["x-ms-request-charge"])


def session_token(result):
    return result.get_response_headers()["x-ms-session-token"]


def token_lsn(token):
    """The sequence number of a token such as `0:-1#57`."""
    return int(token.rsplit("#", 1)[1])
